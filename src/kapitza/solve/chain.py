"""Quadratic programs on chains with shared parameters.

They are the linear core of multiple-shooting fits.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array, Indices
from kapitza.solve.bounded import nearest_within
from kapitza.solve.structured import BorderedBand, fold, inverse_within, scatter_blocks

TORN = 1e-3
"""Error of a solved link above which the links of a chain contradict each other, as a part of the direct influence of
the parameters on it; 1e-5 remains over 10^6 samples of a chaotic motion that passes."""

UNDETERMINED = 1e-14
"""Parameter directions whose relative curvature is below this are not moved: the data do not determine them."""


@dataclass(frozen=True)
class ChainStep:
    """Minimiser of a chain program.

    nodes: steps x (J, n); parameters: step p (k,); multipliers: (J, n) of the links.

    covariance: (k, k) inverse of the reduced Hessian of the parameters, nodes eliminated.
    """

    nodes: Array
    parameters: Array
    multipliers: Array
    covariance: Array


@dataclass(frozen=True)
class _Blocks:
    """Blocks of the band of a chain program.

    hessian: (J, n, n); propagators: (L, n, n) of the links that exist, `chained` (L,); slack: theirs; seats: positions
    of the nodes in the band.
    """

    hessian: Array
    propagators: Array
    chained: NDArray[np.intp]
    slack: Array | None
    seats: NDArray[np.intp] | slice

    def product(self, x: Array) -> Array:
        """Multiply the band with x (N, q)."""
        count, n = self.hessian.shape[:2]
        shape, chained = (count, 2 * n), self.chained
        following, result = (chained + 1) % count, np.empty_like(x)
        for column in range(x.shape[1]):
            by_node = x[:, column].reshape(shape)[self.seats]
            states, multipliers = by_node[:, :n], by_node[:, n:].copy()
            linked = multipliers[chained]
            made = np.einsum("jab,jb->ja", self.hessian, states)
            made[chained] += np.einsum("jba,jb->ja", self.propagators, linked)
            made[following] -= linked
            multipliers[chained] = np.einsum("jab,jb->ja", self.propagators, states[chained]) - states[following]
            if self.slack is not None:
                multipliers[chained] -= np.broadcast_to(self.slack, (count, n))[chained] * linked
            seated = np.empty(shape)
            seated[self.seats, :n], seated[self.seats, n:] = made, multipliers
            result[:, column] = seated.ravel()
        return result


class ChainProgram:
    """Factorised quadratic program on a chain.

    Minimise ½ Σ x_iᵀH_i x_i + Σ x_iᵀ(g_i + M_i p) + ½ pᵀK p + pᵀh subject to G_i x_i + B_i p - x_{i+1} = c_i + e_i.

    hessian H (J, n, n), gradient g (J, n), propagators G (J, n, n), gaps c (J, n), mixed M (J, n, k), influence B
    (J, n, k), parameter_hessian K (k, k), parameter_gradient h (k,). Link i joins node i to node i + 1, the last one to
    node 0: `linked` (J,) marks the links that exist (all: a closed orbit; all but the last: a record; further gaps:
    several segments or several orbits laid end to end).
    slack: None for links that must hold (e = 0), or the variances (n,) or (J, n) of e, which then cost ½ Σ e²/slack.

    States and multipliers are interleaved node by node in one band with pivoting and the parameters are its border.
    The propagators are not multiplied up: over a long chaotic record their product exceeds 1e12 and the parameter
    step it gives is wrong in the first digit.
    information: (k, k) reduced Hessian of the parameters, nodes eliminated.
    """

    def __init__(
        self,
        hessian: Array,
        gradient: Array,
        propagators: Array,
        gaps: Array,
        *,
        mixed: Array | None = None,
        influence: Array | None = None,
        parameter_hessian: Array | None = None,
        parameter_gradient: Array | None = None,
        linked: NDArray[np.bool_] | None = None,
        slack: Array | None = None,
    ):
        count, n = gradient.shape
        border = 0 if influence is None else influence.shape[2]
        influence = np.zeros((count, n, border)) if influence is None else influence
        mixed = np.zeros((count, n, border)) if mixed is None else mixed
        linked = np.asarray(np.arange(count) < count - 1 if linked is None else linked, np.bool_)
        closed = bool(linked[-1])
        place: Indices = (fold(count) if closed else np.arange(count, dtype=np.intp)) * 2 * n
        # In an open chain identity blocks reach n away and propagators 2n - 1; a folded one reaches two nodes further.
        width = min((6 * n if closed else 2 * n) - 1, 2 * n * count - 1)
        # The factors take the place of the band: of many states two such arrays would be most of the memory.
        room = np.zeros((3 * width + 1, 2 * n * count), order="F")
        band = room[width:]
        chained = np.flatnonzero(linked)
        here, following = place[chained], place[(chained + 1) % count]
        diagonal: Indices = np.arange(n, dtype=np.intp)
        scatter_blocks(band, width, hessian, place, place)
        scatter_blocks(band, width, propagators[chained], here + n, here)
        scatter_blocks(band, width, np.swapaxes(propagators[chained], 1, 2), here, here + n)
        link, target = here[:, None] + n + diagonal, following[:, None] + diagonal
        band[width + link - target, target] -= 1.0
        band[width + target - link, link] -= 1.0
        free = place[np.flatnonzero(~linked)][:, None] + n + diagonal
        band[width, free] = 1.0
        if slack is not None:
            band[width, link] = -np.broadcast_to(slack, (count, n))[chained]
        self._seats = fold(count) if closed else slice(None)
        self._shape, self._rigid = (count, 2 * n), slack is None
        columns, right = np.zeros((count, 2 * n, border)), np.zeros((count, 2 * n))
        columns[self._seats, :n] = mixed
        columns[self._seats, n:] = influence if linked.all() else np.where(linked[:, None, None], influence, 0.0)
        right[self._seats, :n] = -gradient
        right[self._seats, n:] = np.where(linked[:, None], gaps, 0.0)
        columns, self._right = columns.reshape(2 * n * count, border), right.ravel()
        corner = np.zeros((border, border)) if parameter_hessian is None else parameter_hessian
        self._pull = np.zeros(border) if parameter_gradient is None else -parameter_gradient
        blocks = _Blocks(hessian, propagators[chained], chained, slack, self._seats)
        self.system = BorderedBand(room, width, width, columns, columns.T, corner, UNDETERMINED, blocks.product)
        self.information = self.system.schur

    @property
    def pull(self) -> Array:
        """Minus the gradient (k,) of the parameters, nodes eliminated."""
        x, _ = self.system.solve_given(self._right, np.zeros_like(self._pull))
        return self._pull - self.system.rows @ x

    def reduced(self, edges: Indices) -> list[tuple[Array, Array]]:
        """Return what eliminating the nodes adds, by pieces.

        edges: (P + 1,) first nodes of the pieces, from 0 to J; no link may join two pieces. With c the columns of a
        piece, A its band and r its right-hand side: cᵀ A⁻¹ c (k, k) and -cᵀ A⁻¹ r (k,).
        """
        assert isinstance(self._seats, slice), "the nodes of a closed chain are not in their order"
        x, _ = self.system.solve_given(self._right, np.zeros_like(self._pull))
        ends, system = (self._shape[1] * edges).tolist(), self.system
        pieces = [slice(first, last) for first, last in itertools.pairwise(ends)]
        return [(system.rows[:, p] @ system.reached[p], -system.rows[:, p] @ x[p]) for p in pieces]

    @cached_property
    def torn(self) -> int | None:
        """Node whose link contradicts the others, None for none.

        Along a long chaotic motion the number of growing directions varies. Where fewer lead in than lead out, only a
        motion that keeps its parameters to tens of digits passes: some multipliers fade to nothing on both sides of
        such a place, the band is singular in floating point, and its solution satisfies no link there. The link with
        the largest multipliers is the one to give up.
        """
        if not (self._rigid and self.system.border):
            return None
        count, width = self._shape
        system, of_links = self.system, (count, width, -1)
        # Each state and each parameter has its own unit.
        direct = np.abs(system.columns.reshape(of_links)[:, width // 2 :]).max(axis=0)
        with np.errstate(over="ignore", invalid="ignore"):
            error = np.abs(system.columns - system.multiply(system.reached)).reshape(of_links)[:, width // 2 :]
            relative = (error / np.where(direct > 0, direct, np.inf)).max(axis=(0, 1))
        if (relative <= TORN).all():
            return None
        worst = int(np.argmax(relative))
        pulls = np.abs(system.reached.reshape(of_links)[self._seats, width // 2 :, worst]) * direct[:, worst]
        return int(np.argmax(pulls.max(axis=1)))

    @property
    def response(self) -> Array:
        """Response of the nodes to the parameters.

        (J, n, k); each column belongs to a unit of one parameter.
        """
        count, width = self._shape
        return -self.system.reached.reshape(count, width, -1)[self._seats][:, : width // 2]

    def solve(self) -> ChainStep:
        """Return the minimiser."""
        # Soft links occur only before the final steps: their steps need not be refined.
        x, p = self.system.solve(self._right, self._pull, refine=self._rigid)
        return self._step(x, p, self.system.schur_inverse)

    def _step(self, x: Array, p: Array, covariance: Array) -> ChainStep:
        by_node = x.reshape(self._shape)[self._seats]
        n = self._shape[1] // 2
        return ChainStep(by_node[:, :n], p, by_node[:, n:], covariance)

    def solve_given(self, p: Array) -> ChainStep:
        """Minimise over the nodes for a known parameter step.

        p: (k,).
        """
        x, _ = self.system.solve_given(self._right, p)
        return self._step(x, p, np.zeros_like(self.information))

    def solve_within(self, low: Array, high: Array) -> ChainStep:
        """Minimise with low ≤ p ≤ high.

        Parameters that end at a limit have no variance.
        """
        free = self.solve()
        p = nearest_within(self.information, free.parameters, low, high)
        if p is free.parameters:
            return free
        covariance = inverse_within(self.information, (p > low) & (p < high), UNDETERMINED)
        return replace(self.solve_given(p), covariance=covariance)
