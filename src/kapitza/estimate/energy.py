"""Warnings about friction coefficients that are negative.

Such a friction feeds energy into the motion.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kapitza.base.arrays import Array
from kapitza.errors import KapitzaError
from kapitza.estimate.estimate import Estimate
from kapitza.flow import Flow
from kapitza.model import Model

SURELY = 2.0
"""Standard errors below zero from which a negative coefficient is reported."""

STATES = 200
"""Random states at which a law is tested for taking energy out."""


def negative_frictions(found: Estimate) -> tuple[str, ...]:
    """Return the free friction coefficients that are below zero by more than SURELY standard errors."""
    model = found.model
    if not isinstance(model, Model) or model.is_map or not found.status.ok:
        return ()
    below = [name for name, error in found.deviations.items() if found.values[name] < -SURELY * error]
    return tuple(name for name in below if name in model.names and takes_energy_out(model, name))


def energy_warnings(found: Estimate) -> Iterator[str]:
    """Yield a warning per negative friction coefficient."""
    for name in negative_frictions(found):
        value, error = found.values[name], found.deviations[name]
        yield (
            f"{name} = {value:.4g} is negative by {-value / error:.2g} standard errors: a friction that feeds "
            "energy in. Check signs, the drive and the clock, or a source of energy is missing in the equations."
        )


def takes_energy_out(model: Model, name: str) -> bool:
    """Return whether the term of a parameter is friction.

    It is if Σ v ∂a/∂p ≤ 0 at all tested states and the term is odd in the velocities; v are the velocities and a the
    accelerations of coordinates of second order.
    """
    rows = [model.states.index(f"{c.name}'") for c in model.coordinates if c.order == 2]
    if not rows:
        return False
    # Fixed seed: the test must give the same verdict every time.
    states = np.random.default_rng(0).standard_normal((STATES, len(model.states)))
    mirrored = states.copy()
    # Friction is odd in the velocities; a spring or a drive is not.
    mirrored[:, rows] *= -1.0
    try:
        law, back = (_law(model, name, x)[:, rows] for x in (states, mirrored))
    except KapitzaError:
        return False
    power = (states[:, rows] * law).sum(axis=1)
    size = float(np.abs(law).max())
    return bool(np.isfinite(size) and size > 0 and (power <= 0).all() and np.abs(law + back).max() < 1e-6 * size)


def _law(model: Model, name: str, states: Array) -> Array:
    """Return ∂x'/∂p (N, n) by a central difference."""
    value = model.values[name]
    step = 1e-4 * max(abs(value), 1e-4)
    ahead, behind = (model.with_values(**{name: value + sign * step}) for sign in (1.0, -1.0))
    flow = Flow(model)
    return (flow.rates(states, 0.0, ahead.vector) - flow.rates(states, 0.0, behind.vector)) / (2 * step)
