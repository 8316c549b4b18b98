"""Branch switching at a bifurcation.

The new branch holds the doubled orbit, the broken symmetry, or the orbit born at a Hopf point.
"""

from __future__ import annotations

import numpy as np

from kapitza.base import checks
from kapitza.base.argument_checks import Positive
from kapitza.base.arrays import Array
from kapitza.base.monitor import Monitor
from kapitza.continuation.branch import Branch
from kapitza.continuation.conservative import other_vibration
from kapitza.continuation.cycles import along_cycle, cycle_family
from kapitza.continuation.equilibria import resting_family
from kapitza.continuation.family import Node
from kapitza.continuation.frame import FreeParameter, branch_flow, free_parameters, orbit_frame, sizes_at
from kapitza.continuation.motion import Section, ShootingFamily
from kapitza.continuation.nouns import Bifurcation, Kind
from kapitza.continuation.path import corrected_at
from kapitza.continuation.trace import Stepping, Trace, as_stepping
from kapitza.continuation.walker import Bounds, Walker, checked_bounds, walked
from kapitza.errors import ConvergenceError, KapitzaError
from kapitza.flow import Flow
from kapitza.model import Model
from kapitza.solve import ByEffort, singular_vectors

NEXT_TO = 1e-3
"""Largest distance of the first orbit from its Hopf point, relative to the size of the parameter."""

VANISHED = 1e-6
"""Share of the largest singular value at a branch point of equilibria below which a direction is in the null space."""

AWAY = 1e-2
"""Distance from a branch point, in tangents, at which the size of the Jacobian is taken."""

SWITCHES = (Kind.DOUBLING, Kind.PITCHFORK, Kind.BRANCH_POINT, Kind.HOPF)


def switch_branch(
    bifurcation: Bifurcation,
    bounds: Bounds | None = None,
    *,
    amplitude: Positive = 1e-3,
    side: int = 1,
    stepping: Stepping | None = None,
    monitor: Monitor | None = None,
) -> Branch:
    """Follow the branch that leaves at a bifurcation.

    The new branch holds the doubled orbit, the broken symmetry, or the orbit of a Hopf point.

    Parameters
    ----------
    bifurcation : Bifurcation
        One of `branch.bifurcations`: period doubling, branch point, pitchfork or Hopf.
    bounds : (float, float), optional
        Of the parameter along the new branch.
    amplitude : float
        Of the first step away, relative to the orbit.
    side : int
        +1 or -1, the direction along the critical vector (both give the same orbits, shifted or mirrored, except at
        transcritical points).
    stepping : Stepping, optional
        Settings of the continuation.
    monitor : Monitor, optional
        May stop the continuation.

    Returns
    -------
    Branch
        The orbits that leave, the first of them next to the bifurcation.

    Examples
    --------
    >>> import kapitza as kz
    >>> model = kz.Model.from_equations(["x' = r*x - x**3 - y", "y' = x + r*y"], parameters={"r": -0.1})
    >>> rest = kz.follow(model, {"x": 0.0, "y": 0.0}, "r", bounds=(-0.2, 0.3), equilibrium=True)
    >>> cycles = kz.switch_branch(rest.bifurcations[0], bounds=(-0.2, 0.1))
    >>> bool(cycles.periods[0] > 6)
    True
    """
    walker = switch_walker(bifurcation, bounds, amplitude, side, stepping)
    return walked(walker, monitor)


def switch_walker(
    bifurcation: object, bounds: Bounds | None, amplitude: float, side: int, stepping: Stepping | None
) -> Walker:
    if not isinstance(bifurcation, Bifurcation):
        raise KapitzaError(
            f"switch_branch takes a bifurcation, such as branch.bifurcations[0], not {type(bifurcation).__name__}."
        )
    checks.number("amplitude", amplitude, above=0, error=KapitzaError)
    if side not in (1, -1):
        raise KapitzaError(f"side = {checks.shown(side)}; give 1 or -1.")
    if bifurcation.kind is Kind.NEIMARK_SACKER:
        raise KapitzaError("Tori leave at a Neimark-Sacker point, not periodic orbits: kz.tori(bifurcation, bounds).")
    if bifurcation.kind not in SWITCHES:
        raise KapitzaError(
            f"No branch of orbits leaves at a {bifurcation.kind.value}: "
            f"only at {', '.join(kind.value for kind in SWITCHES)} points."
        )
    model = bifurcation.model.with_values(**{bifurcation.parameter: bifurcation.value})
    model = _with_all(model, bifurcation)
    limits = checked_bounds(model, bifurcation.parameter, bounds, bifurcation.model.values[bifurcation.parameter])
    stepping = as_stepping(stepping, ByEffort(max(amplitude, 1e-3), 1e-9, max(amplitude, 0.2), wanted=4))
    if bifurcation.unfolding:
        # An internal resonance: the other family of free vibrations.
        first = other_vibration(model, bifurcation, limits, amplitude, side)
        return Walker(Trace(first, limits, stepping, first.at.images(first.z)))
    free = free_parameters(model, (bifurcation.parameter,), (limits,))
    if bifurcation.kind is Kind.HOPF:
        node = _born_at_hopf(model, bifurcation, free, amplitude)
    elif bifurcation.period == 0.0:
        node = _other_equilibrium(model, bifurcation, free, amplitude, side)
    else:
        node = _departed(model, bifurcation, free, amplitude, side)
    return Walker(Trace(node, limits, stepping, node.at.images(node.z)))


def _with_all(model: Model, bifurcation: Bifurcation) -> Model:
    if bifurcation.values is None:
        return model
    return model.with_values(**dict(zip(model.names, np.asarray(bifurcation.values).tolist(), strict=True)))


def _departed(model: Model, bifurcation: Bifurcation, free: FreeParameter, amplitude: float, side: int) -> Node:
    """Return the first node on the new branch.

    It satisfies v·(x - x₀) = ε, with all other unknowns free.
    """
    make = _new_cycle if model.is_map else _new_orbit
    family, z, ahead = make(model, bifurcation, free)
    ahead = side * _across(family, z, ahead, bifurcation.tangent)
    row, value = ahead * family.metric, bifurcation.value
    # Next to the bifurcation the matrix is nearly singular: other amplitudes where the first one fails.
    for factor in (1.0, 3.0, 10.0, 0.1):
        step = amplitude * factor
        guess = z + step * ahead
        outcome = corrected_at(family, guess, row[None], np.array([float(row @ z) + step]), 1e-10)
        if outcome.point is None:
            continue
        node = outcome.point
        # A solution far from the bifurcation belongs to another branch.
        if abs(node.value - value) < 0.5 * family.scale[-1]:
            along = float(row @ node.tangent)
            tangent = node.tangent if along >= 0 else -node.tangent
            return Node(family, node.z, tangent, node.at)
    raise ConvergenceError(
        f"The branch that leaves at {bifurcation} was not reached: try another amplitude than {amplitude:g}, "
        "such as ten times more or less."
    )


def _new_cycle(model: Model, bifurcation: Bifurcation, free: FreeParameter) -> tuple[ShootingFamily, Array, Array]:
    """Return the family of cycles that leave.

    Its unknowns at the bifurcation and the unit direction in which the cycles leave.
    """
    count = (bifurcation.repeats or 1) * (2 if bifurcation.kind is Kind.DOUBLING else 1)
    nodes, tangents = along_cycle(model, bifurcation.point, np.real(bifurcation.vector), count)
    family, z = cycle_family(model, nodes, free)
    ahead = np.append(tangents.ravel(), 0.0)
    return family, z, ahead / float(np.sqrt((ahead * family.metric) @ ahead))


def _new_orbit(model: Model, bifurcation: Bifurcation, free: FreeParameter) -> tuple[ShootingFamily, Array, Array]:
    """Return the family of orbits that leave."""
    repeats, period = bifurcation.repeats, bifurcation.period
    if bifurcation.kind is Kind.DOUBLING:
        period *= 2
        repeats = None if repeats is None else 2 * repeats
    point = bifurcation.point
    flow = branch_flow(model, (bifurcation.parameter,))
    rates = flow.rates(point, 0.0)
    sizes = sizes_at(model, bifurcation, rates, period)
    reference = np.stack([point, rates]) if repeats is None else None
    frame = orbit_frame(model, free, repeats, sizes, period, flow)
    family = ShootingFamily(frame, section=Section(float(repeats or 1), reference=reference))
    vector = _at_section(flow, bifurcation)
    # Amplitudes are relative to the sizes of the states.
    length = float(np.sqrt(((vector / sizes) ** 2).sum()))
    z = family.pack(point[None], period, np.array([bifurcation.value]))
    ahead = np.zeros(z.size)
    ahead[: sizes.size] = vector / length
    return family, z, ahead


def _across(family: ShootingFamily, z: Array, critical: Array, tangent: Array | None) -> Array:
    """Return the direction across the known branch.

    At a branch point the Jacobian has two null vectors. The step goes along the one at right angles to the known
    tangent, so that it does not lead back: the critical direction may be that of the known branch.
    """
    if tangent is None or tangent.size != critical.size:
        return critical
    scale = family.scale
    null = singular_vectors(family.linearise(z).full() * scale)[2][-2:]
    ahead = _directions(null, tangent / scale, critical / scale)[0] * scale
    return ahead / float(np.sqrt((ahead * family.metric) @ ahead))


def _other_equilibrium(
    model: Model, bifurcation: Bifurcation, free: FreeParameter, amplitude: float, side: int
) -> Node:
    """Return the first equilibrium on the crossing branch.

    At a branch point [f_x, f_p] has two null vectors: one is the tangent of the known branch, and the step goes along
    the one at right angles to it (H. B. Keller's perpendicular switch).
    """
    value, size = bifurcation.value, free.sizes[0]
    family = resting_family(model, free.names, bifurcation.point, free.sizes, free.reach)
    z = np.append(bifurcation.point, value)
    _, sizes, right = singular_vectors(family.linearise(z).jacobian * family.scale)
    known = np.append(np.real(bifurcation.vector), 0.0) if bifurcation.tangent is None else bifurcation.tangent
    # The whole Jacobian may vanish here: beside the point it gives the scale.
    beside = np.abs(family.linearise(z + AWAY * known).jacobian * family.scale).max()
    null = 1 + int((sizes <= VANISHED * max(float(beside), float(sizes.max()))).sum())
    critical = np.append(np.real(bifurcation.vector), 0.0) / family.scale
    for across in _directions(right[-max(null, 2) :], known / family.scale, critical):
        ahead = side * across * family.scale
        row = ahead * family.metric
        for factor in (1.0, 10.0, 30.0, 0.1):
            step = amplitude * factor
            outcome = corrected_at(family, z + step * ahead, row[None], np.array([float(row @ z) + step]), 1e-11)
            if outcome.point is not None and abs(outcome.point.value - value) < 0.5 * size:
                node = outcome.point
                tangent = node.tangent if float(row @ node.tangent) >= 0 else -node.tangent
                return Node(family, node.z, tangent, node.at)
    raise ConvergenceError(
        f"No other equilibria were reached at {bifurcation}: try another amplitude than {amplitude:g}."
    )


def _directions(null: Array, known: Array, critical: Array) -> list[Array]:
    """Return directions across the known tangent.

    They are unit vectors of a null space (k, N) at right angles to the known tangent, in scaled unknowns.
    There is one where two null vectors meet. Where more do, branches may leave along any of them: several are tried,
    the critical direction first.
    """
    shares = null @ known
    aside = critical @ null.T - shares * float(critical @ null.T @ shares) / float(shares @ shares)
    if len(null) == 2:
        aside = np.array([-shares[1], shares[0]])
    first = aside @ null
    first = first / np.linalg.norm(first) * (1.0 if float(first[:-1] @ critical[:-1]) >= 0 else -1.0)
    if len(null) == 2:
        return [first]
    away = null - np.outer(null @ known, known) / float(known @ known) - np.outer(null @ first, first)
    second = singular_vectors(away)[2][0]
    # Both signs of a direction lead to the same branch, so half a turn suffices.
    angles = np.linspace(0, np.pi, 12, endpoint=False)
    return [np.cos(each) * first + np.sin(each) * second for each in angles]


def _at_section(flow: Flow, bifurcation: Bifurcation) -> Array:
    """Return the critical direction at t = 0.

    Carried there where the section had been moved.
    """
    vector = np.real(bifurcation.vector)
    if not bifurcation.offset or bifurcation.repeats is None:
        return vector
    period = float(flow.period() or 1.0)
    begin = bifurcation.offset * period
    end = np.ceil(bifurcation.offset - 1e-12) * period
    back = flow.propagate(bifurcation.point, 0.0, begin, tangents=True)
    run = flow.propagate(back.state, begin, end, tangents=True)
    assert run.jacobian is not None
    return run.jacobian @ vector


SMALLEST_USUAL = 0.3
"""Smaller first orbits are tried where no other is found: states far below 1 may need them."""


def _born_at_hopf(model: Model, bifurcation: Bifurcation, free: FreeParameter, amplitude: float) -> Node:
    """Return a small orbit near a Hopf point.

    It lies along the real part of the eigenvector, with T = 2π/ω.
    """
    vector, omega = np.asarray(bifurcation.vector), bifurcation.frequency
    point, value = bifurcation.point, bifurcation.value
    size = max(float(np.abs(point).max()), 1.0)
    # In the plane of the eigenvector a motion turns from Re v towards -Im v.
    direction = np.real(vector) / np.linalg.norm(np.real(vector))
    period = 2 * np.pi / omega
    flow, own = Flow(model), branch_flow(model, free.names)
    found: list[Node] = []
    # Canards leave the Hopf point by a tiny part of the parameter's range: small first orbits serve there.
    for factor in (30.0, 10.0, 3.0, 1.0, 0.3, 100.0, 300.0, 0.1, 0.03, 0.01):
        if found and factor < SMALLEST_USUAL:
            break
        step = factor * amplitude * size
        start = point + step * direction
        rates = flow.rates(start, 0.0)
        sizes = np.maximum(np.abs(point), step)
        reference = np.stack([point, rates])
        frame = orbit_frame(model, free, None, sizes, period, own)
        family = ShootingFamily(frame, section=Section(reference=reference))
        z = family.pack(start[None], period, np.array([value]))
        row = np.zeros(z.size)
        row[: sizes.size] = direction / sizes**2
        outcome = corrected_at(family, z, row[None], np.array([float(row @ z)]), 1e-10)
        if outcome.point is None:
            continue
        node = outcome.point
        if node.orbit is None or abs(node.orbit.full_period / period - 1) > 0.3:
            continue
        renewed = node.at.renewed(node.z)
        fresh = family if renewed is None else renewed[0]
        again = corrected_at(fresh, node.z, row[None], np.array([float(row @ node.z)]), 1e-10)
        node = again.point or node
        along = float(row @ node.tangent)
        found.append(Node(node.family, node.z, node.tangent if along >= 0 else -node.tangent, node.at))
        # Bifurcations between the point and the first orbit are not detected, so that distance must be tiny.
        if abs(node.value - value) < NEXT_TO * node.family.scale[-1]:
            return found[-1]
    if found:
        return min(found, key=lambda node: abs(node.value - value))
    raise ConvergenceError(f"The orbit born at {bifurcation} was not reached: try another amplitude.")
