"""Orbits with many nodes: the chain solver gives what dense matrices give, in time linear in the nodes."""

import time

import numpy as np
import pytest

import kapitza as kz
from kapitza.estimate.orbit_fit import block as blocks
from kapitza.estimate.orbit_fit.block import Block, soft_step
from kapitza.estimate.orbit_fit.solver import reduce_block


def random_block(count, free, seed, n=3, k=2):
    """A chain of random maps; for a free motion one that carries a direction around."""
    rng = np.random.default_rng(seed)
    jacobians, rate = 0.9 * rng.normal(size=(count, n, n)), None
    if free:
        along = rng.normal(size=(count, n))
        for j in range(count):
            miss = along[(j + 1) % count] - jacobians[j] @ along[j]
            jacobians[j] += np.outer(miss, along[j]) / (along[j] @ along[j])
        rate = along[0]
    node = np.repeat(np.arange(count), 2)
    by_parameter = rng.normal(size=(node.size + free, k))
    by_parameter[node.size :] = 0.0
    return Block(
        rng.normal(size=node.size + free), rng.normal(size=(node.size, n)), node, by_parameter,
        0.01 * rng.normal(size=count * n), jacobians, rng.normal(size=(count, n, k)), np.zeros(n), rate, free,
    )  # fmt: skip


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("count", [1, 2, 7, 20])
def test_chain_and_dense_matrices_agree(monkeypatch, count, free):
    block = random_block(count, free, seed=count)
    weight, slack = np.linspace(1.0, 9.0, block.residual.size), np.array([0.1, 0.2, 0.3])
    found = []
    for limit in (10**6, 0):
        monkeypatch.setattr(blocks, "DENSE", limit)
        found.append((reduce_block(block, weight), soft_step(block, weight, slack, 1e-3)))
    for dense, chain in zip(*found, strict=True):
        for name in vars(dense):
            wanted = getattr(dense, name)
            np.testing.assert_allclose(getattr(chain, name), wanted, atol=1e-11 * np.abs(wanted).max())


def test_a_soft_step_is_the_minimum_of_the_misfit():
    """Theory: at dθ = 0 and without damping the moved unknowns have no gradient left."""
    block = random_block(40, True, seed=3)
    assert block.gap.size > blocks.DENSE
    weight, slack = np.linspace(1.0, 9.0, block.residual.size), np.array([0.1, 0.2, 0.3])
    step = soft_step(block, weight, slack, 0.0)
    reads, stiff = block.read(np.eye(block.unknowns)), 1 / np.tile(slack, 40)
    left = weight * (block.residual + reads @ step.shift), stiff * (block.gap + block.gap_by_state @ step.shift)
    gradient = (weight[:, None] * reads).T @ left[0] + (stiff[:, None] * block.gap_by_state).T @ left[1]
    assert np.abs(gradient).max() < 1e-8 * np.abs((weight[:, None] * reads).T @ (weight * block.residual)).max()


@pytest.fixture(scope="module")
def duffing():
    return kz.library.duffing()


def sampled(model, count=240):
    orbit = kz.solve_orbit(model, profile=False)
    times = np.arange(count) / count * orbit.period
    x = kz.Flow(model).trajectory(orbit.points[0], times)[:, 0]
    noise = 1e-3 * np.random.default_rng(0).normal(size=count)
    return kz.Record.from_arrays(times, {"x": x + noise}, period=model.period, phase=0.0)


def test_a_fit_with_many_nodes_is_that_with_few(monkeypatch, duffing):
    """80 nodes of two states through the chain, the same through dense matrices, and 4 nodes: one minimum."""
    record, start = sampled(duffing), duffing.with_values(k=0.1, B=0.23)
    fits = []
    for limit, nodes in ((96, 80), (10**6, 80), (96, 4)):
        monkeypatch.setattr(blocks, "DENSE", limit)
        fits.append(kz.identify(start, record, ["k", "B"], kz.OrbitFit(nodes=nodes)))
    for other in fits[1:]:
        assert [other[n] for n in ("k", "B")] == pytest.approx([fits[0][n] for n in ("k", "B")], rel=1e-6)
        np.testing.assert_allclose(other.covariance, fits[0].covariance, rtol=1e-4)


def test_work_grows_with_the_nodes_and_not_with_their_cube():
    """16 times the nodes: dense matrices take some thousand times as long (16³ = 4096), the chain 16 times."""

    def cost(count):
        block, least = random_block(count, False, seed=1), np.inf
        for _ in range(5):
            block.__dict__.pop("_chain", None)
            begun = time.process_time()
            reduce_block(block, np.ones(block.residual.size))
            soft_step(block, np.ones(block.residual.size), np.ones(3), 1e-3)
            least = min(least, time.process_time() - begun)
        return least

    assert cost(1024) < 256 * cost(64)  # in the middle between both: a busy machine does not decide
