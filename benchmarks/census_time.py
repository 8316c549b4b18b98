"""Time of the census of the ORBITS pendulum up to period 4, on one core and on two."""

from __future__ import annotations

import time
from contextlib import nullcontext

from harness import markdown_table

import kapitza as kz
from kapitza.executor import pool_of

REGION = {"phi'": (-15.0, 15.0)}


def timed(processes: int | None) -> tuple[float, kz.OrbitSet]:
    begin = time.perf_counter()
    with pool_of(processes) if processes else nullcontext() as executor:
        orbits = kz.find_orbits(
            kz.library.parametric_pendulum(), max_period=4, region=REGION, starts=1024, rounds=4, executor=executor
        )
    return time.perf_counter() - begin, orbits


def main() -> str:
    kz.find_orbits(kz.library.parametric_pendulum(), max_period=1, starts=64, rounds=1)
    rows = []
    for processes in (None, 2):
        seconds, orbits = timed(processes)
        counts = [sum(o.repeats == p for o in orbits) for p in (1, 2, 3, 4)]
        verdict = "" if processes is None else ("met" if seconds < 30 else "**missed**")
        rows.append((processes or 1, seconds, str(counts), "30" if processes else "", verdict))
    header = ["processes", "seconds", "orbits of periods 1-4", "target [s]", "verdict"]
    return (
        "# Time of a census\n\n1024 starts per period; polishing, multipliers, certificates and profiles included, and "
        "for two processes their start and compilation.\n\n" + markdown_table(header, rows)
    )
