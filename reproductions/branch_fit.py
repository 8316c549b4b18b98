"""Parameters from measured response curves: do the intervals hold? On a softening pendulum."""

from __future__ import annotations

import numpy as np
from harness import Comparison, comparison_table, markdown_table
from scipy.stats import binom

import kapitza as kz
from kapitza.continuation import Kind
from kapitza.solve import ByEffort

TRIALS = 40
TRUTH = {"c": 0.06, "k": 1.0, "B": 0.09}
VALUE_NOISE, AMPLITUDE_NOISE = 1.5e-3, 8e-3
"""Standard deviations of frequency and amplitude: at the tip of the resonance the curve bends within them."""


def pendulum(**values: float) -> kz.Model:
    return kz.Model.from_equations(
        "x'' + c*x' + k*sin(x) = B*cos(omega*t)",
        parameters={**TRUTH, "omega": 0.5, **values},
        period="2*pi/omega",
        start={"x": 0.1, "x'": 0.0},
        name="softening pendulum",
    )


def measured(branch: kz.Branch, seed: int) -> kz.MeasuredBranch:
    """25 points spread over the curve, the unstable part and both folds included, with noise in both directions."""
    random = np.random.default_rng(seed)
    chosen = np.sort(random.choice(np.arange(2, len(branch) - 2), 25, replace=False))
    values = branch.values[chosen, 0] + VALUE_NOISE * random.standard_normal(25)
    amplitudes = branch.amplitude("x", 256)[chosen] + AMPLITUDE_NOISE * random.standard_normal(25)
    return kz.MeasuredBranch("response", "omega", values, amplitudes, "x", VALUE_NOISE, AMPLITUDE_NOISE)


def main() -> str:
    stepping = kz.Stepping(rule=ByEffort(0.02, 1e-7, 0.05, wanted=6))
    branch = kz.follow(pendulum(), None, "omega", (0.5, 1.3), direction=1, stepping=stepping)
    folds = [b.value for b in branch.of(Kind.FOLD)]
    names, scores, chi2 = list(TRUTH), [], []
    for seed in range(TRIALS):
        method = kz.BranchFit(bounds=(0.45, 1.35))
        start = pendulum(c=0.066, k=0.98, B=0.093)
        fit = kz.identify(start, measured(branch, seed), free=names, method=method)
        scores.append([(fit[name] - TRUTH[name]) / fit.deviations[name] for name in names])
        chi2.append(fit.chi2)
    z = np.array(scores)
    inside = (np.abs(z) < 1.96).sum(axis=0)
    low, high = (int(binom.ppf(p, TRIALS, 0.95)) for p in (0.005, 0.995))
    rows = [
        Comparison(
            f"95 % intervals of {name} that hold the truth, of {TRIALS}", "38", str(int(count)), f"{low} to {high}",
            bool(low <= count <= high),
        )
        for name, count in zip(names, inside, strict=True)
    ]  # fmt: skip
    rows += [
        Comparison(
            f"mean error of {name}, in its deviations", "0", f"{mean:+.2f}", f"{3 / np.sqrt(TRIALS):.2f}",
            bool(abs(mean) < 3 / np.sqrt(TRIALS)),
        )
        for name, mean in zip(names, z.mean(axis=0), strict=True)
    ]  # fmt: skip
    dof = 25 - len(names)
    rows.append(
        Comparison(
            "mean χ² of a fit",
            str(dof),
            f"{np.mean(chi2):.1f}",
            f"{3 * np.sqrt(2 * dof / TRIALS):.1f}",
            bool(abs(np.mean(chi2) - dof) < 3 * np.sqrt(2 * dof / TRIALS)),
        )
    )
    spread = markdown_table(
        ["parameter", "truth", "mean error / deviation", "scatter / deviation", "held"],
        [
            (n, TRUTH[n], f"{m:+.2f}", f"{s:.2f}", f"{i} of {TRIALS}")
            for n, m, s, i in zip(names, z.mean(axis=0), z.std(axis=0), inside, strict=True)
        ],
    )
    return "\n\n".join(
        [
            "# Parameters from measured branches",
            f"Response of x'' + c x' + k sin x = B cos ωt through its folds at ω = {folds[0]:.4f} and {folds[1]:.4f}: "
            f"25 points in each of {TRIALS} measurements, noise {VALUE_NOISE:g} rad/s and {AMPLITUDE_NOISE:g} rad. "
            "Step, spline and moments of the distances were settled on a hardening Duffing oscillator.",
            comparison_table(rows),
            spread,
        ]
    )
