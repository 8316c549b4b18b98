"""Score tests of a fitted model on another record.

With the initial states eliminated, a term m of size β that the model lacks moves the samples of the fitted record (1)
by m₁ β, hence the parameters by W m₁ β, W = (J₁ᵀ J₁)⁻¹ J₁ᵀ, and the residuals of the second record, states fitted and
parameters held, are

    r = c β + n₂ - J₂ W n₁,   c = m₂ - J₂ W m₁,   cov r = Σ = 1 + J₂ V J₂ᵀ,

V the covariance of the parameters. The score of the term is u = cᵀ Σ⁻¹ r with the variance I = cᵀ Σ⁻¹ c. Without the
shift W m₁ in the column most of the power is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from kapitza.base.arrays import Array
from kapitza.base.rounded import chance_text, p_text
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.judge import whiteness
from kapitza.estimate.misfit import structure
from kapitza.estimate.missing.columns import windows_of
from kapitza.estimate.missing.dictionary import candidate_terms
from kapitza.estimate.missing.laws import not_in_model
from kapitza.estimate.missing.score import WEAK, JointScores, Products, eliminated, products_of, scale_of, shift_of
from kapitza.estimate.missing.suggest import (
    Suggestion,
    judged,
    labels_of,
    with_moves,
    with_shares,
)
from kapitza.estimate.missing.whitening import residuals_without
from kapitza.estimate.result import workings_of
from kapitza.estimate.shooting_fit import MotionWorkings
from kapitza.model import Model

LEVEL = 0.05
"""Probability with which a right model is rejected, by all tests together."""

LEARNT = 1.25
"""Factor on the p-value. The three tests together are exact for a linear model and known noise; with estimated noise
and a nonlinear model they rejected 45 of 800 right models at 5 % (eight systems, 1 and 4 % noise; none of them is a
held-out test system)."""

DIRECTED = 0.6 * LEVEL / LEARNT
"""Part of the level for the directed tests."""

REST = 0.2 * LEVEL / LEARNT
"""Part of the level for the test of the parameters, and the same part for that of the residuals."""

SEEN = 0.95
"""Power at which a size counts as detectable."""

LAGS = 10
"""Lags at which residuals are tested for correlation."""


@dataclass(frozen=True)
class ModelTest:
    """Test of a model with held parameters.

    On a record that it was not fitted to. terms: score tests of the terms, parameters and faults of the measurement
    that could be missing, each with the shift that it would have caused in the fit. parameters: probability of the
    difference between the parameters that either record prefers, NaN where the fit states no errors. residuals:
    probability that white noise is as structured as the residuals with states and parameters fitted. line, band: root
    mean square, in units of the noise, from which a difference that resembles none of the terms is detected in the
    residuals with 95 % probability: where it is a single line of the spectrum, and where it fills a quarter of it.
    shifted: whether the shift in the fit is known.
    """

    terms: Suggestion
    parameters: float
    residuals: float
    line: float
    band: float
    shifted: bool = True

    @property
    def chance(self) -> float:
        """p-value of all tests together.

        The probability that a right model does as badly in one of the tests.
        """
        # Each p-value is scaled by its part of the level, so that the smallest is compared with LEVEL.
        others = [p * LEVEL / REST for p in (self.parameters, self.residuals) if np.isfinite(p)]
        return float(min(1.0, self._directed * LEVEL / DIRECTED, *others))

    @property
    def _directed(self) -> float:
        return 10.0 ** self.terms.terms[0].log10_p if self.terms.terms else 1.0

    @property
    def missing(self) -> bool:
        """Whether the directed tests reject the model."""
        return self._directed < DIRECTED

    @property
    def rejected(self) -> bool:
        """Whether the model is rejected at 5 %."""
        return self.chance < LEVEL

    @property
    def reasons(self) -> list[str]:
        """Reasons of a rejection, one phrase per test."""
        found = []
        if self.missing:
            first = (*self.terms.alternatives, *self.terms.terms)[0]
            also = len(self.terms.alternatives) - 1
            more = f", or one of {also} more terms" if also > 0 else ""
            found.append(f"{first.name} is missing{more} ({chance_text(self.terms.terms[0].log10_p)})")
        if self.parameters < REST:
            found.append(f"this record prefers other parameters ({p_text(self.parameters)})")
        if self.residuals < REST:
            found.append(f"residuals have structure, or noise is coloured ({p_text(self.residuals)})")
        return found

    @property
    def power(self) -> str:
        """Sizes of terms that would have been detected."""
        other = f"{self.line:.2g} to {self.band:.2g} times the noise (root mean square)"
        return f"{self.terms.power} Anything else: from {other}."


def directed_test(fit: Estimate | Model, second: Estimate) -> ModelTest:
    """Test a fit on the motion of another record.

    second: fit of the states alone by `ShootingFit`, with the parameters held. A Model counts as exact: its parameters
    are candidates. Of a fit by a method without a motion the shift is not known; then the parameters are fitted to the
    second record too.
    """
    model = second.model
    free = tuple(n for n in fit.names if n in model.names) if isinstance(fit, Estimate) else ()
    known = fit.model.names if isinstance(fit, Estimate) and fit.model is not None else model.names
    held = tuple(
        n for n in model.names
        if n not in free and n in known and np.isfinite(model.values[n]) and model.values[n] != 0
    )  # fmt: skip
    reach = _reach(second)
    shifted = isinstance(fit, Estimate) and fit.motion is not None and fit.status.ok
    if isinstance(fit, Estimate) and shifted:
        reach = np.maximum(reach, _reach(fit))
    terms = not_in_model(second, free, candidate_terms(model, reach))
    labels = labels_of(second, terms, held, free)
    windows = windows_of(second, terms, held, free)
    products = products_of(windows)
    shift = np.zeros((len(free), len(labels)))
    if isinstance(fit, Estimate) and shifted and free:
        first = windows_of(fit, terms, held, free)
        weight = workings_of(fit, MotionWorkings).task.problem.priors.weight
        # The fit takes its noise for white, so its shift is that of plain least squares.
        moved = shift_of(products_of(first, white=True), weight if weight.size == len(free) else np.zeros(len(free)))
        places = {label.name: i for i, label in enumerate(labels_of(fit, terms, held, free))}
        for column, label in enumerate(labels):
            if label.name in places:
                shift[:, column] = moved[:, places[label.name]]
    variance = _variance(fit, free) if isinstance(fit, Estimate) else np.zeros((0, 0))
    scores, parameters = _directed(products, shift, variance, bool(shifted))
    left = residuals_without(windows, range(len(free)))
    line, band = _detectable(left)
    found = with_shares(
        judged(scores, labels), [second, fit] if isinstance(fit, Estimate) and shifted else [second], terms
    )
    if isinstance(fit, Estimate) and shifted and free == fit.names:
        found = with_moves(found, fit, labels, shift)
    return ModelTest(found, parameters, structure_chance(left), line, band, bool(shifted) or not free)


def _reach(estimate: Estimate) -> Array:
    assert estimate.motion is not None
    return np.abs(estimate.motion.states).max(axis=0)


def _variance(fit: Estimate, free: Sequence[str]) -> Array:
    """Return the covariance V (k, k) of the parameters.

    Infinite on the diagonal where nothing is known, 0 for a parameter held by a bound.
    """
    index = [fit.names.index(n) for n in free]
    own = fit.covariance[np.ix_(index, index)].copy()
    endless = np.isinf(np.diag(own))
    own[np.isnan(own)] = 0.0
    # Infinite entries are treated separately: 0 · inf is NaN.
    own[endless], own[:, endless] = 0.0, 0.0
    own[endless, endless] = np.inf
    return own


def _directed(products: Products, shift: Array, variance: Array, shifted: bool) -> tuple[JointScores, float]:
    """Return the scores of the terms under Σ.

    The second value is the p-value of the difference of the parameters. Σ⁻¹ = 1 - J₂ (V⁻¹ + J₂ᵀ J₂)⁻¹ J₂ᵀ. A direction
    of V that is infinite is fitted to the second record.
    """
    k = shift.shape[0]
    alone = eliminated(products, k)
    level = scale_of(alone)
    whole = products.whole / level
    change = np.eye(len(whole))
    # Columns c = m₂ - J₂ W m₁, by a change of basis of the products.
    change[:k, k:-1] = -shift
    whole = change.T @ whole @ change
    own, pull = whole[:k, :k], whole[:k, k:]
    parameters = _difference(own, pull[:, -1], variance) if k else float("nan")
    if not k or not shifted:
        return alone, parameters
    # (V⁻¹ + B)⁻¹ = V (1 + B V)⁻¹ needs no inverse of V, which is 0 for a parameter held by a bound.
    endless = np.isinf(np.diag(variance))
    # A variance so large that the second record alone determines the parameter.
    size = np.where(endless, 1e12 / np.maximum(np.diag(own), 1e-300), 0.0)
    finite = np.where(np.isfinite(variance), variance, 0.0) + np.diag(size)
    inner = finite @ np.linalg.inv(np.eye(k) + own @ finite)
    left = whole[k:, k:] - pull.T @ inner @ pull
    return eliminated(Products(left, products.raw / level, products.rows, products.certainty), 0), parameters


def _difference(own: Array, pull: Array, variance: Array) -> float:
    """Return the p-value of the difference of parameters.

    The statistic is δᵀ (V + B⁻¹)⁻¹ δ, δ = B⁻¹ J₂ᵀ r: the step to the parameters that the second record prefers.
    """
    size = np.sqrt(np.diag(own))
    live = (size > 0) & np.isfinite(np.diag(variance))
    if not live.any():
        return float("nan")
    scaled = own[np.ix_(live, live)] / np.outer(size[live], size[live])
    values, vectors = np.linalg.eigh(scaled)  # any sign: a quadratic form
    good = values > WEAK * values.max()
    root = vectors[:, good] / np.sqrt(values[good])
    # In the coordinates Bᐟ²θ the step has the covariance 1 + Bᐟ² V Bᐟ².
    step = root.T @ (pull[live] / size[live])
    there = vectors[:, good] * np.sqrt(values[good])
    spread = there.T @ (variance[np.ix_(live, live)] * np.outer(size[live], size[live])) @ there
    square = float(step @ np.linalg.solve(np.eye(step.size) + spread, step))
    return float(special.chdtrc(step.size, square))


def structure_chance(left: Sequence[Array]) -> float:
    """Return the p-value of structure in the residuals.

    The probability that white noise is as correlated or has as strong a band, in any channel.
    """
    channels = left[0].shape[1]
    joined = np.concatenate([np.r_[np.ones(len(one) - 1, bool), False] for one in left])
    chances = []
    for c in range(channels):
        series = np.concatenate([one[:, c] for one in left])
        # Two tests of each channel: near lags and bands of the spectrum.
        near = whiteness(series, joined, series.size, min(LAGS, series.size // 5))[0]
        chances.append(2 * min(near, structure(series)))
    return float(min(1.0, channels * min(chances)))


def _detectable(left: Sequence[Array]) -> tuple[float, float]:
    """Return the sizes detected with 95 % probability.

    Sizes are root mean squares over the noise, of a line and of a quarter of the spectrum.
    """
    from scipy import stats

    channels = left[0].shape[1]
    # Residuals of lost samples are exactly 0.
    count = sum(np.count_nonzero(one) for one in left) // channels
    bins = max(count // 2, 4)
    widths = max(int(np.log(bins / 4) / np.log(4)) + 1, 1)
    level = REST / (2 * channels * widths)
    sizes = []
    for width in (1, bins // 4):
        limit = stats.chi2.isf(level / (bins // width), 2 * width)
        # The power of χ² with so many degrees of freedom and the noncentrality λ, solved for λ by its normal form.
        beyond = stats.norm.ppf(SEEN)
        excess = limit - 2 * width + beyond**2 * 2
        noncentral = excess + beyond * np.sqrt(4 * width + 4 * max(excess, 0.0))
        sizes.append(float(np.sqrt(max(noncentral, 0.0) / count)))
    return sizes[0], sizes[1]
