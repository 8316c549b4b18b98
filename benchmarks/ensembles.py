"""Ensembles: speed-up on two cores, a cluster that loses a worker, basins of attraction beside SciPy."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import numpy as np
from harness import markdown_table
from scipy.integrate import solve_ivp

import kapitza as kz
from kapitza.executor import pool_of

FITS = 2000
GRID = 2000
SAMPLE = 64
"""Starts that SciPy follows; its time for the whole grid is extrapolated from them."""


def study(fits: int, **settings: Any) -> kz.Coverage:
    """A coverage study of the Duffing oscillator by the weak form."""
    model = kz.library.duffing()
    record = kz.simulate(model, periods=60, samples_per_period=60).select(["x"])
    return kz.coverage(model, record, 0.01, ["k", "B"], kz.HarmonicFit(), fits=fits, seed=1, **settings)


def same(one: kz.Coverage, other: kz.Coverage) -> str:
    columns = one.fits.columns
    equal = all(np.array_equal(columns[n], other.fits.columns[n]) for n in columns)
    return "yes" if equal and len(one.fits) == len(other.fits) else "**no**"


def coverage_rows(fits: int) -> list[tuple]:
    times, found = {}, {}
    for workers in (1, 2):
        begin = time.perf_counter()
        found[workers] = study(fits, workers=workers)
        times[workers] = time.perf_counter() - begin
    ratio = times[1] / times[2]
    rows = [("1 process", f"{times[1]:.1f}", "", "", "")]
    judged = "met" if ratio >= 1.8 else "**missed**"
    rows.append(
        ("2 processes", f"{times[2]:.1f}", f"{ratio:.2f}", same(found[1], found[2]), f"speed-up ≥ 1.8: {judged}")
    )
    seconds, on_cluster = with_a_killed_worker(fits)
    agrees = same(found[1], on_cluster)
    judged = "met" if agrees == "yes" else "**missed**"
    rows.append(("dask, 4 workers, one killed", f"{seconds:.1f}", "", agrees, f"complete, same numbers: {judged}"))
    return rows


def with_a_killed_worker(fits: int) -> tuple[float, kz.Coverage]:
    """The study on a LocalCluster of four single-thread workers, one of which is killed after two seconds."""
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        victim = next(iter(client.run(os.getpid).values()))
        threading.Timer(2.0, os.kill, (victim, signal.SIGKILL)).start()
        begin = time.perf_counter()
        found = study(fits, executor=client)
        return time.perf_counter() - begin, found


def wells() -> kz.Model:
    """Two wells, driven hard enough for basins with fractal borders."""
    return kz.Model.from_equations(
        "x'' + c*x' - x + x**3 = F*cos(w*t)", parameters={"c": 0.15, "F": 0.1, "w": 1.0}, period="2*pi/w", name="wells"
    )


def basin_rows(grid: int, transient: int = 30) -> list[tuple]:
    model = wells()
    region = {"x": (-2.0, 2.0), "x'": (-1.5, 1.5)}
    kz.basins(model, region, grid=8, transient=2)
    begin = time.perf_counter()
    with pool_of(2) as pool:
        found = kz.basins(model, region, grid=grid, transient=transient, executor=pool)
    ours = time.perf_counter() - begin
    random = np.random.default_rng(0)
    chosen = random.integers(0, grid, (SAMPLE, 2))
    values = model.values
    assert model.period is not None
    length = transient * model.period
    begin = time.perf_counter()
    ends = []
    for i, j in chosen:
        start = [found.axes["x"][i], found.axes["x'"][j]]
        run = solve_ivp(
            lambda t, x: [x[1], -values["c"] * x[1] + x[0] - x[0] ** 3 + values["F"] * np.cos(values["w"] * t)],
            (0.0, length),
            start,
            "DOP853",
            rtol=1e-9,
            atol=1e-9,
        )
        ends.append(run.y[:, -1])
    theirs = (time.perf_counter() - begin) / SAMPLE * grid**2 / 2  # two cores
    shares = ", ".join(f"{share:.3f}" for share in found.shares())
    attractors = ", ".join(str(a.period) for a in found.attractors)
    return [
        (
            f"{grid} x {grid}",
            f"{ours:.0f}",
            f"{theirs:.0f}",
            f"{theirs / ours:.0f}",
            f"{len(found.attractors)} ({attractors})",
            shares,
        )
    ]


def main() -> str:
    coverage = markdown_table(["workers", "seconds", "speed-up", "same numbers", "targets"], coverage_rows(FITS))
    basins = markdown_table(
        ["starts", "Kapitza [s]", "SciPy DOP853, transient alone [s]", "ratio", "attractors (periods)", "shares"],
        basin_rows(GRID),
    )
    return (
        f"# Ensembles\n\nA coverage study of {FITS} fits of the Duffing oscillator, start of the workers "
        f"and compilation included:\n\n{coverage}\n\nBasins of attraction of a double well, 30 periods of transient "
        f"and until the motion repeats, on two cores; SciPy extrapolated from {SAMPLE} starts to two cores:\n\n{basins}"
    )
