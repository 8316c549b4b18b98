"""Reader of WAV files.

Recorders of vibration and sound write them; numbers are shares of the full scale.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from kapitza.base.unpacking import Unpacking
from kapitza.data.formats.groups import Group, even_times
from kapitza.errors import DataError

UNKNOWN_LENGTHS = (0, 2**32 - 1)
"""Lengths that programs write which do not know the end yet, and RF64 files."""


def check_length(path: Path) -> None:
    """Refuse a file whose length is not the one in its header: samples after lost or added bytes would be wrong."""
    with path.open("rb") as file:
        head = file.read(8)
    if len(head) < 8 or head[:4] not in (b"RIFF", b"RIFX"):
        return
    stated = int.from_bytes(head[4:], "little" if head[:4] == b"RIFF" else "big")
    size = path.stat().st_size
    # Programs differ on whether the byte that pads an odd chunk is counted.
    if stated not in UNKNOWN_LENGTHS and abs(size - 8 - stated) > 1:
        raise DataError(
            f"{path.name} is cut or damaged: its header states {stated + 8} bytes and it has {size}. Copy it again, or "
            "save it anew in the program that wrote it."
        )


def read_wav(path: Path) -> list[Group]:
    """Return the channels of a WAV file.

    Values are between -1 and 1; names are "channel_1" and so on.
    """
    from scipy.io import wavfile

    Unpacking(path).add(2 * path.stat().st_size)
    check_length(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", wavfile.WavFileWarning)
        # Comments of the recorder after the samples.
        warnings.filterwarnings("ignore", "Chunk .non-data. not understood", wavfile.WavFileWarning)
        try:
            rate, samples = wavfile.read(path)
        except wavfile.WavFileWarning as problem:
            raise DataError(f"{path.name} is cut or damaged: {str(problem).rstrip('.')}.") from problem
    if not 0 < rate < 1e9:
        raise DataError(f"{path.name} states a sampling rate of {rate} Hz: it is damaged.")
    values = samples.astype(np.float64)
    if samples.dtype.kind == "u":
        values = (values - 128) / 128
    elif samples.dtype.kind == "i":
        values /= -float(np.iinfo(samples.dtype).min)
    values = values.reshape(len(values), -1)
    group = Group("sound", time=even_times(len(values), 1 / rate))
    for number, column in enumerate(values.T):
        group.add(f"channel_{number + 1}", np.ascontiguousarray(column))
    group.notes.append("WAV has no units: full scale is 1")
    return [group]
