"""Ensembles: speed-up on two cores, a cluster that loses a worker, basins of attraction beside SciPy."""

from __future__ import annotations

import os
import signal
import threading
from hashlib import sha256
from typing import Any

import numpy as np
from harness import kept, markdown_table, measure
from scipy.integrate import solve_ivp

import kapitza as kz
from kapitza.base.workers import pool_of

FITS = int(os.environ.get("KAPITZA_FITS", "2000"))
GRID = int(os.environ.get("KAPITZA_GRID", "2000"))
"""Fits and starts along each side; smaller numbers in the environment for a quick look."""

KILLED_AFTER = 8.0
"""Seconds after which a worker dies, when it has compiled and works."""

SAMPLE = 32
DIFFRAX_SAMPLE = 4096
"""Starts that SciPy and diffrax follow; their time for the whole grid is extrapolated from them."""


def study(fits: int, **settings: Any) -> kz.Coverage:
    """A coverage study of the Duffing oscillator by the weak form."""
    model = kz.library.duffing()
    record = kz.simulate(model, periods=60, samples_per_period=60).select(["x"])
    return kz.coverage(model, record, 0.01, ["k", "B"], kz.HarmonicFit(), fits=fits, seed=1, **settings)


def digest(found: kz.Coverage) -> str:
    """Equal for studies that agree to the last bit."""
    columns = found.fits.columns
    content = b"".join(n.encode() + np.ascontiguousarray(columns[n]).tobytes() for n in columns)
    return f"{len(found.fits)} {sha256(content).hexdigest()}"


def timed(**settings: Any) -> tuple[float, str]:
    work = measure(lambda: study(FITS, **settings), repeats=1, warm_up=False)
    return work.wall, digest(work.answer)


def coverage_rows() -> list[tuple]:
    alone, first = kept("ensembles", f"{FITS} fits, 1 process", lambda: timed(workers=1))
    two, second = kept("ensembles", f"{FITS} fits, 2 processes", lambda: timed(workers=2))
    four, third = kept("ensembles", f"{FITS} fits, a worker killed", with_a_killed_worker)
    ratio = alone / two
    quick, complete = ("met" if good else "**missed**" for good in (ratio >= 1.8, third == first))
    return [
        ("1 process", f"{alone:.1f}", "", "", ""),
        ("2 processes", f"{two:.1f}", f"{ratio:.2f}", "yes" if second == first else "**no**",
         f"speed-up ≥ 1.8: {quick}"),
        ("dask, 4 workers, one killed", f"{four:.1f}", "", "yes" if third == first else "**no**",
         f"complete, same numbers: {complete}"),
    ]  # fmt: skip


def with_a_killed_worker() -> tuple[float, str]:
    """The study on a LocalCluster of four single-thread workers, one of which is killed midway."""
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        victim = next(iter(client.run(os.getpid).values()))
        threading.Timer(KILLED_AFTER, os.kill, (victim, signal.SIGKILL)).start()
        return timed(executor=client)


def wells() -> kz.Model:
    """Two wells, driven hard enough for basins with fractal borders."""
    return kz.Model.from_equations(
        "x'' + c*x' - x + x**3 = F*cos(w*t)", parameters={"c": 0.15, "F": 0.1, "w": 1.0}, period="2*pi/w", name="wells"
    )


def scipy_starts(values: Any, starts: Any, length: float) -> tuple[float, Any]:
    """Seconds for these starts one after another, and where they end."""

    def rates(t: float, x: Any) -> list[float]:
        return [x[1], -values["c"] * x[1] + x[0] - x[0] ** 3 + values["F"] * np.cos(values["w"] * t)]

    work = measure(
        lambda: [solve_ivp(rates, (0.0, length), x, "DOP853", rtol=1e-9, atol=1e-9).y[:, -1] for x in starts], repeats=1
    )
    return work.seconds, np.array(work.answer)


def diffrax_starts(values: Any, starts: Any, length: float) -> tuple[float, Any]:
    """The same by one compiled and vectorised call, its compilation apart; it takes the cores it wants."""
    import diffrax
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def rates(t: Any, x: Any, _: Any) -> Any:
        return jnp.array([x[1], -values["c"] * x[1] + x[0] - x[0] ** 3 + values["F"] * jnp.cos(values["w"] * t)])

    def end(x: Any) -> Any:
        control = diffrax.PIDController(rtol=1e-9, atol=1e-9)
        run = diffrax.diffeqsolve(
            diffrax.ODETerm(rates), diffrax.Dopri8(), 0.0, length, 0.05, x, stepsize_controller=control,
            saveat=diffrax.SaveAt(t1=True), max_steps=100_000,
        )  # fmt: skip
        ys = run.ys
        assert ys is not None
        return ys[0]

    follow = jax.jit(jax.vmap(end))
    work = measure(lambda: follow(starts).block_until_ready())
    return work.seconds, np.asarray(work.answer)


def basin_rows(grid: int, transient: int = 30) -> list[tuple]:
    model = wells()
    region = {"x": (-2.0, 2.0), "x'": (-1.5, 1.5)}
    kz.basins(model, region, grid=8, transient=2)

    def on_two_cores() -> kz.Basins:
        with pool_of(2) as pool:
            return kz.basins(model, region, grid=grid, transient=transient, executor=pool)

    work = measure(on_two_cores, repeats=1, warm_up=False)
    ours, found = work.seconds, work.answer
    assert model.period is not None
    length = transient * model.period
    starts = np.random.default_rng(0).uniform([-2.0, -1.5], [2.0, 1.5], (DIFFRAX_SAMPLE, 2))
    scipy_time, ends = scipy_starts(model.values, starts[:SAMPLE], length)
    diffrax_time, others = diffrax_starts(model.values, starts, length)
    near = float(np.median(np.abs(others[:SAMPLE] - ends).max(axis=1)))
    assert near < 1e-5, near
    cores = 2
    theirs = scipy_time / SAMPLE * grid**2 / cores
    vectorised = diffrax_time / DIFFRAX_SAMPLE * grid**2
    shares = ", ".join(f"{share:.3f}" for share in found.shares())
    attractors = ", ".join(str(a.period) for a in found.attractors)
    return [
        (
            f"{grid} x {grid}",
            f"{ours:.0f}",
            f"{theirs:.0f}",
            f"{theirs / ours:.0f}",
            f"{vectorised:.0f}",
            f"{vectorised / ours:.1f}",
            f"{len(found.attractors)} ({attractors})",
            shares,
        )
    ]


def main() -> str:
    coverage = markdown_table(["workers", "seconds", "speed-up", "same numbers", "targets"], coverage_rows())
    basins = markdown_table(
        [
            "starts",
            "Kapitza [s]",
            "SciPy DOP853, transient alone [s]",
            "ratio",
            "diffrax Dopri8, the same [s]",
            "ratio",
            "attractors (periods)",
            "shares",
        ],
        kept("ensembles", f"basins of {GRID}", lambda: basin_rows(GRID)),
    )
    return (
        f"# Ensembles\n\nA coverage study of {FITS} fits of the Duffing oscillator, start of the workers "
        f"and compilation included:\n\n{coverage}\n\nBasins of attraction of a double well, 30 periods of transient "
        f"and until the motion repeats, on two cores. SciPy is extrapolated "
        f"from {SAMPLE} starts, as if two cores did half each; diffrax (vectorised, on the cores it takes) from "
        f"{DIFFRAX_SAMPLE}, both at 1e-9:\n\n{basins}"
    )
