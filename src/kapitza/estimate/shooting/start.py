"""First guesses: states at every sample from the data, sizes of states, noise of the channels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kapitza.estimate.shooting.observation import Observation
from kapitza.estimate.shooting.pieces import Samples
from kapitza.model import Model

Array = NDArray[np.float64]


def states_from_data(model: Model, samples: Samples, observation: Observation) -> tuple[Array, NDArray[np.bool_]]:
    """States (N, n) at all samples, and which of them (n,) the data gave.

    Channels that are linear in the states are inverted; the rate of a coordinate that was seen is its smoothed
    difference; what remains starts from the model's own start and is found by the iteration.
    """
    n = len(model.states)
    states = np.tile([model.start.get(name, 0.0) for name in model.states], (samples.size, 1))
    known = np.zeros(n, bool)
    if observation.matrix is not None:
        inverse = np.linalg.pinv(observation.matrix)
        seen = np.isclose((inverse @ observation.matrix).diagonal(), 1.0)
        states[:, seen] = (samples.values @ inverse.T)[:, seen]
        known |= seen
    index = {name: i for i, name in enumerate(model.states)}
    for name in model.states:
        coordinate = name[:-1] if name.endswith("'") else ""
        if coordinate in index and known[index[coordinate]] and not known[index[name]]:
            angle = model.angles[index[coordinate]]
            states[:, index[name]] = _rates(states[:, index[coordinate]], samples, angle)
            known[index[name]] = True
    return states, known


def _rates(values: Array, samples: Samples, angle: bool) -> Array:
    """Slope of a local parabola through seven samples (fewer near the ends of short pieces)."""
    rates = np.zeros(samples.size)
    for piece in samples.pieces:
        time, part = samples.time[piece], values[piece]
        part = np.unwrap(part) if angle else part
        slope = np.gradient(part, time, edge_order=1)
        if slope.size >= 5:
            kernel = np.array([1.0, 2.0, 3.0, 2.0, 1.0]) / 9.0
            inner = np.convolve(slope, kernel, mode="valid")
            slope[2:-2] = inner
        rates[piece] = slope
    return rates


def sizes(model: Model, samples: Samples, states: Array, known: NDArray[np.bool_]) -> Array:
    """Typical size (n,) of each state: its spread in the data, or the largest known spread for unseen ones."""
    spread = states.std(axis=0)
    for i, angle in enumerate(model.angles):
        if angle and known[i]:
            spread[i] = min(max(spread[i], 1e-3), np.pi)
    largest = spread[known].max(initial=0.0) or float(samples.values.std()) or 1.0
    return np.where(known & (spread > 1e-9 * largest), spread, largest)


def noise_guess(samples: Samples, observation: Observation) -> Array:
    """Standard deviation (c,) of each channel's noise from third differences, at least 1e-6 of its spread.

    Third differences of a smooth, densely sampled motion are small, those of white noise have 20 times its variance.
    Only the ratios between channels matter before the fit; the residuals give the final values.
    """
    guess = np.empty(samples.values.shape[1])
    whole = samples.joined[:-3] & samples.joined[1:-2] & samples.joined[2:-1]
    for c in range(guess.size):
        channel = samples.values[:, c]
        steps = np.diff(channel)
        if observation.angles[c]:
            steps = (steps + np.pi) % (2 * np.pi) - np.pi
        spread = float(np.std(channel)) or 1.0
        third = np.diff(steps, 2)[whole] if whole.any() else np.array([spread])
        size = np.sqrt(np.mean(third**2) / 20.0)
        # A record too coarse to be smooth, such as a strobed one, says nothing: an ordinary sensor is assumed.
        guess[c] = max(size, 1e-6 * spread) if size < 0.2 * spread else 0.01 * spread
    return guess
