"""Timing several programs on the same work in one run."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from harness.table import markdown_table

Answer = TypeVar("Answer")


def time_best(
    work: Callable[[], Answer], repeats: int = 3, clock: Callable[[], float] = time.perf_counter
) -> tuple[float, Answer]:
    """Shortest time [s] of several runs by this clock, and the last answer. Compile or warm up before calling."""
    shortest = float("inf")
    for _ in range(max(1, repeats)):
        begin = clock()
        answer = work()
        shortest = min(shortest, clock() - begin)
    return shortest, answer


def processor_seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """Least processor time [s] of several runs after a first one, which compiles."""
    work()
    return time_best(work, repeats, time.process_time)[0]


def peak_memory_mb() -> float:
    """Largest resident memory of this process so far, in MB (10^6 bytes)."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


@dataclass(frozen=True)
class Contender:
    """One program on one job: seconds per unit of work, its measured error, the ratio we want to reach over it."""

    name: str
    seconds: float
    error: float = float("nan")
    target_ratio: float | None = None
    note: str = ""


def ratio_table(ours: Contender, peers: Sequence[Contender], unit: str = "s") -> str:
    """Peers against ours: time, measured error, ratio peer/ours, and whether the wanted ratio was reached."""
    rows: list[tuple[object, ...]] = [(ours.name, ours.seconds, ours.error, "1", "", "", ours.note)]
    for peer in peers:
        ratio = peer.seconds / ours.seconds
        wanted = "" if peer.target_ratio is None else f"≥ {peer.target_ratio:g} ×"
        verdict = "" if peer.target_ratio is None else ("met" if ratio >= peer.target_ratio else "**missed**")
        rows.append((peer.name, peer.seconds, peer.error, f"{ratio:.3g}", wanted, verdict, peer.note))
    return markdown_table(["program", f"time [{unit}]", "measured error", "ratio", "target", "verdict", "note"], rows)
