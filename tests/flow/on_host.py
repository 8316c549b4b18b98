"""Kernels for an accelerator compiled by the C compiler and run here: the same text, one trajectory after another."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from kapitza.flow.device.card import Found, Work

FLAGS = ["-O1", "-std=gnu11", "-shared", "-fPIC", "-Wall", "-Werror", "-Wno-unused-variable", "-Wno-unused-function",
         "-Wno-unused-but-set-variable", "-Wno-maybe-uninitialized"]  # fmt: skip


def compiler() -> list[str]:
    """$CC, the usual names, or zig where none is there."""
    given = os.environ.get("CC", "").strip()
    named = [name for name in ("cc", "gcc", "clang") if shutil.which(name)]
    return shlex.split(given) if given else named[:1] or [sys.executable, "-m", "ziglang", "cc"]


def can_compile() -> bool:
    """Whether there is a compiler: the one that the installation fetched is gone after it."""
    return bool(shutil.which(compiler()[0])) and ("ziglang" not in compiler() or find_spec("ziglang") is not None)


@cache
def library(source: str) -> ctypes.CDLL:
    folder = Path(tempfile.gettempdir()) / f"kapitza-kernels-{os.getuid()}-{os.getpid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / (hashlib.sha256(source.encode()).hexdigest()[:16] + ".so")
    text = path.with_suffix(".c")
    text.write_text(source, encoding="utf-8")
    done = subprocess.run([*compiler(), *FLAGS, "-o", str(path), str(text), "-lm"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return ctypes.CDLL(str(path))


class Host:
    """A backend without a card."""

    name = "C compiler"
    _lock = threading.Lock()
    """The loop over trajectories counts in one variable of the library."""

    def prepare(self, source: str) -> None:
        library(source)

    def follow(self, source: str, work: Work, found: Found) -> None:
        count = work.count
        out, marks = np.zeros((*work.out, count)), np.zeros((3, count), np.int32)
        turns = np.zeros((*work.turns, count), np.int32)
        *arrays, setup, nets = work.arrays()
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays, setup, nets, out, marks, turns)]
        numbers = ctypes.c_double(work.tolerance), ctypes.c_int(work.max_steps), ctypes.c_int(work.each)
        with self._lock:
            library(source).kz_follow_all(ctypes.c_long(count), *pointers[:7], *numbers, *pointers[7:])
        found.out[...], found.marks[...], found.turns[...] = out, marks, turns
