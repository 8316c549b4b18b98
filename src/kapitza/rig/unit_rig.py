"""Functional mock-up unit as a rig.

A black box that is shaken, controlled and measured like an experiment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base import checks
from kapitza.errors import FlowError, RigError, nearest_name
from kapitza.flow import RunningUnit, Unit
from kapitza.rig.demands import Demand
from kapitza.rig.fourier import FourierSeries, commensurate
from kapitza.rig.limits import check_settings
from kapitza.rig.parts import Sensors
from kapitza.rig.protocol import Guarded, PeriodicInput, RigParameter, Samples

Array = NDArray[Any]

MOST_SAMPLES = 10**7
"""Limit of one run: a unit takes some 20 microseconds for a step."""
MOST_MODES_OFF = 1e-6
"""Largest relative deviation of the excitation from a whole multiple of the frequency of the demands."""


@dataclass(frozen=True)
class Shaking:
    """Excitation of an input of a unit.

    The rig feeds amplitude * cos(frequency * t) into the input.
    amplitude, frequency: parameters of the rig, with bounds; the frequency in rad/s.

    Examples
    --------
    >>> import kapitza as kz
    >>> force = kz.rig.RigParameter("B", 0.3, "N", (0.0, 1.0))
    >>> kz.rig.Shaking("f", force, kz.rig.RigParameter("omega", 1.2, "rad/s", (0.5, 3.0))).input
    'f'
    """

    input: str
    amplitude: RigParameter
    frequency: RigParameter

    def __post_init__(self):
        if not self.frequency.bounds[0] > 0:
            raise RigError(f'The frequency "{self.frequency.name}" needs a lower bound above zero, in rad/s.')


@dataclass(frozen=True)
class UnitFeedback:
    """Sampled controller around a unit.

    It feeds one of the unit's outputs back to one of its inputs.

        u = -k1 (y - d) - k2 (y' - d'),   d the demand, held from one sample to the next

    velocity: the output that is y'; "" takes the backward difference of y - d. saturation: largest |u|; limit,
    rate_limit: of the demand.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.rig.UnitFeedback("x", "u", gains=(1.0, 0.8), velocity="v", limit=5.0).output
    'x'
    """

    output: str
    input: str
    gains: tuple[float, float]
    velocity: str = ""
    saturation: float = math.inf
    limit: float = math.inf
    rate_limit: float = math.inf

    def __post_init__(self):
        checks.array("gains (k1, k2)", self.gains, shape=(2,), finite=True, error=RigError)
        for name, value in (
            ("saturation", self.saturation), ("limit", self.limit), ("rate_limit", self.rate_limit),
        ):  # fmt: skip
            checks.number(name, value, above=0, finite=False, error=RigError)


class UnitRig(Guarded):
    """Co-simulation unit as an experiment.

    A unit (FMI 2.0 or 3.0, co-simulation); it is a `Rig`.

    Parameters
    ----------
    unit : Unit
        From `kz.open_unit(path, trusted=True)`.
    shaking : Shaking
        The excitation. The rig makes it, so that its phase is known and goes on when the frequency changes.
    feedback : sequence of UnitFeedback
        Controllers; their outputs are what `follow` demands.
    sample_time : float
        Of controllers, recording and steps of the unit, in s. Inputs are held for a sample; of the excitation its mean
        over the sample, which is right up to (frequency * sample_time)**2 / 12.
    values : mapping
        Start values and parameters of the unit that differ from its own.
    sensors : Sensors
        Noise, quantum, drift and losses that are added to the outputs, as in `SimulatedRig`.
    ramp : float
        Time over which a new demand takes over from the old one, in s.
    seed : int
        Of the noise.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.rig.UnitRig  # UnitRig(kz.open_unit("rig.fmu", trusted=True), Shaking(...), [UnitFeedback(...)])
    <class 'kapitza.rig.unit_rig.UnitRig'>
    """

    def __init__(
        self,
        unit: Unit,
        shaking: Shaking,
        feedback: Sequence[UnitFeedback],
        sample_time: float = 1e-3,
        values: Mapping[str, float] | None = None,
        sensors: Sensors | None = None,
        ramp: float = 0.05,
        seed: int = 0,
    ):
        self.unit, self.shaking, self.feedback = unit, shaking, tuple(feedback)
        if not self.feedback:
            raise RigError("A unit needs a controller to be followed: feedback=[UnitFeedback(output, input, gains)].")
        self._step = checks.number("sample_time (in s, such as 1e-3)", sample_time, above=0, error=RigError)
        ramp = checks.number("ramp", ramp, low=0, high=MOST_SAMPLES * sample_time, error=RigError)
        self._ramp = round(ramp / self._step)
        self._start = checks.table("values", values or {}, error=RigError)
        self.sensors = sensors or Sensors()
        self._random = np.random.default_rng(checks.whole("seed", seed, least=0, most=checks.LARGEST_SEED))
        used = [shaking.input, *(f.input for f in self.feedback)]
        _known("input", used, unit.inputs, unit)
        _known("output", [f.output for f in self.feedback], unit.outputs, unit)
        _known("output", [f.velocity for f in self.feedback if f.velocity], unit.outputs, unit)
        _known("value", list(self._start), [*unit.values, *unit.inputs], unit)
        _known("sensor", [*self.sensors.noise, *self.sensors.quantum, *self.sensors.drift], unit.outputs, unit)
        if len(set(used)) < len(used):
            raise RigError(f"Excitation and controllers share an input ({', '.join(used)}): give each its own.")
        self._values = {p.name: p.value for p in (shaking.amplitude, shaking.frequency)}
        self._running: RunningUnit | None = None
        self._number = 0
        self._rest()

    @property
    def inputs(self) -> tuple[PeriodicInput, ...]:
        units = self.unit.units
        return tuple(
            PeriodicInput(f.output, units.get(f.output, ""), f.limit, f.rate_limit, f.output) for f in self.feedback
        )

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.unit.outputs

    @property
    def parameters(self) -> tuple[RigParameter, ...]:
        parts = (self.shaking.amplitude, self.shaking.frequency)
        return tuple(replace(p, value=self._values[p.name]) for p in parts)

    @property
    def sample_time(self) -> float:
        return self._step

    def _rest(self) -> None:
        if self._running is not None:
            self._running.close()
        self._running, self._time = None, 0.0
        self._demands: dict[str, Demand] = {}
        self._errors = [math.nan] * len(self.feedback)
        self._drifts = dict.fromkeys(self.sensors.drift, 0.0)

    def stop(self) -> None:
        """End the unit.

        `set` starts it again from its start values.
        """
        self._rest()

    def set(self, demands: Mapping[str, FourierSeries], **parameters: float) -> None:
        check_settings(self, demands, parameters)
        values = {**self._values, **{k: float(v) for k, v in parameters.items()}}
        old = next((d.series.frequency for d in self._demands.values()), None)
        frequency = next((s.frequency for s in demands.values()), old)
        if frequency is None:
            raise RigError("Nothing was demanded of this rig yet: set at least one periodic demand.")
        ratio = values[self.shaking.frequency.name] / frequency
        if round(ratio) < 1 or abs(ratio - round(ratio)) > MOST_MODES_OFF * ratio:
            raise RigError(
                f"The excitation has {ratio * frequency:.6g} rad/s, the demands {frequency:.6g} rad/s: "
                "the first must be a whole multiple of the second."
            )
        missing = [f.output for f in self.feedback if f.output not in demands and old not in (None, frequency)]
        if missing:
            raise RigError(f'The frequency changes, so the demand for "{missing[0]}" must be given again.')
        moves = old is not None and not commensurate(old, frequency)
        if moves and old is not None:
            self._time *= old / frequency  # the phase goes on, not the time
        self._values = values
        for part in self.inputs:
            before = self._demands.get(part.name, Demand(FourierSeries.zero(frequency)))
            before = before.with_frequency(frequency) if moves else before
            series = demands.get(part.name, before.series)
            changed = before.replaced(series, self._number, part.rate_limit, self._ramp, self._step)
            self._demands[part.name] = changed if part.name in demands else before
        if self._running is None:
            inputs = [self.shaking.input, *(f.input for f in self.feedback)]
            self._running = RunningUnit(self.unit, self._start, inputs, self.unit.outputs)

    def run(self, samples: int) -> Samples:
        if self._running is None:
            raise RigError("The rig is in its safe state: set demands before it runs.")
        count = checks.whole("samples", samples, least=1, most=MOST_SAMPLES, error=RigError)
        frequency = next(iter(self._demands.values())).series.frequency
        times = self._time + self._step * np.arange(count)
        numbers = self._number + np.arange(count, dtype=float)
        lost = self._random.random(count) < self.sensors.drop if self.sensors.drop else np.zeros(count, bool)
        added = self._sensor_errors(count)
        try:
            values, control, saturated = self._advance(self._running, times, numbers, added, lost)
        except FlowError as error:
            self.stop()
            raise RigError(f"The unit was stopped: {error}") from None
        first, self._number, self._time = self._number, self._number + count, float(times[-1] + self._step)
        changing = any(d.arrives > self._number for d in self._demands.values())
        return Samples(first, frequency * times, values, control, lost, saturated, changing)

    def _excitation(self, times: Array) -> Array:
        """Return sample means (N,) of a cos(w t)."""
        w, a = self._values[self.shaking.frequency.name], self._values[self.shaking.amplitude.name]
        return a * (np.sin(w * (times + self._step)) - np.sin(w * times)) / (w * self._step)

    def _sensor_errors(self, count: int) -> Array:
        """Return noise and drift (N, outputs)."""
        added = np.zeros((count, len(self.outputs)))
        for name, deviation in self.sensors.noise.items():
            added[:, self.outputs.index(name)] += deviation * self._random.standard_normal(count)
        for name, deviation in self.sensors.drift.items():
            steps = deviation * math.sqrt(self._step) * self._random.standard_normal(count)
            walk = self._drifts[name] + np.cumsum(steps)
            self._drifts[name] = float(walk[-1])
            added[:, self.outputs.index(name)] += walk
        return added

    def _advance(
        self, running: RunningUnit, times: Array, numbers: Array, added: Array, lost: NDArray[np.bool_]
    ) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Step through the samples.

        Read, control, hold. A unit can only be advanced one step after the other.
        """
        count = len(times)
        shaken, noise, gone = self._excitation(times).tolist(), added.tolist(), lost.tolist()
        places = [
            (self.outputs.index(f.output), self.outputs.index(f.velocity) if f.velocity else -1) for f in self.feedback
        ]
        targets = [self._demands[f.output].values(times, numbers, self._step).tolist() for f in self.feedback]
        quanta = [self.sensors.quantum.get(name, 0.0) for name in self.outputs]
        readings: list[list[float]] = []
        control = np.zeros((count, len(self.feedback)))
        saturated = np.zeros(count, bool)
        held = [0.0] * len(self.feedback)
        for k in range(count):
            row = [r + e for r, e in zip(running.read(), noise[k], strict=True)]
            row = [q * round(r / q) if q else r for r, q in zip(row, quanta, strict=True)]
            for i, part in enumerate(self.feedback):
                if gone[k]:
                    continue  # the control of the sample before is held
                error = row[places[i][0]] - targets[i][k][0]
                # The first sample has no earlier error: its rate counts as zero.
                before = error if math.isnan(self._errors[i]) else self._errors[i]
                slope = row[places[i][1]] - targets[i][k][1] if places[i][1] >= 0 else (error - before) / self._step
                self._errors[i] = error
                wanted = -part.gains[0] * error - part.gains[1] * slope
                held[i] = min(max(wanted, -part.saturation), part.saturation)
                saturated[k] |= held[i] != wanted
            control[k] = held
            readings.append(row)
            running.advance([shaken[k], *held], self._step)
        values = np.array(readings)
        if not np.isfinite(values).all():
            raise FlowError("its outputs are no longer finite.")
        values[lost] = np.nan
        return values, control, saturated


def _known(what: str, names: Sequence[str], known: Sequence[str], unit: Unit) -> None:
    for name in names:
        if name not in known:
            raise RigError(
                f'The unit "{unit.name}" has no {what} "{checks.printable(str(name))}".{nearest_name(name, known)} '
                f"It has: {', '.join(known) or 'none'}."
            )
