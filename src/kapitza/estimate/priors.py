"""Priors of parameters, joined with or compared to estimates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kapitza.base.arrays import Array, Flags
from kapitza.model import Model
from kapitza.solve import nearest_within, scaled_inverse

SURPRISING = 4.0
"""Standard deviations between a prior and the estimate from the data from which a warning is given."""

WEAK = 1e-13
"""Relative curvature below which a direction of an information matrix counts as zero."""


@dataclass(frozen=True)
class Priors:
    """Means μ (k,) and weights w (k,) of priors.

    A weight is w = 1/deviation², and 0 for a parameter without a prior.
    """

    mean: Array
    weight: Array

    def cost(self, theta: Array) -> float:
        """Return ½ Σ w (θ - μ)²."""
        return 0.5 * float((self.weight * (theta - self.mean) ** 2).sum())

    def pull(self, theta: Array) -> Array:
        """Return the derivative (k,) of the cost."""
        return self.weight * (theta - self.mean)


def bounds_of(model: Model, names: Sequence[str]) -> tuple[Array, Array]:
    """Return lower and upper bounds (k,) of parameters."""
    low, high = np.array([model.parameter(name).bounds for name in names], float).reshape(-1, 2).T
    return low, high


def priors_of(model: Model, names: Sequence[str]) -> Priors:
    """Return the priors of parameters, in their order."""
    known = [model.parameter(name).prior for name in names]
    return Priors(
        np.array([p.mean if p else 0.0 for p in known], float),
        np.array([p.deviation**-2 if p else 0.0 for p in known], float),
    )


def no_priors(count: int) -> Priors:
    return Priors(np.zeros(count), np.zeros(count))


def with_priors_and_bounds(model: Model, names: Sequence[str], theta: Array, covariance: Array) -> tuple[Array, Array]:
    """Join an estimate with the priors and bounds.

    theta (k,), covariance (k, k): of an estimate that used neither. A prior is one more sample: Σ' = (Σ⁻¹ + P)⁻¹,
    θ' = θ + Σ' P (μ - θ) with the weights P = 1/deviation².
    """
    priors = priors_of(model, names)
    if priors.weight.any() and np.isfinite(covariance).all():
        # Scaled inverses: parameters of very different units stay well conditioned.
        covariance = scaled_inverse(scaled_inverse(covariance, WEAK) + np.diag(priors.weight), WEAK)
        theta = theta - covariance @ priors.pull(theta)
    return _within_bounds(model, names, theta, covariance), covariance


def _within_bounds(model: Model, names: Sequence[str], theta: Array, covariance: Array) -> Array:
    """Return the best values within the bounds.

    Minimises (θ - θ̂)ᵀ Σ⁻¹ (θ - θ̂): where one parameter is held at its bound, the others move with it.
    """
    low, high = bounds_of(model, names)
    if ((low <= theta) & (theta <= high)).all() or not np.isfinite(theta).all():
        return theta
    if not np.isfinite(covariance).all() or (low >= high).any():
        return np.clip(theta, low, high)
    return nearest_within(scaled_inverse(covariance, WEAK), theta, low, high)


def surprising_priors(
    model: Model, names: Sequence[str], theta: Array, covariance: Array, skip: Flags | None = None
) -> Iterator[str]:
    """Yield warnings about priors that the data contradict.

    theta (k,) and covariance (k, k) are estimates with the priors in them.
    """
    for i, name in enumerate(names):
        prior = model.parameter(name).prior
        if prior is None or (skip is not None and skip[i]):
            continue
        own, posterior = prior.deviation**2, float(covariance[i, i])
        # Without the prior the estimate would move by (θ - μ) V/(τ² - V) and have the variance τ² V/(τ² - V).
        # Where the data do not inform a parameter, its posterior variance equals that of the prior, up to rounding.
        rest = max(own - posterior, 1e-12 * own)
        gap = float(theta[i]) - prior.mean
        distance = abs(gap) / np.sqrt(rest)
        if distance > SURPRISING:
            yield (
                f"the data put {name} at {theta[i] + gap * posterior / rest:.6g}, {distance:.2g} standard deviations "
                f"from its prior {prior.mean:.6g} ± {prior.deviation:.3g}: one of them is wrong."
            )
