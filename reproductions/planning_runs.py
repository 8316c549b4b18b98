"""Runs until every parameter is known to 1 %: planned, on a grid, at random, and as an engineer would.

All keep the same limit by the same rule: 1.05 times the largest peak of 32 draws of what the fit so far knows. The
engineer sweeps frequencies around the resonance of the present fit, each with the largest force that the rule allows.
The first run is the same weak one. Five systems, listed before the first run of this page; cut at 16 runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from harness import markdown_table
from scipy.stats import qmc

import kapitza as kz
from kapitza.planning.experiments import Experiments
from kapitza.planning.knowledge import known_from
from kapitza.planning.limits import Limits
from reproductions._cells import cells
from reproductions.planning import BY_LABEL, Planned, measured

SEEDS, MOST, AIM = 6, 16, 0.01
SYSTEMS = ("hardening spring (built with)", "softening spring", "quadratic drag", "forced van der Pol",
           "asymmetric spring")  # fmt: skip
LENGTH = {"hardening spring (built with)": 12.0, "softening spring": 30.0, "quadratic drag": 40.0,
          "forced van der Pol": 6.0, "asymmetric spring": 40.0}  # fmt: skip
"""Length of the runs [s]. With 12 s nothing brought springs two, three and five to 1 % in 16 runs."""


def main() -> str:
    made = cells("planning_runs", SYSTEMS, compared, SEEDS)
    kinds = ("plan", "grid", "random", "engineer")
    rows, ratios = [], {kind: [] for kind in kinds[1:]}
    for label, runs in made.items():
        means = {kind: float(np.mean([one[kind] for one in runs])) for kind in kinds}
        cut = {kind: any(one[kind] >= MOST for one in runs) for kind in kinds}
        for kind in kinds[1:]:
            ratios[kind].append(means[kind] / means["plan"])
        rows.append([label, len(runs), *(f"{'> ' if cut[kind] else ''}{means[kind]:.1f}" for kind in kinds)])
    lines = [
        f"- Median of grid / plan {np.median(ratios['grid']):.1f} (3 wanted): {_met(np.median(ratios['grid']) >= 3)}; "
        f"least {min(ratios['grid']):.1f} (1.4 wanted): {_met(min(ratios['grid']) >= 1.4)}.",
        f"- Least engineer / plan {min(ratios['engineer']):.2f} (1 wanted): {_met(min(ratios['engineer']) >= 1)}.",
        f"- Least random / plan {min(ratios['random']):.2f} (1 wanted): {_met(min(ratios['random']) >= 1)}.",
    ]
    return "\n\n".join(
        [
            "# Runs until 1 % is reached",
            f"Mean over the repetitions; > where at least one was cut at {MOST} runs. All keep the same limits by the "
            "same rule at what the fit so far knows. Lengths of the runs were raised for three systems after nothing "
            f"reached 1 % in {MOST} runs; the engineer and the lists knew the limits at the true values in a first "
            "version, with which the engineer needed 1 run on the softening spring where the plan needed 3.",
            markdown_table(["system", "repetitions", *kinds], rows),
            "\n".join(lines),
        ]
    )


def _met(good: bool) -> str:
    return "met" if good else "**missed**"


def compared(label: str, seed: int) -> list[Any]:
    one = BY_LABEL[label]
    run = kz.Choice(one.run.settings, duration=LENGTH[label], step=0.1, channels={"x": 0.02})
    weak = kz.Choice(one.weak.settings, duration=LENGTH[label], step=0.1, channels={"x": 0.02})
    first = measured(one.model, weak, 90_000 + 1000 * SYSTEMS.index(label) + seed)
    by_chance = np.random.default_rng(400 + seed).uniform(size=(400, 2))
    return [{
        "plan": _count(one, first, seed, lambda fit: _planned(one, run, fit)),
        "grid": _count(one, first, seed, _from_list(one, run, _grid())),
        "random": _count(one, first, seed, _from_list(one, run, by_chance)),
        "engineer": _count(one, first, seed, _engineer(one, run)),
    }]  # fmt: skip


def _count(one: Planned, first: Any, seed: int, choose: Callable[[kz.Estimate], kz.Choice]) -> int:
    """Runs after the first one until every parameter is known to 1 %, MOST where that is not reached."""
    data = [first]
    for count in range(MOST + 1):
        fit = kz.identify(one.model, data, free=list(one.free), method=kz.ShootingFit())
        if all(fit.deviations[n] <= AIM * abs(one.values[n]) for n in one.free):
            return count
        if count < MOST:
            data.append(measured(one.model, choose(fit), 95_000 + 100 * seed + count))
    return MOST


def _planned(one: Planned, run: kz.Choice, fit: kz.Estimate) -> kz.Choice:
    return kz.plan(fit, one.vary, run=run, limits=one.limits, aim=AIM, search=kz.Search(points=64, polish=20)).best


def _allowed(one: Planned, fit: kz.Estimate, choices: list[kz.Choice]) -> Any:
    """Which choices keep the limit, by the rule that plans keep."""
    if not one.limits:
        return np.ones(len(choices), bool)
    limits, draws = Limits(one.limits), known_from(fit, None, None, 0).some(32)
    # No peak is below minus infinity: the runs are followed without tangents.
    runs = Experiments(one.model, one.free, limits.simulated).run(choices, draws, np.array([-np.inf]))
    return limits.share(runs, choices) <= 1.0


def _at(one: Planned, run: kz.Choice, points: Any) -> list[kz.Choice]:
    """Choices at points (P, 2) of the unit square."""
    (a, low, high), (b, first, last) = ((n, *r) for n, r in one.vary.items())
    return [replace(run, settings={**run.settings, a: low + p * (high - low), b: first + q * (last - first)})
            for p, q in np.asarray(points).tolist()]  # fmt: skip


def _grid() -> Any:
    """A grid of 6 x 6 in an order that does not follow its rows."""
    x, y = np.meshgrid(np.linspace(0, 1, 6), np.linspace(0, 1, 6))
    return np.column_stack([x.ravel(), y.ravel()])[np.argsort((np.arange(36) * 0.6180339887) % 1.0, kind="stable")]


def _from_list(one: Planned, run: kz.Choice, points: Any) -> Callable[[kz.Estimate], kz.Choice]:
    """The first of a list that is allowed now and was not made yet; the list begins again when all were."""
    left = _at(one, run, points)

    def choose(fit: kz.Estimate) -> kz.Choice:
        for part in range(0, len(left), 8):
            some = left[part : part + 8]
            allowed = np.flatnonzero(_allowed(one, fit, some))
            if allowed.size:
                return left.pop(part + int(allowed[0]))
        left.extend(_at(one, run, points))
        return choose(fit)

    return choose


def _engineer(one: Planned, run: kz.Choice) -> Callable[[kz.Estimate], kz.Choice]:
    """A sweep of frequencies within 12 % of the range around the resonance, each with the largest force allowed."""
    places = iter(0.25 * (qmc.Halton(1, scramble=False).random(MOST + 1)[1:, 0] - 0.5))

    def choose(fit: kz.Estimate) -> kz.Choice:
        first, last = list(one.vary.values())[1]
        resonance = (np.sqrt(fit["k" if "k" in one.free else "w2"]) - first) / (last - first)
        levels = np.linspace(1.0, 0.0, 31)
        choices = _at(one, run, np.column_stack([levels, np.full(31, np.clip(resonance + next(places), 0.0, 1.0))]))
        allowed = np.flatnonzero(_allowed(one, fit, choices))
        return choices[int(allowed[0]) if allowed.size else -1]

    return choose
