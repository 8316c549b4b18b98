"""Periodic orbits as close returns of dense forced records.

The record is densely sampled and periodically forced (HARMONIC, equation 24).
Where the state has too many dimensions for local maps, the closest return is itself the orbit: each channel comes back
within its own tolerance after k excitation periods and stays there for a delay, so that its rate returns as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kapitza.base.angles import TURN, turns, wrap_states
from kapitza.base.arrays import Array, Indices
from kapitza.base.monitor import Monitor, watch
from kapitza.data import Record
from kapitza.errors import DataError, nearest_name
from kapitza.orbits import OrbitMeasurement, OrbitSet, PeriodicOrbit, Profile, Stretch
from kapitza.orbits.in_records.from_record import samples_per_period
from kapitza.orbits.in_records.preparation import (
    chosen_channels,
    record_delay,
    require_count,
    require_even,
    without_gaps,
)
from kapitza.signal import phase_randomised

CONTROLS = (-0.5, -0.44, -0.37, -0.29, 0.29, 0.37, 0.44, 0.5)
"""Parts of an excitation period added to a lag: no orbit of a forced system returns there, unrelated stretches do."""

SURROGATES = 8  # with random phases: as many as control lags
KEEP_REJECTED = 200  # of the returns refused, the closest: a report stays readable
PER_PERIOD = 16  # samples of a profile per excitation period, for comparing stretches
LEVELS = np.array([0.02, 0.035, 0.05, 0.08, 0.13, 0.2, 0.3])  # tolerances tried below the requested one


@dataclass(frozen=True)
class ReturnSearch:
    """Find orbits from returns of dense forced records.

    tolerance: share of each channel's range (of a full turn for angles), one number or one per channel as a mapping.
    delay, dimension: the return must hold for (dimension - 1) delays; the delay is in samples, by default from the
    mutual information of the channels. candidates: returns looked at per period, closest first.
    chance: a return counts when, of those that stay together as long, at most this share is what unrelated stretches
    give: the same record compared with itself at lags that are not a multiple of the drive, and signals with its
    spectra but random phases at the same lag.

    Examples
    --------
    >>> import kapitza as kz
    >>> record = kz.simulate(kz.library.duffing(), periods=40, samples_per_period=20)
    >>> orbits = kz.find_orbits(record, max_period=1, method=kz.ReturnSearch(tolerance=0.05))
    >>> orbits.status.name
    'CONVERGED'
    """

    tolerance: float | Mapping[str, float] = 0.05
    delay: int | None = None
    dimension: int = 2
    candidates: int = 400
    chance: float = 0.05

    def __post_init__(self) -> None:
        given = self.tolerance.values() if isinstance(self.tolerance, Mapping) else [self.tolerance]
        for value in given:
            if not (isinstance(value, (int, float)) and 0 < value < 0.5):
                raise DataError(f"tolerance = {value!r} must lie between 0 and 0.5: it is a share of the range.")
        if self.delay is not None:
            require_count("delay", self.delay, 1)
        require_count("dimension", self.dimension, 1)
        require_count("candidates", self.candidates, 1)
        if not 0 < self.chance <= 1:
            raise DataError(f"chance = {self.chance!r} must lie between 0 and 1: it is a share of the returns.")

    def search(
        self,
        record: Record,
        max_period: int,
        channels: Sequence[str] | None = None,
        monitor: Monitor | None = None,
    ) -> OrbitSet:
        return search_returns(record, max_period, self, channels, monitor)


@dataclass(frozen=True)
class DenseSignal:
    """Channels on a common regular grid.

    values (N, c) have continuous angles; size is (c,), circle is (c,) bool.
    """

    values: Array
    size: Array
    circle: NDArray[np.bool_]
    tolerance: Array
    segments: list[slice]
    delay: int
    dimension: int
    phase: Array
    """(N,) share of the excitation period at each sample."""


def search_returns(
    record: Record,
    max_period: int,
    settings: ReturnSearch,
    channels: Sequence[str] | None = None,
    monitor: Monitor | None = None,
) -> OrbitSet:
    """Find all distinct orbits of up to `max_period` periods.

    Periods count excitation periods; within each the closest returns come first.
    """
    require_count("max_period", max_period, 1)
    names = chosen_channels(record, channels)
    record, _ = without_gaps(record)
    require_even(record)
    rate = samples_per_period(record)
    if rate < 4:
        raise DataError(
            f"{rate:.3g} samples per excitation period are too few to compare profiles: use SectionSearch on the "
            "strobed record instead."
        )
    longest = max(piece.stop - piece.start for piece in record.segments()) / rate
    if longest < 10:
        message = f"The longest segment spans {longest:.3g} excitation periods; at least ten are needed to see returns."
        return OrbitSet((), record.select(names).angles, (), message, record)
    signal = dense_signal(record, names, settings, rate)
    null = surrogate_signals(signal)
    repeats = [_repeats(signal, round(count * rate)) for count in range(1, max_period + 1)]
    kept: list[PeriodicOrbit] = []
    refused: list[tuple[PeriodicOrbit, str]] = []
    seen, expected, unlikely = 0, 0.0, 0
    with watch(monitor, "returns of the record", max_period) as task:
        for count in range(1, max_period + 1):
            new: list[PeriodicOrbit] = []
            known, believed_rows = np.empty((0, count * PER_PERIOD, len(names))), np.empty(0, np.intp)
            for level in tolerance_levels(signal):
                task.check()
                returns = best_returns(level, round(count * rate))
                chance, by_chance = chance_shares(level, returns, count, rate)
                # Surrogates of a periodic record are periodic with its period, so they would refuse its true returns.
                if not any(repeats):
                    chance = np.maximum(chance, surrogate_shares(level, null, returns, round(count * rate)))
                order = np.argsort(returns.error, kind="stable")
                believed = order[chance[order] <= settings.chance]
                believed_rows = np.append(believed_rows, returns.rows[believed])
                chosen, known = distinct_returns(
                    level, returns.rows[believed[: settings.candidates]], count, rate, known
                )
                for k in believed[chosen]:
                    orbit = return_orbit(record, names, level, returns, int(k), count, rate)
                    new.append(_believed(orbit, float(chance[k])))
            kept += new
            # The last level is the requested tolerance.
            near = np.abs(returns.rows[:, None] - believed_rows).min(axis=1, initial=len(record)) <= returns.length
            seen, expected, unlikely = seen + len(near), expected + by_chance, unlikely + int(near.sum())
            for k in order[~near[order]][: max(0, KEEP_REJECTED - len(refused))]:
                reason = (
                    f"unrelated stretches stay together as long, or signals of the same spectrum do "
                    f"({100 * chance[k]:.0f} % of such returns are chance)"
                )
                refused.append((return_orbit(record, names, signal, returns, int(k), count, rate), reason))
            task.advance(1, f"{len(kept)} orbits of up to {count} periods")
    message = "Interrupted. " if task.interrupted else ""
    message += (
        f"{len(kept)} orbits of up to {max_period} excitation periods return within tolerance in {len(record)} samples "
        f"(delay {signal.delay} samples). {seen} returns were found; lags between the periods, where no orbit can "
        f"return, give {expected:.0f} by chance. {unlikely} stay together longer than chance explains."
    )
    if not kept and seen:
        message += " The returns are those of unrelated stretches: the record looks like noise, or is too short."
    return OrbitSet(
        tuple(kept), tuple(bool(c) for c in signal.circle), tuple(refused), message, record, status=task.status
    )


def dense_signal(record: Record, names: tuple[str, ...], settings: ReturnSearch, rate: float) -> DenseSignal:
    """Prepare the channels of a record for comparison.

    The signal has continuous angles and carries sizes, tolerances and the delay.
    """
    segments = record.segments()
    values = record.select(names).unwrapped().values()
    circle = np.array([bool(record.content.channels[name].attrs.get("angle", False)) for name in names])
    size = np.where(circle, 2 * np.pi, np.ptp(values, axis=0))
    if isinstance(settings.tolerance, Mapping):
        missing = [name for name in names if name not in settings.tolerance]
        if missing:
            raise DataError(f'No tolerance for channel "{missing[0]}": name every channel, or give one number.')
        for name in settings.tolerance:
            if name not in names:
                raise DataError(f'Tolerance of "{name}": the channels are {names}.{nearest_name(name, names)}')
        tolerance = np.array([float(settings.tolerance[name]) for name in names])
    else:
        tolerance = np.full(len(names), float(settings.tolerance))
    delay = settings.delay or record_delay(record, names, rate)
    phase: Array = np.mod((record.time - record.excitation_start) / float(record.period or 1.0), 1.0)
    return DenseSignal(values, size, circle, tolerance, segments, delay, settings.dimension, phase)


def gap(signal: DenseSignal, first: Array, second: Array) -> Array:
    """Return differences in units of each channel's tolerance.

    Angles are compared on the circle.
    """
    difference = (second - first) / signal.size
    difference[..., signal.circle] -= np.round(difference[..., signal.circle])
    return difference / signal.tolerance


@dataclass(frozen=True)
class Returns:
    """Stretches of returns after one lag.

    rows: the closest row of each; error: how close (≤ 1); length: how many samples they hold.
    """

    rows: Indices
    error: Array
    length: Indices


def best_returns(signal: DenseSignal, lag: int) -> Returns:
    """Find stretches in which the record returns after `lag`.

    The lag counts samples; each stretch is given by its closest row.
    """
    from scipy.ndimage import maximum_filter1d

    rows, errors, lengths = [np.empty(0, np.intp)], [np.empty(0)], [np.empty(0, np.intp)]
    reach = signal.delay * (signal.dimension - 1)
    for piece in signal.segments:
        values = signal.values[piece]
        if lag < 1 or len(values) <= lag + reach:
            continue
        worst = np.abs(gap(signal, values[:-lag], values[lag:])).max(axis=1)
        # The return must hold all the way to the last delay: the running maximum of the next `reach` samples.
        later = maximum_filter1d(worst, reach + 1, origin=-((reach + 1) // 2))[: len(worst) - reach]
        close = np.flatnonzero(later <= 1.0)
        if not close.size:
            continue
        first = np.flatnonzero(np.diff(close, prepend=close[0] - 2) > 1)
        length = np.diff(np.append(first, close.size))
        # The closest row of each run: sort by run, then by error.
        run = np.repeat(np.arange(len(first)), length)
        order = np.lexsort((later[close], run))
        best = close[order[first]]
        rows.append(best + piece.start)
        errors.append(later[best])
        lengths.append(length)
    return Returns(np.concatenate(rows), np.concatenate(errors), np.concatenate(lengths))


def chance_shares(signal: DenseSignal, returns: Returns, count: int, rate: float) -> tuple[Array, float]:
    """Return the probability that each return is chance.

    The share of equally long returns that unrelated stretches give, and how many these give in all.
    Unrelated: the record against itself at lags (count + c) T, c of `CONTROLS`. Determinism keeps a return of a forced
    system together, because state and drive agree; noise and stretches met at another phase separate again. With d
    returns at least as long over the m control lags and t at the lag itself the share is (d + 1)/(m t): one more than
    observed, so that few returns prove nothing. A return that holds for a whole further period, and twice as long as
    the longest of unrelated stretches, is certain.
    """
    controls = [best_returns(signal, round((count + part) * rate)).length for part in CONTROLS]
    pooled = np.sort(np.concatenate(controls))
    at_least = np.sort(returns.length)
    longer = len(pooled) - np.searchsorted(pooled, returns.length, side="left")
    alike = len(at_least) - np.searchsorted(at_least, returns.length, side="left")
    share = np.minimum((longer + 1.0) / (len(CONTROLS) * np.maximum(alike, 1)), 1.0)
    whole = round(count * rate)
    # A further whole period together is deterministic, however few such returns there are.
    sure = (returns.length >= whole) & (returns.length >= 2 * pooled.max(initial=0))
    share = np.where(sure, 0.0, share)
    return share, len(pooled) / len(CONTROLS)


def surrogate_signals(signal: DenseSignal) -> list[DenseSignal]:
    """Return signals with the same spectra and random phases.

    They are noise through the same resonances, without phase relation to the signal.
    """
    # A fixed seed: the same record gives the same orbits.
    random = np.random.default_rng(0)
    return [
        replace(signal, values=phase_randomised(signal.values, signal.segments, random, signal.circle))
        for _ in range(SURROGATES)
    ]


def surrogate_shares(signal: DenseSignal, null: list[DenseSignal], returns: Returns, lag: int) -> Array:
    """Return the share of equally long surrogate returns.

    The share is computed for each return, at the same lag.
    Noise through a sharp resonance near the drive returns in phase with it, longer than stretches met at another
    phase; so do its surrogates. Determinism gives more long returns than they have.
    """
    if not len(returns.rows):
        return np.empty(0)
    lengths = [best_returns(replace(other, tolerance=signal.tolerance), lag).length for other in null]
    pooled, own = np.sort(np.concatenate(lengths)), np.sort(returns.length)
    longer = len(pooled) - np.searchsorted(pooled, returns.length, side="left")
    alike = len(own) - np.searchsorted(own, returns.length, side="left")
    return np.minimum((longer + 1.0) / (len(null) * np.maximum(alike, 1)), 1.0)


def _repeats(signal: DenseSignal, lag: int) -> bool:
    """Test whether nearly all of the record returns.

    Such a motion is periodic, and its surrogates return after the lag as well.
    """
    back = [
        np.all(np.abs(gap(signal, signal.values[piece][:-lag], signal.values[piece][lag:])) <= 1.0, axis=1)
        for piece in signal.segments
        if piece.stop - piece.start > lag
    ]
    return bool(back) and float(np.mean(np.concatenate(back))) > 0.9


def tolerance_levels(signal: DenseSignal) -> list[DenseSignal]:
    """Return the signal with rising tolerances.

    The last is the requested one. A closer return need not stay together as long.
    """
    largest = float(np.max(signal.tolerance))
    shares = [share for share in LEVELS / largest if share < 0.95]
    return [replace(signal, tolerance=signal.tolerance * share) for share in (*shares, 1.0)]


def distinct_returns(
    signal: DenseSignal, rows: Indices, count: int, rate: float, known: Array
) -> tuple[list[int], Array]:
    """Return positions of returns that are distinct orbits.

    Positions in `rows` (closest first) of returns that neither repeat a shorter one nor duplicate another.
    known: (K, P, c) profiles of this period kept before; returned with the new ones.

    Two stretches are the same orbit when they agree within the tolerance (rms over a period) at any shift by whole
    excitation periods; all that are the same as one already kept are found at once.
    """
    prime = [k for k, row in enumerate(rows) if not repeats_within(signal, int(row), count, rate)]
    shapes = np.array([sampled_profile(signal, int(rows[k]), count, rate) for k in prime])
    kept = []
    alive = np.ones(len(prime), bool)
    for shape in known if len(prime) else ():
        alive &= ~_same(signal, shapes, shape, count)
    for k in range(len(prime)):
        if not alive[k]:
            continue
        kept.append(k)
        later = k + 1 + np.flatnonzero(alive[k + 1 :])
        alive[later[_same(signal, shapes[later], shapes[k], count)]] = False
    return [prime[k] for k in kept], np.concatenate([known, shapes[kept]]) if kept else known


def _same(signal: DenseSignal, shapes: Array, shape: Array, count: int) -> NDArray[np.bool_]:
    """Return which profiles agree with a given one.

    Profiles (K, P, c) are compared with one (P, c) at every shift by whole excitation periods.
    """
    same = np.zeros(len(shapes), bool)
    for shift in range(count):
        turned = np.roll(shape, shift * (len(shape) // count), axis=0)
        same |= np.mean(gap(signal, shapes, turned) ** 2, axis=(1, 2)) <= 1.0
    return same


def repeats_within(signal: DenseSignal, row: int, count: int, rate: float) -> bool:
    """Test whether a stretch repeats a shorter one.

    It already returns after a divisor of `count` periods, along most of its length.
    """
    stop = row + round(count * rate)
    for part in range(1, count):
        if count % part == 0:
            lag = round(part * rate)
            path = gap(signal, signal.values[row : stop - lag], signal.values[row + lag : stop])
            if np.sqrt(np.mean(path**2)) <= 1.0:
                return True
    return False


def sampled_profile(signal: DenseSignal, row: int, count: int, rate: float) -> Array:
    """Sample a stretch at fixed phases.

    The result is (count · PER_PERIOD, c), starting with the excitation's phase zero.
    """
    samples = row + np.round(np.arange(count * PER_PERIOD) * rate / PER_PERIOD).astype(np.intp)
    return np.roll(signal.values[samples], round(signal.phase[row] * PER_PERIOD), axis=0)


def return_orbit(
    record: Record, names: tuple[str, ...], signal: DenseSignal, returns: Returns, which: int, count: int, rate: float
) -> PeriodicOrbit:
    """Make an orbit from a stretch.

    Its profile starts at excitation phase zero, so the closure is inside the profile.
    """
    period = float(record.period or 0.0)
    row, lag = int(returns.rows[which]), round(count * rate)
    # The closure is the largest gap over the samples for which the return must hold.
    held = np.arange(signal.delay * (signal.dimension - 1) + 1) + row
    missed = np.abs(gap(signal, signal.values[held], signal.values[held + lag])) * signal.tolerance
    stretch = signal.values[row : row + lag]
    turned = turns(signal.values[row + lag] - signal.values[row], signal.circle)
    interval = float(period / rate)
    phase = float(signal.phase[row]) * period
    first = round(((period - phase) % period) / interval) % lag
    states = np.concatenate([stretch[first:], stretch[:first] + TURN * turned])
    states -= TURN * turns(states[0], signal.circle)
    strobes = np.round(np.arange(count) * rate).astype(np.intp)
    points = wrap_states(states[strobes], signal.circle)
    return PeriodicOrbit(
        states=names,
        points=points,
        period=count * period,
        repeats=count,
        winding=tuple(int(t) for t in turned),
        closure=float(np.max(missed)),
        method="close return",
        profile=Profile(np.asarray(np.arange(lag) * interval, float), states),
        measured=OrbitMeasurement(visits=1, stretch=Stretch(row, row + lag, together=int(returns.length[which]))),
    )


def _believed(orbit: PeriodicOrbit, chance: float) -> PeriodicOrbit:
    assert orbit.stretch is not None
    return orbit.with_(stretch=replace(orbit.stretch, chance=chance))
