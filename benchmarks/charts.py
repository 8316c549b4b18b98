"""Planes on two cores: basins of 2000 × 2000 starts, a chart of exponents; spectra beside those of the literature."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from harness import markdown_table, measure
from harness.runner import RESULTS

import kapitza as kz
from benchmarks.device import REGION, driven_wells, pendulum
from kapitza.base.workers import pool_of

GRID = 2000
TARGET = 60.0
"""Seconds of both cores for the basins."""

CHART = (200, 200)
PERIODS, TRANSIENT = 200, 50


def basin_row() -> tuple[Any, ...]:

    def on_two_cores() -> kz.Basins:
        with pool_of(1) as pool:
            return kz.basins(driven_wells(), REGION, grid=GRID, transient=30, executor=pool)

    work = measure(on_two_cores, repeats=1, warm_up=False)
    found, wall, half = work.answer, work.wall, work.seconds / 2
    verdict = f"target {TARGET:g}" + ("" if half <= TARGET else ": **missed**")
    return f"basins {GRID}²", f"{half:.1f} ({verdict})", f"{wall:.0f}", f"{len(found.attractors)} attractors"


def chart_row() -> tuple[Any, ...]:
    unit = 2 * np.pi / pendulum().values["w"]
    plane = {"F": (0.9, 1.5), "w": (0.5, 0.9)}
    settings = {"length": PERIODS * unit, "transient": TRANSIENT * unit, "blocks": 8}

    def on_two_cores() -> kz.LyapunovSpectrum:
        with pool_of(1) as pool:
            return kz.exponents(pendulum(), plane=plane, grid=CHART, executor=pool, **settings)

    work = measure(on_two_cores, repeats=1, warm_up=False)
    chart, wall, half = work.answer, work.wall, work.seconds / 2
    chart.plot(RESULTS / "charts.png")
    rate = CHART[0] * CHART[1] * (PERIODS + TRANSIENT) / (2 * half)
    said = (
        f"chaotic at {chart.chaotic.mean():.1%}, no value at {int(np.isnan(chart.largest).sum())}; {rate:.3g} periods/s"
    )
    return f"exponents {CHART[0]} × {CHART[1]} × {PERIODS + TRANSIENT} periods", f"{half:.1f}", f"{wall:.0f}", said


def spectrum_rows() -> list[tuple[Any, ...]]:
    henon = kz.Model.from_map(
        {"x": "1 - a*x**2 + y", "y": "b*x"}, parameters={"a": 1.4, "b": 0.3}, start={"x": 0.1, "y": 0.1}, name="henon"
    )
    # The largest exponents: Viswanath (1998) for Lorenz, Sprott (2003) for the others.
    cases = [
        (kz.library.lorenz(), [0.9056, 0.0, -14.5723], {}),
        (kz.library.rossler(), [0.0714, 0.0, -5.3943], {}),
        (henon, [0.41922, np.log(0.3) - 0.41922], {"length": 200_000}),
    ]
    joint = kz.library.pin_joint()
    flow = kz.Flow(joint)
    settled = flow.strobe(joint.state(), 400).states[-1]
    multipliers = np.linalg.eigvals(flow.propagate(settled, 0.0, joint.period).jacobian)
    cases.append((joint, list(np.sort(np.log(np.abs(multipliers)) / joint.period)[::-1]), {}))
    rows = []
    for model, expected, settings in cases:
        work = measure(lambda model=model, settings=settings: kz.exponents(model, **settings), repeats=1, warm_up=False)
        found, used = work.answer, work.seconds
        off = np.abs(found.values - expected)
        # What is known to five digits cannot be missed by less.
        inside = (off <= 3 * found.errors + 6e-5).all()
        shown = ", ".join(f"{v:.5g} ± {e:.1g}" for v, e in zip(found.values, found.errors, strict=True))
        known = ", ".join(f"{v:.6g}" for v in expected)
        rows.append((model.name, known, shown, f"{off.max():.1g}", "yes" if inside else "**missed**", f"{used:.1f}"))
    return rows


def main() -> str:
    load = os.getloadavg()[0]
    planes = markdown_table(["work", "processor s / 2", "wall s", "found"], [basin_row(), chart_row()])
    spectra = markdown_table(
        ["model", "known", "found", "largest difference", "within 3 errors", "processor s"], spectrum_rows()
    )
    return (
        "# Planes and exponents on two cores\n\nTimes are processor time of two processes, halved: the load of the "
        f"machine was {load:.0f} at the start, so wall times say little.\n\n{planes}\n\n"
        "![Largest exponent of the forced pendulum](charts.png)\n\nLyapunov spectra; the pin joint hits rigid walls, "
        f"its exponents are those of the multipliers of its periodic motion:\n\n{spectra}"
    )
