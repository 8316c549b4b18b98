"""Plans: the best run found, limits kept, promises reached, what cannot be improved."""

import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import DataError, IdentifiabilityError, RigError
from kapitza.planning import Ending
from kapitza.planning.plan import _branches
from kapitza.rig import Sensors, SimulatedRig

RUN = kz.Choice({"F": 0.1, "w": 1.0}, duration=25.0, step=0.1, channels={"x": 0.01})
VARY = {"F": (0.02, 0.5), "w": (0.5, 2.0)}


def oscillator(known: bool = True) -> kz.Model:
    priors = {"c": (0.1, 0.02), "k": (1.0, 0.05), "k3": (1.0, 0.2)}
    free = [
        kz.Parameter(n, m, prior=kz.Prior(m, s) if known else None, bounds=(0.0, np.inf))
        for n, (m, s) in priors.items()
    ]
    return kz.Model.from_equations(
        "x'' + c*x' + k*x + k3*x**3 = F*cos(w*t)",
        parameters=[*free, kz.Parameter("F", 0.3, bounds=(0.0, 0.5)), kz.Parameter("w", 1.0, bounds=(0.4, 2.2))],
        period="2*pi/w",
    )


@pytest.fixture(scope="module")
def made():
    search = kz.Search(points=64, polish=50)
    return kz.plan(oscillator(), VARY, run=RUN, limits={"abs(x)": 1.2}, search=search)


def test_a_linear_resonator_is_shaken_at_its_resonance():
    """Of c alone, the largest slope of the response is at resonance."""
    c = kz.Parameter("c", 0.1, prior=kz.Prior(0.1, 0.02))
    model = kz.Model.from_equations("x'' + c*x' + x = F*cos(w*t)", parameters=[c, "F", "w"], period="2*pi/w")
    found = kz.plan(model, {"w": (0.5, 2.0)}, run=replace(RUN, duration=120.0), search=kz.Search(points=16, shown=8))
    assert found.best.settings["w"] == pytest.approx(1.0, abs=0.03)


def test_the_best_run_is_that_of_a_dense_grid(made):
    grid = made.grid("F", "w", size=11, draws=32)
    best = made.expected[0]
    mean = np.exp(np.log(best.after / made.wanted.scale).mean())
    assert mean < 1.02 * np.nanmin(grid.width)


def test_planned_runs_stay_within_the_limit_for_all_that_the_parameters_may_be(made):
    assert len(made) >= 3
    model, draws = made.model, made.knowledge.some(16)
    for one in made:
        assert one.share <= 1.0
        for c, k, k3 in draws:
            at = model.with_values(c=c, k=k, k3=k3, **one.choice.settings)
            x = kz.simulate(at, x0=[0.0, 0.0], t=np.arange(500) * 0.05)["x"]
            assert np.abs(x).max() < 1.2


def test_experiments_of_a_table_differ(made):
    points = np.array([[one.choice.settings["F"] / 0.48, one.choice.settings["w"] / 1.5] for one in made])
    apart = np.abs(points[:, None] - points[None]).max(axis=2)[np.triu_indices(len(points), 1)]
    assert apart.min() > 0.09


def test_the_promise_is_reached_by_a_fit(made):
    best = made.expected[0]
    truth = oscillator(False).with_values(**best.choice.settings)
    states = kz.simulate(truth, x0=[0.0, 0.0], t=np.arange(best.choice.samples) * 0.1)
    record = kz.measure(kz.Record.from_arrays(states.time, {"x": states["x"]}), noise=0.01, seed=4)
    fit = kz.identify(oscillator(), [made.take(record)], free=["c", "k", "k3"])
    reached = np.array([fit.deviations[name] for name in made.wanted.labels])
    assert (reached > 0.9 * best.low).all()
    assert (reached < 1.1 * best.high).all()


def test_channels_that_tell_nothing_can_be_dropped():
    run = replace(RUN, channels={"x": 0.01, "x'": 10.0})
    found = kz.plan(oscillator(), VARY, run=run, search=kz.Search(points=16, polish=0))
    assert found.droppable() == ("x'",)
    longer = found.long_enough()
    assert (longer.diff().dropna() < 0).all().all()


def test_what_nothing_improves_is_named():
    """A mass that scales force and stiffness alike has no influence on a free decay."""
    names = [kz.Parameter(n, 1.0, prior=kz.Prior(1.0, s)) for n, s in (("m", 0.02), ("k", 0.2))]
    model = kz.Model.from_equations("m*x'' + 0.1*m*x' + k*x = 0", parameters=names)
    run = kz.Choice(duration=20.0, step=0.1, channels={"x": 0.01})
    found = kz.plan(model, {"x": (0.5, 2.0)}, run=run, want=["k/m", "m"], search=kz.Search(points=8, polish=0))
    assert any("improves m" in line for line in found.unimproved())
    assert not any("improves k/m" in line for line in found.unimproved())
    assert found.expected[0].after[0] < 0.1 * found.expected[0].now[0]


def test_laws_that_may_be_missing_widen_the_promise():
    weak = oscillator(False).with_values(F=0.05, w=0.8)
    record = kz.measure(kz.simulate(weak, x0=[0.0, 0.0], t=np.arange(200) * 0.1), noise=0.01, seed=3)
    fit = kz.identify(weak, record, free=["c", "k", "k3"])
    found = kz.plan(fit, VARY, run=RUN, missing=["quadratic x"], search=kz.Search(points=32, polish=0))
    one = found.expected[0]
    assert one.with_laws is not None
    assert one.with_laws[0] > 2 * one.after[0]
    assert one.beyond > 1.5
    assert "if there is quadratic x" in str(found)


def test_a_sweep_reaches_the_branch_that_rest_does_not():
    """Beyond the fold of a hardening resonance the upper branch is reached from below only."""
    model = oscillator()
    run = replace(RUN, settings={"F": 0.3, "w": 1.5}, settle=120.0, sweep=("w", 0.5, 2.0))
    vary = {"approach": ["from above", "from below"]}
    found = kz.plan(model, vary, run=run, search=kz.Search(points=2, polish=0, shown=8))
    sizes = {one.choice.approach: one.outcomes for one in found}
    upper, lower = (max(o.size for o in sizes[approach]) for approach in ("from below", "from above"))
    assert upper > 2 * lower
    assert found.best.approach == "from below"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vary": {}}, "Nothing may vary"),
        ({"vary": {"omega": (0.5, 2.0)}}, '"omega" cannot be chosen'),
        ({"vary": {"c": (0.1, 0.2)}}, "to be identified"),
        ({"vary": {"w": (2.0, 0.5)}}, "lower end first"),
        ({"vary": VARY, "limits": {"abs(x)": -1.0}}, "above 0"),
        ({"vary": VARY, "measure": ["y"]}, "noise of y is not known"),
        ({"vary": {"approach": ["sideways"]}}, "there are rest, state"),
    ],
)
def test_bad_questions_are_refused(arguments, message):
    with pytest.raises(DataError, match=message):
        kz.plan(oscillator(), run=RUN, **arguments)


def test_a_model_without_priors_has_no_plan():
    with pytest.raises(IdentifiabilityError, match="needs a prior"):
        kz.plan(oscillator(False), VARY, run=RUN)


def test_no_run_within_the_limits_is_said():
    found = kz.plan(oscillator(), VARY, run=RUN, limits={"abs(x)": 1e-4}, search=kz.Search(points=8))
    assert len(found) == 0
    assert "No experiment" in str(found)
    with pytest.raises(DataError, match="stays within the limits"):
        _ = found.best


def test_run_sheets_are_read_back(made, tmp_path):
    made.sheet(tmp_path / "runs.toml")
    assert kz.read_sheet(tmp_path / "runs.toml") == [one.choice for one in made]
    made.sheet(tmp_path / "runs.csv")
    assert (tmp_path / "runs.csv").read_text().count("\n") == len(made) + 1
    (tmp_path / "odd.toml").write_text('[[run]]\nstep = 0.1\nduration = 1.0\nchannels = {x = 0.1}\nshell = "ls"\n')
    with pytest.raises(DataError, match=r"no entry .shell."):
        kz.read_sheet(tmp_path / "odd.toml")


def test_the_map_is_drawn(made, tmp_path):
    made.report(tmp_path / "plan.html")
    page = (tmp_path / "plan.html").read_text(encoding="utf-8")
    assert "Do this next: F = " in page
    assert len(page) > 50_000  # the map is in it
    # The page alone says what F drives, what is held and what is not to be passed.
    assert all(f"{equation} = 0" in unescape(page) for equation in made.model.equations)
    text = " ".join(re.sub(r"<[^>]+>", " ", unescape(page).split("Model and choices")[-1]).split())
    assert all(f"{axis.name} chosen" in text for axis in made.space.axes)
    assert all(f"{limit} limit at most {bound:.4g}" in text for limit, bound in made.limits.items())
    settings = set(made.model.names) - set(made.knowledge.names) - {axis.name for axis in made.space.axes}
    assert all(f"{name} held" in text for name in settings)


def test_two_orbits_tell_what_neither_tells_alone():
    """Readings a + b and a - b: each alone leaves the other combination at its prior."""
    both = [kz.Parameter(n, 1.0, prior=kz.Prior(1.0, 1.0)) for n in ("a", "b")]
    model = kz.Model.from_equations("x'' + a*x' + b*x = 0", parameters=both)
    items = [
        kz.Reading("sum", lambda m: m.values["a"] + m.values["b"], 0.01),
        kz.Reading("sum again", lambda m: m.values["a"] + m.values["b"], 0.01),
        kz.Reading("difference", lambda m: m.values["a"] - m.values["b"], 0.01),
    ]
    found = kz.best_set(model, items, size=2)
    assert set(found.best) in ({0, 2}, {1, 2})
    # Var a = (σ² + σ²)/4 for a = (sum + difference)/2.
    assert found.sets[0].after == pytest.approx([0.01 / np.sqrt(2)] * 2, rel=1e-3)


def rig(seed: int = 1) -> SimulatedRig:
    return SimulatedRig(
        oscillator(False), adjustable=("F", "w"), sample_time=0.05, sensors=Sensors(noise={"x": 0.01}), seed=seed
    )


def test_a_rig_identifies_itself(tmp_path):
    asked = {"aim": 0.01, "budget": 5, "limits": {"abs(x)": 1.2}, "folder": tmp_path / "campaign"}
    asked |= {"search": kz.Search(points=32, polish=10, shown=16)}
    found = kz.experiment(rig(), oscillator(), VARY, RUN, **asked)
    assert found.ending is Ending.REACHED
    assert found.fit is not None
    for name, true in {"c": 0.1, "k": 1.0, "k3": 1.0}.items():
        assert abs(found.fit.values[name] - true) < 4 * found.fit.deviations[name]
    again = kz.experiment(rig(), oscillator(), VARY, RUN, **asked)
    assert again.runs == found.runs
    assert again.fit is not None
    assert again.fit.values == pytest.approx(found.fit.values)


def test_a_wrong_model_ends_the_campaign():
    wrong = kz.Model.from_equations(
        "x'' + c*x' + k*x = F*cos(w*t)",
        parameters=[
            kz.Parameter("c", 0.1, prior=kz.Prior(0.1, 0.02)),
            kz.Parameter("k", 1.0, prior=kz.Prior(1.0, 0.05)),
            "F",
            "w",
        ],
        period="2*pi/w",
    )
    found = kz.experiment(rig(), wrong, VARY, RUN, budget=3, search=kz.Search(points=32, polish=10, shown=16))
    assert found.ending is Ending.MISSES


def test_a_limit_passed_on_the_rig_stops_it():
    stopped = []

    class Watched(SimulatedRig):
        def stop(self) -> None:
            stopped.append(True)
            super().stop()

    measured = Watched(
        oscillator(False), adjustable=("F", "w"), sample_time=0.05, sensors=Sensors(noise={"x": 0.01}), seed=1
    )
    from kapitza.planning.rigs import rig_measurer

    measure = rig_measurer(measured, oscillator(), {"abs(x)": 0.2})
    with pytest.raises(RigError, match="the rig was stopped"):
        measure(replace(RUN, settings={"F": 0.5, "w": 1.2}))
    assert stopped


def test_plans_are_saved_and_loaded(made, tmp_path):
    kz.save(made, tmp_path / "plan.nc")
    loaded = kz.load(tmp_path / "plan.nc")
    assert str(loaded) == str(made)
    assert loaded.best == made.best


def test_the_command_plans_from_a_saved_fit(tmp_path):
    from typer.testing import CliRunner

    from kapitza.cli.app import app

    model = oscillator(False)
    states = kz.simulate(model.with_values(F=0.1, w=0.9), x0=[0.0, 0.0], t=np.arange(150) * 0.1)
    record = kz.measure(kz.Record.from_arrays(states.time, {"x": states["x"]}), noise=0.01, seed=2)
    fit = kz.identify(model, [(record, {"F": 0.1, "w": 0.9})], free=["c", "k", "k3"])
    kz.save(fit, tmp_path / "fit.nc")
    asked = ["plan", str(tmp_path / "fit.nc"), "--vary", "F=0.02:0.5", "--vary", "w=0.8,1.0,1.2"]
    done = CliRunner().invoke(app, [*asked, "--limit", "abs(x)=1.2", "--sheet", str(tmp_path / "runs.csv")])
    assert done.exit_code == 0, done.output
    assert "1. F = " in done.output
    assert "abs(x)" not in (tmp_path / "runs.csv").read_text()
    wrong = CliRunner().invoke(app, ["plan", str(tmp_path / "fit.nc"), "--vary", "F"])
    assert wrong.exit_code != 0


def test_a_missing_law_never_narrows_a_promise():
    """One more unknown cannot tell more: both widths are means over the same draws."""
    known = [
        kz.Parameter(n, v, prior=kz.Prior(v, s), bounds=(0.0, np.inf))
        for n, v, s in (("c", 0.1, 0.01), ("k", 1.0, 0.05), ("k3", 0.5, 0.5))
    ]
    model = kz.Model.from_equations(
        "x'' + c*x' + k*x + k3*x**3 = F*cos(w*t)", parameters=[*known, "F", "w"], period="2*pi/w"
    )
    run = kz.Choice({"F": 0.3}, duration=40.0, step=0.1, channels={"x": 0.01})
    search = kz.Search(points=4, polish=0, draws=4, shown=8)
    found = kz.plan(model, {"w": (0.5, 2.0)}, run=run, missing=["quadratic x"], search=search)
    plain, wide = (np.array([getattr(one, name) for one in found]) for name in ("after", "with_laws"))
    assert (wide >= plain).all()
    assert (wide[:, 0] > 1.5 * plain[:, 0]).any()  # drag is damping


def test_motions_between_two_branches_do_not_hide_them():
    """Seven of ten settle at 0.1, three at 1.2; four of a hundred are still on their way down."""
    size = np.concatenate([np.linspace(0.094, 0.12, 66), [0.16, 0.21, 0.28, 0.35], np.linspace(1.1, 1.25, 30)])
    found = _branches(np.random.default_rng(0).permutation(size), np.ones((100, 1)))
    assert [round(one.probability, 2) for one in found] == [0.7, 0.3]
    spread = _branches(np.geomspace(0.01, 10.0, 20), np.ones((20, 1)))
    assert [one.probability for one in spread] == [1.0]
