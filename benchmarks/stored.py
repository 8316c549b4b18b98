"""Recordings beyond memory: strobed points and flows on disk, searched and fitted part by part."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from harness import NotMeasured, kept, markdown_table, measure, peak_memory_mb

import kapitza as kz

SIZES = (10**6, 10**7, 10**8)
LARGEST = int(float(os.environ.get("KAPITZA_LARGEST", "1e8")))
"""Samples of the longest recording; a smaller number in the environment for a quick look."""

MOST_MEMORY = 4.0
BLOCK = 10**6
SIDE = 100
"""Motions of the map that are made at a time, next to each other: one is a segment."""


def henon(path: Path, size: int) -> None:
    """Points of the Hénon map with 0.1 % noise, segments of up to 10,000 points, appended in blocks."""
    random = np.random.default_rng(1)
    steps = BLOCK // SIDE
    state = random.uniform(-0.1, 0.1, (2, SIDE))
    for _ in range(100):
        state = np.array([1 - 1.4 * state[0] ** 2 + state[1], 0.3 * state[0]])
    for block in range(size // BLOCK):
        points = np.empty((2, steps, SIDE))
        for k in range(steps):
            points[:, k] = state
            state = np.array([1 - 1.4 * state[0] ** 2 + state[1], 0.3 * state[0]])
        append(path, points, block, 1e-3, random)


def duffing(path: Path, size: int) -> None:
    """One motion of the driven Duffing oscillator, x alone, 60 samples per period, 1 % noise, appended in blocks."""
    model = kz.library.duffing()
    random = np.random.default_rng(2)
    period = float(model.period or 1.0)
    state, periods = model.state(), BLOCK // 60
    for block in range(-(-size // (60 * periods))):
        motion = kz.simulate(model, x0=state, periods=periods, samples_per_period=60)
        state = motion.values(model.states)[-1]
        x = motion["x"][:-1]
        times = (block * 60 * periods + np.arange(x.size, dtype=np.float64)) * (period / 60)
        noisy = x + 0.01 * random.standard_normal(x.size)
        record = kz.Record.from_arrays(times, {"x": noisy}, period=period, noise={"x": 0.01})
        kz.write(record, path, append=True)


def append(path: Path, motions: Any, block: int, noise: float, random: Any) -> None:
    """Motions (c, steps, SIDE) of a map behind one another, each a segment."""
    names = ("x", "y")[: len(motions)]
    count = motions.shape[1]
    times = np.arange(count)[None] + (count + 1.0) * (np.arange(SIDE)[:, None] + SIDE * block)
    channels = {
        name: (m.T + noise * random.standard_normal((SIDE, count))).ravel()
        for name, m in zip(names, motions, strict=True)
    }
    record = kz.Record.from_arrays(
        times.ravel(),
        channels,
        segment=np.repeat(np.arange(SIDE), count),
        period=1.0,
        noise=dict.fromkeys(names, noise),
    )
    kz.write(record, path, append=True)


def orbits_job(path: Path) -> tuple[float, float, str]:
    stored = kz.open_record(path)
    work = measure(lambda: kz.find_orbits(stored, max_period=3), repeats=1, warm_up=False)
    found, seconds = work.answer, work.seconds
    # The fixed point of the map: 1 - 1.4 x² + 0.3 x = x.
    exact = (-0.7 + np.sqrt(0.49 + 5.6)) / 2.8
    fixed = [o for o in found if len(o.points) == 1 and o.points[0, 0] > 0]
    assert fixed, found
    error = abs(fixed[0].points[0, 0] - exact)
    deviation = float(np.sqrt(np.asarray(fixed[0].covariance)[0, 0]))
    said = f"{len(found)} orbits, fixed point off by {error:.1e}, {error / deviation:.1f} standard errors"
    return seconds, peak_memory_mb() / 1e3, said


def fit_job(path: Path) -> tuple[float, float, str]:
    model = kz.library.duffing()
    stored = kz.open_record(path)
    kz.identify(model, stored.rows(0, 20_000), free=["k", "B"], method=kz.HarmonicFit())
    start, method = model.with_values(k=0.06), kz.HarmonicFit()
    work = measure(lambda: kz.identify(start, stored, free=["k", "B"], method=method), repeats=1, warm_up=False)
    fit, seconds = work.answer, work.seconds
    off = max(abs(fit[n] - model.values[n]) / fit.deviations[n] for n in ("k", "B"))
    return seconds, peak_memory_mb() / 1e3, f"k ± {fit.deviations['k']:.1e}; off by {off:.1f} standard errors"


def apart(function: Any, *arguments: Any) -> Any:
    """The function in a process of its own, whose memory is its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def one_size(make: Any, job: Any, size: int) -> tuple[float, float, float, str]:
    """Size on disk [GB], processor seconds and peak memory [GB] of the job, and what it found."""
    folder = Path(tempfile.mkdtemp())
    try:
        path = folder / f"{make.__name__}.parquet"
        apart(make, path, size)
        disk = sum(f.stat().st_size for f in path.rglob("*") if f.is_file()) / 1e9
        return (disk, *apart(job, path))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


JOBS = (("strobed points, find_orbits", henon, orbits_job), ("flow, HarmonicFit", duffing, fit_job))


def main() -> str:
    # One thread for each job: the libraries of the processes that do them read this when they start.
    for library in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(library, "1")
    sizes = [n for n in SIZES if n <= LARGEST]
    keeping = threading.Lock()
    found: dict[tuple[str, int], Any] = {}

    def work(name: str, make: Any, job: Any) -> None:
        for size in sizes:
            known = partial(kept, "stored", f"{name}, {size:.0e}")
            with keeping, contextlib.suppress(NotMeasured):
                found[name, size] = known(_absent)
            if (name, size) not in found and not os.environ.get("KAPITZA_KEPT_ONLY"):
                answer = one_size(make, job, size)
                with keeping:
                    found[name, size] = known(lambda answer=answer: answer)

    # The jobs side by side, each on a core; seconds are those of its own processor.
    with ThreadPoolExecutor(len(JOBS)) as pool:
        list(pool.map(lambda job: work(*job), JOBS))
    rows = []
    for (name, size), (disk, seconds, memory, said) in sorted(
        found.items(), key=lambda item: (item[0][0][0], item[0][1])
    ):
        verdict = "met" if memory < MOST_MEMORY else "**missed**"
        rows.append((name, f"{size:.0e}", f"{disk:.2f}", f"{seconds:.1f}", f"{memory:.2f}", verdict, said))
    header = ["job", "samples", "on disk [GB]", "processor [s]", "peak memory [GB]", "below 4 GB", "found"]
    growth = []
    for name, *_ in JOBS:
        own = sorted(size for job, size in found if job == name)
        if len(own) > 1:
            times = [found[name, size][1] for size in (own[0], own[-1])]
            slope = np.log(times[1] / times[0]) / np.log(own[-1] / own[0])
            growth.append(f"{name}: time grows as n^{slope:.2f} (linear: {'met' if slope < 1.1 else '**missed**'}).")
    return (
        "# Recordings beyond memory\n\nParquet folders, appended in blocks of 10^6 samples and read part by "
        "part. Points of the Hénon map with 0.1 % noise, in segments of 10,000; one motion of a driven Duffing "
        "oscillator with 60 samples per period and 1 % noise. Seconds of processor time of one thread, both jobs side "
        f"by side. The longest recording of this run has {sizes[-1]:.0e} samples.\n\n"
        + markdown_table(header, rows) + "\n\n" + "\n\n".join(growth)
    )  # fmt: skip


def _absent() -> Any:
    raise NotMeasured
