"""Leaving a branch at a bifurcation: the doubled orbit, the broken symmetry, the orbit born at a Hopf point."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza import gate
from kapitza.continuation.branch import Branch
from kapitza.continuation.motion import OrbitFamily, branch_flow, state_sizes
from kapitza.continuation.nouns import Bifurcation, Kind
from kapitza.continuation.path import Node, corrected_at
from kapitza.continuation.trace import Stepping, Trace
from kapitza.continuation.walker import Bounds, Walker, assembled, checked_bounds, parameter_size, walked
from kapitza.errors import ConvergenceError, KapitzaError
from kapitza.flow import Flow
from kapitza.solve import ByEffort

Array = NDArray[np.float64]

SWITCHES = (Kind.DOUBLING, Kind.PITCHFORK, Kind.BRANCH_POINT, Kind.HOPF)


def switch_branch(
    bifurcation: Bifurcation,
    bounds: Bounds | None = None,
    *,
    amplitude: float = 1e-3,
    side: int = 1,
    stepping: Stepping | None = None,
    monitor: Any = None,
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
    gate.number("amplitude", amplitude, above=0, error=KapitzaError)
    if side not in (1, -1):
        raise KapitzaError(f"side = {gate.shown(side)}; give 1 or -1.")
    if stepping is not None and not isinstance(stepping, Stepping):
        raise KapitzaError(f"stepping = {gate.shown(stepping)}; give a Stepping(...).")
    if bifurcation.kind not in SWITCHES:
        raise KapitzaError(
            f"No branch of orbits leaves at a {bifurcation.kind.value}: "
            f"only at {', '.join(kind.value for kind in SWITCHES)} points."
        )
    model = bifurcation.model.with_values(**{bifurcation.parameter: bifurcation.value})
    model = _with_all(model, bifurcation)
    limits = checked_bounds(model, bifurcation.parameter, bounds)
    stepping = stepping or Stepping(rule=ByEffort(max(amplitude, 1e-3), 1e-9, max(amplitude, 0.2), wanted=4))
    if bifurcation.kind is Kind.HOPF:
        node = _born_at_hopf(model, bifurcation, limits, amplitude)
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
        reference, period, (parameter_size(value, limits),),
    )  # fmt: skip
    family.__dict__["flow"] = flow
    vector = _at_section(flow, bifurcation)
    length = float(np.sqrt(((vector / sizes) ** 2).sum()))
    direction = side * vector / length
    z = family.equations.pack(point[None], period, np.array([value]))
    row = np.zeros(z.size)
    row[: family.size] = direction / sizes**2
    for factor in (1.0, 3.0, 10.0, 0.1):
        step = amplitude * factor
        guess = z.copy()
        guess[: family.size] += step * direction
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
    for factor in (30.0, 100.0, 10.0, 300.0):
        step = factor * amplitude * size
        start = point + step * direction
        rates = flow.rates(start, 0.0)
        sizes = np.maximum(np.abs(point), step)
        reference = np.stack([point, rates])
        family = OrbitFamily(
            model, (bifurcation.parameter,), None, model.vector, sizes, np.zeros(1), 1.0, None, 0.0, reference, period,
            (parameter_size(value, limits),),
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
        return Node(node.family, node.z, node.tangent if along >= 0 else -node.tangent, node.at)
    raise ConvergenceError(f"The orbit born at {bifurcation} was not reached: try another amplitude.")
