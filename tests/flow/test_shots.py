"""Prepared shots against the runs they stand for."""

import numpy as np
import pytest

import kapitza as kz

START = np.array([0.01, 2.5, -0.2, 9.0])


@pytest.mark.parametrize("turns", [0.0, 1.0, -3.0])
@pytest.mark.parametrize(("begin", "periods"), [(0.0, 2.0), (0.3, 1.0), (0.0, 0.5)])
def test_a_shot_is_the_run_it_stands_for(turns, begin, periods):
    """Angles beyond a turn, and ones that pass it on the way (9 rad/s), included."""
    model = kz.library.pendulum_on_spring()
    flow, period = kz.Flow(model, wrt=("a", "kappa"), tolerance=1e-13), model.period
    t0, t1 = begin * period, (begin + periods) * period
    shots = flow.core.shots(model.vector, t0, t1)
    assert shots is not None
    start = START + np.array([0.0, 2 * np.pi * turns, 0.0, 0.0])
    for a, kappa in ((2.0, 0.1), (3.1, 0.2)):
        run = flow.propagate(start, t0, t1, {"a": a, "kappa": kappa}, tangents=True)
        end, tangents = shots.carry(start, np.array([a, kappa]))
        exact = np.hstack([run.jacobian, run.sensitivity])
        np.testing.assert_allclose(end, run.state, rtol=0, atol=1e-12 * np.abs(run.state).max())
        np.testing.assert_allclose(tangents, exact, rtol=0, atol=1e-12 * np.abs(exact).max())
        alone = shots.arrive(start, np.array([a, kappa]))
        np.testing.assert_allclose(alone, run.state, rtol=0, atol=1e-11 * np.abs(run.state).max())


def test_what_changes_from_run_to_run_is_not_prepared():
    """A period that moves, switches on the way, motion without a clock, a mass that must be looked at."""
    duffing = kz.Model.from_equations(
        "x'' + 0.1*x' + x + x**3 = B*cos(omega*t)", parameters={"B": 0.3, "omega": 1.0}, period="2*pi/omega"
    )
    assert kz.Flow(duffing, wrt=("omega",)).core.shots(duffing.vector, 0.0, 1.0) is None
    assert kz.Flow(duffing, wrt=("B",)).core.shots(duffing.vector, 0.0, 1.0) is not None
    assert kz.Flow(duffing, wrt=("B",)).core.shots(duffing.vector, 0.0, 1e4) is None
    rubbing = kz.Model.from_equations(
        "x'' + mu*sign(x') + x = cos(t)", parameters={"mu": 0.1}, period="2*pi", name="dry friction"
    )
    assert kz.Flow(rubbing, wrt=("mu",)).core.shots(rubbing.vector, 0.0, 1.0) is None
    lorenz = kz.library.lorenz()
    assert kz.Flow(lorenz, wrt=("rho",)).core.shots(lorenz.vector, 0.0, 1.0) is None
    # Two frequencies that repeat together at these values only: every value must be looked at.
    beat = kz.Model.from_equations(
        "x'' + 0.1*x' + x = cos(t) + cos(nu*t)", parameters={"nu": 2.0}, period="2*pi", name="beat"
    )
    assert kz.Flow(beat, wrt=("nu",)).core.shots(beat.vector, 0.0, 1.0) is None
    with pytest.raises(kz.KapitzaError, match="does not repeat"):
        kz.follow(beat, None, "nu", (1.5, 2.5))


def test_tangents_of_large_models_are_left_to_the_flow():
    """They are carried a few columns at a time: all at once their code would take minutes to compile."""
    drive = ["B*cos(t)", *["0"] * 31]
    springs = [f"x{i}'' + 0.1*x{i}' + x{i} + (x{i} - x{max(i - 1, 0)})**3 = {f}" for i, f in enumerate(drive)]
    chain = kz.Model.from_equations(springs, parameters={"B": 0.3}, period="2*pi", name="chain")
    flow = kz.Flow(chain, wrt=("B",))
    assert flow.core.engine(chain.vector).by_columns is not None
    assert flow.core.shots(chain.vector, 0.0, 1.0) is None
