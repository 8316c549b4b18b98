"""What is known of parameters beforehand: joined with an estimate that did not use it, and held against the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

from kapitza.estimate.request import Request
from kapitza.solve import scaled_inverse

Array = NDArray[np.float64]

SURPRISING = 4.0
"""Standard deviations between a prior and what the data say that are told."""

WEAK = 1e-13
"""Relative curvature below which a direction of an information matrix counts as none."""


def joined_with_priors(request: Request, names: Sequence[str], theta: Array, covariance: Array) -> tuple[Array, Array]:
    """Values (k,) and covariance (k, k) of an estimate without priors, joined with the model's as one more reading.

    Gaussian: Σ' = (Σ⁻¹ + P)⁻¹, θ' = θ + Σ' P (μ - θ) with the weights P = 1/deviation² of the priors.
    """
    known = [request.model.parameter(name).prior for name in names]
    weight = np.array([0.0 if p is None else p.deviation**-2 for p in known])
    if not weight.any() or not np.isfinite(covariance).all():
        return theta, covariance
    mean = np.array([0.0 if p is None else p.mean for p in known])
    joint = scaled_inverse(scaled_inverse(covariance, WEAK) + np.diag(weight), WEAK)
    return theta + joint @ (weight * (mean - theta)), joint


def within_bounds(request: Request, names: Sequence[str], theta: Array, covariance: Array) -> Array:
    """The values between the bounds of the model that fit the data best.

    Minimises (θ - θ̂)ᵀ Σ⁻¹ (θ - θ̂): where one parameter is held at its bound the others move with it.
    """
    low, high = np.array([request.model.parameter(name).bounds for name in names], float).reshape(-1, 2).T
    if ((low <= theta) & (theta <= high)).all() or not np.isfinite(theta).all():
        return theta
    if not np.isfinite(covariance).all() or (low >= high).any():
        return np.clip(theta, low, high)
    information = scaled_inverse(covariance, WEAK)
    scale = np.sqrt(np.clip(np.diag(information), np.finfo(float).tiny, None))
    values, vectors = np.linalg.eigh(information / np.outer(scale, scale))
    root = np.sqrt(np.clip(values, 0.0, None))[:, None] * vectors.T
    found = lsq_linear(root, root @ (scale * theta), (low * scale, high * scale), tol=1e-14)
    return np.clip(found.x / scale, low, high)


def surprising_priors(
    request: Request, names: Sequence[str], theta: Array, covariance: Array, skip: NDArray[np.bool_] | None = None
) -> Iterator[str]:
    """Priors that the data contradict, where theta (k,) and covariance (k, k) are estimates with the priors in them."""
    for i, name in enumerate(names):
        prior = request.model.parameter(name).prior
        if prior is None or (skip is not None and skip[i]):
            continue
        own, posterior = prior.deviation**2, float(covariance[i, i])
        # Without the prior the answer would move by (θ - μ) V/(τ² - V), with the variance τ² V/(τ² - V) of its own.
        rest = max(own - posterior, 1e-12 * own)
        gap = float(theta[i]) - prior.mean
        distance = abs(gap) / np.sqrt(rest)
        if distance > SURPRISING:
            yield (
                f"the data put {name} at {theta[i] + gap * posterior / rest:.6g}, {distance:.2g} standard deviations "
                f"from its prior {prior.mean:.6g} ± {prior.deviation:.3g}: one of them is wrong."
            )
