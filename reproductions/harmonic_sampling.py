"""Coarser sampling and larger noise: errors of each method on one minute of the synthetic experiment."""

from __future__ import annotations

import numpy as np
from harness import markdown_table

import kapitza as kz
from reproductions._close_stretches import close_stretches
from reproductions._shaken_double_pendulum import (
    CONSERVATIVE,
    COUNT,
    VISCOUS,
    measured,
    motion,
    percent,
    rig,
    thinned,
    worst,
)

DRY = 1.02e-3
PERIODS = 670

METHODS = {
    "weak, weighted": kz.HarmonicFit(),
    "weak, least squares": kz.HarmonicFit(solver="least squares"),
    "weak, robust": kz.HarmonicFit(solver="robust"),
    "weak, total": kz.HarmonicFit(solver="total"),
    "weak, instruments": kz.HarmonicFit(solver="instruments"),
    "orbits, series, exclusion": kz.HarmonicFit(test="harmonics", derivatives="series", solver="exclusion"),
    "orbits, five-point": kz.HarmonicFit(test="harmonics", derivatives="five-point", solver="least squares"),
}


def main() -> str:
    model = rig(DRY)
    clean = motion(DRY, PERIODS, 7)
    cases = [
        ("500 Hz, 1024 counts", measured(clean)),
        ("250 Hz", measured(thinned(clean, 2))),
        ("100 Hz", measured(thinned(clean, 5))),
        ("noise x 2", measured(clean, 2 * COUNT)),
        ("noise x 5", measured(clean, 5 * COUNT)),
    ]
    rows = []
    for text, record in cases:
        delay = round(0.24 * record.period / float(np.median(np.diff(record.time[:1000]))))
        orbits = close_stretches(record, 0.05, 15, delay, most=60)
        for name, method in METHODS.items():
            data = orbits if method.test == "harmonics" else record
            fit = kz.identify(model, data, model.names, method)
            rows.append(
                (
                    text,
                    name,
                    f"{worst(fit, model, CONSERVATIVE):.2g} %",
                    f"{worst(fit, model, VISCOUS):.2g} %",
                    f"{abs(percent(fit, model, 'C11')):.2g} %",
                )
            )
    return (
        "# HARMONIC: coarser sampling, larger noise\n\n"
        f"{PERIODS} periods in {len(clean.segments())} segments, C11 = 1.02e-3; largest errors.\n\n"
        + markdown_table(["data", "method", "B", "C12, C2", "C11"], rows)
    )
