"""Lyapunov exponents of a model, with standard errors.

They belong to one model, or to each point of one or two parameters for charts.

A frame of orthonormal vectors is carried along the motion by the tangents and made orthonormal again after every step
(Benettin et al., Meccanica 15, 9 (1980)): the mean logarithms of the factors divided out are the exponents. Tangents
pass events by their saltation matrices.

The motion of one model is cut into blocks that are followed side by side: the states at their borders come from one
run without tangents, each block has a separate frame, and the growth of one frame carried through all of them follows
from their triangular factors (`joined_logs`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from kapitza.base import checks
from kapitza.base.argument_checks import Positive, Range, Reals
from kapitza.base.arrays import Array
from kapitza.base.cures import Give
from kapitza.base.monitor import Monitor, watch
from kapitza.base.workers import Executor, Shared, in_order
from kapitza.errors import DataError, FlowError
from kapitza.flow import Task, growth_on_device, rows_per_launch, state_vector
from kapitza.model import Model
from kapitza.orbits.of_models.lyapunov import LyapunovSpectrum, kaplan_yorke, standard_error
from kapitza.orbits.of_models.tangent_steps import (
    FlowSteps,
    Growth,
    MapSteps,
    Steps,
    joined_logs,
    orthonormal,
    steps_of,
)

BLOCKS = 32
"""Pieces of a motion from which standard errors come."""

FORCED, FREE, ITERATED = 2_000, 20_000, 50_000
"""Default length of one motion: excitation periods, steps in which the tangents of a free motion turn, iterations."""

SHORTER = 8
"""Factor by which the default length is shorter at each point of a plane."""

TRANSIENT = 0.2
"""Default transient, as a share of the length."""

TURNED_IN = 0.5
"""Share of the transient over which frames are turned in."""

AHEAD = 0.25
"""Share of a block over which its own frame is turned in before it."""

POINTS_PER_PART = 512
"""Points of a plane that are followed together; the result does not depend on how parts are distributed."""

BLOCKS_PER_PART = 8
"""Blocks of one motion that are followed together: the members of a SIMD batch."""

POINTS_AT_ONCE = 8192
"""Points whose statistics are computed together: they fit into a cache."""

DEVICE_THREADS = 3
"""Threads that prepare and evaluate parts of a plane beside the device: each takes about as long as the device."""

DEVICE_TOLERANCE = 1e-7
"""Tolerance of the integration on a device.

Against 1e-12 regular exponents of three planes moved by 2e-8 in the median, chaotic ones by less than their standard
errors at any tolerance; 1e-9 takes 1.7 times the steps.
"""

MOST_POINTS = 100_000_000
"""Points of a plane."""

MOST_STEPS = 100_000_000_000
"""Steps of a motion: a map of one state needs some hours for so many."""


def exponents(
    model: Model,
    plane: Mapping[str, tuple[float, float]] | None = None,
    grid: int | tuple[int, int] = 100,
    start: Mapping[str, float] | Reals | None = None,
    length: Positive | None = None,
    transient: Annotated[float, Range(low=0.0)] | None = None,
    blocks: Annotated[int, Range(low=4, high=4096)] = BLOCKS,
    executor: Executor | None = None,
    monitor: Monitor | None = None,
    device: Literal["cuda"] | None = None,
) -> LyapunovSpectrum:
    """Return the Lyapunov spectrum of a motion.

    Standard errors and the Kaplan-Yorke dimension are returned too.

        λ_i = lim 1/t Σ ln r_i,   J(t) Q = Q⁺ R,   r_i = |R_ii|

    Parameters
    ----------
    model : Model
        A flow, forced or free, with or without events, or a map. Models with delays are refused.
    plane : mapping, optional
        One or two parameters to vary, with their ranges: {"omega": (0.5, 1.5), "F": (0.0, 2.0)}.
    grid : int or (int, int)
        Values per parameter of the plane.
    start : optional
        Where the motion starts (default: the start of the model), at every point of a plane.
    length : float, optional
        Time averaged over (of a map: iterations). Default: 2000 excitation periods, 50000 iterations, or 20000 times
        the time in which tangents turn; an eighth of it at the points of a plane.
    transient : float, optional
        Time left out before (default: a fifth of the length).
    blocks : int
        Pieces of the motion from which the errors come.
    executor, monitor
        As everywhere; the answer does not depend on the executor. Cancelled, or after Ctrl-C, points that were not
        followed are NaN, and the spectrum of one motion uses the blocks that were.
    device : "cuda", optional
        Follow the points of a plane on an NVIDIA card (extra `[cuda]`); those that it hands back are followed here and
        counted in `followed`.

    Returns
    -------
    LyapunovSpectrum
        Exponents, errors, dimension; with `plane` at each of its points.

    Examples
    --------
    >>> import kapitza as kz
    >>> found = kz.exponents(kz.library.duffing(), length=600.0)
    >>> found.values.shape
    (2,)
    >>> bool(abs(found.values.sum() - found.divergence) < 1e-9)
    True
    """
    if device is not None and (executor is not None or plane is None):
        raise DataError(
            f"{Give(device=device)} follows the points of a plane, in one process: give {Give('plane')} and no "
            f"{Give('executor')}, or leave {Give('device')} out."
        )
    axes = _axes(model, plane, grid)
    x0 = state_vector(model, model.state() if start is None else start)
    shape = tuple(len(values) for values in axes.values())
    vectors = _vectors(model, axes)
    steps = steps_of(model, *_samples(vectors, x0))
    unit = float(steps.unit(vectors[:1])[0])
    wanted = _default(model) / (SHORTER if axes else 1) if length is None else length / unit
    longest = max(wanted, 0.0 if transient is None else transient / unit)
    if not longest <= MOST_STEPS:
        raise DataError(
            f"length and transient ask for {longest:.3g} steps of {unit:.4g}; at most {MOST_STEPS:.0e} are followed: "
            "shorten them."
        )
    whole = blocks * max(1, int(np.ceil(wanted / blocks - 1e-9)))
    before = int(np.ceil((TRANSIENT * whole) if transient is None else transient / unit - 1e-9))
    plan = Plan(whole // blocks, blocks, before)
    followed, n = 0, len(x0)
    # A stop may end the block below at any line: the result is what it filled until then.
    found, parts = _no_spectra(len(vectors), n), list[Block]()
    with watch(monitor, f"exponents of {model.name}", total=int(np.prod(shape)) if axes else blocks) as task:
        if axes:
            open_ = np.arange(len(vectors))
            if device is not None:
                handed_back = [open_[:0]]
                for rows, part, back in _on_device(steps, plan, x0, vectors):
                    _fill(found, rows, part)
                    handed_back.append(open_[rows][back])
                    task.advance(int((~back).sum()), "on the device")
                open_ = np.concatenate(handed_back)
                followed = open_.size
            for rows, growth in _over_plane(steps, plan, x0, vectors[open_], executor):
                _fill(found, open_[rows], spectra(growth, plan.steps * steps.unit(vectors[open_[rows]])))
                task.advance(len(growth))
        else:
            for some in _along_one(steps, plan, x0, vectors[0], executor):
                parts += some
                task.advance(len(some))
    if parts:
        growth = _joined(parts)[None]
        if np.isnan(growth).any():
            raise FlowError(
                f'The motion of "{model.name}" leaves the finite numbers within {plan.total} steps of {unit:.4g}; '
                "check the parameters and the start, or shorten the length."
            )
        found = spectra(growth, np.array([plan.steps * unit]))
    used = blocks if axes else max(len(parts), 1)
    per = "iteration" if model.is_map else "unit of time"
    values, errors, dimension, error, divergence = (a.reshape((*shape, *a.shape[1:])) for a in found)
    length = float(plan.steps * used * unit)
    return LyapunovSpectrum(
        model.name, values, errors, dimension, error, divergence, length, used, axes, per, followed,
        task.status,
    )  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """Steps of a block, blocks, and transient steps."""

    steps: int
    blocks: int
    transient: int

    @property
    def total(self) -> int:
        return self.transient + self.steps * self.blocks


@dataclass(frozen=True)
class Block:
    """Growth of the separate frame of a block.

    logs (n,) and unit_upper (n, n) are those of its factor; first and last are its frames (n, n).
    """

    logs: Array
    unit_upper: Array
    first: Array
    last: Array


def _no_spectra(count: int, n: int) -> tuple[Array, ...]:
    """Return NaN spectra for points not followed.

    They have the form that `spectra` returns.
    """
    return tuple(np.full((count, *tail), np.nan) for tail in ((n,), (n,), (), (), ()))


def _fill(found: tuple[Array, ...], rows: slice | NDArray[np.intp], part: tuple[Array, ...]) -> None:
    for whole, some in zip(found, part, strict=True):
        whole[rows] = some


def spectra(growth: Array, lengths: Array) -> tuple[Array, ...]:
    """Return exponents, errors, dimensions from block growth.

    From growth (B, blocks, n) follow exponents and errors (B, n), dimensions, their errors and divergences (B,).
    lengths: (B,) of the blocks.
    """
    rates = np.moveaxis(growth, 1, 0) / lengths[:, None]
    with np.errstate(invalid="ignore"):
        means = rates.mean(axis=0)
        # Frames order exponents by growth only in the limit of long runs.
        order = np.argsort(-np.nan_to_num(means, nan=0.0), axis=-1, kind="stable")
        values = np.take_along_axis(means, order, -1)
        series = np.take_along_axis(rates, np.broadcast_to(order, rates.shape), -1)
        errors = np.where(np.isinf(values), 0.0, standard_error(series))
        dimension, error = kaplan_yorke(values, errors, series)
    return values, errors, dimension, error, means.sum(axis=-1)


def _default(model: Model) -> int:
    if model.is_map:
        return ITERATED
    return FREE if model.period is None else FORCED


def _axes(
    model: Model, plane: Mapping[str, tuple[float, float]] | None, grid: int | tuple[int, int]
) -> dict[str, Array]:
    if plane is None:
        return {}
    ranges = checks.table("plane", plane)
    if not 1 <= len(ranges) <= 2:
        raise DataError(f"plane names {', '.join(ranges) or 'nothing'}; name one or two of {', '.join(model.names)}.")
    counts = np.broadcast_to(grid, 2)[: len(ranges)]
    if (counts < 1).any() or float(np.prod(counts.astype(float))) > MOST_POINTS:
        raise DataError(f"grid = {grid}: give at least 1 value per parameter and at most {MOST_POINTS:.0e} points.")
    axes = {}
    for (name, limits), count in zip(ranges.items(), counts, strict=True):
        model.check(name)
        low, high = checks.array(f'The range of "{name}"', limits, shape=(2,), finite=True)
        if not low < high:
            raise DataError(f'The range of "{name}" is empty: ({low:g}, {high:g}); give the lower limit first.')
        axes[name] = np.linspace(low, high, int(count))
    return axes


def _vectors(model: Model, axes: dict[str, Array]) -> Array:
    """Return parameters (points, npar); one row without plane."""
    grid = np.meshgrid(*axes.values(), indexing="ij") if axes else []
    vectors = np.tile(model.vector, (grid[0].size if axes else 1, 1))
    for name, values in zip(axes, grid, strict=True):
        vectors[:, model.names.index(name)] = values.ravel()
    return vectors


def _samples(vectors: Array, x0: Array) -> tuple[Array, Array]:
    """Return some points of the plane with starts.

    Its corners are among them.
    """
    chosen = np.unique(np.linspace(0, len(vectors) - 1, 9).astype(int))
    return vectors[chosen], np.tile(x0, (chosen.size, 1))


def _over_plane(
    steps: Steps, plan: Plan, x0: Array, vectors: Array, executor: Executor | None
) -> Iterator[tuple[slice, Array]]:
    shared = Shared((steps, plan))
    rows = [slice(a, min(a + POINTS_PER_PART, len(vectors))) for a in range(0, len(vectors), POINTS_PER_PART)]
    parts = [(shared, np.tile(x0, (len(vectors[r]), 1)), vectors[r]) for r in rows]
    yield from zip(rows, in_order(executor, _follow_points, parts), strict=True)


def _on_device(
    steps: FlowSteps | MapSteps, plan: Plan, x0: Array, vectors: Array
) -> Iterator[tuple[slice, tuple[Array, ...], NDArray[np.bool_]]]:
    """Follow the points of a plane on the device.

    It yields rows of the plane, their spectra, and which of them the device hands back.
    Parts of the plane are prepared and evaluated by threads, while the device follows another part.
    """
    launches = -(-len(vectors) // rows_per_launch(plan.total, (plan.blocks, len(x0))))
    ends = np.linspace(0, len(vectors), launches + 1).astype(int)
    rows = [slice(int(a), int(b)) for a, b in pairwise(ends)]
    with ThreadPoolExecutor(DEVICE_THREADS) as pool:
        parts = [(steps, plan, x0, vectors[r]) for r in rows]
        for chosen, (found, back) in zip(rows, in_order(pool, _part_on_device, parts), strict=True):
            yield chosen, found, back


def _part_on_device(
    steps: FlowSteps | MapSteps, plan: Plan, x0: Array, vectors: Array
) -> tuple[tuple[Array, ...], NDArray[np.bool_]]:
    if isinstance(steps, MapSteps):
        task, parts = Task.of_map(steps.model, vectors), 1
    else:
        task = replace(Task.of_flow(steps.flow.core, vectors, steps.model), tolerance=DEVICE_TOLERANCE)
        parts = steps.parts
    starts = np.broadcast_to(x0, (len(vectors), len(x0)))
    size, units = (plan.transient, plan.steps, plan.blocks), steps.unit(vectors)
    growth, _, back = growth_on_device(task, starts, units, parts, size, random_frames(1, len(x0))[0])
    found = _no_spectra(len(vectors), len(x0))
    for first in range(0, len(vectors), POINTS_AT_ONCE):
        some = slice(first, first + POINTS_AT_ONCE)
        _fill(found, some, spectra(growth[some], plan.steps * units[some]))
    return found, back


def _follow_points(shared: Shared[tuple[Steps, Plan]], states: Array, vectors: Array) -> Array:
    """Return the growth (B, blocks, n) of frames."""
    steps, plan = shared.value
    turning = int(np.ceil(TURNED_IN * plan.transient))
    states = steps.advance(states, plan.transient - turning, vectors)
    count, n = states.shape
    states, frames, _ = _grow(steps, states, random_frames(count, n), vectors, turning)
    growth = np.empty((count, plan.blocks, n))
    for block in range(plan.blocks):
        states, frames, found = _grow(steps, states, frames, vectors, plan.steps)
        growth[:, block] = found.logs
    return growth


def _along_one(steps: Steps, plan: Plan, x0: Array, vector: Array, executor: Executor | None) -> Iterator[list[Block]]:
    """Yield the blocks of one motion."""
    turning = np.full(plan.blocks, int(np.ceil(AHEAD * plan.steps)))
    turning[0] = int(np.ceil(TURNED_IN * plan.transient))
    counts = plan.transient + plan.steps * np.arange(plan.blocks) - np.minimum(turning, plan.transient)
    starts = steps.states_along(x0, counts, vector)
    frames = random_frames(plan.blocks, len(x0))
    shared = Shared((steps, plan, vector))
    # The first block alone: its frame is turned in for longer than the others.
    some = [slice(0, 1), *(slice(a, a + BLOCKS_PER_PART) for a in range(1, plan.blocks, BLOCKS_PER_PART))]
    parts = [(shared, starts[s], frames[s], int(min(turning[s][0], plan.transient))) for s in some]
    yield from in_order(executor, _follow_blocks, parts)


def random_frames(count: int, n: int) -> Array:
    """Return fixed random orthonormal frames (count, n, n).

    A frame along an axis might never turn into the growing directions.
    """
    return orthonormal(np.random.default_rng(0).standard_normal((count, n, n)))[0]


def _follow_blocks(
    shared: Shared[tuple[Steps, Plan, Array]], states: Array, frames: Array, turning: int
) -> list[Block]:
    steps, plan, vector = shared.value
    vectors = np.tile(vector, (len(states), 1))
    states, first, _ = _grow(steps, states, frames, vectors, turning)
    _, last, growth = _grow(steps, states, first, vectors, plan.steps, joined=True)
    assert growth.unit_upper is not None
    return [Block(*one) for one in zip(growth.logs, growth.unit_upper, first, last, strict=True)]


def _joined(blocks: list[Block]) -> Array:
    """Return the growth (blocks, n) through all blocks."""
    logs, upper, first, last = (
        np.array([getattr(b, name) for b in blocks]) for name in ("logs", "unit_upper", "first", "last")
    )
    if np.isnan(logs).any():
        return logs
    # Q_kᵀ Q'_{k-1}: the last frame of a block as the first frame of the next sees it.
    between = first.transpose(0, 2, 1) @ np.roll(last, 1, axis=0)
    return joined_logs(logs, upper, between)


def _grow(
    steps: Steps, states: Array, frames: Array, vectors: Array, count: int, joined: bool = False
) -> tuple[Array, Array, Growth]:
    """Return states, frames and growth after steps."""
    growth = Growth(len(states), states.shape[1], joined)
    for _ in range(count):
        states, frames = steps.step(states, frames, vectors, growth)
    return states, frames, growth
