"""Motions and information of models with delays, by differences.

The state of such a model is a piece of its past. A run starts from a constant past, whose level is unknown, so the
columns of a run are those of the n levels and the k parameters. Tangents do not exist there: the sensitivities are
central differences of whole runs, 2 (n + k) of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kapitza.base.arrays import Array
from kapitza.base.monitor import checkpoint
from kapitza.errors import DataError, FlowError
from kapitza.estimate import observe_channels
from kapitza.flow import Flow
from kapitza.model import Model, compile_expressions
from kapitza.planning.choice import Choice
from kapitza.planning.runs import Runs, eliminated, limited, parameter_rows, require_parameters

STEP = 1e-4
"""Step of a difference, relative to the value: truncation (STEP² of the third derivative) and rounding are small."""


class DelayedRunner:
    """Follows experiments of a model with delays; as `Runner`."""

    def __init__(
        self, model: Model, free: Sequence[str], limits: Sequence[str] = (), outputs: Mapping[str, str] | None = None
    ):
        require_parameters(model, free)
        self.model, self.free = model, tuple(free)
        self.flow = Flow(model)
        self._outputs = dict(outputs or {})
        self._limited, drifts = limited(model, limits)
        if any(drifts):
            raise DataError("drift(...) is not a limit of models with delays: limit abs(...) of the expression.")

    def run(self, choices: Sequence[Choice], draws: Array, most: Array | None = None) -> Runs:
        """Follow every choice at every draw.

        draws: (D, k) of the free parameters. most: (l,) values of the limits; a choice that exceeds one gets no
        information (NaN) at that draw.
        """
        shape, k = (len(choices), len(draws)), len(self.free)
        told = np.full((*shape, k, k), np.nan)
        peaks, size = np.full((*shape, len(self._limited)), np.nan), np.full(shape, np.nan)
        for i, choice in enumerate(choices):
            if choice.approach != "state":
                raise DataError(
                    f'Model "{self.model.name}" has delays: its runs begin at rest or in a state, not by a sweep.'
                )
            rows = parameter_rows(self.model, self.free, choice, draws)
            for j, vector in enumerate(rows):
                checkpoint()
                try:
                    told[i, j], peaks[i, j], size[i, j] = self._one(choice, vector, most)
                except FlowError:
                    continue  # the motion leaves every bound: NaN, as documented
        return Runs(told, peaks, size, np.zeros(shape))

    def channels(self, choice: Choice) -> tuple[str, ...]:
        """Return the channels of a choice, in `motion` order."""
        return tuple(choice.channels)

    def motion(self, choice: Choice, values: Array) -> tuple[Array, Array]:
        """Return times and noise-free samples of one run.

        They are times (m,) and samples (m, c), at values (k,) of the free parameters.
        """
        vector = parameter_rows(self.model, self.free, choice, values[None])[0]
        times, settled = self._times(choice)
        return times[settled:], self._read(choice, self.model.state(choice.start), times, vector)[settled:]

    def _times(self, choice: Choice) -> tuple[Array, int]:
        """Return the times of the whole run.

        The number of samples before the recording is returned too.
        """
        # Settling is part of the run: the past cannot be set to that of a settled motion.
        before = int(np.ceil(choice.settle / choice.step - 1e-9))
        return np.asarray(choice.begin + np.arange(before + choice.samples) * choice.step, float), before

    def _read(self, choice: Choice, start: Array, times: Array, vector: Array) -> Array:
        channels = tuple(choice.channels)
        used = {name: text for name, text in self._outputs.items() if name in channels}
        observation = observe_channels(self.model, channels, [False] * len(channels), used, self.free)
        return observation.value(self.flow.trajectory(start, times, vector), times, np.tile(vector, (times.size, 1)))

    def _one(self, choice: Choice, vector: Array, most: Array | None) -> tuple[Array, Array, float]:
        """Return information, peaks and size of one run.

        It returns the information (k, k), peaks (l,) of the limits, and the standard deviation of the first channel.
        """
        times, settled = self._times(choice)
        start = self.model.state(choice.start)
        states = self.flow.trajectory(start, times, vector)
        peaks = self._peaks(states, times, vector)
        first = self._read(choice, start, times, vector)[settled:, 0]
        if most is not None and (peaks > most).any():
            return np.full((len(self.free), len(self.free)), np.nan), peaks, float(first.std())
        places = [self.model.names.index(name) for name in self.free]
        columns = []
        for i in range(start.size + len(places)):
            ends = []
            moved = start if i < start.size else vector
            place = i if i < start.size else places[i - start.size]
            # A parameter at zero gets a step of STEP², a level at zero one of STEP times the motion.
            step = STEP * max(abs(moved[place]), STEP if i >= start.size else np.abs(states).max())
            for sign in (1, -1):
                other = moved.copy()
                other[place] += sign * step
                pair = (other, vector) if i < start.size else (start, other)
                ends.append(self._read(choice, pair[0], times, pair[1])[settled:])
            columns.append((ends[0] - ends[1]) / (2 * step))
        noise = np.array(list(choice.channels.values()))
        table = (np.stack(columns, axis=2) / noise[:, None]).reshape(1, -1, len(columns))
        return eliminated(table, start.size)[0], peaks, float(first.std())

    def _peaks(self, states: Array, times: Array, vector: Array) -> Array:
        if not self._limited:
            return np.empty(0)
        function = compile_expressions(self._limited, [*self.model.states, "t"], self.model.names)
        values = function(np.vstack([states.T, times[None]]), np.tile(vector, (times.size, 1)).T)
        return values.reshape(len(self._limited), -1).max(axis=1)
