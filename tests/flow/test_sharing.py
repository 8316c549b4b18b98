"""Columns of tangents that share a run: the same numbers as each on its own, and never where they would not be."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.flow.columns import WIDTH
from kapitza.flow.sharing import distances, share


def lorenz96(size: int) -> kz.Model:
    """A chaotic ring: x_i' = (x_{i+1} - x_{i-2}) x_{i-1} - x_i + F (E. N. Lorenz 1996)."""
    x = [f"x{i}" for i in range(size)]
    return kz.Model.from_equations(
        [f"{x[i]}' = a*({x[(i + 1) % size]} - {x[i - 2]})*{x[i - 1]} - {x[i]} + F" for i in range(size)],
        coordinates=x,
        parameters={"a": 1.0, "F": 8.0},
        name="Lorenz 96",
    )


def on_the_attractor(model: kz.Model, count: int) -> np.ndarray:
    start = 8 + np.random.default_rng(3).normal(size=len(model.states))
    return kz.simulate(model, x0=start, t=5 + 0.1 * np.arange(count)).values()


def own_columns(flow: kz.Flow, states, times):
    """States and tangents with a run for every column."""
    flow._blocks.count = 0
    return flow.trajectories(states, times)


@pytest.fixture(scope="module")
def ring():
    model = lorenz96(70)
    return kz.Flow(model, wrt=("a", "F")), on_the_attractor(model, 20)


def test_shared_columns_are_those_that_run_on_their_own(ring):
    """A chaotic ring, 20 runs in batches of 8: over 0.02 a change is felt by few neighbours."""
    flow, states = ring
    times = np.tile(np.linspace(0.0, 0.02, 4), (20, 1))
    own = own_columns(flow, states, times)
    flow._blocks.count = 1
    shared = flow.trajectories(states, times)
    assert 0 < flow._blocks.count * WIDTH < 0.7 * 70
    for ours, theirs in zip(shared, own, strict=True):
        assert np.abs(ours - theirs).max() < 1e-11
    assert np.count_nonzero(shared[1][0, -1]) < 0.5 * 70**2
    assert np.abs(shared[1][:, 0] - np.eye(70)).max() == 0


def test_longer_runs_share_less_and_then_nothing(ring):
    flow, states = ring
    used = []
    for length in (0.01, 0.06, 0.5):
        times = np.tile([0.0, length], (8, 1))
        flow._blocks.count = 1
        shared = flow.trajectories(states[:8], times)
        used.append(flow._blocks.count)
        own = own_columns(flow, states[:8], times)
        assert np.abs(shared[1] - own[1]).max() < 1e-11 * np.abs(own[1]).max()
        assert np.abs(shared[2] - own[2]).max() < 1e-11 * np.abs(own[2]).max()
    assert used[0] > 0
    assert used[-1] == 0


def test_what_one_flow_needs_changes_no_other(ring):
    """To the bit: answers must not depend on what a worker did before."""
    flow, states = ring
    times = np.tile([0.0, 0.01], (8, 1))
    first = kz.Flow(flow.model, wrt=("a", "F")).trajectories(states[:8], times)
    flow._blocks.count = 1
    flow.trajectories(states[:8], np.tile([0.0, 0.5], (8, 1)))
    assert flow._blocks.count == 0
    again = kz.Flow(flow.model, wrt=("a", "F")).trajectories(states[:8], times)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


def test_neighbourhoods_that_are_too_small_are_seen():
    """One entry between columns of one sum, as small as the limit allows to be seen, in any place."""
    n = 30
    apart = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    shared = share(distances(apart == 1), 9)
    assert shared is not None
    assert shared.starts.shape == (n, 10)
    near = np.zeros((n, n), bool)
    near[shared.rows, shared.columns] = True
    rng = np.random.default_rng(0)
    inside = np.where(near, rng.normal(size=(n, n)), 0.0) + 3 * np.eye(n)
    tangents = np.zeros((n, n + 2))
    assert shared.take_apart(inside @ shared.starts, 1e-12, tangents)
    assert np.abs(tangents[:, :n] - inside).max() < 1e-14
    far = np.argwhere(~near)
    assert len(far) > 300
    for i, j in far:
        leaking = inside.copy()
        leaking[i, j] = 1e-9
        assert not shared.take_apart(leaking @ shared.starts, 1e-12, np.zeros((n, n)))


@pytest.mark.parametrize("seed", range(5))
def test_no_entry_belongs_to_two_columns_of_a_sum(seed):
    rng = np.random.default_rng(seed)
    n = 60
    depends = rng.random((n, n)) < 0.02
    shared = share(distances(depends), 25)
    assert shared is not None
    assert np.array_equal(shared.starts[:, :-1].sum(axis=1), np.ones(n))
    assert len(set(zip(shared.rows.tolist(), shared.owners.tolist(), strict=True))) == len(shared.rows)
    assert (shared.starts[shared.columns, shared.owners] == 1).all()
    # A state always reaches itself and those whose rates hold it.
    held = set(zip(shared.rows.tolist(), shared.columns.tolist(), strict=True))
    assert held >= set(map(tuple, np.argwhere(depends | np.eye(n, dtype=bool)).tolist()))


def test_states_that_all_see_each_other_share_nothing():
    assert share(distances(np.ones((20, 20), bool)), 15) is None
    assert share(distances(np.zeros((20, 20), bool)), 15) is None


def test_a_run_that_fails_is_nan_after_its_start(ring):
    flow, states = ring
    flow._blocks.count = 1
    wild = states[:9].copy()
    wild[4] = 1e200
    times = np.tile([0.0, 0.01, 0.02], (9, 1))
    reached, by_state, _ = flow.trajectories(wild, times, refuse=False)
    assert np.isnan(reached[4, 1:]).all()
    assert np.array_equal(reached[:, 0], wild)
    kept = np.delete(np.arange(9), 4)
    assert np.isfinite(by_state[kept]).all()
    with pytest.raises(kz.errors.FlowError, match="of 9"):
        flow.trajectories(wild, times)
