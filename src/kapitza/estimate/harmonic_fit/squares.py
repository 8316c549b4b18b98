"""Parameters that enter in even powers only.

An example is a frequency squared. Rows determine q = p², not p: the fit is made in q, where zero is a value like any
other and a solution below it is visible. The error of p = √q is σ_q/2p far from zero only. Nearer, q̂ ± z σ_q is
transformed end by end, and the error of p is the farther end over z, for the z ≤ 2 at which that is largest: intervals
p̂ ± z σ_p of up to 95 % then hold those of q.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy as sp

from kapitza.base.arrays import Flags, Numbers
from kapitza.estimate.harmonic_fit.second_order import Tested
from kapitza.estimate.harmonic_fit.solvers import RowSolution
from kapitza.estimate.request import Request
from kapitza.model import symbol

UNCLEAR = 2.0
"""Standard errors from zero within which a square is not distinct from zero, and beyond which a negative one is
reported."""


@dataclass(frozen=True)
class Squares:
    """Free parameters (k,) that are fitted as squares.

    even: which ones; sign (k,): of the root that is meant.
    factors: what multiplies the regressors, with q in the place of p².
    """

    names: tuple[str, ...]
    even: Flags
    sign: Numbers
    factors: tuple[Any, ...]

    def inside(self, theta: Numbers) -> Numbers:
        """Return the fitted values from the parameters."""
        return np.where(self.even, theta**2, theta)

    def outside(self, theta: Numbers) -> Numbers:
        """Return the parameters from the fitted values.

        The root of a negative square is 0.
        """
        return np.where(self.even, self.sign * np.sqrt(np.clip(theta, 0.0, None)), theta)

    def bounds(self, low: Numbers, high: Numbers) -> tuple[Numbers, Numbers]:
        """Return the bounds of the fitted values.

        Squares are bounded on the side of the root that is meant.
        """
        near, far = np.where(self.sign > 0, low, -high), np.where(self.sign > 0, high, -low)
        return np.where(self.even, np.clip(near, 0.0, None) ** 2, low), np.where(self.even, far**2, high)

    def errors(self, q: Numbers, deviation: Numbers) -> Numbers:
        """Return the standard errors of the roots (k,).

        They follow from squares q (k,) >= 0 and their standard errors.
        """
        root = np.sqrt(np.clip(q, 0.0, None))
        # The lower end is farthest, in units of z, where it reaches zero: at z = q/σ, within 1 to 2.
        widest = np.clip(q / deviation, 1.0, 2.0)
        below = (root - np.sqrt(np.clip(q - widest * deviation, 0.0, None))) / widest
        return np.maximum(below, np.sqrt(np.clip(q, 0.0, None) + deviation) - root)

    def rooted(self, solution: RowSolution, tested: Tested) -> tuple[RowSolution, Tested, tuple[str, ...]]:
        """Return the solution in the parameters themselves.

        Warnings on squares near or below zero are returned as well.
        """
        if not self.even.any():
            return solution, tested, ()
        found, spread = solution.theta, solution.covariance
        deviation = np.sqrt(np.diag(spread))
        notes = tuple(filter(None, map(self._note, range(len(found)), found.tolist(), deviation.tolist())))
        held = np.flatnonzero(self.even & (found < 0))
        step = np.zeros(len(found))
        if held.size:
            # Where squares are held at zero, correlated parameters move with them.
            step = spread[:, held] @ np.linalg.solve(spread[np.ix_(held, held)], -found[held])
            step[held] = -found[held]
        q = np.where(self.even, np.clip(found + step, 0.0, None), found + step)
        slope = np.where(self.even, self.sign * deviation / self.errors(np.where(self.even, q, 1.0), deviation), 1.0)
        residual = solution.residual + solution.matrix @ step
        product = np.outer(slope, slope)
        rooted = replace(
            solution, theta=self.outside(q), covariance=spread / product, residual=residual,
            chi2=float(solution.weights @ residual**2), information=solution.information * product,
            matrix=solution.matrix * slope, left=solution.left * slope,
        )  # fmt: skip
        pulls = tested.pulls
        if pulls is not None:
            pulls = replace(
                pulls, parameters=pulls.parameters * slope, columns=pulls.columns * slope,
                by_group=pulls.by_group * slope, information=pulls.information * product,
            )  # fmt: skip
        return rooted, replace(tested, pulls=pulls), notes

    def _note(self, place: int, q: float, deviation: float) -> str:
        name = self.names[place]
        if not self.even[place] or q > UNCLEAR * deviation:
            return ""
        if q < -UNCLEAR * deviation:
            return (
                f"The data give {name}**2 = {q:.3g} ± {deviation:.2g}, a negative square: {name} is set to 0. The "
                "sign of its term is wrong, or another term is missing."
            )
        return (
            f"{name} enters in even powers only, and {name}**2 = {q:.3g} ± {deviation:.2g} is not distinct from zero: "
            f"the interval of {name} is wide and holds 0."
        )


def squares_of(factors: tuple[Any, ...], request: Request) -> Squares:
    """Return the parameters in even powers only.

    This must hold in all of the factors.
    """
    _, high = request.bounds
    even, left = [], factors
    for name in request.names:
        p = symbol(name)
        inner = sp.Dummy(real=True)

        def halved(power: sp.Pow, inner: sp.Dummy = inner) -> sp.Expr:
            return inner ** (power.exp / 2)

        def is_even(e: sp.Basic, p: sp.Symbol = p) -> bool:
            return isinstance(e, sp.Pow) and e.base == p and bool(e.exp.is_even)

        # p is even if no odd power of it is left after all even ones are replaced.
        trial = tuple(f.replace(is_even, halved) for f in left)
        found = any(p in f.free_symbols for f in left) and not any(p in f.free_symbols for f in trial)
        even.append(found)
        left = tuple(f.xreplace({inner: p}) for f in trial) if found else left
    start = request.start
    sign = np.where(np.isfinite(start) & (start != 0), np.sign(start), np.where(high <= 0, -1.0, 1.0))
    return Squares(tuple(request.names), np.array(even, bool), sign, left)
