"""Stability of hybrid tests with direct coupling.

The module computes roots, essential radius, compensation, effect of the actuator, and critical delay.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from kapitza.base import checks
from kapitza.base.argument_checks import Anything
from kapitza.base.arrays import Complex
from kapitza.base.cures import Give
from kapitza.errors import RigError
from kapitza.rig.characteristic import Characteristic, rightmost
from kapitza.rig.parts import SecondOrder

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[Any]

SCAN = np.geomspace(2e-4, 1.0, 60)
"""Delays in s at which stability is tested when no closed form gives the critical one."""

MULTIPLES = 40
"""Largest delay at which the critical one is searched, in spacings of a compensation."""


MOST_ORDER = 30
"""Extrapolation of a higher degree multiplies rounding errors beyond use."""


@dataclass(frozen=True)
class Compensation:
    """Polynomial extrapolation of the demand over the delay.

    The extrapolated demand is ỹ(t) = Σ_j c_j y(t - jΔ) with Σ c_j = 1 (HYBRID 19-20).
    order: degree of the polynomial; points: how many past values (default order + 1, an interpolation; more are fitted
    by least squares); spacing: Δ in s (default: the delay itself).
    """

    order: int
    points: int | None = None
    spacing: float | None = None

    def __post_init__(self):
        checks.whole("order", self.order, least=0, most=MOST_ORDER, error=RigError)
        if self.spacing is not None:
            checks.number("spacing", self.spacing, above=0, error=RigError)
        count = self.order + 1 if self.points is None else checks.whole("points", self.points, error=RigError)
        if count < self.order + 1:
            raise RigError(
                f"A polynomial of degree {self.order} through {count} points; give at least {self.order + 1}."
            )

    def weights(self, delay: float) -> tuple[Array, float]:
        """Return weights c (points,) and the spacing [s]."""
        count = self.order + 1 if self.points is None else self.points
        spacing = delay if self.spacing is None else self.spacing
        ages = np.arange(count) * spacing / delay
        # Ages in units of the delay: the prediction is one unit ahead.
        powers = np.vander(-ages, self.order + 1, increasing=True)
        target = np.ones(self.order + 1)  # the polynomial one delay ahead
        return np.linalg.pinv(powers).T @ target, spacing


@dataclass(frozen=True)
class DelayStability:
    """Effect of a delay on a hybrid test.

    The test is directly coupled and linearised at the hanging state.
    roots: rightmost characteristic roots of the upper half plane in 1/s, verified by the argument principle.
    rate: largest real part, 1/s. essential_rate: growth rate of arbitrarily high frequencies, 1/s (-inf when an
    actuator filters them). robust_factor: (m/M) Σ|c_j|, above 1 the essential instability cannot be tuned away (Hale);
    robust_rate: the rate that belongs to it. critical_delay: smallest delay in s that makes the test unstable, 0 when
    every delay does, inf when none up to one second does. verdict: one sentence.
    """

    mass: float
    damping: float
    stiffness: float
    moving_mass: float
    delay: float
    compensation: Compensation
    actuator: SecondOrder | None
    roots: Complex
    rate: float
    essential_rate: float
    robust_factor: float
    robust_rate: float

    @cached_property
    def critical_delay(self) -> float:
        return _critical(self)

    @cached_property
    def verdict(self) -> str:
        return _verdict(self)

    @property
    def stable(self) -> bool:
        return self.rate < 0 and self.essential_rate < 0

    def table(self) -> pd.DataFrame:
        """Return one row of results, in SI units."""
        import pandas as pd

        row: dict[str, Any] = {
            "moving mass [kg]": self.moving_mass,
            "mass ratio m/M": self.moving_mass / self.mass,
            "delay [ms]": 1e3 * self.delay,
            "compensation": _described(self.compensation),
            "actuator [rad/s]": self.actuator.frequency if self.actuator else math.inf,
            "leading root [1/s]": complex(self.roots[0]) if self.roots.size else complex("nan"),
            "rate [1/s]": self.rate,
            "essential rate [1/s]": self.essential_rate,
            "robust factor": self.robust_factor,
            "critical delay [ms]": 1e3 * self.critical_delay,
            "stable": self.stable,
        }
        return pd.DataFrame([row])

    def plot(self, **settings: Anything) -> Any:
        """Plot roots and the rate over the delay.

        The roots are drawn in the complex plane.
        """
        from kapitza.report import plot_delay_stability

        return plot_delay_stability(self, **settings)

    def at_delay(self, delay: float) -> DelayStability:
        """Return the same test with another delay."""
        return _analyse(replace(self, delay=float(delay)))

    def __str__(self) -> str:
        return self.verdict


def delay_stability(
    mass: float,
    damping: float,
    stiffness: float,
    moving_mass: float,
    delay: float,
    compensation: Compensation | int = 0,
    actuator: SecondOrder | None = None,
) -> DelayStability:
    """Analyse the stability of a hybrid test.

    M y'' + C y' + K y = F, F = -m y_a'', y_a(t) = y(t - τ), before it is run.

        M λ² + C λ + K + m λ² A(λ) Σ_j c_j e^{-λ (τ + jΔ)} = 0

    with A = 1, or for the actuator (18) A = ω_s² / ((1 + m/m_a) λ² + 2 ω_s λ + ω_s²).

    Parameters
    ----------
    mass, damping, stiffness : float
        M in kg, C in kg/s, K in N/m of the simulated part.
    moving_mass : float
        m in kg: what the real part adds at high frequency (a hanging pendulum: its mass; at an angle θ: m cos²θ).
    delay : float
        τ in s.
    compensation : Compensation or int
        Of the delay by extrapolation; a number is the order with points spaced by the delay.
    actuator : SecondOrder
        Its own dynamics; None for a pure delay.

    Examples
    --------
    >>> delay_stability(0.2, 0.1, 200.0, 0.27, 0.010).stable
    False
    """
    for name, value in (("mass", mass), ("stiffness", stiffness), ("moving_mass", moving_mass), ("delay", delay)):
        checks.number(name, value, above=0, error=RigError)
    checks.number("damping", damping, low=0, error=RigError)
    if not isinstance(compensation, Compensation):
        compensation = Compensation(checks.whole("compensation (its order)", compensation, least=0, error=RigError))
    _check_actuator(actuator, delay)
    empty = DelayStability(
        float(mass), float(damping), float(stiffness), float(moving_mass), float(delay), compensation, actuator,
        np.empty(0, complex), math.nan, math.nan, math.nan, math.nan,
    )  # fmt: skip
    return _analyse(empty)


def _check_actuator(actuator: SecondOrder | None, delay: float) -> None:
    if actuator is not None and not isinstance(actuator, SecondOrder):
        raise RigError(f"actuator = {actuator!r}; give a SecondOrder, or None for a pure delay ({Give(delay=...)}).")
    if actuator is not None and actuator.delay not in (0.0, delay):
        raise RigError(
            f"The actuator is {1000.0 * actuator.delay:g} ms late, the test has delay = {1000.0 * delay:g} ms: give "
            f"the whole delay once, as {Give(delay=...)}"
        )


def essential_radius(
    ratio: Callable[[Array], Array], delay: float, start: float, cycles: int, points: int = 2000
) -> float:
    """Return the growth of the highest frequencies.

    Over `cycles` delays along a motion it is max_s Π_k |ratio(t + s + kτ)|, 0 ≤ s < τ.
    ratio: m/M cos²θ as a function of time for the pendulum; above 1 on the whole stretch it is a growth.
    """
    instants = start + np.linspace(0.0, delay, points, endpoint=False)[:, None] + delay * np.arange(cycles)[None, :]
    return float(np.prod(np.abs(ratio(instants)), axis=1).max())


def _analyse(test: DelayStability) -> DelayStability:
    weights, spacing = test.compensation.weights(test.delay)
    ages = test.delay + spacing * np.arange(weights.size)
    mu = test.moving_mass / test.mass
    factor = float(mu * np.abs(weights).sum())
    filtered = test.actuator is not None
    robust = -math.inf if filtered else _robust_rate(mu * np.abs(weights), ages)
    essential, multipliers = (
        (-math.inf, np.empty(0, complex)) if filtered else _essential(mu, weights, test.delay, spacing)
    )
    function = _characteristic(test, weights, ages)
    reference = max(robust, essential, 0.0)
    # Bounds the roots of the part without delay: the rectangle must reach beyond all roots.
    fastest = math.sqrt(2 * test.stiffness / test.mass) + 2 * abs(test.damping) / test.mass
    right = reference + fastest + math.log(2.0) / test.delay + 5.0
    left = -10.0 if essential < -20.0 else min(essential, 0.0) - 5.0
    top = 8 * math.pi / test.delay
    if test.actuator is not None:
        top = max(6 * math.pi / test.delay, 4 * test.actuator.frequency)
    top += 0.37 * math.pi / test.delay  # not through a root of a chain
    chains = np.empty(0, complex)
    if multipliers.size:
        turns = np.arange(0, math.ceil(top * spacing / (2 * np.pi)) + 2)
        logarithms = np.log(multipliers)[:, None] + 2j * np.pi * turns[None, :]
        chains = np.asarray(logarithms.ravel() / spacing, np.complex128)
    slow = 2 * math.sqrt(test.stiffness / test.mass)
    roots = rightmost(function, chains, left, right, top, max(slow, 0.3 * top) if filtered else slow)
    rate = float(roots[0].real) if roots.size else max(essential, left)
    return replace(test, roots=roots, rate=rate, essential_rate=essential, robust_factor=factor, robust_rate=robust)


def _characteristic(test: DelayStability, weights: Array, ages: Array) -> Characteristic:
    own = np.array([test.mass, test.damping, test.stiffness])
    low, gain = np.array([1.0]), test.moving_mass
    if test.actuator is not None:
        omega = test.actuator.frequency
        low = np.array([1.0 + test.moving_mass / test.actuator.mass, 2 * omega, omega**2])
        gain *= omega**2
    free, driven = np.polymul(own, low), gain * np.array([1.0, 0.0, 0.0])

    def delayed(s: Complex, order: int) -> Complex:
        return np.exp(-np.multiply.outer(s, ages)) @ (weights * (-ages) ** order)

    def value(s: Complex) -> Complex:
        return np.polyval(free, s) + np.polyval(driven, s) * delayed(s, 0)

    def slope(s: Complex) -> Complex:
        own_part = np.polyval(np.polyder(free), s) + np.polyval(np.polyder(driven), s) * delayed(s, 0)
        return own_part + np.polyval(driven, s) * delayed(s, 1)

    return Characteristic(value, slope)


def _essential(mu: float, weights: Array, delay: float, spacing: float) -> tuple[float, Complex]:
    """Return rate and multipliers of the essential part.

    The rate is that of the difference equation z(t) = -μ Σ c_j z(t - τ - jΔ) on the common grid; the multipliers are
    per Δ.
    """
    steps = delay / spacing
    # Delays without a common grid have no characteristic polynomial: the robust rate is their supremum.
    if abs(steps - round(steps)) > 1e-6 * steps:
        return _robust_rate(mu * np.abs(weights), delay + spacing * np.arange(weights.size)), np.empty(0, complex)
    polynomial = np.zeros(round(steps) + weights.size)
    polynomial[0] = 1.0
    polynomial[round(steps) :] += mu * weights
    multipliers = np.roots(np.trim_zeros(polynomial, "b")).astype(complex)
    return float(np.log(np.abs(multipliers).max()) / spacing), multipliers[np.abs(multipliers) > 0]


def _robust_rate(weights: Array, ages: Array) -> float:
    """Return the robust essential rate.

    ρ with Σ w_j e^{-ρ age_j} = 1: the rate for delays that differ a little from any common grid.
    """

    def excess(rho: float) -> float:
        return float(np.log(np.sum(weights * np.exp(-rho * ages))))

    width = 1.0 / ages[0]
    while excess(width) > 0:
        width *= 2
    low = -1.0 / ages[0]
    while excess(low) < 0:
        low *= 2
    root, _ = brentq(excess, low, width, full_output=True)
    return float(root)


def _critical(test: DelayStability) -> float:
    """Return the smallest unstable delay.

    A root reaches the imaginary axis there; every delay counts when m ≥ M without actuator.
    """
    if test.actuator is None and test.robust_factor >= 1.0 and test.compensation.spacing is None:
        return 0.0
    if test.actuator is None and test.compensation.order == 0 and test.compensation.points in (None, 1):
        return _first_crossing(test)
    spacing = test.compensation.spacing
    if spacing is not None:
        # Between the points of the grid the delays have no common measure, and the verdict is the robust one.
        delays = spacing * np.arange(1, MULTIPLES + 1)
        return next((float(d) for d in delays if not _stable_at(test, float(d))), math.inf)
    stable_before = 0.0
    for delay in SCAN:
        if not _stable_at(test, float(delay)):
            return _bisected(test, stable_before, float(delay)) if stable_before else 0.0
        stable_before = float(delay)
    return math.inf


def _stable_at(test: DelayStability, delay: float) -> bool:
    if test.actuator is None:
        weights, spacing = test.compensation.weights(delay)
        if _essential(test.moving_mass / test.mass, weights, delay, spacing)[0] >= 0:
            return False
    return test.at_delay(delay).stable


def _bisected(test: DelayStability, stable: float, unstable: float) -> float:
    while unstable - stable > 1e-4 * unstable:
        middle = 0.5 * (stable + unstable)
        if _stable_at(test, middle):
            stable = middle
        else:
            unstable = middle
    return unstable


def _first_crossing(test: DelayStability) -> float:
    """Return the critical delay in closed form.

    |K - Mω² + iCω| = mω² gives ω; the delay is the phase over ω.
    """
    M, C, K, m = test.mass, test.damping, test.stiffness, test.moving_mass
    squares = np.roots([M**2 - m**2, C**2 - 2 * K * M, K**2])
    found = []
    for square in squares:
        if abs(square.imag) < 1e-9 * abs(square) and square.real > 0:
            omega = math.sqrt(square.real)
            phase = np.angle(K - M * omega**2 + 1j * C * omega)
            found.append(float(np.mod(-phase, 2 * np.pi)) / omega)
    # Without damping the test is on the border at no delay, and a short one damps it.
    return min((d for d in found if d > 1e-12), default=math.inf)


def _described(compensation: Compensation) -> str:
    if compensation.order == 0 and compensation.points in (None, 1):
        return "none"
    count = compensation.order + 1 if compensation.points is None else compensation.points
    spacing = "the delay" if compensation.spacing is None else f"{1e3 * compensation.spacing:g} ms"
    return f"order {compensation.order}, {count} points spaced {spacing}"


def _verdict(test: DelayStability) -> str:
    delay = f"{1e3 * test.delay:g} ms"
    if test.actuator is None and test.essential_rate >= 0:
        worse = "" if test.compensation.order == 0 else f" with compensation ({_described(test.compensation)})"
        return (
            f"Essentially unstable: m/M = {test.moving_mass / test.mass:.3g}{worse} makes the highest frequencies grow "
            f"at {test.essential_rate:.3g} 1/s for any delay; leading root {test.rate:.3g} 1/s at {delay}. Do not "
            "couple directly: follow periodic demands instead (kz.follow on the rig)."
        )
    if test.rate >= 0:
        return f"Unstable: the leading root grows at {test.rate:.3g} 1/s at a delay of {delay}" + (
            f"; stable below {1e3 * test.critical_delay:.3g} ms." if test.compensation.spacing is None else "."
        )
    text = f"Stable at a delay of {delay}: the slowest motion decays at {-test.rate:.3g} 1/s"
    if test.compensation.spacing is not None:
        text += "."
    elif math.isinf(test.critical_delay):
        text += "; no delay up to 1 s makes it unstable."
    else:
        text += f"; critical delay {1e3 * test.critical_delay:.3g} ms."
    if test.actuator is None and test.robust_factor > 1:
        text += (
            f" Not robust: (m/M) Σ|c| = {test.robust_factor:.3g} > 1, a little jitter of the delays destabilises it."
        )
    if test.actuator is not None and test.moving_mass > test.mass:
        text += " The slow actuator hides the essential instability; it emulates badly instead."
    return text
