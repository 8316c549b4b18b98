"""Parameters from measured branches: do the intervals hold? Responses, folds and backbones, on systems of their own.

Set KAPITZA_KEEP to make the page in pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from harness import Comparison, comparison_table, markdown_table
from scipy.interpolate import CubicSpline
from scipy.stats import binom

import kapitza as kz
from kapitza.continuation import Kind
from kapitza.solve import ByEffort
from reproductions._cells import cells
from reproductions._held_out_rigs import RIGS

TRIALS = 40
PENDULUM = {"c": 0.06, "k": 1.0, "B": 0.09}
VALUE_NOISE, AMPLITUDE_NOISE = 1.5e-3, 8e-3
"""Standard deviations of frequency and amplitude: at the tip of the resonance the curve bends within them."""

QUINTIC = {"c": 0.08, "k": 1.0, "k5": 0.4}
LEVELS = (0.25, 0.4)
FOLD_NOISE = 2e-3

CYCLES = {"a": 0.8, "b": 0.25, "k": 0.3}
PERIOD_NOISE = 4e-3

HARD = {"c": 0.12, "k3": 0.5, "k5": 0.15, "B": 0.3}
"""A spring whose fifth power the model of the fits leaves out."""

RIG_RUNS, HALVES = 10, 10

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


def oscillator(**values: float) -> kz.Model:
    return kz.Model.from_equations(
        "x'' - (m + a*x**2 - b*x**4)*x' + x + k*x**3 = 0",
        parameters={**CYCLES, "m": -0.1, **values},
        start={"x": 1.5, "x'": 0.0},
        name="oscillator that starts hard",
    )


def cycles() -> Callable[[int], Fit]:
    """16 limit cycles on both sides of their fold, with period; noise that differs from point to point."""
    start = kz.solve_orbit(oscillator(), {"x": 1.5, "x'": 0.0}, period=5.0)
    branch = kz.follow(oscillator(), start, "m", (-0.3, 0.3))
    amplitude = branch.amplitude("x", 256)
    large = np.flatnonzero(amplitude > 0.4)

    def fitted(seed: int) -> Fit:
        random = np.random.default_rng(3000 + seed)
        chosen = np.sort(random.choice(large, 16, replace=False))
        noise = AMPLITUDE_NOISE * random.uniform(0.4, 1.6, 16)
        values = branch.values[chosen, 0] + VALUE_NOISE * random.standard_normal(16)
        heights = amplitude[chosen] + noise * random.standard_normal(16)
        periods = branch.periods[chosen] + PERIOD_NOISE * random.standard_normal(16)
        data = kz.MeasuredBranch(
            "cycle", "m", values, heights, "x", VALUE_NOISE, noise, periods=periods, period_noise=PERIOD_NOISE
        )
        start = oscillator(a=0.88, b=0.27, k=0.26)
        return kz.identify(start, data, free=list(CYCLES), method=kz.BranchFit()), CYCLES, 32

    return fitted


def measured() -> Callable[[int], Fit]:
    """A branch that is followed on a rig through both folds, with phases and the noise of each point."""
    rig = next(rig for rig in RIGS if rig.name == "cubic damping")
    truth = {"c": 0.05, "c3": 0.03, "k3": 0.8}
    model = kz.Model.from_equations(
        "x'' + c*x' + c3*x'**3 + x + k3*x**3 = 0.3*cos(omega*t)",
        parameters={**truth, "omega": 0.6},
        period="2*pi/omega",
        start={"x": 0.1, "x'": 0.0},
    )

    def fitted(seed: int) -> Fit:
        branch = rig.follow(rig.experiment(0.004, 900 + seed))
        data = branch.measured("x")
        start = model.with_values(c=0.055, c3=0.025, k3=0.85)
        fit = kz.identify(start, data, free=list(truth), method=kz.BranchFit(bounds=(0.45, 2.15)))
        return fit, truth, 2 * len(data)

    return fitted


def spring(**values: float) -> kz.Model:
    return kz.Model.from_equations(
        "x'' + c*x' + x + k3*x**3 + k5*x**5 = B*cos(omega*t)",
        parameters={**HARD, "omega": 0.6, **values},
        period="2*pi/omega",
        start={"x": 0.3, "x'": 0.0},
    )


@cache
def hard_response() -> tuple[np.ndarray, np.ndarray]:
    """Frequencies and amplitudes of the spring with its fifth power."""
    stepping = kz.Stepping(rule=ByEffort(0.02, 1e-7, 0.05, wanted=6))
    branch = kz.follow(spring(), None, "omega", (0.6, 2.4), direction=1, stepping=stepping)
    return branch.values[:, 0], branch.amplitude("x", 256)


def half(_: str, seed: int) -> list[Any]:
    """Fits of a model that is a little wrong to both halves of one response: how far apart, and the verdicts."""
    frequency, amplitude = hard_response()
    random = np.random.default_rng(4000 + seed)
    chosen = np.sort(random.choice(np.arange(2, len(frequency) - 2), 32, replace=False))
    values = frequency[chosen] + VALUE_NOISE * random.standard_normal(32)
    heights = amplitude[chosen] + 0.5 * AMPLITUDE_NOISE * random.standard_normal(32)
    fits = []
    for part in (slice(0, 16), slice(16, 32)):
        data = kz.MeasuredBranch(
            "response", "omega", values[part], heights[part], "x", VALUE_NOISE, 0.5 * AMPLITUDE_NOISE
        )
        start, method = spring(k5=0.0, k3=0.6), kz.BranchFit(bounds=(0.55, 2.5))
        fits.append(kz.identify(start, data, free=["c", "k3"], method=method))
    apart, plain = [], []
    for name in ("c", "k3"):
        gap = fits[0][name] - fits[1][name]
        apart.append(float(abs(gap) / np.linalg.norm([each.deviations[name] for each in fits])))
        plain.append(float(abs(gap) / np.linalg.norm([_noise_deviation(each, name) for each in fits])))
    return [{"apart": apart, "plain": plain, "named": sum(_named(each) for each in fits)}]


def halves() -> list[Comparison]:
    """A model that is a little wrong: halves of the response against each other, and the verdict."""
    found = cells("halves", ["spring"], half, HALVES, HALVES).get("spring", [])
    named = sum(one["named"] for one in found)
    # A half whose fit failed has no intervals; it counts as flagged.
    apart, plain = ([gap for one in found for gap in one[key] if np.isfinite(gap)] for key in ("apart", "plain"))
    return [
        Comparison(
            f"wrong model: fits of half a response that are flagged, of {2 * HALVES}", "-", str(named), "all but 2",
            named >= 2 * HALVES - 2,
        ),
        Comparison(
            f"wrong model: halves apart, in their standard errors (median of {len(apart)})", "4 before",
            f"{np.median(apart):.1f}",
            "2", float(np.median(apart)) <= 2, f"by the noise alone {np.median(plain):.1f}",
        ),
    ]  # fmt: skip


def _named(fit: kz.Estimate) -> bool:
    """Whether a fit says that something is wrong: it failed, or it misses."""
    return not fit.status.ok or fit.misfit is None or not fit.misfit.to_the_noise


def _noise_deviation(fit: kz.Estimate, name: str) -> float:
    """Of the noise alone, from its 90 % interval."""
    interval = fit.noise_interval(0.9)
    return float(interval.high[name] - interval.low[name]) / (2 * 1.645)


KINDS = {
    "response": (responses, TRIALS),
    "folds": (folds, TRIALS),
    "backbone": (backbones, TRIALS),
    "limit cycles": (cycles, TRIALS),
    "rig": (measured, RIG_RUNS),
}


@cache
def prepared(title: str) -> Callable[[int], Fit]:
    """The fit of a kind of data by its seed; the true branch is followed once."""
    return KINDS[title][0]()


def trial(title: str, seed: int) -> list[Any]:
    """Errors of one fit in its deviations (NaN where it gives none), with χ² and its degrees of freedom."""
    fit, truth, count = prepared(title)(seed)
    known = dict(fit.deviations)
    scores = {name: float((fit[name] - value) / known.get(name, np.nan)) for name, value in truth.items()}
    return [{"scores": scores, "chi2": float(fit.chi2), "dof": count - len(truth)}]


def judged(title: str) -> tuple[list[Comparison], list[tuple]]:
    trials = KINDS[title][1]
    fits = cells("trials", [title], trial, trials, trials)[title]
    names = list(fits[0]["scores"])
    scores = [[one["scores"][name] for name in names] for one in fits]
    z = np.array(scores)
    bare = int(np.isnan(z).any(axis=1).sum())
    inside = (np.abs(z) < 1.96).sum(axis=0)
    low, high = (int(binom.ppf(p, trials, 0.95)) for p in (0.005, 0.995))
    rows = [
        Comparison(
            f"{title}: 95 % intervals of {name} that hold the truth, of {trials}", f"{0.95 * trials:g}",
            str(int(count)), f"{low} to {high}", bool(low <= count <= high),
            f"{bare} fits without intervals count as misses" if bare else "",
        )
        for name, count in zip(names, inside, strict=True)
    ]  # fmt: skip
    rows += [
        Comparison(
            f"{title}: mean error of {name}, in its deviations", "0", f"{mean:+.2f}", f"{3 / np.sqrt(trials):.2f}",
            bool(abs(mean) < 3 / np.sqrt(trials)),
        )
        for name, mean in zip(names, np.nanmean(z, axis=0), strict=True)
    ]  # fmt: skip
    # The number of points of a rig's branch differs from run to run.
    dof, mean = (float(np.mean([one[key] for one in fits])) for key in ("dof", "chi2"))
    spread = 3 * np.sqrt(2 * dof / trials)
    rows.append(
        Comparison(f"{title}: mean χ² of a fit", f"{dof:g}", f"{mean:.1f}", f"{spread:.1f}", abs(mean - dof) < spread)
    )
    table = [
        (title, name, f"{m:+.2f}", f"{s:.2f}", f"{i} of {trials}")
        for name, m, s, i in zip(names, np.nanmean(z, axis=0), np.nanstd(z, axis=0), inside, strict=True)
    ]
    return rows, table


def main() -> str:
    rows, table = [], []
    for title in KINDS:
        own, lines = judged(title)
        rows += own
        table += lines
    rows += halves()
    return "\n\n".join(
        [
            "# Parameters from measured branches",
            f"{TRIALS} measurements each ({RIG_RUNS} of the rig): 25 points of the response of "
            "x'' + c x' + k sin x = B cos ωt through both "
            f"folds (noise {VALUE_NOISE:g} rad/s and {AMPLITUDE_NOISE:g} rad); the four folds of "
            f"x'' + c x' + k x + k₅ x⁵ = B cos ωt at B = {LEVELS[0]:g} and {LEVELS[1]:g} (noise {FOLD_NOISE:g} rad/s); "
            "20 points of its backbone (noise as for the response); 16 limit cycles of "
            "x'' - (m + a x² - b x⁴) x' + x + k x³ = 0 on both sides of their fold, with their periods (noise "
            f"{PERIOD_NOISE:g} s) and a noise of the amplitude that differs from point to point; branches that "
            "are followed on the rig with cubic damping, by `RigBranch.measured()`, with phases (its noise was settled "
            f"on the asymmetric spring). The model that is a little wrong leaves out k₅ = {HARD['k5']:g} beside "
            f"k₃ = {HARD['k3']:g}. Step, spline and moments of the distances were settled on a hardening Duffing "
            "oscillator.",
            comparison_table(rows),
            markdown_table(["data", "parameter", "mean error / deviation", "scatter / deviation", "held"], table),
        ]
    )
