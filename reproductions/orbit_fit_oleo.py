"""PERIODIC section 6.5: θ4 and θ11 of the landing gear from the displacement under a sampled force, by both models."""

from __future__ import annotations

import numpy as np
from harness import Comparison, comparison_table, markdown_table
from scipy import stats

import kapitza as kz

SAMPLES = 100
NOISE = 1e-4  # m
SIMPLE_FREE = ["theta2", "theta3", "theta9"]


def main() -> str:
    truth = kz.library.oleo(values="estimation")
    loop = kz.solve_orbit(truth, truth.state()).details["loop"]
    times = np.arange(SAMPLES) * truth.period / SAMPLES
    y = loop(np.arange(SAMPLES) / SAMPLES)[:, 0] + truth.values["theta14"]
    record = kz.measure(kz.Record.from_arrays(times, {"y": y}, period=truth.period, phase=0.0), noise=NOISE, seed=0)
    start = truth.with_values(theta4=6.0, theta11=0.66)
    fits = {
        "shooting, all at once": kz.OrbitFit(),
        "shooting, nested": kz.OrbitFit(formulation="nested", method=kz.Shooting()),
        "collocation, nested": kz.OrbitFit(formulation="nested", method=kz.Collocation(tolerance=1e-9)),
    }
    found = {label: kz.identify(start, record, ["theta4", "theta11"], method) for label, method in fits.items()}
    return "\n\n".join(
        [
            "# OLEO landing gear: estimation (PERIODIC, section 6.5)",
            f"Output y = u + θ14, {SAMPLES} samples of one period with noise of {1e6 * NOISE:g} µm, start (6.0, 0.66); "
            "the measured force is not in the document, a sampled one with a step takes its place.",
            solvers(truth, found),
            models(record, found["shooting, all at once"]),
        ]
    )


def solvers(truth: kz.Model, found: dict[str, kz.Estimate]) -> str:
    rows = [
        (label, *(f"{fit[n]:.7g} ± {fit.deviations[n]:.1g}" for n in fit.names), fit.chi2, len(fit.history))
        for label, fit in found.items()
    ]
    rows.append(("truth", *(f"{truth.values[n]:.7g}" for n in ("theta4", "theta11")), "", ""))
    values = {n: [fit[n] for fit in found.values()] for n in ("theta4", "theta11")}
    checks = []
    for name, each in values.items():
        gap = float(np.ptp(each) / truth.values[name])
        checks.append(Comparison(f"{name}: largest relative difference", "agree", gap, "1e-5", gap <= 1e-5))
        fit = found["shooting, all at once"]
        off = abs(fit[name] - truth.values[name]) / fit.deviations[name]
        checks.append(Comparison(f"{name}: error / standard error", "-", off, "< 4", off < 4))
    header = ["solver", "theta4 [N/K]", "theta11 [1/s]", "χ²", "iterations"]
    return "## Solvers\n\n" + comparison_table(checks, "PERIODIC") + "\n\n" + markdown_table(header, rows)


def models(record: kz.Record, two: kz.Estimate) -> str:
    """The two-equation model against the one-equation model, each with its own free parameters, on the same data."""
    one = kz.identify(kz.library.oleo_simple(), record, SIMPLE_FREE, kz.OrbitFit(throw=False, restarts=0))
    count = len(record)
    rows, criteria = [], {}
    for label, fit in (("two equations (6.6, 6.7)", two), ("one equation (6.9)", one)):
        free = len(fit.names)
        criteria[label] = fit.chi2 + 2 * free
        rms = NOISE * np.sqrt(fit.chi2 / count)
        rows.append(
            (label, ", ".join(fit.names), f"{fit.chi2:.5g}", count - free, f"{1e6 * rms:.4g}", f"{criteria[label]:.5g}")
        )
    ratio = (one.chi2 / (count - len(one.names))) / (two.chi2 / (count - len(two.names)))
    chance = float(stats.f.sf(ratio, count - len(one.names), count - len(two.names)))
    better = criteria["two equations (6.6, 6.7)"] < criteria["one equation (6.9)"]
    text = (
        f"Variance ratio one/two equations F = {ratio:.4g} (p = {chance:.2g}); ΔAIC = "
        f"{criteria['one equation (6.9)'] - criteria['two equations (6.6, 6.7)']:.5g}."
    )
    check = Comparison(
        "two equations explain the data better", "yes", "yes" if better else "no", "yes", bool(better), text
    )
    header = ["model", "free", "χ²", "degrees of freedom", "rms residual [µm]", "AIC (χ² + 2k)"]
    return "## Models\n\n" + comparison_table([check], "PERIODIC") + "\n\n" + markdown_table(header, rows)
