"""Messages between a client and a rig.

A message holds a version, the token, a JSON header, and arrays as raw bytes with a checksum.
The token comes first, so that a server need not read messages of strangers.
Every request carries a session and a number. The server answers a number it has seen before with the answer it gave
then, so a request that is sent again after a lost answer is never carried out twice.
"""

from __future__ import annotations

import hmac
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base import checks
from kapitza.errors import RigError, RigLimitError, RigLostError
from kapitza.rig.fourier import FourierSeries
from kapitza.rig.protocol import PeriodicInput, RigParameter, Samples

Array = NDArray[Any]

FAMILY = b"kapitza-rig/"
VERSION = FAMILY + b"2"
LONGEST_HEADER = 100_000
MOST_FRAMES = 100
LARGEST_ARRAY = 200_000_000
KINDS: dict[str, type[RigError]] = {"RigError": RigError, "RigLimitError": RigLimitError, "RigLostError": RigLostError}
DTYPES = ("<f8", "|b1", "<i8")


@dataclass(frozen=True)
class Message:
    """Verb with its content.

    Arrays go beside the header.
    """

    verb: str
    session: str = ""
    number: int = 0
    token: str = ""
    content: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)


class MessageError(RigError):
    """Bytes that are not a message of this version."""


def packed(message: Message) -> list[bytes]:
    """Return the frames to send."""
    buffers, described = [], []
    for name, array in message.arrays.items():
        values = np.ascontiguousarray(array)
        data = values.tobytes()
        described.append({"name": name, "dtype": values.dtype.str, "shape": values.shape, "crc": zlib.crc32(data)})
        buffers.append(data)
    header = {
        "verb": message.verb,
        "session": message.session,
        "number": message.number,
        "content": message.content,
        "arrays": described,
    }
    return [VERSION, _bytes(message.token), json.dumps(header, allow_nan=True).encode(), *buffers]


def unpacked(frames: Sequence[bytes]) -> Message:
    """Return the message in frames, or raise MessageError."""
    if not 3 <= len(frames) <= MOST_FRAMES or frames[0] != VERSION:
        spoken = frames[0][:40] if frames else b""
        raise MessageError(f"A message of another protocol arrived ({spoken!r}, expected {VERSION.decode()}).")
    if len(frames[2]) > LONGEST_HEADER:
        raise MessageError(f"A header of {len(frames[2])} bytes is too long.")
    try:
        header = json.loads(frames[2])
        described = list(header["arrays"])
        if len(described) != len(frames) - 3:
            raise MessageError(f"{len(frames) - 3} arrays arrived, {len(described)} were announced.")
        arrays = {str(d["name"]): _array(d, data) for d, data in zip(described, frames[3:], strict=True)}
        return Message(
            str(header["verb"]), str(header["session"]), int(header["number"]), frames[1].decode("utf-8", "replace"),
            dict(header["content"]), arrays,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as problem:
        raise MessageError(f"A damaged message arrived ({problem!r}).") from None


def _array(described: Mapping[str, Any], data: bytes) -> Array:
    shape = tuple(int(n) for n in described["shape"])
    kind = str(described["dtype"])
    # The dtype comes from outside: only the types of the protocol are accepted.
    if kind not in DTYPES:
        raise MessageError(f"An array of type {kind!r} is not part of the protocol.")
    dtype = np.dtype(kind)
    size = math.prod(shape) * dtype.itemsize
    if any(n < 0 for n in shape) or size != len(data) or size > LARGEST_ARRAY:
        raise MessageError(f"An array of shape {shape} does not fit its {len(data)} bytes.")
    if zlib.crc32(data) != int(described["crc"]):
        raise MessageError("An array was changed on the way (its checksum differs).")
    return np.frombuffer(data, dtype).reshape(shape).copy()


def carries(frames: Sequence[bytes], token: str) -> bool:
    """Return whether frames carry the token.

    The time does not depend on how much of the token is right.
    """
    return 3 <= len(frames) <= MOST_FRAMES and frames[0] == VERSION and hmac.compare_digest(frames[1], _bytes(token))


def _bytes(token: str) -> bytes:
    return token.encode(errors="backslashreplace")


def checked_token(token: str) -> str:
    """Check a secret that clients must know.

    An empty one is refused.
    """
    if not checks.text("token", token, longest=1000, error=RigError).strip():
        raise RigError("The token is empty: every process on this machine knows it. Leave it out for a new one.")
    return token


def failed(message: Message, problem: Exception) -> Message:
    """Return the answer to a failed request.

    One that was refused or went wrong.
    """
    names = {each: name for name, each in KINDS.items()}
    kind = next((names[c] for c in type(problem).__mro__ if c in names), "RigError")
    return Message("failed", message.session, message.number, "", {"kind": kind, "text": str(problem)})


def other_version(frames: Sequence[bytes]) -> str:
    """Return another version of the protocol, if any.

    It returns the version of these frames where it differs, "" otherwise.
    """
    if not frames or not frames[0].startswith(FAMILY) or frames[0] == VERSION:
        return ""
    return frames[0][:40].decode("ascii", "backslashreplace")


def described_rig(rig: Any) -> dict[str, Any]:
    """Describe a rig in JSON types.

    The description holds inputs, outputs, parameters and sample time.
    """
    return {
        "inputs": [asdict(i) for i in rig.inputs],
        "outputs": list(rig.outputs),
        "parameters": [asdict(p) for p in rig.parameters],
        "sample_time": rig.sample_time,
    }


def rig_inputs(content: Mapping[str, Any]) -> tuple[PeriodicInput, ...]:
    return tuple(PeriodicInput(**entry) for entry in content["inputs"])


def rig_parameters(content: Mapping[str, Any]) -> tuple[RigParameter, ...]:
    return tuple(RigParameter(**{**entry, "bounds": tuple(entry["bounds"])}) for entry in content["parameters"])


def demand_arrays(demands: Mapping[str, FourierSeries]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Convert demands to content and arrays."""
    frequency = next((s.frequency for s in demands.values()), None)
    return {"frequency": frequency}, {name: np.asarray(s.coefficients, "<f8") for name, s in demands.items()}


def demands_of(message: Message) -> dict[str, FourierSeries]:
    frequency = message.content.get("frequency")
    return {name: FourierSeries(float(frequency or 0.0), values) for name, values in message.arrays.items()}


def samples_arrays(samples: Samples) -> tuple[dict[str, Any], dict[str, Array]]:
    arrays = {
        "phases": samples.phases.astype("<f8"),
        "values": samples.values.astype("<f8"),
        "control": samples.control.astype("<f8"),
        "lost": samples.lost.astype("|b1"),
        "saturated": samples.saturated.astype("|b1"),
    }
    return {"index": samples.index, "changing": bool(samples.changing)}, arrays


def samples_of(message: Message) -> Samples:
    arrays = message.arrays
    return Samples(
        int(message.content["index"]),
        arrays["phases"],
        arrays["values"],
        arrays["control"],
        arrays["lost"],
        arrays["saturated"],
        bool(message.content.get("changing", False)),
    )
