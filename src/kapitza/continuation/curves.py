"""Curves of bifurcations in two parameters: where they begin, how they are traced and where they end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base import checks
from kapitza.continuation.branch import Branch
from kapitza.continuation.codimension_two import end_tests
from kapitza.continuation.criteria import readings
from kapitza.continuation.curve_family import CurveFamily
from kapitza.continuation.cycles import along_cycle, cycle_family
from kapitza.continuation.ends import Ending, hopf_end
from kapitza.continuation.equilibria import resting_family
from kapitza.continuation.locate import Stretch
from kapitza.continuation.motion import OrbitFamily, state_sizes
from kapitza.continuation.nouns import Bifurcation, End, Kind
from kapitza.continuation.path import ChordNewton, Node, corrected_at
from kapitza.continuation.trace import Stepping, Trace
from kapitza.continuation.walker import Walker, assembled, checked_bounds, parameter_size, require_effect, walked
from kapitza.errors import ConvergenceError, KapitzaError
from kapitza.flow import Flow
from kapitza.solve import ByEffort

Array = NDArray[np.float64]

SHRUNK = 0.05
"""Of the largest motion on a curve: below, its end at an equilibrium is looked for.

At the end itself every tangent is a null vector, and the curve is lost.
"""

PASSING = 0.2
"""Of a step: a curve that passes its start at less than this distance has closed."""

CURVES = (Kind.FOLD, Kind.DOUBLING, Kind.PITCHFORK, Kind.NEIMARK_SACKER, Kind.HOPF)


def follow_curve(
    bifurcation: Bifurcation,
    parameters: Sequence[str],
    bounds: Any = None,
    *,
    direction: int = 0,
    stepping: Stepping | None = None,
    monitor: Any = None,
    posterior: Any = None,
) -> Branch:
    """The curve of a bifurcation in two parameters.

    parameters: their names; the first is the one whose bounds are given as (low, high), or bounds is a mapping or a
    pair of ranges for both. Codimension-two points are marked on the way.
    """
    if posterior is not None:
        raise KapitzaError("Bands are drawn on branches in one parameter: follow the branch with posterior=.")
    if bifurcation.kind not in CURVES:
        raise KapitzaError(
            f"Curves of {bifurcation.kind.value} points are not followed: "
            f"only of {', '.join(kind.value for kind in CURVES)} points."
        )
    names = (parameters,) if isinstance(parameters, (str, type(None))) else tuple(parameters)
    if len(names) != 2 or names[0] == names[1] or not all(isinstance(name, str) for name in names):
        raise KapitzaError(
            f'A curve needs two parameters, follow(bifurcation, ("omega", "B")), not {checks.shown(parameters)}.'
        )
    direction = checks.whole("direction", direction, least=-1, most=1, error=KapitzaError)
    if stepping is not None and not isinstance(stepping, Stepping):
        raise KapitzaError(f"stepping = {checks.shown(stepping)}; give a Stepping(...).")
    for name in names:
        bifurcation.model.check(name)
        require_effect(bifurcation.model, name)
    family, z = curve_family(bifurcation, names, bounds)
    limits, others = curve_ranges(family.model, names, bounds)
    stepping = stepping or Stepping(
        corrector=ChordNewton(chords=0, tolerance=1e-9, max_iterations=8), rule=ByEffort(0.02, 1e-7, 0.15, wanted=7)
    )
    row = np.zeros(z.size)
    row[-2] = 1.0
    traces = []
    for sign in (1, -1) if direction == 0 else (direction,):
        outcome = corrected_at(family, z, row[None], z[-2:-1].copy(), 1e-10)
        if outcome.point is None:
            row2 = np.zeros(z.size)
            row2[-1] = 1.0
            outcome = corrected_at(family, z, row2[None], z[-1:].copy(), 1e-10)
        if outcome.point is None:
            raise KapitzaError(f"The curve could not be started at {bifurcation}: {outcome.message}")
        node = outcome.point
        family = node.family
        along = np.sign(node.tangent[-2]) or np.sign(node.tangent[-1]) or 1.0
        node = Node(family, node.z, node.tangent * along * sign, node.at)
        traces.append(_Curve(node, limits, stepping, second=others))
    walker = Walker(traces[0], traces[1] if len(traces) > 1 else None, lambda w: assembled(w, "Shooting"))
    return walked(walker, monitor)


@dataclass
class _Curve(Trace):
    """A walk in two parameters, which ends where it began when it closes, or where the pair meets on the axis."""

    _largest: float = 0.0

    def _ending(self, before: Node, node: Node) -> Ending | None:
        family = before.family
        for kind, function in end_tests(family):
            if function(readings(before)) * function(readings(node)) >= 0:
                continue
            found = Stretch(before, node).zero(function)
            label = None if found is None else family.judged(kind, found, before, node)
            if found is None or label is None:
                continue
            where = ", ".join(f"{n} = {v:.8g}" for n, v in zip(family.free, found.z[-2:], strict=True))
            return Ending(found, End.CODIMENSION_TWO, f"{label.kind.value} at {where}", label)
        return super()._ending(before, node)

    def _finished(self, node: Node) -> bool:
        """Does the last step pass the start, in the direction in which the curve left it, or have its orbits shrunk?"""
        motion = node.family.motion(node.z, node.at)
        if motion is not None:
            size = float(np.abs(motion).max())
            self._largest = max(self._largest, size)
            ending = hopf_end(node) if size < SHRUNK * self._largest else None
            if ending is not None:
                self._end_at(ending)
                return True
        if len(self.nodes) < 8:
            return False
        start, before = self.start, self.nodes[-2]
        chord, gap = node.z - before.z, start.z - before.z
        length = float((chord * start.metric) @ chord)
        share = float((gap * start.metric) @ chord) / length
        aside = gap - share * chord
        if not (0 < share <= 1 and float((aside * start.metric) @ aside) < (PASSING**2) * length):
            return False
        if float((node.tangent * start.metric) @ start.tangent) <= 0:
            return False
        self.nodes[-1] = replace(start, arclength=before.arclength + share * sqrt(length))
        self.bifurcations = [b for b in self.bifurcations if not self._first_again(b)]
        self.end, self.message = End.CLOSED, "back at the start of the curve"
        return True

    def _first_again(self, found: tuple[int, Bifurcation]) -> bool:
        """Is a point beyond the start, on the last step, one that the first step has found?"""
        place, label = found
        near = [b for i, b in self.bifurcations if i == 0 and b.kind is label.kind]
        return place == len(self.nodes) - 2 and any(np.allclose(b.values, label.values, rtol=1e-6) for b in near)


def curve_ranges(model: Any, names: tuple[str, ...], bounds: Any) -> list[tuple[float, float]]:
    """The range of each parameter: as given, or three times its value to either side."""
    given: list[Any] = [None] * len(names)
    if isinstance(bounds, Mapping):
        for name in bounds:
            if name not in names:
                raise KapitzaError(f"bounds names {checks.shown(name)}: the curve is one in {', '.join(names)}.")
        given = [bounds.get(name) for name in names]
    elif bounds is not None:
        pairs = checks.items("bounds", bounds, most=2, error=KapitzaError)
        numbers = [isinstance(each, (int, float, np.number)) for each in pairs]
        # (low, high) of the first one, or such a pair (or None) for each.
        given[: 1 if all(numbers) else len(pairs)] = [tuple(pairs)] if all(numbers) else pairs
    ranges = []
    for name, pair in zip(names, given, strict=True):
        value = model.values[name]
        reach = 3 * abs(value) if value else 3.0
        ranges.append(checked_bounds(model, name, (value - reach, value + reach) if pair is None else pair))
    return ranges


def moving_family(bifurcation: Bifurcation, names: tuple[str, ...]) -> tuple[CurveFamily, Array]:
    """The extended system with the parameter of the branch and others free, on nodes where the orbit wants them."""
    family, z = curve_family(bifurcation, (bifurcation.parameter, *names), None)
    inner = family.inner
    if not isinstance(inner, OrbitFamily):
        return family, z
    own, square = family.split(z)
    other = inner.remeshed(own, inner.linearise(own))
    if other is None:
        return family, z
    finer, nodes = other
    base = nodes.size - len(finer.free)
    start = np.concatenate([nodes[:base], [square] if family.pair else [], nodes[base:]])
    # Nodes that one shot reached are as far off as it grew: all but the parameter of the branch is held, and solved.
    held = np.eye(start.size)[-len(names) :]
    begun = replace(family, inner=finer).with_borders(finer.linearise(nodes), square)
    outcome = corrected_at(begun, start, held, held @ start, 1e-10)
    if outcome.point is None:
        raise ConvergenceError(f"{bifurcation} was not found again on {finer.fractions.size} nodes: {outcome.message}")
    return outcome.point.family, outcome.point.z


def curve_family(bifurcation: Bifurcation, names: tuple[str, ...], bounds: Any) -> tuple[CurveFamily, Array]:
    """The extended system through a bifurcation, and its unknowns there."""
    for name in names:
        bifurcation.model.check(name)
    values = dict(zip(bifurcation.model.names, np.asarray(bifurcation.values).tolist(), strict=True))
    model = bifurcation.model.with_values(**values)
    ranges = curve_ranges(model, names, bounds)
    sizes = tuple(parameter_size(model.values[n], r) for n, r in zip(names, ranges, strict=True))
    reach = tuple(0.5 * (high - low) for low, high in ranges)
    at_values = np.array([model.values[n] for n in names])
    none, kind = np.zeros((0, 0)), bifurcation.kind
    if bifurcation.period == 0.0 or kind is Kind.HOPF:
        inner: Any = resting_family(model, names, bifurcation.point, sizes, reach)
        own = np.concatenate([bifurcation.point, at_values])
        square, rate = bifurcation.frequency**2, float(np.abs(bifurcation.multipliers).max())
    else:
        inner, own = _orbit_inner(bifurcation, model, names, sizes, reach)
        square, rate = float(np.cos(bifurcation.frequency)), 1.0
    family = CurveFamily(inner, kind, none, none, rate).with_borders(inner.linearise(own), square)
    return family, family.joined(own, square)


def _orbit_inner(
    bifurcation: Bifurcation, model: Any, names: tuple[str, ...], sizes: tuple[float, ...], reach: tuple[float, ...]
) -> tuple[OrbitFamily, Array]:
    """The family of orbits through a bifurcation with all `names` free, and its unknowns there."""
    point, repeats = bifurcation.point, bifurcation.repeats
    if model.is_map:
        nodes, _ = along_cycle(model, point, np.zeros(point.size), repeats or 1)
        return cycle_family(model, nodes, names, sizes, reach)
    rates = Flow(model).rates(point, 0.0)
    period, span, closing = bifurcation.period, float(repeats or 1), None
    if bifurcation.half:
        from kapitza.continuation.symmetry import symmetry_of

        symmetry = symmetry_of(Flow(model), point, period, repeats)
        if symmetry is None:
            raise KapitzaError("The symmetric orbit of this pitchfork was not recognised as symmetric.")
        closing, period, span = symmetry.matrix, period / 2, span / 2
    elif bifurcation.kind is Kind.PITCHFORK:
        raise KapitzaError(
            "Curves of pitchforks are followed on the half map: find the point with follow(..., half_map=True)."
        )
    own = state_sizes(model, point[None], rates[None], bifurcation.period)
    reference = np.stack([point, rates]) if repeats is None else None
    family = OrbitFamily(
        model, names, repeats, model.vector, own, np.zeros(1), span, closing, 0.0, reference, period, sizes, reach
    )
    return family, family.equations.pack(point[None], period, np.array([model.values[name] for name in names]))
