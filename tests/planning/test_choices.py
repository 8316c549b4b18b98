"""What may be chosen and limited: measured drives, several sines, added masses, bifurcations, delays, drift, time."""

from dataclasses import replace

import numpy as np
import pytest

import kapitza as kz
from kapitza.continuation import bifurcation_gradient, moved_bifurcation
from kapitza.errors import DataError, ModelError

FEW = kz.Search(points=4, polish=0, draws=2, shown=2)
RUN = kz.Choice(duration=20.0, step=0.1, channels={"x": 0.01})


def known(**values: float) -> list[kz.Parameter]:
    return [kz.Parameter(n, v, prior=kz.Prior(v, 0.05 * abs(v)), bounds=(0.0, np.inf)) for n, v in values.items()]


@pytest.fixture(scope="module")
def driven():
    t = np.linspace(0.0, 19.8, 100)
    measured = kz.Signal("u", t, np.zeros(100), period=20.0)
    return kz.Model.from_equations("x'' + c*x' + k*x = u", parameters=known(c=0.1, k=1.0), signals=[measured])


def test_a_drive_is_chosen_among_measured_and_written_ones(driven):
    """A resonance is told most by the drive that excites it; a formula gives what the same equation gives."""
    t = np.linspace(0.0, 19.95, 400)
    slow = kz.Signal("u", t, 0.1 * np.cos(2 * np.pi * t / 20.0), period=20.0, degree=3)
    drives = {"slow": slow, "two sines": "0.1*cos(t) + 0.05*cos(2.3*t)"}
    found = kz.plan(driven, {}, run=RUN, drives=drives, search=FEW)
    assert found.best.drive == "two sines"
    assert "drive two sines" in str(found)
    written = kz.Model.from_equations(
        "x'' + c*x' + k*x = 0.1*cos(t) + 0.05*cos(2.3*t)", parameters={"c": 0.1, "k": 1.0}
    )
    told = kz.information(written, RUN, ["c", "k"], found.knowledge.some(2))
    widths = found.wanted.widths(found.knowledge.information + told)
    assert found[0].after == pytest.approx(np.exp(np.log(widths).mean(axis=0)), rel=1e-6)


def test_a_drive_goes_into_a_run_sheet_and_back(driven, tmp_path):
    found = kz.plan(driven, {"drive": ["a"]}, run=RUN, drives={"a": "0.1*cos(t)"}, search=FEW)
    found.sheet(tmp_path / "runs.toml")
    assert kz.read_sheet(tmp_path / "runs.toml")[0].drive == "a"
    kz.save(found, tmp_path / "plan.nc")
    assert (kz.load(tmp_path / "plan.nc").long_enough() == found.long_enough()).all().all()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"vary": {"drive": ["b"]}, "drives": {"a": "cos(t)"}}, 'no drive "b"'),
        ({"vary": {}, "drives": {"a": {"v": "cos(t)"}}}, "not a measured drive"),
        ({"vary": {}, "drives": {"a": "__import__('os')"}}, "__import__"),
    ],
)
def test_unknown_drives_are_refused(driven, asked, message):
    with pytest.raises((DataError, ModelError), match=message):
        kz.plan(driven, run=RUN, search=FEW, **asked)


def test_an_added_mass_tells_mass_from_stiffness():
    """ω² = k/(m + a): free vibrations with a = 0 leave the ratio; a known mass more gives both."""
    model = kz.with_added(kz.Model.from_equations("m*x'' + k*x = 0", parameters=known(m=2.0, k=8.0)), "m")
    run = replace(RUN, start={"x": 1.0})
    none, more = kz.information(model, [replace(run, settings={"m_added": a}) for a in (0.0, 1.0)], ["m", "k"])
    size = np.sqrt(np.diag(none))
    assert np.linalg.eigvalsh(none / np.outer(size, size))[0] == pytest.approx(0.0, abs=1e-9)
    total = none + more
    assert np.linalg.eigvalsh(total / np.outer(np.sqrt(np.diag(total)), np.sqrt(np.diag(total))))[0] > 1e-3
    runs = [replace(run, settings={"m_added": a}) for a in (0.0, 0.5, 1.0)]
    assert kz.best_set(model, runs, size=2, want=["m"], search=FEW).best == (0, 2)
    derived = kz.Model.from_equations("J*x'' + x = 0", parameters={"m": 2.0, "J": "3*m"})
    assert kz.with_added(derived, "m").with_values(m_added=1.0).structure is not None
    shaken = kz.simulate(kz.with_added(derived, "m").with_values(m_added=1.0), x0=[1.0, 0.0], t=[0.0, np.pi])
    assert shaken["x"][-1] == pytest.approx(np.cos(np.pi / 3), abs=1e-9)
    with pytest.raises(ModelError, match="No parameter"):
        kz.with_added(derived, "q")


def test_a_fold_is_a_measurement_that_can_be_chosen():
    """dp/dθ by implicit derivatives of the fold and by differences of moved folds agree."""
    model = kz.Model.from_equations(
        "x'' + c*x' + k*x + x**3 = F*cos(w*t)",
        parameters=[*known(c=0.1, k=1.0), kz.Parameter("F", 0.3), kz.Parameter("w", 1.0)],
        period="2*pi/w",
    )
    upper, lower = kz.follow(model, None, "w", bounds=(0.9, 2.0)).bifurcations
    slopes = bifurcation_gradient(upper, ("c", "k"))
    for i, name in enumerate(("c", "k")):
        ends = [moved_bifurcation(upper, {name: model.values[name] + h}) for h in (1e-5, -1e-5)]
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(slopes[i], rel=1e-5)
    found = kz.best_set(model, [kz.Reading.of(b, 1e-3) for b in (upper, lower)], size=1, want=["c"], search=FEW)
    assert found.labels[found.best[0]] == f"fold at w = {upper.value:.4g}"
    # One number with slope g: 1/σ² = 1/prior² + g²/noise² for c where k is known; never narrower than that.
    alone = (1 / 0.005**2 + slopes[0] ** 2 / 1e-3**2) ** -0.5
    assert found.sets[0].after[0] > 0.9 * alone


def test_a_delayed_decay_has_its_closed_form():
    """x' = -a x(t - 1) with x = x0 before: x = x0 (1 - a t) on [0, 1], then + a²(t - 1)²/2 x0 on [1, 2]."""
    model = kz.Model.from_equations("x' = -a*x(t - 1)", parameters=known(a=0.7))
    run = kz.Choice(start={"x": 2.0}, duration=2.0, step=0.05, channels={"x": 0.1})
    t = np.arange(run.samples) * run.step
    late = np.clip(t - 1, 0, None)
    rows = np.stack([1 - 0.7 * t + 0.49 * late**2 / 2, 2 * (-t + 0.7 * late**2)], axis=1) / 0.1
    full = rows.T @ rows
    expected = full[1, 1] - full[0, 1] ** 2 / full[0, 0]
    assert kz.information(model, run, ["a"])[0, 0] == pytest.approx(expected, rel=1e-6)


def test_a_rig_with_delay_is_planned_within_its_limit():
    model = kz.Model.from_equations(
        "x'' + c*x' + k*x + g*x(t - tau) = F*cos(w*t)",
        parameters=[
            *known(c=0.2, g=0.3, tau=0.5),
            *(kz.Parameter(n, v) for n, v in (("k", 1.0), ("F", 0.2), ("w", 1.0))),
        ],
        period="2*pi/w",
    )
    found = kz.plan(model, {"F": [0.2, 5.0], "w": [0.4, 1.1]}, run=RUN, limits={"abs(x)": 2.0}, search=FEW)
    assert [one.choice.settings["F"] for one in found] == [0.2] * len(found)
    assert (found[0].after < found[0].now).all()
    sweep = replace(RUN, settings={"w": 1.0}, settle=5.0, approach="from below", sweep=("w", 0.5, 2.0))
    with pytest.raises(DataError, match="not by a sweep"):
        kz.information(model, sweep, ["c"])


def test_time_and_drift_are_limits():
    """A cart on a slope of acceleration a moves by a T²/2; its mean over the last tenth by about 0.45 a T² more."""
    model = kz.Model.from_equations("x'' + c*x' = a", parameters=[*known(c=0.01), kz.Parameter("a", 0.0)])
    long = kz.plan(model, {"duration": [5.0, 40.0]}, run=replace(RUN, settings={"a": 0.01}), limits={"time": 10.0},
                   search=FEW)  # fmt: skip
    assert [one.choice.duration for one in long] == [5.0]
    assert long[0].share == pytest.approx(0.5)
    found = kz.plan(model, {"a": [0.001, 0.01]}, run=RUN, limits={"drift(x)": 0.5}, search=FEW)
    assert [one.choice.settings["a"] for one in found] == [0.001]
    shaken = kz.Model.from_equations(
        "x'' + c*x' + x = F*cos(w*t)", parameters=[*known(c=0.2), "F", kz.Parameter("w", 1.0)], period="2*pi/w"
    )
    steady = replace(RUN, settings={"F": 1.0, "w": 1.0}, start={"x'": 5.0})
    one = kz.plan(shaken, {"w": [1.0]}, run=steady, limits={"drift(x)": 0.5, "abs(x)": 10.0}, search=FEW)[0]
    # A settled vibration of amplitude 5 does not drift: only abs(x) is used.
    assert one.share == pytest.approx(1.05 * 5.0 / 10.0, rel=0.1)
    # From rest it grows, and its mean over a period moves on the way.
    assert not kz.plan(shaken, {"w": [1.0]}, run=replace(steady, start={}), limits={"drift(x)": 0.5}, search=FEW)


def test_telling_apart_searches_around_the_best_point():
    """Linear and cubic damping differ most at the largest amplitude, which two points of a sequence do not contain."""
    light = kz.Parameter("d", 0.1, bounds=(0.0, 1.0))
    models = [kz.Model.from_equations(f"x'' + {law} + x = 0", parameters=[light]) for law in ("d*x'", "d*x'**3")]
    run = kz.Choice(duration=20.0, step=0.1, channels={"x": 0.01})
    rivals = [(model, ["d"]) for model in models]
    found = {
        polish: kz.tell_apart(rivals, {"x": (0.1, 1.0)}, run, search=kz.Search(points=8, polish=polish))
        for polish in (0, 8)
    }
    assert found[8][0].worst > found[0][0].worst
    assert found[8].best.start["x"] > 0.99 > found[0].best.start["x"]
    assert {repr(c.choice) for c in found[0]} <= {repr(c.choice) for c in found[8]}
