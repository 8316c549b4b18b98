"""OrbitFit: do the intervals hold the truth as often as they say, and from how far does it find its way?"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from harness import Comparison, comparison_table, markdown_table

import kapitza as kz

SEEDS = 200
CHAIN_SEEDS = 30
STARTS = 40
REACH = 0.6
POINTS = {1: [(2.9668, 6.4066), (-2.9668, -6.4066), (0.1912, 11.4138)], 2: [(2.7963, 11.3027), (-2.7963, -11.3027)]}


def main() -> str:
    return "\n\n".join(
        ["# OrbitFit: coverage of the intervals and recovery from far starts", recovery(), coverage(), chain()]
    )


# -- coverage ---------------------------------------------------------------------------------------------------------


def pendulum_orbits(model: kz.Model) -> list[kz.PeriodicOrbit]:
    return [kz.solve_orbit(model, p, n, profile=False) for n, points in POINTS.items() for p in points]


def shaken(orbits: list[kz.PeriodicOrbit], deviation: np.ndarray, seed: int) -> list[kz.PeriodicOrbit]:
    """Section points with Gaussian errors, and the covariance that says so."""
    rng = np.random.default_rng(seed)
    return [
        o.with_(
            points=o.points + deviation * rng.standard_normal(o.points.shape),
            covariance=np.diag(np.tile(deviation**2, len(o.points))),
            profile=None,
        )
        for o in orbits
    ]


def held(fit: kz.Estimate, truth: kz.Model, level: float = 0.9) -> list[bool]:
    interval = fit.interval(level)
    return [bool(interval.loc[n, "low"] <= truth.values[n] <= interval.loc[n, "high"]) for n in fit.names]


def verdict(label: str, counts: np.ndarray, names: list[str], note: str) -> list[Comparison]:
    shares = 100 * counts.mean(axis=0)
    return [
        Comparison(f"{label}: {name}, 90 % interval holds the truth [%]", "-", f"{share:.1f}", "85-95 %",
                   bool(85 <= share <= 95), note)
        for name, share in zip(names, shares, strict=True)
    ]  # fmt: skip


def coverage() -> str:
    rows = []
    truth = kz.library.parametric_pendulum()
    orbits, deviation = pendulum_orbits(truth), np.array([1e-3, 5e-3])
    for names in (["m", "l"], ["l", "k2", "k3"]):
        fits = [kz.identify(truth, shaken(orbits, deviation, seed), names) for seed in range(SEEDS)]
        counts = np.array([held(fit, truth) for fit in fits])
        rows += verdict(f"pendulum ({', '.join(names)})", counts, names, f"{SEEDS} seeds, errors of known size")
    duffing = kz.library.duffing().with_values(k=0.08, B=0.2)
    loop = kz.solve_orbit(duffing).details["loop"]
    times, states = np.arange(60) * duffing.period / 60, loop(np.arange(60) / 60)
    clean = kz.Record.from_arrays(times, {"x": states[:, 0]}, period=duffing.period, phase=0.0)
    method = kz.OrbitFit(estimator="maximum likelihood")
    fits = [kz.identify(duffing, kz.measure(clean, noise=2e-3, seed=s), ["k", "B"], method) for s in range(SEEDS)]
    counts = np.array([held(fit, duffing) for fit in fits])
    rows += verdict("Duffing, 60 samples of x (k, B)", counts, ["k", "B"], f"{SEEDS} seeds, noise estimated")
    return "## Coverage\n\n" + comparison_table(rows, "prototype")


def chain() -> str:
    """Record with noise → orbits → fit, all from the data."""
    truth = kz.library.parametric_pendulum()
    clean = kz.simulate(truth, periods=30000)
    noise = {"phi": 5e-4 * 2 * np.pi, "phi'": 5e-4 * float(np.ptp(clean["phi'"]))}
    names, counts = ["l", "k2", "k3"], []
    for seed in range(CHAIN_SEEDS):
        orbits = kz.find_orbits(kz.measure(clean, noise=noise, seed=seed), max_period=4)
        counts.append(held(kz.identify(truth, orbits, names), truth))
    rows = verdict("record → orbits → fit", np.array(counts), names, f"{CHAIN_SEEDS} seeds, noise 5e-4, 30000 points")
    return "## The whole chain\n\n" + comparison_table(rows, "prototype")


# -- recovery ---------------------------------------------------------------------------------------------------------


def problems() -> list[tuple[str, kz.Model, list[kz.PeriodicOrbit], list[str]]]:
    pendulum, duffing = kz.library.parametric_pendulum(), kz.library.duffing().with_values(k=0.08, B=0.2)
    some = shaken(pendulum_orbits(pendulum), np.array([1e-3, 5e-3]), 0)
    at_rest = [kz.solve_orbit(duffing, point, profile=False) for point in ((0.0, 0.0), (1.0, 0.0), (-0.5, 0.5))]
    steady = shaken(at_rest, np.array([1e-3, 1e-3]), 0)
    free = kz.Model.from_equations(
        "x'' - mu*(1 - x**2)*x' + k*x = 0", parameters={"mu": 0.8, "k": 1.3}, name="van_der_pol"
    )
    cycle = kz.solve_orbit(free, [2.0, 0.0], 5.9)
    rng = np.random.default_rng(0)
    assert cycle.profile is not None
    states = cycle.profile.states + 1e-3 * rng.standard_normal(cycle.profile.states.shape)
    cycle = cycle.with_(profile=replace(cycle.profile, states=states), covariance=None)
    return [
        ("pendulum (m, l)", pendulum, some, ["m", "l"]),
        ("pendulum (k2, k3)", pendulum, some, ["k2", "k3"]),
        ("pendulum (l, k2, k3)", pendulum, some, ["l", "k2", "k3"]),
        ("Duffing (k, B)", duffing, steady, ["k", "B"]),
        ("van der Pol (mu, k)", free, [cycle], ["mu", "k"]),
    ]


def recovery() -> str:
    methods = {
        "all-at-once with restarts": kz.OrbitFit(),
        "all-at-once, one run": kz.OrbitFit(restarts=0),
        "nested, one run": kz.OrbitFit(formulation="nested", restarts=0),
    }
    rows, checks = [], []
    for label, truth, orbits, names in problems():
        goal = kz.identify(truth, orbits, names)
        cells = []
        for title, method in methods.items():
            begin = time.perf_counter()
            good, wrong = trials(truth, orbits, names, goal, method)
            cells.append(f"{good}, wrong {wrong}, {(time.perf_counter() - begin) / STARTS:.2f} s")
            if title == "all-at-once with restarts":
                share = 100 * good / STARTS
                checks.append(Comparison(f"{label} [%]", "66-100 (one run), 96-100", share, "≥ 95 %", share >= 95,
                                         f"{wrong} wrong answers returned"))  # fmt: skip
        rows.append((label, *cells))
    return (
        f"## Recovery\n\n{STARTS} random starts within ± {100 * REACH:g} % of every parameter. Recovered: the minimum "
        "that the true start leads to; wrong: another answer returned without an error.\n\n"
        + comparison_table(checks, "prototype")
        + "\n\n"
        + markdown_table(["problem", *(f"{title}: recovered" for title in methods)], rows)
    )


def trials(
    truth: kz.Model, orbits: list[kz.PeriodicOrbit], names: list[str], goal: kz.Estimate, method: kz.OrbitFit
) -> tuple[int, int]:
    rng, good, wrong = np.random.default_rng(1), 0, 0
    for _ in range(STARTS):
        shares = 1 + REACH * rng.uniform(-1, 1, len(names))
        start = truth.with_values(**{n: s * truth.values[n] for n, s in zip(names, shares, strict=True)})
        try:
            fit = kz.identify(start, orbits, names, method)
        except kz.KapitzaError:
            continue
        near = all(abs(fit[n] - goal[n]) <= 0.1 * goal.deviations[n] for n in names)
        good, wrong = good + near, wrong + (not near)
    return good, wrong
