"""A rig process killed at random, 20 times: how soon the client says so, and whether the branch is finished then."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from harness import markdown_table

from kapitza.errors import RigLostError
from kapitza.rig import Journal, RemoteRig, RigBranch, RigStepping

SETTINGS: dict[str, Any] = {"frequency": "omega", "modes": 3, "values": {"B": 0.1, "omega": 0.8}, "scales": {"x": 1.0}}
STEPPING = RigStepping(max_points=16)
TIMEOUT = 5.0
RUNS = 20
MOST = 60
"""The kill falls after a random number of measurements up to this; a whole walk takes some 75."""


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


def followed(rig: RemoteRig, path: Path, resume: bool = False) -> RigBranch:
    return rig.follow(None, "omega", (0.5, 1.5), **SETTINGS, stepping=STEPPING, record=path, resume=resume)


def killer(process: subprocess.Popen[str], path: Path, after: int, killed: list[float]) -> threading.Thread:
    """A thread that kills the rig once so many measurements are on disk."""

    def wait_and_kill() -> None:
        while not path.exists() or path.read_bytes().count(b'"kind": "measurement"') < after:
            time.sleep(0.002)
        killed.append(time.monotonic())
        process.kill()

    thread = threading.Thread(target=wait_and_kill, daemon=True)
    thread.start()
    return thread


def error_of(branch: RigBranch) -> float:
    """What the equation of the rig leaves over at the measured motions: largest rms over that of the forcing.

    Compared by forces: next to a fold the equation may have no motion at the very frequency that was measured.
    """
    errors, B = [], SETTINGS["values"]["B"]
    for point in branch:
        x = point.series("x")
        t = np.linspace(0.0, x.period, 200, endpoint=False)
        left = x(t, 2) + 0.1 * x(t, 1) + x(t) + x(t) ** 3 - B * np.cos(point.value * t)
        # Modes that the demand does not have are not followed.
        kept = np.fft.rfft(left)[: x.modes + 1] / len(t)
        errors.append(float(np.sqrt(abs(kept[0]) ** 2 + 2 * np.sum(np.abs(kept[1:]) ** 2)) / (B / np.sqrt(2))))
    return max(errors)


def one(seed: int, path: Path) -> tuple[int, float, int, int, bool, float]:
    """Kill the rig at random, resume with a new one: seconds to the error, measurements, points, complete, error."""
    process, address, token = started(seed)
    rig = RemoteRig(address, token, timeout=TIMEOUT)
    killed: list[float] = []
    thread = killer(process, path, int(np.random.default_rng(seed).integers(1, MOST + 1)), killed)
    lost = float("nan")
    try:
        followed(rig, path)
    except RigLostError:
        lost = time.monotonic() - killed[0]
    thread.join(10.0)
    ended(process)
    rig.close()
    kept = len(Journal(path).of("measurement"))
    process, address, token = started(100 + seed)
    again = RemoteRig(address, token, timeout=10.0)
    branch = followed(again, path, resume=True)
    again.close()
    ended(process)
    return seed, lost, kept, len(branch), len(branch) == STEPPING.max_points, error_of(branch)


def main() -> str:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(RUNS):
            rows.append(one(seed, Path(folder) / f"{seed}.jsonl"))
            print(rows[-1], flush=True)
    waits = np.array([row[1] for row in rows])
    hit, done = int(np.isfinite(waits).sum()), sum(row[4] for row in rows)
    written = [
        (seed, "walk had ended" if np.isnan(lost) else f"{lost:.2f}", kept, points, "yes" if whole else "**no**",
         f"{100 * error:.2f} %")
        for seed, lost, kept, points, whole, error in rows
    ]  # fmt: skip
    verdict = "met" if done == RUNS and hit == RUNS and np.nanmax(waits) < TIMEOUT else "**missed**"
    header = ("run", "client raised after [s]", "measurements on disk", "points after resuming", "complete",
              "largest error of a point")  # fmt: skip
    return "\n\n".join(
        [
            f"A Duffing rig in a process of its own, {STEPPING.max_points} points of a branch. The process is killed "
            f"after a random number of measurements, 1 to {MOST}, in whatever it is doing then.",
            markdown_table(header, written),
            f"{hit} of {RUNS} walks were hit; the slowest client raised after {np.nanmax(waits):.2f} s (time-out "
            f"{TIMEOUT:g} s); {done} of {RUNS} branches were finished after resuming: {verdict}. The "
            "errors are what the equation of the rig leaves over at the measured motions, as shares of the forcing; "
            "the noise of its sensor is 1 % of the forcing.",
        ]
    )
