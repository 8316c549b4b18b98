"""Refusals before work starts: settings, noise and amounts of data that cannot give an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kapitza.errors import DataError, KapitzaError, nearest_name
from kapitza.estimate.shooting.pieces import Samples

if TYPE_CHECKING:
    from kapitza.estimate.shooting.fit import ShootingFit


def check_settings(method: ShootingFit) -> None:
    wanted = {
        "spacing": (method.spacing is None or method.spacing >= 1, "at least 1 sample per interval"),
        "window": (method.window >= 20, "at least 20 samples"),
        "softness": (method.softness > 0, "positive, usually 0.01 to 1"),
        "hold_back": (0 <= method.hold_back < 1, "a fraction of the record below 1"),
        "max_gap": (method.max_gap >= 1, "at least 1 median step"),
        "tolerance": (method.tolerance > 0, "positive"),
        "max_iterations": (method.max_iterations >= 1, "at least 1"),
    }
    for name, (good, rule) in wanted.items():
        if not good:
            raise KapitzaError(f"ShootingFit({name}={getattr(method, name)}): it must be {rule}.")


def check_noise(noise: Mapping[str, float], channels: Sequence[str]) -> Mapping[str, float]:
    for channel, deviation in noise.items():
        if channel not in channels:
            raise DataError(
                f'noise names "{channel}"; the channels in use are {", ".join(channels)}.'
                + nearest_name(channel, channels)
            )
        if not (np.isfinite(deviation) and deviation > 0):
            raise DataError(
                f'The noise of "{channel}" is {deviation}: give a positive standard deviation, or leave it out and it '
                "is estimated."
            )
    return noise


def check_left(size: int, kept: int) -> None:
    if kept < 2:
        raise DataError(f"Only {kept} of {size} samples are left to fit: hold back less, or record longer.")


def check_motion(samples: Samples) -> None:
    if (samples.values.std(axis=0) == 0).all():
        raise DataError(
            "No channel changes over the whole record: a motion at rest says nothing about its parameters. Check the "
            "sensors, or record a moving system."
        )


def check_unknowns(samples: Samples, states: int, free: int, known: int) -> None:
    """Readings (and prior knowledge) must at least be as many as the unknowns."""
    unknowns, pieces = states * len(samples.pieces) + free, len(samples.pieces)
    if samples.values.size + known < unknowns:
        raise DataError(
            f"{samples.values.size} readings cannot determine {unknowns} unknowns ({states} initial states for each of "
            f"{pieces} pieces and {free} parameters): record longer, free fewer parameters, or give priors."
        )
