"""The branches of one trial of the parameters, begun wherever a motion is found."""

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
"""Values of the parameter from which a branch is begun, until one gives it."""

FEWEST = 12
"""Points of a curve through which a spline can be laid; fewer are those of a motion that could not be followed."""


@dataclass
class Begun:
    """Where branches were begun with success: the next trial of the parameters begins there, with that motion."""

    places: dict[int, tuple[float, PeriodicOrbit]] = field(default_factory=dict)


@dataclass
class Branches:
    """Data of one model and range share their branch. start: state from which motions settle; detect: bifurcations."""

    limits: Any
    start: Any
    detect: bool
    begun: Begun
    known: dict[tuple, Branch] = field(default_factory=dict)

    def of(self, number: int, data: MeasuredBranch, model: Model, step: float) -> Branch:
        """The branch for data number `number`, with steps of at most `step`."""
        limits = self.limits(data)
        free = data.kind == "backbone"
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
        """Followed in both directions from the first place where a motion is found and can be followed."""
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
                    place = len(found) // 2
                    self.begun.places[number] = float(found.values[place, 0]), found.orbit(place)
                return found
            problems.append(f"{data.parameter} = {value:.5g}: {found.end_messages[1]}")
        raise ConvergenceError(" ".join(problems[-2:]))

    def _starts(
        self, number: int, data: MeasuredBranch, limits: tuple[float, float]
    ) -> Iterator[tuple[float, Any, float | None, int]]:
        """Values of the parameter, what to begin with, the period, and the direction (0: both)."""
        if number in self.begun.places:
            value, orbit = self.begun.places[number]
            yield value, orbit, None, 0
        if data.kind != "cycle":
            yield limits[0], self.start, None, 1
            yield limits[1], self.start, None, -1
        # Large motions are those that others settle on; small ones beside a fold or a Hopf point are often unstable.
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
        # A part of a branch is not an answer of the model: the fit stops with it.
        raise Interrupted
