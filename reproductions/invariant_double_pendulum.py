"""INVARIANT, section 4: the planar double pendulum, nonlinear in its parameters, by F3 and F2."""

from __future__ import annotations

import numpy as np
from harness import Comparison, comparison_table

import kapitza as kz
from reproductions._invariant import SEEDS, clean_row, first, only, repeat, row

TRUTH = {"lambda_": 1.0, "mu": 2.0, "omega1": float(np.sqrt(9.81))}
RATIO, SHAPE = ("mu",), ("lambda_", "omega1")


def series() -> kz.Record:
    return kz.simulate(kz.library.planar_double_pendulum(), t=0.25 * np.arange(200))


def clean() -> list[Comparison]:
    rng, record, rows = np.random.default_rng(0), series(), []
    choices = {
        "10 points": np.arange(10),
        "50 points": np.arange(50),
        "every tenth point": np.arange(0, 200, 10),
        "30 shuffled points": rng.permutation(200)[:30],
    }
    for what, index in choices.items():
        channels = {c: record[c][index] for c in record.channels}
        chosen = kz.Record.from_arrays(np.arange(index.size), channels, angles=["phi1", "phi2"])
        worst = 0.0
        for _ in range(10):
            start = {"lambda_": rng.uniform(0.1, 5), "mu": rng.uniform(1.1, 6), "omega1": rng.uniform(0.2, 10)}
            model = kz.library.planar_double_pendulum().with_values(**start)
            fit = kz.identify(model, chosen, free=list(TRUTH), method=kz.InvariantFit())
            worst = max(worst, *(abs(fit[n] / t - 1) for n, t in TRUTH.items()))
        rows.append(clean_row(f"noise-free, {what}, any start", 6, worst))
    return rows


def noisy() -> list[Comparison]:
    model, rows = kz.library.planar_double_pendulum(), []
    for noise, count, ratio, shape in ((0.05, 50, 0.05, 0.02), (0.10, 100, 0.13, 0.06)):
        part = first(series(), count)
        plain = repeat(model, part, TRUTH, kz.InvariantFit(correction=0), noise)
        corrected = repeat(model, part, TRUTH, kz.InvariantFit(), noise)
        surface = repeat(model, part, TRUTH, kz.InvariantFit("surface"), noise)
        for names, goal in ((RATIO, ratio), (SHAPE, shape)):
            others = {"F3": plain.worst(names), "F3 corrected": corrected.worst(names)}
            what = f"{100 * noise:g} % noise, {count} points: worst of {', '.join(names)}, F2"
            rows.append(row(what, f"{100 * goal:g} %", goal, surface.worst(names), others))
        halved = max(surface.median(n) / plain.median(n) for n in TRUTH)
        mean = float(np.mean([surface.median(n) / plain.median(n) for n in TRUTH]))
        rows.append(
            Comparison(
                f"{100 * noise:g} % noise, {count} points: error of F2 over error of F3, mean of the parameters",
                "about 1/2",
                f"{mean:.2f}",
                "≤ 0.6",
                mean <= 0.6,
                f"worst parameter {halved:.2f}",
            )
        )
    return rows


def incomplete() -> list[Comparison]:
    model, rows = kz.library.planar_double_pendulum(), []
    cases = [(0.0, 50, "fourth", 0.05, 0.05), (0.05, 100, "fourth", 0.30, 0.10), (0.05, 100, "auto", 0.30, 0.10)]
    for noise, count, momenta, ratio, shape in cases:
        part, seeds = first(series(), count), SEEDS if noise else 1
        fits = {
            "F3 unweighted": kz.InvariantFit(momenta=momenta, weights="equal", loss="linear", correction=0),
            "F3": kz.InvariantFit(momenta=momenta),
            "F2": kz.InvariantFit("surface", momenta=momenta),
        }
        errors = {k: repeat(model, part, TRUTH, m, noise, seeds, only("phi1", "phi2")) for k, m in fits.items()}
        ours = "F2" if noise else "F3"  # the surface where there is noise, as recommended
        for names, goal in ((RATIO, ratio), (SHAPE, shape)):
            others = {k: e.worst(names) for k, e in errors.items() if k != ours}
            what = (
                f"angles only, {100 * noise:g} % noise, {count} points, {momenta}: worst of {', '.join(names)}, {ours}"
            )
            rows.append(row(what, f"{100 * goal:g} %", goal, errors[ours].worst(names), others))
    return rows


def main() -> str:
    return (
        "# INVARIANT, section 4: planar double pendulum\n\n"
        f"Medians of the relative error over {SEEDS} seeds; the document gives one run each.\n\n"
        + comparison_table([*clean(), *noisy(), *incomplete()])
    )
