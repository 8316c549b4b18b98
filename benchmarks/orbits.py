"""Orbits in strobed records from 10^4 to 10^7 points: time, memory, and how time grows."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from harness import Comparison, comparison_table, markdown_table, measure, peak_memory_mb
from harness.runner import RESULTS

import kapitza as kz

LANES = 16
SIZES = (10_000, 100_000, 2**20, 10_000_000)


def strobed_points(count: int) -> np.ndarray:
    """Chaotic pendulum, `count` points in as many pieces as the batch has lanes; kept between runs."""
    kept = Path(tempfile.gettempdir()) / f"kapitza_pendulum_section_{count}.npy"
    if kept.exists():
        return np.load(kept)
    rng = np.random.default_rng(3)
    starts = np.column_stack([rng.uniform(-3, 3, LANES), rng.uniform(-8, 8, LANES)])
    each = count // LANES + 100
    states = kz.Flow(kz.library.parametric_pendulum()).strobe_many(starts, each).states[101:]
    points = states.transpose(1, 0, 2).reshape(-1, 2)[:count]
    draft = kept.with_suffix(".part.npy")
    np.save(draft, points)
    draft.replace(kept)
    return points


def strobed_record(count: int) -> kz.Record:
    points = strobed_points(count)
    label = np.repeat(np.arange(LANES), -(-count // LANES))[:count]
    period = float(kz.library.parametric_pendulum().period)
    return kz.Record.from_arrays(
        np.arange(count) * period,
        {"phi": points[:, 0], "phi'": points[:, 1]},
        angles=["phi"],
        segment=label,
        period=period,
    )


def main() -> str:
    largest = strobed_record(SIZES[-1])
    kz.find_orbits(largest.samples(slice(0, 5000)), max_period=2)
    rows, seconds = [], []
    for size in SIZES:
        record = largest.samples(slice(0, size)) if size < SIZES[-1] else largest
        work = measure(lambda record=record: kz.find_orbits(record, max_period=5), repeats=1, warm_up=False)
        found = work.answer
        seconds.append(work.seconds)
        rows.append((size, seconds[-1], len(found), f"{peak_memory_mb():.0f} MB"))
    memory = peak_memory_mb()
    scaled = [s / (n * np.log(n)) for n, s in zip(SIZES, seconds, strict=True)]
    growth = scaled[-1] / scaled[1]
    verdicts = [
        Comparison("seconds for 2^20 points", "-", seconds[2], "≤ 15", seconds[2] <= 15),
        Comparison("seconds for 10^7 points", "-", seconds[-1], "< 180", seconds[-1] < 180),
        Comparison("peak memory of the process [MB]", "-", memory, "< 4000", memory < 4000),
        Comparison(
            "time / (n log n) at 10^7 over that at 10^5", "-", growth, "≤ 1 (no faster than n log n)", growth <= 1.0
        ),
    ]
    plot(SIZES, seconds)
    return (
        "# Orbits in long records\n\nPendulum of ORBITS, max_period = 5; the memory includes the record itself.\n\n"
        + comparison_table(verdicts, "limit")
        + "\n\n"
        + markdown_table(["points", "seconds", "orbits", "peak memory so far"], rows)
        + "\n\n![time against points](orbits_scaling.png)"
    )


def plot(sizes: tuple[int, ...], seconds: list[float]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
    n = np.array(sizes, float)
    axes.loglog(n, seconds, "o-", label="find_orbits")
    axes.loglog(n, seconds[1] * n * np.log(n) / (n[1] * np.log(n[1])), "--", color="0.5", label="n log n")
    axes.set_xlabel("points")
    axes.set_ylabel("seconds")
    axes.legend()
    figure.savefig(RESULTS / "orbits_scaling.png", dpi=130)
    plt.close(figure)
