"""Interface of an experiment.

Declared inputs, outputs, a clock; and the checks that keep it safe.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Protocol, Self, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kapitza.base import checks
from kapitza.base.angles import unwrap
from kapitza.base.argument_checks import CHECKED_INSIDE, Anything
from kapitza.errors import RigError
from kapitza.rig.fourier import FourierSeries

Array = NDArray[Any]

Number = Annotated[float, CHECKED_INSIDE]
"""A number that is checked together with the name of its input or parameter."""

JITTER = 0.3
"""Largest deviation of the phase between two samples from its mean, in samples."""


@dataclass(frozen=True)
class PeriodicInput:
    """Demand that the rig follows.

    limit is the largest |value|, rate_limit the largest |rate| (per second).
    `feedback` is the name of the output that a controller on the rig drives towards the demand, "" for an input that
    an actuator simply follows. `ramp`: seconds that the rig takes from one demand to the next, 0 for a rig that jumps
    (its blend is at most 1.875 times as steep as a straight line); None for one that keeps to `rate_limit` by itself
    while it changes.
    """

    name: str
    unit: str = ""
    limit: Number = math.inf
    rate_limit: Number = math.inf
    feedback: str = ""
    ramp: Number | None = None

    def __post_init__(self):
        if self.ramp is not None:
            checks.number(f'The ramp of "{self.name}" (in s)', self.ramp, low=0, error=RigError)
        for word, limit in (("limit", self.limit), ("rate_limit", self.rate_limit)):
            # Without one it is math.inf. NaN is refused too: nothing would ever exceed it.
            checks.number(f'The {word} of "{self.name}"', limit, above=0, finite=False, error=RigError)


@dataclass(frozen=True)
class RigParameter:
    """Number that can be set during a run.

    An example is the amplitude of a shaker, within bounds.
    """

    name: str
    value: Number
    unit: str = ""
    bounds: Annotated[tuple[float, float], CHECKED_INSIDE] = (-math.inf, math.inf)

    def __post_init__(self):
        what = f'The bounds of "{self.name}"'
        pair = checks.items(what, self.bounds, error=RigError)
        if len(pair) != 2:
            raise RigError(f"{what} are {checks.shown(self.bounds)}; give (low, high), math.inf where there is none.")
        low, high = (checks.number(what, bound, finite=False, error=RigError) for bound in pair)
        if not low <= high:
            raise RigError(f"{what} are {low} … {high}; give the lower one first.")
        checks.number(f'The value of "{self.name}"', self.value, finite=False, error=RigError)
        object.__setattr__(self, "bounds", (low, high))


@dataclass(frozen=True)
class Samples:
    """Stretch of samples of a measurement.

    Time has gone on since the last stretch.
    index: number of the first sample since the rig was started; phases: (N,) phase of the demands at each sample,
    rad of their base frequency, wrapped or not. values: (N, channels) in the order of the rig's outputs.
    control: (N, inputs with feedback) what the controllers really applied, held from each sample to the next.
    lost: (N,) True where a sample did not arrive (its values are NaN). saturated: (N,) True where a controller or an
    actuator was at its limit. changing: at the last sample the demands were still changing to those set last, as on
    rigs that change them slowly; samples until then do not count.
    """

    index: int
    phases: Array
    values: Array
    control: Array
    lost: NDArray[np.bool_]
    saturated: NDArray[np.bool_]
    changing: bool = False

    def __len__(self) -> int:
        return len(self.phases)


def checked_samples(rig: Rig, samples: Samples, count: int) -> Samples:
    """Check the samples that a rig returned.

    `count` evenly spaced samples, with phases that go on without a jump, or they are refused.

    Raises
    ------
    RigError
        when samples are missing without being marked as lost, shapes do not fit, or the clock of the rig jumped.
    """
    loops = sum(1 for i in rig.inputs if i.feedback)
    expected = {
        "phases": (count,), "values": (count, len(rig.outputs)), "control": (count, loops),
        "lost": (count,), "saturated": (count,),
    }  # fmt: skip
    for name, shape in expected.items():
        found = np.shape(getattr(samples, name))
        if found != shape:
            raise RigError(f"The rig returned {name} of shape {found} for {count} samples, not {shape}.")
    phases = unwrap(np.asarray(samples.phases, float))
    if not np.isfinite(phases).all():
        raise RigError("The rig gave phases that are not finite: it must know the phase of its demands at each sample.")
    if count < 3:
        return replace(samples, phases=phases)
    step = float(phases[-1] - phases[0]) / (count - 1)
    # The phases show missing samples that the rig did not mark as lost.
    off = np.abs(np.diff(phases) - step)
    if off.max() > JITTER * abs(step):
        place = int(np.argmax(off))
        raise RigError(
            f"The phase of the demands jumps by {phases[place + 1] - phases[place]:.4g} rad at sample "
            f"{samples.index + place + 1}, the others are {np.median(np.diff(phases)):.4g} rad apart: the clock of the "
            "rig jumped, or samples are missing. Mark missing samples as lost, with their phases."
        )
    return replace(samples, phases=phases)


def sound_samples(rig: Rig, count: int) -> Samples:
    """Run the rig and return checked samples.

    A measured value that is not a number stops the rig.
    """
    samples = checked_samples(rig, rig.run(count), count)
    controls = [f"control of {i.feedback}" for i in rig.inputs if i.feedback]
    for names, values in ((rig.outputs, samples.values), (controls, samples.control)):
        bad = ~np.isfinite(values) & ~samples.lost[:, None]
        if bad.any():
            row, channel = np.argwhere(bad)[0]
            rig.stop()
            raise RigError(
                f'The sensor "{names[channel]}" gave {values[row, channel]} at sample {samples.index + row} '
                f"({int(bad.sum())} such samples): the rig was stopped. Check the sensor."
            )
    return samples


def joined_samples(pieces: Sequence[Samples]) -> Samples:
    """Join stretches that follow each other."""
    if len(pieces) == 1:
        return pieces[0]
    # Each stretch may count its phases from another turn.
    phases = unwrap(np.concatenate([p.phases for p in pieces]))
    names = ("values", "control", "lost", "saturated")
    columns = (np.concatenate([getattr(p, n) for p in pieces]) for n in names)
    return Samples(pieces[0].index, phases, *columns, changing=pieces[-1].changing)


@runtime_checkable
class Rig(Protocol):
    """An experiment under computer control.

    `set` gives periodic demands (all of one base frequency; inputs left out keep theirs) and parameters; `run`
    lets time go on for so many samples and returns them; `stop` puts the rig in its safe state. As a context manager a
    rig is left in its safe state whatever happens.
    """

    @property
    def inputs(self) -> tuple[PeriodicInput, ...]: ...

    @property
    def outputs(self) -> tuple[str, ...]: ...

    @property
    def parameters(self) -> tuple[RigParameter, ...]: ...

    @property
    def sample_time(self) -> float: ...

    def set(self, demands: Mapping[str, FourierSeries], **parameters: float) -> None: ...

    def run(self, samples: int) -> Samples: ...

    def stop(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *problem: Any) -> None: ...


class Guarded(ABC):
    """Part of a rig that is always the same.

    As a context manager it ends in the safe state.
    """

    @abstractmethod
    def stop(self) -> None:
        """Put the rig in its safe state."""

    def follow(
        self,
        start: Anything = None,
        parameter: str | None = None,
        bounds: tuple[float, float] | None = None,
        **settings: Anything,
    ) -> Any:
        """Follow a branch on this rig.

        What `kz.follow(rig, start, parameter, bounds)` does: settings of `Experiment` and of `follow_rig`.
        """
        from kapitza.rig.experiment import Experiment

        names = {f.name for f in fields(Experiment)} - {"rig", "journal"}
        own = {name: settings.pop(name) for name in names & settings.keys()}
        experiment = Experiment(cast(Rig, self), **own)
        return experiment.follow(start, parameter, bounds, **settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: Any) -> None:
        self.stop()
