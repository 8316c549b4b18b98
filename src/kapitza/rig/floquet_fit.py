"""Periodic linear model of a multisine record.

The model is in weak form; the module computes its rows, its coefficients and its multipliers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.rig.branch import RigPoint
from kapitza.rig.experiment import Experiment
from kapitza.rig.fourier import columns
from kapitza.solve import eigenvalues

Array = NDArray[Any]

SIGNIFICANT = 3.0
"""Standard errors by which further modes of the coefficients must lower the residuals."""


@dataclass(frozen=True)
class Rows:
    """Weak-form rows: windowed signals (N, terms) by name."""

    x: dict[str, Array]

    @property
    def count(self) -> int:
        return len(self.x["x"])

    def chosen(self, index: Array) -> Rows:
        return Rows({name: values[index] for name, values in self.x.items()})


Turns = tuple[Rows, ...]
"""The rows of the first and of the second turn of the multisine."""


def bump(half: int, step: float) -> tuple[Array, Array, Array]:
    """Return the bump window and its derivatives.

    It is (1 - x²)⁴ on 2 half + 1 samples, with its first two derivatives in time.
    """
    x = np.arange(-half, half + 1) / half
    width = half * step
    bump = (1 - x**2) ** 4
    first = -8 * x * (1 - x**2) ** 3 / width
    second = (-8 * (1 - x**2) ** 3 + 48 * x**2 * (1 - x**2) ** 2) / width**2
    return bump, first, second


def weak_rows(
    experiment: Experiment, signals: dict[str, Array], phases: Array, window: tuple[Array, Array, Array], modes: int
) -> Rows:
    """Integrate every term against the bump.

    The terms are those of the periodic linear model, in blocks (N, terms) by name.
    With w the window and c(t) a periodic coefficient, ∫ w c δx' = -∫ (w c)' δx and ∫ w c δy'' = ∫ (w c)'' δy, so
    that no measured signal is differentiated.
    """
    w, w1, w2 = window
    frequency = experiment.base_frequency(experiment.values)
    count = 2 * modes + 1
    total = phases.shape[0]
    shape = columns(phases.ravel(), modes).reshape(total, phases.shape[1], count)
    order = np.concatenate([[0], np.repeat(np.arange(1, modes + 1), 2)]) * frequency
    # Derivatives of 1, cos kφ, sin kφ in time.
    turned = np.zeros_like(shape)
    turned[:, :, 1::2], turned[:, :, 2::2] = -shape[:, :, 2::2] * order[1::2], shape[:, :, 1::2] * order[2::2]
    curved = -shape * order**2

    def against(weight: Array, signal: Array, shapes: Array) -> Array:
        return np.matmul((signal * weight)[:, None, :], shapes)[:, 0, :]

    x, control = signals[experiment.tracked[0].feedback], signals["control"]
    blocks = {
        "x": against(w, x, shape),
        "x'": -(against(w1, x, shape) + against(w, x, turned)),
        "x''": (x @ w2)[:, None],
        "u": against(w, control, shape),
        "u'": -(against(w1, control, shape) + against(w, control, turned)),
    }
    if experiment.part is not None:
        y, force = signals[experiment.part.coordinate], signals[experiment.force]
        blocks["y''"] = against(w2, y, shape) + 2 * against(w1, y, turned) + against(w, y, curved)
        blocks["F"] = (force @ w)[:, None]
    return Rows(blocks)


def _exponentials(matrices: Array) -> Array:
    """Return exp of many small matrices.

    Matrices (N, n, n) have a small norm; the series of exp is summed.
    """
    result = term = np.broadcast_to(np.eye(matrices.shape[1]), matrices.shape).copy()
    # Twenty terms reach rounding for norms below one.
    for k in range(1, 21):
        term = term @ matrices / k
        result = result + term
    return result


class Fit:
    """Coefficients and monodromy of the linear equations.

    Coefficients by instruments; the equations are coupled.
    """

    def __init__(self, experiment: Experiment, point: RigPoint, modes: int, turns: Turns):
        self.experiment, self.point, self.modes, self.turns = experiment, point, modes, turns
        self.count = 2 * modes + 1
        self.names = ["x", "x'", "u"] if experiment.part is None else ["x", "x'", "y''", "u"]
        self.motion = self._solved(self.names, "x''")
        self.force = None if experiment.part is None else self._solved(self.names, "F")

    def _solved(self, names: Sequence[str], target: str, mean: str = "") -> Array:
        """Solve for the coefficients by instruments.

        The terms `names` give the target; mean: one more term, with a constant coefficient.
        """
        sides = []
        for turn in self.turns:
            terms = [turn.x[n][:, : self.count] for n in names] + ([turn.x[mean][:, :1]] if mean else [])
            sides.append((np.concatenate(terms, axis=1), turn.x[target][:, 0]))
        (first, y1), (second, y2) = sides
        # Columns of x, x' and u differ by orders of magnitude.
        size = np.sqrt(np.mean(first**2, axis=0) + np.mean(second**2, axis=0))
        first, second = first / size, second / size
        return np.linalg.solve(second.T @ first + first.T @ second, second.T @ y1 + first.T @ y2) / size

    def shared_residuals(self, parts: Sequence[Array]) -> Array:
        """Return products of residuals of both turns.

        They are sums (equations, parts) of the product of the residuals in the first and second turn.
        """
        found = []
        for target, solution in (("x''", self.motion), ("F", self.force)):
            if solution is None:
                continue
            left = [
                turn.x[target][:, 0]
                - np.concatenate([turn.x[n][:, : self.count] for n in self.names], axis=1) @ solution
                for turn in self.turns
            ]
            product = left[0] * left[1]
            found.append([float(product[part].sum()) for part in parts])
        return np.array(found)

    def noise(self) -> float:
        """Return the noise share of x.

        Share of the square of x, windowed, that the two turns do not share.
        """
        first, second = (turn.x["x''"][:, 0] for turn in self.turns)
        return float(max(0.0, 1 - 2 * (first @ second) / (first @ first + second @ second)))

    def _split(self, solution: Array, phases: Array) -> dict[str, Array]:
        shape = columns(phases, self.modes)
        return {name: shape @ solution[k * self.count : (k + 1) * self.count] for k, name in enumerate(self.names)}

    def inertia(self) -> float:
        return float(self.motion[self.names.index("u") * self.count])

    def timing(self) -> float:
        """Return the time error of the control.

        Mean coefficient of u' beside u: the time by which the recorded control is off.
        """
        return float(-self._solved(self.names, "x''", "u'")[-1] / (self.inertia() or 1.0))

    def multipliers(self) -> NDArray[np.complex128]:
        """Return the multipliers of the fitted equations.

        They are the eigenvalues of the product of exponentials over one period (fourth order in the step).
        """
        frequency = self.point.measurement.frequency
        period, steps = 2 * np.pi / frequency, 400
        # Gauss points of the fourth-order Magnus method.
        nodes = np.array([0.5 - math.sqrt(3) / 6, 0.5 + math.sqrt(3) / 6])
        h = period / steps
        times = (np.arange(steps)[:, None] + nodes[None, :]).ravel() * h
        generators = self._generators(frequency * times).reshape(steps, 2, *self._size())
        first, second = generators[:, 0], generators[:, 1]
        exponents = 0.5 * h * (first + second) + math.sqrt(3) / 12 * h**2 * (second @ first - first @ second)
        total = np.eye(self._size()[0])
        with np.errstate(over="ignore", invalid="ignore"):
            for factor in _exponentials(exponents):
                total = factor @ total
        if not np.isfinite(total).all():
            return np.full(self._size()[0], np.inf, complex)  # coefficients from noise: nothing is known
        return eigenvalues(total)

    def _size(self) -> tuple[int, int]:
        return (2, 2) if self.experiment.part is None else (4, 4)

    def _generators(self, phases: Array) -> Array:
        """Return generators (N, n, n) of the state.

        The state is (x, x') or (y, x, y', x').
        """
        motion = self._split(self.motion, phases)
        result = np.zeros((phases.size, *self._size()))
        if self.experiment.part is None:
            result[:, 0, 1] = 1.0
            result[:, 1, 0], result[:, 1, 1] = motion["x"], motion["x'"]
            return result
        assert self.force is not None
        force = self._split(self.force, phases)
        stiffness = self.experiment.part.stiffness(1.0, 1, self.experiment.values)
        k, c = stiffness[0, 0], stiffness[1, 2]
        m = k - stiffness[1, 1]
        # M y'' + C y' + K y = f0 x + f1 x' + f2 y'': the force holds the acceleration.
        mass = m - force["y''"]
        row = np.stack([-k / mass, force["x"] / mass, -c / mass, force["x'"] / mass], axis=1)
        result[:, 0, 2] = result[:, 1, 3] = 1.0
        result[:, 2] = row
        result[:, 3] = motion["y''"][:, None] * row
        result[:, 3, 1] += motion["x"]
        result[:, 3, 3] += motion["x'"]
        return result


@dataclass(frozen=True)
class Trial:
    """Fit with one number of modes.

    The fit, those that leave out a part of the record each, the deviations.
    left: (equations, parts) residuals of the equations in both turns.
    """

    fit: Fit
    others: list[Fit]
    deviation: Array
    left: Array

    @classmethod
    def of(cls, experiment: Experiment, point: RigPoint, modes: int, turns: Turns, count: int) -> Trial:
        rows = np.arange(turns[0].count)
        parts = np.array_split(rows, count)
        fit = Fit(experiment, point, modes, turns)
        kept = [np.setdiff1d(rows, part) for part in parts]
        others = [Fit(experiment, point, modes, tuple(turn.chosen(index) for turn in turns)) for index in kept]
        deviation = jackknife(np.array([np.abs(other.multipliers()) for other in others]))
        return cls(fit, others, deviation, fit.shared_residuals(parts))

    def better_than(self, fewer: Trial) -> bool:
        """Return whether further modes improve the fit.

        They lower the residuals by SIGNIFICANT standard errors, without letting in so much noise that the multipliers
        are known worse. Σ e₁ e₂ over both turns has the mean zero but for what the equations lack.
        """
        change = fewer.left - self.left
        error = np.std(change, axis=1, ddof=1) * math.sqrt(change.shape[1])
        return bool(np.any(change.sum(axis=1) > SIGNIFICANT * error) and self.deviation[0] <= 1.5 * fewer.deviation[0])


def jackknife(values: Array) -> Array:
    """Return jackknife standard deviations.

    Each of the estimates (parts, n) leaves out one part; the result is infinite where one of them is.
    """
    if not np.isfinite(values).all():
        return np.full(values.shape[1], np.inf)
    return np.sqrt((len(values) - 1) * np.mean((values - values.mean(axis=0)) ** 2, axis=0))
