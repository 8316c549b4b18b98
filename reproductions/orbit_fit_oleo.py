"""PERIODIC section 6.5: θ4 and θ11 of the landing gear from the displacement under a sampled force, by both models."""

from __future__ import annotations

import numpy as np
from harness import Comparison, comparison_table, markdown_table

import kapitza as kz

SAMPLES = 100
NOISE = 1e-4  # m
ONE_EQUATION = {
    "one equation (6.9), damping, spring, friction": ["theta2", "theta3", "theta9"],
    "one equation (6.9), also the gas spring's shape": ["theta2", "theta3", "theta4", "theta5", "theta9"],
    "one equation (6.9), also the friction's slope": ["theta2", "theta3", "theta4", "theta5", "theta9", "theta10"],
}


def main() -> str:
    truth = kz.library.oleo(values="estimation")
    loop = kz.solve_orbit(truth, truth.state()).loop
    times = np.arange(SAMPLES) * truth.period / SAMPLES
    y = loop(np.arange(SAMPLES) / SAMPLES)[:, 0] + truth.values["theta14"]
    record = kz.measure(kz.Record.from_arrays(times, {"y": y}, period=truth.period, phase=0.0), noise=NOISE, seed=0)
    start = truth.with_values(theta4=6.0, theta11=0.66)
    found = {label: kz.identify(start, record, ["theta4", "theta11"], m) for label, m in solvers().items()}
    return "\n\n".join(
        [
            "# OLEO landing gear: estimation (PERIODIC, section 6.5)",
            f"Output y = u + θ14, {SAMPLES} samples of one period with noise of {1e6 * NOISE:g} µm, start (6.0, 0.66); "
            "the measured force is not in the document, a sampled one with a step takes its place. Collocation and "
            "time discretisation fit by their own curves and differences of them: nothing of the flow enters.",
            by_solver(truth, found),
            models(record, found["shooting, all at once"]),
        ]
    )


def solvers(**more: object) -> dict[str, kz.OrbitFit]:
    def nested(method: object) -> kz.OrbitFit:
        return kz.OrbitFit(formulation="nested", method=method, **more)

    return {
        "shooting, all at once": kz.OrbitFit(**more),
        "shooting, nested": nested(kz.Shooting()),
        "collocation, nested": nested(kz.Collocation(tolerance=1e-9)),
        "time discretisation, 400 points": nested(kz.Differences(points=400)),
        "time discretisation, 1600 points": nested(kz.Differences(points=1600)),
    }


def by_solver(truth: kz.Model, found: dict[str, kz.Estimate]) -> str:
    rows = [
        (label, *(f"{fit[n]:.8g} ± {fit.deviations[n]:.1g}" for n in fit.names), f"{fit.chi2:.6g}", len(fit.history))
        for label, fit in found.items()
    ]
    rows.append(("truth", *(f"{truth.values[n]:.8g}" for n in ("theta4", "theta11")), "", ""))
    goal = found["shooting, all at once"]
    checks = []
    for name in goal.names:
        for label in ("shooting, nested", "collocation, nested"):
            gap = abs(found[label][name] / goal[name] - 1)
            checks.append(Comparison(f"{name}: {label}, relative difference", "agree", gap, "1e-5", gap <= 1e-5))
        coarse, fine = (abs(found[f"time discretisation, {n} points"][name] / goal[name] - 1) for n in (400, 1600))
        note = f"{coarse:.2g} with 400 points: the step in the force leaves the second order, a factor of 16"
        checks.append(
            Comparison(f"{name}: time discretisation (1600), relative difference", "agree", fine, "-", None, note)
        )
        off = abs(goal[name] - truth.values[name]) / goal.deviations[name]
        checks.append(Comparison(f"{name}: error / standard error", "-", off, "< 4", off < 4))
    header = ["solver", "theta4 [N/K]", "theta11 [1/s]", "χ²", "iterations"]
    return "## Solvers\n\n" + comparison_table(checks, "PERIODIC") + "\n\n" + markdown_table(header, rows)


def models(record: kz.Record, two: kz.Estimate) -> str:
    """The two-equation model against the one-equation model with ever more of its parameters free, on the same data."""
    simple, fits = kz.library.oleo_simple(), {"two equations (6.6, 6.7)": two}
    for label, free in ONE_EQUATION.items():
        fits[label] = kz.identify(simple, record, free, kz.OrbitFit(throw=False, restarts=4))
    label, free = list(ONE_EQUATION.items())[1]
    again = kz.identify(simple, record, free, kz.OrbitFit(formulation="nested", method=kz.Differences(points=1600)))
    gap = max(abs(again[n] / fits[label][n] - 1) for n in free)
    table = kz.compare_fits(fits)
    best, rival = table.index[0], table.iloc[1]
    checks = [
        Comparison(
            "two equations explain the data better", "yes", "yes" if best.startswith("two") else "no", "yes",
            best.startswith("two"),
            f"the best rival: ΔAIC = {rival['dAIC']:.4g}, ΔBIC = {rival['dBIC']:.4g}, F = {rival['F']:.3g} "
            f"(p = {rival['p']:.2g})",
        ),
        Comparison(
            "one equation by time discretisation (1600) and shooting: largest relative difference", "agree", gap, "-",
            None, f"free: {', '.join(free)}",
        ),
    ]  # fmt: skip
    header = ["model", "free", "status", "χ²", "dof", "rms [µm]", "AIC", "ΔAIC", "ΔBIC", "F", "p"]
    rows = [
        (label, ", ".join(fits[label].names), "believed" if fits[label].status.ok else "refused",
         f"{row['chi2']:.5g}", int(row["dof"]), f"{1e6 * NOISE * np.sqrt(row['chi2'] / len(record)):.4g}",
         f"{row['AIC']:.5g}", f"{row['dAIC']:.4g}", f"{row['dBIC']:.4g}", f"{row['F']:.4g}", f"{row['p']:.2g}")
        for label, row in table.iterrows()
    ]  # fmt: skip
    return (
        "## Models\n\n" + comparison_table(checks, "PERIODIC") + "\n\nThe table of `kz.compare_fits`:\n\n"
        + markdown_table(header, rows)
    )  # fmt: skip
