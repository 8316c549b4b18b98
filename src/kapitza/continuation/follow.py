"""The verb: follow a family of orbits or equilibria along a parameter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base import checks
from kapitza.base.angles import difference
from kapitza.base.argument_checks import Anything
from kapitza.continuation.branch import Branch
from kapitza.continuation.cycles import CycleFamily, cycle_at, cycle_family
from kapitza.continuation.motion import OrbitFamily, branch_flow, state_sizes
from kapitza.continuation.nouns import Bifurcation
from kapitza.continuation.symmetry import required_symmetry, symmetry_of
from kapitza.continuation.trace import Stepping
from kapitza.continuation.walker import (
    Bounds,
    Walker,
    checked_bounds,
    parameter_size,
    require_effect,
    walked,
    walker_from,
)
from kapitza.errors import ConvergenceError, FlowError, KapitzaError, nearest_name
from kapitza.flow import Flow
from kapitza.model import Model
from kapitza.orbits import PeriodicOrbit
from kapitza.orbits.of_models import MultipleShooting, Shooting, solve_orbit

Array = NDArray[np.float64]


def follow(
    subject: Anything,
    start: Anything = None,
    parameter: Anything = None,
    bounds: Anything = None,
    **settings: Anything,
) -> Branch:
    """Follow a family of motions along a parameter, with its stability and bifurcations.

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
    settings
        See below.

    Returns
    -------
    Branch
        Points with multipliers, bifurcations, and why it ends at either end.

    Notes
    -----
    period: as in `solve_orbit`, where the start does not say it; steps of a cycle for maps (1: a fixed point).
    direction: +1 or -1 for one direction of the parameter, 0 (default) for both.
    method: Shooting() (default, nodes are added as multipliers grow), MultipleShooting(nodes=...), Collocation(),
    HarmonicBalance().
    half_map: use a symmetry of the model: orbits that are their own mirror image half a period later cost half, and
    their symmetry-breaking points are regular.
    stepping: Stepping(predictor, corrector, rule, max_points). equilibrium: follow a rest state. detect: look for
    bifurcations (False: the bare curve, faster).
    posterior: an Estimate; points and bifurcations then carry intervals. monitor: a Monitor, may stop the walk.

    Examples
    --------
    >>> import kapitza as kz
    >>> model = kz.library.duffing()
    >>> branch = kz.follow(model, {"x": -0.2, "x'": 0.0}, "B", bounds=(0.1, 0.4))
    >>> branch.ends[1].name
    'BOUND'
    """
    if isinstance(subject, Bifurcation):
        from kapitza.continuation.curves import follow_curve

        # follow(bifurcation, names, bounds): there is no start to give.
        _require_known(settings, follow_curve)
        return follow_curve(subject, start, parameter if bounds is None else bounds, **settings)
    if isinstance(subject, Branch):
        if isinstance(start, (tuple, list)) and len(start) == 2 and all(isinstance(name, str) for name in start):
            _require_known(settings, _long_periods)
            return _long_periods(subject, tuple(start), parameter if bounds is None else bounds, **settings)
        # follow(branch, bounds=...): on from where it ended, such as after loading it.
        if start is not None or parameter not in (None, subject.parameter):
            raise KapitzaError(
                "A branch is followed on from its last point, along its own parameter: "
                "follow(branch, bounds=(low, high))."
            )
        return extend(subject, bounds, **settings)
    if not isinstance(subject, Model):
        if hasattr(subject, "follow"):
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
    if posterior is not None:
        from kapitza.continuation.bands import with_bands

        branch = with_bands(branch, posterior)
    return branch


def _require_known(settings: dict[str, Any], verb: Any, *more: str) -> None:
    """Refuse a setting that the verb does not have."""
    known = [*(verb.__kwdefaults__ or ()), *more]
    for name in settings:
        if name not in known:
            raise KapitzaError(
                f'follow has no setting "{name}" here.{nearest_name(name, known)} It has {", ".join(known)}.'
            )


def _long_periods(
    branch: Branch,
    names: tuple[str, str],
    bounds: Any = None,
    *,
    direction: int = 0,
    stepping: Stepping | None = None,
    monitor: Any = None,
) -> Branch:
    """The curve in two parameters of the homoclinic orbit at the end of a branch."""
    from kapitza.continuation.curves import curve_ranges
    from kapitza.continuation.long_periods import follow_long

    model = branch.model.with_values(**{branch.parameter: float(branch.values[-1, 0])})
    for name in names:
        model.check(name)
        require_effect(model, name)
    direction = checks.whole("direction", direction, least=-1, most=1, error=KapitzaError)
    return follow_long(branch, names, curve_ranges(model, names, bounds), direction, stepping, monitor)


def extend(branch: Branch, bounds: Bounds | None = None, **settings: Any) -> Branch:
    """A branch (loaded from a file, or stopped by its bounds) followed on from its last point.

    The new points, bifurcations and the new end are appended; everything else stays as it is.
    """
    resting = branch.subject == "equilibrium"
    if (branch.subject != "orbit" and not resting) or len(branch.parameters) != 1:
        raise KapitzaError(f"A branch of {branch.subject} points is not extended: follow it again with wider bounds.")
    last = float(branch.values[-1, 0])
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
    """Those of both parts; None where one of them was followed without a posterior."""
    return None if deviations is None or more is None else np.concatenate([deviations, more[1:]])


def walk_branch(
    model: Model,
    start: Any,
    parameter: str,
    bounds: Bounds | None = None,
    *,
    period: float | None = None,
    direction: int = 0,
    method: Any = None,
    half_map: bool = False,
    stepping: Stepping | None = None,
    equilibrium: bool = False,
    detect: bool = True,
) -> Walker:
    """What `follow` walks, as an iterable: for node in walk_branch(...): node.value; then .branch."""
    limits = checked_bounds(model, parameter, bounds)
    require_effect(model, parameter)
    direction = checks.whole("direction", direction, least=-1, most=1, error=KapitzaError)
    for what, value in (("half_map", half_map), ("equilibrium", equilibrium), ("detect", detect)):
        checks.flag(what, value, error=KapitzaError)
    if stepping is not None and not isinstance(stepping, Stepping):
        raise KapitzaError(f"stepping = {checks.shown(stepping)}; give a Stepping(...).")
    stepping = stepping or Stepping()
    if model.is_map and not equilibrium:
        family, z = _cycle(model, start, parameter, limits, period, method, half_map)
    elif equilibrium:
        from kapitza.continuation.equilibria import equilibrium_family

        family, z = equilibrium_family(model, start, parameter, limits)
    else:
        family, z = orbit_family(model, start, parameter, limits, period, method, half_map)
    name = "Newton" if model.is_map else type(method).__name__ if method else "Shooting"
    return walker_from(family, z, limits, stepping, direction, name, detect)


def _cycle(
    model: Model, start: Any, parameter: str, limits: Bounds, period: float | None, method: Any, half_map: bool
) -> tuple[CycleFamily, Array]:
    """The family through a cycle of a map, and its unknowns there."""
    if method is not None or half_map:
        raise KapitzaError(
            f'"{model.name}" is a map: its cycles are followed by all of their points, without method= and half_map=.'
        )
    nodes = cycle_at(model, start, period)
    size, reach = parameter_size(model.values[parameter], limits), 0.5 * (limits[1] - limits[0])
    return cycle_family(model, nodes, (parameter,), (size,), (reach,))


def orbit_family(
    model: Model,
    start: Any,
    parameter: str,
    limits: Bounds,
    period: float | None,
    method: Any,
    half_map: bool,
) -> tuple[Any, Array]:
    """The family through an orbit, and its unknowns there."""
    if isinstance(start, Bifurcation):
        raise KapitzaError(
            "Pass the bifurcation alone to follow its curve, or switch_branch(bifurcation) to leave on it."
        )
    if half_map:
        required_symmetry(model)
    orbit = _solved(model, start, period, method)
    if method is not None and not isinstance(method, (Shooting, MultipleShooting)):
        from kapitza.continuation.discretised import discretised_family

        return discretised_family(model, orbit, parameter, limits, method, half_map)
    return shooting_family(model, orbit.points[0], orbit.period, orbit.repeats, parameter, limits, method, half_map)


def shooting_family(
    model: Model,
    point: Array,
    period: float,
    repeats: int | None,
    parameter: str,
    limits: Bounds,
    method: Any = None,
    half_map: bool = False,
) -> tuple[OrbitFamily, Array]:
    flow = branch_flow(model, (parameter,))
    rates = flow.rates(point, 0.0)
    closing, span = None, float(repeats or 1)
    if half_map:
        symmetry = symmetry_of(flow, point, period, repeats)
        if symmetry is None:
            raise KapitzaError(
                "The orbit is not its own mirror image half a period later: follow it with half_map=False."
            )
        closing, span, period = symmetry.matrix, span / 2, period / 2
    count = (method.nodes or 8) if isinstance(method, MultipleShooting) else 1
    fractions = np.arange(count) / count
    sizes = state_sizes(model, point[None], rates[None], period * (2 if half_map else 1))
    reference = np.stack([point, rates]) if repeats is None else None
    family = OrbitFamily(
        model, (parameter,), repeats, model.vector, sizes, fractions, span, closing, 0.0, reference, period,
        (parameter_size(model.values[parameter], limits),), (0.5 * (limits[1] - limits[0]),),
    )  # fmt: skip
    family.__dict__["flow"] = flow
    nodes = point[None]
    if count > 1:
        nodes = flow.trajectory(point, np.append(fractions, 1.0) * period)[:-1]
    return family, family.equations.pack(nodes, period, np.array([model.values[parameter]]))


def _solved(model: Model, start: Any, period: float | None, method: Any) -> PeriodicOrbit:
    if isinstance(start, PeriodicOrbit) and period is None and _closes(model, start):
        return start
    try:
        return solve_orbit(model, start, period, method, profile=False)
    except (ConvergenceError, FlowError) as problem:
        result = problem.result if isinstance(problem, ConvergenceError) else None
        raise ConvergenceError(f"The branch has no start: {problem}", result) from None


def _closes(model: Model, orbit: PeriodicOrbit) -> bool:
    """Is this an orbit of the model as it is, so that the walk may begin on it without solving again?"""
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
