"""OrbitFit: do the intervals hold the truth as often as they say?"""

from __future__ import annotations

import numpy as np
from harness import Comparison, comparison_table

import kapitza as kz

SEEDS = 200
CHAIN_SEEDS = 60
POINTS = {1: [(2.9668, 6.4066), (-2.9668, -6.4066), (0.1912, 11.4138)], 2: [(2.7963, 11.3027), (-2.7963, -11.3027)]}


def main() -> str:
    return "\n\n".join(["# OrbitFit: coverage of the intervals", coverage(), chain()])


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
    loop = kz.solve_orbit(duffing).loop
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
