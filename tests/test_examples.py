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
    runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
    assert capsys.readouterr().out


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
