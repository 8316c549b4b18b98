"""INVARIANT, section 5: the Fibonacci trace map from its scalar series."""

from __future__ import annotations

import numpy as np
from harness import Comparison, comparison_table

import kapitza as kz
from reproductions._invariant import SEEDS, clean_row, repeat, row

TRUTH = {"a": 0.0, "b": 0.0, "c": 2.0}
MODULUS = 1 << 400


def series(count: int, seed: int = 1) -> kz.Record:
    """x[n] = cos 2πθ[n], θ[n+1] = θ[n] + θ[n-1] in exact arithmetic modulo 1, as a record of the one channel x."""
    rng = np.random.default_rng(seed)
    turns = [int.from_bytes(rng.bytes(50), "big") for _ in range(2)]
    while len(turns) < count:
        turns.append((turns[-1] + turns[-2]) % MODULUS)
    x = np.cos(2 * np.pi * np.array([t / MODULUS for t in turns]))
    return kz.Record.from_arrays(np.arange(count), {"x": x})


def bound(record: kz.Record, noise: float) -> dict[str, float]:
    """Median error of an efficient estimate from the invariant: 0.6745 times the Cramér-Rao deviation, noise shared."""
    s = record["x"]
    x, y, z = s[2:], s[1:-1], s[:-2]
    slope = np.zeros((x.size, s.size))
    n = np.arange(x.size)
    slope[n, n + 2], slope[n, n + 1], slope[n, n] = 2 * (x - y * z), 2 * (y - x * z), 2 * (z - x * y)
    jacobian = np.column_stack([x + y + z, x * y + x * z + y * z, x * y * z, np.ones_like(x)])
    band = (noise * np.mean(np.abs(s))) ** 2 * slope @ slope.T
    deviation = 0.6745 * np.sqrt(np.diag(np.linalg.inv(jacobian.T @ np.linalg.solve(band, jacobian))))
    return {n: float(v / (abs(t) or 1.0)) for (n, t), v in zip(TRUTH.items(), deviation, strict=False)}


def main() -> str:
    model, rows = kz.library.trace_map(), []
    rng = np.random.default_rng(0)
    for count in (10, 20, 50):
        worst = 0.0
        for _ in range(10):
            start = model.with_values(a=rng.normal(), b=rng.normal(), c=3 * rng.normal())
            fit = kz.identify(start, series(count + 2), method=kz.InvariantFit())
            worst = max(worst, *(abs(fit[n] - t) for n, t in TRUTH.items()))
        rows.append(clean_row(f"noise-free, {count} points, any start", 7, worst))
    full = series(52)
    x = full["x"]
    shuffled = np.random.default_rng(3).permutation(50)[:30]
    triples = kz.Record.from_arrays(np.arange(30), {n: x[2 - k : 52 - k][shuffled] for k, n in enumerate("xyz")})
    fit = kz.identify(model.with_values(a=1.0, b=-1.0, c=-1.0), triples, method=kz.InvariantFit())
    worst = max(abs(fit[n] - t) for n, t in TRUTH.items())
    rows.append(clean_row("noise-free, 30 random triples", 7, worst))
    for noise, product, others in ((0.01, 0.002, 5e-4), (0.10, 0.02, 1e-2)):
        plain = repeat(model, full, TRUTH, kz.InvariantFit(correction=0), noise)
        corrected = repeat(model, full, TRUTH, kz.InvariantFit(), noise)
        surface = repeat(model, full, TRUTH, kz.InvariantFit("surface"), noise)
        for names, goal in ((("c",), product), (("a", "b"), others)):
            unit = "%" if names == ("c",) else ""
            text = f"{100 * goal:g} %" if unit else f"{goal:g}"
            limit = bound(full, noise)
            notes = {
                "F3": plain.worst(names),
                "F3 corrected": corrected.worst(names),
                "best possible from the invariant": max(limit[n] for n in names),
            }
            what = f"{100 * noise:g} % noise, 50 points: worst of {', '.join(names)}, F2"
            rows.append(row(what, text, goal, surface.worst(names), notes, unit))
    rows.append(Comparison("F3 at 1 % (10 %) noise", "1e-4 (1e-2)", _levels(model, full)))
    return (
        "# INVARIANT, section 5: Fibonacci trace map\n\n"
        f"Scalar series x; its delays are found from the map. Medians over {SEEDS} seeds.\n\n" + comparison_table(rows)
    )


def _levels(model: kz.Model, record: kz.Record) -> str:
    values = []
    for noise in (0.01, 0.10):
        noisy = [kz.measure(record, relative_noise=noise, seed=s) for s in range(20)]
        found = [kz.identify(model, n, method=kz.InvariantFit(correction=0)).details["F3"] for n in noisy]
        values.append(float(np.median(found)))
    return f"{values[0]:.1g} ({values[1]:.1g})"
