"""Bad input is refused before work starts, with the thing and the cure named."""

import numpy as np
import pytest

from kapitza import Flow, Map, Model, library, simulate
from kapitza.errors import FlowError, KapitzaError

X, NAN = [0.5, 1.0], float("nan")


@pytest.fixture(scope="module")
def flow() -> Flow:
    return Flow(library.parametric_pendulum())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: f.propagate([NAN, 1.0], 0, 1), r"phi is nan in the state"),
        (lambda f: f.propagate([0.0, 1.0, 2.0], 0, 1), r"has 2 entries \(phi, phi'\), not shape \(3,\)"),
        (lambda f: f.propagate({"phi": 1.0}, 0, 1), r"missing: phi'"),
        (lambda f: f.propagate(X, 0, NAN), r"t1 = nan; give a finite number"),
        (lambda f: f.propagate(X, 0, 1, {"mass": 1.0}), r'no parameter "mass"'),
        (lambda f: f.propagate(X, 0, 1, {"m": NAN}), r"parameters\['m'\] = nan; give a finite number"),
        (lambda f: f.propagate(X, 0, 1, [1.0, 2.0]), r"has 9 parameters"),
        (lambda f: f.propagate(X, 0, 1, {"omega": -9.0}), r"period .* is -0\.698.*must be positive"),
        (lambda f: f.propagate_many([X, [0.0, NAN]], 0, 1), r"phi' is nan in row 1"),
        (lambda f: f.propagate_many([X], 0, 1, np.ones((2, 9))), r"shape \(1, 9\), not \(2, 9\)"),
        (lambda f: f.trajectory(X, [0.0, 2.0, 1.0]), r"runs backwards after number 1"),
        (lambda f: f.trajectory(X, [0.0, 1.0, 1.0]), r"repeats after number 1"),
        (lambda f: f.trajectory(X, []), r"one or more times"),
        (lambda f: f.strobe(X, -3), r"periods = -3; give a whole number, 0 or more"),
        (lambda f: f.strobe(X, 3, samples_per_period=0), r"samples_per_period = 0"),
        (lambda f: f.section(X, "phii", 3), r"phii"),
        (lambda f: f.section(X, "phi**2", 3), r"changes when phi makes a full turn"),
        (lambda f: f.section(X, "m - 1", 3), r"contains no state"),
        (lambda f: f.section(X, "phi' - 1000", 1, max_time=3.0), r"Only 0 of 1 crossings"),
        (lambda f: f.dense(X, 1.0, 0.0), r"t0 = 1 must be before t1 = 0"),
        (lambda f: f.dense(X, 0.0, 1.0)(2.0), r"covers t from 0 to 1"),
        (lambda f: Flow(f.model, wrt=("q",)), r'no parameter "q"'),
        (lambda f: Flow(f.model, tolerance=0.0), r"tolerance = 0"),
        (lambda f: Flow(library.trace_map()), r"is a map; use Map"),
        (lambda f: Map(f.model), r"is a flow; use Flow"),
        (lambda f: Flow(library.lorenz()).strobe([1.0, 1.0, 1.0], 3), r"no excitation period to strobe by"),
        (lambda f: simulate(f.model), r"either t=times or periods"),
        (lambda f: Map(library.trace_map()).iterate([0.1, 0.2, 0.3], 3, precision="high"), r"precision = 'high'"),
        (lambda f: f.propagate(["a", 1.0], 0, 1), r"x: .*cannot be read as real numbers"),
        (lambda f: f.propagate(X, None, 1), r"t0 = None; give a number"),
        (lambda f: f.propagate(X, "now", 1), r"t0 = 'now'; give a number"),
        (lambda f: f.propagate(X, 0, 1, {"m": "heavy"}), r"parameters\['m'\] = 'heavy'; give a number"),
        (lambda f: f.propagate_many([X, X, X], [0, 0], 1), r"t0 has shape \(2,\); .* each of the 3 members"),
        (lambda f: f.propagate_many([X, X], 0, [1, NAN]), r"t1 is not finite at member 1"),
        (lambda f: f.strobe(X, NAN), r"periods = nan; give a whole number"),
        (lambda f: f.strobe(X, float("inf")), r"periods = inf"),
        (lambda f: f.strobe(X, None), r"periods = None"),
        (lambda f: Flow(f.model, wrt=("m", "m")), r"names a parameter twice"),
        (lambda f: f.model.with_values(m="heavy"), r"m = 'heavy'; give a number"),
    ],
)
def test_message_names_the_thing(flow, call, message):
    with pytest.raises(KapitzaError, match=message):
        call(flow)


def test_divergence_names_time_and_state():
    flow = Flow(Model.from_equations("x' = x**2", coordinates=["x"], name="blow-up"))
    with pytest.raises(FlowError, match=r"t = 0\.\d+ with x = \d"):
        flow.propagate([2.0], 0.0, 1.0)


def test_step_limit_names_its_cure():
    flow = Flow(library.lorenz(), max_steps=10)
    with pytest.raises(FlowError, match=r"more than 10 steps.*raise max_steps"):
        flow.propagate([1.0, 1.0, 1.0], 0.0, 100.0)


def test_irreversible_motion_is_not_run_backwards():
    flow = Flow(library.parametric_pendulum(experiment=True))
    with pytest.raises(FlowError, match="backwards"):
        flow.propagate(X, 1.0, 0.0)


def test_singular_equations_name_the_start():
    """A length of zero: not one step can be made, so the place is that of the start."""
    flow = Flow(library.parametric_pendulum())
    with pytest.raises(FlowError, match=r"after t = 0 with phi = 0\.5, phi' = 1.*singular"):
        flow.propagate(X, 0, 1, {"l": 0.0})
    friction = Flow(library.parametric_pendulum(experiment=True))
    with pytest.raises(FlowError, match=r"after t = 0 with phi = 0\.5, phi' = 1.*singular"):
        friction.propagate(X, 0, 1, {"l": 0.0})


@pytest.mark.parametrize("times", [[0.0, 200.0], [0.0, 100.0, 200.0]])
def test_short_runs_that_run_out_of_steps_are_refused(times):
    """Neither the state on the way nor a NaN may pass for the end."""
    flow = Flow(Model.from_equations("x'' + x = 0"), max_steps=3)
    with pytest.raises(FlowError, match=r"more than 3 steps.*raise max_steps"):
        flow.trajectories([[1.0, 0.0], [0.1, 0.0]], [times, times])


def test_period_that_is_not_the_excitation_s_is_refused():
    model = Model.from_equations("x'' + x = cos(w*t)", parameters={"w": 2.0}, period="3.0")
    with pytest.raises(KapitzaError, match=r"period is 3, .* does not repeat .* at w = 2"):
        Flow(model).propagate([1.0, 0.0], 0.0, 100.0)
    fixed = Flow(Model.from_equations("x'' + x = cos(w*t)", parameters={"w": 2.0}, period="pi"))
    fixed.propagate([1.0, 0.0], 0.0, 100.0)
    with pytest.raises(KapitzaError, match=r"does not repeat .* at w = 2\.1"):
        fixed.propagate([1.0, 0.0], 0.0, 100.0, {"w": 2.1})


def test_angle_that_is_none_is_refused():
    """A torsion spring k*phi does not forget full turns."""
    model = Model.from_equations("phi'' + k*phi = 0", parameters={"k": 1.0}, angles=["phi"])
    with pytest.raises(KapitzaError, match=r"phi is declared an angle.*take phi off the angles"):
        Flow(model).propagate([10.0, 0.0], 0.0, 1.0)


def test_no_members_give_no_results():
    run = Flow(library.parametric_pendulum()).propagate_many(np.empty((0, 2)), 0.0, 1.0, tangents=True)
    assert run.state.shape == (0, 2)
    assert run.jacobian.shape == (0, 2, 2)


@pytest.mark.parametrize("tangents", [False, True])
def test_a_motion_ends_where_a_root_loses_its_real_value(tangents):
    """x' = -sqrt(x) from 1 is (1 - t/2)² until t = 2; the parabola beyond is not a solution."""
    flow = Flow(Model.from_equations("x' = -sqrt(x)"))
    assert flow.propagate([1.0], 0.0, 1.9, tangents=tangents).state == pytest.approx([0.05**2], abs=1e-14)
    with pytest.raises(FlowError, match=r"end of the domain of sqrt\(x\) at t = 2 with"):
        flow.propagate([1.0], 0.0, 4.0, tangents=tangents)


def test_a_root_without_value_ends_samples_and_members_of_a_batch():
    model = Model.from_equations("x' = -sqrt(c*x)", parameters={"c": 1.0})
    with pytest.raises(FlowError, match="end of the domain"):
        simulate(model, [1.0], t=np.linspace(0.0, 4.0, 9))
    ends = Flow(model).propagate_many([[1.0], [9.0]], 0.0, 4.0, throw=False).state
    assert np.isnan(ends[0, 0])
    assert ends[1, 0] == pytest.approx((3.0 - 2.0) ** 2)


def test_a_root_that_keeps_its_value_ends_nothing():
    """x' = -sqrt(1 + x²) from sinh(1) is sinh(1 - t), through zero."""
    model = Model.from_equations("x' = -sqrt(1 + x**2)")
    assert simulate(model, [np.sinh(1.0)], t=[0.0, 3.0])["x"][-1] == pytest.approx(np.sinh(-2.0))


@pytest.mark.parametrize("law", ["x' = -sqrt(x)*(2 + sign(sin(3*t)))", "x' = -sqrt(x)*(2 + sign(sin(3*t) - 2))"])
def test_a_root_without_value_ends_motions_with_jumps(law):
    """Where the gain is 3 or 1 the parabola meets zero between two jumps, and would rise again."""
    flow = Flow(Model.from_equations(law))
    with pytest.raises(FlowError, match=r"end of the domain of sqrt\(x\)"):
        flow.trajectory([0.9], np.linspace(0.0, 6.0, 7))
    with pytest.raises(FlowError, match=r"end of the domain of sqrt\(x\)"):
        flow.propagate([0.9], 0.0, 6.0, tangents=False)
    # The tangents are infinite at the end itself, where the step may arrive exactly.
    with pytest.raises(FlowError, match=r"end of the domain|left the finite numbers"):
        flow.propagate([0.9], 0.0, 6.0)
    ends = flow.propagate_many([[0.9], [400.0]], 0.0, 3.0, throw=False).state
    assert np.isnan(ends[0, 0])
    assert np.isfinite(ends[1, 0])


@pytest.mark.parametrize("start", [[9.2e18, 1.5], [1e300, 0.0]])
def test_a_run_without_one_step_is_refused(start):
    flow = Flow(library.duffing())
    with pytest.raises(FlowError, match="left the finite numbers after t = 0"):
        flow.strobe(start, periods=3)
    with pytest.raises(FlowError, match="left the finite numbers after t = 0"):
        flow.trajectory(start, [0.0, 1.0, 2.0])


def test_rates_at_other_times_than_states_are_refused():
    flow = Flow(library.duffing())
    with pytest.raises(KapitzaError, match=r"times has shape \(3,\).* 2 members"):
        flow.rates([[0.4, 0.0], [0.5, 0.1]], [0.0, 1.0, 2.0])
    by_name = flow.rates({"x'": 0.2, "x": 0.4}, 1.0)
    assert by_name.tolist() == flow.rates([0.4, 0.2], 1.0).tolist() == flow.rates([[0.4, 0.2]], 1.0)[0].tolist()
    for wrong in (0.3, [[[0.4, 0.2]]]):
        with pytest.raises(KapitzaError, match="tate"):
            flow.rates(wrong)
