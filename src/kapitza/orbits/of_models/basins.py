"""Basins of attraction of forced models and maps.

A whole grid of starts is followed to where it ends.
A few starts are followed until they repeat: they show the attractors. Around every point a of a stable one there is an
ellipsoid yᵀ P y <= c, y = x - a, that the return map takes into itself. P is from Mᵀ P M / q - P = -I for the linear
return map M and a share q between its squared spectral radius and 1; how large c may be is tried out on shells of the
ellipsoid. Of the other starts most need to be followed only until they enter one of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_discrete_lyapunov

from kapitza.base import checks
from kapitza.base.angles import difference
from kapitza.base.argument_checks import Count, Index, Positive
from kapitza.base.arrays import Array
from kapitza.base.cures import Give
from kapitza.base.monitor import Monitor, watch
from kapitza.base.workers import Executor, Shared, in_order
from kapitza.errors import DataError, FlowError, ModelError, Status
from kapitza.flow import Flow, Map, Task, nets_on_device, prepare_nets
from kapitza.model import Model
from kapitza.orbits.of_models.tangent_steps import MapSteps
from kapitza.solve import eigenvalues

if TYPE_CHECKING:
    import pandas as pd


DIVERGED, UNSETTLED, UNTRIED = -1, -2, -3

STARTS_PER_PART = 4096
"""Starts that are followed together; the result does not depend on how parts are distributed."""

SPIRAL = 100.0
"""The period is the first after which a settled motion returns to so many tolerances: one that still spirals in comes
closest to itself after some turns of the spiral, which are not a period."""

EXTENSIONS = 3
"""Number of times that starts which have not settled are followed for twice as long."""

STARTS_ON_DEVICE = 4_194_304
"""Starts that are followed together on a device."""

SCOUTS = 2048
"""Starts, spread over the grid, that are followed to the end and show the attractors."""

SCOUTS_PER_PART = 256
"""Scouts that are followed together."""


LOOKS = 4
"""Returns between two looks at whether a motion has come to an attractor: more looks cost more than the periods that
they save."""

TOLERANCE = 1e-9
"""Tolerance of the integration of starts: of 4,000,000 labels none differs from those at 1e-15."""

SHELLS, DIRECTIONS = 6, 256
"""Shells of an ellipsoid and points on each from which the return map is tried: all must come nearer."""

NEARER = 0.98
"""Largest yᵀ P y after a return, as a share of that before."""

SAFE = 0.5
"""Share of the size that was tried out, in length, that is used."""

SMALLEST = 1e-3
"""Smallest size of an ellipsoid, as a share of the range of the starts, that is worth looking at."""


@dataclass(frozen=True)
class Attractor:
    """Periodic attractor.

    period: in excitation periods; states: (period, n) at the phase of the strobe.
    """

    period: int
    states: Array


@dataclass(frozen=True)
class Basins:
    """Where every start of a grid ends.

    axes: the two states varied, with their values; labels: (first, second) number of the attractor, -1 where the motion
    diverges, -2 where it has not become periodic (chaos, or a period longer than max_period), -3 where the work was
    stopped before (status INTERRUPTED). attractors: in the order of their numbers. followed: starts that a device
    handed back and the processor followed.

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
    status: Status = Status.CONVERGED
    followed: int = 0

    def shares(self) -> pd.Series:
        """Return the share of starts by attractor number."""
        import pandas as pd

        return pd.Series(self.labels.ravel()).value_counts(normalize=True).sort_index()


def basins(
    model: Model,
    region: Mapping[str, tuple[float, float]],
    grid: int | tuple[int, int] = 200,
    others: Mapping[str, float] | None = None,
    transient: Index = 100,
    max_period: Count = 8,
    tolerance: Positive = 1e-6,
    executor: Executor | None = None,
    monitor: Monitor | None = None,
    device: Literal["cuda"] | None = None,
) -> Basins:
    """Sort a grid of starts by where they end.

    Starts in two states are followed until they repeat.

    Parameters
    ----------
    model : Model
        A flow with an excitation period, with or without events, or a map, whose iterations count as periods.
    region : mapping
        The two states that are varied, with their ranges: {"x": (-2, 2), "x'": (-2, 2)}.
    grid : int or (int, int)
        Points per axis.
    others : mapping, optional
        Values of the remaining states (default 0).
    transient : int
        Excitation periods before the first look. Starts that do not repeat by then are followed twice as long, three
        times over.
    max_period : int
        Longest period of an attractor, in excitation periods.
    tolerance : float
        How well a state must repeat, relative to its size.
    executor, monitor
        As everywhere; the answer does not depend on the executor. Cancelled, or after Ctrl-C, the starts that were
        followed keep their labels.
    device : "cuda", optional
        Follow most starts on an NVIDIA card (extra `[cuda]`); those that it hands back are followed here and counted.

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
    model.needs_repetition("basins")
    if not model.is_map and model.period is None:
        raise ModelError(f'Model "{model.name}" is not forced: basins are looked at once per excitation period.')
    if device is not None and executor is not None:
        raise ModelError(f"Give {Give('executor')} or {Give(device=device)}, not both: one process works with a card.")
    axes = _axes(model, region, grid)
    transient, longest = (
        checks.whole("transient", transient, least=1), checks.whole("max_period", max_period, least=1)
    )  # fmt: skip
    tolerance = checks.number("tolerance", tolerance, above=0.0)
    starts = _starts(model, axes, dict(others or {}))
    count = len(starts)
    shared = Shared((model, transient, longest, tolerance))
    scouts = np.unique(np.linspace(0, count - 1, min(SCOUTS, count)).astype(int))
    rest = np.delete(np.arange(count), scouts)
    ranges = np.zeros(starts.shape[1])
    for name, values in axes.items():
        ranges[model.states.index(name)] = np.ptp(values)
    labels = np.full(count, UNTRIED, np.int32)
    attractors: list[Attractor] = []
    returned = 0
    prepared = None if device is None else prepare_nets(_Returns(model).task(1))
    with watch(monitor, f"basins of {model.name}", total=count) as task:
        for chosen, size in ((scouts, SCOUTS_PER_PART), (rest, STARTS_PER_PART)):
            # The same nets and parts for every executor, so that results do not depend on it.
            nets = _nets(model, attractors, ranges) if chosen is rest and rest.size else ()
            if chosen is rest and prepared is not None:
                prepared.result()  # raises without a card: the processor does not replace it
            here = device if chosen is rest and nets else None
            if here:
                # Follow the scouts again: slices of all starts are views, the other starts alone would be a copy.
                cuts = range(0, count, STARTS_ON_DEVICE)
                members = [slice(first, min(first + STARTS_ON_DEVICE, count)) for first in cuts]
            else:
                members = [chosen[first : first + size] for first in range(0, len(chosen), size)]
            parts = [(shared, starts[m], nets, here) for m in members]
            for m, found in zip(members, in_order(executor, _follow, parts), strict=True):
                fresh, now = int((labels[m] == UNTRIED).sum()), found.labels
                now[found.open] = _sorted(attractors, found.periods, found.orbits, model, tolerance)
                labels[m] = now
                returned += found.returned
                task.advance(fresh, f"{len(attractors)} attractors")
    shape = tuple(len(values) for values in axes.values())
    return Basins(axes, labels.reshape(shape), tuple(attractors), task.status, returned)


class _Returns:
    """Return map of a model.

    A return is a period of a forced flow or an iteration of a map.
    """

    def __init__(self, model: Model):
        self.model, self.angles = model, np.array(model.angles, bool)
        self._steps = MapSteps(model) if model.is_map else None
        self._flow = None if model.is_map else Flow(model, tolerance=TOLERANCE)
        self.period = 1.0 if model.is_map else float(model.period or np.nan)

    def advance(self, states: Array, count: int) -> Array:
        """Advance states (B, n) by some returns.

        A motion that diverges is NaN.
        """
        if self._flow is not None:
            return self._flow.propagate_many(states, 0.0, count * self.period, throw=False).state
        assert self._steps is not None
        with np.errstate(over="ignore", invalid="ignore"):
            return self._steps.advance(states, count, self._vectors(len(states)))

    def visited(self, states: Array, count: int) -> Array:
        """Return visited states, shape (count+1, B, n)."""
        if self._flow is not None:
            return self._flow.strobe_many(states, count).states
        found = [states]
        for _ in range(count):
            found.append(self.advance(found[-1], 1))
        return np.array(found)

    def slope(self, state: Array, count: int) -> Array:
        """Return the Jacobian (n, n) of some returns."""
        if self._flow is None:
            return Map(self.model).jacobian(state, count)
        found = self._flow.propagate(state, 0.0, count * self.period).jacobian
        assert found is not None
        return found

    def on_device(
        self, states: Array, transient: int, nets: tuple[_Net, ...]
    ) -> tuple[NDArray[np.int32], Array, NDArray[np.bool_], NDArray[np.bool_]]:
        """Follow starts into the nets on the card.

        Returns the labels of the nets that starts enter, states, which diverged and which are handed back.
        """
        rows = [np.concatenate((net.centre, net.weight.ravel(), [float(net.number)])) for net in nets]
        return nets_on_device(self.task(len(states)), states, self.period, transient, LOOKS, np.array(rows))

    def task(self, count: int) -> Task:
        vectors = self._vectors(count)
        if self._flow is None:
            return Task.of_map(self.model, vectors)
        return Task.of_flow(self._flow.core, vectors, self.model)

    def _vectors(self, count: int) -> Array:
        return np.broadcast_to(self.model.vector, (count, len(self.model.names)))


@dataclass(frozen=True)
class _Net:
    """Ellipsoid from which motions go to an attractor.

    It is (x - centre)ᵀ weight (x - centre) <= 1; number is that of the attractor.
    """

    number: int
    centre: Array
    weight: Array


@dataclass(frozen=True)
class _Followed:
    """End of each followed start.

    labels (B,) of starts that entered a net; of the others, `open`, periods (0: unsettled, -1: diverged) and
    states (open, longest, n).
    """

    labels: NDArray[np.int32]
    open: NDArray[np.intp]
    periods: NDArray[np.intp]
    orbits: Array
    returned: int = 0


def _nets(model: Model, attractors: list[Attractor], ranges: Array) -> tuple[_Net, ...]:
    """Return ellipsoids around the points of attractors.

    None around an attractor that is not stable to first order.
    """
    returns = _Returns(model)
    generator = np.random.default_rng(0)
    directions = generator.standard_normal((DIRECTIONS, len(model.states)))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    radii = np.repeat(np.arange(1, SHELLS + 1) / SHELLS, DIRECTIONS)[:, None]
    varied = ranges[ranges > 0].max()
    nets = []
    for number, attractor in enumerate(attractors):
        for centre in attractor.states:
            try:
                map_ = returns.slope(centre, attractor.period)
            except FlowError:
                continue
            radius = float(np.abs(eigenvalues(map_)).max())
            # A map that contracts more slowly than NEARER has no usable ellipsoid.
            if radius >= NEARER:
                continue
            # To first order a return takes yᵀ P y to at most this share. With a share of 1 a strongly sheared map would
            # come nearer by less than NEARER allows, however small the ellipsoid.
            share = (1.0 + radius**2) / 2
            weight = solve_discrete_lyapunov(map_.T / np.sqrt(share), np.eye(len(centre)))
            factor = np.linalg.inv(np.linalg.cholesky(weight)).T
            shells = np.tile(directions, (SHELLS, 1)) * radii @ factor.T
            size = varied * float(np.sqrt(np.linalg.eigvalsh(weight)[0]))
            while size * np.abs(shells).max() > SMALLEST * varied:
                ends = returns.advance(centre + size * shells, attractor.period)
                off = difference(ends, centre, returns.angles)
                after = np.einsum("bi,ij,bj->b", off, weight, off)
                if (after <= NEARER * (size * radii[:, 0]) ** 2).all():
                    nets.append(_Net(number, centre, weight / (SAFE * size) ** 2))
                    break
                size *= 0.7
    return tuple(nets)


def _axes(model: Model, region: Mapping[str, tuple[float, float]], grid: int | tuple[int, int]) -> dict[str, Array]:
    ranges = checks.table("region", region)
    if len(ranges) != 2 or any(name not in model.states for name in ranges):
        raise DataError(
            f"region names {', '.join(ranges) or 'nothing'}; name two of the states {', '.join(model.states)}."
        )
    counts = checks.array("grid", np.broadcast_to(grid, 2), shape=(2,)).astype(int)
    if (counts < 2).any():
        raise DataError(f"grid = {grid}: give at least 2 points per axis.")
    axes = {}
    for (name, limits), count in zip(ranges.items(), counts, strict=True):
        low, high = checks.array(f'region of "{name}"', limits, shape=(2,), finite=True)
        if not low < high:
            raise DataError(f'The region of "{name}" is empty: ({low:g}, {high:g}); give the lower limit first.')
        axes[name] = np.linspace(low, high, count)
    return axes


def _starts(model: Model, axes: dict[str, Array], others: dict[str, float]) -> Array:
    """Return the states (count, n) of the grid.

    They are stored state by state, as a device reads them.
    """
    shape = tuple(len(values) for values in axes.values())
    starts = np.empty((len(model.states), *shape))
    for start, value in zip(starts, model.state(others), strict=True):
        start[...] = value
    for (name, values), along in zip(axes.items(), ((-1, 1), (1, -1)), strict=True):
        starts[model.states.index(name)] = values.reshape(along)
    return starts.reshape(len(starts), -1).T


def _follow(
    shared: Shared[tuple[Model, int, int, float]], starts: Array, nets: tuple[_Net, ...], device: str | None = None
) -> _Followed:
    """Follow each start to its end.

    A start ends in a net, in a motion that repeats, or in neither.
    """
    model, transient, longest, tolerance = shared.value
    returns = _Returns(model)
    if device is not None:
        labels, states, diverged, back = returns.on_device(starts, transient, nets)
        labels = np.where(labels < 0, UNSETTLED, labels).astype(np.int32)
        states[diverged] = np.nan
        again = np.flatnonzero(back)
        labels[again], states[again], _ = _into_nets(returns, starts[again], nets, transient)
        gone = transient
    else:
        labels, states, gone = _into_nets(returns, starts, nets, transient)
        again = ()
    unknown = np.flatnonzero(labels == UNSETTLED)
    periods, orbits = _settle(returns, states[unknown], transient - gone, transient, longest, tolerance)
    return _Followed(labels, unknown, periods, orbits, len(again))


def _into_nets(
    returns: _Returns, starts: Array, nets: tuple[_Net, ...], transient: int
) -> tuple[NDArray[np.int32], Array, int]:
    """Follow starts until they enter a net.

    It returns labels (B,) of the nets, the states then, and after how many returns at most.
    """
    labels = np.full(len(starts), UNSETTLED, np.int32)
    states, left, gone = starts.copy(), np.arange(len(starts)), 0
    while nets and left.size and gone < transient:
        step = min(LOOKS, transient - gone)
        now = states[left] = returns.advance(states[left], step)
        gone += step
        alive = np.isfinite(now).all(axis=1)
        for net in nets:
            off = difference(now, net.centre, returns.angles)
            with np.errstate(invalid="ignore"):
                inside = np.einsum("bi,ij,bj->b", off, net.weight, off) <= 1.0
            labels[left[inside & alive]] = net.number
        left = left[(labels[left] == UNSETTLED) & alive]
    # Those that came into a net earlier are not followed further.
    return labels, states, gone


def _settle(
    returns: _Returns, states: Array, first: int, transient: int, longest: int, tolerance: float
) -> tuple[NDArray[np.intp], Array]:
    """Find the period each motion settles to.

    Period (B,) of the motion each state ends in (0: unsettled, -1: diverged) and its states (B, longest, n).
    first: returns before the first look; later looks come after twice as many, and twice that.
    """
    angles = returns.angles
    states, periods = states.copy(), np.zeros(len(states), int)
    orbits = np.full((len(states), longest, states.shape[1]), np.nan)
    left, length = np.arange(len(states)), first
    for number in range(EXTENSIONS + 1):
        alive = left[np.isfinite(states[left]).all(axis=1)]
        if alive.size and length:
            states[alive] = returns.advance(states[alive], length)
        periods[left[~np.isfinite(states[left]).all(axis=1)]] = -1
        left = left[periods[left] == 0]
        if not left.size:
            break
        seen = returns.visited(states[left], 2 * longest)
        shifts = range(1, longest + 1)
        gaps = np.array([difference(seen[p : p + longest], seen[:longest], angles) for p in shifts])
        gaps = np.abs(gaps).max(axis=(1, 3))
        # A motion that diverges within the look does not repeat.
        gaps = np.nan_to_num(gaps, nan=np.inf) / (tolerance * (1.0 + np.abs(seen).max(axis=(0, 2))))
        settled = (gaps <= 1.0).any(axis=0)
        periods[left[settled]] = 1 + np.argmax(gaps[:, settled] <= SPIRAL, axis=0)
        orbits[left] = np.moveaxis(seen[:longest], 0, 1)
        states[left] = seen[-1]
        left, length = left[periods[left] == 0], transient * 2 ** (number + 1)
        if not left.size:
            break
    return periods, orbits


def _sorted(
    attractors: list[Attractor], periods: Array, orbits: Array, model: Model, tolerance: float
) -> NDArray[np.int32]:
    """Number the motions by attractor.

    New attractors are added to the list.
    """
    labels = np.where(periods < 0, DIVERGED, UNSETTLED).astype(np.int32)
    angles = np.array(model.angles, bool)
    open_ = np.flatnonzero(periods > 0)
    while open_.size:
        for number, known in enumerate(attractors):
            same = open_[periods[open_] == known.period]
            gap = difference(orbits[same, :1], known.states[None], angles)
            # Ten times the gap that a settled motion may still have (SPIRAL).
            near = 1e3 * tolerance * (1.0 + np.abs(known.states).max())
            close = np.abs(gap).max(axis=2).min(axis=1) <= near
            labels[same[close]] = number
        open_ = open_[labels[open_] == UNSETTLED]
        if open_.size:
            first = int(open_[0])
            attractors.append(Attractor(int(periods[first]), orbits[first, : periods[first]].copy()))
    return labels
