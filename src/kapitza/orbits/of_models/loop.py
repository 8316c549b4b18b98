"""Closed curves in state space: guesses and solutions.

A loop gives the state at any fraction of its period, angles continuous: x(s + 1) = x(s) + 2π·winding. Each solver has
its own exact representation; all of them are loops, so the result of one solver is a guess for another without loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kapitza.base.arrays import Array
from kapitza.base.lazy_fields import as_computed, deferrable
from kapitza.errors import DataError


@dataclass(frozen=True)
class FourierSeries:
    """Fourier series of an orbit.

    It is x(s) = 2π w s + a_0 + Σ_h [a_h cos 2πhs + b_h sin 2πhs].
    cosines: (H + 1, n) with the mean first; sines: (H, n); winding: (n,).
    """

    cosines: Array
    sines: Array
    period: float
    winding: Array

    @property
    def harmonics(self) -> int:
        return self.sines.shape[0]

    def __call__(self, fractions: Array, derivative: int = 0) -> Array:
        """Return states (M, n), or derivatives by s."""
        s = np.asarray(fractions, float)
        order = 2 * np.pi * np.arange(self.harmonics + 1)
        phase = np.multiply.outer(s, order) + derivative * np.pi / 2
        weight = order**derivative if derivative else np.ones_like(order)
        series = (weight * np.cos(phase)) @ self.cosines + (weight[1:] * np.sin(phase[:, 1:])) @ self.sines
        if derivative == 0:
            series = series + 2 * np.pi * np.multiply.outer(s, self.winding)
        if derivative == 1:
            series = series + 2 * np.pi * self.winding
        return series

    def resized(self, harmonics: int) -> FourierSeries:
        """Return the same curve with other harmonics.

        Further harmonics are zero; higher ones are cut off.
        """
        cosines = np.zeros((harmonics + 1, self.cosines.shape[1]))
        sines = np.zeros((harmonics, self.cosines.shape[1]))
        kept = min(harmonics, self.harmonics)
        cosines[: kept + 1], sines[:kept] = self.cosines[: kept + 1], self.sines[:kept]
        return FourierSeries(cosines, sines, self.period, self.winding)


def fourier_series(samples: Array, period: float, winding: Array, harmonics: int | None = None) -> FourierSeries:
    """Return the series through equidistant samples.

    The N samples (N, n) start at s = 0; the series is exact for up to (N - 1) // 2 harmonics.
    """
    count = samples.shape[0]
    most = (count - 1) // 2
    kept = most if harmonics is None else min(harmonics, most)
    if kept < 1:
        raise DataError(f"{count} samples cannot carry a Fourier series: give at least 3 over the period.")
    straight = samples - 2 * np.pi * np.multiply.outer(np.arange(count) / count, winding)
    spectrum = np.fft.rfft(straight, axis=0) / count
    cosines, sines = 2 * spectrum.real[: kept + 1], -2 * spectrum.imag[1 : kept + 1]
    cosines[0] /= 2
    return FourierSeries(cosines, sines, period, np.asarray(winding, float))


@dataclass(frozen=True)
class SampledLoop:
    """Periodic cubic spline through samples.

    The linear growth of winding angles is added to the spline.
    """

    fractions: Array
    states: Array
    period: float
    winding: Array
    _spline: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        s = np.append(self.fractions, self.fractions[0] + 1.0)
        straight = self.states - 2 * np.pi * np.multiply.outer(self.fractions, self.winding)
        straight = np.vstack([straight, straight[:1]])
        from scipy.interpolate import CubicSpline

        object.__setattr__(self, "_spline", CubicSpline(s, straight, bc_type="periodic"))

    def __call__(self, fractions: Array) -> Array:
        s = np.asarray(fractions, float)
        return self._spline(s) + 2 * np.pi * np.multiply.outer(s, self.winding)


@dataclass(frozen=True)
class PiecewiseLoop:
    """Polynomials on a mesh, as from collocation.

    They may jump between pieces (impacts).
    mesh: (J + 1,) fractions from 0 to 1; values: (J, m + 1, n) at the points `knots` (m + 1,) of each element.
    """

    mesh: Array
    knots: Array
    values: Array
    period: float
    winding: Array

    def __call__(self, fractions: Array) -> Array:
        s = np.asarray(fractions, float)
        turns = np.floor(s) * (s != 1.0)
        inside = s - turns
        element = np.clip(np.searchsorted(self.mesh, inside, side="right") - 1, 0, self.mesh.size - 2)
        local = (inside - self.mesh[element]) / np.diff(self.mesh)[element]
        weights = lagrange_weights(self.knots, local)
        states = np.einsum("qi,qin->qn", weights, self.values[element])
        return states + 2 * np.pi * np.multiply.outer(turns, self.winding)


def lagrange_weights(knots: Array, points: Array) -> Array:
    """Evaluate the Lagrange polynomials on `knots`.

    The values are (M, m) for knots (m,) at points (M,).
    """
    gaps = knots[:, None] - knots[None, :] + np.eye(knots.size)
    offsets = points[:, None, None] - knots[None, None, :]
    factors = np.where(np.eye(knots.size, dtype=bool), 1.0, offsets / gaps)
    return factors.prod(axis=2)


FEW_PARTS = 8
"""Parts, of 256, up to which states are reached from checkpoints: each part costs a call, the whole stretch one."""


@dataclass(frozen=True)
class FlowLoop:
    """Nodes joined by trajectories, as from shooting.

    nodes: (J, n) at fractions (J,) from 0; angles continuous. The winding may be counted when it is first needed.
    """

    flow: Any
    fractions: Array
    nodes: Array
    period: float
    parameters: Array
    winding: Array = deferrable()
    _recorded: dict[int, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    _visited: list[tuple[Array, Array]] = field(default_factory=list, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        # Recorded stretches hold compiled code, which cannot be pickled; another process makes them again.
        return {**as_computed(self), "_recorded": {}, "_visited": []}

    def visit(self, fractions: Array) -> None:
        """Compute the states at all fractions in one run.

        Those at which the loop will be evaluated.
        """
        wanted = np.asarray(fractions, float)
        if not (wanted[1:] > wanted[:-1]).all():
            wanted = np.unique(wanted)
        if self.fractions.size == 1 and wanted[0] >= 0.0 and wanted[-1] <= 1.0:
            times = (wanted if wanted[0] == 0.0 else np.append(0.0, wanted)) * self.period
            # What the loop holds was checked when it was made.
            states = self.flow.core.sample(self.nodes[0], times, self.parameters, tangents=False)[0][-wanted.size :]
        else:
            states = self(wanted)
        self._visited[:] = [(wanted, states)]

    def __call__(self, fractions: Array) -> Array:
        s = np.asarray(fractions, float)
        if not s.any():
            return np.repeat(self.nodes[:1], s.size, axis=0)
        for known, states in self._visited:
            place = np.minimum(np.searchsorted(known, s), known.size - 1)
            if (known[place] == s).all():
                return states[place]
        turns = np.floor(s) * (s != 1.0)
        inside = s - turns
        element = np.clip(np.searchsorted(self.fractions, inside, side="right") - 1, 0, self.fractions.size - 1)
        result = np.empty((s.size, self.nodes.shape[1]))
        for j in np.unique(element):
            members = np.flatnonzero(element == j)
            order = members[np.argsort(inside[members], kind="stable")]
            result[order] = self._from_node(int(j), inside[order] * self.period)
        return result + 2 * np.pi * np.multiply.outer(turns, self.winding) if turns.any() else result

    def _from_node(self, j: int, times: Array) -> Array:
        """Return states at increasing times after node j.

        A few times are reached from checkpoints that are kept.
        """
        begin = self.fractions[j] * self.period
        if (times == begin).all():
            return np.repeat(self.nodes[j : j + 1], times.size, axis=0)
        end = np.append(self.fractions, 1.0)[j + 1] * self.period
        # Checkpoints divide the stretch into 256 parts; a few of them cost less than the whole way.
        parts = np.unique(np.floor(256 * (times - begin) / max(end - begin, 1e-300))).size
        if parts <= FEW_PARTS:
            if j not in self._recorded:
                self._recorded[j] = self.flow.dense(self.nodes[j], begin, end, self.parameters)
            return self._recorded[j](np.clip(times, begin, end))
        distinct, back = np.unique(np.append(begin, times), return_inverse=True)
        return self.flow.trajectory(self.nodes[j], distinct, self.parameters)[back[1:]]


def as_point(states: tuple[str, ...], guess: Mapping[str, float]) -> Array:
    """Return a state from values by name.

    States left out are zero, unknown names are refused.
    """
    unknown = set(guess) - set(states)
    if unknown:
        raise DataError(f"The guess names {', '.join(sorted(unknown))}; the states are {', '.join(states)}.")
    return np.array([float(guess.get(name, 0.0)) for name in states])
