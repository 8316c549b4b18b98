"""Informative windows of a long record.

The information of a window about the parameters is its Fisher matrix with the states eliminated. Windows with separate
states are joined by the parameters only, so their information adds up.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kapitza.base.arrays import Array, Indices
from kapitza.errors import FlowError
from kapitza.estimate.shooting_fit.pieces import place_nodes
from kapitza.estimate.shooting_fit.solver import Fitter, densest_spacing
from kapitza.estimate.shooting_fit.sweep import sizes_of

FEW = 5
"""Windows with the largest motion from which the first one is chosen by information."""

MOST = 60
"""Most windows whose information is computed when several are to be chosen."""


def best_window(fitter: Fitter, theta: Array, states: Array, width: int, seen: bool) -> int:
    """Return the first sample of the best window.

    It is the most informative of those with the largest motion. states: (N, n) as the data give them. seen: whether
    they give all; otherwise the motion alone decides.
    """
    samples = fitter.problem.samples
    # Half a window apart, so that no stretch of large motion is split by all of them.
    starts = np.arange(0, samples.size - width + 1, max(1, width // 2))
    moves = fitter.problem.observation.residual(samples.values[1:].copy(), samples.values[:-1]) / samples.spread
    # Length of the path of the channels, in spreads: cheap, and large where the motion is.
    path = np.concatenate([[0.0], np.cumsum(np.abs(moves).sum(axis=1) * samples.joined[:-1])])
    busiest = starts[np.argsort(path[starts] - path[starts + width - 1], kind="stable")]
    if not seen or not theta.size:
        return int(busiest[0])
    found = informations(fitter, theta, states, busiest[:FEW], width)
    return int(busiest[most_informative(found, 1, sizes_of(theta))[0]])


def best_windows(fitter: Fitter, theta: Array, states: Array, width: int, count: int) -> Indices:
    """Return the samples of the `count` best windows.

    Together they determine the parameters best.
    """
    size = fitter.problem.samples.size
    every = np.arange(0, size - width + 1, width)
    starts = every[np.unique(np.linspace(0, every.size - 1, MOST).round().astype(int))] if every.size > MOST else every
    found = informations(fitter, theta, states, starts, width)
    chosen = starts[most_informative(found, count, sizes_of(theta))]
    return (chosen[:, None] + np.arange(width)).ravel()


def informations(fitter: Fitter, theta: Array, states: Array, starts: Indices, width: int) -> Array:
    """Return the Fisher information (W, k, k) of windows.

    It is evaluated at these parameters and states; 0 where no motion leads through.
    """
    found = np.zeros((starts.size, theta.size, theta.size))
    spacing = densest_spacing(states)
    for i, start in enumerate(starts):
        inside = slice(int(start), int(start) + width)
        samples = fitter.problem.samples.take(inside.start, inside.stop)
        inner = replace(fitter, problem=replace(fitter.problem, samples=samples))
        nodes = place_nodes(samples, spacing)
        weights = samples.at_readings(fitter.sensors.deviations) ** -2.0
        try:
            found[i] = inner.information(inner.swept(theta, states[inside][nodes.index], nodes, weights))
        except (FlowError, np.linalg.LinAlgError):
            continue
    return found


def most_informative(found: Array, count: int, scale: Array) -> Indices:
    """Return the positions of the most informative windows.

    `count` windows that together determine the parameters best, in the order of the record.
    One after the other, each time the window that raises log det of the sum most (greedy D-optimal design). scale: (k,)
    size of each parameter; a small information at the start lets a single window leave some undetermined.
    """
    relative = found * np.outer(scale, scale)
    largest = max(float(np.trace(relative, axis1=1, axis2=2).max(initial=0.0)), 1e-300)
    total = 1e-12 * largest * np.eye(scale.size)
    left, chosen = list(range(len(found))), []
    for _ in range(min(count, len(found))):
        best = left.pop(int(np.argmax(np.linalg.slogdet(total + relative[left])[1])))
        chosen.append(best)
        total = total + relative[best]
    return np.array(sorted(chosen), np.intp)
