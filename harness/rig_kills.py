"""A client or the server of a rig killed in a walk, and the walk resumed: safe state, and nothing lost."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import numpy as np

from harness.rig_processes import ended, events, followed, started, stopped_after
from kapitza.errors import RigLostError
from kapitza.rig import Journal

WATCHDOG = 3.0
"""Seconds of silence after which the server stops the rig."""

Kill = tuple[float, int, int, int]
"""Seconds until the stop (or whether the next server began with one), points kept, after resuming, beyond a limit."""


def _begun(address: str, log: Path, record: Path, random: np.random.Generator) -> subprocess.Popen[str]:
    """A client in its walk, after a random number of demands (a whole walk sends 27) and a little more."""
    client, _ = started("follow", address, str(record))
    wanted = int(random.integers(3, 24))
    while sum(e[0] == "set" for e in events(log)) < wanted:
        if client.poll() is not None:  # on a busy machine the watchdog bites a client that does not get to run
            ended(client)
            client, _ = started("follow", address, str(record))
        time.sleep(0.01)
    time.sleep(float(random.uniform(0.0, 0.1)))
    return client


def client_killed(seed: int, folder: Path, flooded: bool) -> tuple[float, int, int, int]:
    """A client killed in its walk: seconds until the rig was stopped, points kept, points after resuming, beyond."""
    random = np.random.default_rng(seed)
    log, record = folder / "log", folder / "record.jsonl"
    server, address = started("serve", str(log), str(WATCHDOG))
    strangers = [started("flood", address)[0] for _ in range(2 if flooded else 0)]
    client = _begun(address, log, record, random)
    for stranger in strangers:
        assert stranger.stdin is not None
        stranger.stdin.write("\n")
        stranger.stdin.flush()
    time.sleep(float(random.uniform(0.2, 0.6)))
    client.kill()
    late = stopped_after(log, time.monotonic(), 10 * WATCHDOG)
    kept = len(Journal(record).of("point")) if record.exists() else 0
    ended(client, *strangers)
    branch = followed(address, record)
    ended(server)
    return late, kept, len(branch), max(e[2] for e in events(log))


def server_killed(seed: int, folder: Path) -> tuple[bool, int, int, int]:
    """A server killed in a walk: did the next one begin with a stop, points kept, after resuming, beyond."""
    random = np.random.default_rng(seed)
    log, record = folder / "log", folder / "record.jsonl"
    server, address = started("serve", str(log), str(WATCHDOG))
    client = _begun(address, log, record, random)
    ended(server)
    seen = len(events(log))
    client.wait()  # it gives the rig up by itself
    ended(client)
    kept = len(Journal(record).of("point")) if record.exists() else 0
    server, address = started("serve", str(log), str(WATCHDOG))
    try:
        branch = followed(address, record)
    except RigLostError:
        branch = ()
    ended(server)
    found = events(log)
    return found[seen][0] == "stop", kept, len(branch), max(e[2] for e in found)
