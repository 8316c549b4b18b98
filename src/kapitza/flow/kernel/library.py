"""Shared library of the compiled stepper.

The module holds the layout of a run, and tapes that the library has checked.
"""

from __future__ import annotations

import ctypes
import os
import weakref
import zlib
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kapitza.errors import FlowError
from kapitza.flow.kernel.tape import Tape

DONE, GIVEN_BACK, NEED_REGIME, FULL, STEPS, NOT_FINITE, STALLED, MEMORY, MANY_EVENTS, BAD_CALL, UNSETTLED = range(11)

SIZES = 15
"""Numbers that describe a tape."""

STRICT, FINE, SHIFTED, TOUCHED = range(4)
"""How the next step passes surfaces that are zero at its start, as in hybrid.c."""

KINDS = ("cross", "stick", "release", "impact", "contact", "detach", "graze", "crossing", "edge")
"""Kinds of events and endings by number."""

_pointer, _double, _long, _int = ctypes.c_void_p, ctypes.c_double, ctypes.c_int64, ctypes.c_int32


SOURCE = Path(__file__).with_name("hybrid.c")
"""Source of the library."""

BUILD = (
    'Build it with "make" or "pip install -e ." in the folder of the sources, or install Kapitza again with '
    '"pip install --force-reinstall --no-deps kapitza". Models without switches and impacts do not need it.'
)
"""What to do where the library cannot be used."""


class NoStepperError(FlowError):
    """The compiled stepper is missing or cannot be used."""


class CRun(ctypes.Structure):
    """One run, field by field as `kz_run` in hybrid.c."""

    _fields_ = (
        [(name, _double) for name in ("t", "t_low", "t1", "tolerance", "contact_speed", "log_determinant", "fastest")]
        + [(name, _pointer) for name in ("x", "V", "runtime", "grid", "grid_x", "grid_V", "grid_rates", "end_rates")]
        + [(name, _pointer) for name in ("event_times", "event_states", "event_marks", "wrt", "side", "next_regime")]
        + [(name, _pointer) for name in ("knots", "coefficients")]
        + [(name, _long) for name in ("knot_count", "knot_done")]
        + [(name, _long) for name in ("grid_count", "grid_done", "event_room", "event_count")]
        + [(name, _long) for name in ("steps", "max_steps", "handled", "max_events")]
        + [(name, _int) for name in ("first_coefficient", "signals")]
        + [(name, _int) for name in ("columns", "regime", "status", "ending_kind", "ending_index")]
        + [(name, _int) for name in ("max_at_once", "fresh", "pending", "lenient")]
    )


def library_path() -> Path | None:
    """Return the path of the shared library.

    It is beside this module; None where it was not built.
    $KAPITZA_KERNEL names another one, such as a build with sanitizers.
    """
    if os.environ.get("KAPITZA_KERNEL"):
        return Path(os.environ["KAPITZA_KERNEL"])
    here = Path(__file__).parent
    found = [p for suffix in ("so", "dylib", "dll") for p in here.glob(f"hybrid*.{suffix}")]
    return found[0] if found else None


def source_version(source: Path) -> int:
    """Return a checksum of the source.

    The library was compiled with it: one of other sources is not loaded.
    """
    return zlib.crc32(source.read_bytes()) & 0x7FFFFFFF


@cache
def library() -> ctypes.CDLL:
    """Return the loaded library.

    A library that is missing or cannot be used is an error that names the command to build it.
    """
    path = library_path()
    if path is None:
        raise NoStepperError(f"The compiled stepper for switches and impacts is not built. {BUILD}")
    try:
        loaded = ctypes.CDLL(str(path))
        loaded.kz_version.restype = _int
        # A library built from other sources may lay out a run differently.
        problem = "" if loaded.kz_version() == source_version(SOURCE) else f"it was not built from this {SOURCE.name}"
    except (OSError, AttributeError) as error:
        problem = f"it cannot be loaded ({error})"
    if problem:
        raise NoStepperError(
            f"The compiled stepper {path.name} for switches and impacts cannot be used: {problem}. {BUILD}"
        )
    loaded.kz_tape_new.argtypes = [_pointer] * 8 + [ctypes.POINTER(_pointer)]
    loaded.kz_tape_new.restype = _int
    loaded.kz_tape_free.argtypes = [_pointer]
    loaded.kz_tape_free.restype = None
    loaded.kz_travel.argtypes = [_pointer, _int, _pointer, _pointer]
    loaded.kz_travel.restype = _int
    loaded.kz_space_new.argtypes, loaded.kz_space_new.restype = [], _pointer
    loaded.kz_space_free.argtypes, loaded.kz_space_free.restype = [_pointer], None
    loaded.kz_travel_many.argtypes = [_pointer, _int, _pointer, _long]
    loaded.kz_travel_many.restype = None
    return loaded


def address(array: NDArray[np.generic] | None) -> int | None:
    """Return the address of an array's numbers.

    It is None for no array. The library reads rows one after another: any other order would give other numbers.
    """
    if array is None:
        return None
    if not array.flags.c_contiguous:
        raise ValueError("the rows of an array do not follow each other in memory")
    return array.ctypes.data


class Space:
    """Workspace for the runs of one thread.

    It is kept from one run to the next, and freed with this object.
    """

    def __init__(self) -> None:
        stepper = library()
        made = stepper.kz_space_new()
        if made is None:
            raise MemoryError("no memory for a run")
        self.handle: int = made
        weakref.finalize(self, stepper.kz_space_free, _pointer(self.handle))


class CheckedTape:
    """A tape that the library has copied and checked.

    It is freed with this object.
    """

    def __init__(self, tape: Tape):
        made, stepper = _pointer(), library()
        arrays = [
            np.ascontiguousarray(a)
            for a in (
                tape.sizes,
                tape.code,
                tape.term_nodes,
                tape.term_scales,
                tape.term_factors,
                tape.literals,
                tape.outputs,
            )
        ]
        if tape.sizes.shape != (SIZES,) or tape.code.shape[1:] != (4,):
            raise ValueError("the tape is not well formed")
        lengths = np.array([len(a) for a in arrays[1:]], np.int64)
        status = stepper.kz_tape_new(*map(address, arrays), address(lengths), ctypes.byref(made))
        if status != DONE or made.value is None:
            raise MemoryError("no memory for a tape") if status == MEMORY else ValueError("the tape is not well formed")
        self.handle: int = made.value
        weakref.finalize(self, stepper.kz_tape_free, _pointer(self.handle))
