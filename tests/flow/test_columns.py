"""Tangents a few columns at a time are those of one program; large chains take that way by themselves."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import FlowError
from kapitza.flow.columns import Columns
from kapitza.flow.gaps import Gaps


def chain(masses: int) -> kz.Model:
    names = [f"x{i}" for i in range(1, masses + 1)]
    springs = [
        " + ".join(f"k*({x} - {o}) + k3*({x} - {o})**3" for o in (names[i - 1] if i else "0", *names[i + 1 : i + 2]))
        for i, x in enumerate(names)
    ]
    drives = ["F*cos(w*t)"] + ["0"] * (masses - 1)
    return kz.Model.from_equations(
        [f"{x}'' + c*{x}' + {s} = {f}" for x, s, f in zip(names, springs, drives, strict=True)],
        coordinates=names,
        parameters={"c": 0.1, "k": 1.0, "k3": 0.5, "F": 0.5, "w": 1.1},
        period="2*pi/w",
        name="chain",
    )


def by_columns(flow: kz.Flow) -> Columns:
    engine = flow.core.engine(flow.model.vector)
    assert engine.by_columns is None
    return Columns(engine.system, engine.wrt, engine.tolerance, engine.max_steps, Gaps(engine.system))


@pytest.mark.parametrize("masses", [1, 6])
def test_columns_equal_those_of_one_program(masses):
    model = chain(masses)
    flow = kz.Flow(model, wrt=("k", "c"))
    columns, vector = by_columns(flow), model.vector
    engine = flow.core.engine(vector)
    runtime = flow.core.runtime(engine, vector, None)
    state, times = np.linspace(-0.5, 0.4, 2 * masses), np.array([0.3, 1.0, 2.5, 4.0])
    states, tangents = columns.one(state, times, runtime)
    whole = engine.run(state, engine.unit, 0.3, 4.0, runtime, times)
    assert np.abs(states - whole.grid_states).max() < 1e-13
    assert np.abs(tangents - whole.grid_tangents).max() < 1e-12
    rows = np.linspace(-0.3, 0.3, 8 * 2 * masses).reshape(8, -1)
    instants = np.repeat(times[[0, -1], None], 8, axis=1)
    many = columns.many(rows.T, instants, np.repeat(runtime[:, None], 8, axis=1), 1000)[-1].T
    together = engine.run_many(rows, np.tile(engine.unit, (8, 1, 1)), *instants, np.tile(runtime, (8, 1)))
    assert np.abs(many[:, : 2 * masses] - together.state).max() < 1e-13
    assert np.abs(many[:, 2 * masses :] - together.tangents.reshape(8, -1)).max() < 1e-12


def test_a_large_chain_takes_them_by_itself_and_agrees_with_differences(monkeypatch):
    monkeypatch.setattr("kapitza.flow.lanes.MOST_AT_ONCE", 4000)
    model = chain(33)
    flow = kz.Flow(model, wrt=("k3", "w"))
    assert flow.core.engine(model.vector).by_columns is not None
    state, times = np.linspace(-0.5, 0.4, 66), np.linspace(0.0, 1.5 * model.period, 4)
    end = flow.propagate(state, 0.0, times[-1])
    sampled, jacobians, sensitivities = flow.trajectory_tangents(state, times)
    assert np.abs(sampled[-1] - end.state).max() < 1e-12
    assert np.abs(jacobians[-1] - end.jacobian).max() < 1e-11
    assert np.abs(sensitivities[-1] - end.sensitivity).max() < 1e-11
    many = flow.propagate_many(np.stack([state, 0.5 * state]), 0.0, times[-1], tangents=True)
    assert np.abs(many.jacobian[0] - end.jacobian).max() < 1e-11
    reached, by_state, by_parameter = flow.trajectories(np.stack([state, 0.5 * state]), np.stack([times, times]))
    assert np.abs(reached[0] - sampled).max() < 1e-12
    assert np.abs(by_state[0] - jacobians).max() < 1e-11
    assert np.abs(by_parameter[0] - sensitivities).max() < 1e-11
    for place in (0, 32, 65):
        moved = np.zeros(66)
        moved[place] = 1e-5
        ends = [flow.propagate(state + s * moved, 0.0, times[-1], tangents=False).state for s in (1, -1)]
        assert np.abs((ends[0] - ends[1]) / 2e-5 - end.jacobian[:, place]).max() < 1e-7
    for name, column in (("k3", 0), ("w", 1)):
        ends = [
            flow.propagate(state, 0.0, times[-1], {name: model.values[name] + s}, tangents=False).state
            for s in (1e-5, -1e-5)
        ]
        assert np.abs((ends[0] - ends[1]) / 2e-5 - end.sensitivity[:, column]).max() < 1e-6
    backwards = flow.propagate(end.state, times[-1], 0.0)
    assert np.abs(backwards.jacobian @ end.jacobian - np.eye(66)).max() < 1e-7


def test_a_chain_that_bursts_is_refused():
    model = chain(33).with_values(k3=-50.0)
    with pytest.raises(FlowError, match="t = "):
        kz.Flow(model).propagate(np.full(66, 3.0), 0.0, 5.0)
