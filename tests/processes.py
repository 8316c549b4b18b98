"""Processes that tests start, seen from outside."""

from __future__ import annotations

import os
import time
from pathlib import Path


def computed(process: int) -> float:
    """Computing time of a process so far [s], 0 where it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_until_at_work(process: int, seconds: float = 0.5, patience: float = 60.0) -> None:
    """Return when the process has computed so much longer, however busy the machine is."""
    begun, end = computed(process), time.monotonic() + patience
    while computed(process) < begun + seconds:
        assert time.monotonic() < end, f"process {process} computes nothing"
        time.sleep(0.02)
