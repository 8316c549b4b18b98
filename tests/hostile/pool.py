"""Cases through a pool of processes that are watched from outside: time, memory, death."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from tests.hostile.family import FAMILIES
from tests.processes import computed

PATIENCE = 300.0
"""Time on the clock after which a case that does not compute is given up."""

CASES_PER_PROCESS = 60


@dataclass(frozen=True)
class Case:
    """A case of a family by number."""

    family: str
    number: int
    content: Any = field(repr=False)


@dataclass(frozen=True)
class Outcome:
    case: Case
    kind: str
    detail: str
    seconds: float


@dataclass
class _Worker:
    process: Any
    pipe: Any
    case: Case
    computed: float
    begun: float
    done: int = 0


def outcomes(cases: list[Case], processes: int = 2) -> Iterator[Outcome]:
    """How every case ended, in the order in which they end."""
    # Arenas per thread and the pool of Arrow reserve gigabytes of addresses, which the limit would count.
    os.environ |= {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"}
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.hostile.child"])
    waiting = cases[::-1]
    with tempfile.TemporaryDirectory() as name:
        room = _room(Path(name))
        before = sorted(p.name for p in room.iterdir())
        workers: list[_Worker] = []
        while waiting or workers:
            while waiting and len(workers) < processes:
                workers.append(_start(context, room, waiting.pop()))
            wait([w.pipe for w in workers], timeout=0.2)
            for worker in list(workers):
                ended = _look(worker)
                if ended is None:
                    continue
                yield ended
                alive = worker.process.is_alive() and ended.kind not in ("hang", "crash")
                if alive and worker.done < CASES_PER_PROCESS and waiting:
                    _give(worker, waiting.pop())
                else:
                    workers.remove(worker)
                    _end(worker)
        after = sorted(p.name for p in room.iterdir() if not p.name.startswith("case"))
        if after != before or (room / "canary.bin").read_bytes() != _canary():
            yield Outcome(Case("all", -1, None), "touched", f"files beside the cases: {after}, before: {before}", 0.0)


def _canary() -> bytes:
    import numpy as np

    return np.full(4, 7.25e77).tobytes()


def _room(folder: Path) -> Path:
    """A folder with files that no case may read or change."""
    import h5py
    import numpy as np

    room = folder / "room"
    room.mkdir()
    (room / "canary.bin").write_bytes(_canary())
    with h5py.File(room / "canary.h5", "w") as file:
        file["x"] = np.full(4, 7.25e77)
    return room.resolve()


def _start(context: Any, room: Path, case: Case) -> _Worker:
    from tests.hostile.child import work

    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs, str(room)), daemon=True)
    process.start()
    theirs.close()
    worker = _Worker(process, ours, case, 0.0, 0.0)
    _give(worker, case)
    return worker


def _give(worker: _Worker, case: Case) -> None:
    worker.case, worker.computed, worker.begun = case, computed(worker.process.pid), time.monotonic()
    worker.done += 1
    worker.pipe.send((case.family, case.content))


def _look(worker: _Worker) -> Outcome | None:
    """The end of the case, or None while it goes on within its limits."""
    limit = FAMILIES[worker.case.family].seconds
    used = computed(worker.process.pid) - worker.computed
    if worker.pipe.poll():
        try:
            ending = worker.pipe.recv()
        except (EOFError, OSError):
            return Outcome(worker.case, "crash", f"the process died with code {worker.process.exitcode}", used)
        if ending.seconds > limit:
            return Outcome(worker.case, "hang", f"{ending.seconds:.1f} s of computing", ending.seconds)
        return Outcome(worker.case, ending.kind, ending.detail, ending.seconds)
    if not worker.process.is_alive():
        return Outcome(worker.case, "crash", f"the process died with code {worker.process.exitcode}", used)
    if used > limit + 1 or time.monotonic() - worker.begun > PATIENCE:
        return Outcome(worker.case, "hang", f"more than {limit:g} s of computing", used)
    return None


def _end(worker: _Worker) -> None:
    if worker.process.is_alive():
        worker.process.kill()
    worker.process.join()
    worker.pipe.close()
