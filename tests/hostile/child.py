"""One case after another in a process that may die: limits of memory, a watch over what is touched."""

from __future__ import annotations

import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

# Loaded here, before the fork, so that no case pays for it.
import h5py
import matplotlib.pyplot
import pandas
import pint
import pyarrow.parquet
from tests.hostile import calls
from tests.hostile.families import FAMILIES

import kapitza.cli.app
import kapitza.estimate
import kapitza.flow
import kapitza.orbits.in_records
import kapitza.orbits.of_models
import kapitza.report
import kapitza.saving
import kapitza.study
from kapitza.base.units import is_unit
from kapitza.errors import KapitzaError
from kapitza.estimate.bayes import bayes_packages

PRELOADED = (*bayes_packages(), h5py, kapitza, matplotlib, pandas, pint, pyarrow)
is_unit("deg")  # the registry of units
calls.warm()

MEMORY = 1 << 30
CANARY = 7.25e77
"""A number that lies in files beside the cases: a result that holds it has read what it must not."""

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
FORBIDDEN = ("os.system", "os.exec", "socket.connect", "pickle.find_class")
STARTING = ("subprocess.Popen", "os.posix_spawn", "os.fork")
CHANGING = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.symlink", "os.link", "os.truncate", "os.chmod")


@dataclass(frozen=True)
class Ending:
    """How a case ended: "result", "refused", "traceback", "memory", "touched"; hangs and crashes are the parent's."""

    kind: str
    detail: str = ""
    seconds: float = 0.0


class Watch:
    """Notes what Python does outside the folder of the case."""

    def __init__(self) -> None:
        self.folder: str | None = None
        self.seen: list[str] = []
        self.starts_processes = False
        sys.addaudithook(self.hook)

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder is None:
            return
        if event in FORBIDDEN or (event in STARTING and not self.starts_processes):
            self.seen.append(f"{event} {str(arguments)[:80]}")
        elif event == "open" and isinstance(arguments[0], str | bytes) and (arguments[2] or 0) & WRITING:
            self.look(event, arguments[0])
        elif event in CHANGING:
            for place in arguments[:2]:
                if isinstance(place, str | bytes):
                    self.look(event, place)

    def look(self, event: str, place: str | bytes) -> None:
        path = os.path.realpath(os.fsdecode(place))
        assert self.folder is not None
        if not path.startswith(self.folder) and path != os.devnull:
            self.seen.append(f"{event} {path[:120]}")


def work(connection: Connection, room: str) -> None:
    """Take cases until told to end. room: the folder that holds the folders of the cases."""
    os.chdir(room)
    # A module that a case is the first to import would be compiled into __pycache__, outside the case's folder.
    sys.dont_write_bytecode = True
    warnings.simplefilter("ignore")
    sys.setrecursionlimit(1000)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    # Libraries reserve addresses that they never fill: the limit is wider than what a case may really use.
    resource.setrlimit(resource.RLIMIT_AS, (size + 2 * MEMORY, size + 2 * MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Complaints of C libraries would drown the table.
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    watch = Watch()
    while True:
        try:
            order = connection.recv()
        except EOFError:
            return
        if order is None:
            return
        connection.send(one(*order, Path(room), watch))


def used_memory(entry: str) -> int:
    """Bytes that this process holds (VmRSS), or held at its peak (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(entry)).split()[1])


def one(family: str, case: Any, room: Path, watch: Watch) -> Ending:
    folder = room / f"case{os.getpid()}"
    folder.mkdir()
    os.chdir(folder)
    tempfile.tempdir = str(folder)  # libraries of some formats read through a temporary file
    before = used_memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    watch.folder, watch.seen = str(folder), []
    watch.starts_processes = FAMILIES[family].starts_processes
    begin = time.process_time()
    try:
        ending = Ending("result", str(FAMILIES[family].act(case, folder)))
    except KapitzaError as problem:
        ending = Ending("refused", str(problem))
    except MemoryError:
        ending = Ending("memory", traceback.format_exc())
    except BaseException:
        ending = Ending("traceback", traceback.format_exc())
    watch.folder = None
    seconds = time.process_time() - begin
    os.chdir(room)
    shutil.rmtree(folder, ignore_errors=True)
    matplotlib.pyplot.close("all")
    peak = used_memory("VmHWM") - before
    if peak > MEMORY:
        return Ending("memory", f"{peak / 1e6:.0f} MB", seconds)
    if watch.seen:
        return Ending("touched", "; ".join(watch.seen), seconds)
    if f"{CANARY:.2e}".replace("+", "") in ending.detail.replace("+", ""):
        return Ending("touched", "a number from another file came back", seconds)
    return Ending(ending.kind, ending.detail[-3000:], seconds)
