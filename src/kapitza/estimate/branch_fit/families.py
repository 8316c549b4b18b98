"""Branches of one trial of the parameters.

They are started wherever a motion is found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kapitza.base.cures import marked
from kapitza.base.monitor import Interrupted, Silent
from kapitza.continuation import Branch, Stepping, backbone, follow
from kapitza.data import MeasuredBranch
from kapitza.errors import ConvergenceError, KapitzaError, Status
from kapitza.model import Model
from kapitza.orbits import PeriodicOrbit
from kapitza.solve import ByEffort

MOST_STARTS = 5
"""Values of the parameter from which a branch is tried, until one succeeds."""

FEWEST = 12
"""Fewest points of a branch for the spline; a branch with fewer belongs to a motion that could not be followed."""


@dataclass
class Begun:
    """Successful starts of branches.

    The next trial of the parameters starts there, with that motion.
    """

    places: dict[int, tuple[float, PeriodicOrbit]] = field(default_factory=dict)


@dataclass
class Branches:
    """Branches shared by data of one model and range.

    start: state from which motions settle; detect: whether bifurcations are located.
    """

    limits: Any
    start: Any
    detect: bool
    begun: Begun
    known: dict[tuple, Branch] = field(default_factory=dict)

    def of(self, number: int, data: MeasuredBranch, model: Model, step: float) -> Branch:
        """Return the branch of data `number`.

        Steps along it are at most `step`.
        """
        limits = self.limits(data)
        free = data.kind == "backbone"
        # Force and damping change a backbone, not a response: these belong to the key only there.
        key = (model.vector.tobytes(), data.parameter, limits, step, (data.force, data.damping) if free else "")
        if key not in self.known:
            stepping = Stepping(rule=ByEffort(min(0.02, step), 1e-7, step, wanted=6))
            if free:
                found = backbone(
                    model, data.parameter, force=data.force, damping=data.damping, bounds=limits, stepping=stepping,
                    monitor=Silent(),
                )  # fmt: skip
                _not_interrupted(found)
            else:
                found = self._followed(number, data, model, limits, stepping)
            self.known[key] = found
        return self.known[key]

    def _followed(
        self, number: int, data: MeasuredBranch, model: Model, limits: tuple[float, float], stepping: Stepping
    ) -> Branch:
        """Follow the branch in both directions.

        From the first place where a motion is found and can be followed.
        """
        problems: list[str] = []
        for value, start, period, direction in self._starts(number, data, limits):
            settings: dict[str, Any] = {} if period is None else {"period": period}
            try:
                found = follow(
                    model.with_values(**{data.parameter: value}), start, data.parameter, limits, direction=direction,
                    stepping=stepping, monitor=Silent(), detect=self.detect, **settings,
                )  # fmt: skip
            except KapitzaError as problem:
                problems.append(f"{data.parameter} = {value:.5g}: {marked(problem)}")
                continue
            _not_interrupted(found)
            if not data.curve or (len(found) >= FEWEST and float(found.amplitude(data.state).max()) > 0):
                if data.kind == "cycle":
                    # The middle of the branch is farthest from its ends, which may vanish at the next values of the
                    # parameters.
                    place = len(found) // 2
                    self.begun.places[number] = float(found.values[place, 0]), found.orbit(place)
                return found
            problems.append(f"{data.parameter} = {value:.5g}: {found.end_messages[1]}")
        raise ConvergenceError(" ".join(problems[-2:]))

    def _starts(
        self, number: int, data: MeasuredBranch, limits: tuple[float, float]
    ) -> Iterator[tuple[float, Any, float | None, int]]:
        """Yield value, start, period and direction of trials.

        Direction 0 means both.
        """
        if number in self.begun.places:
            value, orbit = self.begun.places[number]
            yield value, orbit, None, 0
        if data.kind != "cycle":
            yield limits[0], self.start, None, 1
            yield limits[1], self.start, None, -1
        # Motions of large amplitude are usually attracting; small ones near a fold or a Hopf point are often unstable.
        order = (
            np.argsort(-np.asarray(data.amplitudes), kind="stable")
            if data.amplitudes is not None
            else np.arange(len(data))
        )
        count = min(MOST_STARTS, order.size)
        for i in order[np.linspace(0, order.size - 1, count).astype(int)]:
            period = None if data.periods is None else float(data.periods[i])
            yield float(data.values[i]), self.start, period, 0


def _not_interrupted(found: Branch) -> None:
    if found.status is Status.INTERRUPTED:
        # Distances from a part of a branch would be wrong, so the fit stops.
        raise Interrupted
