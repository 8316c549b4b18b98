"""HARMONIC: delay and close returns of the simulated double pendulum, 670000 samples from 1024-count encoders."""

from __future__ import annotations

import numpy as np
from harness import Comparison, comparison_table, markdown_table

import kapitza as kz
from kapitza.orbits.in_records.dense_returns import best_returns, chance_shares, dense_signal
from kapitza.signal import forced_delay, mutual_information

PERIODS = 6700
COUNTS = 1024
SAMPLES = 100.0
EXPLAINED = """Tolerances are shares of a full turn, held over one delay. A return counts as an orbit when at most 5 %
of those that stay together as long come from unrelated stretches, measured at lags that are no multiple of the
drive (no orbit of the forced pendulum can return there). Orbits of returns are starts for a solver, not certified: two
stretches that stay together for a while have an orbit near them only if its multipliers are not too large."""


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
    counted = return_counts(measured, delay)
    closest = [
        (o.repeats, f"{100 * o.closure:.2f} %", f"{o.stretch.chance:.3f}", ", ".join(map(str, o.winding)),
         o.stretch.first)
        for p in range(1, 16)
        for o in sorted(strict.select(period=p), key=lambda o: o.closure)[:2]
    ]  # fmt: skip
    return (
        "# Close returns of the double pendulum\n\n" + comparison_table(rows, "HARMONIC")
        + "\n\n" + EXPLAINED + "\n\n" + strict.message + "\n\n" + loose.message
        + "\n\nReturns by period, and how many chance alone gives (mean over lags between the periods):\n\n"
        + markdown_table(["period", "returns 5 %", "by chance", "orbits", "returns 8 %", "by chance", "orbits"],
                         [(p, *counted[0.05][p - 1], len(strict.select(period=p)), *counted[0.08][p - 1],
                           len(loose.select(period=p))) for p in range(1, 16)])
        + "\n\nThe two closest orbits of every period; chance is the share of such returns that unrelated stretches "
        "give:\n\n" + markdown_table(["period", "return error", "chance", "turns", "sample"], closest)
    )  # fmt: skip


def return_counts(record: kz.Record, delay: int) -> dict[float, list[tuple[int, str]]]:
    """Per tolerance and period: separate returns at the lag of the period, and the mean at lags between the periods."""
    counts = {}
    for tolerance in (0.05, 0.08):
        settings = kz.ReturnSearch(tolerance=tolerance, delay=delay)
        signal = dense_signal(record, record.channels, settings, SAMPLES)
        counts[tolerance] = []
        for period in range(1, 16):
            found = best_returns(signal, round(period * SAMPLES))
            expected = chance_shares(signal, found, period, SAMPLES)[1]
            counts[tolerance].append((len(found.rows), f"{expected:.1f}"))
    return counts
