"""Curves of bifurcations in two parameters.

Where they begin, how they are traced and where they end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import cast

import numpy as np

from kapitza.base import checks
from kapitza.base.argument_checks import Anything
from kapitza.base.arrays import Array
from kapitza.base.cures import Give
from kapitza.base.monitor import Monitor
from kapitza.continuation.branch import Branch
from kapitza.continuation.codimension_two import end_tests, touching_tests
from kapitza.continuation.curve_family import CurveFamily
from kapitza.continuation.cycles import along_cycle, cycle_family
from kapitza.continuation.ends import Ending, hopf_on_curve
from kapitza.continuation.equilibria import resting_family
from kapitza.continuation.family import Node
from kapitza.continuation.frame import FreeParameter, free_parameters, orbit_frame, sizes_at
from kapitza.continuation.locate import Stretch
from kapitza.continuation.motion import Section, ShootingFamily
from kapitza.continuation.nouns import Bifurcation, End, Kind
from kapitza.continuation.path import ChordNewton, corrected_at
from kapitza.continuation.symmetry import symmetry_of
from kapitza.continuation.trace import Stepping, Trace, as_stepping
from kapitza.continuation.walker import Walker, checked_bounds, reach_of, require_effect, signs, walked
from kapitza.errors import ConvergenceError, KapitzaError
from kapitza.flow import Flow
from kapitza.model import Model
from kapitza.solve import ByEffort

SHRUNK = 0.05
"""Share of the largest motion on a curve below which its end at an equilibrium is searched for.

At the end itself every tangent is a null vector, and the curve is lost.
"""

PASSING = 0.2
"""Distance, as a share of a step, at which a curve that passes its start has closed."""

CURVES = (Kind.FOLD, Kind.DOUBLING, Kind.PITCHFORK, Kind.NEIMARK_SACKER, Kind.HOPF)


def follow_curve(
    bifurcation: Bifurcation,
    parameters: object,
    bounds: Anything = None,
    *,
    direction: int = 0,
    stepping: Stepping | None = None,
    monitor: Monitor | None = None,
    posterior: object = None,
) -> Branch:
    """Trace the curve of a bifurcation in two parameters.

    parameters: their names; the first is the one whose bounds are given as (low, high), or bounds is a mapping or a
    pair of ranges for both. Codimension-two points are marked on the way.
    """
    if posterior is not None:
        raise KapitzaError(f"Bands are drawn on branches in one parameter: follow the branch with {Give('posterior')}.")
    if bifurcation.kind not in CURVES:
        raise KapitzaError(
            f'Curves of points of the kind "{bifurcation.kind.value}" are not followed: '
            f"only of {', '.join(kind.value for kind in CURVES)} points."
        )
    names = two_names(parameters)
    if names is None or names[0] == names[1]:
        raise KapitzaError(
            f'A curve needs two parameters, follow(bifurcation, ("omega", "B")), not {checks.shown(parameters)}.'
        )
    direction = checks.whole("direction", direction, least=-1, most=1, error=KapitzaError)
    for name in names:
        bifurcation.model.check(name)
        require_effect(bifurcation.model, name)
    family, z = curve_family(bifurcation, names, bounds)
    limits, others = curve_ranges(family.model, names, bounds, bifurcation.model)
    # No chord steps: the residual of the extended system needs a linearisation anyway.
    corrector = ChordNewton(chords=0, tolerance=1e-9, max_iterations=8)
    stepping = as_stepping(stepping, ByEffort(0.02, 1e-7, 0.15, wanted=7), corrector)
    row = np.zeros(z.size)
    row[-2] = 1.0
    traces: list[Trace] = []
    for sign in signs(direction):
        outcome = corrected_at(family, z, row[None], z[-2:-1].copy(), 1e-10)
        if outcome.point is None:
            # Where the first parameter has an extremum along the curve, the second is held instead.
            row2 = np.zeros(z.size)
            row2[-1] = 1.0
            outcome = corrected_at(family, z, row2[None], z[-1:].copy(), 1e-10)
        if outcome.point is None:
            raise KapitzaError(f"The curve could not be started at {bifurcation}: {outcome.message}")
        node = outcome.point
        along = np.sign(node.tangent[-2]) or np.sign(node.tangent[-1]) or 1.0
        node = Node(family, node.z, node.tangent * along * sign, node.at)
        traces.append(Trace(node, limits, stepping, second=others, ending=CurveEnds(family.kind)))
    return walked(Walker(traces[0], traces[1] if len(traces) > 1 else None), monitor)


def two_names(given: object) -> tuple[str, str] | None:
    """Return a pair of names, or None."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        return None
    names = [each for each in cast(Sequence[object], given) if isinstance(each, str)]
    return (names[0], names[1]) if len(names) == len(cast(Sequence[object], given)) == 2 else None


@dataclass
class CurveEnds:
    """Ends of curves in two parameters.

    Curves end where they close, where orbits shrink to a point, or where pairs meet on the axis.
    kind: the bifurcation of the curve; largest: motion of its orbits so far.
    """

    kind: Kind
    largest: float = 0.0

    def within(self, before: Node, node: Node) -> Ending | None:
        crossed = end_tests(self.kind)
        for kind, function in (*crossed, *touching_tests(self.kind)):
            if function(before.readings) * function(node.readings) >= 0:
                continue
            found = Stretch(before, node).zero(function)
            label = None if found is None else found.at.judged(kind, found, before, node)
            if found is None or label is None:
                continue
            # ω² has extrema next to 0 as well, which end nothing.
            if not label.verified and (kind, function) not in crossed:
                continue
            where = ", ".join(f"{n} = {v:.8g}" for n, v in zip(node.family.free, found.z[-2:], strict=True))
            return Ending(found, End.CODIMENSION_TWO, f"{label.kind.value} at {where}", label)
        return None

    def after(self, trace: Trace, node: Node) -> Ending | None:
        """Return the end after the last step, if any.

        The step passes the start in the direction in which the curve left it, or the orbits have shrunk.
        """
        if node.motion is not None:
            size = float(np.abs(node.motion).max())
            self.largest = max(self.largest, size)
            ending = self.shrunk(node) if size < SHRUNK * self.largest else None
            if ending is not None:
                return ending
        # The first steps are near the start without having gone round.
        if len(trace.nodes) < 8:
            return None
        start, before = trace.start, trace.nodes[-2]
        chord, gap = node.z - before.z, start.z - before.z
        length = float((chord * start.metric) @ chord)
        # The start projected on the last step: between 0 and 1 it was passed.
        share = float((gap * start.metric) @ chord) / length
        aside = gap - share * chord
        if not (0 < share <= 1 and float((aside * start.metric) @ aside) < (PASSING**2) * length):
            return None
        if float((node.tangent * start.metric) @ start.tangent) <= 0:
            return None
        trace.nodes[-1] = replace(start, arclength=before.arclength + share * sqrt(length))
        trace.bifurcations = [b for b in trace.bifurcations if not _first_again(trace, b)]
        return Ending(trace.nodes[-1], End.CLOSED, "back at the start of the curve")

    def shrunk(self, node: Node) -> Ending | None:
        """Return the codimension-two point of shrinking orbits.

        The point at which a curve of orbits shrinks to an equilibrium.
        """
        label = hopf_on_curve(node)
        if label is None:
            return None
        names, values = node.family.free, node.z[-2:]
        reach = 0.2 * node.family.scale[-2:]
        places = [label.model.names.index(name) for name in names]
        reach = np.maximum(reach, 2 * np.abs(np.asarray(label.values)[places] - values))
        bounds = {name: (v - r, v + r) for name, v, r in zip(names, values.tolist(), reach.tolist(), strict=True)}
        kinds = (Kind.GENERALISED_HOPF, Kind.ZERO_HOPF, Kind.DOUBLE_HOPF, Kind.BOGDANOV_TAKENS)
        found = [b for b in follow_curve(label, names, bounds).bifurcations if b.kind in kinds]
        if not found:
            return None
        best = min(found, key=lambda b: float(np.abs((np.asarray(b.values)[places] - values) / reach).max()))
        return Ending(node, End.CODIMENSION_TWO, f"{best.kind.value} at {best.parameter} = {best.value:.8g}", best)


def _first_again(trace: Trace, found: tuple[int, Bifurcation]) -> bool:
    """Return whether a point was found before.

    A point beyond the start, on the last step, that the first step has found.
    """
    place, label = found
    near = [b for i, b in trace.bifurcations if i == 0 and b.kind is label.kind]
    return place == len(trace.nodes) - 2 and any(np.allclose(b.values, label.values, rtol=1e-6) for b in near)


def curve_ranges(
    model: Model, names: tuple[str, ...], bounds: Anything, begun: Model | None = None
) -> list[tuple[float, float]]:
    """Return the range of each parameter.

    It is given, or three times the value to either side.
    begun: where the branch began, for values that are zero to rounding.
    """
    given: list[Anything] = [None] * len(names)
    if isinstance(bounds, Mapping):
        named = cast(Mapping[str, Anything], bounds)
        for name in named:
            if name not in names:
                raise KapitzaError(f"bounds names {checks.shown(name)}: the curve is one in {', '.join(names)}.")
        given = [named.get(name) for name in names]
    elif bounds is not None:
        pairs = checks.items("bounds", bounds, most=2, error=KapitzaError)
        numbers = [isinstance(each, (int, float, np.number)) for each in pairs]
        # (low, high) of the first one, or such a pair (or None) for each.
        given[: 1 if all(numbers) else len(pairs)] = [tuple(pairs)] if all(numbers) else pairs
    ranges: list[tuple[float, float]] = []
    for name, pair in zip(names, given, strict=True):
        value = model.values[name]
        reach = 3 * reach_of(value, 0.0 if begun is None else begun.values[name])
        ranges.append(checked_bounds(model, name, (value - reach, value + reach) if pair is None else pair))
    return ranges


def moving_family(bifurcation: Bifurcation, names: tuple[str, ...]) -> tuple[CurveFamily, Array]:
    """Return the extended system on sufficient nodes.

    The parameter of the branch and others are free; the nodes are those that the orbit needs.
    """
    family, z = curve_family(bifurcation, (bifurcation.parameter, *names), None)
    inner = family.inner
    if not isinstance(inner, ShootingFamily):
        return family, z
    own, square = family.split(z)
    other = inner.linearise(own).remeshed(own)
    if other is None:
        return family, z
    at, nodes = other
    finer = at.family
    base = nodes.size - len(finer.free)
    start = np.concatenate([nodes[:base], [square] if family.pair else [], nodes[base:]])
    # Nodes that one shot reached are as far off as it grew: all but the parameter of the branch is held, and solved.
    # The other parameters stay at the values of the bifurcation.
    held = np.eye(start.size)[-len(names) :]
    begun = replace(family, inner=finer).with_borders(at, square)
    outcome = corrected_at(begun, start, held, held @ start, 1e-10)
    if outcome.point is None:
        raise ConvergenceError(f"{bifurcation} was not found again on {finer.fractions.size} nodes: {outcome.message}")
    return begun, outcome.point.z


def curve_family(bifurcation: Bifurcation, names: tuple[str, ...], bounds: Anything) -> tuple[CurveFamily, Array]:
    """Return the extended system through a bifurcation.

    The unknowns at the bifurcation are returned too.
    """
    for name in names:
        bifurcation.model.check(name)
    if bifurcation.kind is Kind.PITCHFORK and not (bifurcation.half and bifurcation.critical.real < 0):
        # Only -1 of a half map is a doubling of it; at +1 the equations of folds are singular.
        raise KapitzaError(
            "Curves of pitchforks are followed on the half map of symmetric orbits: find the point with "
            "follow(..., half_map=True). Those of equilibria and of fixed points of maps are not followed."
        )
    values = dict(zip(bifurcation.model.names, np.asarray(bifurcation.values).tolist(), strict=True))
    model = bifurcation.model.with_values(**values)
    ranges = curve_ranges(model, names, bounds, bifurcation.model)
    free = free_parameters(model, names, ranges)
    at_values = np.array([model.values[n] for n in names])
    none, kind = np.zeros((0, 0)), bifurcation.kind
    if bifurcation.period == 0.0 or kind is Kind.HOPF:
        inner = resting_family(model, names, bifurcation.point, free.sizes, free.reach)
        own = np.concatenate([bifurcation.point, at_values])
        square, rate = bifurcation.frequency**2, inner.linearise(own).rate()
    else:
        inner, own = _orbit_inner(bifurcation, model, free)
        square, rate = float(np.cos(bifurcation.frequency)), 1.0
    family = CurveFamily(inner, kind, none, none, rate).with_borders(inner.linearise(own), square)
    return family, family.joined(own, square)


def _orbit_inner(bifurcation: Bifurcation, model: Model, free: FreeParameter) -> tuple[ShootingFamily, Array]:
    """Return the family of orbits through a bifurcation.

    The unknowns at the bifurcation are returned too.
    """
    point, repeats = bifurcation.point, bifurcation.repeats
    if model.is_map:
        nodes, _ = along_cycle(model, point, np.zeros(point.size), repeats or 1)
        return cycle_family(model, nodes, free)
    rates = Flow(model).rates(point, 0.0)
    period, span, closing = bifurcation.period, float(repeats or 1), None
    if bifurcation.half:
        symmetry = symmetry_of(Flow(model), point, period, repeats)
        if symmetry is None:
            raise KapitzaError("The symmetric orbit of this pitchfork was not recognised as symmetric.")
        closing, period, span = symmetry.matrix, period / 2, span / 2
    sizes = sizes_at(model, bifurcation, rates, bifurcation.period)
    reference = np.stack([point, rates]) if repeats is None else None
    frame = orbit_frame(model, free, repeats, sizes, period)
    family = ShootingFamily(frame, section=Section(span, closing, reference=reference))
    return family, family.pack(point[None], period, np.array([model.values[name] for name in free.names]))
