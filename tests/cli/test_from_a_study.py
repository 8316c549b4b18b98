"""Commands that go on from a study that was run; expected values from closed forms and the true values."""

import importlib.util
import json
import re

import numpy as np
import pandas as pd
import pytest

import kapitza as kz
from kapitza.cli import main
from kapitza.cli.families import response_sentence
from kapitza.cli.validate import _require_drives
from kapitza.errors import DataError
from kapitza.model import harmonic_drive
from kapitza.study import model_to_follow, read_alike, write_new_study

STUDY = """
[model]
equations = ["x'' + c*x' + k*x = B*cos(omega*t)"]
parameters = {c = 0.3, k = 3.0, B = 0.8, omega = 1.5}
excitation = {period = "2*pi/omega"}
[data]
file = "run.csv"
[fit]
free = ["c", "k", "B"]
method = "shooting"
[output]
report = false
"""
TRUTH = {"c": 0.2, "k": 4.0, "B": 1.0, "omega": 1.5}


def run(capsys, *arguments) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(a) for a in arguments])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    model = kz.Model.from_equations(
        "x'' + c*x' + k*x = B*cos(omega*t)", parameters=TRUTH, period="2*pi/omega", start={"x": 0.5, "x'": 0.0}
    )
    record = kz.simulate(model, t=np.arange(300) * 0.1).select(["x"])
    kz.write(kz.measure(record, noise=0.01, seed=2), folder / "run.csv")
    (folder / "run.toml").write_text(STUDY)
    kz.read_study(folder / "run.toml").run(kz.Silent())
    return folder


def test_the_frequency_response_is_that_of_the_oscillator(capsys, place):
    """|x| = B / sqrt((k - ω²)² + (c ω)²), at the fitted values."""
    out = place / "response.csv"
    code, said, _ = run(
        capsys, "frequency-response", place / "run.toml", "--from", 0.2, "--to", 0.45, "--force", "B", "--out", out,
        "--plot", place / "response.png",
    )  # fmt: skip
    assert code == 0
    assert "; no fold" in " ".join(said.split())
    table, values = pd.read_csv(out), kz.read_results(place / "run-results").best.values
    omega = 2 * np.pi * table["frequency [Hz]"].to_numpy()
    expected = values["B"] / np.hypot(values["k"] - omega**2, values["c"] * omega)
    np.testing.assert_allclose(table["x amplitude"], expected, rtol=1e-3)
    assert set(table["stability"]) == {"stable"}
    assert (place / "response.png").stat().st_size > 1000


def test_branches_of_the_fitted_model(capsys, place):
    code, said, _ = run(capsys, "follow", place / "run.toml", "-p", "omega", "--from", 1.2, "--to", 1.8)
    assert code == 0
    assert "omega from 1.2 to 1.8" in said
    code, said, _ = run(
        capsys, "diagram", place / "run-results", "-p", "omega", "--from", 1.2, "--to", 1.6, "--depth", 0
    )
    assert code == 0
    assert said.startswith("1 branch")
    code, _, err = run(capsys, "follow", place / "run.toml", "-p", "omga", "--from", 1, "--to", 2)
    assert code == 2
    assert 'Did you mean "omega"?' in " ".join(err.split())
    code, _, err = run(capsys, "follow", place / "run.toml", "-p", "omega", "--from", 2, "--to", 1)
    assert "the smaller first" in " ".join(err.split())


def test_how_sure_the_answer_is(capsys, place):
    fit = kz.read_results(place / "run-results").best
    code, _, _ = run(capsys, "profile", place / "run.toml", "-p", "c", "--points", 5, "--out", place / "c.csv")
    assert code == 0
    curve = pd.read_csv(place / "c.csv")
    assert curve["value"][int(curve["rise"].idxmin())] == pytest.approx(fit.values["c"])
    code, said, _ = run(capsys, "ensemble", place / "run.toml", "--runs", 6, "--out", place / "repeated.csv")
    assert code == 0
    assert "6 repetitions" in said
    repeated = pd.read_csv(place / "repeated.csv")
    # Six repetitions scatter by the stated error: chi-square of 5 degrees of freedom between 0.05 and 20.5 (0.999).
    ratio = 5 * repeated["c"].var() / fit.deviations["c"] ** 2
    assert 0.05 < ratio < 20.5


def test_draws_of_the_posterior_have_the_deviation_of_the_fit(capsys, place):
    pytest.importorskip("emcee")
    fit = kz.read_results(place / "run-results").best
    code, said, _ = run(capsys, "posterior", place / "run.toml", "--draws", 100, "--out", place / "draws.csv")
    assert code == 0
    assert "draws written" in said
    draws = pd.read_csv(place / "draws.csv")
    assert draws["k"].std() == pytest.approx(fit.deviations["k"], rel=0.25)


def test_a_study_that_has_not_changed_keeps_its_results(capsys, tmp_path, place):
    for name in ("run.csv", "run.toml"):
        (tmp_path / name).write_bytes((place / name).read_bytes())
    study, results = tmp_path / "run.toml", tmp_path / "run-results"
    run(capsys, "identify", study, "-q")
    before = (results / "result.json").stat().st_mtime_ns
    code, out, err = run(capsys, "identify", study, "-q")
    assert code == 0
    assert "have not changed" in " ".join(err.split())
    assert "k = " in out
    assert (results / "result.json").stat().st_mtime_ns == before
    study.write_text(STUDY.replace("c = 0.3", "c = 0.25"))
    _, _, err = run(capsys, "identify", study, "-q")
    assert "kept in run-results-1" in " ".join(err.split())
    old = json.loads((tmp_path / "run-results-1" / "result.json").read_text())
    assert old["parameters"]
    assert kz.read_results(tmp_path / "run-results-1").best.start["c"] == 0.3
    assert kz.read_results(results).best.start["c"] == 0.25
    run(capsys, "identify", study, "-q", "--replace")
    assert not (tmp_path / "run-results-2").exists()


def test_sensors_columns_and_spans_of_a_study(tmp_path):
    """A sensor with an offset reads x - base, where base is another column; two seconds are held back."""
    time = np.arange(400) * 0.05
    model = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.1, "k": 4.0})
    motion = kz.simulate(model, x0=[1.0, 0.0], t=time)["x"]
    random = np.random.default_rng(4)
    base = 0.3 * np.sin(0.7 * time)
    gap = motion - base + 0.5 + 0.005 * random.standard_normal(time.size)
    kz.write(kz.Record.from_arrays(time, {"gap": gap, "base": base}), tmp_path / "run.csv")
    (tmp_path / "run.toml").write_text(
        """
[model]
equations = ["x'' + c*x' + k*x = 0"]
parameters = {c = 0.2, k = 3.5}
[data]
file = "run.csv"
measures = {gap = "x - base"}
sensors = {gap = {unknown = "offset"}}
hold_back = [[8.0, 10.0]]
[fit]
free = ["c", "k"]
method = "shooting"
[output]
report = false
"""
    )
    result = kz.read_study(tmp_path / "run.toml").run(kz.Silent())
    fit = result.best
    for name, true in {"c": 0.1, "k": 4.0, "gap_offset": 0.5}.items():
        assert abs(fit.values[name] - true) < 4 * fit.deviations[name]
    assert not ((fit.motion.sample_times >= 8.0) & (fit.motion.sample_times < 10.0)).any()
    tested = result.chosen.validation
    assert tested is not None
    assert tested.record.time[0] == pytest.approx(8.0)
    assert tested.record.time[-1] == pytest.approx(9.95)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('sensors = {x = {ofset = "offset"}}', 'has no "ofset"'),
        ("hold_back = [[40.0, 50.0]]", "the recording spans"),
        ("hold_back = [[2.0, 1.0]]", "the earlier time first"),
    ],
)
def test_bad_sensors_and_spans_are_refused(place, tmp_path, line, message):
    (tmp_path / "run.csv").write_bytes((place / "run.csv").read_bytes())
    (tmp_path / "run.toml").write_text(STUDY.replace('file = "run.csv"', f'file = "run.csv"\n{line}'))
    with pytest.raises(kz.StudyError, match=message):
        kz.read_study(tmp_path / "run.toml")


def test_a_measured_drive_becomes_a_harmonic_one():
    """The amplitude of a driven oscillator at resonance is F / (c ω)."""
    time = np.arange(200) * 0.05
    signal = kz.Signal("F", time, np.cos(2.0 * time) * 3.0, 10.0)
    model = kz.Model.from_equations("x'' + c*x' + k*x = F", parameters={"c": 0.1, "k": 4.0}, signals=[signal])
    driven = harmonic_drive(model, "F").with_values(F_level=0.2, omega=2.0)
    orbit = kz.solve_orbit(driven)
    assert np.abs(orbit.profile.states[:, 0]).max() == pytest.approx(0.2 / (0.1 * 2.0), rel=1e-3)
    with pytest.raises(kz.KapitzaError, match='no signal "G"'):
        harmonic_drive(model, "G")


def test_new_studies_take_a_drive_and_equations(capsys, tmp_path):
    run(capsys, "example", "shaker", "--folder", tmp_path)
    recording = tmp_path / "shaker.csv"
    code, _, _ = run(capsys, "new", recording, "--drive", "F", "--equation", "m*x'' + c*x' + k*x + k3*x**3 = F")
    assert code == 0
    study = kz.read_study(tmp_path / "shaker.toml")
    assert study.candidates[0].free == ("m", "c", "k", "k3")
    assert [signal.name for signal in study.fitted[0].signals] == ["F"]
    code, _, err = run(capsys, "example", "shaker", "--folder", tmp_path)
    assert code == 2
    assert "there already" in err
    code, _, err = run(capsys, "example", "shakr")
    assert 'Did you mean "shaker"?' in " ".join(err.split())


def test_a_drive_that_is_not_measured_is_refused(place):
    fit = kz.read_results(place / "run-results").chosen
    with pytest.raises(kz.KapitzaError, match="not a measured drive"):
        model_to_follow(fit, {}, "F")


def test_a_column_takes_the_name_that_the_equation_gives_it(capsys, tmp_path):
    run(capsys, "example", "shaker", "--folder", tmp_path)
    arguments = ("--drive", "F", "--equation", "m*z'' + c*z' + k*z = F")
    code, _, _ = run(capsys, "new", tmp_path / "shaker.csv", *arguments)
    assert code == 0
    assert kz.read_study(tmp_path / "shaker.toml").fitted[0].record.channels == ("z", "F")


def test_a_new_recording_brings_its_own_drive():
    """`kapitza validate` under the drive that was measured with the recording, not under that of the fit."""
    times = np.arange(300) * 0.1
    first, second = (kz.Signal("F", times, drive(times), degree=3) for drive in (np.sin, lambda t: np.cos(1.7 * t)))
    true = {"c": 0.3, "k": 4.0}
    model, other = (
        kz.Model.from_equations("x'' + c*x' + k*x = F", parameters=true, signals=[s]) for s in (first, second)
    )
    fit = kz.identify(model, kz.measure(kz.simulate(model, [0.5, 0.0], t=times), noise=0.01, seed=1), list(true))
    record = kz.measure(kz.simulate(other, [0.0, 0.0], t=times), noise=0.01, seed=2).with_channel("F", second.values)
    check = kz.validate(fit, record, parts=["terms", "prediction"])
    assert np.allclose(check.model.signals[0].values, second.values)
    assert check.rejected is False
    assert check.prediction.fit_misfit.max() < 1.3
    with pytest.raises(DataError, match=r'"F" drives the model and is not a column of new\.csv'):
        _require_drives(fit, record.select(["x"]), "new.csv")


@pytest.fixture(scope="module")
def shaken(tmp_path_factory):
    """A hardening rig under a sweep, in columns that the equation does not name."""
    folder = tmp_path_factory.mktemp("shaken")
    times = np.arange(600) * 0.03
    force = 3.0 * np.sin(2.0 * times + 0.1 * times**2)
    model = kz.Model.from_equations(
        "x'' + 0.3*x' + 9*x + 2*x**3 = F", parameters={}, signals=[kz.Signal("F", times, force, degree=3)]
    )
    clean = 1000 * kz.simulate(model, [0.0, 0.0], t=times)["x"]
    noise = np.random.default_rng(7).normal(0.0, 2.0, (2, times.size))
    for name, extra in zip(("run.csv", "second.csv"), noise, strict=True):
        table = pd.DataFrame({"t [s]": times, "Laser [mm]": clean + extra, "Cell [N]": force})
        table.to_csv(folder / name, index=False)
    write_new_study(
        folder / "run.csv", drive={"Cell": "F"}, channels={"Laser": "x"}, equations=["x'' + c*x' + k*x + k3*x**3 = F"]
    )
    kz.read_study(folder / "run.toml").run(kz.Silent())
    return folder, times[-1], clean[-1] / 1000


def test_another_recording_is_read_as_the_study_reads_its_own(capsys, shaken):
    folder, *_ = shaken
    code, said, _ = run(capsys, "validate", folder / "run-results", folder / "second.csv")
    assert code == 0
    assert "not rejected" in said.splitlines()[1], said
    assert read_alike(folder / "run.toml", folder / "second.csv").units == {"x": "m", "F": "N"}


def test_predictions_go_on_from_the_end_of_a_driven_recording(capsys, shaken):
    """The last fifth was held back, and the prediction begins after it."""
    folder, end, last = shaken
    out = folder / "next.csv"
    code, _, _ = run(capsys, "predict", folder / "run.toml", "--drive", "F=0*t", "--duration", 1, "--out", out)
    assert code == 0
    table = pd.read_csv(out)
    assert table["time [s]"][0] == pytest.approx(end)
    assert abs(table["x [mm]"][0] - 1000 * last) < 4.0  # two deviations of the noise
    assert "x' [mm/s]" in table


@pytest.mark.parametrize("first", [0, 1])
def test_a_drive_that_goes_on_after_the_recording_is_not_moved_by_a_sample(capsys, shaken, tmp_path, first):
    """The times of the file say whether it begins with the last sample of the recording, or with the next one."""
    folder, end, _ = shaken
    later = 0.03 * np.arange(first, 60)
    pd.DataFrame({"t [s]": end + later, "Cell [N]": np.sin(later)}).to_csv(tmp_path / "later.csv", index=False)
    tables = []
    for drive in (f"F={tmp_path / 'later.csv'}", "F=sin(t)"):
        out = tmp_path / "next.csv"
        code, _, err = run(capsys, "predict", folder / "run.toml", "--drive", drive, "--duration", 1.5, "--out", out)
        assert code == 0, err
        tables.append(pd.read_csv(out)["x [mm]"])
    # A drive that is 0.03 s too early moves x by 2 mm.
    np.testing.assert_allclose(*tables, rtol=0, atol=1e-2)


def test_a_drive_of_a_prediction_is_read_as_the_study_reads_its_own(capsys, shaken, tmp_path):
    """Columns and units of the study: a file of the load cell alone, and one whose other column is not needed."""
    folder, *_ = shaken
    times = np.arange(100) * 0.03
    force = 1500.0 * np.sin(2 * times)
    tables = {"cell.csv": {"Cell [mN]": force}, "both.csv": {"Cell [mN]": force, "Temp [degC]": 0 * times}}
    found = []
    for name, columns in tables.items():
        pd.DataFrame({"t [s]": times, **columns}).to_csv(tmp_path / name, index=False)
        found.append(_predicted(capsys, folder, tmp_path, f"F={tmp_path / name}"))
    expected = _predicted(capsys, folder, tmp_path, "F=1.5*sin(2*t)")
    for table in found:
        assert np.allclose(table["x [mm]"], expected["x [mm]"], atol=1e-4)
    pd.DataFrame({"t [s]": times, "a": force, "b": force}).to_csv(tmp_path / "other.csv", index=False)
    arguments = ("predict", folder / "run.toml", "--duration", 1, "--out", tmp_path / "none.csv")
    code, _, err = run(capsys, *arguments, "--drive", f"F={tmp_path / 'other.csv'}")
    assert code == 2
    assert 'other.csv has no column "F"; it has a, b' in " ".join(err.split())


def _predicted(capsys, folder, tmp_path, drive):
    out = tmp_path / "next.csv"
    arguments = ("predict", folder / "run.toml", "--start", "x=0", "--start", "x'=0", "--duration", 2, "--out", out)
    code, _, err = run(capsys, *arguments, "--drive", drive)
    assert code == 0, err
    return pd.read_csv(out)


def test_a_drive_is_named_by_its_column_or_as_in_the_equations(capsys, shaken, tmp_path):
    folder, *_ = shaken
    expected = _predicted(capsys, folder, tmp_path, "F=1.5*sin(2*t)")
    assert _predicted(capsys, folder, tmp_path, "Cell=1.5*sin(2*t)").equals(expected)
    arguments = ("predict", folder / "run.toml", "--duration", 1, "--out", tmp_path / "none.csv")
    code, _, err = run(capsys, *arguments, "--drive", "Base acc=next.csv")
    assert code == 2
    assert '"Base acc": not a measured drive. The drive is called F in the equations: --drive F=FILE' in " ".join(
        err.split()
    )


def test_a_start_may_have_a_unit_and_is_warned_of_far_outside_the_recording(capsys, shaken, tmp_path):
    folder, *_ = shaken
    said = {}
    for start, inside in (("x=4mm", True), ("x=0.004", True), ("x=400", False)):
        out = tmp_path / "next.csv"
        arguments = ("predict", folder / "run.toml", "--duration", 1, "--out", out, "--drive", "F=0*t")
        code, told, err = run(capsys, *arguments, "--start", start)
        assert code == 0, err
        said[start] = " ".join(told.split())
        first = pd.read_csv(out)["x [mm]"][0]
        assert first == pytest.approx(4.0 if inside else 4e5, rel=1e-12)
        assert ("far outside the recording" in said[start]) is not inside
    assert "taken in m," in said["x=400"]
    assert "Is it in mm? Then write --start x=400mm." in said["x=400"]
    for start, message in (("x=4kg", "cannot be converted"), ("x=four", "such as --start x=4mm")):
        code, _, err = run(capsys, *arguments, "--start", start)
        assert code == 2
        assert message in " ".join(err.split())


@pytest.mark.parametrize("options", [(), ("--fit", "model 1, harmonic"), ("--set", "k=40")])
def test_an_export_starts_as_the_recording_also_of_a_fit_without_a_motion(capsys, shaken, tmp_path, options):
    folder, *_ = shaken
    code, _, err = run(capsys, "export", folder / "run.toml", "--out", tmp_path / "rig.py", *options)
    assert code == 0, err
    spec = importlib.util.spec_from_file_location("rig", tmp_path / "rig.py")
    rig = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rig)
    first = kz.read_results(folder / "run-results").chosen.answer.motion.states[0]
    size = np.ptp(pd.read_csv(folder / "run.csv")["Laser [mm]"]) / 1000
    assert np.any(rig.START)
    assert abs(rig.START[0] - first[0]) < 0.02 * size


def test_a_missing_option_names_the_help_of_its_command(capsys, shaken):
    code, _, err = run(capsys, "predict", shaken[0] / "run.toml")
    assert code == 2
    assert "Missing option '--out'. Help: kapitza predict --help" in " ".join(err.split())


def test_a_quiet_run_without_an_answer_says_why(capsys, shaken, tmp_path):
    """Without a measured drive F is a constant, and all parameters share a scale."""
    folder, *_ = shaken
    pd.read_csv(folder / "run.csv")[["t [s]", "Laser [mm]"]].to_csv(tmp_path / "run.csv", index=False)
    equation = "m*x'' + c*x' + k*x = F"
    code, _, _ = run(capsys, "new", tmp_path / "run.csv", "--channel", "Laser=x", "--equation", equation)
    assert code == 0
    code, said, _ = run(capsys, "identify", tmp_path / "run.toml", "--quiet")
    assert code != 0
    words = " ".join(said.split())
    assert "No fit succeeded" in words
    assert "only c/m, k/m, F/m" in words


def test_both_responses_are_found_where_the_resonance_leaves_the_range(capsys, shaken):
    """The fold of the lower response is inside, that of the upper one beyond: x'' + 0.3x' + 9x + 2x³ = 3 cos ωt."""
    folder, *_ = shaken
    out = folder / "response.csv"
    arguments = ("frequency-response", folder / "run.toml", "--from", 0.3, "--level", 3)
    code, said, _ = run(capsys, *arguments, "--to", 0.62, "--out", out)
    assert code == 0
    assert "two stable responses between" in " ".join(said.split())
    assert "beyond" in said
    table = pd.read_csv(out)
    end = table[np.isclose(table["frequency [Hz]"], 0.62)]
    # Harmonic balance of one term at the end of the range: ((9 - ω² + 3/2 A²)² + (0.3 ω)²) A² = 9.
    omega = 2 * np.pi * 0.62
    squared = np.roots([2.25, 3 * (9 - omega**2), (9 - omega**2) ** 2 + (0.3 * omega) ** 2, -9.0])
    assert np.allclose(squared.imag, 0)
    stable = np.sqrt(np.sort(squared.real))[[0, 2]]
    found = np.sort(end[end["stability"] == "stable"]["x amplitude [m]"])
    assert np.allclose(found, stable, rtol=0.03)


def test_a_softening_resonance_has_two_responses_below_its_fold():
    """It leaves by the lower end: x'' + 0.03x' + x - 0.3x³ = 0.06 cos ωt, followed from 0.8 to 1.3 rad/s."""
    model = kz.Model.from_equations(
        "x'' + c*x' + x - a*x**3 = B*cos(omega*t)",
        parameters={"c": 0.03, "a": 0.3, "B": 0.06, "omega": 1.0},
        period="2*pi/omega",
    )
    branches = kz.frequency_response(model, "omega", (0.8, 1.3), force="B").branches
    said = response_sentence(list(branches), (0.8 / (2 * np.pi), 1.3 / (2 * np.pi)))
    low, high = (2 * np.pi * float(n) for n in re.search(r"between (\S+) and (\S+) Hz", said).groups())
    # Harmonic balance of one term, (1 - u - 0.225 A²)² + 0.03² u = (0.06/A)² with u = ω²: the fold is the largest ω of
    # the smaller root.
    size = np.linspace(0.1, 1.2, 2000)
    middle = 1 - 0.225 * size**2 - 0.5 * 0.03**2
    smaller = middle - np.sqrt(middle**2 - (1 - 0.225 * size**2) ** 2 + (0.06 / size) ** 2)
    assert low == pytest.approx(0.8, rel=1e-4)
    assert high == pytest.approx(np.sqrt(smaller.max()), rel=0.01)


def test_a_family_begins_inside_of_its_range(capsys, shaken):
    folder, *_ = shaken
    code, said, _ = run(
        capsys, "follow", folder / "run.toml", "-p", "F_level", "--from", 0.5, "--to", 1.5, "--set", "omega=5"
    )
    assert code == 0
    assert "F_level from 0.5 to 1.5" in said


def test_a_recording_in_volts_takes_the_sensitivities_of_its_sensors(tmp_path):
    table = "Zeit [s];Winkel [V];Kraft [V]\n" + "\n".join(f"{row * 0.01:.2f};{row % 7};{row % 3}" for row in range(300))
    (tmp_path / "run.csv").write_text(table.replace(".", ","))
    equation = "phi'' + c*phi' + k*sin(phi) = b*F"
    path = write_new_study(
        tmp_path / "run.csv",
        units={"Winkel": "30 deg/V", "Kraft": "10 N/V"},
        drive={"Kraft": "F"},
        equations=[equation],
        channels={"Winkel": "phi"},
        angles=["phi"],
    )
    text = path.read_text(encoding="utf-8")
    assert 'units = {"Winkel" = "30 deg/V", "Kraft" = "10 N/V"}' in text
    assert 'angles = ["phi"]' in text
    record = kz.read_study(path).recordings[0].record
    assert record["phi"][1] == pytest.approx(np.radians(30))
    assert record["F"][2] == pytest.approx(20.0)
    bare = write_new_study(tmp_path / "run.csv", tmp_path / "bare.toml", drive={"Kraft": "F"}, equations=[equation])
    assert '# units = {"Winkel" = "4 mm/V"}' in bare.read_text(encoding="utf-8")


ACCELERATED = {"m": 0.6, "c": 2.0, "k": 3000.0, "k3": 8e6}


def accelerated_shaker(file, friction=0.0):
    """A mass on a hardening spring under a swept force; an accelerometer in g, a load cell in N."""
    time = np.arange(2500) * 2e-3
    force = 3 * np.sin(2 * np.pi * (4 * time + 2 * time**2))
    model = kz.Model.from_equations(
        "m*x'' + c*x' + k*x + k3*x**3 + mu*sign(x') = F",
        parameters={**ACCELERATED, "mu": friction},
        signals=[kz.Signal("F", time, force, degree=3)],
    )
    motion = kz.simulate(model, [0.0, 0.0], t=time)
    x, v = motion["x"], motion["x'"]
    total = force - 2.0 * v - 3000.0 * x - 8e6 * x**3
    # Where friction holds the body there is no acceleration.
    exact = np.where((v == 0) & (np.abs(total) <= friction), 0.0, total - friction * np.sign(v)) / 0.6
    noisy = (exact + 0.01 * exact.std() * np.random.default_rng(6).normal(size=time.size)) / 9.80665
    table = np.column_stack([time, noisy, force])
    np.savetxt(file, table, delimiter=",", header="t [s],Acceleration [gravity],Force [N]", comments="", fmt="%.9g")


@pytest.mark.parametrize("friction", [0.0, 0.15])
def test_an_accelerometer_from_the_file_to_the_values(capsys, tmp_path, friction):
    accelerated_shaker(tmp_path / "run.csv", friction)
    equation = "m*x'' + c*x' + k*x + k3*x**3" + (" + mu*sign(x') = F" if friction else " = F")
    command = ("new", tmp_path / "run.csv", "--drive", "Force=F", "--equation", equation)
    code, out, _ = run(capsys, *command)
    assert (code, """\"Acceleration" is an accelerometer: it measures x''""" in out) == (0, True)
    study = tmp_path / "run.toml"
    text = study.read_text(encoding="utf-8")
    assert """measures = {"Acceleration" = "x''"}""" in text
    study.write_text(text.replace("report = true", "report = false"), encoding="utf-8")
    code, out, _ = run(capsys, "check", study)
    assert (code, "Warning" in out, "To find: m, c, k, k3" in out) == (0, False, True)
    code, out, _ = run(capsys, "identify", study, "--json")
    assert code == 0
    rows = {row["parameter"]: row for row in json.loads(out)["parameters"] if row["method"] == "auto"}
    for name, value in {**ACCELERATED, **({"mu": friction} if friction else {})}.items():
        assert rows[name]["low"] < value < rows[name]["high"], name


def test_an_acceleration_may_be_named_but_not_be_a_position(capsys, tmp_path):
    accelerated_shaker(tmp_path / "run.csv")
    command = ["new", tmp_path / "run.csv", "--drive", "Force=F", "--equation", "m*x'' + c*x' + k*x = F", "--channel"]
    code, _, _ = run(capsys, *command, "Acceleration=x''", "--out", tmp_path / "named.toml")
    study = kz.read_study(tmp_path / "named.toml")
    assert (code, study.outputs) == (0, {"Acceleration": "x''"})
    code, _, _ = run(capsys, *command, "Acceleration=x", "--out", tmp_path / "position.toml")
    code, out, _ = run(capsys, "check", tmp_path / "position.toml")
    said = " ".join(out.split())
    assert "is in m/s^2, the unit of an acceleration, but stands for a position" in said
    assert """measures = {acc = "x''"}""" in said
    # The name of the acceleration in channels says the same as in measures.
    text = (tmp_path / "position.toml").read_text(encoding="utf-8")
    (tmp_path / "short.toml").write_text(text.replace("""Acceleration" = "x\"""", """Acceleration" = "x''\""""))
    assert kz.read_study(tmp_path / "short.toml").outputs == {"x''": "x''"}


def test_accelerometers_without_equations_and_with_several_coordinates(tmp_path):
    time = np.arange(400) * 0.01
    decay = np.exp(-0.3 * time) * np.cos(9 * time)
    table = np.column_stack([time, decay, 0.5 * decay])
    header = "t [s],Accel 1 [m/s^2],Accel 2 [m/s^2]"
    np.savetxt(tmp_path / "run.csv", table, delimiter=",", header=header, comments="")
    study = kz.read_study(write_new_study(tmp_path / "run.csv"))
    assert study.outputs == {"Accel_1": "x1''", "Accel_2": "x2''"}
    assert study.candidates[0].model.values["k1"] == pytest.approx(81.0, rel=0.3)
    with pytest.raises(kz.KapitzaError, match="say which acceleration each one is by"):
        write_new_study(tmp_path / "run.csv", force=True, equations=["x'' + c*x' + k*x = 0"])
    two = ["a'' + c*a' + k*a = 0", "b'' + c*b' + k*(b - a) = 0"]
    study = kz.read_study(write_new_study(tmp_path / "run.csv", force=True, equations=two))
    assert study.outputs == {"Accel_1": "a''", "Accel_2": "b''"}
    # Those that are stated stay.
    stated = {"Accel 1": "b''", "Accel 2": "a''"}
    study = kz.read_study(write_new_study(tmp_path / "run.csv", force=True, equations=two, channels=stated))
    assert study.outputs == {"Accel_1": "b''", "Accel_2": "a''"}
    one = {"Accel 1": "b''"}
    study = kz.read_study(write_new_study(tmp_path / "run.csv", force=True, equations=two, channels=one))
    assert study.outputs == {"Accel_1": "b''", "Accel_2": "a''"}


def test_coordinates_with_and_without_a_unit_stand_in_one_new_study(tmp_path):
    """The accelerometer names a coordinate that no channel has."""
    time = np.arange(400) * 0.01
    decay = np.exp(-0.3 * time) * np.cos(9 * time)
    header = "t [s],Accel [gravity],y [mm],z [m/s]"
    np.savetxt(
        tmp_path / "run.csv", np.column_stack([time, decay, decay, decay]), delimiter=",", header=header, comments=""
    )
    equations = ["x'' + c*x' + k*(x - y) = 0", "y'' + c*y' + k*(y - x) = 0", "z' = -a*z + x"]
    channels = {"Accel": "x''"}
    study = kz.read_study(write_new_study(tmp_path / "run.csv", equations=equations, channels=channels))
    model = study.candidates[0].model
    assert {c.name: c.order for c in model.coordinates} == {"x": 2, "y": 2, "z": 1}
    assert (model.units["x"], model.units["y"], model.units["z"]) == ("", "m", "m/s")


def test_misspelt_coordinates_are_asked_about(capsys, tmp_path):
    time = np.arange(300) * 0.01
    table = np.column_stack([time, np.cos(5 * time)])
    np.savetxt(tmp_path / "run.csv", table, delimiter=",", header="t [s],phi [rad]", comments="")
    for command in (("new", tmp_path / "run.csv", "--equation", "phi'' + d*phi' + w2*sin(ph) = 0"),
                    ("check", tmp_path / "run.toml")):  # fmt: skip
        code, out, _ = run(capsys, *command)
        assert code == 0
        assert "To find: d, w2, ph\n" in out
        assert 'ph is a parameter to find: did you mean "phi"?' in out
    code, out, _ = run(
        capsys, "new", tmp_path / "run.csv", "--force", "--equation", "phi'' + d*phi' + w2*sin(phi) = mu"
    )
    assert (code, "did you mean" in out) == (0, False)


def test_ranges_and_sensitivities_are_shown_by_the_check(capsys, tmp_path):
    """A drive in V asks for its sensitivity; the property of the file is named; an absurd one shows in the ranges."""
    nptdms = pytest.importorskip("nptdms")
    time = np.arange(500) * 0.01
    with nptdms.TdmsWriter(tmp_path / "run.tdms") as writer:
        clock = {"wf_increment": 0.01, "wf_start_offset": 0.0, "wf_samples": 500}
        force = {**clock, "unit_string": "V", "Sensitivity": 112.4, "Sensitivity_Unit": "mV/N"}
        laser = nptdms.ChannelObject("Sweep", "Laser", 3 * np.cos(6 * time), {**clock, "unit_string": "mm"})
        writer.write_segment([laser, nptdms.ChannelObject("Sweep", "Force", 0.4 * np.sin(6 * time), force)])
    command = ("new", tmp_path / "run.tdms", "--drive", "Force=F", "--equation", "m*x'' + c*x' + k*x = F", "--force")
    assert run(capsys, *command)[0] == 0
    study = tmp_path / "run.toml"
    code, out, _ = run(capsys, "check", study)
    said = " ".join(out.split())
    assert '"F" is in V: parameters are then per volt' in said
    assert '--unit "COLUMN=112.4 mV/N"' in said
    assert 'a Sensitivity of 112.4 mV/N for "Force"' in said
    # The laser is in mm, so that an angle is refused.
    text = study.read_text(encoding="utf-8")
    study.write_text(text.replace('# units = {"Force"', 'units = {"Laser" = "deg"} #'), encoding="utf-8")
    code, _, err = run(capsys, "check", study)
    assert (code, "cannot be converted" in " ".join(err.split())) == (1, True)
    assert run(capsys, *command, "--unit", "Force=112.4 N/mV")[0] == 0
    code, out, _ = run(capsys, "check", study)
    assert (code, "per volt" in out) == (0, False)
    row = next(line.split() for line in out.splitlines() if line.startswith("F "))
    assert float(row[-1]) == pytest.approx(0.4 * 112.4e3, rel=1e-3)
