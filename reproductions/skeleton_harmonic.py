"""HARMONIC: delay and close returns of the simulated double pendulum, 670000 samples from 1024-count encoders."""

from __future__ import annotations

import numpy as np
from harness import Comparison, comparison_table, markdown_table

import kapitza as kz
from kapitza.signal import forced_delay, mutual_information

PERIODS = 6700
COUNTS = 1024


def chaotic_record() -> kz.Record:
    """The Table 9 system, restarted from a new state whenever it has settled on a periodic motion."""
    model = kz.library.base_excited_double_pendulum()
    rng, pieces, left = np.random.default_rng(5), [], PERIODS
    while left > 0:
        start = rng.uniform(-2, 2, size=4)
        record = kz.simulate(model, x0=start, periods=min(left, 2000) + 100, samples_per_period=100)
        record = record.samples(slice(100 * 100, None))
        strobes = record.values()[::100]
        returns = np.abs(np.exp(1j * strobes[2:, :2]) - np.exp(1j * strobes[:-2, :2])).max(axis=1)
        settled = np.flatnonzero(np.convolve(returns < 1e-3, np.ones(20), mode="valid") == 20)
        keep = int(settled[0]) if settled.size else len(strobes) - 1
        if keep > 50:
            pieces.append(record.samples(slice(0, 100 * keep)))
            left -= keep
    return kz.Record.concatenate(pieces)


def main() -> str:
    record = chaotic_record()
    step = 2 * np.pi / COUNTS
    encoder = {
        "theta1": np.round(record["phi1"] / step) * step,
        "theta2": np.round((record["phi2"] - record["phi1"]) / step) * step,
    }
    measured = kz.Record.from_arrays(
        record.time, encoder, angles=list(encoder), segment=record.dataset["segment"].values, period=record.period
    )
    curves = [
        mutual_information(measured[name], 100, segments=measured.segments(), angle=True) for name in measured.channels
    ]
    delay = forced_delay(curves, 100.0)
    strict = kz.find_orbits(measured, max_period=15, method=kz.ReturnSearch(tolerance=0.05))
    loose = kz.find_orbits(measured, max_period=15, method=kz.ReturnSearch(tolerance=0.08))
    rows = [
        Comparison(
            "samples", 670000, len(measured), note=f"{len(measured.segments())} segments, restarted when periodic"
        ),
        Comparison("delay [samples of 100 per period]", 24, delay, "20-28", 20 <= delay <= 28),
        Comparison("distinct orbits within 5 %", 6, len(strict), "≥ 6", len(strict) >= 6),
        Comparison("distinct orbits within 8 %", 58, len(loose), "more", len(loose) > len(strict)),
    ]
    closest = [
        (o.repeats, f"{100 * o.closure:.2f} %", ", ".join(map(str, o.winding)), o.details["sample"])
        for p in range(1, 16)
        for o in sorted(strict.select(period=p), key=lambda o: o.closure)[:2]
    ]
    return (
        "# Close returns of the double pendulum\n\n" + comparison_table(rows, "HARMONIC")
        + "\n\nTolerances are shares of a full turn, held over one delay. The two closest returns of every period:\n\n"
        + markdown_table(["period", "return error", "turns", "sample"], closest)
    )  # fmt: skip
