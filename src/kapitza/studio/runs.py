"""Run work in separate processes.

The processes are started, read, stopped, and killed when they do not stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

PATIENCE = 5.0
"""Seconds that a job has to stop before its process is killed."""

LONGEST_LINE = 64 * 2**20

MOST_ESTIMATES = 500
"""Estimates of a run that are kept for its picture."""


@dataclass
class Run:
    """Hold one job from start to end.

    The same object is updated as lines come.
    state: "running", "stopping", then "done", "stopped", "failed" or "killed". levels: the last progress by level;
    lines: what the job has emitted of its own, in order; estimates: those of a fit, as they moved. result: of "done";
    message: of "failed" and "killed".
    """

    job: str
    arguments: Mapping[str, Any]
    state: str = "running"
    levels: dict[int, dict[str, Any]] = field(default_factory=dict)
    lines: list[dict[str, Any]] = field(default_factory=list)
    estimates: list[dict[str, float]] = field(default_factory=list)
    result: dict[str, Any] = field(default_factory=dict)
    message: str = ""
    locked: bool = False
    started: float = field(default_factory=time.time)
    ended: float | None = None

    @property
    def active(self) -> bool:
        return self.state in ("running", "stopping")

    @property
    def seconds(self) -> float:
        """Time that it has run, or ran, in seconds."""
        return (self.ended or time.time()) - self.started

    def hear(self, line: dict[str, Any]) -> None:
        """Take over one line of the worker."""
        event = line.get("event")
        if event == "progress":
            level = int(line["level"])
            # Work that begins anew at a level ends what was inside of it before.
            for inner in [one for one in self.levels if one > level]:
                del self.levels[inner]
            for estimates in (*(line.pop("passed", None) or ()), line.get("estimates") or {}):
                self._move(estimates)
            if line.get("ended"):
                self.levels.pop(level, None)
            else:
                self.levels[level] = line
        elif event in ("done", "stopped", "failed"):
            self.state = event
            self.result = line.get("result") or {}
            self.message = line.get("message", "")
            self.locked = bool(line.get("locked"))
            self.ended = time.time()
            self.levels.clear()
        else:
            self.lines.append(line)

    def _move(self, estimates: Mapping[str, float | None]) -> None:
        """Keep estimates that differ from the last ones.

        A short fit is over before a page looks again.
        """
        found = {name: value for name, value in estimates.items() if value is not None}
        if found and (not self.estimates or found != self.estimates[-1]):
            self.estimates.append(found)
            del self.estimates[:-MOST_ESTIMATES]


@dataclass
class _Worker:
    process: Process
    ready: bool = False


class Runs:
    """Manage the workers of a server.

    One is kept ready; each job has its own.
    """

    def __init__(self) -> None:
        self._warm: _Worker | None = None
        self._busy: dict[int, _Worker] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False
        self.pids: set[int] = set()
        """Processes that are alive."""

    async def warm_up(self) -> None:
        """Start a worker that waits for a job.

        Everything is imported.
        """
        if self._closing or (self._warm is not None and self._warm.process.returncode is None):
            return
        self._warm = await self._started()

    async def start(self, job: str, arguments: Mapping[str, Any], heard: Callable[[Run], None]) -> Run:
        """Start a job.

        `heard` is called with the run after each line, and once after its end.
        """
        run = Run(job, dict(arguments))
        await self.warm_up()
        worker, self._warm = self._warm, None
        assert worker is not None
        assert worker.process.stdin is not None
        self._busy[id(run)] = worker
        worker.process.stdin.write(json.dumps({"job": job, "arguments": run.arguments}).encode() + b"\n")
        self._keep(asyncio.create_task(self._listen(run, worker, heard)))
        return run

    async def stop(self, run: Run, heard: Callable[[Run], None]) -> None:
        """Stop a job.

        It is killed where it does not stop within `PATIENCE` seconds.
        """
        worker = self._busy.get(id(run))
        if worker is None or run.state != "running":
            return
        run.state = "stopping"
        heard(run)
        assert worker.process.stdin is not None
        with contextlib.suppress(ConnectionError):
            worker.process.stdin.write(b'{"stop": true}\n')
        for _ in range(int(PATIENCE / 0.1)):
            await asyncio.sleep(0.1)
            if not run.active:
                return
        with contextlib.suppress(ProcessLookupError):
            worker.process.kill()

    async def close(self) -> None:
        """End all workers.

        They are asked first, and killed when they do not end.
        """
        self._closing = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        workers = [*self._busy.values(), *([self._warm] if self._warm else [])]
        for worker in workers:
            if worker.process.stdin is not None:
                worker.process.stdin.close()
        for worker in workers:
            try:
                await asyncio.wait_for(worker.process.wait(), 1.0)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    worker.process.kill()
                await worker.process.wait()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _keep(self, task: asyncio.Task[None]) -> None:
        # The loop holds tasks weakly: one that nobody holds may vanish.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _started(self) -> _Worker:
        # -P: the present folder is one of recordings, and a json.py beside them is not a module of the worker.
        command = [sys.executable, "-P", "-m", "kapitza.studio.worker"]
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, limit=LONGEST_LINE)
        self.pids.add(process.pid)
        return _Worker(process)

    async def _listen(self, run: Run, worker: _Worker, heard: Callable[[Run], None]) -> None:
        stream = worker.process.stdout
        assert stream is not None
        while run.active:
            text = await stream.readline()
            if not text:
                break
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if line.get("event") == "ready":
                continue
            run.hear(line)
            if run.active:
                heard(run)
        self._busy.pop(id(run), None)
        if run.active:
            await self._died(run, worker)
        elif self._warm is None:
            self._warm = worker
        else:
            # Closing the input ends a worker that is not needed.
            assert worker.process.stdin is not None
            worker.process.stdin.close()
            await worker.process.wait()
            self.pids.discard(worker.process.pid)
        heard(run)
        self._keep(asyncio.create_task(self.warm_up()))

    async def _died(self, run: Run, worker: _Worker) -> None:
        """Report how an unfinished worker ended."""
        code = await worker.process.wait()
        self.pids.discard(worker.process.pid)
        was, run.state, run.ended = run.state, "killed", time.time()
        run.levels.clear()
        if was == "stopping":
            run.message = f"It did not stop within {PATIENCE:g} s and was killed; finished fits are kept."
        elif code < 0:
            run.message = f"Its process was ended by {signal.Signals(-code).name}; finished fits are kept."
        else:
            run.message = f"Its process ended with code {code}; finished fits are kept."
