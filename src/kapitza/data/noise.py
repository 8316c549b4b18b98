"""Noise as a user states it.

It is one standard deviation for all channels, or one for some channels; 0 means exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import TypeGuard, cast

import numpy as np

from kapitza.errors import DataError, nearest_name

Noise = float | Mapping[str, float] | None
"""One standard deviation for all channels, some by channel, or none."""


SMALLEST = 1e-100
"""Standard deviations below this one have weights 1/σ² whose squares overflow."""


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite real number.

    A truth value is not a number.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return bool(np.isfinite(float(value)))
    except OverflowError:  # a whole number beyond any float
        return False


def check_noise(noise: object) -> None:
    """Refuse what is not a standard deviation."""
    by_name: object = {} if noise is None else {"every channel": noise}
    stated = cast("Mapping[str, object]", noise if isinstance(noise, Mapping) else by_name)
    for name, value in stated.items():
        if not is_number(value) or value < 0:
            raise DataError(
                f'The noise of "{name}" is {value}: a standard deviation is a finite number, 0 or above; leave it out '
                "and it is estimated."
            )
        if 0 < value < SMALLEST:
            raise DataError(
                f'The noise of "{name}" is {value:.3g}: its weights 1/σ² are too large for numbers. Give it in the '
                "unit of the channel, or leave it out and it is estimated."
            )


def stated_noise(noise: Noise, channels: Sequence[str]) -> dict[str, float]:
    """Return the stated standard deviations by channel.

    Channels in use without a stated one are left out; other names are refused.
    """
    check_noise(noise)
    if noise is None:
        return {}
    if not isinstance(noise, Mapping):
        return dict.fromkeys(channels, float(noise))
    for name in noise:
        if name not in channels:
            raise DataError(
                f'noise names "{name}"; the channels in use are {", ".join(channels)}.' + nearest_name(name, channels)
            )
    return {name: float(value) for name, value in noise.items()}
