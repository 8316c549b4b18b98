"""Writers, studies, rigs and the studio killed at random moments, and readers beside writers: nothing may be lost."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from harness import load, markdown_table
from harness.rig_kills import client_killed, server_killed
from harness.rig_processes import POINTS
from tests.hostile.families import FAMILIES
from tests.hostile.family import draw
from tests.hostile.kills import APPENDS, LATEST, ROWS, campaign

from benchmarks.studio_kills import finished, one, write_study

WRITERS, READINGS = 126, 5_000
STUDIES, SAVES, RIGS, STUDIO = 30, 12, 8, 6
"""Kills of `kapitza identify` and of `kz.save`; of clients and of servers of a rig; of each part of the studio."""

SEED = 1


@dataclass(frozen=True)
class Killed:
    """One row: what was killed, how often, readings beside it, and what was lost."""

    what: str
    kills: int
    readings: int
    lost: tuple[str, ...]

    @property
    def cells(self) -> list[str]:
        return [self.what, str(self.kills), str(self.readings) if self.readings else "", str(len(self.lost))]


def writers() -> Iterator[Killed]:
    """Processes that write, append or save recordings, and readers beside them."""
    found = campaign(WRITERS, READINGS, SEED)
    for target, kills in found.by_target.items():
        verb = "append" if target in APPENDS else "save" if target == "noun.nc" else "write"
        lost = tuple(line for line in found.lost if f"{target}:" in line)
        yield Killed(f"{verb}: `{target}`", kills, found.read_by_target.get(target, 0), lost)


def studies(name: str, what: str, count: int) -> Killed:
    """Cases of a family of killed processes; those that ended before the kill are not counted."""
    kills, lost = 0, []
    for case in draw(FAMILIES[name], 4 * count, SEED):
        with tempfile.TemporaryDirectory() as place:
            try:
                kills += "killed" in str(FAMILIES[name].act(case, Path(place)))
            except Exception as problem:  # counted, and the campaign goes on
                kills += 1
                lost.append(f"{what} {case}: {type(problem).__name__}: {problem}")
        if kills == count:
            break
    return Killed(what, kills, 0, tuple(lost))


def rigs(count: int) -> Iterator[Killed]:
    """Walks on a rig whose client or server is killed: the rig is stopped, and no point on record is lost."""
    for what, kill in (("rig: client of a walk", lambda s, f: client_killed(s, f, False)),
                       ("rig: server of a walk", server_killed)):  # fmt: skip
        lost = []
        for seed in range(count):
            with tempfile.TemporaryDirectory() as place:
                safe, kept, after, beyond = kill(100 + seed, Path(place))
            if not safe or np.isnan(safe) or after < max(kept, POINTS) or beyond:
                lost.append(f"{what} {seed}: stop {safe}, {kept} points kept, {after} after, {beyond} beyond")
            print(what, seed, safe, kept, after, beyond, flush=True)
        yield Killed(what, count, 0, tuple(lost))


def studio(count: int) -> Iterator[Killed]:
    """Fits in workers of the studio: the worker, the server or both are killed, and the fit is started again."""
    rng = np.random.default_rng(SEED)
    with tempfile.TemporaryDirectory() as place:
        study = write_study(Path(place))
        wanted, whole = finished(study)
        for who in ("worker", "server", "both"):
            lost = []
            for delay in rng.uniform(0, whole, count):
                same, left, kept = one(study, who, float(delay), wanted)
                if not same or left:
                    lost.append(f"studio, {who}: result as without the kill: {same}, a process left: {left}")
                print("studio", who, f"{delay:.2f}", same, left, kept, flush=True)
            yield Killed(f"studio: {who}", count, 0, tuple(lost))


def main() -> str:
    rows = [
        *writers(),
        studies("killed studies", "`kapitza identify`", STUDIES),
        studies("killed saves", "save over a saved model", SAVES),
        *rigs(RIGS),
        *studio(STUDIO),
    ]
    lost = [line for row in rows for line in row.lost]
    kills, readings = sum(row.kills for row in rows), sum(row.readings for row in rows)
    lines = [
        "# Kills",
        "",
        f"Processes killed (SIGKILL) at random moments, seed {SEED}. Writers: versions of a recording of {ROWS} "
        f"samples (`log.…`: appended parts of {ROWS}) one after another, killed within {LATEST:g} s. Afterwards the "
        "last version that was reported as complete, or the next one, must be there, complete, and the next writer "
        "must go on. Beside other writers a reader reads again and again: each reading must give one complete version, "
        "never an older one than before (`tests/hostile/kills.py`). Studies: results are those of an uninterrupted run "
        "by bytes, finished fits are kept (`tests/hostile/killed.py`). Rigs: the rig is stopped, every point on record "
        "is there after resuming, nothing was beyond a limit (`harness/rig_kills.py`). Studio: the result of the fit "
        "started again equals that without a kill by bytes, and no process is left (`benchmarks/studio_kills.py`).",
        "",
        markdown_table(["target", "kills", "readings beside a writer", "lost or failed"],
                       [*(row.cells for row in rows), ["all", str(kills), str(readings), str(len(lost))]]),
        "",
        f"Lost or failed: {len(lost)} of {kills} kills and {readings} readings (targets: none of 200 and 5,000)"
        + (" **missed**" if lost or kills < 200 or readings < 5000 else ": met") + f". Load of the machine: {load()}.",
        *(f"- {line[:200]}" for line in lost[:20]),
    ]  # fmt: skip
    return "\n".join(lines)
