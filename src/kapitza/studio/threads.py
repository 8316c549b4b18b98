"""Run work in threads, after the imports."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import sys
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from nicegui import run

P = ParamSpec("P")
R = TypeVar("R")

SHARED = ("pandas", "dask.base", "xarray", "scipy.signal", "plotly.graph_objects")
"""Packages that functions of Kapitza import when they are called, and whose modules import one another."""

LARGE = 1_000_000
"""Samples of a recording whose temporary arrays are worth returning to the system."""

_lock = threading.Lock()
_imported: list[str] = []


async def in_thread(work: Callable[P, R], *arguments: P.args, **settings: P.kwargs) -> R | None:
    """Return what work in a thread returns.

    None where the server is ending.
    """
    return await run.io_bound(_after_imports, work, *arguments, **settings)


def _after_imports(work: Callable[P, R], *arguments: P.args, **settings: P.kwargs) -> R:
    import_shared()
    return work(*arguments, **settings)


def import_shared() -> None:
    """Import shared packages once, in one thread.

    Two threads that import modules with a circle between them at the same time get "partially initialized module".
    """
    with _lock:
        for name in SHARED if not _imported else ():
            # Not all of them are installed everywhere.
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
            _imported.append(name)


@functools.cache
def _trim() -> Callable[[int], int] | None:
    """Return the call that returns freed memory: the C library of GNU has it."""
    if not sys.platform.startswith("linux"):
        return None
    with contextlib.suppress(OSError, AttributeError):
        return ctypes.CDLL("libc.so.6").malloc_trim
    return None


def return_memory(samples: int) -> None:
    """Return freed memory to the system after work on a long recording.

    Temporary arrays of threads stay in pools of the C library, which does not return them by itself.
    """
    trim = _trim() if samples >= LARGE else None
    if trim is not None:
        trim(0)
