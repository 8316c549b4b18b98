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
        (lambda f: f.propagate(X, 0, NAN), r"t1 = nan; give a finite time"),
        (lambda f: f.propagate(X, 0, 1, {"mass": 1.0}), r'no parameter "mass"'),
        (lambda f: f.propagate(X, 0, 1, {"m": NAN}), r"m is nan among the parameters"),
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
        (lambda f: f.section(X, "phi' - 1000", 1, longest=3.0), r"Only 0 of 1 crossings"),
        (lambda f: f.dense(X, 1.0, 0.0), r"t0 = 1 must be before t1 = 0"),
        (lambda f: f.dense(X, 0.0, 1.0)(2.0), r"covers t from 0 to 1"),
        (lambda f: Flow(f.model, wrt=("q",)), r'no parameter "q"'),
        (lambda f: Flow(f.model, tolerance=0.0), r"tolerance = 0"),
        (lambda f: Flow(library.trace_map()), r"is a map; use Map"),
        (lambda f: Map(f.model), r"is a flow; use Flow"),
        (lambda f: Flow(library.lorenz()).strobe([1.0, 1.0, 1.0], 3), r"no excitation period to strobe by"),
        (lambda f: simulate(f.model), r"either t=times or periods"),
        (lambda f: Map(library.trace_map()).iterate([0.1, 0.2, 0.3], 3, precision="high"), r"precision = 'high'"),
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
