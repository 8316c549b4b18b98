"""Structured systems against dense algebra, in sizes, borders and growth where shortcuts would fail."""

import numpy as np
import pytest

from kapitza.solve import (
    BorderedBand,
    ChainProgram,
    CyclicSystem,
    MarchedChain,
    closed_chain,
    fold,
    inverse_within,
    scatter_blocks,
)


def dense_cyclic(left, right, columns, rows, corner):
    count, n, k = columns.shape
    matrix = np.zeros((count * n + k, count * n + k))
    for i in range(count):
        here, following = slice(i * n, (i + 1) * n), (i + 1) % count * n
        matrix[here, here] += left[i]
        matrix[here, following : following + n] += right[i]
        matrix[here, count * n :] = columns[i]
        matrix[count * n :, here] = rows[:, i]
    matrix[count * n :, count * n :] = corner
    return matrix


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 13, 64])
@pytest.mark.parametrize("border", [0, 2])
def test_cyclic_system_equals_dense_solution(count, border):
    rng = np.random.default_rng(count)
    n = 3
    left, right = rng.normal(size=(2, count, n, n))
    columns, rows = rng.normal(size=(count, n, border)), rng.normal(size=(border, count, n))
    corner = rng.normal(size=(border, border))
    r, s = rng.normal(size=(count, n)), rng.normal(size=border)
    x, p = CyclicSystem(left, right, columns, rows, corner).solve(r, s)
    exact = np.linalg.solve(dense_cyclic(left, right, columns, rows, corner), np.concatenate([r.ravel(), s]))
    np.testing.assert_allclose(np.concatenate([x.ravel(), p]), exact, rtol=0, atol=1e-10 * np.abs(exact).max())


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_determinant_of_a_cyclic_system_equals_the_dense_one(count, n):
    for seed in range(6):
        rng = np.random.default_rng((count, n, seed))
        left, right = rng.normal(size=(2, count, n, n))
        columns, rows, corner = rng.normal(size=(count, n, 2)), rng.normal(size=(2, count, n)), rng.normal(size=(2, 2))
        sign, size = CyclicSystem(left, right, columns, rows, corner).signed_log_determinant()
        exact = np.linalg.slogdet(dense_cyclic(left, right, columns, rows, corner))
        assert sign == exact[0]
        assert size == pytest.approx(exact[1], abs=1e-8)


@pytest.mark.parametrize("count", [1, 2, 3, 8, 13])
@pytest.mark.parametrize("border", [0, 2])
def test_a_marched_chain_equals_the_dense_solution(count, border):
    rng = np.random.default_rng(count)
    n = 3
    left = 0.4 * rng.normal(size=(count, n, n))
    columns, rows = rng.normal(size=(count, n, border)), rng.normal(size=(border, count, n))
    corner = rng.normal(size=(border, border))
    r, s = rng.normal(size=(count, n, 2)), rng.normal(size=(border, 2))
    system = closed_chain(left, columns, rows, corner)
    assert isinstance(system, MarchedChain)
    right = np.broadcast_to(-np.eye(n), left.shape)
    exact = np.linalg.solve(
        dense_cyclic(left, right, columns, rows, corner), np.concatenate([r.reshape(count * n, 2), s])
    )
    x, p = system.solve(r, s)
    both = np.concatenate([x.reshape(count * n, 2), p])
    np.testing.assert_allclose(both, exact, rtol=0, atol=1e-11 * np.abs(exact).max())
    x, p = system.solve(r[..., 0], s[:, 0])
    np.testing.assert_allclose(np.concatenate([x.ravel(), p]), both[:, 0], rtol=0, atol=1e-13 * np.abs(exact).max())


@pytest.mark.parametrize("factor", [30.0, 1e300])
def test_a_chain_that_grows_is_not_marched(factor):
    left = np.broadcast_to(np.diag([factor, 0.5]), (6, 2, 2))
    system = closed_chain(left, np.zeros((6, 2, 0)), np.zeros((0, 6, 2)), np.zeros((0, 0)))
    assert isinstance(system, CyclicSystem)


def test_a_marched_chain_that_is_singular_is_named():
    left = np.broadcast_to(np.diag([1.0, 0.5]), (6, 2, 2))
    with pytest.raises(np.linalg.LinAlgError):
        closed_chain(left, np.zeros((6, 2, 0)), np.zeros((0, 6, 2)), np.zeros((0, 0)))


def test_cyclic_system_survives_growth_that_no_product_survives():
    """Saddle segments diag(30, 1/30) rotated node by node: the product has condition 30^400, the chain none of it."""
    count, rng = 200, np.random.default_rng(1)
    angles = rng.uniform(0, 2 * np.pi, count + 1)
    angles[-1] = angles[0]
    turn = np.stack([np.cos(angles), -np.sin(angles), np.sin(angles), np.cos(angles)], axis=1).reshape(-1, 2, 2)
    left = turn[1:] @ np.diag([30.0, 1 / 30]) @ np.swapaxes(turn[:-1], 1, 2)
    right = np.broadcast_to(-np.eye(2), left.shape)
    truth = rng.normal(size=(count, 2))
    gaps = np.einsum("kij,kj->ki", left, truth) - np.roll(truth, -1, axis=0)
    x, _ = CyclicSystem(left, right).solve(gaps)
    np.testing.assert_allclose(x, truth, atol=1e-12)


def test_border_rescues_a_singular_chain():
    """An autonomous orbit: the chain has a null vector (the phase), period and phase condition make it regular."""
    count, n = 6, 2
    left = np.broadcast_to(np.diag([1.0, 0.5]), (count, n, n))
    right = np.broadcast_to(-np.eye(n), (count, n, n))
    with pytest.raises(np.linalg.LinAlgError):
        CyclicSystem(left, right)
    columns = np.tile([[1.0], [0.0]], (count, 1, 1))
    rows = np.zeros((1, count, n))
    rows[0, 0, 0] = 1.0
    system = CyclicSystem(left, right, columns, rows, np.zeros((1, 1)))
    x, p = system.solve(np.tile([0.25, 0.0], (count, 1)), np.array([3.0]))
    np.testing.assert_allclose(p, [0.25])
    np.testing.assert_allclose(x, np.tile([3.0, 0.0], (count, 1)), atol=1e-14)


def test_several_right_hand_sides_at_once():
    rng = np.random.default_rng(3)
    left, right = rng.normal(size=(2, 9, 2, 2))
    many = rng.normal(size=(9, 2, 4))
    system = CyclicSystem(left, right)
    together = system.solve(many)[0]
    for column in range(4):
        np.testing.assert_allclose(together[..., column], system.solve(many[..., column])[0], atol=1e-12)


@pytest.mark.parametrize("count", [1, 2, 3, 8, 9])
def test_fold_brings_neighbours_within_two_places(count):
    place = fold(count)
    assert sorted(place) == list(range(count))
    assert np.abs(place - np.roll(place, -1)).max() <= 2


def test_bordered_band_equals_dense_solution():
    rng = np.random.default_rng(5)
    size, lower, upper, border = 40, 3, 2, 2
    dense = np.triu(np.tril(rng.normal(size=(size, size)), upper), -lower)
    band = np.zeros((lower + upper + 1, size))
    i, j = np.nonzero(dense)
    band[upper + i - j, j] = dense[i, j]
    columns, rows = rng.normal(size=(size, border)), rng.normal(size=(border, size))
    corner = rng.normal(size=(border, border))
    r, s = rng.normal(size=size), rng.normal(size=border)
    system = BorderedBand(band, lower, upper, columns, rows, corner)
    exact = np.linalg.solve(np.block([[dense, columns], [rows, corner]]), np.concatenate([r, s]))
    np.testing.assert_allclose(np.concatenate(system.solve(r, s)), exact, rtol=1e-9)
    np.testing.assert_allclose(system.multiply(np.eye(size)), dense)


def test_singular_band_is_named():
    with pytest.raises(np.linalg.LinAlgError, match="row 2"):
        BorderedBand(np.array([[1.0, 0.0, 1.0]]), 0, 0)


def test_a_border_that_overflows_is_named():
    """Far from the data rates grow beyond the largest number: the caller gives this point up, without a warning."""
    column = np.full((3, 1), 1e200)
    with pytest.raises(np.linalg.LinAlgError, match="infinite row"):
        BorderedBand(np.ones((1, 3)), 0, 0, column, column.T, np.ones((1, 1)))


def test_scatter_blocks_adds_overlapping_blocks():
    band = np.zeros((3, 3))
    blocks = np.ones((2, 2, 2))
    scatter_blocks(band, 1, blocks, np.array([0, 1]), np.array([0, 1]))
    np.testing.assert_array_equal(band, [[0, 1, 1], [1, 2, 1], [1, 1, 0]])


@pytest.mark.parametrize(
    ("apart", "below", "order"), [(16, 0, "F"), (16, 8, "F"), (16, -8, "F"), (8, 5, "F"), (5, 2, "F"), (16, 8, "C")]
)
def test_scatter_blocks_writes_each_element_to_its_diagonal(apart, below, order):
    """Against the definition band[upper + i - j, j] = A[i, j], blocks apart and overlapping."""
    rng, upper = np.random.default_rng(1), 17
    blocks, columns = rng.normal(size=(5, 7, 8)), 9 + apart * np.arange(5)
    matrix = np.zeros((100, 100))
    for block, column in zip(blocks, columns, strict=True):
        matrix[column + below : column + below + 7, column : column + 8] += block
    band = np.zeros((36, 100), order=order)
    scatter_blocks(band, upper, blocks, columns + below, columns)
    for i, j in np.ndindex(matrix.shape):
        if 0 <= upper + i - j < 36:
            assert band[upper + i - j, j] == matrix[i, j]
    assert np.count_nonzero(band) == np.count_nonzero(matrix)


def dense_chain(hessian, gradient, propagators, gaps, mixed, influence, parameter_hessian, parameter_gradient, linked):
    """The same program by a dense KKT matrix in the order x, p, multipliers."""
    count, n = gradient.shape
    k = mixed.shape[2]
    curvature = np.zeros((count * n + k, count * n + k))
    for i in range(count):
        here = slice(i * n, (i + 1) * n)
        curvature[here, here] = hessian[i]
        curvature[here, count * n :] = mixed[i]
        curvature[count * n :, here] = mixed[i].T
    curvature[count * n :, count * n :] = parameter_hessian
    links = []
    for i in np.flatnonzero(linked):
        block = np.zeros((n, count * n + k))
        block[:, i * n : (i + 1) * n] += propagators[i]
        following = (i + 1) % count * n
        block[:, following : following + n] -= np.eye(n)
        block[:, count * n :] = influence[i]
        links.append(block)
    constraint = np.vstack(links)
    size = constraint.shape[0]
    kkt = np.block([[curvature, constraint.T], [constraint, np.zeros((size, size))]])
    right = np.concatenate([-gradient.ravel(), -parameter_gradient, gaps[linked].ravel()])
    return np.linalg.solve(kkt, right)[: count * n + k]


@pytest.mark.parametrize("kind", ["open", "closed", "pieces"])
@pytest.mark.parametrize("count", [2, 3, 11])
def test_chain_program_equals_dense_program(kind, count):
    rng = np.random.default_rng(count)
    n, k = 2, 3
    roots = rng.normal(size=(count, n, n))
    hessian = roots @ np.swapaxes(roots, 1, 2) + 0.1 * np.eye(n)
    gradient, gaps = rng.normal(size=(2, count, n))
    propagators = rng.normal(size=(count, n, n))
    mixed, influence = 0.01 * rng.normal(size=(count, n, k)), rng.normal(size=(count, n, k))
    linked = np.ones(count, bool)
    linked[-1] = kind == "closed"
    if kind == "pieces":
        linked[count // 2 - 1] = False
    pull, stiffness = rng.normal(size=k), np.eye(k)
    step = ChainProgram(
        hessian,
        gradient,
        propagators,
        gaps,
        mixed=mixed,
        influence=influence,
        parameter_hessian=stiffness,
        parameter_gradient=pull,
        linked=linked,
    ).solve()
    if not linked.any():
        np.testing.assert_allclose(step.multipliers, 0.0)
        return
    exact = dense_chain(hessian, gradient, propagators, gaps, mixed, influence, stiffness, pull, linked)
    ours = np.concatenate([step.nodes.ravel(), step.parameters])
    np.testing.assert_allclose(ours, exact, atol=1e-9 * np.abs(exact).max())


@pytest.mark.parametrize("kind", ["open", "closed", "pieces"])
@pytest.mark.parametrize("soft", [False, True])
def test_blocks_of_a_chain_are_its_band(kind, soft):
    """What refines a step, the product from the blocks, is the matrix that was factorised."""
    rng, count, n = np.random.default_rng(7), 5, 7
    hessian = rng.normal(size=(count, n, n))
    linked = np.arange(count) < count - (kind != "closed")
    linked[1] &= kind != "pieces"
    gradient, gaps, slack = rng.uniform(1.0, 2.0, (3, count, n))
    propagators = rng.normal(size=(count, n, n))
    program = ChainProgram(hessian, gradient, propagators, gaps, linked=linked, slack=slack if soft else None)
    unit = np.eye(2 * n * count)
    solved = np.stack([program.system.solve_given(column, np.zeros(0))[0] for column in unit], axis=1)
    np.testing.assert_allclose(program.system.multiply(solved), unit, atol=1e-10)


def test_chain_over_chaotic_growth_recovers_the_parameter():
    """300 nodes with growth 10 per link: the condensed propagator would be 1e300."""
    count, n, rng = 300, 2, np.random.default_rng(2)
    propagators = np.broadcast_to(np.diag([10.0, 0.1]), (count, n, n))
    influence = rng.normal(size=(count, n, 1))
    truth, parameter = rng.normal(size=(count, n)), 0.7
    links = np.einsum("kij,kj->ki", propagators, truth) + parameter * influence[..., 0] - np.roll(truth, -1, axis=0)
    # Data at every node pull towards the truth, so the exact minimiser is the truth.
    step = ChainProgram(
        np.broadcast_to(np.eye(n), (count, n, n)), -truth, propagators, links, influence=influence
    ).solve()
    np.testing.assert_allclose(step.parameters, [parameter], atol=1e-12)
    np.testing.assert_allclose(step.nodes, truth, atol=1e-12)


def test_what_is_held_has_no_variance_and_the_free_part_is_inverted_by_itself():
    root = np.random.default_rng(4).normal(size=(4, 4))
    # Units that differ by many powers of ten must not count as what is undetermined.
    units = np.array([1e-6, 1.0, 1e5, 1e-2])
    matrix, free = root @ root.T * np.outer(units, units), np.array([True, False, True, True])
    inverse = inverse_within(matrix, free, 1e-12)
    expected = np.linalg.inv((root @ root.T)[np.ix_(free, free)]) / np.outer(units[free], units[free])
    np.testing.assert_allclose(inverse[np.ix_(free, free)], expected, rtol=1e-9)
    assert not inverse[1].any()
    assert not inverse[:, 1].any()
