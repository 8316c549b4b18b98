"""Writers that are killed (SIGKILL) at random moments, and readers beside writers.

A recording is a function of its version and of the row: x = row + version/1000. So a reader can tell a complete
recording from a half one, a mixture of two, or a lost one. `python -m benchmarks kills`
runs 200 kills and 5,000 readings.
"""

from __future__ import annotations

import multiprocessing
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROWS = 400
"""Samples of a recording, and of an appended part."""

WRITES = ("a.csv", "a.parquet", "a.npz", "a.h5", "a.mat", "a.zarr")
APPENDS = ("log.zarr", "log.parquet")
TARGETS = (*WRITES, *APPENDS, "noun.nc")
LATEST = 0.25
"""Seconds after which a writer is killed at the latest; one round of writing takes 5 to 50 ms."""


@dataclass
class Tally:
    """What a campaign counted. lost: what a reader could not read, or found not to be one complete version."""

    kills: int = 0
    readings: int = 0
    lost: list[str] = field(default_factory=list)
    by_target: dict[str, int] = field(default_factory=dict)
    read_by_target: dict[str, int] = field(default_factory=dict)


def recording(first: int, version: int, rows: int = ROWS) -> Any:
    import kapitza as kz

    row = np.arange(first, first + rows, dtype=float)
    return kz.Record.from_arrays(row / 64, {"x": row + version / 1000, "v": -row}, units={"x": "m"})


def write_once(path: Path, number: int) -> None:
    """One round of a writer: version `number`, or the part of that number."""
    import kapitza as kz

    if path.name in APPENDS:
        kz.write(recording(ROWS * number, 0), path, append=True)
    elif path.name == "noun.nc":
        kz.save(recording(0, number), path)
    else:
        kz.write(recording(0, number), path)


def write_on(path: str, first: int, pipe: Any) -> None:
    """Write version after version and report each when it is complete."""
    number = first
    pipe.send(number - 1)
    while True:
        write_once(Path(path), number)
        pipe.send(number)
        number += 1


def found_version(path: Path) -> int:
    """Version of a recording, or the number of its last part; AssertionError where it is not one complete thing."""
    import kapitza as kz

    record = kz.load(path) if path.name == "noun.nc" else kz.read(path)
    row = np.arange(len(record))
    version = round(1000 * float(record["x"][0]))
    assert np.array_equal(record["v"], -row), "rows are missing or mixed"
    assert np.allclose(record["x"], row + version / 1000, rtol=0, atol=1e-9), "two versions are mixed"
    assert np.array_equal(record.time, row / 64), "times do not belong to the rows"
    if path.name not in APPENDS:
        assert len(record) == ROWS, f"{len(record)} rows"
        return version
    assert len(record) % ROWS == 0, f"{len(record)} rows"
    assert len(record.segments()) == 1, "parts do not go on"
    return len(record) // ROWS - 1


def context() -> Any:
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["tests.hostile.kills", "kapitza.saving", "pyarrow.parquet", "h5py", "h5netcdf"])
    return found


@contextmanager
def writer(path: Path, first: int) -> Iterator[tuple[Any, Any]]:
    """A process that writes on; it is ready when it is handed out, and killed in the end."""
    ours, theirs = context().Pipe(duplex=False)
    process = context().Process(target=write_on, args=(str(path), first, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        ours.recv()
        yield process, ours
    finally:
        process.kill()
        process.join()
        ours.close()


def reported(pipe: Any, before: int) -> int:
    """The last version that a writer reported as complete."""
    last = before
    try:
        while pipe.poll():
            last = pipe.recv()
    except (EOFError, OSError):
        pass
    return last


def kill_often(path: Path, kills: int, seed: int, tally: Tally) -> None:
    """Kill writers of one target; after each kill what was complete must be there, and the next writer goes on."""
    dice = random.Random(seed)
    write_once(path, 0)
    last = 0
    for _ in range(kills):
        with writer(path, last + 1) as (process, pipe):
            time.sleep(dice.uniform(0, LATEST))
            process.kill()
            process.join()
            done = reported(pipe, last)
        tally.kills += 1
        tally.by_target[path.name] = tally.by_target.get(path.name, 0) + 1
        try:
            found = found_version(path)
            # The version after the last report may be complete too.
            assert done <= found <= done + 1, f"version {found} after {done} was complete"
            last = found
        except Exception as problem:
            tally.lost.append(f"{path.name}: {type(problem).__name__}: {problem}")
            return


def read_beside(path: Path, readings: int, tally: Tally) -> None:
    """Read while a writer goes on; versions must not run backwards."""
    write_once(path, 0)
    with writer(path, 1) as (process, pipe):
        last = 0
        for _ in range(readings):
            # A log that grows without end would be slow to read: it begins anew.
            if path.name in APPENDS and last > 60:
                break
            try:
                found = found_version(path)
                assert found >= last, f"version {found} after {last}"
                last = found
            except Exception as problem:
                tally.lost.append(f"reading {path.name}: {type(problem).__name__}: {problem}")
            tally.readings += 1
            tally.read_by_target[path.name] = tally.read_by_target.get(path.name, 0) + 1
            reported(pipe, last)
        assert process.is_alive(), "the writer ended by itself"


def campaign(kills: int, readings: int, seed: int = 1) -> Tally:
    tally = Tally()
    with tempfile.TemporaryDirectory() as name:
        for number, target in enumerate(TARGETS):
            own = kills // len(TARGETS) + (number < kills % len(TARGETS))
            (Path(name) / f"k{number}").mkdir()
            kill_often(Path(name) / f"k{number}" / target, own, seed + number, tally)
            goal = tally.readings + readings // len(TARGETS) + (number < readings % len(TARGETS))
            again = 0
            while tally.readings < goal:
                folder = Path(name) / f"r{number}-{again}"
                folder.mkdir()
                read_beside(folder / target, goal - tally.readings, tally)
                again += 1
    return tally
