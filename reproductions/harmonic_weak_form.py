"""Weak form on the whole record: noise-free, encoders, one minute, coverage of the intervals."""

from __future__ import annotations

import numpy as np
from harness import Comparison, comparison_table, markdown_table

import kapitza as kz
from reproductions._shaken_double_pendulum import (
    CONSERVATIVE,
    VISCOUS,
    first_minutes,
    measured,
    motion,
    percent,
    rig,
    worst,
)

DRY = 1.02e-3
SEEDS = 50
SHORT = 335
"""Periods of each record in the study of coverage, a twentieth of the whole, so that fifty of them end in minutes."""


def row(quantity: str, document: object, error: float, target: float) -> Comparison:
    return Comparison(quantity, document, f"{error:.2g} %", f"< {target:g} %", bool(error < target))


def main() -> str:
    free = rig().names
    clean = kz.identify(rig(), motion(), free=free, method=kz.HarmonicFit())
    encoders = kz.identify(rig(), measured(motion()), free=free, method=kz.HarmonicFit())
    rubbing = rig(DRY)
    record = measured(motion(DRY))
    dry = kz.identify(rubbing, record, free=free, method=kz.HarmonicFit())
    minute = kz.identify(rubbing, first_minutes(record, 30_000), free=free, method=kz.HarmonicFit())
    rows = [
        row("noise-free, 670000 samples: worst of B", "0.1-1.3 %", worst(clean, rig(), CONSERVATIVE), 0.02),
        row("noise-free: worst of C12, C2", "3.8 %, 11.5 %", worst(clean, rig(), VISCOUS), 0.02),
        row("encoders, C11 = 0: worst of B", "1.6-9.8 %", worst(encoders, rig(), CONSERVATIVE), 0.1),
        row("encoders, C11 = 0: worst of C12, C2", "factor 5", worst(encoders, rig(), VISCOUS), 0.5),
        row("encoders, C11 = 1.02e-3: worst of B", "1.6-9.8 %", worst(dry, rubbing, CONSERVATIVE), 0.1),
        row("encoders, C11 = 1.02e-3: worst of C12, C2", "factor 5", worst(dry, rubbing, VISCOUS), 0.5),
        row("encoders, C11 = 1.02e-3: C11", "factor 10", abs(percent(dry, rubbing, "C11")), 3),
        row("one minute: worst of B", "", worst(minute, rubbing, CONSERVATIVE), 1),
        row("one minute: worst of C12, C2", "", worst(minute, rubbing, VISCOUS), 3),
        row("one minute: C11", "", abs(percent(minute, rubbing, "C11")), 15),
    ]
    table, covered = coverage()
    held = float(np.mean(covered))
    rows.append(
        Comparison(
            f"90 % intervals, {SEEDS} seeds, all parameters",
            "none given",
            f"{100 * held:.0f} %",
            "80-97 %",
            bool(0.80 <= held <= 0.97),
        )
    )
    return (
        "# HARMONIC: the weak form on whole records\n\n"
        f"Table 9 values; segments of the record with dry friction: {len(motion(DRY).segments())}.\n\n"
        + comparison_table(rows)
        + f"\n\n## Coverage of 90 % intervals ({SEEDS} seeds, {SHORT} periods each, encoders, C11 = 1.02e-3)\n\n"
        + table
    )


def coverage() -> tuple[str, np.ndarray]:
    model = rig(DRY)
    scores = []
    held = []
    for seed in range(SEEDS):
        fit = kz.identify(model, measured(motion(DRY, SHORT, 100 + seed)), free=model.names, method=kz.HarmonicFit())
        interval = fit.interval(0.9)
        held.append([interval.loc[n, "low"] <= model.values[n] <= interval.loc[n, "high"] for n in model.names])
        scores.append([(fit[n] - model.values[n]) / fit.deviations[n] for n in model.names])
    covered, z = np.array(held), np.array(scores)
    rows = [
        (n, f"{100 * covered[:, i].mean():.0f} %", f"{z[:, i].mean():+.2f}", f"{z[:, i].std():.2f}")
        for i, n in enumerate(model.names)
    ]
    return markdown_table(["parameter", "intervals that hold the truth", "mean of error/σ", "deviation"], rows), covered
