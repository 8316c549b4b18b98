"""The interval of a fold from a fit: does it hold the true fold as often as it says? 200 fits of a noisy record."""

from __future__ import annotations

import numpy as np
from harness import Comparison, comparison_table, markdown_table

import kapitza as kz
from kapitza.continuation import Kind
from kapitza.continuation.bands import with_bands

TRIALS = 200
TRUTH = {"c": 0.1, "k3": 1.0}


def oscillator(omega: float, **values: float) -> kz.Model:
    return kz.Model.from_equations(
        "x'' + c*x' + x + k3*x**3 = B*cos(omega*t)",
        parameters={**TRUTH, "B": 0.3, "omega": omega, **values},
        period="2*pi/omega",
        start={"x": 0.3, "x'": 0.0},
        name="duffing",
    )


def main(trials: int = TRIALS) -> str:
    true = kz.follow(oscillator(1.2), None, "omega", (1.1, 2.2), direction=1)
    places = [b.value for b in true.of(Kind.FOLD)]
    clean = kz.simulate(oscillator(1.2), x0={"x": 0.6, "x'": 0.0}, periods=6, samples_per_period=20).select(["x"])
    held, spreads, found = np.zeros(2), [], []
    for seed in range(trials):
        record = kz.measure(clean, noise=0.02, seed=seed)
        fit = kz.identify(oscillator(1.2, c=0.12, k3=0.9), record, free=["c", "k3"], method=kz.ShootingFit())
        model = oscillator(1.2).with_values(**{name: fit.values[name] for name in TRUTH})
        branch = with_bands(kz.follow(model, None, "omega", (1.1, 2.2), direction=1), fit, 0.9)
        folds = branch.of(Kind.FOLD)
        held += [f.interval[0] <= p <= f.interval[1] for f, p in zip(folds, places, strict=True)]
        spreads.append([f.deviation for f in folds])
        found.append([f.value for f in folds])
    share = held / trials
    rows = [
        Comparison(f"fold at ω = {p:.6f}: 90 % intervals that hold it", "85-95 %", f"{100 * s:.1f} %", "85-95 %",
                   bool(0.85 <= s <= 0.95))
        for p, s in zip(places, share, strict=True)
    ]  # fmt: skip
    scatter, mean = np.std(found, axis=0), np.mean(spreads, axis=0)
    table = markdown_table(
        ["fold", "scatter of the estimates", "mean of the standard deviations"],
        [(f"{p:.6f}", f"{a:.3e}", f"{b:.3e}") for p, a, b in zip(places, scatter, mean, strict=True)],
    )
    heading = f"# Intervals of folds from fits\n\n{trials} fits of c and k3 to 120 samples with 0.02 noise."
    return "\n\n".join([heading, comparison_table(rows, "asked for"), table])
