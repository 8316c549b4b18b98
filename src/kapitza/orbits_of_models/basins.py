"""Basins of attraction: where starts of a forced model end, found by following a whole grid of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kapitza import gate
from kapitza.circle import difference
from kapitza.errors import DataError, ModelError
from kapitza.executor import Executor, Shared, in_order
from kapitza.flow import Flow
from kapitza.model import Model
from kapitza.monitor import Monitor, watch

Array = NDArray[np.float64]

DIVERGED, UNSETTLED = -1, -2

STARTS_PER_PART = 4096
"""Starts that are followed together; the answer does not depend on who follows which."""

SPIRAL = 100.0
"""The period is the first after which a settled motion returns to so many tolerances: one that still spirals in comes
closest to itself after some turns of the spiral, which are no period."""

EXTENSIONS = 3
"""How often starts that have not settled are followed for twice as long."""


@dataclass(frozen=True)
class Attractor:
    """A periodic attractor: period in excitation periods, states (period, n) at the phase of the strobe."""

    period: int
    states: Array


@dataclass(frozen=True)
class Basins:
    """Where every start of a grid ends.

    axes: the two states varied, with their values; labels: (first, second) number of the attractor, -1 where the motion
    diverges, -2 where it has not become periodic (chaos, or a period longer than asked for). attractors: in the order
    of their numbers.

    Examples
    --------
    >>> import kapitza as kz
    >>> found = kz.basins(kz.library.duffing(), {"x": (-1, 1), "x'": (-1, 1)}, grid=6)
    >>> found.labels.shape
    (6, 6)
    >>> bool(abs(found.shares().sum() - 1) < 1e-12)
    True
    """

    axes: dict[str, Array]
    labels: NDArray[np.int32]
    attractors: tuple[Attractor, ...]

    def shares(self) -> pd.Series:
        """Share of the starts that each attractor draws, by its number."""
        return pd.Series(self.labels.ravel()).value_counts(normalize=True).sort_index()


def basins(
    model: Model,
    region: Mapping[str, tuple[float, float]],
    grid: int | tuple[int, int] = 200,
    others: Mapping[str, float] | None = None,
    transient: int = 100,
    longest: int = 8,
    tolerance: float = 1e-6,
    executor: Executor | None = None,
    monitor: Monitor | None = None,
) -> Basins:
    """Follow a grid of starts in two states of a forced model until they repeat, and sort them by where they end.

    Parameters
    ----------
    model : Model
        A flow with an excitation period.
    region : mapping
        The two states that are varied, with their ranges: {"x": (-2, 2), "x'": (-2, 2)}.
    grid : int or (int, int)
        Points per axis.
    others : mapping, optional
        Values of the remaining states (default 0).
    transient : int
        Excitation periods before the first look. Starts that do not repeat by then are followed twice as long, three
        times over.
    longest : int
        Longest period of an attractor, in excitation periods.
    tolerance : float
        How well a state must repeat, relative to its size.
    executor, monitor
        As everywhere; the answer does not depend on the executor.

    Returns
    -------
    Basins
        Number of the attractor for every start, and the attractors.

    Examples
    --------
    >>> import kapitza as kz
    >>> wells = kz.Model.from_equations("x'' + 0.3*x' - x + x**3 = 0.02*cos(t)", period="2*pi")
    >>> found = kz.basins(wells, {"x": (-2, 2), "x'": (-1, 1)}, grid=(5, 4), transient=20)
    >>> [attractor.period for attractor in found.attractors]
    [1, 1]
    """
    if model.is_map or model.period is None:
        raise ModelError(f'Model "{model.name}" is not forced: basins are looked at once per excitation period.')
    axes = _axes(model, region, grid)
    transient, longest = gate.whole("transient", transient, least=1), gate.whole("longest", longest, least=1)
    tolerance = gate.number("tolerance", tolerance, above=0.0)
    starts = _starts(model, axes, dict(others or {}))
    shared = Shared(model)
    parts = [
        (shared, starts[first : first + STARTS_PER_PART], transient, longest, tolerance)
        for first in range(0, len(starts), STARTS_PER_PART)
    ]
    labels = np.full(len(starts), UNSETTLED, np.int32)
    attractors: list[Attractor] = []
    reached = 0
    with watch(monitor, f"basins of {model.name}", total=len(starts)) as task:
        for periods, orbits in in_order(executor, _follow, parts):
            labels[reached : reached + len(periods)] = _sorted(attractors, periods, orbits, model, tolerance)
            reached += len(periods)
            task.advance(len(periods), f"{len(attractors)} attractors")
    shape = tuple(len(values) for values in axes.values())
    return Basins(axes, labels.reshape(shape), tuple(attractors))


def _axes(model: Model, region: Mapping[str, tuple[float, float]], grid: int | tuple[int, int]) -> dict[str, Array]:
    ranges = gate.table("region", region)
    if len(ranges) != 2 or any(name not in model.states for name in ranges):
        raise DataError(
            f"region names {', '.join(ranges) or 'nothing'}; name two of the states {', '.join(model.states)}."
        )
    counts = gate.array("grid", np.broadcast_to(grid, 2), shape=(2,)).astype(int)
    if (counts < 2).any():
        raise DataError(f"grid = {grid}: give at least 2 points per axis.")
    axes = {}
    for (name, limits), count in zip(ranges.items(), counts, strict=True):
        low, high = gate.array(f'region of "{name}"', limits, shape=(2,), finite=True)
        if not low < high:
            raise DataError(f'The region of "{name}" is empty: ({low:g}, {high:g}); give the lower limit first.')
        axes[name] = np.linspace(low, high, count)
    return axes


def _starts(model: Model, axes: dict[str, Array], others: dict[str, float]) -> Array:
    base = model.state(others)
    grid = np.meshgrid(*axes.values(), indexing="ij")
    starts = np.tile(base, (grid[0].size, 1))
    for name, values in zip(axes, grid, strict=True):
        starts[:, model.states.index(name)] = values.ravel()
    return starts


def _follow(
    shared: Shared[Model], starts: Array, transient: int, longest: int, tolerance: float
) -> tuple[Array, Array]:
    """Period (B,) of the motion each start ends in (0: unsettled, -1: diverged) and its states (B, longest, n)."""
    model = shared.value
    flow = Flow(model)
    period = model.period
    assert period is not None
    angles = np.array(model.angles, bool)
    states, periods = starts.copy(), np.zeros(len(starts), int)
    orbits = np.full((len(starts), longest, starts.shape[1]), np.nan)
    left, length = np.arange(len(starts)), transient
    for _ in range(EXTENSIONS + 1):
        states[left] = flow.propagate_many(states[left], 0.0, length * period, throw=False).state
        periods[left[~np.isfinite(states[left]).all(axis=1)]] = -1
        left = left[periods[left] == 0]
        if not left.size:
            break
        seen = flow.strobe_many(states[left], 2 * longest).states
        shifts = range(1, longest + 1)
        gaps = np.array([difference(seen[p : p + longest], seen[:longest], angles) for p in shifts])
        gaps = np.abs(gaps).max(axis=(1, 3))
        gaps = np.nan_to_num(gaps, nan=np.inf) / (tolerance * (1.0 + np.abs(seen).max(axis=(0, 2))))
        settled = (gaps <= 1.0).any(axis=0)
        periods[left[settled]] = 1 + np.argmax(gaps[:, settled] <= SPIRAL, axis=0)
        orbits[left] = np.moveaxis(seen[:longest], 0, 1)
        states[left] = seen[-1]
        left, length = left[periods[left] == 0], 2 * length
        if not left.size:
            break
    return periods, orbits


def _sorted(
    attractors: list[Attractor], periods: Array, orbits: Array, model: Model, tolerance: float
) -> NDArray[np.int32]:
    """Numbers of the attractors that the motions are; new ones are added to the list."""
    labels = np.where(periods < 0, DIVERGED, UNSETTLED).astype(np.int32)
    angles = np.array(model.angles, bool)
    open_ = np.flatnonzero(periods > 0)
    while open_.size:
        for number, known in enumerate(attractors):
            same = open_[periods[open_] == known.period]
            gap = difference(orbits[same, :1], known.states[None], angles)
            near = 1e3 * tolerance * (1.0 + np.abs(known.states).max())
            close = np.abs(gap).max(axis=2).min(axis=1) <= near
            labels[same[close]] = number
        open_ = open_[labels[open_] == UNSETTLED]
        if open_.size:
            first = int(open_[0])
            attractors.append(Attractor(int(periods[first]), orbits[first, : periods[first]].copy()))
    return labels
