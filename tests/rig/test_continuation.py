"""Control-based continuation on simulated rigs, against bifurcations of the models computed by other means."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.optimize import brentq

import kapitza as kz
from kapitza.errors import DataError, RigError, Status
from kapitza.rig import (
    Experiment,
    Feedback,
    FourierSeries,
    Journal,
    RigStepping,
    SecondOrder,
    Sensors,
    SimulatedRig,
    beam_rig,
    doubling_at_amplitude,
    duffing_rig,
    find_doubling,
    pendulum_test,
    spring_part,
)
from kapitza.rig.folds import parabola_extremum
from kapitza.rig.numerical import NumericalPart

pendulum_rig = partial(kz.rig.pendulum_rig, sample_time=2e-3)
"""Controlled 500 times a second: what is found does not depend on it, and takes half the steps of the default."""

QUOTED = np.hypot(13 * 0.1, 200.0)
"""Forcing is quoted as a / sqrt(Ω²C² + K²)."""

DOUBLING, FOLD = 0.0132082, 0.0080091
"""Of the emulated system, by shooting and by AUTO-07p."""

DUFFING_FOLDS = 1.7797195, 1.3242362
"""Of x'' + 0.1 x' + x + x³ = 0.3 cos ωt, by shooting and by Fourier collocation."""


def test_balance_of_the_numerical_part_is_its_equation():
    part = NumericalPart(spring_part(), "F")
    rng = np.random.default_rng(3)
    y, force = (FourierSeries(6.5, rng.normal(size=9)) for _ in range(2))
    values = part.values
    found = part.balance(y, force, (np.zeros(9), np.zeros(9)), values).coefficients
    times = np.linspace(0, 1, 50)
    exact = 0.2 * y(times, 2) + 0.1 * y(times, 1) + 200 * y(times) - 2 * np.cos(13 * times) - force(times)
    assert FourierSeries(6.5, found)(times) == pytest.approx(exact, abs=1e-9)
    stiff = part.stiffness(6.5, 4, values)
    shift = np.zeros(9)
    shift[3] = 1e-3
    moved = part.balance(FourierSeries(6.5, y.coefficients + shift), force, (np.zeros(9), np.zeros(9)), values)
    assert (moved.coefficients - found) / 1e-3 == pytest.approx(stiff[:, 3], abs=1e-6)


def test_noise_of_the_balance_is_that_of_many_draws():
    part = NumericalPart(spring_part(), "F")
    rng = np.random.default_rng(5)
    y, force = np.zeros(9), np.zeros(9)
    spread = np.linspace(1e-4, 2e-4, 9), np.linspace(0.01, 0.02, 9)
    draws = [
        part.balance(
            FourierSeries(6.5, y + spread[0] * rng.normal(size=9)),
            FourierSeries(6.5, force + spread[1] * rng.normal(size=9)),
            spread,
            part.values,
        ).coefficients
        for _ in range(2000)
    ]
    claimed = part.balance(FourierSeries(6.5, y), FourierSeries(6.5, force), spread, part.values).deviations
    assert np.std(draws, axis=0) == pytest.approx(claimed, rel=0.07)


@pytest.fixture(scope="module")
def doubling():
    """Period doubling of the hanging pendulum, found on a rig with noise and an unknown actuator."""
    sensors = Sensors(noise={"theta": 5e-3, "y": 1e-4, "F": 8e-3})
    test = pendulum_test(pendulum_rig(SecondOrder(100.0, 5.0, 0.010, "F"), sensors=sensors, seed=1))
    return test, find_doubling(test, "a", (0.010 * QUOTED, 0.016 * QUOTED), points=3)


def test_doubling_of_the_hanging_state(doubling):
    _, found = doubling
    assert found.value / QUOTED == pytest.approx(DOUBLING, rel=0.01)
    assert found.deviation < 0.01 * found.value
    assert found.measurements > 10


def test_high_gains_do_not_bias_the_doubling():
    # The controller resists the third mode of the doubled motion; by the first mode alone this rig is 2 % off.
    test = pendulum_test(pendulum_rig(gains=(0.0, 40.0)), modes=4)
    found = find_doubling(test, "a", (0.0125 * QUOTED, 0.0140 * QUOTED), points=2)
    assert found.value / QUOTED == pytest.approx(DOUBLING, rel=4e-3)


@pytest.mark.parametrize(("Omega", "near"), [(10.0, 0.0926), (18.0, 0.0087)])
def test_the_deviation_of_a_doubling_holds_its_error(Omega, near):
    # det G bends with the forcing and with the size of the perturbation: one secant step left 30 to 80 deviations.
    scale = abs(200.0 + 0.1j * Omega)
    flow = kz.Flow(kz.library.pendulum_on_spring().with_values(Omega=Omega))

    def excess(forcing):
        y = forcing * scale / (200.0 - 0.47 * Omega**2 + 0.1j * Omega)
        state = [y.real, 0.0, (1j * Omega * y).real, 0.0]
        found = flow.propagate(state, 0.0, 2 * np.pi / Omega, {"a": forcing * scale})
        return np.linalg.det(found.jacobian[np.ix_([1, 3], [1, 3])] + np.eye(2))

    exact = brentq(excess, 0.9 * near, 1.1 * near, xtol=1e-12)
    test = pendulum_test(pendulum_rig(), modes=2, Omega=Omega)
    found = find_doubling(test, "a", (0.6 * near * scale, 1.5 * near * scale), points=3)
    assert abs(found.value / scale - exact) < 3 * found.deviation / scale
    assert found.deviation / scale < 2e-3 * exact


def test_branch_through_its_fold_with_noise_and_an_unknown_actuator(doubling, tmp_path):
    test, start = doubling
    path = tmp_path / "branch.jsonl"
    before = test.measurements
    first = test.follow(start, "a", (0, 0.014 * QUOTED), record=path, watch=lambda p: p.value < 0.0090 * QUOTED)
    assert first.status is Status.INTERRUPTED
    assert len(first) > 3
    # Interrupted in the middle: the record takes it up again, with another rig.
    sensors = Sensors(noise={"theta": 5e-3, "y": 1e-4, "F": 8e-3})
    again = pendulum_test(pendulum_rig(SecondOrder(100.0, 5.0, 0.010, "F"), sensors=sensors, seed=2))
    branch = again.follow(
        start, "a", (0, 0.014 * QUOTED), record=path, resume=True,
        watch=lambda p: p.value > 0.0088 * QUOTED and p.series("theta").peak() > 0.8,
    )  # fmt: skip
    assert [p.value for p in branch][: len(first)] == pytest.approx([p.value for p in first])
    assert len(branch.folds) == 1
    assert branch.folds[0].value / QUOTED == pytest.approx(FOLD, rel=0.01)
    assert all(p.effort < 0.03 for p in branch)
    noted = Journal(path)
    assert len(noted.of("measurement")) == first.measurements + branch.measurements
    assert len(noted.of("point")) == len(branch)
    assert test.measurements - before == first.measurements
    table = branch.table()
    assert {"a", "max theta", "residual [σ]", "effort"} <= set(table.columns)
    assert branch.points[0].sign != branch.points[-1].sign


def test_amplitude_condition_agrees_with_the_determinant(doubling):
    _, start = doubling
    test = pendulum_test(pendulum_rig(), modes=2)
    small, outcome = doubling_at_amplitude(test, start, 0.05)
    assert small.value / QUOTED == pytest.approx(DOUBLING, rel=0.01)
    series = outcome.found.measurement.series("theta")
    assert series.rms == pytest.approx(0.05, rel=0.02)


def test_too_few_modes_are_refused(doubling):
    _, start = doubling
    test = pendulum_test(pendulum_rig(), modes=2)
    branch = test.follow(start, "a", (0, 0.014 * QUOTED), add_modes=False, stepping=RigStepping(max_points=30))
    assert branch.status is Status.UNRESOLVED
    assert "Modes beyond the 2 unknown ones" in branch.message
    assert min(p.value for p in branch) > 1.05 * FOLD * QUOTED


def test_duffing_rig_through_both_folds():
    rig = duffing_rig(sensors=Sensors(noise={"x": 2e-3}), seed=3)
    settings = {"frequency": "omega", "modes": 5, "values": {"B": 0.3, "omega": 1.2}, "scales": {"x": 1.0}}
    branch = rig.follow(
        {"x": FourierSeries(1.2, [0.0, 0.9, 0.15])},
        "omega",
        (0.5, 2.0),
        **settings,
        stepping=RigStepping(max_points=70),
        watch=lambda p: p.value > 1.45 and p.series("x").peak() < 0.4,
    )
    assert branch.status is Status.INTERRUPTED  # by the watcher, on the way up after the second fold
    assert [b.value for b in branch.folds] == pytest.approx(DUFFING_FOLDS, rel=0.01)


def test_beam_with_a_gap_through_both_folds():
    rig = beam_rig(sensors=Sensors(noise={"x": 0.01}), seed=1)
    branch = rig.follow(
        None, "Omega", (45.0, 110.0), frequency="Omega", modes=6, values={"A": 0.1, "Omega": 55.0}, scales={"x": 2.0},
        stepping=RigStepping(max_points=70), watch=lambda p: p.value > 75,
    )  # fmt: skip
    model = rig.plant.model.with_values(A=0.1, Omega=55.0)
    exact = kz.follow(model, kz.solve_orbit(model, [0.5, 0.0], period=1), "Omega", bounds=(50.0, 110.0))
    folds = [b.value for b in exact.bifurcations if b.kind.value == "fold"]
    assert len(folds) == 2
    assert [b.value for b in branch.folds] == pytest.approx(folds, rel=0.01)


def test_a_limit_of_the_rig_ends_the_walk_with_what_was_found():
    rig = SimulatedRig(
        kz.Model.from_equations(
            "x'' + 0.1*x' + x + x**3 = B*cos(omega*t)", parameters={"B": 0.1, "omega": 0.7}, period="2*pi/omega"
        ),
        feedback=[Feedback("x", (1.0, 0.8), limit=0.45)],
        adjustable=("omega",),
        sample_time=0.02,
    )
    branch = rig.follow(None, "omega", (0.3, 2.0), frequency="omega", modes=3, scales={"x": 1.0})
    assert branch.status is Status.STALLED
    assert "reached a limit of the rig" in branch.message
    assert "the limit is 0.45:" in branch.message
    assert len(branch) > 2
    with pytest.raises(RigError, match="safe state"):
        rig.run(1)


def test_the_verb_on_a_rig_is_the_verb_on_a_model():
    branch = kz.follow(
        duffing_rig(), None, "omega", (0.5, 1.5), frequency="omega", modes=3, values={"B": 0.1, "omega": 0.8},
        scales={"x": 1.0}, stepping=RigStepping(max_points=4),
    )  # fmt: skip
    assert [round(p.value, 3) for p in branch][:2] == [0.8, 0.88]
    model = duffing_rig().plant.model.with_values(B=0.1, omega=branch[-1].value)
    series = branch[-1].series("x")
    orbit = kz.solve_orbit(model, [float(series(0.0)), float(series(0.0, 1))], period=1)
    assert orbit.points[0] == pytest.approx([float(series(0.0)), float(series(0.0, 1))], abs=2e-3)


def test_journal_survives_a_crash(tmp_path):
    path = tmp_path / "rig.jsonl"
    journal = Journal(path)
    journal.add("point", {"value": np.float64(1.5), "z": np.arange(3.0)})
    with path.open("a") as file:
        file.write('{"kind": "point", "val')
    again = Journal(path)
    assert [e["value"] for e in again.of("point")] == [1.5]
    again.add("point", {"value": 2.5})
    assert [e["value"] for e in Journal(path).of("point")] == [1.5, 2.5]
    path.write_text("something else\n")
    with pytest.raises(DataError, match="damaged in line 1"):
        Journal(path)
    with pytest.raises(DataError, match="no folder"):
        Journal(tmp_path / "nowhere" / "rig.jsonl")


def test_a_walk_goes_on_only_as_it_began_and_on_the_rig_it_began_on(tmp_path):
    path, settings = tmp_path / "walk.jsonl", {"frequency": "omega", "modes": 3, "scales": {"x": 1.0}}

    def follow(rig, parameter="omega", count=4, values=None, **more):
        test = Experiment(rig, values={"B": 0.1, "omega": 0.8, **(values or {})}, **settings, **more)
        return test.follow(
            None, parameter, (0.0, 1.5), stepping=RigStepping(max_points=count), record=path, resume=path.exists()
        )

    begun = follow(duffing_rig())
    with pytest.raises(RigError, match="made with parameter = omega, the experiment has parameter = B"):
        follow(duffing_rig(), "B")
    with pytest.raises(RigError, match=r"made with B = 0\.1, the experiment has B = 0\.2"):
        follow(duffing_rig(), values={"B": 0.2})
    with pytest.raises(RigError, match="made with repeats = 1, the experiment has repeats = 2"):
        follow(duffing_rig(), repeats=2)
    changed = kz.Model.from_equations(
        "x'' + d*x' + 1.3*x + x**3 = B*cos(omega*t)", parameters={"d": 0.1, "B": 0.3, "omega": 1.0}, period="2*pi/omega"
    )
    other = SimulatedRig(
        changed, feedback=[Feedback("x", (1.0, 0.8))], adjustable=("B", "omega"), sample_time=0.02, ramp=1.0
    )
    with pytest.raises(RigError, match="the rig was changed since"):
        follow(other)
    more = follow(duffing_rig(), count=6)
    assert len(more) == 6
    assert [p.value for p in more][:4] == [p.value for p in begun]
    assert np.all(np.diff([p.value for p in more]) > 0)


def test_parabola_extremum_and_its_deviation():
    rng = np.random.default_rng(0)
    x = np.array([-0.4, -0.2, 0.0, 0.2, 0.4])
    found = [parabola_extremum(x, 1.0 + 2 * (x - 0.05) ** 2 + 1e-3 * rng.normal(size=5)) for _ in range(400)]
    values = np.array([f[0] for f in found])
    assert values.mean() == pytest.approx(1.0, abs=2e-4)
    # Five points know their scatter with two degrees of freedom: 90 % intervals are Student's.
    inside = np.abs(values - 1.0) < 1.6449 * np.array([f[1] for f in found])
    assert inside.mean() == pytest.approx(0.9, abs=0.03)


def test_refusals_say_what_is_missing():
    with pytest.raises(RigError, match="has no feedback: give the numerical part"):
        Experiment(pendulum_rig())
    with pytest.raises(RigError, match="frequency of the excitation"):
        Experiment(duffing_rig())
    with pytest.raises(RigError, match='no parameter "omeg"'):
        Experiment(duffing_rig(), frequency="omeg")
    with pytest.raises(RigError, match="Name the parameter"):
        Experiment(duffing_rig(), frequency="omega").follow()
    with pytest.raises(RigError, match="repeats = 1"):
        find_doubling(Experiment(duffing_rig(), frequency="omega"), "B", (0.1, 0.2))
    with pytest.raises(RigError, match='no parameter "force"'):
        Experiment(pendulum_rig(), numerical=spring_part(), force="force")


def test_a_measurement_or_demand_of_another_experiment_is_refused():
    few, many = (Experiment(duffing_rig(), frequency="omega", modes=n, scales={"x": 1.0}) for n in (2, 3))
    z = np.zeros(5)
    found, demands = few.measure(z, few.values), few.demands(z, few.values)
    assert np.array_equal(few.residual(found.measurement, demands, few.values).value, found.value)
    with pytest.raises(RigError, match="measure with this experiment"):
        many.residual(found.measurement, demands, many.values)
    with pytest.raises(RigError, match='no input "x"'):
        few.residual(found.measurement, {}, few.values)
    with pytest.raises(RigError, match="has 7 coefficients"):
        few.residual(found.measurement, many.demands(np.zeros(7), many.values), few.values)
    with pytest.raises(RigError, match='no output "x"'):
        few.residual(replace(found.measurement, outputs=("y",)), demands, few.values)
