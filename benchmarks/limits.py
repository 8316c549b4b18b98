"""How far jobs are from what bounds them below: arithmetic, memory bandwidth, one propagation, the Cramér-Rao bound."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from harness import markdown_table, measure
from reproductions._fit_trials import LORENZ, lorenz_record, with_noise
from scipy.spatial import KDTree

import kapitza as kz
from benchmarks.growth import linked_pendulum

SEEDS = 40
POINTS = 2**18
SAMPLES = 200_000


@dataclass(frozen=True)
class Row:
    """A job of a page beside its limit; both in the same unit."""

    page: str
    job: str
    limit: str
    least: float
    ours: float
    unit: str


def seconds_of(work: Callable[[], object], repeats: int = 3) -> float:
    return measure(work, repeats).seconds


def bandwidth() -> float:
    """Bytes per second of a copy beyond the caches, read and written."""
    source = np.ones(2**25)
    target = np.empty_like(source)
    return 2 * source.nbytes / seconds_of(lambda: np.copyto(target, source))


def flop_rate() -> float:
    """Operations per second of a matrix product on one thread, the highest that the machine does."""
    matrix = np.random.default_rng(0).standard_normal((1200, 1200))
    return 2 * 1200**3 / seconds_of(lambda: matrix @ matrix, 3)


def taylor_flops(model: kz.Model, start: Any, length: float) -> float:
    """Operations of the Taylor coefficients over a run: p² for every product or function, p for a sum, order p."""
    from kapitza.flow.smooth import SmoothEngine

    flow = kz.Flow(model, tolerance=1e-12)
    engine = flow.core.engine(model.vector)
    assert isinstance(engine, SmoothEngine)
    integrator = engine._integrator(False)
    runtime = flow.core.runtime(engine, model.vector, None)
    integrator.state[:], integrator.time = start, 0.0
    integrator.pars[:] = runtime[: integrator.pars.size]
    steps = integrator.propagate_until(length)[3]
    order = integrator.order
    nodes = integrator.decomposition[len(model.states) : -len(model.states)]
    products = sum("*" in str(n[0] if isinstance(n, tuple) else n) or "(" in str(n) for n in nodes)
    return steps * (products * order**2 + (len(nodes) - products) * order)


def simulations(rate: float) -> list[Row]:
    rows = []
    duffing = kz.library.duffing()
    assert duffing.period is not None
    links = linked_pendulum(6)
    for page, job, model, start, length in (
        ("simulate", "Duffing, 1000 periods", duffing, np.array([1.0, 0.5]), 1000 * duffing.period),
        ("growth", "6 links, 20 s", links, links.state(), 20.0),
    ):
        flow = kz.Flow(model, tolerance=1e-12)
        ours = seconds_of(lambda flow=flow, s=start, n=length: flow.propagate(s, 0.0, n, tangents=False))
        least = taylor_flops(model, start, length) / rate
        rows.append(Row(page, job, "operations of the Taylor series at the rate of a matrix product", least, ours, "s"))
    return rows


def orbits() -> list[Row]:
    model = kz.library.duffing()
    orbit = kz.solve_orbit(model)
    flow = kz.Flow(model)
    one = seconds_of(lambda: flow.propagate(orbit.points[0], 0.0, orbit.period))
    guess = orbit.points[0] + 0.05
    ours = seconds_of(lambda: kz.solve_orbit(model, guess, profile=False))
    return [Row("periodic", "Duffing, from a guess 0.05 off", "three propagations with tangents", 3 * one, ours, "s")]


def data(rate: float) -> list[Row]:
    """Reading, searching and fitting a recording, beside one pass over it."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.csv"
        table = pd.DataFrame(np.random.default_rng(0).standard_normal((SAMPLES, 3)), columns=["t", "x", "y"])
        table["t"] = np.arange(SAMPLES) * 1e-3
        table.to_csv(path, index=False)
        parse, ours = seconds_of(lambda: pd.read_csv(path), 3), seconds_of(lambda: kz.read(path), 3)
        rows.append(Row("read_csv", f"{SAMPLES} rows", "the same parser without checks (pandas)", parse, ours, "s"))
    model = kz.library.duffing()
    record = kz.measure(kz.simulate(model, periods=SAMPLES // 60, samples_per_period=60).select(["x"]), 0.01, seed=1)
    ours = seconds_of(lambda: kz.identify(model, record, ["k", "B"], kz.HarmonicFit()), 2)
    least = (record.time.nbytes + record["x"].nbytes) / rate
    rows.append(Row("harmonic", f"{record.size} samples", "one reading of the samples from memory", least, ours, "s"))
    points = np.asarray(kz.Flow(kz.library.parametric_pendulum()).strobe([1.0, 0.5], POINTS).states)[1:]
    tree = seconds_of(lambda: KDTree(points).query(points, 2), 2)
    period = float(kz.library.parametric_pendulum().period or 1.0)
    strobed = kz.Record.from_arrays(
        np.arange(POINTS, dtype=np.float64) * period,
        {"phi": points[:, 0], "phi'": points[:, 1]},
        angles=["phi"],
        period=period,
    )
    ours = seconds_of(lambda: kz.find_orbits(strobed, max_period=2), 2)
    rows.append(
        Row(
            "orbits",
            f"{POINTS} points, periods 1 and 2",
            "k-d tree with the nearest neighbour of each",
            tree,
            ours,
            "s",
        )
    )
    return rows


def bounds() -> list[Row]:
    """Root-mean-square errors, in standard errors of the Cramér-Rao bound, worst parameter."""
    rows = []
    lorenz, duffing = kz.library.lorenz(), kz.library.duffing()
    clean = lorenz_record()
    moved = kz.simulate(duffing, periods=50, samples_per_period=60)
    for page, job, model, states, channels, free, level, method in (
        ("fit", "Lorenz, 5 % noise", lorenz, clean, LORENZ_CHANNELS, LORENZ, 0.05, kz.ShootingFit()),
        ("harmonic", "Lorenz, 1 % noise", lorenz, clean, LORENZ_CHANNELS, LORENZ, 0.01, kz.HarmonicFit()),
        ("harmonic", "Duffing, 1 % noise", duffing, moved, ("x",), ("k", "B"), 0.01, kz.HarmonicFit()),
    ):
        noise = {c: level * float(states[c].std()) for c in channels}
        bound = np.sqrt(np.diag(kz.cramer_rao(model, states, noise, list(free)).to_numpy()))
        errors = []
        for seed in range(SEEDS):
            fit = kz.identify(model, with_noise(states, noise, seed), list(free), method)
            errors.append([fit.values[n] - model.values[n] for n in free])
        worst = float((np.sqrt(np.mean(np.square(errors), axis=0)) / bound).max())
        rows.append(Row(page, f"{job}, {type(method).__name__}", "Cramér-Rao bound", 1.0, worst, "standard errors"))
    return rows


LORENZ_CHANNELS = ("x", "y", "z")


def main() -> str:
    copies, rate = bandwidth(), flop_rate()
    rows = [*simulations(rate), *orbits(), *data(copies), *bounds()]
    table = markdown_table(
        ["page", "job", "limit", "least", "ours", "unit", "times the limit"],
        [(r.page, r.job, r.limit, f"{r.least:.3g}", f"{r.ours:.3g}", r.unit, f"{r.ours / r.least:.3g}") for r in rows],
    )
    return (
        "# Beside the limits\n\nWhat bounds a job from below, measured on the same machine in the same run: "
        f"{copies / 1e9:.1f} GB/s of a copy in memory, {rate / 1e9:.1f} Gflop/s of a matrix product, one thread. "
        f"Processor seconds without compilation; errors: root mean squares over {SEEDS} records, worst parameter.\n\n"
        f"{table}\n\nLimits of time are those of the arithmetic or of one pass over the data alone; what stands "
        "between is the rest of the job (checks, weights, searches). Rows in standard errors say how much of what the "
        "data hold is used."
    )
