"""Processes that tests start, seen from outside, and work counted without a clock."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE = 600.0
"""Time on the clock [s] after which a test gives up waiting: only a program that hangs takes so long."""


def wait_for(condition: Callable[[], Any], what: str) -> None:
    """Return when the condition holds, however busy the machine is."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"no {what} within {PATIENCE:g} s"
        time.sleep(0.02)


def calls(function: Callable[[], Any]) -> int:
    """Calls of functions that function() makes: work that does not depend on the processor or on other programs."""
    count = 0

    def count_one(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count_one)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def computed(process: int) -> float:
    """Computing time of a process so far [s], 0 where it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_until_at_work(process: int, seconds: float = 0.5) -> None:
    """Return when the process has computed so much longer, however busy the machine is."""
    begun = computed(process)
    wait_for(lambda: computed(process) >= begun + seconds, f"work of process {process}")
