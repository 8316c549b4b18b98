"""Time of the census of the ORBITS pendulum up to period 4, on one core and on two."""

from __future__ import annotations

import time

from harness import markdown_table, measure

import kapitza as kz
from kapitza.base.workers import Executor, pool_of

REGION = {"phi'": (-15.0, 15.0)}


def timed(executor: Executor | None) -> tuple[float, list[int]]:
    model = kz.library.parametric_pendulum()
    work = measure(
        lambda: kz.find_orbits(model, max_period=4, region=REGION, starts=1024, rounds=4, executor=executor),
        repeats=1, warm_up=False,
    )  # fmt: skip
    return work.wall, [sum(o.repeats == p for o in work.answer) for p in (1, 2, 3, 4)]


def main() -> str:
    kz.find_orbits(kz.library.parametric_pendulum(), max_period=1, starts=64, rounds=1)
    alone, counts = timed(None)
    rows = [("this one alone", alone, str(counts), "30", "met" if alone < 30 else "**missed**")]
    same = True
    for workers in (1, 2):
        begin = time.perf_counter()
        with pool_of(workers) as pool:
            _, fresh_counts = timed(pool)
            fresh = time.perf_counter() - begin
            kept, kept_counts = timed(pool)
        same &= counts == fresh_counts == kept_counts
        for when, seconds in (("started for it", fresh), ("at work before", kept)):
            verdict = "met" if seconds < alone else "**missed**"
            rows.append(
                (f"this one and {workers} more, {when}", seconds, str(fresh_counts), "less than alone", verdict)
            )
    header = ["processes", "seconds", "orbits of periods 1-4", "target [s]", "verdict"]
    return (
        "# Time of a census\n\n1024 starts per period; polishing, multipliers, certificates and profiles included. The "
        "process that calls works too. Processes that are started for one census first import and compile, those of an "
        "executor that is kept do not; on two cores a third process is one too many while that lasts."
        f"\n\n{markdown_table(header, rows)}\n\n- the same orbits whoever works: {'met' if same else '**missed**'}"
    )
