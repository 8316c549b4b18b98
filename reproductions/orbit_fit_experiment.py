"""ORBITS tables 5.4-5.5: the experiment, simulated: dry friction, 42754 points, the rate from two readings."""

from __future__ import annotations

import numpy as np
from harness import Comparison, comparison_table, markdown_table

import kapitza as kz

READING = 15.08e-3  # s between the two readings of the angle that give the rate
POINTS = 42754
SEEDS = 20
SETS = {"m, l": {"m": 1.5, "l": 0.8}, "k3": {"k3": 0.0}, "k1, k2, k3": {"k1": 0.3, "k2": 0.3, "k3": 0.3}}
DOCUMENT = {"m": 9.6, "l": 0.3, "k3": 11.6}


def main() -> str:
    truth = kz.library.parametric_pendulum(experiment=True)
    times, angle, rate = clean_readings(truth)
    rows, trio = [], []
    for noise, factor in ((5e-4, 3.0), (5e-3, 1.0)):
        results = [one_seed(truth, times, angle, rate, noise, seed) for seed in range(SEEDS)]
        for key, names in (("m, l", ("m", "l")), ("k3", ("k3",))):
            fits = [r[key] for r in results if r[key] is not None]
            for name in names:
                errors = [100 * abs(f[name] / truth.values[name] - 1) for f in fits]
                held = [holds(f, name, truth.values[name]) for f in fits]
                error = float(np.median(errors)) if errors else float("inf")
                bound = DOCUMENT[name] / factor
                label = f"{name} at noise {noise:g}, median error [%]"
                rows.append(
                    Comparison(
                        label, DOCUMENT[name], f"{error:.2g}", f"≤ {bound:.3g} %",
                        error <= bound,
                        f"{len(fits)} of {SEEDS} seeds; 95 % interval holds the truth in {sum(held)}",
                    )
                )  # fmt: skip
        fits = [r["k1, k2, k3"] for r in results if r["k1, k2, k3"] is not None]
        for name in ("k1", "k2", "k3"):
            errors = [100 * abs(f[name] / truth.values[name] - 1) for f in fits]
            spread = [100 * f.deviations[name] / truth.values[name] for f in fits]
            held = sum(holds(f, name, truth.values[name]) for f in fits)
            trio.append((f"{noise:g}", name, f"{np.median(errors):.2g}", f"{np.median(spread):.2g}",
                         f"{held} of {len(fits)}"))  # fmt: skip
    header = ["noise", "parameter", "median error [%]", "median standard error [%]", "95 % interval holds the truth"]
    return (
        "# Parameters of the pendulum experiment from its orbits (ORBITS, tables 5.4-5.5)\n\n"
        f"{POINTS} points with dry friction; the rate is [φ(t + 15.08 ms) - φ(t)]/15.08 ms and is modelled as such; "
        f"orbits of up to 5 periods; noise as a share of the attractor's size; {SEEDS} seeds of the noise.\n\n"
        + comparison_table(rows, "ORBITS")
        + "\n\n## k1, k2 and k3 together (failed in ORBITS)\n\n"
        + markdown_table(header, trio)
    )


def holds(fit: kz.Estimate, name: str, value: float) -> bool:
    low, high = fit.interval(0.95).loc[name]
    return bool(low <= value <= high)


def clean_readings(truth: kz.Model) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    record = kz.simulate(truth, periods=POINTS - 1)
    states = record.values(("phi", "phi'"))
    later = kz.Flow(truth, tolerance=1e-13).propagate_many(states, 0.0, READING)
    return record.time, states[:, 0], (later.state[:, 0] - states[:, 0]) / READING


def one_seed(
    truth: kz.Model, times: np.ndarray, angle: np.ndarray, rate: np.ndarray, noise: float, seed: int
) -> dict[str, kz.Estimate | None]:
    rng = np.random.default_rng(seed)
    record = kz.Record.from_arrays(
        times,
        {
            "phi": angle + noise * 2 * np.pi * rng.standard_normal(angle.size),
            "phi'": rate + noise * np.ptp(rate) * rng.standard_normal(rate.size),
        },
        period=truth.period,
        angles=["phi"],
    )
    orbits = kz.find_orbits(record, max_period=5)
    method = kz.OrbitFit(outputs={"phi'": kz.DifferenceQuotient("phi", READING)})
    found: dict[str, kz.Estimate | None] = {}
    for label, shares in SETS.items():
        start = truth.with_values(**{n: s * truth.values[n] for n, s in shares.items()})
        try:
            found[label] = kz.identify(start, orbits, list(shares), method)
        except kz.KapitzaError:
            found[label] = None
    return found
