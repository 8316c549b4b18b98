"""Flights between impacts in a record.

They determine where nodes may be and where rates may be differenced.
A node close to an impact is of no use: noise puts it behind the wall or on the wrong side of the jump, and its rate
cannot be found from differences across the jump. Nodes in free flight are harmless: the flow carries them through the
impact, and its tangents with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kapitza.base.arrays import Array, Flags, Indices
from kapitza.errors import DataError
from kapitza.estimate.observation import Observation
from kapitza.estimate.shooting_fit.pieces import Samples
from kapitza.model import Model, compile_expressions, symbol
from kapitza.signal import difference_noise

SURELY_AWAY = 4.0
"""Smallest distance between a node and a wall, in standard deviations of the noise."""

SURELY_BACK = 6.0
"""Standard deviations by which the distance must have been larger before and after an impact."""

BESIDE = 2
"""Samples next to an impact that are not nodes, because their rates come from one side only."""


SLOPE_ERROR = 0.02
"""Target error of the speed towards a wall, in units of its spread; it sets the samples between two nodes."""

WIDEST = 30
"""Most samples between two nodes."""


@dataclass(frozen=True)
class Flights:
    """Stretches between impacts.

    Slices of the samples, where (N,) nodes may be, and the samples between two of them.
    beside: (N,) the samples around an impact, of which it is not known whether they are before or after it.
    """

    stretches: list[slice]
    free: Flags
    width: int
    beside: Flags

    def slope(self, values: Array, time: Array) -> Array:
        """Return the rate of a coordinate along one flight.

        Parabolas are fitted through as many samples as its noise requires.
        """
        from scipy import signal

        step = np.diff(time)
        window = min(2 * self.width + 1, values.size - (values.size + 1) % 2)
        if window < 5 or np.ptp(step) > 0.01 * step.mean():
            return np.gradient(values, time, edge_order=1)
        smooth = signal.savgol_filter(values, window, 2, deriv=1, delta=float(step.mean()), mode="interp")
        return np.asarray(smooth, float)


def find_flights(model: Model, samples: Samples, states: Array, known: Flags) -> Flights | None:
    """Find the flights of states (N, n).

    known: (N, n) which states come from the data. None for models without walls, or where the data do not determine the
    distance from a wall.
    """
    walls = model.structure.impacts
    seen = {symbol(name) for i, name in enumerate(model.states) if known[:, i].all()}
    unseen = {symbol(name) for name in model.states} - seen
    if not walls or any(wall.surface.free_symbols & unseen for wall in walls):
        return None
    evaluate = compile_expressions([wall.surface for wall in walls], [*model.states, "t"], model.names)
    distances = evaluate(np.vstack([states.T, samples.time]), np.ascontiguousarray(samples.parameters.T))
    impacts, close, width = np.zeros(samples.size, bool), np.zeros(samples.size, bool), 1
    for distance in distances:
        noise = _noise(samples, distance)
        impacts |= _impacts(samples, distance, noise)
        close |= distance <= SURELY_AWAY * noise
        width = max(width, _width(samples, distance, noise))
    stretches = _stretches(samples, impacts)
    free = np.zeros(samples.size, bool)
    for flight in stretches:
        size = flight.stop - flight.start
        margin = min(BESIDE, size // 4)
        first = flight.start + (margin if flight.start and impacts[flight.start - 1] else 0)
        last = flight.stop - (margin if flight.stop < samples.size and impacts[flight.stop] else 0)
        inside = first + np.flatnonzero(~close[first:last])
        # Dense nodes would follow the noise, and their speeds would be far too large.
        free[inside[:: min(width, max(size // 4, 1))]] = True
        free[inside[-1:]] = True
    beside = impacts | np.append(impacts[1:], False) | np.append(False, impacts[:-1])
    return Flights(stretches, free, width, beside)


def _width(samples: Samples, distance: Array, noise: float) -> int:
    """Return the samples over which a slope is taken.

    Over w samples it has the error σ √(2/w³)/step, which must be small relative to the spread of the slopes.
    """
    step = np.diff(samples.time)[samples.joined[:-1]]
    speed = float(np.std(np.diff(distance)[samples.joined[:-1]] / step))
    # Solved for w from σ √(2/w³)/step = SLOPE_ERROR · speed.
    wanted = (2 * (noise / (np.median(step) * SLOPE_ERROR * max(speed, 1e-300))) ** 2) ** (1 / 3)
    return int(np.clip(np.ceil(wanted), 1, WIDEST))


def _noise(samples: Samples, distance: Array) -> float:
    """Return the noise of a distance.

    It follows from third differences, by their median: impacts are few.
    """
    whole = samples.joined[:-3] & samples.joined[1:-2] & samples.joined[2:-1]
    # A difference across a gap is not noise.
    return difference_noise(np.diff(distance, 3)[whole], 3, robust=True)


def _impacts(samples: Samples, distance: Array, noise: float) -> Flags:
    """Return the samples (N,) nearest to an impact.

    Minima of the distance, not larger than a step of the motion on either side, from which the motion leaves again by
    more than the noise.
    """
    from scipy import signal

    step = np.where(samples.joined[:-1], np.abs(np.diff(distance)), 0.0)
    two_before = np.concatenate([[0.0, 0.0], step[:-1]])
    two_after = np.concatenate([step[1:], [0.0, 0.0]])
    # The impact is between samples: the nearest one may still be a step of the motion away from the wall.
    reachable = np.maximum(two_before, two_after) + SURELY_AWAY * noise
    found = np.zeros(samples.size, bool)
    for piece in samples.pieces:
        least, _ = signal.find_peaks(-distance[piece], prominence=SURELY_BACK * noise)
        found[piece.start + least] = True
    return found & (distance < reachable)


def _stretches(samples: Samples, impacts: Flags) -> list[slice]:
    """Return runs of samples between impacts.

    Also between ends of pieces; the samples at the impacts are left out.
    """
    found = []
    for piece in samples.pieces:
        inner = np.flatnonzero(impacts[piece]) + piece.start
        edges = zip([piece.start, *(inner + 1)], [*inner, piece.stop], strict=True)
        found += [slice(int(a), int(b)) for a, b in edges if b > a]
    return found


def in_flight(model: Model, samples: Samples, observation: Observation, flights: Flights) -> tuple[Samples, Indices]:
    """Return the samples with nodes in flight only.

    Their positions are returned as well: each piece begins and ends in flight. Channels that jump at an impact are
    not used beside it, where noise decides on which side a sample is.
    """
    flown = np.zeros(samples.size, bool)
    for piece in samples.pieces:
        inner = np.flatnonzero(flights.free[piece])
        if inner.size > 1:
            flown[piece.start + inner[0] : piece.start + inner[-1] + 1] = True
    if not flown.any():
        raise DataError(
            "The record never leaves the walls of the model by more than its noise: sample faster, or check the "
            "positions of the walls."
        )
    # States that a reset changes.
    jumping = {symbol(name) for wall in model.structure.impacts for name in wall.reset}
    jumps = np.array([bool(e.free_symbols & jumping) for e in observation.expressions])
    sensor = np.where(flights.beside[:, None] & jumps, -1, samples.sensor)
    positions = np.flatnonzero(flown)
    return replace(samples, free=flights.free, sensor=sensor).choose(positions), positions
