"""The section [plan] of a study: checked with lines, planned after the fit, told in the report."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.study import StudyError

STUDY = """
[model]
equations = ["x'' + c*x' + k*x = F*cos(w*t)"]
parameters = {c = {value = 0.1, bounds = [0.0, inf]}, k = 1.0, F = 0.1, w = 0.9}
excitation = {period = "2*pi/w"}
[data]
file = "run.csv"
[fit]
free = ["c", "k"]
method = "shooting"
[plan]
vary = {F = [0.02, 0.5], w = [0.5, 2.0]}
limits = {"abs(x)" = 1.2, time = 30}
missing = ["quadratic x"]
points = 8
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("plan")
    model = kz.Model.from_equations(
        "x'' + c*x' + k*x = F*cos(w*t)", parameters={"c": 0.1, "k": 1.0, "F": 0.1, "w": 0.9}, period="2*pi/w"
    )
    states = kz.simulate(model, x0=[0.0, 0.0], t=np.arange(100) * 0.1)
    record = kz.Record.from_arrays(states.time, {"x": states["x"], "x'": states["x'"]})
    kz.write(kz.measure(record, noise={"x": 0.01, "x'": 1.0}, seed=1), place / "run.csv")
    (place / "rig.toml").write_text(STUDY)
    return place


@pytest.fixture(scope="module")
def result(folder):
    return kz.read_study(folder / "rig.toml").run()


def test_a_study_ranks_the_next_experiments(result):
    plan = result.plan
    assert plan is not None
    assert 0.02 <= plan.best.settings["F"] <= 0.5
    assert plan.best.duration == pytest.approx(9.9)
    assert (plan.expected[0].after < plan.expected[0].now).all()
    assert all(one.share <= 1.0 for one in plan)
    assert "Next experiment" in str(result)


def test_the_plan_is_kept_with_the_results(result):
    again = kz.read_results(result.folder)
    assert str(again.plan) == str(result.plan)
    assert kz.read_sheet(result.folder / "runs.toml") == [one.choice for one in result.plan]


def test_a_reader_of_the_report_finds_the_next_run(result):
    page = (result.folder / "report.html").read_text(encoding="utf-8")
    best = result.plan.best
    said = page[page.index("Do this next") :][:400]
    for value in (f"F = {best.settings['F']:.4g}", f"w = {best.settings['w']:.4g}", "9.9 s at 10 Hz", "measure x"):
        assert value in said
    for heading in ("Map of the next experiment", "How long is long enough", "Sensors, and what cannot be improved"):
        assert heading in page
    assert "can be left out: x" in page
    assert "if there is quadratic x" in page


def test_the_command_takes_the_section(result, folder):
    from typer.testing import CliRunner

    from kapitza.cli.app import app

    done = CliRunner().invoke(app, ["plan", str(folder / "rig.toml")])
    assert done.exit_code == 0, done.output
    assert f"F = {result.plan.best.settings['F']:.4g}" in done.output
    bare = CliRunner().invoke(app, ["plan", str(result.folder)])
    assert bare.exit_code != 0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("F = [0.02, 0.5]", "G = [0.02, 0.5]", 'line 12: plan.vary.G: "G" cannot be chosen'),
        ("w = [0.5, 2.0]", "w = [2.0, 0.5]", "line 12: plan.vary.w: The range"),
        ("F = [0.02, 0.5]", "c = [0.02, 0.5]", "to be identified"),
        ("F = [0.02, 0.5]", "F = [0.1, 0.2, 0.3]", "options, {values"),
        ("F = [0.02, 0.5]", "F = 3", "neither a range"),
        ('"abs(x)"', '"abs(q)"', "line 13: plan.limits"),
        ("time = 30", "time = -1", "above 0"),
        ('"quadratic x"', '"quadratic q"', "line 14: plan.missing"),
        ("points = 8", "points = 0", "line 15: plan.points"),
        ("points = 8", 'want = ["zz"]', "line 15: plan.want"),
        ("points = 8", 'drives = {a = "cos(t)"}', "drives replace one measured drive"),
        ("points = 8", "colour = 3", '[plan] has no key "colour"'),
        ("vary = {F = [0.02, 0.5], w = [0.5, 2.0]}\n", "", "nothing may vary"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(folder, old, new, said):
    place = folder / "wrong.toml"
    place.write_text(STUDY.replace(old, new))
    with pytest.raises(StudyError) as caught:
        kz.read_study(place)
    assert said in str(caught.value)


def test_a_fit_without_a_run_needs_its_length(folder):
    place = folder / "weak.toml"
    place.write_text(STUDY.replace('method = "shooting"', 'method = "harmonic"'))
    made = kz.read_study(place).run()
    assert made.plan is None
    assert "give duration and step" in made.plan_problem
    assert "give duration and step" in (made.folder / "report.html").read_text(encoding="utf-8")
