"""Time of the census of the ORBITS pendulum up to period 4, on one core and on two."""

from __future__ import annotations

import time

from harness import markdown_table

import kapitza as kz
from kapitza.executor import Executor, pool_of

REGION = {"phi'": (-15.0, 15.0)}


def timed(executor: Executor | None) -> tuple[float, list[int]]:
    begin = time.perf_counter()
    orbits = kz.find_orbits(
        kz.library.parametric_pendulum(), max_period=4, region=REGION, starts=1024, rounds=4, executor=executor
    )
    return time.perf_counter() - begin, [sum(o.repeats == p for o in orbits) for p in (1, 2, 3, 4)]


def main() -> str:
    kz.find_orbits(kz.library.parametric_pendulum(), max_period=1, starts=64, rounds=1)
    alone, counts = timed(None)
    begin = time.perf_counter()
    with pool_of(2) as pool:
        _, fresh_counts = timed(pool)
        fresh = time.perf_counter() - begin
        kept, kept_counts = timed(pool)
    faster = "met" if kept < alone else "**missed**"
    same = "met" if counts == fresh_counts == kept_counts else "**missed**"
    rows = [
        ("1", alone, str(counts), "", ""),
        ("2, started for it", fresh, str(fresh_counts), "30", "met" if fresh < 30 else "**missed**"),
        ("2, at work before", kept, str(kept_counts), "less than 1 process", faster),
    ]
    header = ["processes", "seconds", "orbits of periods 1-4", "target [s]", "verdict"]
    return (
        "# Time of a census\n\n1024 starts per period; polishing, multipliers, certificates and profiles included. Two "
        "processes that are started for one census also import and compile; those of an executor that is kept do not."
        f"\n\n{markdown_table(header, rows)}\n\n- the same orbits from one process and from two: {same}"
    )
