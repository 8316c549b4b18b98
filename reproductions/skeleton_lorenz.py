"""Autonomous systems: orbits of Lorenz and Rössler from x(t) alone, 200000 samples, 1 % noise."""

from __future__ import annotations

import numpy as np
from harness import Comparison, comparison_table

import kapitza as kz

# Lorenz: Viswanath (2003). Rössler (a = b = 0.2, c = 5.7): the census of the model, kz.find_orbits(rossler()).
LORENZ = {
    "AB": 1.5586522107, "AAB": 2.3059072639, "ABB": 2.3059072639,
    "AABB": 3.0842767758, "AAAB": 3.0235837034, "ABBB": 3.0235837034,
}  # fmt: skip
ROSSLER = {"B": 5.881088456, "AB": 11.758626072, "AAB": 17.515791070, "ABB": 17.595865815, "ABBB": 23.508557583}


def main() -> str:
    parts = ["# Orbits of autonomous systems from one channel"]
    for name, interval, periods in (("lorenz", 0.01, LORENZ), ("rossler", 0.05, ROSSLER)):
        clean = kz.simulate(getattr(kz.library, name)(), t=np.arange(202000) * interval)
        x = clean.samples(slice(2000, None)).select(["x"])
        record = kz.measure(x, noise=0.01 * float(np.std(x["x"])), seed=1)
        found = {orbit.code: orbit for orbit in kz.find_orbits(record, max_period=4)}
        rows = []
        for code, period in periods.items():
            orbit = found.get(code)
            if orbit is None:
                rows.append(Comparison(code, period, "not found", "≤ 0.2 %", False))
                continue
            error = abs(orbit.period / period - 1)
            sure = f"{orbit.period:.5f} ± {orbit.details['period_deviation']:.5f} ({100 * error:.3f} %)"
            size = (
                f"|μ1| = {abs(orbit.multipliers[0]):.3g} ± {orbit.multiplier_deviation[0]:.2g}, {orbit.visits} visits"
            )
            rows.append(Comparison(code, period, sure, "≤ 0.2 %", error <= 0.002, size))
        parts.append(f"## {name.capitalize()}\n\nPeriods [s].\n\n" + comparison_table(rows, "truth"))
    return "\n\n".join(parts)
