"""Lorenz and Rössler (the two systems of Baake et al. 1992) from noisy chaotic records and far starts."""

from __future__ import annotations

import numpy as np
from harness import Comparison, comparison_table

import kapitza as kz
from reproductions._fit_trials import LORENZ, Trials, far_start, lorenz_record, with_noise

RUNS, FEWER = 200, 100
LEVELS = {0.01: 0.98, 0.05: 0.95, 0.10: 0.95}
"""Noise, as a fraction of each channel's spread, and the wanted rate of success."""


def noise_free(clean: kz.Record) -> Comparison:
    model, worst = kz.library.lorenz(), 0.0
    for seed in range(10):
        fit = kz.identify(far_start(model, LORENZ, 0.8, seed), clean, LORENZ, kz.ShootingFit())
        worst = max(worst, *(abs(fit.values[name] - model.values[name]) for name in LORENZ))
    return Comparison("Lorenz, no noise: worst error of 10 runs", "", f"{worst:.1e}", "< 1e-10", worst < 1e-10)


def full_observation(
    model: kz.Model, clean: kz.Record, free: tuple[str, ...], level: float, wanted: float, runs: int, spread: float
) -> list[Comparison]:
    """Success, covariance against the bound, coverage, time: all states seen."""
    noise = {c: level * clean[c].std() for c in clean.channels}
    bound = kz.cramer_rao(model, clean, noise, free).to_numpy()
    trials = Trials(free)
    first = round(1e5 * level)
    for seed in range(runs):
        trials.add(
            model, far_start(model, free, spread, seed), with_noise(clean, noise, first + seed), kz.ShootingFit()
        )
    reached, ratio, coverage = trials.reached(bound), trials.against(bound), trials.coverage()
    seconds, wall = float(np.median(trials.processor)), float(np.median(trials.wall))
    longest = max(trials.processor)
    name = f"{model.name.capitalize()}, {100 * level:g} % noise"
    return [
        Comparison(
            f"{name}: runs at the truth", "", f"{reached}/{runs}", f"≥ {100 * wanted:g} %", reached >= wanted * runs
        ),
        Comparison(
            f"{name}: largest variance / bound", "", ratio, "≤ 1.3", ratio <= 1.3,
            f"sampling ± {np.sqrt(2 / runs):.2f}",
        ),
        Comparison(
            f"{name}: 90 % intervals that hold the truth", "", ", ".join(f"{100 * c:.1f}" for c in coverage) + " %",
            "85-95 %", bool(((coverage >= 0.85) & (coverage <= 0.95)).all()), "per parameter: " + ", ".join(free),
        ),
        Comparison(
            f"{name}: processor time per fit, longest", "", f"{longest:.3f} s", "≤ 0.2 s", longest <= 0.2,
            f"median {seconds:.3f} s; wall time during this run, median {wall:.2f} s",
        ),
    ]  # fmt: skip


def one_channel(clean: kz.Record, level: float) -> Comparison:
    model, noise = kz.library.lorenz(), {"x": level * clean["x"].std()}
    bound = kz.cramer_rao(model, clean, noise, LORENZ).to_numpy()
    trials = Trials(LORENZ)
    first = round(1e6 * level)
    for seed in range(FEWER):
        trials.add(model, far_start(model, LORENZ, 0.8, seed), with_noise(clean, noise, first + seed), kz.ShootingFit())
    reached = trials.reached(bound)
    return Comparison(
        f"Lorenz, x alone, {100 * level:g} % noise: runs at the truth", "", f"{reached}/{FEWER}", "≥ 90 %",
        reached >= 0.9 * FEWER,
        f"variance / bound {trials.against(bound):.2f}; 90 % intervals hold the truth in "
        + ", ".join(f"{100 * c:.0f}" for c in trials.coverage())
        + f" %; {np.median(trials.processor):.2f} s per fit",
    )  # fmt: skip


def main() -> str:
    lorenz, clean = kz.library.lorenz(), lorenz_record()
    rossler = kz.library.rossler()
    run = kz.simulate(rossler, t=np.arange(4000) * 0.1)
    turning = kz.Record.from_arrays(np.arange(3000) * 0.1, {c: run[c][1000:] for c in run.channels})
    rows = [noise_free(clean)]
    for level, wanted in LEVELS.items():
        rows += full_observation(lorenz, clean, LORENZ, level, wanted, RUNS, 0.8)
    rows += [one_channel(clean, level) for level in LEVELS]
    for level in (0.01, 0.05):
        rows += full_observation(rossler, turning, ("a", "b", "c"), level, 0.95, FEWER, 0.5)
    return (
        "# ShootingFit on the Lorenz and Rössler systems\n\n"
        "Lorenz: 3000 samples at 0.01, every parameter off by a random factor in 1 ± 0.8. Rössler: 3000 samples at "
        "0.1, 1 ± 0.5. Noise is Gaussian, in units of each channel's standard deviation, and its size is "
        "estimated with the parameters. A run is at the truth when every error is below six standard deviations of "
        "the Cramér-Rao bound. "
        "The document reports promising estimates of these two systems by Baake et al. (1992) without numbers, and "
        "asks what becomes of higher dimensions, very long series and real data: see shooting_systems, fit_long and "
        "shooting_real_pendulums. "
        "Variance / bound is the largest over all combinations of the parameters, about the truth.\n\n"
        + comparison_table(rows)
    )
