"""Recordings beyond memory: strobed points and flows on disk, searched and fitted part by part."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from harness import markdown_table, peak_memory_mb

import kapitza as kz

SIZES = (10**6, 10**7, 10**8)
LARGEST = int(float(os.environ.get("KAPITZA_LARGEST", "1e8")))
"""Samples of the longest recording; a smaller number in the environment for a quick look."""

MOST_MEMORY = 4.0
BLOCK = 10**6
SIDE = 1000
"""Motions that are made at a time, next to each other: one is a segment."""


def henon(path: Path, size: int) -> None:
    """Points of the Hénon map with 0.1 % noise, segments of up to 1000 points, appended in blocks."""
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
        append(path, points, block, 1.0, 1.0, 1e-3, random)


def duffing(path: Path, size: int) -> None:
    """x of the driven Duffing oscillator, 60 samples per period, 1 % noise; Runge-Kutta steps of a quarter sample."""
    random = np.random.default_rng(2)
    steps, step = BLOCK // SIDE, 2 * np.pi / 60
    values = kz.library.duffing().values
    state, clock = random.uniform(-1.0, 1.0, (2, SIDE)), 0.0

    def rates(t: float, x: Any) -> Any:
        return np.array([x[1], -values["k"] * x[1] - x[0] ** 3 + values["B"] * np.cos(t)])

    for block in range(size // BLOCK):
        motion = np.empty((1, steps, SIDE))
        begin = clock
        for k in range(steps):
            motion[0, k] = state[0]
            for _ in range(4):
                h = step / 4
                a = rates(clock, state)
                b = rates(clock + h / 2, state + h / 2 * a)
                c = rates(clock + h / 2, state + h / 2 * b)
                d = rates(clock + h, state + h * c)
                state, clock = state + h / 6 * (a + 2 * b + 2 * c + d), clock + h
        append(path, motion, block, step, 2 * np.pi, 0.01, random, begin)


def append(
    path: Path, motions: Any, block: int, step: float, period: float, noise: float, random: Any, begin: float = 0.0
) -> None:
    """Motions (c, steps, SIDE) behind one another, each a segment; the clock of each is that of the excitation."""
    names = ("x", "y")[: len(motions)]
    count = motions.shape[1]
    # Whole periods between the segments keep the excitation in step.
    apart = period * np.ceil((count * step + period) / period)
    times = begin + np.arange(count)[None] * step + apart * np.arange(SIDE)[:, None] + apart * SIDE * block
    channels = {
        name: (m.T + noise * random.standard_normal((SIDE, count))).ravel()
        for name, m in zip(names, motions, strict=True)
    }
    record = kz.Record.from_arrays(
        times.ravel(), channels, segment=np.repeat(np.arange(SIDE), count), period=period,
        noise=dict.fromkeys(names, noise),
    )  # fmt: skip
    kz.write(record, path, append=True)


def orbits_job(path: Path) -> tuple[float, float, str]:
    stored = kz.open_record(path)
    begin = time.process_time()
    found = kz.find_orbits(stored, max_period=3)
    seconds = time.process_time() - begin
    # The fixed point of the map: 1 - 1.4 x² + 0.3 x = x.
    exact = (-0.7 + np.sqrt(0.49 + 5.6)) / 2.8
    fixed = [o for o in found if len(o.points) == 1 and o.points[0, 0] > 0]
    error = abs(fixed[0].points[0, 0] - exact) if fixed else float("nan")
    return seconds, peak_memory_mb() / 1e3, f"{len(found)} orbits, fixed point off by {error:.1e}"


def fit_job(path: Path) -> tuple[float, float, str]:
    model = kz.library.duffing()
    stored = kz.open_record(path)
    kz.identify(model, stored.rows(0, 20_000), free=["k", "B"], method=kz.HarmonicFit())
    begin = time.process_time()
    fit = kz.identify(model.with_values(k=0.06), stored, free=["k", "B"], method=kz.HarmonicFit())
    seconds = time.process_time() - begin
    off = max(abs(fit[n] - model.values[n]) / fit.deviations[n] for n in ("k", "B"))
    return seconds, peak_memory_mb() / 1e3, f"k ± {fit.deviations['k']:.1e}; off by {off:.1f} standard errors"


def measured(job: Any, path: Path) -> tuple[float, float, str]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(job, (path,))


def main() -> str:
    rows, times = [], {}
    sizes = [n for n in SIZES if n <= LARGEST]
    folder = Path(tempfile.mkdtemp())
    try:
        for name, make, job in (
            ("strobed points, find_orbits", henon, orbits_job),
            ("flow, HarmonicFit", duffing, fit_job),
        ):
            for size in sizes:
                path = folder / f"{make.__name__}-{size}.parquet"
                make(path, size)
                disk = sum(f.stat().st_size for f in path.rglob("*") if f.is_file()) / 1e9
                seconds, memory, said = measured(job, path)
                shutil.rmtree(path)
                times[name, size] = seconds
                verdict = "met" if memory < MOST_MEMORY else "**missed**"
                rows.append((name, f"{size:.0e}", f"{disk:.2f}", f"{seconds:.1f}", f"{memory:.2f}", verdict, said))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    header = ["job", "samples", "on disk [GB]", "processor [s]", "peak memory [GB]", "below 4 GB", "found"]
    growth = []
    if len(sizes) > 1:
        for name in dict.fromkeys(n for n, _ in times):
            slope = np.log(times[name, sizes[-1]] / times[name, sizes[0]]) / np.log(sizes[-1] / sizes[0])
            growth.append(f"{name}: time grows as n^{slope:.2f} (linear: {'met' if slope < 1.1 else '**missed**'}).")
    return (
        "# Recordings beyond memory\n\nParquet folders, appended in blocks of 10^6 samples and read part by "
        "part. Points of the Hénon map with 0.1 % noise; a driven Duffing oscillator with 60 samples per period and "
        f"1 % noise. Seconds of processor time. The longest recording of this run has {sizes[-1]:.0e} samples.\n\n"
        + markdown_table(header, rows) + "\n\n" + "\n\n".join(growth)
    )  # fmt: skip
