"""Tangents across events.

Saltation matrices carry them, and projections put them onto surfaces.

V (n, n + k) holds ∂x/∂x0 and ∂x/∂θ. A perturbation moves the instant at which a surface h(x, t, θ) = 0 is reached by
τ' = -(h_x V + h_θ) / (h_x f⁻ + h_t), so that through x⁺ = R(x⁻, t, θ)

    V⁺ = R_x V + R_θ + (R_x f⁻ + R_t - f⁺) τ'.

Source: M. di Bernardo et al., Piecewise-smooth Dynamical Systems, 2008, chapter 2; derived here also for h and R that
depend on time and parameters.
"""

from __future__ import annotations

import numpy as np

from kapitza.base.arrays import Array, Numbers
from kapitza.flow.engine import Regime
from kapitza.flow.events.geometry import Geometry, Gradients
from kapitza.flow.events.settle import Motion, Place


def cross_switch(tangents: Array, switches: Gradients, index: int, before: Array, after: Array) -> tuple[Array, float]:
    """Return the tangents after a switch.

    It also returns log|det| of the change of the state part.
    """
    size = before.size
    gradient, rate = switches.by_state[index], float(switches.rates(before)[index])
    # A field that does not jump needs no saltation; at zero rate the instant has no derivative.
    if rate == 0.0 or np.array_equal(before, after):
        return tangents, 0.0
    reached = gradient @ tangents
    reached[size:] += switches.by_parameter[index]
    change = 1.0 + gradient @ (after - before) / rate
    return tangents + ((after - before) / rate)[:, None] * reached, float(np.log(abs(change))) if change else -np.inf


def pass_impact(
    tangents: Array, surface: Gradients, index: int, reset: Gradients, before: Array, after: Array
) -> tuple[Array, float]:
    """Return the tangents after an impact.

    The wall is reached with the field `before`, and left with the field `after`.
    """
    size = before.size
    gradient, speed = surface.by_state[index], float(surface.rates(before)[index])
    shift = np.concatenate((-gradient / speed, -surface.by_parameter[index] / speed))
    lag = reset.by_state @ before + reset.by_time - after
    jump = reset.by_state + np.outer(lag, shift[:size])
    result = jump @ tangents
    result[:, size:] += reset.by_parameter + np.outer(lag, shift[size:])
    return result, float(np.linalg.slogdet(jump)[1])


def project(tangents: Array, geometry: Geometry, place: Place, modes: Array, regime: Regime, held: Motion) -> Array:
    """Project the tangents onto the surfaces of a regime.

    The states end on the surfaces: h_x V + h_θ = 0 for its s, g and w.
    A perturbed position of a wall is taken back by the impulses of the chatter, which displace along f_x b; then s and
    w are taken back along the directions E of friction and contact forces.
    """
    size = geometry.size
    point = geometry.point(place.state, place.t, place.parameters, modes)
    switches, speeds = geometry.of_switches(point), geometry.of_speeds(point)
    stuck, contact = list(regime.stuck), list(regime.contact)
    if contact:
        walls = geometry.of_walls(point)
        displacements = geometry.jacobian(point) @ held.directions[:, len(stuck) :]
        rows = walls.by_state[contact]
        off = rows @ tangents
        off[:, size:] += walls.by_parameter[contact]
        tangents = tangents - per_unit(displacements, rows @ displacements) @ off
    off = held.rows @ tangents
    off[:, size:] += np.vstack((switches.by_parameter[stuck], speeds.by_parameter[contact]))
    return tangents - per_unit(held.directions, held.gain) @ off


def per_unit(directions: Array, gain: Array) -> Numbers:
    """Scale directions to remove a unit of each surface.

    A surface that is a bare state is then met exactly.
    """
    return np.linalg.solve(gain.T, directions.T).T
