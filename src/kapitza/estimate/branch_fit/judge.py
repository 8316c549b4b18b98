"""Misfit of branches, and intervals that include it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from scipy import special

from kapitza.base.arrays import Array, Indices
from kapitza.data import MeasuredBranch
from kapitza.estimate.branch_fit.curves import Distances
from kapitza.estimate.disagreement import RUNS, Deleted, Widening, block_edges, widening
from kapitza.estimate.judge import whiteness
from kapitza.estimate.misfit import ALARM, Misfit, chance_of_level

FEWEST = 10
"""Fewest rows of a curve for which its residuals are tested for correlation along it."""

MOST_EXPLAINED = 0.5
"""Share of a direction that the slopes of the parameters may explain for it to be tested: the rest has little power."""

LAGS = 4
"""Lags of that test, in points along the curve."""


def order_along(found: Sequence[Distances]) -> list[Indices]:
    """Return the rows of each data along the branch.

    Rows are in the order of their feet; all rows of a point stay together.
    """
    rows, first = [], 0
    for each in found:
        count = each.values.size
        own = np.arange(count)
        if each.feet is not None:
            width = count // each.feet.size
            own = own.reshape(-1, width)[np.argsort(each.feet, kind="stable")].ravel()
        rows.append(first + own)
        first += count
    return rows


def misfit_of(curves: Sequence[MeasuredBranch], found: Sequence[Distances], residual: Array, jacobian: Array) -> Misfit:
    """Return the misfit of residuals (m,) with slopes (m, k).

    Tested against the stated noise are their size (χ²), whether neighbours along a curve miss to the same side
    (Ljung-Box), and whether the residuals drift along a curve.
    """
    free = jacobian.shape[1]
    dof = residual.size - free
    if dof < 1:
        return Misfit(0.0, 0.0, 1.0, "the branches")
    level = float(residual @ residual) / dof
    chances = [chance_of_level(level, dof, np.inf)]
    for rows, each in zip(order_along(found), found, strict=True):
        if each.feet is None:
            continue
        width = rows.size // each.feet.size
        for k in range(width):
            own = rows.reshape(-1, width)[:, k]
            chances.append(drift_chance(residual, jacobian, own))
            if rows.size < FEWEST:
                continue
            left = residual[own]
            # p fitted numbers correlate n residuals by up to p/n.
            share = free / max(left.size, 1)
            chances.append(whiteness(left, np.ones(left.size, bool), left.size, min(LAGS, left.size // 4), share)[0])
    chance = min(1.0, len(chances) * min(chances))
    beyond = float(np.sqrt(max(level - 1.0, 0.0)))
    return Misfit(beyond, beyond * noise_share(curves), chance, "the branches", _where(curves, found, residual, chance))


def drift_chance(residual: Array, jacobian: Array, rows: Indices) -> float:
    """Return the p-value of a slow change of residuals (m,) along a curve.

    rows: of the curve, in its order. A term that is missing moves neighbours to the same side; where the points are too
    few for their correlation, one direction d still has the power of a test that knows what is missing. It is the
    polynomial of lowest degree along the curve of which slopes J (m, k) explain less than half, without that part:
    dᵀr/|d| is a standard normal number, because r is at right angles to J.
    """
    place = np.linspace(-1.0, 1.0, rows.size)
    basis = np.linalg.qr(jacobian / np.maximum(np.linalg.norm(jacobian, axis=0), 1e-300))[0]  # any sign: a projection
    for degree in range(min(jacobian.shape[1] + 1, rows.size)):
        direction = np.zeros(residual.size)
        direction[rows] = np.polynomial.legendre.legval(place, np.eye(degree + 1)[degree])
        own = direction - basis @ (basis.T @ direction)
        if own @ own > MOST_EXPLAINED * (direction @ direction):
            return float(special.erfc(abs(own @ residual) / np.sqrt(2.0 * (own @ own))))
    return 1.0


def noise_share(curves: Sequence[MeasuredBranch]) -> float:
    """Return the noise as a share of the signal.

    The noise of amplitudes is relative to their root mean square, that of parameter values to the largest modulus.
    """
    shares = [1e-300]
    for data in curves:
        if data.amplitudes is not None and data.curve:
            shares.append(float(np.mean(data.noises[:, 1]) / max(np.sqrt(np.mean(data.amplitudes**2)), 1e-300)))
        else:
            shares.append(float(np.mean(data.value_noise) / max(np.abs(data.values).max(), 1e-300)))
    return max(shares)


def _where(curves: Sequence[MeasuredBranch], found: Sequence[Distances], residual: Array, chance: float) -> str:
    """Return the place of the largest residual.

    It names the measured branch and the value of its parameter.
    """
    if chance >= ALARM:
        return ""
    rows, first = [], 0
    for each in found:
        rows.append((first, first + each.values.size))
        first += each.values.size
    worst = int(np.abs(residual).argmax())
    for number, ((begin, end), data) in enumerate(zip(rows, curves, strict=True)):
        if begin <= worst < end:
            width = (end - begin) // len(data)
            value = data.values[(worst - begin) // width]
            return f"measured branch {number} at {data.parameter} = {value:.4g}"
    return ""


def widening_of(found: Sequence[Distances], residual: Array, jacobian: Array, misfit: Misfit) -> Widening | None:
    """Return the widening by the delete-block jackknife.

    Blocks are neighbours along the branch, or whole branches. The estimate without some rows takes the step
    -(JᵀJ)⁻¹ Jᵀ r of the others. Where too few rows are left without a block, the scatter of the residuals replaces the
    noise. The result is None where noise explains the residuals.
    """
    if misfit.chance >= ALARM:
        return None
    free, dof = jacobian.shape[1], residual.size - jacobian.shape[1]
    along = order_along(found)
    # Several measured branches scatter like repeated experiments; blocks of one branch do not show that.
    runs = len(along) >= RUNS
    if not runs:
        order = np.concatenate(along)
        edges = block_edges(order.size, order.size)
        along = [order[a:b] for a, b in itertools.pairwise(edges.tolist())]
    covariance = np.asarray(np.linalg.inv(jacobian.T @ jacobian), np.float64)
    level = float(residual @ residual) / max(dof, 1)
    steps = []
    for block in along:
        kept = np.setdiff1d(np.arange(residual.size), block)
        if kept.size <= free:
            return widening(covariance, None, None, None, False, float(max(dof, 1)), level)
        steps.append(-np.linalg.lstsq(jacobian[kept], residual[kept], rcond=None)[0])
    pieces, spreads = _pieces(along, residual, jacobian)
    return widening(
        covariance, None, pieces, spreads, False, float("inf"), level, Deleted(np.array(steps), runs and len(along) > 1)
    )


def _pieces(blocks: Sequence[Indices], residual: Array, jacobian: Array) -> tuple[Array | None, Array | None]:
    """Return the estimates of two halves of the data.

    None where one half does not determine all parameters.
    """
    half = len(blocks) // 2
    parts = [np.concatenate(blocks[:half]), np.concatenate(blocks[half:])] if half else []
    steps, covariances = [], []
    for rows in parts:
        information = jacobian[rows].T @ jacobian[rows]
        if rows.size <= jacobian.shape[1] or np.linalg.cond(information) > 1e12:
            return None, None
        covariances.append(np.linalg.inv(information))
        steps.append(-covariances[-1] @ jacobian[rows].T @ residual[rows])
    return (np.array(steps), np.array(covariances)) if parts else (None, None)
