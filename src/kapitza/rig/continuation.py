"""Continuation of motions of an experiment.

The continuation of `kapitza.solve` on measured residuals, the Jacobian carried along.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from kapitza.base import checks
from kapitza.base.argument_checks import Anything
from kapitza.base.arrays import Array
from kapitza.base.monitor import Monitor, Task
from kapitza.base.monitor import watch as work
from kapitza.errors import RigError, RigLimitError, Status
from kapitza.rig.branch import RigBifurcation, RigBranch, RigPoint
from kapitza.rig.corrector import (
    RigStepping,
    Solved,
    TooFewModesError,
    in_deviations,
    made_point,
    solved,
)
from kapitza.rig.experiment import Experiment, RigFamily, resized
from kapitza.rig.folds import folds_of
from kapitza.rig.fourier import FourierSeries
from kapitza.rig.journal import Journal
from kapitza.rig.points_on_disk import note_point, note_walk, resumed_points
from kapitza.solve import Outcome, StepCollapse, walk

CHORD = 0.1
"""Shortest chord, in scaled unknowns, that the direction of a branch is taken from."""

Watch = Callable[["RigPoint"], bool | None]
"""Called with each point as it is found; returning True ends the continuation."""


@dataclass(frozen=True)
class Anchor:
    """Point before the first of a branch.

    It is not a point of the branch, such as the rest state at a doubling.
    """

    z: Array


@dataclass
class _Walk:
    """State of a continuation.

    It holds the family, the points found, and how often the present point failed.
    """

    family: RigFamily
    stepping: RigStepping
    jacobian: Array
    add_modes: bool
    points: list[RigPoint] = field(default_factory=list)
    failures: int = 0
    counted: int = 0
    arclength: float = 0.0

    def predict(self, known: Sequence[RigPoint | Anchor], step: float) -> tuple[Array, Array, float]:
        """Predict along the last chord.

        Bent as the last two chords are: guess, border row and its target.
        Chords reach back as far as the step ahead, and never less than CHORD: the direction between points that are
        closer than their noise is random.
        """
        weights = 1.0 / self.family.scale**2
        earlier = [*known[:-1][:1], *self.points] if isinstance(known[0], Anchor) else self.points
        places = [self.fitted(known[-1].z)]
        lengths: list[float] = []
        for place in (self.fitted(p.z) for p in reversed(earlier[:-1])):
            length = float(np.sqrt(np.sum((places[-1] - place) ** 2 * weights)))
            if length >= max(0.75 * step, CHORD):
                places.append(place)
                lengths.append(length)
            if len(lengths) == 2:
                break
        if not lengths:
            places.append(self.fitted(earlier[0].z))
            lengths.append(float(np.sqrt(np.sum((places[0] - places[1]) ** 2 * weights))))
        direction = (places[0] - places[1]) / lengths[0]
        row = direction * weights
        guess = places[0] + step * direction
        if len(lengths) > 1:
            # The curvature of the branch from the turn between the last two chords.
            bend = (direction - (places[1] - places[2]) / lengths[1]) / (0.5 * (lengths[0] + lengths[1]))
            guess = guess + 0.5 * step * (step + lengths[0]) * bend
        return guess, row, float(row @ places[0]) + step

    def fitted(self, z: Array) -> Array:
        """Return an earlier point in the present modes."""
        return resized(z, self.family.experiment)

    def correct(self, guess: tuple[Array, Array, float]) -> Outcome[RigPoint]:
        """Return the point at this guess.

        Where the step would pass the bound of the parameter, the point at the bound is returned.
        """
        z, row, target = guess
        bound = self.family.passed(z[-1])
        if bound is None:
            self.family.refused = None
            outcome = self._corrected(z, row, target, target - float(row @ self.fitted(self.points[-1].z)))
            refused = self.family.refused
            bound = refused.bound if outcome.point is None and refused is not None else None
            if bound is None:
                return outcome
        # The number of modes may have grown before the limit was met.
        last, z = self.fitted(self.points[-1].z), self.fitted(z)
        share = (bound - last[-1]) / (z[-1] - last[-1]) if z[-1] != last[-1] else 1.0
        # The step is shortened to the bound, where the parameter is then held.
        z = last + min(max(share, 0.0), 1.0) * (z - last)
        z[-1], row = bound, np.append(np.zeros(z.size - 1), 1.0)
        length = float(np.sqrt(np.sum(((z - last) / self.family.scale) ** 2)))
        return self._corrected(z, row, bound, length)

    def _corrected(self, z: Array, row: Array, target: float, length: float) -> Outcome[RigPoint]:
        """Correct a step of scaled length `length`."""
        experiment = self.family.experiment
        if self.failures and self.failures % self.stepping.renew == 0 and self.points:
            self.jacobian = self.family.jacobian(self.fitted(self.points[-1].z))
        before = experiment.measurements
        outcome = solved(self.family, z, row, target, self.jacobian, self.stepping, self.points[-1])
        if outcome.z is None or outcome.found is None:
            # A refusal by a limit of the rig is not a sign of a bad Jacobian.
            self.failures += self.family.refused is None
            return Outcome(None, outcome.iterations, outcome.message)
        missing = experiment.missing_modes(outcome.found)
        if missing > self.stepping.beyond:
            return self._more_modes(outcome, missing)
        if self._jumped(outcome.z, length):
            self.failures += 1
            return Outcome(None, outcome.iterations, "The corrector left for another branch.")
        self.failures = 0
        self.jacobian = outcome.jacobian
        point = made_point(self.family, outcome, experiment.measurements - before, self.arclength + length)
        return Outcome(point, outcome.iterations)

    def _jumped(self, z: Array, length: float) -> bool:
        """Return whether the corrector jumped.

        The point is farther off the line of the predictor than the step is long.
        """
        last = self.fitted(self.points[-1].z)
        return bool(np.sqrt(np.sum(((z - last) / self.family.scale) ** 2)) > 2.5 * length + 0.05)

    @property
    def at_bound(self) -> bool:
        """Return whether the parameter reached a bound from inside."""
        value, (low, high) = self.points[-1].value, self.family.bounds
        rising = len(self.points) < 2 or value >= self.points[-2].value
        near = 1e-9 * self.family.parameter_scale
        return value >= high - near if rising else value <= low + near

    def _more_modes(self, outcome: Solved, missing: float) -> Outcome[RigPoint]:
        experiment = self.family.experiment
        text = (
            f"Modes beyond the {experiment.modes} unknown ones hold {100 * missing:.1f} % of the scales at "
            f"{self.family.parameter} = {outcome.z[-1] if outcome.z is not None else np.nan:.5g}: the residuals vanish "
            "but the motion is not one of the experiment."
        )
        # Too few modes converge without a sign of it: two or three put the fold of HYBRID 8-9 % low.
        if not self.add_modes or experiment.modes >= experiment.most_modes:
            raise TooFewModesError(text + f" Take more modes (most_modes is {experiment.most_modes}).")
        before = experiment.add_modes()
        self.jacobian = self.family.extended(self.fitted(self.points[-1].z), self.jacobian, before)
        self.failures = 0
        experiment.journal.add("modes", {"modes": experiment.modes, "reason": text})
        return Outcome(None, outcome.iterations, text)


def follow_rig(
    experiment: Experiment,
    start: Anything = None,
    parameter: str | None = None,
    bounds: tuple[float, float] | None = None,
    *,
    direction: int = 1,
    amplitude: float = 0.25,
    stepping: RigStepping | None = None,
    add_modes: bool = True,
    record: str | Path | None = None,
    resume: bool = False,
    watch: Watch | None = None,
    monitor: Monitor | None = None,
) -> RigBranch:
    """Follow motions of an experiment along a parameter.

    The motions may be unstable, and no model of the experiment is needed.

    Parameters
    ----------
    experiment : Experiment
    start : mapping of FourierSeries, RigBifurcation or None
        Demands to begin with (None: zero); a period doubling of the rest state, which the branch then leaves.
    parameter : str
        Name of the parameter; bounds: (low, high) at which the continuation ends. No value beyond them, or beyond the
        bounds that the rig declares, is sent.
    direction : int
        +1 or -1: in which direction of the parameter to begin (not from a doubling).
    amplitude : float
        First step away from a doubling, as a share of the scale of the controlled input.
    add_modes : bool
        Add modes where those beyond the unknowns hold energy; otherwise refuse.
    record : path
        File to which every measurement and point is written as it is made; with resume=True an interrupted continuation
        goes on from the points in it, after the last of them was measured again: a rig or a setting that is not the one
        of the record is refused.
    watch : callable
        Called with each point; True ends the continuation.
    monitor : Monitor
        Is shown the points and may end the continuation, between two measurements; the points so far are returned.

    Raises
    ------
    RigError
        when the start cannot be reached or the rig fails; the rig is left in its safe state.
    """
    if parameter is None:
        raise RigError('Name the parameter to follow: kz.follow(rig, start, "a", bounds=(low, high)).')
    experiment.check(parameter)
    stepping = stepping or RigStepping()
    if record is not None:
        experiment.journal = Journal(record, fresh=not resume)
    low, high = (-np.inf, np.inf) if bounds is None else checks.array("bounds", bounds, shape=(2,), error=RigError)
    value = start.value if isinstance(start, RigBifurcation) else experiment.values[parameter]
    if not low <= value <= high and not resume:
        raise RigError(f"The branch starts at {parameter} = {value:.6g}, outside of bounds = ({low:g}, {high:g}).")
    scale = abs(value) or abs(experiment.values[parameter]) or 1.0
    family = RigFamily(experiment, parameter, scale, stepping.difference, bounds=(float(low), float(high)))
    began = experiment.measurements, experiment.rig_time
    with experiment.rig:
        kept = resumed_points(family) if resume else []
        if len(kept) < 2:
            kept = []
            note_walk(family)
        else:
            _check_unchanged(family, kept[-1], stepping)
        before, points = _begun(family, kept, start, direction, amplitude, stepping)
        for point in points[len(kept) :]:
            note_point(experiment.journal, point)
            if watch is not None:
                watch(point)
        run = _Walk(family, stepping, points[-1].jacobian, add_modes, list(points))
        run.arclength = points[-1].arclength
        with work(monitor, f"following {parameter} on a rig", stepping.max_points) as task:
            status, message = _walked(run, before, watch, task)
    return _branch_of(run, status, message, began)


def _begun(
    family: RigFamily,
    kept: list[RigPoint],
    start: Any,
    direction: int,
    amplitude: float,
    stepping: RigStepping,
) -> tuple[RigPoint | Anchor, list[RigPoint]]:
    """Return the first points of a continuation.

    The point before the last one, and all points that the continuation begins with.
    """
    if kept:
        return kept[-2], kept
    if isinstance(start, RigBifurcation):
        return leave_doubling(family, start, amplitude, stepping)
    return first_points(family, start, direction, stepping)


def _check_unchanged(family: RigFamily, last: RigPoint, stepping: RigStepping) -> None:
    """Measure the last point on record again.

    The control does not vanish there on a rig that was changed since.
    """
    noise = in_deviations(family.residual(resized(last.z, family.experiment)))
    if noise > 3 * stepping.noise_level:
        raise RigError(
            f"At the last point on record, {family.parameter} = {last.value:.6g}, the residuals now are {noise:.1f} "
            f"standard deviations ({last.residual:.1f} then): the rig was changed since. Begin a new record."
        )


def _branch_of(run: _Walk, status: Status, message: str, began: tuple[int, float]) -> RigBranch:
    """Return the branch with its folds.

    began holds the measurements and the rig time before the branch.
    """
    experiment, parameter = run.family.experiment, run.family.parameter
    found = tuple(folds_of(run.points, parameter, run.family.parameter_scale))
    for bifurcation in found:
        experiment.journal.add("bifurcation", {"text": str(bifurcation), "value": bifurcation.value})
    return RigBranch(
        parameter=parameter,
        points=tuple(run.points),
        bifurcations=found,
        status=status,
        message=message,
        measurements=experiment.measurements - began[0],
        rig_time=experiment.rig_time - began[1],
        repeats=experiment.repeats,
        outputs=tuple(experiment.rig.outputs),
        values=dict(experiment.values),
    )


def _walked(run: _Walk, before: RigPoint | Anchor, watch: Watch | None, task: Task | None = None) -> tuple[Status, str]:
    """Trace the branch until something ends it.

    It ends at a bound, a limit, a failure, or on request of the user.
    """
    stepping, name = run.stepping, run.family.parameter
    if len(run.points) >= stepping.max_points:
        return Status.CONVERGED, f"The {stepping.max_points} requested points were reached."
    seed: list[Any] = [before, run.points[-1]]
    if run.at_bound:
        return Status.CONVERGED, f"{name} = {run.points[-1].value:.6g} is at the bound."
    try:
        for stride in walk(seed, run.predict, run.correct, stepping):
            point = stride.point
            run.arclength = point.arclength
            run.points.append(point)
            note_point(run.family.experiment.journal, point)
            if watch is not None and watch(point):
                return Status.INTERRUPTED, "Stopped by the watcher."
            if task is not None:
                task.reach(len(run.points), f"{name} = {point.value:.5g}")
            if run.at_bound:
                return Status.CONVERGED, f"{name} = {point.value:.6g} is at the bound."
            if len(run.points) >= stepping.max_points:
                return Status.CONVERGED, f"The {stepping.max_points} requested points were reached."
    except StepCollapse as collapse:
        if run.family.refused is not None:
            return Status.STALLED, f"The branch reached a limit of the rig. {run.family.refused}"
        return Status.STALLED, str(collapse)
    except TooFewModesError as problem:
        return Status.UNRESOLVED, str(problem)
    except RigLimitError as problem:
        return Status.STALLED, f"The branch reached a limit of the rig. {problem}"
    except KeyboardInterrupt:
        if task is not None:
            task.interrupted = True
        return Status.INTERRUPTED, Status.INTERRUPTED.value
    raise AssertionError("a walk has no end of its own")


def walk_on(
    family: RigFamily, points: Sequence[RigPoint], stepping: RigStepping, add_modes: bool, watch: Watch
) -> list[RigPoint]:
    """Continue from the last two points.

    The watcher or a limit ends it; the points given come first.
    """
    run = _Walk(family, stepping, points[-1].jacobian, add_modes, list(points))
    run.arclength = points[-1].arclength
    for point in points:
        watch(point)
    _walked(run, points[-2], watch)
    return run.points


def first_points(
    family: RigFamily, start: Mapping[str, FourierSeries] | None, direction: int, stepping: RigStepping
) -> tuple[RigPoint | Anchor, list[RigPoint]]:
    """Return the first two points of a branch.

    One is at the present parameter, the other a step further.
    """
    experiment = family.experiment
    value = experiment.values[family.parameter]
    frequency = experiment.base_frequency(experiment.values)
    given = dict(start or {})
    series = {i.name: given.get(i.name, FourierSeries.zero(frequency)) for i in experiment.inputs}
    z = np.append(experiment.pack(series), value)
    row = np.zeros(z.size)
    row[-1] = 1.0
    jacobian = family.jacobian(z)
    first = _required(family, z, row, value, jacobian, stepping, "The start")
    step = _first_step(family, value, float(np.sign(direction) * stepping.first * family.parameter_scale))
    # The tangent with the parameter as coordinate, which exists away from folds.
    slope = np.linalg.solve(first.jacobian[:, :-1], -first.jacobian[:, -1])
    guess = first.z + step * np.append(slope, 1.0)
    second = _required(family, guess, row, value + step, first.jacobian, stepping, "The first step")
    weights = 1.0 / family.scale**2
    length = float(np.sqrt(np.sum((second.z - first.z) ** 2 * weights)))
    return first, [first, replace(second, arclength=length)]


def _first_step(family: RigFamily, value: float, step: float) -> float:
    """Return the first step of the parameter.

    The step ends at the bound at the latest.
    """
    bound = family.passed(value + step)
    step = step if bound is None else bound - value
    if abs(step) < 1e-3 * family.parameter_scale:
        raise RigError(
            f"The branch starts at {family.parameter} = {value:.6g}, at the bound: bounds are ({family.bounds[0]:g}, "
            f"{family.bounds[1]:g}). Begin inside, or in the other direction."
        )
    return step


def leave_doubling(
    family: RigFamily, doubling: RigBifurcation, amplitude: float, stepping: RigStepping
) -> tuple[RigPoint | Anchor, list[RigPoint]]:
    """Return the first point after a doubling.

    The branch leaves a doubling of the rest state, in the phase of its null vector.
    """
    experiment = family.experiment
    if doubling.direction is None or not experiment.tracked:
        raise RigError("This bifurcation has no phase in which its branch leaves; find it with find_doubling.")
    rest = np.append(experiment.pack(doubling.demands), doubling.value)
    way = np.zeros(rest.size)
    way[1:3] = doubling.direction / np.linalg.norm(doubling.direction)
    size = amplitude * experiment.scale(experiment.tracked[0].name)
    jacobian = family.jacobian(rest + size * way)
    point = _required(family, rest + size * way, way, size, jacobian, stepping, "The first point of the branch")
    return Anchor(rest), [replace(point, arclength=amplitude)]


def _required(
    family: RigFamily, z: Array, row: Array, target: float, jacobian: Array, stepping: RigStepping, what: str
) -> RigPoint:
    before = family.experiment.measurements
    outcome = solved(family, z, row, target, jacobian, stepping)
    if outcome.z is None:
        outcome = solved(family, z, row, target, family.jacobian(z), stepping)
    if outcome.z is None:
        raise RigError(f"{what} could not be reached on the rig: {outcome.message} Begin nearer, or with more modes.")
    return made_point(family, outcome, family.experiment.measurements - before, 0.0)
