"""The scripts in examples/ run, and the README prints what it says."""

import re
import runpy

import numpy as np
import pytest

import kapitza as kz
from conftest import ROOT

SCRIPTS = sorted(path.name for path in (ROOT / "examples").glob("*.py"))
MEASURED = {"look_at_a_recording.py"}
"""Examples on recordings that do not come with the project."""
NUMBER = r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?"


@pytest.mark.parametrize("name", SCRIPTS)
def test_example_runs(name, tmp_path, monkeypatch, capsys, request):
    if name in MEASURED:
        request.getfixturevalue("data_folder")
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
    printed = capsys.readouterr().out
    assert name in PRINTED, f"{name}: say in PRINTED what it must print"
    PRINTED[name](printed, names)


def near(printed: str, pattern: str, *wanted: float, rel: float) -> None:
    """The numbers that a pattern finds are the known ones, in this order."""
    found = [float(each) for each in re.findall(pattern.replace("#", f"({NUMBER})"), printed)]
    assert found == pytest.approx(list(wanted), rel=rel), printed


def covers(printed: str, **truth: float) -> None:
    """Printed estimates lie within five of their printed standard errors of the values behind the data."""
    rows = {n: (float(v), float(e)) for n, v, e in re.findall(rf"(\w+)\s*= ({NUMBER}) ± ({NUMBER})", printed)}
    for name, value in truth.items():
        estimate, error = rows[name]
        assert abs(estimate - value) < 5 * error, f"{name} = {estimate} ± {error}, {value} is true"


def double_pendulum(printed, names):
    off = [float(each) for each in re.findall(rf"off by ({NUMBER}) %", printed)]
    assert len(off) >= 9
    assert max(map(abs, off)) < 0.1


def duffing(printed, names):
    covers(printed, c=0.25, k1=-1.0, k3=1.0)
    assert "report: out" in printed


def families(printed, names):
    # Folds of the hardening oscillator at B = 0.3, c = 0.1, as an independent continuation gives them (docs/results).
    near(printed, "fold at omega = #", 1.77972, 1.32424, rel=1e-5)
    first, second = (float(each) for each in re.search(rf"multipliers \[({NUMBER})\s+({NUMBER})\]", printed).groups())
    # Their product is e^{-cT}, whatever the orbit.
    middle = names["middle"]
    assert first * second == pytest.approx(np.exp(-0.1 * middle.period), rel=5e-3)
    assert first > 1 > second
    near(printed, r"amplitude # at", free_amplitude(2.0), rel=1e-3)


def free_amplitude(frequency: float) -> float:
    """Amplitude of x'' + x + x³ = 0 at a frequency, by elliptic integrals."""
    from scipy.optimize import brentq
    from scipy.special import ellipk

    return brentq(lambda a: np.pi * np.sqrt(1 + a**2) / (2 * ellipk(a**2 / (2 + 2 * a**2))) - frequency, 0.1, 5.0)


def energy(printed, names):
    rows = dict(re.findall(rf"(?m)^(\S+(?: - \S+)?)\s+({NUMBER})\s+{NUMBER}\s+{NUMBER}$", printed))
    # Two equal pendulums: φ₁'² + φ₁'φ₂' cos(φ₁ - φ₂) + φ₂'²/2 - (g/l)(2 cos φ₁ + cos φ₂).
    assert float(rows["phi1'**2"]) == pytest.approx(1.0, rel=5e-3)
    assert float(rows["phi2'**2"]) == pytest.approx(0.5, rel=5e-3)
    assert float(rows["cos(phi1)"]) / float(rows["cos(phi2)"]) == pytest.approx(2.0, rel=1e-2)


def followed_rig(printed, names):
    found = [(float(v), float(e)) for v, e in re.findall(rf"fold at omega = ({NUMBER}) ± ({NUMBER})", printed)]
    assert len(found) == 2
    for (value, error), truth in zip(found, (1.77972, 1.32424), strict=True):
        assert abs(value - truth) < 3 * error


def upright(printed, names):
    # Kapitza's condition: held up above ω = √(2 g l)/A.
    near(printed, "above omega = #", round(names["limit"]), rel=1e-9)
    rows = re.findall(rf"omega =\s+({NUMBER}) rad/s: largest \|multiplier\| ({NUMBER}), (\w+)", printed)
    assert len(rows) >= 4
    for omega, growth, word in rows:
        held = float(omega) > names["limit"]
        assert (word == "stable") == held == (float(growth) < 1)


def says(*words: str):
    def check(printed, names):
        for word in words:
            assert re.search(word, printed), f"{word!r} is missing in\n{printed}"

    return check


def lorenz(printed, names):
    covers(printed, sigma=10.0, rho=28.0, beta=8 / 3)
    assert float(re.search(rf"predicts ({NUMBER}) time units", printed)[1]) > 2


def sensor(printed, names):
    covers(printed, c=0.05, k=0.5, k3=0.25, volt_gain=2.0, volt_offset=0.3, volt_drift=0.002)
    # m and the gain scale together: only what does not change with them is determined.
    assert "only c/m, k/m, k3/m**3, gain/m" in printed
    assert printed.rstrip().endswith("agree")


def own_rig(printed, names):
    # Liouville: areas shrink by e^{-cT/m}, whatever the spring.
    model, end = names["model"], names["end"]
    damping = model.values["c"] / model.values["m"]
    assert np.linalg.det(end.jacobian) == pytest.approx(np.exp(-damping * model.period), rel=1e-6)
    assert "state after one period" in printed


PRINTED = {
    "double_pendulum_friction.py": double_pendulum,
    "duffing_fit.py": duffing,
    "families.py": families,
    "find_energy.py": energy,
    "follow_a_rig.py": followed_rig,
    "friction_from_energy.py": lambda printed, names: near(printed, r"c\s+= # ±", 0.05, rel=2e-3),
    "kapitza_pendulum.py": upright,
    "look_at_a_recording.py": says(r"\d+ orbits\."),
    "lorenz_from_one_channel.py": lorenz,
    "orbits_in_a_record.py": says("period", "saved in"),
    "orbits_to_parameters.py": lambda printed, names: covers(printed, l=names["rig"].values["l"]),
    "own_rig.py": own_rig,
    "recording_with_gaps.py": says(r"segments, each regular: True", "read back: "),
    "uncalibrated_sensor.py": sensor,
}
"""What each example must print, from theory or from the values that made its data."""


def test_examples_are_listed():
    listed = set(re.findall(r"`(\w+\.py)`", (ROOT / "examples" / "README.md").read_text(encoding="utf-8")))
    assert listed == set(SCRIPTS)


def test_inverted_pendulum_is_held_up_where_theory_says(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path(str(ROOT / "examples" / "kapitza_pendulum.py"))
    model, limit = names["model"], names["limit"]
    growth = {
        factor: np.abs(kz.solve_orbit(model.with_values(omega=factor * limit), [np.pi, 0.0]).multipliers).max()
        for factor in (0.9, 1.1)
    }
    assert growth[0.9] > 1 > growth[1.1]


def test_readme_example_prints_what_the_readme_shows(capsys, tmp_path):
    """The same words, and the same estimates to a thousandth (their errors may differ in the last digits)."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert code is not None
    shown = re.search(r"```text\n(.*?)```", readme[code.end() :], re.DOTALL)
    assert shown is not None
    assert len(code.group(1).splitlines()) <= 15
    script = tmp_path / "readme.py"
    script.write_text(code.group(1), encoding="utf-8")
    runpy.run_path(str(script))
    printed = capsys.readouterr().out
    values = [dict(re.findall(rf"(\w+)\s*= ({NUMBER})", text)) for text in (shown.group(1), printed)]
    assert values[0].keys() == values[1].keys()
    for name, value in values[0].items():
        assert float(values[1][name]) == pytest.approx(float(value), rel=1e-3)
