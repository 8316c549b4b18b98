"""A user's rig under attack: random demands and ramps, strangers that flood its server, clients and servers killed."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from harness import markdown_table
from harness.recording_rig import attack
from harness.rig_kills import WATCHDOG, Kill, client_killed, server_killed
from harness.rig_processes import POINTS, SERVER_PRIORITY

ATTACKS = 100
FLOODS, KILLED_CLIENTS, KILLED_SERVERS = 20, 6, 6


def attacked() -> str:
    counts: Counter[str] = Counter()
    beyond: list[str] = []
    for seed in range(ATTACKS):
        rig = attack(seed)
        counts += rig.counts
        beyond += rig.beyond
        if seed % 20 == 19:
            print(f"{seed + 1} attacks, {counts}, {len(beyond)} beyond", flush=True)
    rows = [(ATTACKS, counts["set"], counts["samples"], counts["refused"], len(beyond))]
    header = ("random uses", "demands and ramps sent", "samples looked at", "refused by a limit", "beyond a limit")
    return (
        markdown_table(header, rows) + f"\n\nTarget, 10,000 sent and none beyond: {_verdict(not beyond, counts['set'])}"
    )


def _verdict(good: bool, sent: int) -> str:
    return "met." if good and sent >= 10_000 else "**missed**."


def runs(kind: Callable[..., Kill], count: int, *more: bool) -> list[Kill]:
    """Three at a time, each in a folder of its own."""

    def one(seed: int) -> Kill:
        with tempfile.TemporaryDirectory() as folder:
            found = kind(seed, Path(folder), *more)
        print(kind.__name__, *more, seed, found, flush=True)
        return found

    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(one, range(count)))


def _row(what: str, found: list[Kill], safe: str) -> tuple[str, int, str, str, str, int]:
    kept = [f[1] for f in found]
    whole = sum(f[2] >= max(f[1], POINTS) for f in found)
    return (what, len(found), safe, f"{min(kept)} to {max(kept)}", f"{whole} of {len(found)}", sum(f[3] for f in found))


def main() -> str:
    texts = [
        "A rig class that checks nothing and records every sample it is sent: limit 1.5 mm, rate limits of 12 and 40 "
        "mm/s or none, ramps of 0, 0.05 and 0.3 s or by itself, bounds of both parameters. It is used at random: "
        "demands next to and far beyond the limits and not finite, measurements, walks with random bounds, "
        "steps of the gains, multisines, orbits; through `LimitedRig` and `Experiment`.",
    ]
    rows = []
    load = [os.getloadavg()[0]]
    for what, count, flooded in (("client, two strangers flooding", FLOODS, True), ("client", KILLED_CLIENTS, False)):
        found = runs(client_killed, count, flooded)
        late = np.array([f[0] for f in found])
        good = int(np.sum(late <= 1.5 * WATCHDOG))
        rows.append(_row(what, found, f"{good} of {count} within {1.5 * WATCHDOG:g} s, slowest {np.max(late):.2f} s"))
        load.append(os.getloadavg()[0])
    found = runs(server_killed, KILLED_SERVERS)
    stops = int(sum(f[0] for f in found))
    rows.append(_row("server", found, f"{stops} of {KILLED_SERVERS}: the next one begins with `stop`"))
    header = ("killed at random (SIGKILL)", "runs", "safe state", "points on disk", "finished after resuming",
              "beyond a limit")  # fmt: skip
    texts += [
        attacked(),
        f"The same rig in a server with a watchdog of {WATCHDOG:g} s, a client that follows a branch of {POINTS} "
        "points; strangers send messages with a wrong token, of other protocols and of a megabyte without a pause. "
        "Seconds from the kill to the rig's `stop`, by the rig's own record. Resumed walks keep every point on disk.",
        markdown_table(header, rows),
        f"Other programs worked at the same time, with three of these runs at once: load {min(load):.0f} to "
        f"{max(load):.0f} on {os.cpu_count()} cores. The server runs with the nice value {SERVER_PRIORITY} where "
        "that is allowed, as the computer of a rig should give it; clients and strangers do not.",
    ]
    return "\n\n".join(texts)
