"""A rig process killed at random, 20 times: how soon the client says so, and whether the branch is finished then."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from harness import markdown_table

from kapitza.errors import RigLostError
from kapitza.rig import Journal, RemoteRig, RigStepping

SETTINGS = {"frequency": "omega", "modes": 3, "values": {"B": 0.1, "omega": 0.8}, "scales": {"x": 1.0}}
STEPPING = RigStepping(max_points=8)
TIMEOUT = 1.0
LONGEST_RUN = 2 * np.pi / 0.5
"""Duration in s of one period of samples at the lowest frequency, which a client grants a rig beyond the time-out."""


def started(seed: int) -> tuple[subprocess.Popen[str], str, str]:
    command = [sys.executable, "-m", "kapitza", "rig", "serve", "duffing", "--noise", "0.001", "--seed", str(seed)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address, token = (process.stdout.readline().split()[1] for _ in range(2))
    return process, address, token


def ended(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def one(seed: int, path: Path) -> tuple[object, ...]:
    """Kill the rig after a random time, resume with a new one until the branch is finished."""
    rng = np.random.default_rng(seed)
    process, address, token = started(seed)
    rig = RemoteRig(address, token, timeout=TIMEOUT, retry=0.25)
    killed: list[float] = []

    def kill() -> None:
        process.kill()
        killed.append(time.monotonic())

    timer = threading.Timer(float(rng.uniform(0.05, 1.0)), kill)
    timer.start()
    lost = float("nan")
    try:
        rig.follow(None, "omega", (0.5, 1.5), **SETTINGS, stepping=STEPPING, record=path)
    except RigLostError:
        lost = time.monotonic() - killed[0]
    timer.join()
    ended(process)
    rig.close()
    kept = len(Journal(path).of("measurement"))
    process, address, token = started(100 + seed)
    again = RemoteRig(address, token, timeout=10.0)
    branch = again.follow(None, "omega", (0.5, 1.5), **SETTINGS, stepping=STEPPING, record=path, resume=True)
    again.close()
    ended(process)
    return seed, lost, kept, len(branch), len(branch) == STEPPING.max_points


def main() -> str:
    with tempfile.TemporaryDirectory() as folder:
        rows = [one(seed, Path(folder) / f"{seed}.jsonl") for seed in range(20)]
    waits = np.array([row[1] for row in rows], float)
    done = sum(bool(row[4]) for row in rows)
    lost = int(np.isfinite(waits).sum())
    header = ("run", "client raised after [s]", "measurements on disk", "points after resuming", "complete")
    limit = TIMEOUT + LONGEST_RUN
    verdict = "met" if done == 20 and np.nanmax(waits) < limit else "**missed**"
    return "\n\n".join(
        [
            markdown_table(header, rows),
            f"{lost} of 20 walks were hit (nan: the walk had ended before); the slowest client raised after "
            f"{np.nanmax(waits):.2f} s (limit: time-out {TIMEOUT:g} s and the duration of the samples asked for, "
            f"{LONGEST_RUN:.1f} s at most); {done} of 20 branches were finished after resuming: {verdict}.",
        ]
    )
