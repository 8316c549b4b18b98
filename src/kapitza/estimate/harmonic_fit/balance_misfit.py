"""Misfit of harmonic rows, with noise and closure errors.

A stretch of a record that nearly closes is not an orbit. Rates by a digital rule on the raw samples are not affected;
those of a Fourier series are. The effect on a row is found by closing the stretch: the gap between its ends is
spread over it, and the row is formed again. The change counts as one more error of that row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from kapitza.base.arrays import Flags, Numbers
from kapitza.estimate.misfit import ALARM, Misfit, chance_of_level

TOLERANCE = 1.25
"""Largest mean square of whitened rows that filters, sums in place of integrals and second-order noise explain."""

NUMERICAL = 1e-3
"""Numerical error, as a share of the terms of an equation, of low-pass filters and difference rules."""


@dataclass(frozen=True)
class JudgedRows:
    """Rows of one orbit with their errors.

    residual (equations, r); used: which of them the fit used.
    response (equations x r, sources): to noise of unit size; opened (equations, r): change of the residuals when the
    orbit is closed, zero where closure does not matter; terms (equations, r): largest term of each row; order (r,):
    sub-harmonic of the rows; repeats: excitation periods of the orbit.
    """

    residual: Numbers
    used: Flags
    response: Numbers
    opened: Numbers
    terms: Numbers
    order: NDArray[np.integer]
    repeats: int

    @property
    def covariance(self) -> Numbers:
        """Return the covariance of errors of a right model.

        It is (equations x r, equations x r).
        """
        opened, size = self.opened.ravel(), self.terms.ravel()
        floor = NUMERICAL * np.maximum(size, np.sqrt(np.mean(size**2)))
        return self.response @ self.response.T + np.diag(floor**2 + 2.0 * opened**2)


def misfit_of(orbits: list[JudgedRows], fitted: int, source: str, freedom: float) -> Misfit | None:
    """Return the misfit of the rows of all orbits.

    fitted is the number of fitted values; source and freedom describe how the size of the noise is known.
    """
    square, count, left, whole, own = 0.0, 0, 0.0, 0.0, []
    for rows in orbits:
        covariance, used = rows.covariance, np.flatnonzero(rows.used.ravel())
        own.append(rows.residual / np.sqrt(np.diag(covariance)).reshape(rows.residual.shape))
        if not used.size:
            continue
        factor = cholesky(covariance[np.ix_(used, used)], lower=True)
        white = solve_triangular(factor, rows.residual.ravel()[used], lower=True)
        square, count = square + float(white @ white), count + used.size
        left += float((rows.residual.ravel()[used] ** 2).sum())
        whole += float((rows.terms.ravel()[used] ** 2).sum())
    dof = count - fitted
    if dof < 1:
        return None
    level = square / dof
    # Numerical errors may raise the level by TOLERANCE before it counts as a misfit.
    chance = chance_of_level(level / TOLERANCE, dof, freedom)
    beyond = max(level - 1.0, 0.0)
    share = float(np.sqrt(left / max(whole, np.finfo(float).tiny) * beyond / max(level, np.finfo(float).tiny)))
    where = _place(own, orbits) if chance < ALARM else ""
    return Misfit(float(np.sqrt(beyond)), share, chance, "the equations", where, source)


def _place(own: list[Numbers], orbits: list[JudgedRows]) -> str:
    """Return the equation and harmonic with the largest residuals."""
    squares = np.array([(o**2).mean(axis=1) for o in own]).mean(axis=0)
    worst = int(np.argmax(squares))
    power: dict[float, list[float]] = {}
    for values, rows in zip(own, orbits, strict=True):
        for value, number in zip(values[worst], rows.order, strict=True):
            power.setdefault(round(float(number) / max(rows.repeats, 1), 6), []).append(float(value) ** 2)
    loudest = max(power, key=lambda harmonic: np.mean(power[harmonic]))
    label = f"equation {worst + 1}" if len(squares) > 1 else "the rows"
    return f"{label} at {loudest:.3g} times the frequency of the drive"
