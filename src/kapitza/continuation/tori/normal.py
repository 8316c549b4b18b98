"""Attraction of a torus in its normal bundle.

It follows from the growth of tangents across the torus.

Tangents of the circle map to tangents, so that the linearised map acts on the rest of the state space. With Π(s) the
projector across the torus at u(s) and A(s) = DP(u(s)), one period is B₁(s) = Π(s + ρ) A(s) Π(s), and 2k periods are

    B_2k(s) = B_k(s + kρ) B_k(s).

The normal exponent is the limit of the mean over s of (log|B_2k| - log|B_k|)/k: the oscillation of |B_k| over s is the
same for both, so that the limit is reached exponentially fast.
"""

from __future__ import annotations

import numpy as np

from kapitza.base.arrays import Array
from kapitza.continuation.tori.circle import resampled, shifted
from kapitza.continuation.tori.family import TorusFamily

FINER = 3
"""Phases at which the growth is taken, for each phase of the circle."""

DOUBLINGS = 14
"""Largest number of doublings of the number of periods."""

SETTLED = 1e-9
"""Change of the normal exponent from a doubling to the next at which it counts as its limit."""


def normal_exponent(family: TorusFamily, z: Array) -> float:
    """Return the largest normal exponent per period.

    Negative where the torus attracts; NaN where the torus fills the state space.
    """
    circle, period, rotation, vector = family.unpack(z)
    count, n = circle.shape
    if n <= 1 + family.autonomous:
        return float("nan")
    # Projectors and products have more harmonics than the circle and the derivatives along it.
    fine = FINER * count
    fine += 1 - fine % 2
    curve = resampled(circle, fine)
    across, ahead = (_across(family, curve, turn, vector) for turn in (0.0, rotation))
    by_state = family.map.images(circle, period, vector).by_state
    # Norms compare states of different units only after scaling.
    by_state = by_state * family.sizes[None, None, :] / family.sizes[None, :, None]
    product = ahead @ resampled(by_state.reshape(count, -1), fine).reshape(fine, n, n) @ across
    found = np.nan
    turn, periods, total = rotation, 1, _size(product)
    product = product / np.exp(total)
    for _ in range(DOUBLINGS):
        product = shifted(product.reshape(fine, -1), turn % 1.0).reshape(fine, n, n) @ product
        excess = _size(product)
        # excess = L_2k - 2 L_k, so that (L_2k - L_k)/k = (excess + L_k)/k.
        before, found = found, (excess + total) / periods
        total, periods, turn = 2 * total + excess, 2 * periods, 2 * turn
        product = product / np.exp(excess)
        if abs(found - before) <= SETTLED * max(abs(found), 1.0):
            break
    return float(found)


def _size(product: Array) -> float:
    """Return the mean over s of log|B(s)|."""
    norms = np.linalg.norm(product, axis=(1, 2))
    return float(np.log(np.maximum(norms, 1e-300)).mean())


def _across(family: TorusFamily, circle: Array, turn: float, vector: Array) -> Array:
    """Return projectors (M, n, n) across the torus.

    They are taken at the phases of a circle and `turn`, in units of the sizes.
    """
    n = circle.shape[1]
    tangents = [shifted(circle, turn, 1) / family.sizes]
    if family.autonomous:
        points = shifted(circle, turn)
        tangents.append(family.map.field.rates(points, np.zeros(len(points)), vector) / family.sizes)
    result = np.broadcast_to(np.eye(n), (len(circle), n, n))
    for tangent in tangents:
        # Projected off the ones before it, a further tangent keeps its own direction only.
        own = (result @ tangent[:, :, None])[:, :, 0]
        own = own / np.linalg.norm(own, axis=1)[:, None]
        result = result - own[:, :, None] * own[:, None, :]
    return result
