"""Parameters from measured branches: do the intervals hold? Responses, folds and backbones, on systems of their own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from harness import Comparison, comparison_table, markdown_table
from scipy.interpolate import CubicSpline
from scipy.stats import binom

import kapitza as kz
from kapitza.continuation import Kind
from kapitza.solve import ByEffort

TRIALS = 40
PENDULUM = {"c": 0.06, "k": 1.0, "B": 0.09}
VALUE_NOISE, AMPLITUDE_NOISE = 1.5e-3, 8e-3
"""Standard deviations of frequency and amplitude: at the tip of the resonance the curve bends within them."""

QUINTIC = {"c": 0.08, "k": 1.0, "k5": 0.4}
LEVELS = (0.25, 0.4)
FOLD_NOISE = 2e-3

Fit = tuple[kz.Estimate, dict[str, float], int]
"""A fit, the truth of what is free in it, and how many numbers it was made from."""


def pendulum(**values: float) -> kz.Model:
    return kz.Model.from_equations(
        "x'' + c*x' + k*sin(x) = B*cos(omega*t)",
        parameters={**PENDULUM, "omega": 0.5, **values},
        period="2*pi/omega",
        start={"x": 0.1, "x'": 0.0},
        name="softening pendulum",
    )


def quintic(**values: float) -> kz.Model:
    return kz.Model.from_equations(
        "x'' + c*x' + k*x + k5*x**5 = B*cos(omega*t)",
        parameters={**QUINTIC, "B": LEVELS[0], "omega": 0.7, **values},
        period="2*pi/omega",
        start={"x": 0.4, "x'": 0.0},
        name="quintic spring",
    )


def responses() -> Callable[[int], Fit]:
    """25 points spread over the curve, the unstable part and both folds included, with noise in both directions."""
    stepping = kz.Stepping(rule=ByEffort(0.02, 1e-7, 0.05, wanted=6))
    branch = kz.follow(pendulum(), None, "omega", (0.5, 1.3), direction=1, stepping=stepping)
    amplitude = branch.amplitude("x", 256)

    def fitted(seed: int) -> Fit:
        random = np.random.default_rng(seed)
        chosen = np.sort(random.choice(np.arange(2, len(branch) - 2), 25, replace=False))
        values = branch.values[chosen, 0] + VALUE_NOISE * random.standard_normal(25)
        heights = amplitude[chosen] + AMPLITUDE_NOISE * random.standard_normal(25)
        data = kz.MeasuredBranch("response", "omega", values, heights, "x", VALUE_NOISE, AMPLITUDE_NOISE)
        start, method = pendulum(c=0.066, k=0.98, B=0.093), kz.BranchFit(bounds=(0.45, 1.35))
        return kz.identify(start, data, free=list(PENDULUM), method=method), PENDULUM, 25

    return fitted


def folds() -> Callable[[int], Fit]:
    """Where the response jumps up and down at two levels of the force."""
    places = []
    for level in LEVELS:
        branch = kz.follow(quintic(B=level), None, "omega", (0.7, 2.6), direction=1)
        places.append(np.array([b.value for b in branch.of(Kind.FOLD)]))
    truth = {name: QUINTIC[name] for name in ("c", "k5")}

    def fitted(seed: int) -> Fit:
        random = np.random.default_rng(1000 + seed)
        data = [
            (kz.MeasuredBranch("fold", "omega", at + FOLD_NOISE * random.standard_normal(2), value_noise=FOLD_NOISE),
             {"B": level})
            for at, level in zip(places, LEVELS, strict=True)
        ]  # fmt: skip
        method = kz.BranchFit(bounds=(0.7, 2.6))
        return kz.identify(quintic(c=0.085, k5=0.37), data, free=list(truth), method=method), truth, 4

    return fitted


def backbones() -> Callable[[int], Fit]:
    """20 points of the free vibration without damping."""
    branch = kz.backbone(quintic(), "omega", force="B", damping="c", bounds=(0.9, 1.9))
    frequency = CubicSpline(branch.amplitude("x", 256), branch.values[:, 0])
    truth = {name: QUINTIC[name] for name in ("k", "k5")}

    def fitted(seed: int) -> Fit:
        random = np.random.default_rng(2000 + seed)
        height = random.uniform(0.3, 1.4, 20)
        values = frequency(height) + VALUE_NOISE * random.standard_normal(20)
        heights = height + AMPLITUDE_NOISE * random.standard_normal(20)
        data = kz.MeasuredBranch(
            "backbone", "omega", values, heights, "x", VALUE_NOISE, AMPLITUDE_NOISE, force="B", damping="c"
        )
        method = kz.BranchFit(bounds=(0.9, 2.0))
        return kz.identify(quintic(k=1.04, k5=0.37), data, free=list(truth), method=method), truth, 20

    return fitted


def judged(title: str, fitted: Callable[[int], Fit]) -> tuple[list[Comparison], list[tuple]]:
    scores, chi2, names, dof = [], [], [], 0
    for seed in range(TRIALS):
        fit, truth, count = fitted(seed)
        names, dof = list(truth), count - len(truth)
        scores.append([(fit[name] - value) / fit.deviations[name] for name, value in truth.items()])
        chi2.append(fit.chi2)
    z = np.array(scores)
    inside = (np.abs(z) < 1.96).sum(axis=0)
    low, high = (int(binom.ppf(p, TRIALS, 0.95)) for p in (0.005, 0.995))
    rows = [
        Comparison(
            f"{title}: 95 % intervals of {name} that hold the truth, of {TRIALS}", "38", str(int(count)),
            f"{low} to {high}", bool(low <= count <= high),
        )
        for name, count in zip(names, inside, strict=True)
    ]  # fmt: skip
    rows += [
        Comparison(
            f"{title}: mean error of {name}, in its deviations", "0", f"{mean:+.2f}", f"{3 / np.sqrt(TRIALS):.2f}",
            bool(abs(mean) < 3 / np.sqrt(TRIALS)),
        )
        for name, mean in zip(names, z.mean(axis=0), strict=True)
    ]  # fmt: skip
    spread = 3 * np.sqrt(2 * dof / TRIALS)
    mean = float(np.mean(chi2))
    rows.append(
        Comparison(f"{title}: mean χ² of a fit", str(dof), f"{mean:.1f}", f"{spread:.1f}", abs(mean - dof) < spread)
    )
    table = [
        (title, name, f"{m:+.2f}", f"{s:.2f}", f"{i} of {TRIALS}")
        for name, m, s, i in zip(names, z.mean(axis=0), z.std(axis=0), inside, strict=True)
    ]
    return rows, table


def main() -> str:
    rows, table = [], []
    for title, made in (("response", responses), ("folds", folds), ("backbone", backbones)):
        own, lines = judged(title, made())
        rows += own
        table += lines
    return "\n\n".join(
        [
            "# Parameters from measured branches",
            f"{TRIALS} measurements each: 25 points of the response of x'' + c x' + k sin x = B cos ωt through both "
            f"folds (noise {VALUE_NOISE:g} rad/s and {AMPLITUDE_NOISE:g} rad); the four folds of "
            f"x'' + c x' + k x + k₅ x⁵ = B cos ωt at B = {LEVELS[0]:g} and {LEVELS[1]:g} (noise {FOLD_NOISE:g} rad/s); "
            "20 points of its backbone (noise as for the response). Step, spline and moments of the distances were "
            "settled on a hardening Duffing oscillator.",
            comparison_table(rows),
            markdown_table(["data", "parameter", "mean error / deviation", "scatter / deviation", "held"], table),
        ]
    )
