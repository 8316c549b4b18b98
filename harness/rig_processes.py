"""Processes around a recording rig, to be killed: its server, a client that follows a branch, peers without the token.

`python -m harness.rig_processes serve LOG WATCHDOG`, `follow ADDRESS RECORD`, `flood ADDRESS`.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from harness.recording_rig import RecordingRig
from kapitza.rig import RemoteRig, RigBranch, RigServer, RigStepping

TOKEN = "of the recording rig"
POINTS = 12


SERVER_PRIORITY = -10
"""Nice value of the server where it may be set: the computer of a rig has no other work, this one may have."""


def serve(log: str, watchdog: str) -> None:
    """A rig that takes a tenth of its time, with ramps of 0.3 s."""
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, SERVER_PRIORITY)
    server = RigServer(RecordingRig(0.3, pace=0.1, log=log), token=TOKEN, watchdog=float(watchdog))
    print(server.address, flush=True)
    server.run()


def followed(address: str, record: str | Path, timeout: float = 4.0) -> RigBranch:
    """A branch of POINTS points, on from those on record."""
    rig = RemoteRig(address, TOKEN, timeout=timeout)
    try:
        return rig.follow(
            None, "p", (0.0, 4.9), frequency="omega", modes=2, extra=2, most_modes=6, values={"p": 0.2, "omega": 6.0},
            scales={"x": 1.0}, stepping=RigStepping(max_points=POINTS), record=record, resume=Path(record).exists(),
        )  # fmt: skip
    finally:
        rig.close()


def flood(address: str) -> None:
    """On a line of input: messages with a wrong token, of other protocols, too large ones, without a pause."""
    import zmq

    from kapitza.rig.network.messages import Message, packed

    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.LINGER, 0)
    socket.connect(address)
    print("ready", flush=True)
    sys.stdin.readline()
    wrong = packed(Message("set", "s", 1, "guess"))
    for frames in itertools.cycle([wrong, wrong, [b"GET / HTTP/1.1"], [*wrong[:2], b"[" * 900_000], [b"x"] * 90]):
        socket.send_multipart(frames)


def started(*words: str) -> tuple[subprocess.Popen[str], str]:
    """One of these as a process, and the first line that it prints ("" for a client)."""
    command = [sys.executable, "-m", "harness.rig_processes", *words]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    return process, "" if words[0] == "follow" else process.stdout.readline().strip()


def ended(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()


def events(log: str | Path) -> list[tuple[str, float, int]]:
    """(what, time.monotonic(), how much lay beyond the limits so far) of each call that reached the rig."""
    lines = Path(log).read_text().splitlines() if Path(log).exists() else []
    return [(str(what), float(instant), int(beyond)) for what, instant, beyond in map(json.loads, lines)]


def stopped_after(log: str | Path, instant: float, patience: float) -> float:
    """Seconds from an instant to the first stop of the rig after its last demand; NaN when there is none in time."""
    limit = time.monotonic() + patience
    while time.monotonic() < limit:
        found = events(log)
        if found and found[-1][0] == "stop":
            first = next(i for i in range(len(found), 0, -1) if i == 1 or found[i - 2][0] != "stop")
            return found[first - 1][1] - instant
        time.sleep(0.01)
    return float("nan")


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command == "follow":
        followed(*arguments)
    else:
        {"serve": serve, "flood": flood}[command](*arguments)
