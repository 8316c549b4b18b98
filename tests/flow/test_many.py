"""Batches and worker processes give what single runs give."""

import numpy as np
import pytest

from kapitza import Flow, Model, library
from kapitza.errors import ArgumentError, FlowError
from kapitza.flow.events.many import has_positive_minors
from kapitza.flow.simulation import start_of


@pytest.mark.parametrize(
    "system",
    [library.parametric_pendulum, library.lorenz, library.planar_double_pendulum, library.oleo_simple],
    ids=lambda system: system.__name__,
)
def test_batch_equals_single_runs(system):
    model = system()
    name = model.names[0]
    flow = Flow(model, wrt=(name,))
    random = np.random.default_rng(3)
    count, scale = 11, model.period or 1.0
    starts = start_of(model) + random.uniform(-0.05, 0.05, (count, len(model.states)))
    vectors = np.tile(model.vector, (count, 1))
    vectors[:, 0] *= random.uniform(0.95, 1.05, count)
    begin = random.uniform(0.0, 3.0, count) * scale
    end = begin + random.uniform(0.1, 1.5, count) * scale
    many = flow.propagate_many(starts, begin, end, vectors, tangents=True)
    for i in range(count):
        one = flow.propagate(starts[i], begin[i], end[i], vectors[i])
        for field in ("state", "jacobian", "sensitivity"):
            alone, together = getattr(one, field), getattr(many, field)[i]
            assert np.abs(together - alone).max() <= 1e-10 * (1 + np.abs(alone).max()), field
        # A determinant is known to rounding times the condition of its matrix.
        lost = 1e-14 * np.linalg.cond(one.jacobian)
        assert many.log_determinant[i] == pytest.approx(one.log_determinant, abs=lost)
        assert (many.turns[i] == one.turns).all()


def test_rows_with_and_without_friction_share_a_call():
    """k1 = 0 takes the smooth engine, k1 > 0 the one with events."""
    model = library.parametric_pendulum()
    flow, period = Flow(model), model.period
    vectors = np.tile(model.vector, (4, 1))
    vectors[1::2, model.names.index("k1")] = 6.88e-4
    starts = np.array([[0.5, 1.0], [0.5, 1.0], [0.0, 0.0], [-1.0, 2.0]])
    many = flow.propagate_many(starts, 0.0, period, vectors)
    for i in range(4):
        assert many.state[i] == pytest.approx(flow.propagate(starts[i], 0.0, period, vectors[i]).state, abs=1e-12)


def test_worker_processes_give_the_same():
    flow = Flow(library.duffing(), wrt=("k",))
    starts = np.random.default_rng(5).uniform(-1.0, 1.0, (6, 2))
    here = flow.propagate_many(starts, 0.0, 3.0, tangents=True)
    there = flow.propagate_many(starts, 0.0, 3.0, tangents=True, processes=2)
    assert there.state == pytest.approx(here.state, abs=1e-14)
    assert there.sensitivity == pytest.approx(here.sensitivity, abs=1e-13)
    assert there.events == here.events


def test_a_diverging_member_is_named_and_does_not_spoil_the_others():
    """x' = x² from x0 > 0 reaches infinity at t = 1/x0."""
    from kapitza import Model

    flow = Flow(Model.from_equations("x' = x**2", coordinates=["x"], name="blow-up"))
    starts = np.array([[-1.0], [0.1], [2.0], [0.5]])
    with pytest.raises(FlowError, match=r"1 of 4 trajectories .*members 2"):
        flow.propagate_many(starts, 0.0, 1.0)
    states = flow.propagate_many(starts, 0.0, 1.0, throw=False).state[:, 0]
    assert np.isnan(states[2])
    assert states[[0, 1, 3]] == pytest.approx([-0.5, 0.1 / 0.9, 1.0], rel=1e-13)


def test_tiny_motions_pass_at_a_loose_tolerance():
    """Near the hanging position, below the tolerance, crossings may go unseen: within the error asked for."""
    model = library.parametric_pendulum()
    flow, exact = Flow(model, tolerance=1e-10), Flow(model)
    starts = np.random.default_rng(4).normal(0.0, 3e-9, (64, 2))
    loose = flow.propagate_many(starts, 0.0, model.period, tangents=True)
    fine = exact.propagate_many(starts, 0.0, model.period, tangents=True)
    np.testing.assert_allclose(loose.state, fine.state, atol=1e-9)
    np.testing.assert_allclose(loose.jacobian, fine.jacobian, atol=1e-7)


def test_few_long_runs_through_events_are_those_of_many():
    """Few members are sampled each on its own, many from sample to sample: the same states and tangents."""
    flow = Flow(library.colliding_cart(), wrt=("k", "b"))
    starts = flow.strobe([0.3, 0.1], 40).states[-12:]
    times = flow.period() * (0.1 + np.linspace(0.0, 1.5, 40)) * np.ones((12, 1))
    many = flow.trajectories(starts, times)
    few = [flow.trajectories(starts[i : i + 1], times[i : i + 1]) for i in range(12)]
    assert any(len(flow.propagate(x, float(times[0, 0]), float(times[0, -1])).events) for x in starts)
    for k, tolerance in ((0, 1e-10), (1, 1e-7), (2, 1e-7)):
        np.testing.assert_allclose(np.concatenate([one[k] for one in few]), many[k], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("model", [library.duffing, library.colliding_cart, library.parametric_pendulum])
@pytest.mark.parametrize("count", [2, 20])
def test_paths_are_the_states_of_trajectories(model, count):
    flow, starts = Flow(model()), np.random.default_rng(1).uniform(-0.5, 0.5, (count, 2))
    times = flow.period() * (0.1 + np.linspace(0.0, 1.2, 12)) * np.ones((count, 1))
    vectors = flow.model.vector * np.linspace(1.0, 1.1, count)[:, None]
    paths = flow.paths(starts, times, vectors)
    np.testing.assert_allclose(paths, flow.trajectories(starts, times, vectors)[0], rtol=1e-9, atol=1e-10)
    assert np.abs(paths[:, -1] - paths[:, 0]).min() > 1e-4


@pytest.mark.parametrize("samples", [2, 6])
@pytest.mark.parametrize("rates", [[1.0, 1.0, 1.0], [1.0, 1.0, 2.0]])
def test_a_run_that_leaves_the_finite_numbers_does_not_take_others_with_it(samples, rates):
    """x' = a x³: x(t) = x₀ / √(1 - 2 a t x₀²); one start overflows at once."""
    model = Model.from_equations("x' = a*x**3", parameters={"a": 1.0}, start={"x": 0.1}, name="cubic growth")
    starts = np.array([[0.1], [1e200], [0.2]])
    times = np.tile(np.linspace(0.0, 1.0, samples), (3, 1))
    states, tangents, _ = Flow(model).trajectories(starts, times, np.array(rates)[:, None], refuse=False)
    good = [0, 2]
    growth = 1 - 2 * np.array(rates)[good, None] * times[good] * starts[good] ** 2
    assert states[good, :, 0] == pytest.approx(starts[good] / np.sqrt(growth), rel=1e-12)
    assert tangents[good, :, 0, 0] == pytest.approx(growth**-1.5, rel=1e-12)
    assert states[:, 0, 0].tolist() == starts[:, 0].tolist()
    assert np.isnan(states[1, 1:]).all()


@pytest.mark.parametrize("model", [library.duffing, library.colliding_cart])
def test_one_sample_is_the_start(model):
    flow, starts = Flow(model(), wrt=("k",)), np.array([[0.3, 0.1], [0.2, -0.1]])
    states, by_state, by_parameter = flow.trajectories(starts, [[1.0], [2.0]])
    np.testing.assert_array_equal(states, starts[:, None])
    np.testing.assert_array_equal(by_state, np.broadcast_to(np.eye(2), (2, 1, 2, 2)))
    np.testing.assert_array_equal(by_parameter, np.zeros((2, 1, 2, 1)))
    np.testing.assert_array_equal(flow.paths(starts, [[1.0], [2.0]]), starts[:, None])
    with pytest.raises(ArgumentError, match="2 rows of increasing times"):
        flow.paths(starts, np.empty((2, 0)))


@pytest.mark.parametrize("units", [1.0, 1e-8, 1e8])
def test_dependent_surfaces_have_no_unique_answer_in_any_units(units):
    """x', y' and x' - y' of two masses: the determinant is zero, and rounding must not decide its sign."""
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]])
    scale = np.diag([1.0, units, np.sqrt(units)])
    for rounding in (1e-15, -1e-15):
        gain = scale @ (rows @ np.diag([1.0, 0.3]) @ rows.T + rounding * np.eye(3)) @ scale
        assert not has_positive_minors(gain)
        assert has_positive_minors(gain[:2, :2])
