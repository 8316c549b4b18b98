"""First states from the data, and their sizes.

They are found at every sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from kapitza.base.angles import unwrap, unwrap_states
from kapitza.base.arrays import Array, Flags
from kapitza.estimate.judge import MEDIAN_TO_DEVIATION, spread_of
from kapitza.estimate.observation import Observation, linear_rows
from kapitza.estimate.shooting_fit.impacts import Flights, find_flights
from kapitza.estimate.shooting_fit.pieces import Samples
from kapitza.flow import Flow
from kapitza.model import Model
from kapitza.signal import difference_noise

WIDEST_SLOPE = 40
"""Most samples over which a noisy coordinate is differenced."""


def states_from_data(model: Model, samples: Samples, observation: Observation) -> tuple[Array, Flags, Flights | None]:
    """Return first states (N, n) from the data.

    The flags (N, n) mark those that the data gave; the flights between impacts, if any, are returned as well.
    Channels that are linear in the states are inverted; the rate of a measured coordinate is its smoothed
    difference; the others start from the model's own start and are found by the iteration.
    """
    n = len(model.states)
    states = np.tile([model.start.get(name, 0.0) for name in model.states], (samples.size, 1))
    known = np.zeros((samples.size, n), bool)
    linear, gains = linear_rows(model, observation)
    # A cusp at an impact looks like a spike and must not be filtered.
    smooth = samples.outliers and not model.structure.impacts
    values = _without_spikes(samples, observation) if smooth else samples.values
    # A plain coordinate measured by an angle sensor is not limited to half a turn: it is unwrapped.
    turning = observation.angles & linear & (gains[:, ~np.array(model.angles)] != 0).any(axis=1)
    if turning.any():
        values = values.copy()
        for piece in samples.pieces:
            values[piece] = unwrap_states(values[piece], turning)
    if observation.matrix is None:
        with np.errstate(all="ignore"):
            at_rest = observation.value(np.zeros((samples.size, n)), samples.time, samples.parameters)
        values = values - np.where(linear & np.isfinite(at_rest), at_rest, 0.0)
    read = samples.sensor >= 0
    # Samples with the same set of channels are inverted together; the set is coded as a bit mask.
    pattern = np.zeros(samples.size, np.intp) if samples.complete else read @ (1 << np.arange(read.shape[1]))
    for kind in np.unique(pattern):
        rows = np.flatnonzero(pattern == kind)
        used = np.flatnonzero(linear & read[rows[0]])
        if not used.size:
            continue
        inverse = np.linalg.pinv(gains[used])
        # Diagonal of the resolution matrix: 1 for states that these channels determine.
        seen = np.isclose((inverse @ gains[used]).diagonal(), 1.0)
        found = values[np.ix_(rows, used)] @ inverse.T
        states[np.ix_(rows, np.flatnonzero(seen))] = found[:, seen]
        known[np.ix_(rows, np.flatnonzero(seen))] = True
    _bridge(model, samples, states, known)
    index = {name: i for i, name in enumerate(model.states)}
    flights = find_flights(model, samples, states, known)
    stretches = samples.pieces if flights is None else flights.stretches
    for name in model.states:
        coordinate = name[:-1] if name.endswith("'") else ""
        if coordinate in index:
            place = index[coordinate]
            pair = _Pair(samples.time, states, known, place, index[name], model.angles[place])
            pair.fill_rates(stretches, _slope if flights is None else flights.slope)
            if flights is None:
                pair.fill_positions(samples.pieces)
    return _inside_domain(model, samples, states, known), known, flights


INSIDE = (1.0, 0.1, 10.0, -1.0, -0.1, -10.0)
"""Starts of an unmeasured state where the equations are not defined at zero, in units of the model and in sizes of the
measured states."""

MARGIN = 1e-3
"""Distance to the border of the domain, in sizes of the measured states, that a start must have."""

LOOKED_AT = 64
"""Samples at which the equations are evaluated for this test."""


def _inside_domain(model: Model, samples: Samples, states: Array, known: Flags) -> Array:
    """Move unmeasured states into the domain of the equations.

    states: (N, n). A length, a concentration or a level divides or has a root: zero, the usual start of an unmeasured
    state, is outside or on the border. Of the starts inside, the one whose rates agree best with the slopes of the
    measured states is taken. A start that the model states is kept.
    """
    unseen = [
        i for i, name in enumerate(model.states)
        if not known[:, i].any() and name not in model.start and not name.endswith("'")
    ]  # fmt: skip
    if not unseen or model.is_map:
        return states
    # A sample of the record suffices to see whether the equations are defined.
    index = np.unique(np.linspace(0, samples.size - 1, LOOKED_AT).astype(int))
    flow, vector = Flow(model), samples.parameters[0]
    seen = np.flatnonzero(known.all(axis=0))
    size = float(np.abs(states[:, seen]).mean()) if seen.size else 1.0
    with np.errstate(all="ignore"):
        slopes = np.gradient(states[:, seen], samples.time, axis=0)[index]
    # Between two records time may stand still, which makes slopes infinite or undefined.
    slopes[~np.isfinite(slopes)] = 0.0

    def distance(value: float) -> float:
        """Return the distance of the rates from measured slopes.

        It is infinite outside of the domain.
        """
        tried, apart = states[index], np.inf
        for shift in (MARGIN * size, -MARGIN * size, 0.0):
            tried[:, unseen] = value + shift
            with np.errstate(all="ignore"):
                rates = flow.rates(tried, samples.time[index], vector)
            if not np.isfinite(rates).all():
                return np.inf
            apart = float(np.abs(rates[:, seen] - slopes).sum())
        return apart

    if np.isfinite(distance(0.0)):
        return states
    # Equal distances (no measured rate depends on the state) leave the first one.
    best = min((sign * unit for sign in INSIDE for unit in (1.0, size)), key=distance)
    if np.isfinite(distance(best)):
        states = states.copy()
        states[:, unseen] = best
    return states


def _bridge(model: Model, samples: Samples, states: Array, known: Flags) -> None:
    """Interpolate states at lost samples, in place.

    They start on the line between their neighbours and stay unknown. The start of the model may be far off, or outside
    the domain of the equations.
    """
    for piece in samples.pieces:
        time = samples.time[piece]
        for i in np.flatnonzero(known[piece].any(axis=0) & ~known[piece].all(axis=0) & ~np.array(model.angles)):
            seen, column = known[piece, i], states[piece, i]
            states[piece, i] = np.where(seen, column, np.interp(time, time[seen], column[seen]))


def _without_spikes(samples: Samples, observation: Observation) -> Array:
    """Return the samples without spikes (Hampel's filter).

    Those far from the median of seven neighbours are replaced by it (F. R. Hampel).
    """
    from scipy import ndimage

    values = samples.values.copy()
    for c in np.flatnonzero(~observation.angles):
        middle = values[:, c].copy()
        for piece in samples.pieces:
            middle[piece] = ndimage.median_filter(values[piece, c], size=7, mode="reflect")
        distance = np.abs(values[:, c] - middle)
        wild = distance > 5 * MEDIAN_TO_DEVIATION * np.median(distance)
        values[wild, c] = middle[wild]
    return values


@dataclass(frozen=True)
class _Pair:
    """Coordinate and its rate, columns of the states.

    states: (N, n) at times (N,), which are known (N, n) or not.
    """

    time: Array
    states: Array
    known: Flags
    coordinate: int
    rate: int
    angle: bool

    def _lacking(self, pieces: list[slice], seen: int, other: int, least: int) -> Iterator[slice]:
        """Yield pieces where one column is unknown.

        Of more than `least` samples, throughout which the other column is known.
        """
        for piece in pieces:
            lacks = self.known[piece, seen].all() and not self.known[piece, other].any()
            if lacks and piece.stop - piece.start > least:
                yield piece

    def fill_rates(self, stretches: list[slice], slope: Callable[[Array, Array], Array]) -> None:
        for piece in self._lacking(stretches, self.coordinate, self.rate, 1):
            part = self.states[piece, self.coordinate]
            self.states[piece, self.rate] = slope(unwrap(part) if self.angle else part, self.time[piece])
            self.known[piece, self.rate] = True

    def fill_positions(self, pieces: list[slice]) -> None:
        """Integrate rates where only these are known.

        The integral is a guess of the coordinate, about its present start.
        An offset of the sensor and its noise make the integral drift; for a coordinate that does not turn, the straight
        line through it is subtracted.
        """
        for piece in self._lacking(pieces, self.rate, self.coordinate, 2):
            time = self.time[piece]
            rate = self.states[piece, self.rate]
            path = np.r_[0.0, np.cumsum(np.diff(time) * (rate[1:] + rate[:-1]) / 2.0)]
            if not self.angle:
                path = path - np.polyval(np.polyfit(time - time[0], path, 1), time - time[0])
            self.states[piece, self.coordinate] += path


def _slope(values: Array, time: Array) -> Array:
    """Return smoothed differences.

    The window is triangular, and as wide as the noise of the slope requires.
    """
    slope = np.gradient(values, time, edge_order=1)
    if slope.size < 5:
        return slope
    step = float(np.median(np.diff(time)))
    # Noise of a single difference, from third differences that remove the motion.
    noise = difference_noise(np.diff(values, 3), 3) / step
    width = 3
    while True:
        ramp = np.arange(1.0, width + 1)
        kernel = np.concatenate([ramp, ramp[-2::-1]]) / width**2
        smooth = slope.copy()
        smooth[width - 1 : slope.size - width + 1] = np.convolve(slope, kernel, mode="valid")
        wider = int(np.ceil(1.5 * width))
        # Differences of white noise under this window have the variance 2 σ²/(width³ step²).
        quiet = noise * np.sqrt(2.0 / width**3) < 0.15 * float(smooth.std())
        if quiet or wider > WIDEST_SLOPE or 8 * wider > slope.size:
            return smooth
        width = wider


def sizes(model: Model, samples: Samples, states: Array, known: Flags) -> Array:
    """Return the typical size (n,) of each state.

    It is its spread in the data, or of its guess, or the largest for unmeasured ones.
    """
    spread = np.array([spread_of(states[known[:, i], i], samples.outliers) for i in range(len(model.states))])
    some = np.asarray(known.any(axis=0))
    for i, angle in enumerate(model.angles):
        if angle and some[i]:
            # A rotating angle spreads over many turns, which is not a size.
            spread[i] = min(max(spread[i], 1e-3), np.pi)
    largest = spread[some].max(initial=0.0) or float(samples.values.std()) or 1.0
    guessed = ~some & (states.std(axis=0) > 1e-6 * largest)
    spread, some = np.where(guessed, states.std(axis=0), spread), some | guessed
    return np.where(some & (spread > 1e-9 * largest), spread, largest)
