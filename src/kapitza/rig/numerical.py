"""Simulated part of a hybrid test.

Its force balance is evaluated at a measured motion and never integrated in time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kapitza.errors import RigError
from kapitza.model import Model, compile_expressions, derived_in_base, rate, symbol, time
from kapitza.rig.fourier import FourierSeries, columns

Array = NDArray[Any]


@dataclass(frozen=True)
class Balance:
    """Force balance with deviations.

    Both are (2 Q + 1,): Fourier coefficients and their standard deviations.
    """

    coefficients: Array
    deviations: Array


class NumericalPart:
    """Model of one coordinate y with a force.

    A parameter of the model is the force that the experiment exerts on it.

        g(y, y', y'', t, F; θ) = 0, such as M y'' + C y' + K y - a cos Ωt - F

    Its residual at the measured y_a(t), F(t) is what the hybrid test has to bring to zero. Solving for y and comparing
    with y_a would multiply noise near resonances of the part (18-fold on the fifth mode of HYBRID).
    """

    def __init__(self, model: Model, force: str):
        if len(model.coordinates) != 1 or model.coordinates[0].order != 2:
            raise RigError(f'The numerical part "{model.name}" must have one coordinate of second order.')
        if force not in model.names:
            raise RigError(
                f'The numerical part "{model.name}" has no parameter "{force}" for the measured force; '
                f"it has: {', '.join(model.names)}."
            )
        if model.structure.switches or model.impacts:
            raise RigError(f'The numerical part "{model.name}" has switches or impacts; give a smooth one.')
        self.model, self.force = model, force
        self.coordinate = model.coordinates[0].name
        self.names = tuple(n for n in model.names if n != force)
        residual = model.equations[0].xreplace(derived_in_base(model))
        model.needs_repetition("force that repeats for a rig")
        period = None if model.excitation is None else model.excitation.period
        law = None if period is None else period.xreplace(derived_in_base(model))
        self._timing = () if law is None else tuple(s.name for s in law.free_symbols)
        self._known: tuple[tuple[float, ...], float | None] | None = None
        moving = [symbol(self.coordinate), rate(self.coordinate), rate(self.coordinate, 2), symbol(force)]
        slopes = [sp.diff(residual, s) for s in moving]
        self._evaluate = compile_expressions([residual, *slopes], [*moving, time], self.names)

    @property
    def values(self) -> dict[str, float]:
        return {n: self.model.values[n] for n in self.names}

    def frequency(self, values: Mapping[str, float]) -> float | None:
        """Return the excitation frequency in rad/s."""
        if self.model.excitation is None:
            return None
        here = tuple(values[n] for n in self._timing)
        if self._known is None or self._known[0] != here:
            period = self.model.with_values(**{n: values[n] for n in self.names}).period
            self._known = here, None if period is None else 2 * np.pi / period
        return self._known[1]

    def balance(
        self, motion: FourierSeries, force: FourierSeries, spread: tuple[Array, Array], values: Mapping[str, float]
    ) -> Balance:
        """Return the force balance of a measurement.

        The balance is the residual at a measured motion and force; spread holds their standard deviations (2 Q + 1,).
        """
        modes = motion.modes
        # Products of the motion have more modes than the motion: eight points per mode keep aliasing small.
        grid = 8 * max(modes, 4)
        phases = 2 * np.pi / grid * np.arange(grid)
        times = phases / motion.frequency
        inputs = np.array([motion(times), motion(times, 1), motion(times, 2), force(times), times])
        vector = np.array([values[n] for n in self.names])
        residual, *slopes = self._evaluate(np.ascontiguousarray(inputs), vector)
        shapes = columns(phases, modes)
        # Sampled evenly over the period, the columns are orthogonal.
        weights = np.full(2 * modes + 1, 2.0 / grid)
        weights[0] = 1.0 / grid
        project = weights[:, None] * shapes.T
        by_motion = np.zeros((2 * modes + 1, 2 * modes + 1))
        shape = shapes
        for order in range(3):
            by_motion += project @ (slopes[order][:, None] * shape)
            shape = _differentiated(shapes, motion.frequency, order + 1)
        by_force = project @ (slopes[3][:, None] * shapes)
        variance = by_motion**2 @ spread[0] ** 2 + by_force**2 @ spread[1] ** 2
        return Balance(project @ residual, np.sqrt(variance))

    def stiffness(self, frequency: float, modes: int, values: Mapping[str, float]) -> Array:
        """Return the dynamic stiffness of the part.

        It is the derivative (2 q + 1, 2 q + 1) of the balance by the motion, at rest and without the experiment.
        """
        vector = np.array([values[n] for n in self.names])
        _, k, c, m, _ = self._evaluate(np.zeros((5, 1)), vector)[:, 0]
        result = np.zeros((2 * modes + 1, 2 * modes + 1))
        result[0, 0] = k
        for j in range(1, modes + 1):
            omega = j * frequency
            result[2 * j - 1 : 2 * j + 1, 2 * j - 1 : 2 * j + 1] = [
                [k - m * omega**2, c * omega],
                [-c * omega, k - m * omega**2],
            ]
        return result


def _differentiated(shapes: Array, frequency: float, order: int) -> Array:
    """Return columns of a series' time derivative.

    They are derivatives with respect to its coefficients.
    """
    modes = shapes.shape[1] // 2
    turned = (shapes[:, 1::2] + 1j * shapes[:, 2::2]) * (1j * frequency * np.arange(1, modes + 1)) ** order
    result = np.zeros_like(shapes)
    result[:, 1::2], result[:, 2::2] = turned.real, turned.imag
    return result
