"""Continuation of tori.

Tori that leave at a Neimark-Sacker bifurcation, and families through a torus.
"""

from __future__ import annotations

import numpy as np

from kapitza.base import checks
from kapitza.base.argument_checks import Anything, Positive
from kapitza.base.arrays import Array
from kapitza.base.monitor import Monitor, watch
from kapitza.continuation.curves import curve_ranges
from kapitza.continuation.family import Node
from kapitza.continuation.frame import parameter_size
from kapitza.continuation.nouns import Bifurcation, End, Kind
from kapitza.continuation.path import ChordNewton, corrected_at
from kapitza.continuation.tori.family import PeriodMap, TorusFamily
from kapitza.continuation.tori.normal import normal_exponent
from kapitza.continuation.tori.nouns import Torus, TorusBranch
from kapitza.continuation.tori.trace import FEWEST, TorusTrace, on_other_mesh, torus_family
from kapitza.continuation.trace import Stepping, as_stepping
from kapitza.continuation.walker import Bounds, checked_bounds, require_effect
from kapitza.errors import ConvergenceError, KapitzaError
from kapitza.model import Model
from kapitza.solve import ByEffort, eigenvectors

FIRST = 7
"""Phases of the first, small circle. Its three modes do not resonate where e^{2πiqρ} = 1 with q > 4: q - 1 would."""

SMALLEST = 1e-4
"""Step below which a locked interval lies ahead: beyond it the family is looked for at once."""

MODES = 128
"""Harmonics of the finest circle, by default."""


def tori(
    bifurcation: Bifurcation,
    bounds: Bounds | None = None,
    *,
    amplitude: Positive = 1e-2,
    modes: int = MODES,
    stepping: Stepping | None = None,
    monitor: Monitor | None = None,
) -> TorusBranch:
    """Follow tori from a Neimark-Sacker bifurcation.

    The branch carries their rotation numbers.

    Parameters
    ----------
    bifurcation : Bifurcation
        Of a forced model, a map or an autonomous one: branch.of("Neimark-Sacker")[0].
    bounds : (float, float), optional
        Of the parameter along the tori.
    amplitude : float
        Of the first circle, relative to the orbit.
    modes : int
        Harmonics of a circle, at most; 17 phases are the fewest.
    stepping : Stepping, optional
        How the family is traced.
    monitor : Monitor, optional
        May stop the trace.

    Returns
    -------
    TorusBranch
        The first torus is next to the bifurcation.

    Notes
    -----
    Invariant circles P(u(s)) = u(s + ρ) of the map over one period are solved for by collocation at equidistant phases.
    Where the motion is locked to a ratio p/q such a circle does not exist: narrow locked intervals are stepped across,
    wide ones end the family (End.LOCKED). `tongues` finds both kinds.

    Examples
    --------
    >>> import kapitza as kz
    >>> step = {"x": "(1 + mu - x**2 - y**2)*(c*x - s*y)", "y": "(1 + mu - x**2 - y**2)*(s*x + c*y)"}
    >>> model = kz.Model.from_map(step, parameters={"mu": -0.1, "c": 0.6, "s": 0.8})
    >>> branch = kz.follow(model, {"x": 0.0, "y": 0.0}, "mu", (-0.2, 0.3))
    >>> found = kz.tori(branch.of("Neimark-Sacker")[0], (-0.2, 0.25))
    >>> round(float(found.rotations[-1]), 9)  # arccos(0.6) / 2π
    0.147583618
    """
    if bifurcation.kind is not Kind.NEIMARK_SACKER:
        raise KapitzaError(
            f"tori takes a Neimark-Sacker bifurcation, such as branch.of('Neimark-Sacker')[0], not a "
            f"{bifurcation.kind.value} point."
        )
    checks.number("amplitude", amplitude, above=0, error=KapitzaError)
    most = _phases(modes)
    model = bifurcation.model.with_values(**{bifurcation.parameter: bifurcation.value})
    if bifurcation.values is not None:
        named = zip(model.names, np.asarray(bifurcation.values).tolist(), strict=True)
        model = model.with_values(**dict(named))
    _require_smooth(model)
    limits = checked_bounds(model, bifurcation.parameter, bounds, bifurcation.model.values[bifurcation.parameter])
    node = _born(model, bifurcation, limits, amplitude)
    trace = TorusTrace(node, (limits,), _stepping(stepping), most)
    message = f"{bifurcation.parameter} = {bifurcation.value:.8g}"
    return _traced([trace], (End.NEIMARK_SACKER, message), monitor)


def follow_torus(
    torus: Torus,
    parameter: Anything,
    bounds: Anything = None,
    *,
    direction: int = 0,
    modes: int = MODES,
    stepping: Stepping | None = None,
    monitor: Monitor | None = None,
) -> TorusBranch:
    """Follow the family through a torus.

    The family varies along one parameter, or keeps its rotation number in two.

    Parameters
    ----------
    torus : Torus
        One of a family: tori(bifurcation).torus(10).
    parameter : str or (str, str)
        Along one parameter the rotation number varies, and locked intervals are stepped across or end the family. With
        two the rotation number stays: the curve of tori of one irrational rotation number is smooth, and nothing locks.
    bounds : optional
        (low, high), or one such pair for each of two parameters.
    direction : int
        +1 or -1 for one direction of the (first) parameter, 0 for both.
    modes : int
        Harmonics of a circle, at most.
    stepping, monitor : optional
        As in `tori`.

    Returns
    -------
    TorusBranch

    Examples
    --------
    >>> import kapitza as kz
    >>> step = {"x": "(1 + mu - x**2 - y**2)*(c*x - s*y)", "y": "(1 + mu - x**2 - y**2)*(s*x + c*y)"}
    >>> model = kz.Model.from_map(step, parameters={"mu": -0.1, "c": 0.6, "s": 0.8})
    >>> branch = kz.follow(model, {"x": 0.0, "y": 0.0}, "mu", (-0.2, 0.3))
    >>> torus = kz.tori(branch.of("Neimark-Sacker")[0], (-0.2, 0.2)).torus(-1)
    >>> other = kz.follow_torus(torus, ("c", "s"), ((0.55, 0.65), (0.7, 0.9)))
    >>> c, s = other.values.T
    >>> bool(abs(s / c - 4 / 3).max() < 1e-9)  # the rotation number is arctan(s/c) / 2π
    True
    """
    names: tuple[str, ...] = (parameter,) if isinstance(parameter, str) else tuple(parameter or ())
    if not names or len(names) > 2 or len(set(names)) != len(names):
        raise KapitzaError(f"parameter = {checks.shown(parameter)}; give one name, or two for one rotation number.")
    model = torus.model
    for name in names:
        model.check(name)
        require_effect(model, name)
    direction = checks.whole("direction", direction, least=-1, most=1, error=KapitzaError)
    two = len(names) == 2
    ranges = tuple(curve_ranges(model, names, bounds)) if two else (checked_bounds(model, names[0], bounds),)
    most = max(_phases(modes), len(torus.circle))
    values = np.array([model.values[name] for name in names])
    sizes = tuple(parameter_size(value, limits) for value, limits in zip(values.tolist(), ranges, strict=True))
    family = TorusFamily(
        PeriodMap(model, names, torus.repeats), torus.circle, _sizes(torus.circle), sizes, torus.period,
        torus.rotation if two else None, model.vector, tuple(map(_reach, ranges)),
    )  # fmt: skip
    z = family.pack(torus.circle, torus.period, torus.rotation, values)
    row = np.zeros(z.size)
    row[-len(names)] = 1.0
    node = corrected_at(family, z, row[None], values[:1], 1e-9).point
    if node is None:
        raise ConvergenceError(f"The start is not a torus at {names[0]} = {values[0]:.6g}: {torus}.")
    ahead = np.sign(node.tangent[-len(names)]) or 1.0
    traces: list[TorusTrace] = []
    for sign in (1, -1) if direction == 0 else (direction,):
        start = Node(family, node.z, node.tangent * ahead * sign, node.at)
        traces.append(TorusTrace(start, ranges, _stepping(stepping), most))
    return _traced(traces, (End.START, ""), monitor)


def _reach(limits: Bounds) -> float:
    return 0.5 * (limits[1] - limits[0])


def _phases(modes: int) -> int:
    return 2 * checks.whole("modes", modes, least=FEWEST // 2, error=KapitzaError) + 1


def _stepping(given: Stepping | None) -> Stepping:
    if given is None:
        rule = ByEffort(0.01, SMALLEST, 0.1, wanted=8)
        return Stepping(corrector=ChordNewton(tolerance=1e-9), rule=rule, max_points=500)
    return as_stepping(given)


def _require_smooth(model: Model) -> None:
    if model.impacts or model.structure.switches or model.delays:
        raise KapitzaError(
            f'"{model.name}" has events or delays: tori are followed for smooth models only, as the Fourier '
            "coefficients of their circles do not decay otherwise. Use simulate beyond the bifurcation."
        )


def _sizes(circle: Array) -> Array:
    size = np.abs(circle).max(axis=0)
    return np.maximum(size, max(1e-3 * float(size.max()), 1e-9))


def _born(model: Model, bifurcation: Bifurcation, limits: Bounds, amplitude: float) -> Node:
    """Return a small circle next to the bifurcation.

    It is u(s) = x₀ + a Re(v e^{2πis}), with DP v = e^{2πiρ} v.
    """
    name, point = bifurcation.parameter, bifurcation.point
    period_map = PeriodMap(model, (name,), bifurcation.repeats)
    at = period_map.images(point[None], bifurcation.period, model.vector)
    values, vectors = eigenvectors(at.by_state[0])
    # Of the pairs, that on the unit circle; of the pair, the one that turns forward.
    forward = np.flatnonzero(values.imag > 1e-9)
    if not forward.size:
        raise ConvergenceError(f"{bifurcation} has no complex pair of multipliers over its whole period.")
    place = forward[np.abs(np.abs(values[forward]) - 1).argmin()]
    rotation, vector = float(np.angle(values[place])) / (2 * np.pi), vectors[:, place]
    count = FIRST
    rates = np.abs(at.by_time[0]) * bifurcation.period / (2 * np.pi)
    # A coordinate that passes zero at the section counts by its amplitude, |f| T/2π.
    sizes = np.maximum(np.abs(point), rates)
    # At rest at the origin no state has a size: take one.
    sizes = np.maximum(sizes, 0.1 * (float(sizes.max()) or 10.0))
    wave = np.exp(2j * np.pi * np.arange(count) / count)[:, None] * (vector / np.abs(vector / sizes).max())[None]
    wave, size = wave.real, parameter_size(bifurcation.value, limits)
    for factor in (1.0, 3.0, 0.3, 0.03, 10.0):
        circle = point + factor * amplitude * wave
        family = TorusFamily(
            period_map, circle, sizes, (size,), bifurcation.period, None, model.vector, (_reach(limits),)
        )
        z = family.pack(circle, bifurcation.period, rotation, np.array([bifurcation.value]))
        row = np.zeros(z.size)
        row[: wave.size] = (wave / sizes**2).ravel() / count
        found = corrected_at(family, z, row[None], np.array([float(row @ z)]), 1e-10).point
        if found is None or abs(found.value - bifurcation.value) > 0.5 * size:
            continue
        tangent = found.tangent if float(row @ found.tangent) >= 0 else -found.tangent
        node = on_other_mesh(Node(family, found.z, tangent, found.at), FEWEST)
        if node is not None:
            return node
    raise ConvergenceError(
        f"No torus was reached next to {bifurcation}, where the rotation number is {rotation:.6g}: near 1/3 and 1/4 "
        f"none may leave; else try another amplitude than {amplitude:g}."
    )


def _traced(traces: list[TorusTrace], first: tuple[End, str], monitor: Monitor | None) -> TorusBranch:
    family = torus_family(traces[0].start)
    with watch(monitor, f"following tori of {family.model.name}") as task:
        for trace in traces:
            for node in trace:
                task.advance(1, f"{family.free[0]} = {node.value:.6g}")
    forward = traces[0]
    backward = traces[1] if len(traces) > 1 else None
    for trace in traces:
        if task.interrupted and trace.end is End.POINTS and not trace.message:
            trace.end = End.INTERRUPTED
    behind = list(reversed(backward.nodes[1:])) if backward is not None else []
    nodes = [*behind, *(forward.nodes or [forward.start])]
    circles, periods, rotations, _ = zip(*(torus_family(n).unpack(n.z) for n in nodes), strict=True)
    begins = first if backward is None else (backward.end, backward.message)
    return TorusBranch(
        model=family.model,
        parameters=family.free,
        values=np.array([n.z[-len(family.free) :] for n in nodes]),
        rotations=np.array(rotations),
        periods=np.array(periods),
        exponents=np.array([normal_exponent(torus_family(n), n.z) for n in nodes]),
        defects=np.array([torus_family(n).between(n.z) for n in nodes]),
        nodes=np.concatenate(circles),
        counts=np.array([len(circle) for circle in circles]),
        repeats=family.map.repeats,
        ends=(begins[0], forward.end),
        end_messages=(begins[1], forward.message),
        status=task.status,
    )
