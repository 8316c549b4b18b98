"""Rigs simulated from a model.

They have sampled controllers, held control, delays, actuators and imperfect sensors.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base import checks
from kapitza.errors import FlowError, RigError, RigLimitError
from kapitza.flow import Stepper
from kapitza.model import Expression, Model, compile_expressions
from kapitza.model import time as time_symbol
from kapitza.rig.demands import RESERVE, Demand
from kapitza.rig.fourier import FourierSeries, commensurate
from kapitza.rig.limits import check_settings
from kapitza.rig.parts import Driven, Feedback, Sensors
from kapitza.rig.plant import DEGREE, build_plant
from kapitza.rig.protocol import Guarded, PeriodicInput, RigParameter, Samples

Array = NDArray[Any]

MOST_SAMPLES = 10**8
MOST_HELD = 10**6
"""Limits of one run and of the memory of a controller, in samples."""
FASTEST = 0.5
"""Largest phase per sample of the highest mode of a demand: beyond, its polynomial over a sample loses digits."""


class SimulatedRig(Guarded):
    """Experiment computed from a model.

    It is a `Rig`.

    Parameters
    ----------
    model : Model
        The whole system. Coordinates in `driven` are moved by actuators instead of their own equation, those in
        `feedback` get a sampled controller.
    outputs : mapping
        Further outputs as expressions, such as the force on the actuator; highest derivatives may occur.
    adjustable : names
        Parameters of the model that `set` may change (an amplitude, a frequency).
    sample_time : float
        Of controller and recording, in s. The control is held between samples (zero-order hold); a delay need not be a
        whole number of samples.
    ramp : float
        Time over which a new demand takes over from the old one, in s (longer where the rate limit requires it).
    rest : mapping
        State of the rig before it is started and after it is stopped (default: zero).
    seed : int
        Of the noise of the sensors.

    Notes
    -----
    Each sample is a Taylor step of the model with constant control, so a delay is a shift of held values and no delay
    equation is solved. `stop` brings the simulated rig to rest.
    """

    def __init__(
        self,
        model: Model,
        driven: Sequence[Driven] = (),
        feedback: Sequence[Feedback] = (),
        outputs: Mapping[str, str | Expression] | None = None,
        adjustable: Sequence[str] = (),
        sample_time: float = 1e-3,
        sensors: Sensors | None = None,
        ramp: float = 0.05,
        rest: Mapping[str, float] | None = None,
        seed: int = 0,
    ):
        sample_time = checks.number("sample_time (in s, such as 1e-3)", sample_time, above=0, error=RigError)
        ramp = checks.number("ramp", ramp, low=0, high=MOST_SAMPLES * sample_time, error=RigError)
        seed = checks.whole("seed", seed, least=0, most=checks.LARGEST_SEED, error=RigError)
        self.driven, self.feedback = tuple(driven), tuple(feedback)
        if any(f.delay > MOST_HELD * sample_time for f in self.feedback):
            raise RigError(f"The delay of a controller is longer than {MOST_HELD} samples of {sample_time:g} s.")
        self.sensors = sensors or Sensors()
        self.plant = build_plant(model, self.driven, self.feedback, outputs or {})
        self._step, self._ramp = float(sample_time), max(0, round(ramp / sample_time))
        units = {c.name: c.unit for c in model.coordinates}
        self._inputs = tuple(
            PeriodicInput(d.coordinate, units[d.coordinate], d.limit, d.rate_limit) for d in self.driven
        ) + tuple(
            PeriodicInput(f.coordinate, units[f.coordinate], f.limit, f.rate_limit, f.coordinate) for f in self.feedback
        )
        unknown = {*self.sensors.noise, *self.sensors.quantum, *self.sensors.drift} - {
            *self.plant.outputs,
            *self.plant.model.states,
        }
        if unknown:
            raise RigError(f'Sensors name "{min(unknown)}", which is not an output: {", ".join(self.plant.outputs)}.')
        for name in adjustable:
            model.check(name)
        self._adjustable = tuple(adjustable)
        self._values = dict(zip(self.plant.model.names, self.plant.model.vector, strict=True))
        self._stepper = Stepper(self.plant.model, self.plant.held)
        readings = [self.plant.model.structure.outputs[name] for name in self.plant.outputs]
        constants = [n for n in self.plant.model.names if n not in self.plant.held]
        self._read = compile_expressions(readings, (*self.plant.model.states, "t", *self.plant.held), constants)
        self._constants = constants
        self._random = np.random.default_rng(seed)
        self._checked: tuple[float, ...] = ()
        self._at_rest = self.plant.model.state(dict(rest or {}))
        self._rest()

    @property
    def inputs(self) -> tuple[PeriodicInput, ...]:
        return self._inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.plant.outputs

    @property
    def parameters(self) -> tuple[RigParameter, ...]:
        described = {p.name: p for p in self.plant.model.parameters}
        return tuple(
            RigParameter(name, self._values[name], described[name].unit, described[name].bounds)
            for name in self._adjustable
        )

    @property
    def sample_time(self) -> float:
        return self._step

    @property
    def time(self) -> float:
        """Seconds that the rig has run."""
        return self._number * self._step

    def _rest(self) -> None:
        self._number, self._time = 0, 0.0
        self._demands: dict[str, Demand] = {}
        self._own_frequency: float | None = None
        self._state = self._at_rest.copy()
        self._sent = [[0.0] * (math.floor(f.delay / self._step) + 2) for f in self.feedback]
        self._error = [0.0] * len(self.feedback)
        self._drifts = dict.fromkeys(self.sensors.drift, 0.0)

    def stop(self) -> None:
        """Bring the rig to rest.

        Control is off and demands go to zero; `set` starts it again.
        """
        number = self._number
        self._rest()
        self._number = number

    def set(self, demands: Mapping[str, FourierSeries], **parameters: float) -> None:
        check_settings(self, demands, parameters)
        values = {**self._values, **{k: float(v) for k, v in parameters.items()}}
        own = self._excitation_frequency(values)
        frequency = next((s.frequency for s in demands.values()), own or self._frequency())
        if frequency is None:
            raise RigError("Nothing was demanded of this rig yet: set at least one periodic demand.")
        moved = {d.coordinate for d in self.driven}
        for name, series in demands.items():
            fastest = series.frequency * series.modes * self._step
            if name in moved and fastest > FASTEST and np.any(series.coefficients[1:]):
                raise RigError(
                    f'The demand for "{name}" has {series.modes} modes of {series.frequency:g} rad/s: {fastest:.2g} '
                    f"rad per sample of {self._step:g} s; at most {FASTEST} rad can be followed."
                )
        self._check_excitation(frequency, values)
        old = self._frequency()
        self._check_rates(demands, frequency, old)
        if old is not None and not commensurate(old, frequency):
            self._time *= old / frequency  # the phase goes on, not the time
        self._values, self._own_frequency = values, own
        for part in self._inputs:
            current = self._demands.get(part.name)
            series = demands.get(part.name)
            if series is None:
                if current is None:
                    self._demands[part.name] = Demand(FourierSeries.zero(frequency))
                elif current.series.frequency != frequency and not np.any(current.series.coefficients[1:]):
                    self._demands[part.name] = Demand(FourierSeries(frequency, current.series.coefficients))
                elif current.series.frequency != frequency:
                    raise RigError(f'The frequency changes, so the demand for "{part.name}" must be given again.')
                continue
            before = Demand(FourierSeries.zero(frequency)) if current is None else current
            if old is not None and not commensurate(old, frequency):
                before = before.with_frequency(frequency)
            self._demands[part.name] = before.replaced(series, self._number, part.rate_limit, self._ramp, self._step)
        self._stepper.load(np.array([values[n] for n in self.plant.model.names]))

    def _check_rates(self, demands: Mapping[str, FourierSeries], frequency: float, old: float | None) -> None:
        """Refuse changes beyond the rate limit.

        A change needs some of the rate limit for itself, and the replaced demand may be faster at a new frequency.
        """
        for part in self._inputs:
            series, current = demands.get(part.name), self._demands.get(part.name)
            if series is None or not math.isfinite(part.rate_limit):
                continue
            passed = [series]
            if current is not None and old is not None and not commensurate(old, frequency):
                passed.append(FourierSeries(frequency, current.series.coefficients))
                if current.arrives > self._number:
                    raise RigError(
                        f'The demand for "{part.name}" is still changing: let the rig run for '
                        f"{math.ceil(current.arrives - self._number)} samples before its frequency changes too."
                    )
            fastest, allowed = max(s.peak(1) for s in passed), (1 - RESERVE) * part.rate_limit
            if fastest > allowed:
                unit = f" {part.unit}/s" if part.unit else "/s"
                raise RigLimitError(
                    f'The change to the new demand for "{part.name}" reaches a rate of {fastest:.4g}{unit}, '
                    f"{100 * RESERVE:g} % below the limit of {part.rate_limit:.4g}{unit} are needed for the change "
                    "itself: nothing was sent to the rig. Stay inside, or change the frequency in smaller steps."
                )

    def _frequency(self) -> float | None:
        return next((d.series.frequency for d in self._demands.values()), self._own_frequency)

    def _excitation_frequency(self, values: Mapping[str, float]) -> float | None:
        """Return the frequency of the model's excitation.

        The rig has no inputs; the frequency is that at these values.
        """
        if self._inputs or self.plant.model.excitation is None:
            return None
        period = self.plant.model.with_values(**{n: values[n] for n in self._adjustable}).period
        return None if period is None else 2 * np.pi / period

    def _check_excitation(self, frequency: float, values: Mapping[str, float]) -> None:
        here = (frequency, *(values[n] for n in self._adjustable))
        if here == self._checked:
            return
        model = self.plant.model.with_values(**{n: values[n] for n in self._adjustable})
        period = model.period if model.excitation else None
        forced = period is not None and not model.structure.is_autonomous and self._driven_by_time()
        ratio = 2 * np.pi / frequency / period if period is not None else 1.0
        if forced and abs(ratio - round(ratio)) > 1e-6 * ratio:
            raise RigError(
                f"The demands repeat after {2 * np.pi / frequency:.6g} s, the excitation of the rig after "
                f"{period:.6g} s: the first must be a whole multiple of the second."
            )
        self._checked = here

    def _driven_by_time(self) -> bool:
        """Return whether the model depends on time.

        The dependence must be in the model itself, not only in the demands.
        """
        knots = {"sample_time_now"}
        return any(
            e.has(time_symbol) and not ({s.name for s in e.free_symbols} & knots) for e in self.plant.model.equations
        ) or (not self.driven)

    def run(self, samples: int) -> Samples:
        frequency = self._frequency()
        if frequency is None:
            raise RigError("The rig is in its safe state: set demands before it runs.")
        count = checks.whole("samples", samples, least=1, most=MOST_SAMPLES, error=RigError)
        # Time modulo the period: phases keep their digits in long runs.
        self._time = math.fmod(
            self._time, max((d.longest_period() for d in self._demands.values()), default=2 * np.pi / frequency)
        )
        times = self._time + self._step * np.arange(count)
        numbers = self._number + np.arange(count, dtype=float)
        lost = self._random.random(count) < self.sensors.drop if self.sensors.drop else np.zeros(count, bool)
        added = self._sensor_errors(count)
        rows = self._rows(times, numbers)
        try:
            states, applied, saturated = self._advance(times, numbers, rows, added, lost)
        except FlowError as error:
            self.stop()
            raise RigError(f"The simulated rig ran away and was stopped: {error}") from None
        values = self._readings(states, times, rows, added)
        values[lost] = np.nan
        first, self._number, self._time = self._number, self._number + count, float(times[-1] + self._step)
        changing = any(d.arrives > self._number for d in self._demands.values())
        return Samples(first, frequency * times, values, applied, lost, saturated, changing)

    def _sensor_errors(self, count: int) -> dict[str, Array]:
        """Return noise and drift of each output, (N,)."""
        added: dict[str, Array] = {}
        for name, deviation in self.sensors.noise.items():
            added[name] = deviation * self._random.standard_normal(count)
        for name, deviation in self.sensors.drift.items():
            # A random walk with this deviation after one second.
            walk = deviation * math.sqrt(self._step) * np.cumsum(self._random.standard_normal(count))
            walk += self._drifts[name]
            self._drifts[name] = float(walk[-1])
            added[name] = added.get(name, 0.0) + walk
        return added

    def _rows(self, times: Array, numbers: Array) -> Array:
        """Return the held parameters of the plant.

        (N, held) values; the controls are filled in while running.
        """
        rows = np.zeros((len(times), len(self.plant.held)))
        if self.driven:
            at = len(self.feedback)
            rows[:, at] = times
            for j, part in enumerate(self.driven):
                delay = part.actuator.delay
                demand = self._demands[part.coordinate]
                first = at + 1 + j * (DEGREE + 1)
                rows[:, first : first + DEGREE + 1] = demand.taylor(
                    times - delay, numbers - delay / self._step, self._step, DEGREE
                )
        return rows

    def _advance(
        self, times: Array, numbers: Array, rows: Array, added: Mapping[str, Array], lost: NDArray[np.bool_]
    ) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Step through the samples: read, control, hold."""
        stepper, count, step = self._stepper, len(times), self._step
        saturated = np.zeros(count, bool)
        loops = [_Loop(self, i, times, numbers, added) for i in range(len(self.feedback))]
        stretches = _stretches(self.feedback, step)
        gone = lost.tolist()
        stepper.begin(self._state, float(times[0]))
        # Through memory views: looking at a few numbers in an array costs more than the Taylor step.
        state, advance, seen = stepper.view, stepper.step, array("d")
        raw = state.cast("B")
        width = rows.shape[1]
        held: Any = rows.ravel().data
        try:
            for k in range(count):
                seen.frombytes(raw)
                for loop in loops:
                    if loop.read(k, state, gone[k]):
                        saturated[k] = True
                row = held[k * width : (k + 1) * width]
                for length, ages in stretches:
                    for i, loop in enumerate(loops):
                        row[i] = loop.sent[ages[i]]
                    advance(row, length)
        finally:
            stepper.release()
        states = np.frombuffer(seen).reshape(count, stepper.size)
        for i, loop in enumerate(loops):
            # The outputs at a sample use the control that holds from that instant on.
            rows[:, i] = loop.held(stretches[0][1][i], count)
        applied = np.zeros((count, len(loops)))
        for length, ages in stretches:
            applied += (
                length
                / step
                * np.column_stack([loop.held(ages[i], count) for i, loop in enumerate(loops)] or [applied])
            )
        self._state = stepper.state.copy()
        if not np.isfinite(self._state).all():
            raise FlowError(f"the state is no longer finite after {self.time:.4g} s.")
        for i, loop in enumerate(loops):
            self._sent[i] = loop.sent[-len(self._sent[i]) :]
            self._error[i] = loop.error
        return states, applied, saturated

    def _readings(self, states: Array, times: Array, rows: Array, added: Mapping[str, Array]) -> Array:
        values = np.concatenate((states, times[:, None], rows), axis=1)
        constants = np.array([self._values[n] for n in self._constants])
        readings = self._read(np.ascontiguousarray(values.T), constants).T.copy()
        for i, name in enumerate(self.outputs):
            if name in added:
                readings[:, i] += added[name]
            quantum = self.sensors.quantum.get(name, 0.0)
            if quantum:
                readings[:, i] = quantum * np.round(readings[:, i] / quantum)
        return readings


class _Loop:
    """One controller over a stretch of samples."""

    def __init__(self, rig: SimulatedRig, index: int, times: Array, numbers: Array, added: Mapping[str, Array]):
        part = rig.feedback[index]
        name = part.coordinate
        states = rig.plant.model.states
        self.position, self.velocity = states.index(name), states.index(name + "'")
        self.gain, self.damping = part.gains
        self.saturation, self.step = part.saturation, rig.sample_time
        self.by_sensor = part.velocity == "sensor"
        demand = rig._demands[name].values(times, numbers, rig.sample_time)
        self.target, self.speed = demand[:, 0].tolist(), demand[:, 1].tolist()
        nothing = np.zeros(len(times))
        self.noise = added.get(name, nothing).tolist()
        self.speed_noise = added.get(name + "'", nothing).tolist()
        self.quantum = rig.sensors.quantum.get(name, 0.0)
        self.sent: list[float] = list(rig._sent[index])
        self.error = rig._error[index]

    def read(self, k: int, state: memoryview[Any], lost: bool) -> bool:
        """Read the sensor and send the control.

        Returns True when it saturates.
        """
        if lost:
            self.sent.append(self.sent[-1])
            return False
        reading = state[self.position] + self.noise[k]
        if self.quantum:
            reading = self.quantum * round(reading / self.quantum)
        error = reading - self.target[k]
        if self.by_sensor:
            slope = state[self.velocity] + self.speed_noise[k] - self.speed[k]
        else:
            # The difference of the error, not of the angle: beside the exact rate of the demand that would be half a
            # sample late and put folds 0.8 % off.
            slope = (error - self.error) / self.step
        self.error = error
        control = -self.gain * error - self.damping * slope
        if control > self.saturation or control < -self.saturation:
            self.sent.append(math.copysign(self.saturation, control))
            return True
        self.sent.append(control)
        return False

    def held(self, age: int, count: int) -> Array:
        """Return the held commands of a stretch.

        (N,) what was sent so many samples (counted from the end, -1 the newest) before each one.
        """
        last = len(self.sent) + 1 + age
        return np.array(self.sent[last - count : last])


def _stretches(feedback: Sequence[Feedback], step: float) -> list[tuple[float, list[int]]]:
    """Cut a sample where a held value changes.

    (length, which command each loop holds) per stretch.
    Commands are counted from the newest, -1, backwards.
    """
    delays = [f.delay / step for f in feedback]
    whole = [math.floor(d + 1e-9) for d in delays]
    parts = [max(d - w, 0.0) if d - w > 1e-9 else 0.0 for d, w in zip(delays, whole, strict=True)]
    # A held value that changes inside a Taylor step would give wrong states without an error.
    cuts = sorted({0.0, *parts, 1.0})
    found = []
    for begin, end in pairwise(cuts):
        ages = [-1 - w - (1 if begin < p else 0) for w, p in zip(whole, parts, strict=True)]
        found.append(((end - begin) * step, ages))
    return found
