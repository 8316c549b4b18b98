"""Run jobs for the studio in a process.

The server starts it as `python -m kapitza.studio.worker`.
Standard input holds one JSON object per line: {"job": name, "arguments": {...}} starts a job, {"stop": true} stops it.
Its end means that the server is gone: the job is cancelled, and the process ends within `GRACE` seconds.

Standard output holds one JSON object per line, each with "event":

    ready     imports are done, a job can be given
    progress  level, title, done, total, text, ended, and whatever else `Progress` has; passed: the estimates since the
              last line, before those of this one
    done      the job has returned; result: its dictionary
    stopped   the job was stopped before its end
    failed    message: why; locked: whether another process holds the results

and any line that a job emits itself, such as {"event": "point", ...}. Progress is written at most every `PAUSE`
seconds, the last of each level: lines of the outer levels are not lost behind fast iterations.
"""

from __future__ import annotations

import dataclasses
import io
import json
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any

import numpy as np

PAUSE = 0.1
"""Seconds between two writings of progress; a screen shows no more."""

MOST = 200
"""Estimates of one level that are kept between two writings."""

GRACE = 2.5
"""Seconds that a job has to stop after the server is gone, before the kernel ends this process."""

NICE = 5
"""Added to the niceness: the page answers before the fit goes on."""

Emit = Callable[[Mapping[str, Any]], None]


class Out:
    """Lines on standard output, from any thread."""

    def __init__(self, stream: IO[bytes]):
        self._stream, self._lock = stream, threading.Lock()

    def emit(self, line: Mapping[str, Any]) -> None:
        """Write one line.

        A lost server is noticed at the end of the input.
        """
        text = json.dumps(plain(line), ensure_ascii=True).encode() + b"\n"
        with self._lock:
            try:
                self._stream.write(text)
                self._stream.flush()
            except (OSError, ValueError):
                return


class Lines:
    """Write progress as lines.

    This monitor is throttled by level and stopped from the input.
    """

    def __init__(self, out: Out):
        self._out, self._stop = out, threading.Event()
        self._pending: dict[int, Any] = {}
        self._passed: dict[int, list[Mapping[str, float]]] = {}
        self._lock = threading.Lock()

    @property
    def cancelled(self) -> bool:
        return self._stop.is_set()

    def cancel(self) -> None:
        """Ask the job to stop."""
        self._stop.set()

    def show(self, progress: Any) -> None:
        with self._lock:
            self._pending[progress.level] = progress
            passed = self._passed.setdefault(progress.level, [])
            # Points of a branch come faster than lines are written: none of them is lost.
            if progress.estimates and (not passed or passed[-1] is not progress.estimates) and len(passed) < MOST:
                passed.append(progress.estimates)

    def flush(self) -> None:
        """Write the last unwritten progress of each level."""
        with self._lock:
            pending, self._pending = self._pending, {}
            passed, self._passed = self._passed, {}
        for level, progress in sorted(pending.items()):
            # The last ones are in the line itself.
            before = [one for one in passed.get(level, ()) if one is not progress.estimates]
            self._out.emit({"event": "progress", **_fields(progress), "passed": before})

    def write_until(self, over: threading.Event) -> None:
        """Flush regularly until the job is over."""
        while not over.wait(PAUSE):
            self.flush()


def _fields(progress: Any) -> dict[str, Any]:
    return {f.name: getattr(progress, f.name) for f in dataclasses.fields(progress)}


def plain(value: Any) -> Any:
    """Return a value as JSON has it.

    Numbers that are not finite become None.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    return str(value)


class Worker:
    """Run jobs one after the other.

    They run in one process; each is stopped from the input.
    """

    def __init__(self, source: Iterable[bytes], out: Out):
        self.source, self.out = source, out
        self.monitor = Lines(out)
        self.given: list[tuple[dict[str, Any], Lines]] = []
        self.arrived = threading.Condition()
        self.closed = False

    def listen(self) -> None:
        """Read the input, then end this process."""
        for line in self.source:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if message.get("stop"):
                self._stop()
            elif "job" in message:
                with self.arrived:
                    # Made here: a stop that comes before the job has begun must reach it.
                    self.monitor = Lines(self.out)
                    self.given.append((message, self.monitor))
                    self.arrived.notify()
        # The kernel ends the process even where compiled code does not give way to other threads any more.
        signal.setitimer(signal.ITIMER_REAL, GRACE)
        self.monitor.cancel()
        with self.arrived:
            self.closed = True
            self.arrived.notify()

    def _stop(self) -> None:
        """Stop the last job.

        One that has not begun is answered at once: the imports before the first job take seconds.
        """
        self.monitor.cancel()
        with self.arrived:
            waiting = [one for one in self.given if one[1] is self.monitor]
            self.given = [one for one in self.given if one[1] is not self.monitor]
        if waiting:
            self.out.emit({"event": "stopped"})

    def next_job(self) -> tuple[dict[str, Any], Lines] | None:
        """Wait for a job.

        The result is None at the end of the input.
        """
        with self.arrived:
            while not self.given and not self.closed:
                self.arrived.wait()
            return None if self.closed else self.given.pop(0)

    def work(self) -> None:
        """Do jobs until the input ends."""
        from kapitza.studio.jobs import JOBS, preload

        preload()
        self.out.emit({"event": "ready"})
        while (given := self.next_job()) is not None:
            message, monitor = given
            over = threading.Event()
            writer = threading.Thread(target=monitor.write_until, args=(over,), daemon=True)
            writer.start()
            end = self._end_of(JOBS[message["job"]], message.get("arguments", {}), monitor)
            over.set()
            writer.join()
            monitor.flush()
            self.out.emit(end)

    def _end_of(
        self, job: Callable[..., Mapping[str, Any]], arguments: Mapping[str, Any], monitor: Lines
    ) -> dict[str, Any]:
        from kapitza.base.cures import in_study
        from kapitza.errors import KapitzaError, LockedError

        try:
            result = {} if monitor.cancelled else job(arguments, self.out.emit, monitor)
        except KeyboardInterrupt:
            return {"event": "stopped"}
        except LockedError as problem:
            return {"event": "failed", "message": str(problem), "locked": True}
        except (KapitzaError, OSError) as problem:
            return {"event": "failed", "message": in_study(problem)}
        except MemoryError:
            return {"event": "failed", "message": "This does not fit into the memory: use fewer samples."}
        except Exception as problem:
            # A defect of a job ends the job with its name, not the worker.
            return {"event": "failed", "message": f"{type(problem).__name__}: {problem}"}
        return {"event": "done", "result": result} if result else {"event": "stopped"}


def main() -> None:
    """Work until standard input ends."""
    # The name that the lock of a results folder shows to others.
    sys.argv[:] = ["kapitza", "studio"]
    # Whatever a library prints must not break the lines: standard output becomes standard error.
    out = Out(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    if sys.platform != "win32":
        os.nice(NICE)
    # Ctrl-C in the terminal reaches the whole group; the server decides what is stopped.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    # Without a buffer: the thread that waits for a line holds no lock when this process ends.
    worker = Worker(io.FileIO(0, closefd=False), out)
    threading.Thread(target=worker.listen, daemon=True).start()
    worker.work()


if __name__ == "__main__":
    main()
