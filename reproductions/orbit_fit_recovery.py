"""OrbitFit: from how far does it find its way, on the registry of problems with known answers?"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from harness import Comparison, comparison_table, markdown_table

import kapitza as kz
from reproductions.orbit_fit_coverage import shaken

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import problems

STARTS = 20
REACH = 0.6


def main() -> str:
    return "# OrbitFit: recovery from far starts\n\n" + recovery()


Data = kz.OrbitSet | list[kz.PeriodicOrbit] | kz.Record
Case = tuple[str, kz.Model, Data, list[str], dict[str, object]]


def registry() -> list[Case]:
    """The registry of tests/problems.py: every fit problem that is made of orbits, and its single orbits by model.

    Section points with errors of a thousandth; whole profiles where one point leaves the answer open (a free motion, or
    as many parameters as readings).
    """
    cases: list[Case] = []
    for problem in problems.FIT_PROBLEMS:
        if "orbits" in problem.offers:
            truth = problem.start().with_values(**problem.truth)
            cases.append((f"fit problem: {problem.name}", truth, problem.data(), list(problem.truth), {}))
    by_model: dict[str, list[problems.OrbitProblem]] = {}
    for single in problems.ORBIT_PROBLEMS:
        by_model.setdefault(single.model().name, []).append(single)
    for name, group in by_model.items():
        truth = group[0].model()
        orbits = [kz.solve_orbit(truth, dict(p.guess), p.period) for p in group]
        for names in FREE.get(name, []):
            data, settings = (sampled(orbits[0], 0), {"profiles": True}) if len(orbits) == 1 else (points(orbits), {})
            cases.append((f"orbits of {name} ({', '.join(names)})", truth, data, names, settings))
    return cases


FREE = {
    "parametric_pendulum": [["m", "l"], ["k2", "k3"], ["l", "k2", "k3"]],
    "lorenz": [["sigma", "rho", "beta"]],
    "colliding_cart": [["k", "b"]],
    "pin_joint": [["gamma", "r"]],
    "duffing": [["k", "B"]],
}


def points(orbits: list[kz.PeriodicOrbit]) -> list[kz.PeriodicOrbit]:
    return shaken(orbits, np.array([1e-3, 5e-3]), 0)


def sampled(orbit: kz.PeriodicOrbit, seed: int) -> list[kz.PeriodicOrbit]:
    """The profile at 60 instants with noise of a thousandth of each state's range."""
    assert orbit.profile is not None
    rng = np.random.default_rng(seed)
    count = 60
    times = np.arange(count) * orbit.period / count
    states = orbit.loop(np.arange(count) / count)
    states = states + 1e-3 * np.ptp(states, axis=0) * rng.standard_normal(states.shape)
    return [orbit.with_(profile=replace(orbit.profile, times=times, states=states), covariance=None)]


def others() -> list[Case]:
    """Beyond the registry: coexisting orbits of one model, a limit cycle, a record of the landing gear."""
    duffing = kz.library.duffing().with_values(k=0.08, B=0.2)
    coexisting = [kz.solve_orbit(duffing, point, profile=False) for point in ((0.0, 0.0), (1.0, 0.0), (-0.5, 0.5))]
    free = kz.Model.from_equations(
        "x'' - mu*(1 - x**2)*x' + k*x = 0", parameters={"mu": 0.8, "k": 1.3}, name="van_der_pol"
    )
    oleo = kz.library.oleo(values="estimation")
    loop = kz.solve_orbit(oleo, oleo.state()).loop
    y = loop(np.arange(60) / 60)[:, 0] + oleo.values["theta14"]
    clean = kz.Record.from_arrays(np.arange(60) * oleo.period / 60, {"y": y}, period=oleo.period, phase=0.0)
    return [
        ("Duffing, three coexisting orbits (k, B)", duffing, shaken(coexisting, np.array([1e-3, 1e-3]), 0), ["k", "B"],
         {}),
        ("van der Pol, profile (mu, k)", free, sampled(kz.solve_orbit(free, [2.0, 0.0], 5.9), 0), ["mu", "k"],
         {"profiles": True}),
        ("OLEO, record of y (theta4, theta11)", oleo, kz.measure(clean, noise=1e-4, seed=0), ["theta4", "theta11"], {}),
    ]  # fmt: skip


METHODS: dict[str, dict[str, object]] = {
    "all-at-once with restarts": {},
    "all-at-once, one run": {"restarts": 0},
    "nested, one run": {"formulation": "nested", "restarts": 0},
}


def recovery() -> str:
    rows, checks = [], []
    for label, truth, data, names, settings in [*registry(), *others()]:
        goal = kz.identify(truth, data, names, kz.OrbitFit(**settings))
        cells = []
        for title, more in METHODS.items():
            begin = time.perf_counter()
            good, wrong = trials(truth, data, names, goal, kz.OrbitFit(**settings, **more))
            cells.append(f"{good}, wrong {wrong}, {(time.perf_counter() - begin) / STARTS:.2f} s")
            if title == "all-at-once with restarts":
                share = 100 * good / STARTS
                checks.append(Comparison(f"{label} [%]", "66-100 (one run), 96-100", share, "≥ 95 %", share >= 95,
                                         f"{wrong} wrong answers returned"))  # fmt: skip
        rows.append((label, *cells))
    return (
        f"{STARTS} random starts within ± {100 * REACH:g} % of every parameter, on the problems of the "
        "registry (tests/problems.py) and three more. Recovered: the minimum that the true start leads to; wrong: "
        "another answer returned without an error.\n\n"
        + comparison_table(checks, "prototype")
        + "\n\n"
        + markdown_table(["problem", *(f"{title}: recovered" for title in METHODS)], rows)
    )


def trials(truth: kz.Model, data: Data, names: list[str], goal: kz.Estimate, method: kz.OrbitFit) -> tuple[int, int]:
    rng, good, wrong = np.random.default_rng(1), 0, 0
    for _ in range(STARTS):
        shares = 1 + REACH * rng.uniform(-1, 1, len(names))
        start = truth.with_values(**{n: s * truth.values[n] for n, s in zip(names, shares, strict=True)})
        try:
            fit = kz.identify(start, data, names, method)
        except kz.KapitzaError:
            continue
        near = all(abs(fit[n] - goal[n]) <= 0.1 * goal.deviations[n] for n in names)
        good, wrong = good + near, wrong + (not near)
    return good, wrong
