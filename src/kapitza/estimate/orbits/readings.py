"""What was read off the orbits: channels, times, values and their covariance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kapitza.arrays import Array, Flags, Indices
from kapitza.estimate.observation import Differenced, Observation, Output, observe_channels
from kapitza.model import Model


@dataclass(frozen=True)
class Channels:
    """The channels of the data as outputs of the model.

    delays: (c,) step of the channels that are difference quotients, 0 for the others.
    """

    observation: Observation
    delays: Array

    @property
    def names(self) -> tuple[str, ...]:
        return self.observation.channels

    @property
    def angles(self) -> Flags:
        """Which readings live on a circle; a difference quotient does not, even of an angle."""
        return self.observation.angles & (self.delays == 0)


def channels_of(
    model: Model, channels: Sequence[str], angles: Sequence[bool], outputs: Mapping[str, Output], free: Sequence[str]
) -> Channels:
    plain = {name: o.output if isinstance(o, Differenced) else o for name, o in outputs.items() if name in channels}
    observation = observe_channels(model, tuple(channels), tuple(angles), plain, free)
    steps = [o.step if isinstance(o := outputs.get(c), Differenced) else 0.0 for c in observation.channels]
    return Channels(observation, np.array(steps))


@dataclass(frozen=True)
class Target:
    """One orbit to be matched.

    nodes: (J, n) first guess of the states at `node_times` (J,); period [s]; vector: (npar,) run-time parameters.
    times (m,), channel (m,), values (m,): the readings; node (m,): the segment each lies in.
    covariance: (m, m) of the readings or its diagonal (m,), None where it is not known; one more row is the period's.
    clustered: whether the errors of the readings are correlated along the orbit in a way not known.
    rows: (m,) which entries of the orbit's points the readings are, where they are points.
    multipliers: moduli (n,) with their deviation (n,), None where not measured.
    period_deviation: of a measured period, None where the excitation sets it.
    winding: turns per period where the data show them: whole profiles do, one point per excitation period does not.
    """

    label: str
    nodes: Array
    node_times: Array
    period: float
    repeats: int | None
    vector: Array
    times: Array
    channel: Indices
    node: Indices
    values: Array
    covariance: Array | None = None
    multipliers: Array | None = None
    multiplier_deviation: Array | None = None
    period_deviation: float | None = None
    winding: tuple[int, ...] = ()
    source: object = None
    rows: Indices | None = None
    clustered: bool = False

    @property
    def count(self) -> int:
        return len(self.nodes)
