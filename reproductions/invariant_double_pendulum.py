"""INVARIANT, section 4: the planar double pendulum, nonlinear in its parameters, by F3 and F2."""

from __future__ import annotations

import numpy as np
from harness import Comparison, comparison_table, markdown_table

import kapitza as kz
from reproductions._invariant import (
    FIRST_SEED,
    INDEPENDENT,
    SEEDS,
    Errors,
    clean_row,
    first,
    judged,
    only,
    percent,
    repeat,
    row,
)

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


def other_orbits(count: int) -> list[kz.Record]:
    """Orbits from the document's angles with other rates, within a tenth of its energy."""
    model, rng, found = kz.library.planar_double_pendulum(), np.random.default_rng(FIRST_SEED), []
    omega = TRUTH["omega1"]
    for _ in range(count):
        angles = np.pi / 2 + rng.uniform(-0.1, 0.1, 2)
        start = dict(zip(("phi1", "phi2"), angles, strict=True))
        start |= {"phi1'": omega * rng.uniform(0.95, 1.05), "phi2'": omega * rng.uniform(0.95, 1.05)}
        found.append(kz.simulate(model, x0=[start[s] for s in model.states], t=0.25 * np.arange(200)))
    return found


def incomplete() -> str:
    model, rows = kz.library.planar_double_pendulum(), []
    cases = [(0.0, 50, "fourth", 0.05, 0.05), (0.05, 100, "fourth", 0.30, 0.10), (0.05, 100, "auto", 0.30, 0.10)]
    others = other_orbits(10)
    for noise, count, momenta, ratio, shape in cases:
        fits = {
            "F3 unweighted": kz.InvariantFit(momenta=momenta, weights="equal", loss="linear", correction=0),
            "F3": kz.InvariantFit(momenta=momenta),
            "F2": kz.InvariantFit("surface", momenta=momenta),
        }
        for orbits, records in (("the document's", [series()]), ("10 others", others)):
            seeds = (SEEDS if len(records) == 1 else 5) if noise else 1
            for label, fit in fits.items():
                parts = [
                    repeat(model, first(r, count), TRUTH, fit, noise, seeds, only("phi1", "phi2")) for r in records
                ]
                every = Errors(parts[0].names, np.vstack([p.signed for p in parts]), parts[0].coverage)
                cells = [f"{100 * noise:g} %, {count} points", momenta, orbits, label]
                for names, goal in ((RATIO, ratio), (SHAPE, shape)):
                    worst = every.worst(names)
                    cells += [f"≤ {percent(goal)}", percent(worst), judged(worst, goal, own=len(records) == 1)]
                rows.append(cells)
    heads = ["mu: target", "median", "verdict", "lambda, omega1: target", "worst median", "verdict"]
    return markdown_table(["data", "differences", "orbit", "objective", *heads], rows)


def main() -> str:
    return (
        "# INVARIANT, section 4: planar double pendulum\n\n"
        f"Medians of the relative error over {SEEDS} noise seeds, from {FIRST_SEED} on; the document gives one run "
        "each.\n\n"
        + comparison_table([*clean(), *noisy()])
        + "\n\n## Angles only\n\n"
        + incomplete()
        + f"\n\n{INDEPENDENT} The motion is chaotic: beyond about 50 points an orbit depends on rounding."
    )
