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
    from kapitza.cli.validate import _under_its_drive
    from kapitza.errors import DataError

    times = np.arange(50) * 0.1
    first = kz.Signal("F", times, np.sin(times), 5.0, degree=3)
    model = kz.Model.from_equations("x'' + x = F", parameters={}, signals=[first])
    record = kz.Record.from_arrays(times, {"x": times, "F": np.cos(times)})
    (drive,) = _under_its_drive(model, record, "new.csv").signals
    assert np.allclose(drive.values, np.cos(times))
    assert drive.degree == 3
    with pytest.raises(DataError, match=r'"F" drives the model and is not a column of new\.csv'):
        _under_its_drive(model, record.select(["x"]), "new.csv")


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
    found = np.sort(end[end["stability"] == "stable"]["x amplitude"])
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
