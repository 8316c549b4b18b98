"""Linearised equations of one orbit.

They hold its samples, its closure, and how both change with its nodes, its period and the parameters. Each node
is joined to the next one only, so the equations of the closure are a cyclic chain and those of a soft closure a
chain program with the parameters as border: time and memory are linear in the nodes. For short orbits the dense
matrices are faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kapitza.base.arrays import Array, Indices
from kapitza.solve import ChainProgram, CyclicSystem, singular_vectors

DENSE = 96
"""Number of node states (J n) up to which dense matrices are faster (measured for n = 2 and 3)."""


@dataclass(frozen=True)
class Block:
    """Residuals and closure of one orbit, linearised.

    Residuals r (m,) of the samples and closure c (J n,), with their derivatives by the unknowns z of the orbit and by θ
    (k,). z holds the J node states (n each) and, for free motions, the period. slope: (m, n) of each sample by the
    state of its node (m,); by_parameter: (m, k). jacobians (J, n, n) and influence (J, n, k) of the segments; rate:
    (n,) at the end of the last one, None where the excitation sets the period. period_read: whether the last row of r
    is the period itself. turns: (n,) of the angles over the orbit.
    """

    residual: Array
    slope: Array
    node: Indices
    by_parameter: Array
    gap: Array
    jacobians: Array
    influence: Array
    turns: Array
    rate: Array | None = None
    period_read: bool = False

    @property
    def free(self) -> int:
        """Number of unknowns that the closure leaves open.

        It is 1 for a free motion, whose phase is open.
        """
        return 0 if self.rate is None else 1

    @property
    def unknowns(self) -> int:
        return self.gap.size + self.free

    @property
    def gap_by_parameter(self) -> Array:
        return self.influence.reshape(self.gap.size, -1)

    def finite(self) -> bool:
        return bool(np.isfinite(self.jacobians).all() and np.isfinite(self.by_parameter).all())

    def read(self, moves: Array) -> Array:
        """Return the change (m, r) of the samples.

        The change is that by moves (q, r) of the unknowns.
        """
        count, n = self.jacobians.shape[:2]
        at_nodes = moves[: count * n].reshape(count, n, -1)
        change = np.einsum("mn,mnr->mr", self.slope, at_nodes[self.node])
        return np.vstack([change, moves[-1:]]) if self.period_read else change

    @cached_property
    def gap_by_state(self) -> Array:
        """Dense Jacobian ∂c/∂z (J n, q) of the closure."""
        count, n = self.jacobians.shape[:2]
        matrix = np.zeros((count, n, count, n))
        index = np.arange(count)
        matrix[index, :, index, :] += self.jacobians
        matrix[index, :, (index + 1) % count, :] -= np.eye(n)
        dense = np.zeros((count * n, self.unknowns))
        dense[:, : count * n] = matrix.reshape(count * n, count * n)
        if self.rate is not None:
            dense[-n:, -1] = self.rate
        return dense

    @cached_property
    def _chain(self) -> CyclicSystem | None:
        """Closure as a cyclic chain.

        A free motion is held in its phase; None where the chain is singular.
        """
        count, n = self.jacobians.shape[:2]
        links = np.broadcast_to(-np.eye(n), (count, n, n))
        if self.rate is None:
            columns = rows = None
        else:
            # The tangent map transports the direction of motion: f at one node becomes f at the next.
            along = np.empty((count, n))
            along[0] = self.rate
            for j in range(count - 1):
                along[j + 1] = self.jacobians[j] @ along[j]
            # Phase condition: the step has no component along the motion. The column is the change by the period.
            columns, rows = np.zeros((count, n, 1)), (along / (along**2).sum())[None]
            columns[-1, :, 0] = self.rate
        try:
            return CyclicSystem(self.jacobians, links, columns, rows)
        except np.linalg.LinAlgError:
            return None

    def close(self, right: Array) -> tuple[Array, Array]:
        """Solve the linearised closure.

        Returns moves (q, r) with ∂c/∂z moves = right (J n, r), and directions (q, free) that leave the closure
        unchanged.
        """
        count, n = self.jacobians.shape[:2]
        chain = None if self.gap.size <= DENSE else self._chain
        if chain is None:
            moves = np.linalg.lstsq(self.gap_by_state, right, rcond=1e-14)[0]
            # The null vector of the closure is the shift in phase.
            free = singular_vectors(self.gap_by_state)[2][-1:].T if self.free else np.zeros((self.unknowns, 0))
            return np.asarray(moves, np.float64), np.asarray(free, np.float64)
        x, p = chain.solve(right.reshape(count, n, -1))
        moves = np.vstack([x.reshape(count * n, -1), p])
        if not self.free:
            return moves, np.zeros((self.unknowns, 0))
        x, p = chain.solve(np.zeros((count, n, 1)), np.ones((1, 1)))
        return moves, np.vstack([x.reshape(count * n, 1), p])

    def closing_step(self) -> Array:
        """Return Newton's step (q,) at fixed parameters."""
        return -self.close(self.gap[:, None])[0][:, 0]


@dataclass(frozen=True)
class SoftStep:
    """Soft-closure cost of one orbit, unknowns eliminated.

    A quadratic in the parameter step: hessian (k, k) and gradient (k,); shift (q,) and follow (q, k): the unknowns then
    move by shift + follow dθ.
    """

    hessian: Array
    gradient: Array
    shift: Array
    follow: Array


def soft_step(block: Block, weight: Array, slack: Array, damping: float) -> SoftStep:
    """Minimise the soft-closure cost over the unknowns.

    The cost is ½|w r|² + ½|c/s|², the diagonal raised by the factor 1 + damping. weight: (m,); slack: s (n,).
    """
    if block.gap.size <= DENSE or len(block.jacobians) == 1:
        return _soft_dense(block, weight, slack, damping)
    return _soft_chain(block, weight, slack, damping)


def _soft_dense(block: Block, weight: Array, slack: Array, damping: float) -> SoftStep:
    stiff = 1.0 / np.tile(slack, block.gap.size // slack.size)
    reads = block.read(np.eye(block.unknowns))
    a = np.vstack([weight[:, None] * reads, stiff[:, None] * block.gap_by_state])
    b = np.vstack([weight[:, None] * block.by_parameter, stiff[:, None] * block.gap_by_parameter])
    r = np.concatenate([weight * block.residual, stiff * block.gap])
    own = a.T @ a
    own[np.diag_indices_from(own)] *= 1 + damping
    # A free motion may slide along itself: a tiny ridge keeps the matrix regular.
    own[np.diag_indices_from(own)] += 1e-12 * np.trace(own) / len(own)
    right = np.column_stack([a.T @ r, a.T @ b])
    solved = np.asarray(np.linalg.solve(own, right), np.float64)
    hessian = b.T @ b - right[:, 1:].T @ solved[:, 1:]
    return SoftStep(hessian, b.T @ r - right[:, 1:].T @ solved[:, 0], -solved[:, 0], -solved[:, 1:])


def _soft_chain(block: Block, weight: Array, slack: Array, damping: float) -> SoftStep:
    """Take the soft step by a chain program.

    The step equals that of `_soft_dense`: samples are at the nodes, links stretch, parameters and period are the
    border.
    """
    count, n = block.jacobians.shape[:2]
    k, free = block.by_parameter.shape[1], block.free
    reads = len(block.slope)
    slopes = weight[:reads, None] * block.slope
    gap, extra = weight[:reads] * block.residual[:reads], weight[:reads, None] * block.by_parameter[:reads]
    hessian, gradient, mixed = np.zeros((count, n, n)), np.zeros((count, n)), np.zeros((count, n, k + free))
    np.add.at(hessian, block.node, slopes[:, :, None] * slopes[:, None, :])
    np.add.at(gradient, block.node, slopes * gap[:, None])
    np.add.at(mixed[:, :, :k], block.node, slopes[:, :, None] * extra[:, None, :])
    corner, pull = np.zeros((k + free, k + free)), np.zeros(k + free)
    corner[:k, :k], pull[:k] = extra.T @ extra, extra.T @ gap
    influence = np.zeros((count, n, k + free))
    influence[:, :, :k] = block.influence
    size = np.einsum("jii->ji", hessian) + np.einsum("jab,a->jb", block.jacobians**2, slack**-2) + slack**-2
    trace = float(size.sum()) * (1 + damping)
    if block.rate is not None:
        influence[-1, :, k] = block.rate
        if block.period_read:
            corner[k, k] = weight[-1] ** 2
            pull[k] = weight[-1] ** 2 * block.residual[-1]
        alone = corner[k, k] + float(((block.rate / slack) ** 2).sum())
        corner[k, k] += damping * alone
        trace += (1 + damping) * alone
    ridge = 1e-12 * trace / block.unknowns
    # Marquardt's damping of the diagonal, as in the dense form.
    hessian[:, np.arange(n), np.arange(n)] += damping * size + ridge
    corner[k:, k:] += ridge
    # The period is one more parameter of the border here; it is eliminated below.
    program = ChainProgram(
        hessian, gradient, block.jacobians, -block.gap.reshape(count, n), mixed=mixed, influence=influence,
        parameter_hessian=corner, parameter_gradient=pull, linked=np.ones(count, bool), slack=slack**2,
    )  # fmt: skip
    return _without_period(program, k)


def _without_period(program: ChainProgram, k: int) -> SoftStep:
    """Eliminate the period from a chain program.

    Returns the quadratic in the parameters alone, and how nodes and period follow them.
    """
    information, pull = program.information, program.pull
    across = information[:k, k:]
    period: Array = np.asarray(np.linalg.solve(information[k:, k:], np.column_stack([pull[k:], -across.T])), np.float64)
    alone = program.solve_given(np.zeros_like(pull)).nodes.ravel()
    response = program.response.reshape(alone.size, -1)
    moves = np.vstack([np.column_stack([alone, response[:, :k]]) + response[:, k:] @ period, period])
    gradient = across @ period[:, 0] - pull[:k]
    return SoftStep(information[:k, :k] + across @ period[:, 1:], gradient, moves[:, 0], moves[:, 1:])
