"""Bifurcations of an experiment in two parameters.

Doublings are found by the amplitude condition, folds by short continuations.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from kapitza.errors import RigError
from kapitza.rig.branch import RigBifurcation, RigBranch, RigPoint
from kapitza.rig.continuation import walk_on
from kapitza.rig.corrector import RigStepping, made_point, solved
from kapitza.rig.doubling import doubling_at_amplitude
from kapitza.rig.experiment import Experiment, RigFamily, resized
from kapitza.rig.folds import folds_of
from kapitza.rig.fourier import FourierSeries

if TYPE_CHECKING:
    import pandas as pd

BEFORE, AFTER = 3, 3
"""Points of a short continuation on either side of a fold."""


@dataclass(frozen=True)
class RigCurve:
    """Curve of bifurcations of one kind.

    The parameter `parameter` at which they are, for values of `second`.
    """

    kind: str
    parameter: str
    second: str
    points: tuple[RigBifurcation, ...]
    measurements: int
    message: str = ""

    def __len__(self) -> int:
        return len(self.points)

    def table(self) -> pd.DataFrame:
        """Return a table with one row per point.

        Both parameters, the standard deviation, measurements, how it was found.
        """
        import pandas as pd

        rows = [
            {self.second: b.values[self.second], self.parameter: b.value, "deviation": b.deviation,
             "measurements": b.measurements, "method": b.method}
            for b in self.points
        ]  # fmt: skip
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        text = f"Curve of {self.kind}s on a rig: {len(self)} points in ({self.second}, {self.parameter}), "
        return f"{text}{self.measurements} measurements.{' ' + self.message if self.message else ''}"


def doubling_curve(
    experiment: Experiment,
    doubling: RigBifurcation,
    second: str,
    values: Iterable[float],
    amplitude: float = 0.1,
    stepping: RigStepping | None = None,
) -> RigCurve:
    """Measure doublings along a second parameter.

    The doublings are those of the rest state, found by the amplitude condition (HYBRID 31).
    The first value lies near that of `doubling`; each point starts from its neighbours (extrapolated once there are
    two) and takes over the Jacobian. amplitude: rms, in units of the controlled input. The parameter at which the
    motion has this amplitude differs from the doubling by its square; half of it is measured too, and both are
    extrapolated to zero, A = (4 A(h/2) - A(h))/3.
    """
    experiment.check(second)
    before, began = dict(experiment.values), experiment.measurements
    found: list[RigBifurcation] = []
    passed: list[RigBifurcation] = []
    message, jacobian = "", None
    try:
        for value in values:
            spent = experiment.measurements
            # The next point begins with the larger amplitude, so that motion is passed on.
            start = _extrapolated(passed, second, float(value)) if passed else doubling
            try:
                large, outcome = doubling_at_amplitude(
                    experiment, start, amplitude, values={second: float(value)}, stepping=stepping, jacobian=jacobian
                )
                small, _ = doubling_at_amplitude(
                    experiment, large, amplitude / 2, stepping=stepping, jacobian=outcome.jacobian
                )
            except RigError as problem:
                message = f"Ended at {second} = {value:.5g}: {problem}"
                break
            jacobian = outcome.jacobian
            passed.append(large)
            found.append(
                replace(
                    small,
                    value=(4 * small.value - large.value) / 3,
                    deviation=float(np.hypot(4 * small.deviation, large.deviation) / 3),
                    method=f"amplitudes {amplitude:g} and {amplitude / 2:g}",
                    measurements=experiment.measurements - spent,
                )
            )
    finally:
        experiment.values = before
    if not found:
        raise RigError(f"No doubling along {second}: {message}")
    return RigCurve(
        "period doubling", doubling.parameter, second, tuple(found), experiment.measurements - began, message
    )


def _extrapolated(found: list[RigBifurcation], second: str, value: float) -> RigBifurcation:
    """Extrapolate a guess from the last two points.

    The guess is for the next value of the second parameter.
    """
    if len(found) < 2:
        return found[-1]
    a, b = found[-2:]
    weight = (value - b.values[second]) / (b.values[second] - a.values[second])
    demands = {
        name: FourierSeries(
            series.frequency, series.coefficients + weight * (series.coefficients - a.demands[name].coefficients)
        )
        for name, series in b.demands.items()
    }
    return replace(b, value=b.value + weight * (b.value - a.value), demands=demands)


@dataclass
class _FoldWalk:
    """Short continuations across a fold.

    Each begins with the points of the one before.
    """

    experiment: Experiment
    parameter: str
    stepping: RigStepping
    points: list[RigPoint] = field(default_factory=list)

    def cross(self, scale: float, add_modes: bool) -> RigBifurcation:
        """Trace the branch across the fold.

        Two points are brought to the present parameters along the old chord, then the branch is traced past the fold.
        """
        family = RigFamily(self.experiment, self.parameter, scale, self.stepping.difference)
        first, second = self.points[:2]
        chord = resized(second.z, self.experiment) - resized(first.z, self.experiment)
        weights = 1.0 / family.scale**2
        row = chord * weights / np.sqrt(np.sum(chord**2 * weights))
        started, jacobian = [], first.jacobian
        for old in (first, second):
            z = resized(old.z, self.experiment)
            spent = self.experiment.measurements
            if jacobian.shape[1] != z.size:
                jacobian = family.jacobian(z)
            outcome = solved(family, z, row, float(row @ z), jacobian, self.stepping)
            if outcome.z is None:
                jacobian = family.jacobian(z)
                outcome = solved(family, z, row, float(row @ z), jacobian, self.stepping)
            if outcome.z is None:
                raise RigError(f"The branch could not be taken up again: {outcome.message}")
            jacobian = outcome.jacobian
            started.append(made_point(family, outcome, self.experiment.measurements - spent, 0.0))
        length = float(np.sqrt(np.sum((started[1].z - started[0].z) ** 2 * weights)))
        # The predictor needs the distance between the two first points.
        started[1] = replace(started[1], arclength=length)
        points = walk_on(family, started, self.stepping, add_modes, _Passed(AFTER))
        found = folds_of(points, self.parameter, scale)
        if not found:
            raise RigError(f"{len(points)} points along {self.parameter} show no fold.")
        place = found[0].position
        self.points = points[max(place - BEFORE, 0) :]
        return found[0]


@dataclass
class _Passed:
    """Watcher that ends a continuation past a fold.

    When the parameter has turned round and come back over some points.
    """

    after: int
    values: list[float] = field(default_factory=list)

    def __call__(self, point: RigPoint) -> bool:
        self.values.append(point.value)
        steps = np.sign(np.diff(self.values))
        if steps.size <= self.after:
            return False
        return bool((steps[-self.after :] == steps[-1]).all() and (steps[: -self.after] == -steps[-1]).any())


def fold_curve(
    experiment: Experiment,
    branch: RigBranch,
    second: str,
    values: Iterable[float],
    fold: int = 0,
    stepping: RigStepping | None = None,
    add_modes: bool = True,
) -> RigCurve:
    """Measure a fold along a second parameter.

    At each value a short continuation crosses the fold of the measured branch.
    Each continuation begins with two points of the one before, moved to the new parameters across the branch (the
    followed parameter is free there, so a fold that moves does not matter), and carries the Jacobian on. Steps of the
    second parameter should move the motion by no more than a step of the continuation.
    """
    experiment.check(second)
    if not 0 <= fold < len(branch.folds):
        raise RigError(f"The branch has {len(branch.folds)} folds; there is no number {fold} (counted from 0).")
    start = branch.folds[fold].position
    walk = _FoldWalk(
        experiment, branch.parameter, stepping or RigStepping(), list(branch.points[max(start - BEFORE, 0) :])
    )
    if len(walk.points) < 2:
        raise RigError("The branch has too few points next to its fold; follow it further.")
    before, began = dict(experiment.values), experiment.measurements
    found, message = [], ""
    scale = abs(branch.folds[fold].value) or 1.0
    try:
        with experiment.rig:
            for value in values:
                experiment.values = {**experiment.values, second: float(value)}
                spent = experiment.measurements
                try:
                    crossed = walk.cross(scale, add_modes)
                except RigError as problem:
                    message = f"Ended at {second} = {value:.5g}: {problem}"
                    break
                now = {**experiment.values, branch.parameter: crossed.value}
                found.append(replace(crossed, values=now, measurements=experiment.measurements - spent))
    finally:
        experiment.values = before
    if not found:
        raise RigError(f"No fold along {second}: {message}")
    return RigCurve("fold", branch.parameter, second, tuple(found), experiment.measurements - began, message)
