"""Fits of the studio killed: the worker, the server, both, each at 20 moments, and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from harness import load, markdown_table
from harness.kept import kept

import kapitza as kz

MOMENTS = 20
FITS = 3
SEED = 3
GONE = 5.0
"""Seconds after which no process may be left."""

STUDY = """
[[model]]
name = "one"
library = "lorenz"
[[model]]
name = "two"
library = "lorenz"
[[model]]
name = "three"
library = "lorenz"
values = {beta = 2.6}
[data]
file = "run.csv"
[fit]
free = ["rho", "sigma"]
method = "shooting"
[output]
report = false
"""

SERVER = """
import asyncio, json, sys
from kapitza.studio.runs import Runs
async def main():
    runs = Runs()
    def heard(run):
        pids = [worker.process.pid for worker in runs._busy.values()]
        fits = run.levels.get(0, {}).get("done", -1)
        print(json.dumps({"state": run.state, "fits": fits, "pids": sorted(runs.pids), "busy": pids,
                          "message": run.message}), flush=True)
    run = await runs.start("identify", {"study": sys.argv[1], "resume": True}, heard)
    while run.active:
        await asyncio.sleep(0.05)
    heard(run)
    await runs.close()
asyncio.run(main())
"""
"""What the server of the page does for a fit, without the page: kapitza.studio.runs in a loop."""


class Server:
    """A server that fits a study; its lines are read until it ends."""

    def __init__(self, study: Path):
        self.process = subprocess.Popen([sys.executable, "-c", SERVER, str(study)], stdout=subprocess.PIPE, text=True)
        self.pids: set[int] = {self.process.pid}
        self.states: list[dict[str, object]] = []

    def until_fitted(self, number: int) -> None:
        """Wait until so many fits are finished and the next one runs."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._take(line)
            fits = self.states[-1]["fits"]
            if isinstance(fits, int | float) and fits >= number:
                return

    def until_end(self) -> str:
        """Wait for the end; returns the last state."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._take(line)
        self.process.wait()
        return f"{self.states[-1]['state']} {self.states[-1]['message']}".strip() if self.states else "none"

    def _take(self, line: str) -> None:
        self.states.append(json.loads(line))
        pids = self.states[-1]["pids"]
        assert isinstance(pids, list)
        self.pids |= set(pids)

    @property
    def worker(self) -> int:
        busy = self.states[-1]["busy"]
        assert isinstance(busy, list)
        return int(busy[0])

    def close(self) -> None:
        """Read what is left, so that nothing of it stays open."""
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process.wait()


def alive(pid: int) -> bool:
    """Return whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def kill(pid: int) -> None:
    """Kill a process; one that has ended just before is no matter."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def one(study: Path, who: str, share: float, durations: list[float], wanted: bytes) -> tuple[bool, bool, int, bool]:
    """Kill at a share of the run; return what became of it.

    Whether the result is as without the kill, whether a process was left, the fits kept at the kill, and whether the
    run was over before it. The share chooses a fit and a delay in it: by the clock alone a run that is faster than the
    one measured would be over.
    """
    folder = study.parent
    for path in folder.glob(".*part"):
        subprocess.run(["rm", "-rf", str(path)], check=True)
    results = folder / "run-results"
    if results.exists():
        subprocess.run(["rm", "-rf", str(results)], check=True)
    server = Server(study)
    number = int(share * len(durations))
    server.until_fitted(number)
    time.sleep((share * len(durations) - number) * durations[number])
    over = results.exists()
    if who in ("worker", "both"):
        kill(server.worker)
    if who in ("server", "both"):
        kill(server.process.pid)
        server.close()
    else:
        server.until_end()
    deadline = time.monotonic() + GONE
    while time.monotonic() < deadline and any(map(alive, server.pids)):
        time.sleep(0.05)
    left = any(map(alive, server.pids))
    fits = len(list(folder.glob(".run-results.part/fits/*.checks.nc"))) or (FITS if over else 0)
    again = Server(study)
    state = again.until_end()
    again.close()
    same = state == "done" and (results / "parameters.csv").read_bytes() == wanted
    return same, left, fits, over


def write_study(folder: Path) -> Path:
    """Write the recording and the study into a folder."""
    motion = kz.simulate(kz.library.lorenz(), x0=[1, 1, 20], t=np.arange(6000) * 0.01)
    kz.write(kz.measure(motion, noise=0.1, seed=1), folder / "run.csv")
    study = folder / "run.toml"
    study.write_text(STUDY)
    return study


def finished(study: Path) -> tuple[bytes, list[float]]:
    """Run the study without a kill; return its parameters.csv and the seconds of each fit."""
    reference = Server(study)
    marks = []
    for number in range(FITS):
        reference.until_fitted(number)
        marks.append(time.monotonic())
    ended = reference.until_end()
    marks.append(time.monotonic())
    if ended != "done":
        raise SystemExit(f"The study does not run: {ended}")
    reference.close()
    return (study.parent / "run-results" / "parameters.csv").read_bytes(), np.diff(marks).tolist()


def main() -> str:
    rng = np.random.default_rng(SEED)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        study = write_study(Path(name))
        wanted, durations = finished(study)
        for who in ("worker", "server", "both"):
            shares = rng.uniform(0, 1, MOMENTS)
            found = [
                kept(
                    "studio_kills",
                    f"{who} {number}",
                    lambda who=who, share=share: one(study, who, share, durations, wanted),
                )
                for number, share in enumerate(shares)
            ]
            same, left = sum(f[0] for f in found), sum(f[1] for f in found)
            fits = ", ".join(f"{n}: {sum(f[2] == n for f in found)}" for n in range(FITS + 1))
            over = sum(f[3] for f in found)
            right = same == MOMENTS and left == 0
            rows.append([who, str(MOMENTS), f"{same}", f"{left}", fits, f"{over}", "met" if right else "**missed**"])
    header = ["killed", "moments", "result as without the kill", f"with a process left {GONE:g} s later",
              "fits kept at the kill (number: times)", "run over before the kill", "verdict"]  # fmt: skip
    return (
        "# The studio killed\n\nA study of three fits runs in a worker of the studio (`kapitza.studio.runs`, without "
        f"the page); worker, server or both are killed (SIGKILL) at {MOMENTS} moments of its {sum(durations):.1f} s "
        f"(seed {SEED}), then it is started again and goes on. The result is compared by bytes of `parameters.csv`. "
        f"Load of the machine: {load()}.\n\n{markdown_table(header, rows)}"
    )


if __name__ == "__main__":
    print(main())
