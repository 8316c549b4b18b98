"""Timing several programs on the same work in one run, all by one function."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from harness.table import markdown_table

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Timing(Generic[Answer]):
    """Times of one piece of work, in s.

    seconds: least processor time of all runs, over all threads and over processes that have ended. wall: least time by
    the clock; on a busy machine it says little. first: processor time of the first run, which compiles. answer: of the
    last run.
    """

    seconds: float
    wall: float
    first: float
    answer: Answer


def processor_time() -> float:
    """User and system seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def measure(work: Callable[[], Answer], repeats: int = 3, warm_up: bool = True) -> Timing[Answer]:
    """Run a piece of work several times and return the least times.

    Every program of a comparison is measured by this function: a first run that is not counted, then the best of
    `repeats`, in processor time. warm_up=False counts the first run too, for work that takes minutes; then all programs
    of the comparison are measured so, after each has done a small piece of the same work.
    """

    def once() -> tuple[float, float, Answer]:
        begin = processor_time(), time.perf_counter()
        answer = work()
        return processor_time() - begin[0], time.perf_counter() - begin[1], answer

    runs = [once() for _ in range(max(1, repeats) + warm_up)]
    counted = runs[1:] if warm_up else runs
    return Timing(min(r[0] for r in counted), min(r[1] for r in counted), runs[0][0], runs[-1][2])


def load() -> str:
    """Runnable processes of the machine, mean of the last minute, and its cores."""
    running = f"{os.getloadavg()[0]:.1f}" if sys.platform != "win32" else "not known"
    return f"{running} on {os.cpu_count()} cores"


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
