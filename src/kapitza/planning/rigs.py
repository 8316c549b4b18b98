"""Measurement of a choice on a rig.

Settings are sent, limits are watched, and the rig is left safe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from kapitza.base.monitor import checkpoint
from kapitza.data import Record
from kapitza.errors import DataError, RigError
from kapitza.flow import Flow
from kapitza.model import Model, compile_expressions, parse_expression
from kapitza.planning.choice import Choice
from kapitza.planning.limits import Limits
from kapitza.rig import LimitedRig, Rig, sound_samples

CHUNK = 0.1
"""Seconds between two tests of the limits while a rig runs, or one sample where that is longer."""


def rig_measurer(rig: Rig, model: Model, limits: Mapping[str, float]) -> Callable[[Choice], Record]:
    """Return a function that measures choices on a rig.

    The rig must have the settings as parameters and the channels as outputs. Limits on measured channels are tested
    every 0.1 s: the rig is stopped at once, and the run refused, where one is passed.
    """
    if model.excitation is None or model.excitation.period is None:
        raise DataError(
            "A rig knows the phase of its drive: the model needs a period. Pass a function that measures instead."
        )
    guarded = LimitedRig(rig) if not isinstance(rig, LimitedRig) else rig
    flow = Flow(model)
    tests = {text: bound for text, bound in Limits(limits).watched.items() if _measured(text, model, rig)}
    watched = (
        compile_expressions([parse_expression(text, rig.outputs) for text in tests], rig.outputs) if tests else None
    )

    def measure(choice: Choice) -> Record:
        if any(choice.start.values()):
            raise RigError("A rig cannot be put into a given state: plan runs from rest or by a sweep.")
        if choice.drive:
            raise RigError(
                f'A rig has its own drive, the plan requires "{choice.drive}": pass a function that measures.'
            )
        unread = [name for name in choice.channels if name not in rig.outputs]
        if unread:
            raise RigError(f"The rig does not measure {', '.join(unread)}; it measures {', '.join(rig.outputs)}.")
        settings = [dict(choice.settings)]
        if choice.approach != "state" and choice.sweep is not None:
            settings = [{**choice.settings, choice.sweep[0]: float(level)} for level in choice.levels]
        with guarded:
            for one in settings:
                guarded.set({}, **one)
                if choice.settle:
                    _run(max(1, round(choice.settle / guarded.sample_time)))
            return _record(choice, *_run(max(2, round(choice.duration / guarded.sample_time) + 1)))

    def _run(count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return phases (N,) and samples (N, c).

        They are measured chunk by chunk.
        """
        chunk = max(1, round(CHUNK / guarded.sample_time))
        phases, values, left = [], [], count
        while left:
            checkpoint()
            part = sound_samples(guarded, min(chunk, left))
            _test(part.values)
            phases.append(part.phases)
            values.append(part.values)
            left -= len(part)
        return np.unwrap(np.concatenate(phases)), np.concatenate(values)

    def _test(values: np.ndarray) -> None:
        values = values[np.isfinite(values).all(axis=1)]  # samples that were lost
        if watched is None or not len(values):
            return
        peaks = np.max(np.atleast_2d(watched(np.ascontiguousarray(values.T))), axis=1)
        for (text, bound), peak in zip(tests.items(), peaks.tolist(), strict=True):
            if peak > bound:
                guarded.stop()
                raise RigError(f'"{text}" reached {peak:.4g}, the limit is {bound:.4g}: the rig was stopped.')

    def _record(choice: Choice, phases: np.ndarray, values: np.ndarray) -> Record:
        # Phases become times of the model's excitation, whose period the settings decide.
        period = flow.period(model.with_values(**dict(choice.settings)).vector)
        assert period is not None
        times = phases / (2 * np.pi) * period
        every = max(1, round(choice.step / guarded.sample_time))
        kept = values[::every, [guarded.outputs.index(name) for name in choice.channels]]
        there = np.isfinite(kept).all(axis=1)  # the rig may lose samples
        columns = {name: kept[there, i] for i, name in enumerate(choice.channels)}
        return Record.from_arrays(times[::every][there], columns)

    return measure


def _measured(text: str, model: Model, rig: Rig) -> bool:
    """Return whether the rig's outputs can test a limit."""
    names = {str(s) for s in parse_expression(text, (*model.states, *model.names, *rig.outputs)).free_symbols}
    return names <= set(rig.outputs)
