"""Leaving a branch at a bifurcation: the doubled orbit, the broken symmetry, the orbit born at a Hopf point."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base import checks
from kapitza.base.argument_checks import Positive
from kapitza.base.monitor import Monitor
from kapitza.continuation.branch import Branch
from kapitza.continuation.cycles import along_cycle, cycle_family
from kapitza.continuation.equilibria import resting_family
from kapitza.continuation.motion import OrbitFamily, branch_flow, state_sizes
from kapitza.continuation.nouns import Bifurcation, Kind
from kapitza.continuation.path import Node, corrected_at
from kapitza.continuation.trace import Stepping, Trace
from kapitza.continuation.walker import Bounds, Walker, assembled, checked_bounds, parameter_size, walked
from kapitza.errors import ConvergenceError, KapitzaError
from kapitza.flow import Flow
from kapitza.solve import ByEffort, singular_vectors

Array = NDArray[np.float64]

NEXT_TO = 1e-3
"""Of the size of the parameter: largest distance of the first orbit from its Hopf point."""

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
    """The branch that leaves at a bifurcation: of the doubled orbit, the broken symmetry, or the orbit of a Hopf point.

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
        How it is walked.
    monitor : Monitor, optional
        May stop the walk.

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
    bifurcation: Bifurcation, bounds: Bounds | None, amplitude: float, side: int, stepping: Stepping | None
) -> Walker:
    if not isinstance(bifurcation, Bifurcation):
        raise KapitzaError(
            f"switch_branch takes a bifurcation, such as branch.bifurcations[0], not {type(bifurcation).__name__}."
        )
    checks.number("amplitude", amplitude, above=0, error=KapitzaError)
    if side not in (1, -1):
        raise KapitzaError(f"side = {checks.shown(side)}; give 1 or -1.")
    if stepping is not None and not isinstance(stepping, Stepping):
        raise KapitzaError(f"stepping = {checks.shown(stepping)}; give a Stepping(...).")
    if bifurcation.kind not in SWITCHES:
        raise KapitzaError(
            f"No branch of orbits leaves at a {bifurcation.kind.value}: "
            f"only at {', '.join(kind.value for kind in SWITCHES)} points."
        )
    model = bifurcation.model.with_values(**{bifurcation.parameter: bifurcation.value})
    model = _with_all(model, bifurcation)
    limits = checked_bounds(model, bifurcation.parameter, bounds)
    stepping = stepping or Stepping(rule=ByEffort(max(amplitude, 1e-3), 1e-9, max(amplitude, 0.2), wanted=4))
    if bifurcation.unfolding:
        from kapitza.continuation.conservative import other_vibration

        # An internal resonance: the other family of free vibrations.
        node = other_vibration(model, bifurcation, limits, amplitude, side)
        return Walker(Trace(node, limits, stepping), None, lambda walker: assembled(walker, "Shooting"))
    if bifurcation.kind is Kind.HOPF:
        node = _born_at_hopf(model, bifurcation, limits, amplitude)
    elif bifurcation.period == 0.0:
        node = _other_equilibrium(model, bifurcation, limits, amplitude, side)
    else:
        node = _departed(model, bifurcation, limits, amplitude, side)
    trace = Trace(node, limits, stepping, node.family.images(node))
    return Walker(trace, None, lambda walker: assembled(walker, "Shooting"))


def _with_all(model: Any, bifurcation: Bifurcation) -> Any:
    if bifurcation.values is None:
        return model
    return model.with_values(**dict(zip(model.names, np.asarray(bifurcation.values).tolist(), strict=True)))


def _departed(model: Any, bifurcation: Bifurcation, limits: Bounds, amplitude: float, side: int) -> Node:
    """The first node on the new branch: v·(x - x₀) = ε, everything else free."""
    make = _new_cycle if model.is_map else _new_orbit
    family, z, ahead = make(model, bifurcation, limits)
    ahead = _across(side * ahead, bifurcation.tangent, family.metric)
    row, value = ahead * family.metric, bifurcation.value
    for factor in (1.0, 3.0, 10.0, 0.1):
        step = amplitude * factor
        guess = z + step * ahead
        outcome = corrected_at(family, guess, row[None], np.array([float(row @ z) + step]), 1e-10)
        if outcome.point is None:
            continue
        node = outcome.point
        if abs(node.value - value) < 0.5 * family.scale[-1]:
            along = float(row @ node.tangent)
            tangent = node.tangent if along >= 0 else -node.tangent
            return Node(family, node.z, tangent, node.at)
    raise ConvergenceError(
        f"The branch that leaves at {bifurcation} was not reached: try another amplitude than {amplitude:g}, "
        "such as ten times more or less."
    )


def _new_cycle(model: Any, bifurcation: Bifurcation, limits: Bounds) -> tuple[OrbitFamily, Array, Array]:
    """The family of the cycles that leave, its unknowns at the bifurcation and the unit direction in which they do."""
    count = (bifurcation.repeats or 1) * (2 if bifurcation.kind is Kind.DOUBLING else 1)
    nodes, tangents = along_cycle(model, bifurcation.point, np.real(bifurcation.vector), count)
    size, reach = parameter_size(bifurcation.value, limits), 0.5 * (limits[1] - limits[0])
    family, z = cycle_family(model, nodes, (bifurcation.parameter,), (size,), (reach,))
    ahead = np.append(tangents.ravel(), 0.0)
    return family, z, ahead / float(np.sqrt((ahead * family.metric) @ ahead))


def _new_orbit(model: Any, bifurcation: Bifurcation, limits: Bounds) -> tuple[OrbitFamily, Array, Array]:
    """The same for orbits."""
    repeats, period = bifurcation.repeats, bifurcation.period
    if bifurcation.kind is Kind.DOUBLING:
        period *= 2
        repeats = None if repeats is None else 2 * repeats
    point = bifurcation.point
    flow = branch_flow(model, (bifurcation.parameter,))
    rates = flow.rates(point, 0.0)
    sizes = state_sizes(model, point[None], rates[None], period)
    reference = np.stack([point, rates]) if repeats is None else None
    value = bifurcation.value
    family = OrbitFamily(
        model, (bifurcation.parameter,), repeats, model.vector, sizes, np.zeros(1), float(repeats or 1), None, 0.0,
        reference, period, (parameter_size(value, limits),), (0.5 * (limits[1] - limits[0]),),
    )  # fmt: skip
    family.__dict__["flow"] = flow
    vector = _at_section(flow, bifurcation)
    length = float(np.sqrt(((vector / sizes) ** 2).sum()))
    z = family.equations.pack(point[None], period, np.array([value]))
    ahead = np.zeros(z.size)
    ahead[: family.size] = vector / length
    return family, z, ahead


def _across(direction: Array, tangent: Array | None, metric: Array) -> Array:
    """A unit direction at right angles to the tangent of the known branch, so that the way does not lead back on it."""
    if tangent is None or tangent.size != direction.size:
        return direction
    along = float((direction * metric) @ tangent) / float((tangent * metric) @ tangent)
    rest = direction - along * tangent
    length = float(np.sqrt((rest * metric) @ rest))
    # The critical direction is that of the known branch itself at a pitchfork that was passed on the new branch.
    return direction if length < 1e-3 else rest / length


def _other_equilibrium(model: Any, bifurcation: Bifurcation, limits: Bounds, amplitude: float, side: int) -> Node:
    """The first equilibrium on the branch that crosses the known one.

    At a branch point [f_x, f_p] has two null vectors: one is the tangent of the known branch, and the step goes along
    the one at right angles to it (H. B. Keller's perpendicular switch).
    """
    value = bifurcation.value
    size, reach = parameter_size(value, limits), 0.5 * (limits[1] - limits[0])
    family = resting_family(model, (bifurcation.parameter,), bifurcation.point, (size,), (reach,))
    z = np.append(bifurcation.point, value)
    scaled = family.linearise(z).jacobian * family.scale
    plane = singular_vectors(scaled)[2][-2:]
    known = np.append(np.real(bifurcation.vector), 0.0) if bifurcation.tangent is None else bifurcation.tangent
    shares = plane @ (known / family.scale)
    across = np.array([-shares[1], shares[0]]) @ plane
    across /= np.linalg.norm(across)
    if float(across[:-1] @ (np.real(bifurcation.vector) / family.sizes)) < 0:
        across = -across
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


def _at_section(flow: Flow, bifurcation: Bifurcation) -> Array:
    """The critical direction at t = 0: carried there where the section had been moved."""
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


def _born_at_hopf(model: Any, bifurcation: Bifurcation, limits: Bounds, amplitude: float) -> Node:
    """A small orbit near a Hopf point: along the real part of the eigenvector, with T = 2π/ω."""
    vector, omega = np.asarray(bifurcation.vector), bifurcation.frequency
    point, value = bifurcation.point, bifurcation.value
    size = max(float(np.abs(point).max()), 1.0)
    # In the plane of the eigenvector a motion turns from Re v towards -Im v.
    direction = np.real(vector) / np.linalg.norm(np.real(vector))
    period = 2 * np.pi / omega
    flow = Flow(model)
    found: list[Node] = []
    # Canards leave the Hopf point by a tiny part of the parameter's range: small first orbits serve there.
    for factor in (30.0, 10.0, 3.0, 1.0, 0.3, 100.0, 300.0):
        step = factor * amplitude * size
        start = point + step * direction
        rates = flow.rates(start, 0.0)
        sizes = np.maximum(np.abs(point), step)
        reference = np.stack([point, rates])
        family = OrbitFamily(
            model, (bifurcation.parameter,), None, model.vector, sizes, np.zeros(1), 1.0, None, 0.0, reference, period,
            (parameter_size(value, limits),), (0.5 * (limits[1] - limits[0]),),
        )  # fmt: skip
        z = family.equations.pack(start[None], period, np.array([value]))
        row = np.zeros(z.size)
        row[: family.size] = direction / sizes**2
        outcome = corrected_at(family, z, row[None], np.array([float(row @ z)]), 1e-10)
        if outcome.point is None:
            continue
        node = outcome.point
        if abs(family.full_period(node.z) / period - 1) > 0.3:
            continue
        family = family.renewed(node.z, node.at)
        again = corrected_at(family, node.z, row[None], np.array([float(row @ node.z)]), 1e-10)
        node = again.point or node
        along = float(row @ node.tangent)
        found.append(Node(node.family, node.z, node.tangent if along >= 0 else -node.tangent, node.at))
        # What happens between the point and the first orbit is not seen: that must be next to nothing.
        if abs(node.value - value) < NEXT_TO * node.family.scale[-1]:
            return found[-1]
    if found:
        return min(found, key=lambda node: abs(node.value - value))
    raise ConvergenceError(f"The orbit born at {bifurcation} was not reached: try another amplitude.")
