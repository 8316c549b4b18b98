"""Setup of a shooting fit.

The setup holds the request, the data, and the numbers it starts from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kapitza.base.arrays import Array, Flags, Indices
from kapitza.base.cures import Give
from kapitza.data import is_number
from kapitza.errors import DataError, ModelError, nearest_name
from kapitza.estimate.drives import check_signals
from kapitza.estimate.observation import Observation, observe
from kapitza.estimate.request import Request, Task
from kapitza.estimate.shooting_fit.impacts import in_flight
from kapitza.estimate.shooting_fit.noise import SensorNoise, noise_of_sensors
from kapitza.estimate.shooting_fit.pieces import Samples, bridged_segments, gather
from kapitza.estimate.shooting_fit.start import sizes, states_from_data
from kapitza.estimate.shooting_fit.sweep import MotionProblem
from kapitza.flow import Flow
from kapitza.model import Model

if TYPE_CHECKING:
    from kapitza.estimate.shooting_fit.fit import ShootingFit

WHO = "ShootingFit"

FLOW_TOLERANCE = 1e-13
"""Tolerance of the integration: far below any noise, and a third cheaper than one at rounding."""


@dataclass(frozen=True)
class Step:
    """Jump of the offset of a channel.

    channel and record are numbers, time [s] is that of the first sample after the jump.
    """

    channel: int
    record: int
    time: float
    size: float
    error: float = float("nan")


@dataclass(frozen=True)
class MotionTask(Task):
    """Request and starting values of a fit.

    states: (N, n) at the samples; known: (n,) which of them the data gave at every sample;
    hidden: (n,) which they gave at none; scale: (n,) size of each state.
    everything: all samples, those held back included; positions: (N,) positions in it of the samples fitted.
    outliers: (N, c) samples that the fit left out because they are far from the motion, None for none.
    steps: of the sensors, subtracted from the samples.
    """

    settings: ShootingFit
    problem: MotionProblem
    states: Array
    known: Flags
    hidden: Flags
    scale: Array
    sensors: SensorNoise
    everything: Samples
    positions: Indices
    outliers: Flags | None = None
    steps: tuple[Step, ...] = ()

    @property
    def observation(self) -> Observation:
        return self.problem.observation

    @property
    def fitted(self) -> int:
        """Return the number of fitted values.

        It counts initial states of the pieces, parameters, and steps of the sensors.
        """
        return self.scale.size * len(self.problem.samples.pieces) + len(self.names) + len(self.steps)

    @property
    def doubtful_bridges(self) -> str:
        """Sentence about bridged segments.

        They were taken as one motion; reported where the motion does not fit.
        """
        count = bridged_segments(self.request.records, self.settings.max_gap, self.settings.bridge)
        if not count:
            return ""
        gaps = "1 gap" if count == 1 else f"{count} gaps"
        return (
            f" The motion is carried over {gaps} between segments: if these are separate trials, {Give(bridge=False)}."
        )


def prepare(method: ShootingFit, request: Request) -> MotionTask:
    """Check a request and set up the fit."""
    request.require_start()
    model, names = request.model, request.names
    data = request.records
    records = [record for record, _ in data]
    for record in records:
        check_signals(model, record)
    observation = observe(model, records, request.outputs, names)
    everything = gather(model, data, observation, method.max_gap, method.robust, method.bridge)
    # Noise is guessed from all samples, those held back included.
    everything, sensors = noise_of_sensors(everything, observation, [part.noise for part in request.parts])
    positions = _positions(everything, method.hold_back)
    if positions.size < 2:
        raise DataError(
            f"Only {positions.size} of {everything.size} samples are left to fit: hold back less, or record longer."
        )
    samples = everything if positions.size == everything.size else everything.choose(positions)
    states, seen, flights = states_from_data(model, samples, observation)
    # Nodes close to an impact would start on the wrong side of it.
    if flights is not None:
        samples, flying = in_flight(model, samples, observation, flights)
        positions, states, seen = positions[flying], states[flying], seen[flying] | ~flights.free[flying, None]
    scale = sizes(model, samples, states, seen)
    problem = MotionProblem(
        flow=Flow(model, wrt=names, tolerance=FLOW_TOLERANCE),
        samples=samples,
        observation=observation,
        columns=np.array([model.names.index(name) for name in names], np.intp),
        angles=np.array(model.angles),
        priors=request.priors,
    )
    if method.initial:
        problem = replace(problem, **_held(model, method.initial, scale, len(records)))
    # A state counts as known only if it is known at every sample.
    known = np.asarray(seen.all(axis=0))
    return MotionTask(
        request, method, problem, states, known, np.asarray(~seen.any(axis=0)), scale, sensors, everything, positions
    )


def _positions(samples: Samples, hold_back: float) -> Indices:
    """Return the positions of the samples to fit.

    They are all of each record but its end.
    """
    count = np.bincount(samples.record)
    first = np.concatenate([[0], np.cumsum(count)[:-1]])
    fitted = count - np.round(hold_back * count).astype(int)
    return np.flatnonzero(np.arange(samples.size) - first[samples.record] < fitted[samples.record])


def _held(
    model: Model, initial: Mapping[str, float] | Sequence[Mapping[str, float]], scale: Array, records: int
) -> dict[str, Array]:
    """Return known first states and their weights.

    Both are (R, n); they tie the first state of each record.
    """
    each = [initial] * records if isinstance(initial, Mapping) else list(initial)
    if len(each) != records:
        raise ModelError(f"initial holds {len(each)} states for {records} records: give one mapping for each.")
    for state in each:
        check_initial(model, state)
    state = np.array([[own.get(name, 0.0) for name in model.states] for own in each])
    # A deviation of 1e-8 of the size: a constraint in practice.
    weight = np.array([[1e16 if name in own else 0.0 for name in model.states] for own in each]) / scale**2
    return {"held_state": state, "held_weight": weight}


def check_initial(model: Model, initial: Mapping[str, float]) -> None:
    if not isinstance(initial, Mapping):
        raise ModelError(f"The initial state {initial} must be given by name: {{{model.states[0]!r}: 1.0, ...}}.")
    for name, value in initial.items():
        if name not in model.states:
            raise ModelError(
                f'initial names "{name}", not a state of {model.name}: {", ".join(model.states)}.'
                + nearest_name(name, model.states)
            )
        if not is_number(value):
            raise ModelError(f"The initial state {name} = {value} is not a finite number: leave it out if unknown.")
