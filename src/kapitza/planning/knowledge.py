"""Knowledge of the parameters before the next experiment."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np
import sympy as sp

from kapitza.base.arrays import Array
from kapitza.base.cures import PRIOR
from kapitza.errors import DataError, IdentifiabilityError
from kapitza.estimate import Estimate, bounds_of, priors_of, truncated_gaussian
from kapitza.model import Model


@dataclass(frozen=True)
class Knowledge:
    """Values, information and draws of the parameters.

    values (k,) and information (k, k) are those of the free parameters; draws (S, k) are possible values of them.
    dof: degrees of freedom from which the noise was estimated, infinite where it is known. either: parameters without
    bounds whose sign the data leave open, so that draws have both.
    """

    names: tuple[str, ...]
    values: Array
    information: Array
    draws: Array
    dof: float = np.inf
    either: tuple[str, ...] = ()

    def some(self, count: int) -> Array:
        """Return `count` well-spread draws.

        They are the same ones each time, spread evenly along every principal direction.
        The ranks of the draws along these directions lie in a unit cube; those nearest to Sobol points are
        taken, one each. 32 draws that were even along one direction alone gave chances of branches 0.12 off.
        """
        if count >= len(self.draws):
            return self.draws
        from scipy.stats import qmc

        scaled = (self.draws - self.draws.mean(axis=0)) / np.where(
            self.draws.std(axis=0) > 0, self.draws.std(axis=0), 1.0
        )
        _, _, axes = np.linalg.svd(scaled, full_matrices=False)  # any sign: fixed below
        axes = axes * np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])[:, None]
        ranks = np.argsort(np.argsort(scaled @ axes.T, axis=0, kind="stable"), axis=0, kind="stable")
        cube = (ranks + 0.5) / len(self.draws)
        power = max(0, int(np.ceil(np.log2(count))))
        # The middle of every stratum: 8 draws span ± 1.5 standard deviations, 32 span ± 2.1.
        wanted = qmc.Sobol(cube.shape[1], scramble=False).random_base2(power)[:count] + 0.5 / 2**power
        left = np.ones(len(cube), bool)
        chosen = []
        for point in wanted:
            distance = np.where(left, ((cube - point) ** 2).sum(axis=1), np.inf)
            chosen.append(int(np.argmin(distance)))
            left[chosen[-1]] = False
        return self.draws[chosen]

    def widths(self, added: Array | float = 0.0) -> Array:
        """Return standard errors after further information.

        They are (..., k) after information (..., k, k) is added.
        """
        return widths(self.information + added)


def widths(information: Array) -> Array:
    """Return standard errors (..., k) of all parameters.

    Infinite where the information is singular, NaN where it is NaN.
    """
    return np.sqrt(np.diagonal(covariance(information), axis1=-2, axis2=-1))


def covariance(information: Array) -> Array:
    """Invert information matrices (..., k, k).

    Scaled first; infinite where they are singular.
    """
    size = np.sqrt(np.clip(np.diagonal(information, axis1=-2, axis2=-1), 0.0, None))
    scale = np.where(size > 0, size, 1.0)
    # Parameters differ by orders of magnitude: scaled, one cut-off serves all.
    scaled = information / (scale[..., :, None] * scale[..., None, :])
    known = np.asarray(np.isfinite(scaled).all(axis=(-2, -1)))
    safe = np.where(known[..., None, None], scaled, np.eye(scaled.shape[-1]))
    least, vectors = np.linalg.eigh(safe)  # any sign: V diag(1/λ) Vᵀ
    # An eigenvalue below 1e-13 of the scale is rounding: the combination counts as unknown.
    inverse = 1 / np.where(least > SINGULAR, least, SINGULAR)
    spread = np.einsum("...ij,...j,...kj->...ik", vectors, inverse, vectors) / (
        scale[..., :, None] * scale[..., None, :]
    )
    spread = np.where(
        (size > 0)[..., :, None] & (size > 0)[..., None, :],
        spread,
        np.where(np.eye(scaled.shape[-1], dtype=bool), np.inf, 0.0),
    )
    return np.where(known[..., None, None], spread, np.nan)


SINGULAR = 1e-13
"""Smallest eigenvalue of the scaled information that exceeds rounding."""


def outputs_of(source: Estimate | Model, channels: Container[str]) -> dict[str, str]:
    """Return what the channels of a fit measure.

    They are in plain notation; sensors contain their gain and their unknown parameters.
    """
    if not isinstance(source, Estimate) or source.settings is None:
        return {}
    found = {}
    for name, given in source.settings.outputs.items():
        if name not in channels:
            continue
        if not isinstance(given, str | sp.Expr):
            raise DataError(f'"{name}" of the fit reads {given}: plans take outputs that are expressions of states.')
        found[name] = str(given)
    return found


def known_from(source: Estimate | Model, free: Sequence[str] | None, draws: Array | None, seed: int) -> Knowledge:
    """Return the knowledge of a fit or model.

    A fit: its values, covariance and draws, cut off at the bounds; Student's t where the noise was estimated. A model:
    the priors of the free parameters.
    """
    if isinstance(source, Estimate):
        names, values, spread, dof = (
            source.names,
            [source.values[n] for n in source.names],
            source.covariance,
            source.dof,
        )
        derived = [name for name in names if name not in source.model.names]
        if derived:
            raise DataError(
                f"The fit has {', '.join(derived)} free, which the model derives from others: a plan needs a fit of "
                f"independent parameters ({', '.join(source.model.names)}), with priors where the data leave some open."
            )
        if not np.isfinite(spread).all():
            lost = [n for n, s in zip(names, np.diag(spread), strict=True) if not np.isfinite(s)]
            raise IdentifiabilityError(
                f"The fit does not determine {', '.join(lost)}: give the model priors for them ({PRIOR}) and fit "
                "again, or plan from the model."
            )
        model = source.model
        given = source.draws
    else:
        model, given, dof = source, None, np.inf
        names = tuple(free) if free is not None else tuple(p.name for p in model.parameters if p.prior is not None)
        priors = priors_of(model, names)
        lost = [n for n, w in zip(names, priors.weight, strict=True) if w == 0]
        if lost or not names:
            raise IdentifiabilityError(
                f"Nothing is known of {', '.join(lost) or 'any parameter'}: a plan from a model needs a prior for "
                f"each free parameter, {PRIOR}, or a fit."
            )
        values, spread = priors.mean, np.diag(1 / priors.weight)
    centre, spread = np.asarray(values, float), np.asarray(spread, float)
    drawn = given if draws is None else np.asarray(draws, float)
    either: tuple[str, ...] = ()
    if drawn is None:
        low, high = bounds_of(model, names)
        open_ended = ~(np.isfinite(low) | np.isfinite(high))
        drawn = _student(centre, spread, dof, seed) if open_ended.all() else None
        if drawn is None:
            drawn = truncated_gaussian(centre, spread, low, high, seed)
        known = np.abs(centre) >= SIGN * np.sqrt(np.diag(spread))
        # A parameter without bounds keeps its sign where the data decide it.
        drawn = np.where(open_ended & known, _of_one_sign(drawn, centre), drawn)
        either = tuple(n for n, free, sure in zip(names, open_ended, known, strict=True) if free and not sure)
    return Knowledge(tuple(names), centre, np.linalg.inv(spread), np.asarray(drawn, float), float(dof), either)


SIGN = 2.0
"""Standard errors from zero at which the sign of a parameter without bounds counts as known."""


def _of_one_sign(draws: Array, centre: Array) -> Array:
    """Move draws to the sign of the centre.

    Draws (S, k), centre (k,): v exp((θ - v)/v), equal to θ to first order.
    A Gaussian at two standard errors from zero has 2 % of its draws at the other sign, and a motion with negative
    damping diverges.
    """
    scale = np.where(centre != 0, centre, 1.0)
    return scale * np.exp(np.clip((draws - centre) / scale, -LARGEST_LOG, LARGEST_LOG))


LARGEST_LOG = 3.0
"""Largest ln of a draw over its centre: the tail of Student's t with few degrees of freedom has no bound."""


DRAWS = 512
"""Draws of a posterior from which those of a plan are taken."""


def _student(centre: Array, spread: Array, dof: float, seed: int) -> Array:
    """Draw from Student's t.

    Draws (DRAWS, k) with this scale; Gaussian where the noise is known.
    """
    random = np.random.default_rng(seed)
    rows = random.multivariate_normal(np.zeros(centre.size), spread, DRAWS)
    stretch = np.sqrt(dof / random.chisquare(dof, DRAWS)) if np.isfinite(dof) else np.ones(DRAWS)
    return centre + rows * stretch[:, None]
