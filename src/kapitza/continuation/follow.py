"""Continuation of orbits or equilibria along a parameter.

`follow` is the verb.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from inspect import Parameter, signature
from typing import Any, Protocol, runtime_checkable

import numpy as np

from kapitza.base import checks
from kapitza.base.angles import difference
from kapitza.base.argument_checks import Anything
from kapitza.base.arrays import Array
from kapitza.base.cures import Give, marked
from kapitza.base.monitor import Monitor
from kapitza.continuation.bands import with_bands
from kapitza.continuation.branch import Branch
from kapitza.continuation.curves import curve_ranges, follow_curve, two_names
from kapitza.continuation.cycles import cycle_at, cycle_family
from kapitza.continuation.equilibria import equilibrium_family
from kapitza.continuation.family import Family
from kapitza.continuation.frame import branch_flow, free_parameters, orbit_frame, state_sizes
from kapitza.continuation.long_periods import follow_long
from kapitza.continuation.motion import Section, ShootingFamily
from kapitza.continuation.nouns import Bifurcation
from kapitza.continuation.schemes import discretised_family
from kapitza.continuation.symmetry import required_symmetry, symmetry_of
from kapitza.continuation.tori.nouns import Torus, TorusBranch
from kapitza.continuation.trace import Stepping, as_stepping
from kapitza.continuation.walker import Bounds, Walker, checked_bounds, require_effect, walked, walker_from
from kapitza.errors import ConvergenceError, FlowError, KapitzaError, nearest_name
from kapitza.flow import Flow
from kapitza.model import Model
from kapitza.orbits import PeriodicOrbit
from kapitza.orbits.of_models import MultipleShooting, Shooting, solve_orbit


@runtime_checkable
class Followed(Protocol):
    """An experiment that follows its own branches."""

    def follow(self, start: Any, parameter: str, bounds: Any = None, **settings: Any) -> Any: ...


def follow(
    subject: Anything,
    start: Anything = None,
    parameter: Anything = None,
    bounds: Anything = None,
    *,
    period: Anything = None,
    direction: Anything = None,
    method: Anything = None,
    half_map: Anything = None,
    equilibrium: Anything = None,
    detect: Anything = None,
    stepping: Anything = None,
    posterior: Anything = None,
    monitor: Monitor | None = None,
    **rig: Anything,
) -> Branch:
    """Follow a family of motions along a parameter.

    The branch carries the stability of its points and the bifurcations between them.

    Parameters
    ----------
    subject : Model, Bifurcation, Branch or experiment
        A model (or an experiment that offers `follow`), or a bifurcation, whose curve in two parameters is followed:
        follow(bifurcation, ("omega", "B")), or a branch, which is followed on: follow(branch, bounds=(0, 20)); where it
        ends in a homoclinic orbit follow(branch, ("p", "q")) follows the curve of that.
    start : optional
        An orbit, or anything that `solve_orbit` takes for a guess; a state with equilibrium=True; for a map a state or
        the points of a cycle.
    parameter : str
        Its name.
    bounds : (float, float), optional
        Between which it may move; by default those of the parameter, or a decade.
    period : optional
        As in `solve_orbit`, where the start does not give it; steps of a cycle for maps (1: a fixed point).
    direction : int
        +1 or -1 for one direction of the parameter, 0 (default) for both.
    method : optional
        Shooting() (default, nodes are added as multipliers grow), MultipleShooting(nodes=...), Collocation(),
        HarmonicBalance(), Differences().
    half_map : bool
        Use a symmetry of the model: orbits that are their own mirror image half a period later cost half, and their
        symmetry-breaking points are regular.
    equilibrium : bool
        Follow a rest state.
    detect : bool
        Look for bifurcations (default); False gives the bare curve, faster.
    stepping : Stepping, optional
        Predictor, corrector, rule of the step, and the number of points.
    posterior : Estimate, optional
        Points and bifurcations then carry intervals.
    monitor : Monitor, optional
        May stop the continuation.
    rig
        Further settings of an experiment, see `kapitza.rig.follow_rig`.

    Returns
    -------
    Branch
        Points with multipliers, bifurcations, and why it ends at either end.

    Examples
    --------
    >>> import kapitza as kz
    >>> model = kz.library.duffing()
    >>> branch = kz.follow(model, {"x": -0.2, "x'": 0.0}, "B", bounds=(0.1, 0.4))
    >>> branch.ends[1].name
    'BOUND'
    """
    given: dict[str, Anything] = {
        "period": period, "direction": direction, "method": method, "half_map": half_map, "equilibrium": equilibrium,
        "detect": detect, "stepping": stepping, "posterior": posterior, "monitor": monitor,
    }  # fmt: skip
    # What is not given is left to the verb that the subject leads to.
    settings: dict[str, Anything] = {name: value for name, value in given.items() if value is not None} | rig
    if isinstance(subject, Bifurcation):
        # follow(bifurcation, names, bounds): there is no start to give.
        _require_known(settings, follow_curve)
        return follow_curve(subject, start, parameter if bounds is None else bounds, **settings)
    if isinstance(subject, Branch):
        names = two_names(start)
        if names is not None:
            _require_known(settings, _long_periods)
            return _long_periods(subject, names, parameter if bounds is None else bounds, **settings)
        # follow(branch, bounds=...): on from where it ended, such as after loading it.
        if start is not None or parameter not in (None, subject.parameter):
            raise KapitzaError(
                "A branch is followed on from its last point, along its own parameter: "
                "follow(branch, bounds=(low, high))."
            )
        return extend(subject, bounds, **settings)
    if isinstance(subject, (Torus, TorusBranch)):
        raise KapitzaError("A family of tori is followed by follow_torus(torus, parameter, bounds).")
    if not isinstance(subject, Model):
        if isinstance(subject, Followed):
            return subject.follow(start, parameter, bounds, **settings)
        raise KapitzaError(
            f"follow takes a Model, a Bifurcation or an experiment, not {type(subject).__name__}: "
            'kz.follow(model, orbit, "omega", bounds=(5, 14)).'
        )
    if isinstance(start, Bifurcation):
        raise KapitzaError(
            "Pass the bifurcation alone to follow its curve, or switch_branch(bifurcation) to leave on it."
        )
    _require_known(settings, walk_branch, "posterior", "monitor")
    posterior, monitor = settings.pop("posterior", None), settings.pop("monitor", None)
    walker = walk_branch(subject, start, parameter, bounds, **settings)
    branch = walked(walker, monitor)
    return branch if posterior is None else with_bands(branch, posterior)


def _require_known(settings: Mapping[str, object], verb: Callable[..., object], *more: str) -> None:
    """Refuse a setting that the verb does not have."""
    known = [name for name, each in signature(verb).parameters.items() if each.kind is Parameter.KEYWORD_ONLY]
    known += more
    for name in settings:
        if name not in known:
            raise KapitzaError(
                f'follow has no setting "{name}" here.{nearest_name(name, known)} It has {", ".join(known)}.'
            )


def _long_periods(
    branch: Branch,
    names: tuple[str, str],
    bounds: Anything = None,
    *,
    direction: int = 0,
    stepping: Stepping | None = None,
    monitor: Monitor | None = None,
) -> Branch:
    """Return the curve of a homoclinic orbit.

    The curve is in two parameters and begins at the end of a branch.
    """
    model = branch.model.with_values(**{branch.parameter: float(branch.values[-1, 0])})
    for name in names:
        model.check(name)
        require_effect(model, name)
    direction = checks.whole("direction", direction, least=-1, most=1, error=KapitzaError)
    return follow_long(branch, names, curve_ranges(model, names, bounds), direction, stepping, monitor)


def extend(branch: Branch, bounds: Bounds | None = None, **settings: Anything) -> Branch:
    """Extend a branch from its last point.

    The branch may be loaded from a file, or stopped by its bounds.
    The new points, bifurcations and the new end are appended; everything else stays as it is.
    """
    resting = branch.subject == "equilibrium"
    if (branch.subject != "orbit" and not resting) or len(branch.parameters) != 1:
        raise KapitzaError(f"A branch of {branch.subject} points is not extended: follow it again with wider bounds.")
    last = float(branch.values[-1, 0])
    # The branch keeps the model at the values of its start.
    model = branch.model.with_values(**{branch.parameter: last})
    if bounds is not None:
        low, high = sorted(checks.array("bounds", bounds, shape=(2,), error=KapitzaError).tolist())
        if not low <= last <= high:
            raise KapitzaError(
                f"The branch ended at {branch.parameter} = {last:.6g}, outside of bounds = ({low:g}, {high:g}): give "
                "bounds that it has not left yet."
            )
    ahead = branch.values[-1, 0] - branch.values[-2, 0] if len(branch) > 1 else 1.0
    settings = {"direction": 1 if ahead >= 0 else -1, "equilibrium": resting, **settings}
    start = branch.points[-1] if resting else branch.orbit(-1)
    more = follow(model, start, branch.parameter, bounds, **settings)
    count = len(branch) - 1
    marks = tuple(replace(b, position=b.position + count) for b in more.bifurcations)
    sequences = (branch.sequences or ("",) * len(branch)) + (more.sequences or ("",) * len(more))[1:]
    skip = 0 if resting else int(more.counts[0])
    return branch.with_(
        values=np.concatenate([branch.values, more.values[1:]]),
        points=np.concatenate([branch.points, more.points[1:]]),
        periods=np.concatenate([branch.periods, more.periods[1:]]),
        multipliers=np.concatenate([branch.multipliers, more.multipliers[1:]]),
        arclength=np.concatenate([branch.arclength, branch.arclength[-1] + more.arclength[1:]]),
        bifurcations=(*branch.bifurcations, *marks),
        ends=(branch.ends[0], more.ends[1]),
        end_messages=(branch.end_messages[0], more.end_messages[1]),
        sequences=sequences if any(sequences) else (),
        nodes=np.concatenate([branch.nodes, more.nodes[skip:]]),
        fractions=np.concatenate([branch.fractions, more.fractions[skip:]]),
        counts=np.concatenate([branch.counts, more.counts[1:]]),
        status=more.status,
        deviations=_joined(branch.deviations, more.deviations),
    )


def _joined(deviations: Array | None, more: Array | None) -> Array | None:
    """Join the deviations of both parts.

    None where one of them was followed without a posterior.
    """
    return None if deviations is None or more is None else np.concatenate([deviations, more[1:]])


def walk_branch(
    model: Model,
    start: Anything,
    parameter: str,
    bounds: Bounds | None = None,
    *,
    period: float | None = None,
    direction: int = 0,
    method: Anything = None,
    half_map: bool = False,
    stepping: Stepping | None = None,
    equilibrium: bool = False,
    detect: bool = True,
) -> Walker:
    """Return an iterable that traces a branch.

    What `follow` iterates: for node in walk_branch(...): node.value; then .branch.
    """
    limits = checked_bounds(model, parameter, bounds)
    require_effect(model, parameter)
    direction = checks.whole("direction", direction, least=-1, most=1, error=KapitzaError)
    for what, value in (("half_map", half_map), ("equilibrium", equilibrium), ("detect", detect)):
        checks.flag(what, value, error=KapitzaError)
    family: Family
    if model.is_map and not equilibrium:
        family, z = _cycle(model, start, parameter, limits, period, method, half_map)
    elif equilibrium:
        family, z = equilibrium_family(model, start, free_parameters(model, (parameter,), (limits,)))
    else:
        family, z = orbit_family(model, start, parameter, limits, period, method, half_map)
    name = "Newton" if model.is_map else type(method).__name__ if method else "Shooting"
    return walker_from(family, z, limits, as_stepping(stepping), direction, name, detect)


def _cycle(
    model: Model,
    start: Anything,
    parameter: str,
    limits: Bounds,
    period: float | None,
    method: Anything,
    half_map: bool,
) -> tuple[ShootingFamily, Array]:
    """Return the family through a map cycle.

    The unknowns at the cycle are returned too.
    """
    if method is not None or half_map:
        raise KapitzaError(
            f'"{model.name}" is a map: its cycles are followed by all of their points, without {Give("method")} '
            f"and {Give('half_map')}."
        )
    return cycle_family(model, cycle_at(model, start, period), free_parameters(model, (parameter,), (limits,)))


def orbit_family(
    model: Model,
    start: Anything,
    parameter: str,
    limits: Bounds,
    period: float | None,
    method: Anything,
    half_map: bool,
) -> tuple[Family, Array]:
    """Return the family and unknowns through an orbit."""
    if isinstance(start, Bifurcation):
        raise KapitzaError(
            "Pass the bifurcation alone to follow its curve, or switch_branch(bifurcation) to leave on it."
        )
    if half_map:
        required_symmetry(model)
    model.needs_period("families of orbits")
    if model.period is None and period is None and isinstance(start, (Mapping, np.ndarray, list, tuple)):
        raise KapitzaError(
            f'"{model.name}" is autonomous: follow the rest state near the start with {Give(equilibrium=True)}, or '
            f"give the approximate period of an orbit in seconds, such as {Give(period=1.5)}."
        )
    orbit = _solved(model, start, period, method)
    if method is not None and not isinstance(method, (Shooting, MultipleShooting)):
        if half_map:
            raise KapitzaError("Half maps are followed by shooting: leave out method, or half_map.")
        shooting, _ = shooting_family(model, orbit, parameter, limits)
        return discretised_family(model, orbit, shooting.frame, method)
    count = (method.nodes or 8) if isinstance(method, MultipleShooting) else 1
    return shooting_family(model, orbit, parameter, limits, count, half_map)


def shooting_family(
    model: Model, orbit: PeriodicOrbit, parameter: str, limits: Bounds, nodes: int = 1, half_map: bool = False
) -> tuple[ShootingFamily, Array]:
    """Return the shooting family through an orbit.

    The number of nodes is given; the unknowns at the orbit are returned too.
    """
    flow = branch_flow(model, (parameter,))
    point, period, repeats = orbit.points[0], orbit.period, orbit.repeats
    rates = flow.rates(point, 0.0)
    sizes = state_sizes(model, point[None], rates[None], period)
    closing, span = None, float(repeats or 1)
    if half_map:
        symmetry = symmetry_of(flow, point, period, repeats)
        if symmetry is None:
            raise KapitzaError(
                f"The orbit is not its own mirror image half a period later: follow it with {Give(half_map=False)}."
            )
        closing, span, period = symmetry.matrix, span / 2, period / 2
    reference = np.stack([point, rates]) if repeats is None else None
    frame = orbit_frame(model, free_parameters(model, (parameter,), (limits,)), repeats, sizes, period, flow)
    fractions = np.arange(nodes) / nodes
    family = ShootingFamily(frame, fractions, Section(span, closing, reference=reference))
    states = point[None]
    if nodes > 1:
        states = flow.trajectory(point, np.append(fractions, 1.0) * period)[:-1]
    return family, family.pack(states, period, np.array([model.values[parameter]]))


def _solved(model: Model, start: Anything, period: float | None, method: Anything) -> PeriodicOrbit:
    if isinstance(start, PeriodicOrbit) and period is None and _closes(model, start):
        return start
    try:
        return solve_orbit(model, start, period, method, profile=False)
    except (ConvergenceError, FlowError) as problem:
        result = problem.result if isinstance(problem, ConvergenceError) else None
        raise ConvergenceError(f"The branch has no start: {marked(problem)}", result) from None


def _closes(model: Model, orbit: PeriodicOrbit) -> bool:
    """Return whether an orbit solves the model.

    If it does at the present values, the continuation may begin on it without solving again.
    """
    if orbit.loop is None or orbit.section_phase or orbit.points.shape[1] != len(model.states):
        return False
    if (orbit.repeats is None) != (model.period is None):
        return False
    wanted = orbit.period if model.period is None else (orbit.repeats or 1) * model.period
    if not np.isclose(orbit.period, wanted, rtol=1e-12, atol=0):
        return False
    flow, begin = Flow(model), orbit.points[0]
    try:
        end = flow.propagate(begin, 0.0, orbit.period, tangents=False).state
    except FlowError:
        return False
    gap = np.abs(difference(end, begin, model.angles)).max()
    return bool(gap <= 1e-9 * max(float(np.abs(orbit.points).max()), 1e-3))
