"""Motions and information of many experiments.

They are computed at many parameter values.
The sensitivity of a measured value h(x(t), θ) to the state x₀ at the start of a window and to θ is
[∂h/∂x·J, ∂h/∂x·S + ∂h/∂θ].
Rows are divided by the noise; the state is eliminated by a QR factorisation, so it counts as unknown:
F = R₂₂ᵀ R₂₂ with R = qr([rows by x₀, rows by θ]).

In a chaotic run |J| grows until one such elimination is far too optimistic (widths of 1e-12 of the right ones at
1e30). So a window ends where |J| reaches `GROWTH`, and the next has a separate unknown state: F is the sum over
windows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kapitza.base.arrays import Array, Flags
from kapitza.base.cures import Give
from kapitza.base.monitor import checkpoint
from kapitza.errors import DataError, nearest_name
from kapitza.estimate import Observation, observe_channels
from kapitza.flow import Flow
from kapitza.model import Expression, Model, compile_expressions, parse_expression
from kapitza.planning.choice import Choice

GROWTH = 1e7
"""|J| at which a window ends: from 1e6 to 1e8 widths are 1.02-1.13 of the Cramér-Rao bound, from 1e16 on below it."""

MEMBERS = 256
"""Runs that are followed together: 512 runs of 600 samples with their tangents take about 100 MB."""

PER_PERIOD = 24
"""Samples per excitation period at which limits are tested, where the recording has fewer."""

DOUBLINGS = 4
"""Most doublings of the samples that test limits: a constant or jumping state would require ever more."""

SPARSE = 2.0
"""Factor by which samples may be fewer than `PER_PERIOD`: peaks are then missed by 3 %, within the margin of limits."""

TINY = 1e-12
"""Spread of a state below which it is constant."""

TOLERANCE = 1e-10
"""Tolerance of the integration: widths need three digits."""


@dataclass(frozen=True)
class Runs:
    """Runs of C choices at D draws.

    information (C, D, k, k); peaks (C, D, l): largest value of each limited expression; size (C, D): standard
    deviation of the first channel, which separates branches; growth (C, D): largest |J| inside a window.
    Runs that fail (a motion that leaves every bound) are NaN.
    """

    information: Array
    peaks: Array
    size: Array
    growth: Array

    @property
    def failed(self) -> Flags:
        return ~np.isfinite(self.size)


class Runner:
    """Runner of experiments of one model.

    It is compiled once for all settings.
    free: the parameters whose information is wanted. limits: expressions of states, parameters and t in plain
    notation.
    """

    def __init__(
        self, model: Model, free: Sequence[str], limits: Sequence[str] = (), outputs: Mapping[str, str] | None = None
    ):
        if model.is_map:
            raise DataError("Plans are made for models in continuous time; this one is a map.")
        require_parameters(model, free)
        self.model, self.free = model, tuple(free)
        self.flow = Flow(model, wrt=self.free, tolerance=TOLERANCE)
        self._outputs = dict(outputs or {})
        self._observations: dict[tuple[str, ...], Observation] = {}
        self._limited, self._drifts = limited(model, limits)
        # Not model.period: settings may have no value in the model itself.
        self._lasting = model.excitation is None or model.excitation.period is None

    def run(self, choices: Sequence[Choice], draws: Array, most: Array | None = None) -> Runs:
        """Follow every choice at every draw.

        draws: (D, k) of the free parameters. most: (l,) largest values of the limited expressions; a choice that
        exceeds one at any draw gets no information (NaN), which saves its tangents.
        """
        count, k = len(choices), len(self.free)
        shape = (count, len(draws))
        result = Runs(
            np.full((*shape, k, k), np.nan),
            np.full((*shape, len(self._limited)), np.nan),
            np.full(shape, np.nan),
            np.full(shape, np.nan),
        )
        for group in _alike(choices):
            # All draws of a choice are members of one batch.
            per = max(1, MEMBERS // len(draws))
            for first in range(0, len(group), per):
                checkpoint()
                part = group[first : first + per]
                done = self._together([choices[i] for i in part], draws, most)
                for of, to in (
                    (done.information, result.information),
                    (done.peaks, result.peaks),
                    (done.size, result.size),
                    (done.growth, result.growth),
                ):
                    to[part] = of.reshape(len(part), len(draws), *of.shape[1:])
        return result

    def channels(self, choice: Choice) -> tuple[str, ...]:
        """Return the channels of a choice, in `motion` order."""
        return self._observation(choice).channels

    def motion(self, choice: Choice, values: Array) -> tuple[Array, Array]:
        """Return times and noise-free samples of one run.

        They are times (m,) and samples (m, c), at values (k,) of the free parameters.
        """
        vectors = parameter_rows(self.model, self.free, choice, values[None])
        levels = choice.levels[None]
        begin, clock, _ = self._settled(choice, self.model.state(choice.start)[None], levels, vectors)
        times = clock[:, None] + np.arange(choice.samples) * choice.step
        states = self._paths(begin, times, vectors)
        if not np.isfinite(states).all():
            raise DataError(f"The motion of {choice} leaves every bound.")
        return times[0], self._read(self._observation(choice), states, times, vectors)[0]

    def _together(self, choices: Sequence[Choice], draws: Array, most: Array | None) -> Runs:
        """Run choices that differ in numbers alone.

        They are members of one batch; members lead.
        """
        vectors = np.concatenate([parameter_rows(self.model, self.free, choice, draws) for choice in choices])
        starts = np.repeat([self.model.state(choice.start) for choice in choices], len(draws), axis=0)
        one = choices[0]
        levels = np.repeat([choice.levels for choice in choices], len(draws), axis=0)
        begin, clock, peaks = self._settled(one, starts, levels, vectors)
        times = clock[:, None] + np.arange(one.samples) * one.step
        states = self._paths(begin, times, vectors)
        peaks = np.fmax(peaks, self._peaks(states, times, vectors, one))
        lost = np.asarray(~np.isfinite(states).all(axis=(1, 2)))
        followed = ~lost
        if most is not None:
            within = ~lost & np.asarray((peaks <= most).all(axis=1))
            followed = np.repeat(within.reshape(len(choices), -1).all(axis=1), len(draws))
        observation = self._observation(one)
        deviation = np.array([one.channels[name] for name in observation.channels])
        information, growth = self._information(observation, deviation, states, times, vectors, followed)
        read = self._read(observation, states, times, vectors)[..., 0]
        size = read.std(axis=1)
        size[lost], peaks[lost] = np.nan, np.nan
        return Runs(information, peaks, size, growth)

    def _settled(self, choice: Choice, starts: Array, levels: Array, vectors: Array) -> tuple[Array, Array, Array]:
        """Settle until the recording begins.

        It returns states and clocks (B,) at that time, and the peaks (B, l) until then.
        A sweep stays `settle` at each level, a whole number of periods: the drive goes on without a jump of its phase.
        A drive without a period, such as a measured one, has gone on when the recording begins.
        """
        count = len(starts)
        clock, peaks = np.full(count, choice.begin), np.full((count, len(self._limited)), -np.inf)
        if not choice.settle:
            return starts, clock, peaks
        drifting = self._lasting and not self.model.structure.is_autonomous
        if drifting and levels.shape[1]:
            raise DataError(
                f'Model "{self.model.name}" depends on time and has no period: the phase of its drive is not known '
                f"after a step of a sweep. Give the model its period, such as {Give(period='2*pi/w')}."
            )
        sets = vectors.copy()
        steps = range(levels.shape[1]) if levels.shape[1] else (None,)
        for step in steps:
            if step is not None:
                assert choice.sweep is not None
                sets[:, self.model.names.index(choice.sweep[0])] = levels[:, step]
            waits = self._whole_periods(choice.settle, sets)
            fine, passed = self._finely(starts, np.full((count, 1), choice.begin), waits[:, None], sets, choice)
            peaks = np.fmax(peaks, self._limits(passed, fine, sets))
            starts = passed[:, -1]
            clock = fine[:, -1] if drifting else clock
        return starts, clock, peaks

    def _whole_periods(self, wait: float, vectors: Array) -> Array:
        """Round a wait up to whole periods.

        The wait (B,), in periods of the drive: the phase at its end is that of time 0.
        """
        if self._lasting:
            return np.full(len(vectors), wait)
        periods = np.array([self.flow.period(vector) for vector in vectors], float)
        return np.ceil(wait / periods - 1e-9) * periods

    def _fine(self, choice: Choice, vectors: Array, length: float) -> int:
        """Return how many samples test limits over a length."""
        step = choice.step
        if self._limited and self.model.excitation is not None:
            step = min(
                step,
                min(float(self.flow.period(v) or np.inf) for v in vectors[:: max(1, len(vectors) // 8)]) / PER_PERIOD,
            )
        # The length of a recording is its number of steps up to rounding.
        return int(np.ceil(length / step - 1e-9)) + 1

    def _paths(self, starts: Array, times: Array, vectors: Array) -> Array:
        """Return states (B, m, n) along the runs.

        Members whose start or motion fails are NaN.
        """
        states = np.full((*times.shape, starts.shape[1]), np.nan)
        good = np.isfinite(starts).all(axis=1)
        if good.any():
            states[good] = self.flow.paths(starts[good], times[good], vectors[good], refuse=False)
        return states

    def _peaks(self, states: Array, times: Array, vectors: Array, choice: Choice) -> Array:
        """Return the peaks of limited expressions.

        They are (B, l), the largest values during the recordings.
        """
        if not self._limited:
            return np.empty((len(states), 0))
        length = times[:, -1:] - times[:, :1]
        fine, passed = self._finely(states[:, 0], times[:, :1], length, vectors, choice, states)
        return self._limits(passed, fine, vectors)

    def _finely(
        self,
        begin: Array,
        origin: Array,
        length: Array,
        vectors: Array,
        choice: Choice,
        sampled: Array | None = None,
    ) -> tuple[Array, Array]:
        """Return times and states dense enough for peaks.

        Times (B, m) and states (B, m, n): no peak of a limited expression is between two of them.
        Of x = a sin ωt, std(x')/std(x) = ω: where that requires more than `PER_PERIOD` samples, they are doubled. A
        recording that samples a fast motion once per period shows no motion and a large rate. sampled: states at evenly
        spaced times of the same run; they are not followed again where there are enough of them.
        """
        count, finest = self._fine(choice, vectors, float(length.max())), 0
        while True:
            times = origin + np.linspace(0.0, 1.0, count) * length
            if sampled is not None and sampled.shape[1] == count:
                states = sampled
            else:
                states = self._paths(begin, times, vectors)
            good = np.isfinite(states).all(axis=(1, 2))
            if not (self._limited and good.any()) or finest == DOUBLINGS:
                return times, states
            here, at = states[good], times[good]
            flat = (here.reshape(-1, here.shape[2]), at.reshape(-1), np.repeat(vectors[good], count, axis=0))
            rates = self.flow.rates(*flat).reshape(here.shape)
            turn = (length[good] / (count - 1) * rates.std(axis=1) / np.maximum(here.std(axis=1), TINY)).max()
            if not turn > SPARSE * 2 * np.pi / PER_PERIOD:
                return times, states
            count, finest = 2 * count - 1, finest + 1

    def _limits(self, states: Array, times: Array, vectors: Array) -> Array:
        """Return the largest value of limited expressions.

        The values are (B, l), along states (B, m, n).
        """
        count, m, n = states.shape
        if not self._limited:
            return np.empty((count, 0))
        signals = self.model.signals
        function = compile_expressions(
            self._limited, [*self.model.states, "t", *(s.name for s in signals)], self.model.names
        )
        flat = times.reshape(-1)
        inputs = np.vstack([states.reshape(-1, n).T, flat[None], *(s(flat)[None] for s in signals)])
        values = function(inputs, np.repeat(vectors, m, axis=0).T).reshape(-1, count, m)
        peaks = values.max(axis=2).T
        if any(self._drifts):
            periods = [self.flow.period(v) for v in vectors] if self.model.excitation is not None else [None] * count
            spans = np.array([np.nan if p is None else p for p in periods], float)
            peaks[:, self._drifts] = _drift(values[self._drifts], times, spans).T
        return peaks

    def _observation(self, choice: Choice) -> Observation:
        channels = tuple(choice.channels)
        if not channels:
            raise DataError(f"No channel is named: give what is measured with its noise, {Give(channels={'x': 0.01})}.")
        if channels not in self._observations:
            known = {*self.model.states, *self.model.structure.outputs, *self._outputs}
            for name in channels:
                if name not in known:
                    raise DataError(f'"{name}" is not measured by this model.{nearest_name(name, known)}')
            used = {name: text for name, text in self._outputs.items() if name in channels}
            self._observations[channels] = observe_channels(
                self.model, channels, [False] * len(channels), used, self.free
            )
        return self._observations[channels]

    def _read(self, observation: Observation, states: Array, times: Array, vectors: Array) -> Array:
        """Return what the channels would measure (B, m, c)."""
        count, m, n = states.shape
        return observation.value(states.reshape(-1, n), times.reshape(-1), np.repeat(vectors, m, axis=0)).reshape(
            count, m, -1
        )

    def _information(
        self, observation: Observation, deviation: Array, states: Array, times: Array, vectors: Array, good: Flags
    ) -> tuple[Array, Array]:
        """Sum the information over windows.

        It returns F (B, k, k) and the largest growth (B,), window after window of each member.
        """
        count, m, _ = states.shape
        k = len(self.free)
        total, growth = np.where(good[:, None, None], 0.0, np.nan) * np.ones((count, k, k)), np.where(good, 0.0, np.nan)
        first, reach = np.zeros(count, int), np.full(count, m)
        while (active := np.flatnonzero(good & (first < m - 1))).size:
            checkpoint()
            # The members of a pass share a length; a window that is cut leaves the rest for the next pass.
            length = int(min(m - first[active].min(), reach[active].max()))
            inside = np.minimum(first[active][:, None] + np.arange(length), m - 1)
            # Samples behind the end of a record are followed beyond it and not counted.
            beyond = np.arange(length)[None] - (inside - first[active][:, None])
            instants = (
                np.take_along_axis(times[active], inside, 1) + beyond * (times[active, 1] - times[active, 0])[:, None]
            )
            begin = states[active, first[active]]
            _, jacobians, slopes = self.flow.trajectories(begin, instants, vectors[active], refuse=False)
            size = np.abs(jacobians).max(axis=(2, 3))
            over = ~(size < GROWTH)  # NaN counts as over
            last = np.where(over.any(axis=1), over.argmax(axis=1), length)
            # A window has at least two samples, or a run would never end.
            last = np.minimum(np.maximum(last, 2), m - first[active])
            used = np.arange(length)[None] < last[:, None]
            rows = self._rows(
                observation, deviation, states[active[:, None], inside], instants, vectors[active], (jacobians, slopes)
            )
            rows[~used] = 0.0
            total[active] += eliminated(rows.reshape(len(active), -1, rows.shape[-1]), states.shape[2])
            growth[active] = np.fmax(growth[active], np.where(used, size, 0.0).max(axis=1))
            # Tangents beyond the cut are discarded: the next pass follows half as much again, not the whole record.
            reach[active] = np.where(over.any(axis=1), np.ceil(1.5 * last).astype(int), reach[active])
            # The next window begins at the next sample: one in both would count twice.
            first[active] += last
        return total, growth

    def _rows(
        self,
        observation: Observation,
        deviation: Array,
        states: Array,
        times: Array,
        vectors: Array,
        tangents: tuple[Array, Array],
    ) -> Array:
        """Return sensitivities of the measured values.

        The rows (B, m, c, n + k) are in standard deviations of the noise.
        """
        count, m, n = states.shape
        flat = (tangents[0].reshape(-1, n, n), tangents[1].reshape(-1, n, len(self.free)))
        _, slopes = observation.along(states.reshape(-1, n), times.reshape(-1), np.repeat(vectors, m, axis=0), flat)
        rows = slopes.reshape(count, m, len(deviation), -1) / deviation[:, None]
        return np.where(np.isfinite(rows), rows, 0.0)


def require_parameters(model: Model, names: Sequence[str]) -> None:
    """Refuse names that are not parameters of the model."""
    for name in names:
        if name not in model.names:
            raise DataError(f'No parameter "{name}" in {model.name}.{nearest_name(name, model.names)}')


def parameter_rows(model: Model, free: Sequence[str], choice: Choice, draws: Array) -> Array:
    """Return parameters (D, npar) of the model.

    The free ones take the draws (D, k), then the settings of the choice replace theirs.
    """
    require_parameters(model, tuple(choice.settings))
    columns = {name: i for i, name in enumerate(model.names)}
    rows = np.tile(model.with_values(**dict(choice.settings)).vector, (len(draws), 1))
    rows[:, [columns[name] for name in free]] = draws
    for name, value in choice.settings.items():
        rows[:, columns[name]] = value
    return rows


def limited(model: Model, limits: Sequence[str]) -> tuple[list[Expression], list[bool]]:
    """Parse the expressions of limits.

    They are in plain notation; which of them limit a drift is returned too.
    """
    names = [*model.states, *model.names, *(s.name for s in model.signals)]
    parts = [drift_of(text) for text in limits]
    return [parse_expression(text, names) for text, _ in parts], [drifts for _, drifts in parts]


DRIFT = re.compile(r"\s*drift\((.*)\)\s*", re.DOTALL)
"""The limit on how far the mean of an expression over one period moves during a run: drift(x)."""


def drift_of(text: str) -> tuple[str, bool]:
    """Split a limit into expression and drift.

    The expression, and whether its drift is limited.
    """
    found = DRIFT.fullmatch(text)
    return (text, False) if found is None else (found.group(1), True)


def _drift(values: Array, times: Array, periods: Array) -> Array:
    """Return the drift of period means.

    It is the range (l, B) of the mean over one period (B,) of values (l, B, m), or over a tenth of the run without a
    period.
    """
    count = values.shape[2]
    spacing = (times[:, -1] - times[:, 0]) / max(1, count - 1)
    span = np.where(np.isfinite(periods), periods / np.where(spacing > 0, spacing, 1.0), count / 10)
    # The mean over a whole period removes the oscillation from the drift.
    window = np.clip(np.rint(span), 1, count).astype(int)
    sums = np.concatenate([np.zeros((*values.shape[:2], 1)), np.cumsum(values, axis=2)], axis=2)
    first = np.minimum(np.arange(count)[None], (count - window)[:, None])
    ends = np.broadcast_to(first + window[:, None], values.shape)
    means = np.take_along_axis(sums, ends, 2) - np.take_along_axis(sums, np.broadcast_to(first, values.shape), 2)
    return (means.max(axis=2) - means.min(axis=2)) / window


def _alike(choices: Sequence[Choice]) -> list[list[int]]:
    """Group choices that can share a batch.

    The choices of a group share sampling, channels and kind of start.
    """
    groups: dict[object, list[int]] = {}
    for i, choice in enumerate(choices):
        swept = choice.sweep[0] if choice.sweep is not None and choice.approach != "state" else ""
        key = (choice.samples, choice.step, tuple(choice.channels.items()), choice.settle, swept, choice.begin)
        groups.setdefault(key, []).append(i)
    return list(groups.values())


def eliminated(rows: Array, states: int) -> Array:
    """Return information with the states eliminated.

    (B, k, k) on the last columns of rows (B, r, n + k), the first n of which are unknown too.
    """
    # Columns of states and parameters differ by orders of magnitude.
    size = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    scale = np.where(size > 0, size, 1.0)
    short = rows.shape[2] - rows.shape[1]
    padded = np.pad(rows / scale, ((0, 0), (0, max(0, short)), (0, 0)))
    upper = np.asarray(np.linalg.qr(padded, mode="r"))[:, states:, states:]  # any sign: RᵀR
    return np.swapaxes(upper * scale[:, :, states:], 1, 2) @ (upper * scale[:, :, states:])
