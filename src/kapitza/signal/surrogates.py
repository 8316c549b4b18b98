"""Surrogates with the spectra of a record.

They share nothing else with the record, and show what chance explains.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, rfft

from kapitza.base.arrays import Array

FULL_TURNS = 4 * np.pi  # span of a continuous angle beyond which it keeps turning


def phase_randomised(
    values: Array,
    segments: Sequence[slice],
    random: np.random.Generator,
    angles: Sequence[bool] | NDArray[np.bool_] = (),
) -> Array:
    """Return a surrogate (N, c) of channels (N, c).

    In each segment the phase of every frequency is turned by a random angle.

    All channels are turned alike, so that their cross-spectra stay (Prichard and Theiler 1994), as those of a linear
    process driven by noise do. An angle that keeps turning (`angles`, continuous) is randomised by its rate.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.sin(np.arange(400.0))[:, None]
    >>> other = phase_randomised(x, [slice(0, 400)], np.random.default_rng(1))
    >>> bool(abs(np.std(other) - np.std(x)) < 1e-9)
    True
    """
    circle = np.zeros(values.shape[1], bool) if not len(angles) else np.asarray(angles, bool)
    result = values.copy()
    for piece in segments:
        part = values[piece]
        if len(part) < 4:
            continue
        rotates = circle & (np.ptp(part, axis=0) > FULL_TURNS)
        steps = np.where(rotates, np.diff(part, axis=0, prepend=part[:1]), part)
        spectrum = np.asarray(rfft(steps, axis=0))
        turned = np.exp(2j * np.pi * random.random(len(spectrum)))
        # The mean stays, and so does the highest frequency of an even count, which has no phase.
        turned[0] = 1.0
        if len(part) % 2 == 0:
            turned[-1] = 1.0
        new = np.asarray(irfft(spectrum * turned[:, None], len(part), axis=0), float)
        result[piece] = np.where(rotates, part[:1] + np.cumsum(new, axis=0), new)
    return result
