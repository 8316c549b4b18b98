"""Points of state space for invariant fits.

They come from one or several records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kapitza.base.angles import unwrap, wrap
from kapitza.base.arrays import Array
from kapitza.data import Part, Record
from kapitza.errors import DataError
from kapitza.estimate.invariant_fit.conserved.stencils import estimated_noise, rates_of
from kapitza.model import Model, symbol
from kapitza.signal import scatter

ASSUMED_NOISE = 0.01
"""Fraction of the mean modulus taken as noise where none is known; only ratios between channels matter then."""
LEAST_SHOWN, MOST_SHOWN = 1e-5, 0.15
"""Range of the scatter of samples, as a share of the channel's deviation, that counts as noise: less is rounding, more
may be motion."""
ENOUGH = 20000
"""Points used for the test of identifiability; longer records are thinned for it."""


@dataclass(frozen=True)
class Points:
    """States on level sets.

    values (d, N), noise variances (d, N), level (N,) from 0, run (N,) of adjacent samples. reach: how many neighbours
    share noise with a point (0 for directly measured states). known_noise: False where the noise was assumed; doubt
    (d,): relative deviation of each variance where it was estimated from the scatter of the samples in time, else None.
    reconstructed: states that were not measured. shared: (d, N) for delays, which measured number each value is.
    """

    variables: tuple[str, ...]
    values: Array
    variance: Array
    level: NDArray[np.intp]
    run: NDArray[np.intp]
    times: Array
    reach: int = 0
    known_noise: bool = True
    reconstructed: tuple[str, ...] = ()
    shared: NDArray[np.intp] | None = None
    doubt: Array | None = None

    @property
    def count(self) -> int:
        return self.values.shape[1]

    @property
    def levels(self) -> int:
        return int(self.level.max()) + 1

    def take(self, index: NDArray[np.intp], run: NDArray[np.intp] | None = None) -> Points:
        """Return the points at `index`.

        Repeats are allowed, as a bootstrap sample needs them.
        """
        return replace(
            self,
            values=self.values[:, index],
            variance=self.variance[:, index],
            level=self.level[index],
            run=self.run[index] if run is None else run,
            times=self.times[index],
            shared=None,
        )


@dataclass(frozen=True)
class Reconstruction:
    """Reconstruction of the states of the invariant.

    They follow from the channels. expression: the invariant in measured states and rates "q'" of them. rates: names
    of channels to differentiate. shifts: for maps, state -> (channel, shift in samples).
    """

    expression: sp.Expr
    rates: tuple[str, ...] = ()
    shifts: Mapping[str, tuple[str, int]] | None = None


def reconstruction(model: Model, expression: sp.Expr, channels: Sequence[str]) -> Reconstruction:
    """Find every state of the invariant in the channels.

    States may also follow from rates of channels (p from q' = ∂H/∂p), or from shifts.
    """
    needed = [s for s in model.states if symbol(s) in expression.free_symbols]
    missing = [s for s in needed if s not in channels]
    if not missing:
        return Reconstruction(expression)
    if model.is_map:
        return Reconstruction(expression, shifts=_shifts(model, needed, channels))
    unknown = [symbol(s) for s in model.states if s not in channels]
    equations, rates = [], []
    for state, rate in zip(model.states, model.structure.rates, strict=True):
        # A rate that is nonlinear in the unknown has several solutions, and none can be preferred.
        if state in channels and rate.free_symbols & set(unknown) and _is_linear(rate, unknown):
            equations.append(rate - symbol(state + "'#"))
            rates.append(state)
    solved = sp.solve(equations, unknown, dict=True) if equations else []
    found = solved[0] if solved else {}
    lost = [s for s in missing if symbol(s) not in found or found[symbol(s)].free_symbols & set(unknown)]
    if lost:
        raise DataError(
            f"The record has {', '.join(channels)}; the invariant also needs {', '.join(lost)}, which do not follow "
            "from rates of these channels: measure them, or give positions whose rates determine them."
        )
    written = expression.subs({symbol(s): found[symbol(s)] for s in missing})
    back = {symbol(q + "'#"): symbol(q + "'") for q in rates}
    used = tuple(q for q in rates if symbol(q + "'#") in written.free_symbols)
    return Reconstruction(sp.expand(written.xreplace(back)), rates=used)


def _is_linear(rate: sp.Expr, unknown: Sequence[sp.Symbol]) -> bool:
    slopes = [sp.diff(rate, u) for u in unknown if u in rate.free_symbols]
    return not any(sp.expand(slope).free_symbols & set(unknown) for slope in slopes)


def _shifts(model: Model, needed: Sequence[str], channels: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Return delays among the states of a map.

    Where the new value of one state is the old value of another.
    """
    edges: dict[str, list[tuple[str, int]]] = {s: [] for s in model.states}
    for state, new in zip(model.states, model.equations, strict=True):
        if isinstance(new, sp.Symbol) and new.name in edges and new.name != state:
            # The state now is the other one a step ago.
            edges[state].append((new.name, -1))
            edges[new.name].append((state, +1))
    result: dict[str, tuple[str, int]] = {}
    for state in needed:
        # Breadth first: the smallest shift loses the fewest samples.
        seen, queue = {state}, [(state, 0)]
        while queue and state not in result:
            at, shift = queue.pop(0)
            if at in channels:
                result[state] = (at, shift)
            fresh = [(other, shift + step) for other, step in edges[at] if other not in seen]
            seen.update(other for other, _ in fresh)
            queue += fresh
        if state not in result:
            raise DataError(
                f'The record has {", ".join(channels)}; the map\'s state "{state}" is not a delay of these.'
            )
    return result


def noise_of(record: Record, known: Mapping[str, float]) -> tuple[dict[str, float], bool]:
    """Return the noise by channel, and whether known.

    Else it is assumed.
    """
    if all(c in known for c in record.channels) and any(known[c] > 0 for c in record.channels):
        return dict(known), True
    modulus = {c: float(np.mean(np.abs(_wrapped(record, c)))) for c in record.channels}
    # Only ratios between channels matter where the noise is not known.
    return {c: known.get(c) or ASSUMED_NOISE * modulus[c] for c in record.channels}, False


def _wrapped(record: Record, channel: str) -> Array:
    values = record[channel]
    angle = record.angles[record.channels.index(channel)]
    return wrap(values) if angle else values


def collect(
    model: Model,
    records: Sequence[tuple[Record, Part]],
    plan: Reconstruction,
    momenta: str,
    per_segment: bool,
) -> Points:
    """Return the points of all records.

    Each record (or each segment) has its own level set. Parameters that differ between records become states without
    noise.
    """
    direct = [s for s in model.states if symbol(s) in plan.expression.free_symbols]
    rates = [f"{q}'" for q in plan.rates]
    variables = tuple(dict.fromkeys([*(s for s in direct if s not in rates), *rates]))
    parts, level, run, reach, known, read, offset = [], 0, 0, 0, True, True, 0
    numbers: list[NDArray[np.intp]] = []
    doubts: list[dict[str, float]] = []
    settings = [
        n
        for n in model.names
        if any(n in part.values for _, part in records) and symbol(n) in plan.expression.free_symbols
    ]
    for record, part in records:
        deviations, sure = noise_of(record, part.noise)
        known &= sure
        shown = None if sure or plan.rates or plan.shifts is not None else _shown_noise(record)
        # A channel stated as exact has no noise to weight it by: the noise of its scatter is used.
        positive = {c: v for c, v in part.noise.items() if v > 0}
        deviations = deviations if shown is None else {**{c: level for c, (level, _) in shown.items()}, **positive}
        doubts.append({} if shown is None else {c: error for c, (_, error) in shown.items() if c not in positive})
        read &= shown is not None
        for piece in record.segments():
            local = deviations if sure else _not_above_roughness(record, piece, plan, deviations)
            values, variance, times, width = _piece(record, piece, plan, variables, local, momenta)
            constant = np.array([[part.values.get(n, model.values[n])] for n in settings]).reshape(-1, 1)
            constant = np.repeat(constant, times.size, axis=1)
            values, variance = np.vstack([values, constant]), np.vstack([variance, 0 * constant])
            if values.shape[1]:
                parts.append((values, variance, times, level, run))
                if plan.shifts is not None:
                    numbers.append(offset + _sample_numbers(plan.shifts, variables, piece))
            offset += piece.stop - piece.start
            reach, run = max(reach, width), run + 1
            level += per_segment
        level += not per_segment
    if not parts:
        raise DataError("No segment is long enough to give a point: use longer records or a shorter rate formula.")
    sizes = [p[2].size for p in parts]
    levels = np.repeat([p[3] for p in parts], sizes)
    _, levels = np.unique(levels, return_inverse=True)
    return Points(
        (*variables, *settings),
        np.ascontiguousarray(np.hstack([p[0] for p in parts])),
        np.hstack([p[1] for p in parts]),
        levels,
        np.repeat([p[4] for p in parts], sizes),
        np.concatenate([p[2] for p in parts]),
        reach,
        known,
        tuple(rates) or tuple(s for s, (c, shift) in (plan.shifts or {}).items() if shift),
        np.hstack(numbers) if numbers and len({c for c, _ in (plan.shifts or {}).values()}) == 1 else None,
        np.array([max(d.get(v, 0.0) for d in doubts) for v in (*variables, *settings)]) if read else None,
    )


def _shown_noise(record: Record) -> dict[str, tuple[float, float]] | None:
    """Return the noise by channel from its scatter.

    Densely sampled values scatter in time by their noise; the relative deviation of its variance is returned too;
    None where it is not visible.
    """
    longest = max(record.segments(), key=lambda piece: piece.stop - piece.start)
    values = record.unwrapped().values()[longest]
    found, spread = scatter(values), values.std(axis=0)
    with np.errstate(invalid="ignore"):
        seen = (found.level > LEAST_SHOWN * spread) & (found.level < MOST_SHOWN * spread)
    if not seen.all():
        return None
    # A variance with ν degrees of freedom has the relative deviation √(2/ν).
    pairs = zip(found.level.tolist(), np.sqrt(2.0 / found.freedom).tolist(), strict=True)
    return dict(zip(record.channels, pairs, strict=True))


def _not_above_roughness(
    record: Record, piece: slice, plan: Reconstruction, deviations: Mapping[str, float]
) -> dict[str, float]:
    """Return the assumed noise of differentiated channels, lowered.

    It is at most what their high differences show.
    """
    found = dict(deviations)
    for name in plan.rates:
        series = record[name][piece]
        angle = record.angles[record.channels.index(name)]
        found[name] = min(found[name], estimated_noise(unwrap(series) if angle else series))
    return found


def _piece(
    record: Record,
    piece: slice,
    plan: Reconstruction,
    variables: tuple[str, ...],
    deviations: Mapping[str, float],
    momenta: str,
) -> tuple[Array, Array, Array, int]:
    """Return the points of one segment.

    Values (d, M), variances (d, M), times (M,) and the reach.
    """
    times = record.time[piece]
    if plan.shifts is not None:
        return _shifted(record, piece, plan.shifts, variables, deviations)
    if not plan.rates:
        values = np.array([record[v][piece] for v in variables])
        variance = np.array([np.full(times.size, deviations[v] ** 2) for v in variables])
        return values, variance, times, 0
    found = {}
    for name in plan.rates:
        series = record[name][piece]
        if record.angles[record.channels.index(name)]:
            series = unwrap(series)
        found[name] = rates_of(times, series, deviations[name] ** 2, momenta)
    # All channels are cut to the samples that the widest stencil reaches.
    reach = max(r.reach for r in found.values())
    inside = slice(reach, times.size - reach)
    size = max(0, times.size - 2 * reach)
    values, variance = np.empty((len(variables), size)), np.empty((len(variables), size))
    for j, name in enumerate(variables):
        base = name[:-1]
        if base in found and name.endswith("'"):
            r = found[base]
            cut = slice(reach - r.inside.start, reach - r.inside.start + size)
            values[j], variance[j] = r.rate[cut], r.truncation[cut] + deviations[base] ** 2 * r.rate_noise[cut]
        elif name in found:
            r = found[name]
            cut = slice(reach - r.inside.start, reach - r.inside.start + size)
            values[j], variance[j] = r.position[cut], deviations[name] ** 2 * r.position_noise[cut]
        else:
            values[j], variance[j] = record[name][piece][inside], deviations[name] ** 2
    return values, variance, times[inside], 2 * reach


def _sample_numbers(
    shifts: Mapping[str, tuple[str, int]], variables: tuple[str, ...], piece: slice
) -> NDArray[np.intp]:
    """Return the sample number of each delayed state.

    The numbers (d, M) are positions within the segment.
    """
    lowest, highest = min(s for _, s in shifts.values()), max(s for _, s in shifts.values())
    inside = np.arange(max(0, -lowest), piece.stop - piece.start - max(0, highest))
    return np.array([inside + shifts[v][1] for v in variables])


def _shifted(record, piece, shifts, variables, deviations) -> tuple[Array, Array, Array, int]:
    lowest = min(s for _, s in shifts.values())
    highest = max(s for _, s in shifts.values())
    length = piece.stop - piece.start
    first, last = max(0, -lowest), length - max(0, highest)
    times = record.time[piece][first:last]
    values = np.array([record[shifts[v][0]][piece][first + shifts[v][1] : last + shifts[v][1]] for v in variables])
    variance = np.array([np.full(times.size, deviations[shifts[v][0]] ** 2) for v in variables])
    return values, variance, times, highest - lowest


def scrambled(points: Points) -> Points:
    """Return the points with states combined at random.

    The same values of every state in unrelated combinations, which are on no level set.
    On clean data of one level set every parameter change looks like a change of scale; off it only true ones do.
    """
    rng = np.random.default_rng(0)
    index = rng.integers(0, points.count, (len(points.variables), int(np.clip(points.count, 200, ENOUGH))))
    values = np.take_along_axis(points.values, index, axis=1)
    zero = np.zeros(index.shape[1], np.intp)
    return replace(
        points, values=values, variance=np.zeros_like(values), level=zero, run=zero, times=zero.astype(float)
    )
