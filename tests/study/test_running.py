"""Studies that run: truth recovered, folders complete, interrupted runs that end the same."""

import hashlib
import json
import pickle
import shutil
from concurrent.futures import Future

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import KapitzaError
from kapitza.study import read_results, read_study
from kapitza.study.fits import read_fit
from kapitza.study.folder import working_folder
from kapitza.study.writing import write_new_study

TRUTH = {"c": 0.3, "k": 4.0, "k3": 1.5}
STUDY = """\
title = "Springs <script>alert(1)</script>"

[[model]]
name = "linear"
equations = ["x'' + c*x' + k*x = 0"]
parameters = {c = 0.2, k = 5.0}
free = ["c", "k"]

[[model]]
name = "cubic"
equations = ["x'' + c*x' + k*x + k3*x**3 = 0"]
parameters = {c = 0.2, k = 5.0, k3 = 0.5}
free = ["c", "k", "k3"]

[data]
file = "run.csv"

[fit]
hold_back = 0.2
method = ["shooting", "harmonic"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    model = kz.Model.from_equations("x'' + c*x' + k*x + k3*x**3 = 0", parameters=TRUTH, start={"x": 1.5, "x'": 0.0})
    clean = kz.simulate(model, t=np.linspace(0, 12, 601))
    kz.write(kz.measure(clean.select(["x"]), noise=0.01, seed=1), folder / "run.csv")
    (folder / "springs.toml").write_text(STUDY, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def result(folder):
    return read_study(folder / "springs.toml").run()


class Posting:
    """An executor whose tasks and answers travel as between processes."""

    def __init__(self):
        self.sent = 0

    def submit(self, function, /, *arguments):
        self.sent += 1
        work, packed = pickle.loads(pickle.dumps((function, arguments)))  # noqa: S301
        future = Future()
        future.set_result(pickle.loads(pickle.dumps(work(*packed))))  # noqa: S301
        return future


def test_fits_that_workers_did_are_the_same(folder, result):
    workers = Posting()
    (folder / "shared.toml").write_text(STUDY, encoding="utf-8")
    again = read_study(folder / "shared.toml").run(executor=workers)
    assert workers.sent == len(result.fits) == 4
    assert again.table().equals(result.table())
    with pytest.raises(KapitzaError, match="submit"):
        read_study(folder / "shared.toml").run(executor=3)


def test_the_right_candidate_is_chosen_and_its_intervals_hold_the_truth(result):
    assert result.chosen.candidate == "cubic"
    assert result.comparison().index[0] == "cubic"
    assert result.comparison()["dAIC"].iloc[1] > 100
    assert result.comparison()["weight"].sum() == pytest.approx(1.0)
    assert "cubic explains the data best" in result.verdict()
    fits = [o.estimate for o in result.fits if o.candidate == "cubic"]
    assert len(fits) == 2
    for outcome in fits:
        for name, true in TRUTH.items():
            assert abs(outcome.values[name] - true) < 4 * outcome.deviations[name]
    # the held-back end is followed to the noise of 0.01 and predicted almost as well
    check = result.chosen.validation
    assert check.record.size == 120
    assert check.record.time[0] == pytest.approx(9.62)
    assert check.prediction.fit_share * check.prediction.spread[0] == pytest.approx(0.01, rel=0.3)
    assert np.sqrt(np.mean(check.prediction.error**2)) < 0.02
    assert result.chosen.held_back < 0.5 * result.fits[0].held_back


def test_the_sentence_says_what_its_errors_are(result):
    said = result.sentence()
    assert "± one standard error" in said
    value, error = (float(part) for part in said.split("k3 = ")[1].split(",")[0].split(" (")[0].split(" ± "))
    assert value == pytest.approx(result.best.values["k3"], abs=error)
    assert error == pytest.approx(result.best.deviations["k3"], rel=0.06)


def test_the_results_folder_repeats_the_run(result, folder):
    place = folder / "springs-results"
    assert not working_folder(place).exists()
    kept = json.loads((place / "result.json").read_text(encoding="utf-8"))
    assert kept["checksums"] == {"run.csv": hashlib.sha256((folder / "run.csv").read_bytes()).hexdigest()}
    assert kept["versions"]["kapitza"] == kz.__version__
    assert (place / "study.toml").read_text(encoding="utf-8") == STUDY
    again = read_results(place)
    assert str(again) == str(result)
    assert np.array_equal(again.best.motion.predicted, result.best.motion.predicted)
    assert again.table().equals(result.table())


def test_the_fits_of_a_results_folder_are_estimates(result, folder):
    again = read_results(folder / "springs-results")
    fit = again["cubic"]
    assert fit.values == result["cubic, shooting"].values
    assert again["cubic, harmonic"].method.startswith("HarmonicFit")
    assert kz.load(folder / "springs-results" / "fits" / "cubic-shooting.nc").values == fit.values
    # 2 Δ log L at the ends of a 95 % profile is 3.84 for known noise, a little more for an estimated one
    low, high = kz.profile_interval(fit, "k3")
    assert low < TRUTH["k3"] < high
    assert high - low == pytest.approx(2 * 1.96 * fit.deviations["k3"], rel=0.1)
    assert kz.compare_fits({"one": again["linear"], "two": fit}).index[0] == "two"
    with pytest.raises(KapitzaError, match='Did you mean "cubic"'):
        again["cubik"]


def test_results_of_an_earlier_version_are_refused_by_name(result, folder, tmp_path):
    shutil.copytree(folder / "springs-results", tmp_path / "old")
    content = json.loads((tmp_path / "old" / "result.json").read_text(encoding="utf-8"))
    del content["format"]
    (tmp_path / "old" / "result.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(KapitzaError, match=r"earlier version of Kapitza.*run the study again"):
        read_results(tmp_path / "old")


def test_files_of_other_fits_are_refused(result, folder, tmp_path):
    fits = folder / "springs-results" / "fits"
    for name in ("cubic-shooting.nc", "cubic-shooting.checks.nc"):
        (tmp_path / name.replace("cubic", "linear")).write_bytes((fits / name).read_bytes())
    with pytest.raises(KapitzaError, match="of another fit"):
        read_fit(tmp_path, "linear", "shooting")
    kz.save(kz.library.duffing(), tmp_path / "linear-shooting.checks.nc")
    with pytest.raises(KapitzaError, match="does not hold the tests"):
        read_fit(tmp_path, "linear", "shooting")


class Stopped(BaseException):
    """What a killed process looks like to the code: nothing may catch it."""


class Follower:
    """Keeps at which steps a run has been; dies at one of them, as a killed process does."""

    cancelled = False

    def __init__(self, stop: int | None = None):
        self.stop, self.told = stop, []

    def show(self, progress):
        if progress.level or progress.ended or progress.total is None:
            return
        if not self.told or self.told[-1] != progress.done:
            self.told.append(progress.done)
        if progress.done == self.stop:
            raise Stopped


def test_a_run_that_dies_again_and_again_resumes_to_the_same_result(folder, result, tmp_path):
    for name in ("run.csv", "springs.toml"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    done = 0
    for steps in (0, 1, 3, 4):
        follower = Follower(steps)
        with pytest.raises(Stopped):
            read_study(tmp_path / "springs.toml").run(follower, resume=steps > 0)
        assert follower.told == list(range(done, steps + 1))
        assert not (tmp_path / "springs-results").exists()
        done = steps
    follower = Follower()
    resumed = read_study(tmp_path / "springs.toml").run(follower, resume=True)
    assert follower.told == [4]
    assert str(resumed) == str(result)
    for path in sorted((folder / "springs-results" / "fits").iterdir()):
        assert (tmp_path / "springs-results" / "fits" / path.name).read_bytes() == path.read_bytes()


def test_resume_takes_nothing_over_from_another_study(folder, tmp_path):
    for name in ("run.csv", "springs.toml"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())

    with pytest.raises(Stopped):
        read_study(tmp_path / "springs.toml").run(Follower(1))
    text = STUDY.replace("hold_back = 0.2", "hold_back = 0.3")
    (tmp_path / "springs.toml").write_text(text, encoding="utf-8")
    follower = Follower(1)
    with pytest.raises(Stopped):
        read_study(tmp_path / "springs.toml").run(follower, resume=True)
    assert follower.told == [0, 1]


def test_a_model_that_cannot_follow_is_told_not_hidden(tmp_path, folder):
    (tmp_path / "run.csv").write_bytes((folder / "run.csv").read_bytes())
    text = STUDY[STUDY.index("[data]") :].replace('["shooting", "harmonic"]', '"shooting"')
    model = '[model]\nequations = ["x\'\' + c*x\' = 0"]\nparameters = {c = 0.2}\nfree = ["c"]\n'
    (tmp_path / "wrong.toml").write_text(model + text, encoding="utf-8")
    result = read_study(tmp_path / "wrong.toml").run()
    assert result.best is None
    assert "No fit succeeded" in result.sentence()
    assert result.fits[0].failure


def test_encoders_of_relative_angles_and_a_second_recording(tmp_path):
    model = kz.Model.from_equations(
        ["p'' + c*p' + k*p - q = 0", "q'' + c*q' + 2*k*q - p = 0"], parameters={"c": 0.2, "k": 3.0}, start={"p": 1.0}
    )
    for seed, name, x0 in ((1, "a.csv", [1.0, 0.2, 0, 0]), (2, "b.csv", [-0.5, 1.0, 0, 0])):
        clean = kz.simulate(model, x0, t=np.linspace(0, 10, 301))
        record = kz.Record.from_arrays(clean.time, {"p": clean["p"], "gap": clean["q"] - clean["p"]})
        kz.write(kz.measure(record, noise=0.005, seed=seed), tmp_path / name)
    text = """
[model]
equations = ["p'' + c*p' + k*p - q = 0", "q'' + c*q' + 2*k*q - p = 0"]
parameters = {c = 0.1, k = 2.5}
[[data]]
file = "a.csv"
measures = {gap = "q - p"}
[[data]]
file = "b.csv"
measures = {gap = "q - p"}
use = "check"
[fit]
free = ["c", "k"]
method = "shooting"
"""
    (tmp_path / "two.toml").write_text(text, encoding="utf-8")
    chosen = read_study(tmp_path / "two.toml").run().chosen
    assert abs(chosen.answer["k"] - 3.0) < 4 * chosen.answer.deviations["k"]
    test = chosen.validation.prediction
    assert test.channels == ("p", "gap")
    assert np.median(test.fit_misfit) == pytest.approx(1.0, abs=0.25)


def test_a_measured_drive_moves_the_model(tmp_path):
    time = np.arange(0, 30, 0.02)
    random = np.random.default_rng(3)
    force = np.convolve(random.standard_normal(time.size), np.hanning(40) / 8, "same")
    signal = kz.Signal("u", time, force, time[-1] + time[1])
    text = "x'' + c*x' + k*x = u"
    truth = kz.Model.from_equations(text, parameters={"c": 0.4, "k": 5.0}, signals=[signal])
    clean = kz.simulate(truth, [0.0, 0.0], t=time)
    noisy = clean["x"] + 0.002 * random.standard_normal(time.size)
    # a logger whose clock starts elsewhere
    kz.write(kz.Record.from_arrays(time + 7.0, {"x": noisy, "u": force}), tmp_path / "run.csv")
    study = f"""
[model]
equations = ["{text}"]
parameters = {{c = 0.2, k = 4.0}}
[data]
file = "run.csv"
drive = ["u"]
[fit]
free = ["c", "k"]
method = ["shooting", "harmonic"]
hold_back = 0.2
"""
    (tmp_path / "driven.toml").write_text(study, encoding="utf-8")
    result = read_study(tmp_path / "driven.toml").run()
    assert len(result.succeeded) == 2
    for fit in result.succeeded:
        for name, true in {"c": 0.4, "k": 5.0}.items():
            assert abs(fit.answer[name] - true) < 4 * fit.answer.deviations[name]
    error = result.chosen.validation.prediction.error
    assert np.sqrt(np.nanmean(error**2)) == pytest.approx(0.002, rel=0.3)


def test_a_new_study_runs_as_it_was_written(tmp_path):
    model = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.3, "k": 9.0}, start={"x": 1.0})
    clean = kz.simulate(model, [1.0, 0.0], t=np.linspace(0, 10, 501))
    record = kz.Record.from_arrays(clean.time, {"laser [left]": clean["x"]})
    kz.write(kz.measure(record, noise=0.005, seed=1), tmp_path / "cart run.csv")
    path = write_new_study(tmp_path / "cart run.csv")
    best = read_study(path).run().best
    assert best.values["k"] == pytest.approx(9.0, rel=0.01)
    assert best.values["c"] == pytest.approx(0.3, rel=0.05)
    with pytest.raises(kz.KapitzaError, match="there already"):
        write_new_study(tmp_path / "cart run.csv")


@pytest.mark.parametrize(("swing", "unit", "force"), [(1.3, "deg", "sin(phi)"), (1.3, "rad", "sin(phi)"),
                                                      (1.3, "m", "phi"), (0.3, "rad", "phi")])  # fmt: skip
def test_a_new_study_of_an_angle_that_swings_far_is_one_of_a_pendulum(tmp_path, swing, unit, force):
    model = kz.Model.from_equations("phi'' + c*phi' + k*sin(phi) = 0", parameters={"c": 0.1, "k": 20.0})
    clean = kz.simulate(model, [swing, 0.0], t=np.linspace(0, 12, 601))
    phi = kz.measure(clean.select(["phi"]), noise=0.002, seed=1)["phi"] * (180 / np.pi if unit == "deg" else 1.0)
    lines = [f"t [s],phi [{unit}]", *(f"{t:.3f},{v:.7f}" for t, v in zip(clean.time, phi, strict=True))]
    (tmp_path / "run.csv").write_text("\n".join(lines), encoding="utf-8")
    study = read_study(write_new_study(tmp_path / "run.csv"))
    assert study.content["model"]["equations"] == [f"phi'' + c*phi' + k*{force} = 0"]
    if "sin" in force:
        # Started at the frequency of the swing and its amplitude; the period decides to a few per cent.
        assert study.candidates[0].model.values["k"] == pytest.approx(20.0, rel=0.1)
        assert study.run().best.values["k"] == pytest.approx(20.0, rel=0.002)


def test_the_same_recording_in_other_units_gives_the_same_parameters(tmp_path):
    model = kz.Model.from_equations(
        "phi'' + c*phi' + w2*sin(phi) = 0", angles=["phi"], parameters={"c": 0.2, "w2": 20.0}
    )
    record = kz.measure(kz.simulate(model, [1.2, 0.0], t=np.linspace(0, 8, 401)), noise=0.003, seed=2)
    time, phi, rate = record.time, record["phi"], record["phi'"]
    study = """
[model]
equations = ["phi'' + c*phi' + w2*sin(phi) = 0"]
coordinates.phi = {angle = true, unit = "rad"}
parameters = {c = 0.1, w2 = 18.0}
[data]
file = "FILE"
UNITS
[fit]
free = ["c", "w2"]
method = "shooting"
"""
    stated = 'units = {t = "ms", phi = "turn", "phi\'" = "rev/min"}'
    files = {
        "si.csv": ("t [s],phi [rad],phi' [rad/s]", time, phi, rate, ""),
        "header.csv": ("t [ms],phi (deg),phi' [deg/ms]", 1e3 * time, np.degrees(phi), np.degrees(rate) / 1e3, ""),
        "stated.csv": ("t,phi,phi'", 1e3 * time, phi / (2 * np.pi), rate * 60 / (2 * np.pi), stated),
    }
    found = []
    for name, (header, *columns, units) in files.items():
        np.savetxt(tmp_path / name, np.column_stack(columns), delimiter=",", header=header, comments="", fmt="%.17g")
        text = study.replace("FILE", name).replace("UNITS", units)
        (tmp_path / "study.toml").write_text(text, encoding="utf-8")
        found.append(read_study(tmp_path / "study.toml").run().best.values)
    for other in found[1:]:
        assert other == pytest.approx(found[0], rel=1e-7)
    (tmp_path / "study.toml").write_text(
        study.replace("FILE", "si.csv").replace("UNITS", 'units = {phi = "V"}'), encoding="utf-8"
    )
    with pytest.raises(kz.StudyError, match="phi"):
        read_study(tmp_path / "study.toml")


def test_metres_and_millimetres_give_the_same_parameters(tmp_path):
    model = kz.Model.from_equations("x'' + c*x' + k*x + k3*x**3 = 0", parameters=TRUTH)
    record = kz.measure(kz.simulate(model, [1.2, 0.0], t=np.linspace(0, 8, 401)).select(["x"]), noise=0.003, seed=2)
    study = """
[model]
equations = ["x'' + c*x' + k*x + k3*x**3 = 0"]
coordinates.x = {unit = "m"}
parameters = {c = 0.2, k = 5.0, k3 = 1.0}
[data]
file = "run.csv"
[fit]
free = ["c", "k", "k3"]
method = "shooting"
"""
    (tmp_path / "study.toml").write_text(study, encoding="utf-8")
    found = []
    for header, factor in (("t,x [m]", 1.0), ("t,x [mm]", 1e3)):
        np.savetxt(tmp_path / "run.csv", np.column_stack([record.time, factor * record["x"]]), delimiter=",",
                   header=header, comments="", fmt="%.17g")  # fmt: skip
        found.append(read_study(tmp_path / "study.toml").run().best.values)
    assert found[1] == pytest.approx(found[0], rel=1e-7)
