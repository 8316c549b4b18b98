"""Unmeasured rates at strobed points.

Two-point problems between each point and the next determine them.
From x_j with rate v the model arrives after one excitation period at x(T; x_j, v). Every v with x(T) = x_{j+1} is a
candidate at point j; of all paths through the candidates the one is taken whose rates on arrival agree best with those
that the next points start from.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kapitza.base.angles import wrap
from kapitza.base.arrays import Array
from kapitza.errors import FlowError
from kapitza.flow import Flow
from kapitza.model import Model

RATES = 192
"""Rates tried at every point."""

TURNS = 3.0
"""Largest rate tried, in turns (or spans of the measured values) per excitation period."""

REFINEMENTS = 8
"""Secant steps from the bracket of a candidate to the candidate."""


def chained_rates(setting: Model, values: Array, times: Array, angle: bool, span: float) -> Array | None:
    """Return rates (p,) at strobed positions (p,).

    The model has one second-order coordinate; None where no candidates chain up.
    span: size of the measured values, which sets the scale of the rates tried.
    """
    assert setting.period is not None
    reach = TURNS * 2 * np.pi / setting.period * (1.0 if angle else span)
    bridge = _Bridge(setting, values, times, angle)
    try:
        candidates = _roots(bridge, np.linspace(-reach, reach, RATES))
        arrivals = [bridge.run(np.full(v.size, j), v)[1] for j, v in enumerate(candidates)]
    except FlowError:
        return None
    if any(v.size == 0 for v in candidates):
        return None
    return _best_chain(candidates, arrivals)


class _Bridge:
    """Runs over one excitation period.

    Each run starts at a point with a given rate.
    """

    def __init__(self, setting: Model, values: Array, times: Array, angle: bool):
        self.period, self.values, self.times, self.angle = float(setting.period or 0.0), values, times, angle
        self.flow = Flow(setting)

    def run(self, points: NDArray[np.intp], rates: Array) -> tuple[Array, Array]:
        """Return the miss and rate at the next point.

        The miss is the distance in position; both are given for every (point, rate).
        """
        if rates.size == 0:
            return rates, rates
        begin = self.times[points]
        states = np.column_stack([self.values[points], rates])
        reached = self.flow.propagate_many(states, begin, begin + self.period, tangents=False).state
        miss = reached[:, 0] - np.roll(self.values, -1)[points]
        if self.angle:
            miss = wrap(miss)
        return miss, reached[:, 1]


def _roots(bridge: _Bridge, grid: Array) -> list[Array]:
    """Return rates at which the next point is met.

    The grid brackets the roots of each point, then the secant rule refines all of them at once.
    """
    count = bridge.values.size
    points = np.repeat(np.arange(count), grid.size)
    miss = bridge.run(points, np.tile(grid, count))[0].reshape(count, grid.size)
    left, right = miss[:, :-1], miss[:, 1:]
    near = np.maximum(np.abs(left), np.abs(right)) < np.pi / 2 if bridge.angle else np.ones_like(left, bool)
    j, i = np.nonzero((np.sign(left) != np.sign(right)) & near)
    low, high, below, above = grid[i], grid[i + 1], left[j, i], right[j, i]
    rate, before = 0.5 * (low + high), np.full(j.size, 2)
    for _ in range(REFINEMENTS):
        rate = high - above * (high - low) / np.where(above != below, above - below, np.inf)
        here = bridge.run(j, rate)[0]
        same = np.sign(here) == np.sign(below)
        # The value of an end that stays twice is halved, or the other end would converge slowly (Illinois rule).
        stale = np.where(same == before, 0.5, 1.0)
        low, below = np.where(same, rate, low), np.where(same, here, stale * below)
        high, above = np.where(same, high, rate), np.where(same, stale * above, here)
        before = same
    return [rate[j == point] for point in range(count)]


def _best_chain(candidates: Sequence[Array], arrivals: Sequence[Array]) -> Array:
    """Choose one candidate per point.

    The choice minimises the sum of squared jumps of the rate around the orbit.
    """
    count, best = len(candidates), (np.inf, np.zeros(len(candidates)))
    jumps = [(arrivals[j][:, None] - candidates[(j + 1) % count][None, :]) ** 2 for j in range(count)]
    for first in range(candidates[0].size):
        cost = np.where(np.arange(candidates[0].size) == first, 0.0, np.inf)
        back = []
        for jump in jumps:
            total = cost[:, None] + jump
            back.append(np.argmin(total, axis=0))
            cost = total.min(axis=0)
        if cost[first] < best[0]:
            place, path = first, []
            for step in reversed(back):
                place = int(step[place])
                path.append(place)
            path.reverse()
            best = (float(cost[first]), np.array([candidates[j][place] for j, place in enumerate(path)]))
    return best[1]
