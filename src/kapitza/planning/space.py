"""Possible choices as points of a unit cube."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kapitza.base import checks
from kapitza.base.arrays import Array
from kapitza.base.cures import Code, Give
from kapitza.errors import DataError, nearest_name
from kapitza.model import Model
from kapitza.planning.choice import Choice

OF_A_RUN = ("duration", "step", "settle", "start", "channels", "approach", "drive")
"""Choices that are not parameters or states of the model."""

APPROACHES = ("rest", "state", "from below", "from above")


@dataclass(frozen=True)
class Axis:
    """One thing to choose.

    It is a range (low, high), or a list of options.
    """

    name: str
    low: float = 0.0
    high: float = 0.0
    options: tuple[Any, ...] = ()

    def value(self, share: float) -> Any:
        """Return the value at a share.

        The share is between 0 and 1.
        """
        if self.options:
            return self.options[min(int(share * len(self.options)), len(self.options) - 1)]
        return self.low + share * (self.high - self.low)

    @property
    def continuous(self) -> bool:
        return not self.options


@dataclass(frozen=True)
class Space:
    """Axes around a run.

    Everything that is not varied is taken from the run.
    """

    model: Model
    run: Choice
    axes: tuple[Axis, ...]

    def choice(self, point: Array) -> Choice:
        """Return the experiment at a point.

        point: (a,) in the unit cube.
        """
        run = self.run
        settings, start = dict(run.settings), dict(run.start)
        fields: dict[str, Any] = {}
        for axis, share in zip(self.axes, np.clip(point, 0.0, 1.0).tolist(), strict=True):
            value = axis.value(share)
            if axis.name == "start":
                start |= value
            elif axis.name == "channels":
                fields["channels"] = {name: run.channels[name] for name in value}
            elif axis.name == "approach" and value == "rest":
                start, fields["approach"] = {}, "state"
            elif axis.name in OF_A_RUN:
                fields[axis.name] = value
            elif axis.name in self.model.states:
                start[axis.name] = value
            else:
                settings[axis.name] = value
        return replace(run, settings=settings, start=start, **fields)

    @property
    def continuous(self) -> list[int]:
        return [i for i, axis in enumerate(self.axes) if axis.continuous]


def space(
    model: Model, run: Choice, vary: Mapping[str, Any], free: Sequence[str], drives: Collection[str] = ()
) -> Space:
    """Check what may vary.

    It checks names, ranges and options. Drives may be chosen among all of them unless some are named.
    """
    if drives and "drive" not in vary:
        vary = {**vary, "drive": list(drives)}
    if not vary:
        raise DataError(f"Nothing may vary: name what can be chosen, such as {Give(vary={'omega': (0.5, 2.0)})}.")
    axes = [_axis(model, run, name, given, free, drives) for name, given in vary.items()]
    ranged = [axis for axis in axes if axis.continuous and axis.name in model.names]
    approaches = next((axis.options for axis in axes if axis.name == "approach"), ())
    if any(one in ("from below", "from above") for one in approaches):
        if run.sweep is None and not ranged:
            raise DataError(
                "A sweep needs a setting with a range: vary it, or name it in "
                f"{Give(run=Code('Choice'))}({Give(sweep=...)})."
            )
        if run.sweep is None:
            # The frequency is the usual setting to sweep.
            swept = next((axis for axis in ranged if axis.name.lower() in ("omega", "w", "f", "frequency")), ranged[0])
            run = replace(
                run, settings={swept.name: swept.low, **run.settings}, sweep=(swept.name, swept.low, swept.high)
            )
        if not run.settle:
            raise DataError(
                "A sweep needs the time that it stays at each level: "
                f"{Give(run=Code('Choice'))}({Give(settle=...)}), in seconds."
            )
    return Space(model, run, tuple(axes))


def _axis(model: Model, run: Choice, name: str, given: Any, free: Sequence[str], drives: Collection[str]) -> Axis:
    known = (*model.names, *model.states, *OF_A_RUN)
    if name not in known:
        raise DataError(
            f'"{name}" cannot be chosen.{nearest_name(name, known)} Choose parameters, states, {", ".join(OF_A_RUN)}.'
        )
    if name in free:
        raise DataError(f'"{name}" is a parameter to be identified: it cannot be chosen as well.')
    if name == "approach":
        unknown = [one for one in given if one not in APPROACHES]
        if unknown:
            raise DataError(f"approach {unknown}: there are {', '.join(APPROACHES)}.")
        return Axis(name, options=tuple(given))
    if name == "drive":
        for one in given:
            if one and one not in drives:
                raise DataError(f'There is no drive "{one}".{nearest_name(one, drives)} Give drives={{...}}.')
        return Axis(name, options=tuple(given))
    if name == "start":
        for state in given:
            model.state(state)
        return Axis(name, options=tuple(dict(one) for one in given))
    if name == "channels":
        for several in given:
            for one in several:
                if one not in run.channels:
                    raise DataError(
                        f'The channel "{one}" has no noise: name it in measure.{nearest_name(one, run.channels)}'
                    )
        return Axis(name, options=tuple(tuple(one) for one in given))
    numbers = checks.array(f'vary["{name}"]', given, error=DataError)
    if isinstance(given, tuple) and numbers.shape == (2,):
        if not numbers[0] < numbers[1]:
            raise DataError(f'The range of "{name}", {given}, is empty; give the lower end first.')
        return Axis(name, float(numbers[0]), float(numbers[1]))
    if numbers.ndim != 1 or not numbers.size:
        raise DataError(f'vary["{name}"] is {given!r}: give a range (low, high) or a list of values.')
    return Axis(name, options=tuple(numbers.tolist()))
