"""Simulated rigs against their own clock: how many times faster than real time each runs on one core."""

from __future__ import annotations

import numpy as np
from harness import markdown_table, measure

from kapitza.rig import FourierSeries, SecondOrder, Sensors, SimulatedRig, beam_rig, duffing_rig, pendulum_rig

SAMPLES = 4000
TARGET = 100.0


def rigs() -> list[tuple[str, SimulatedRig]]:
    """Every kind of rig that the package has, in motion."""
    swing = {
        "theta": FourierSeries(6.5, [0, 0.3, 0.2, 0, 0, 0, 0.01]), "y": FourierSeries(6.5, [0, 0, 0, 0.01, 0.004]),
    }  # fmt: skip
    noisy = Sensors(noise={"theta": 5e-3, "y": 1e-4, "F": 8e-3}, quantum={"theta": 1e-4}, drop=0.01)
    found = [
        ("pendulum, pure delay 10 ms", pendulum_rig()),
        ("pendulum, delay of 10.4 samples", pendulum_rig(delay=0.0104)),
        ("pendulum, second-order actuator, noise, lost samples",
         pendulum_rig(SecondOrder(100.0, 5.0, 0.010, "F"), sensors=noisy)),
    ]  # fmt: skip
    for _, rig in found:
        rig.set(swing)
    duffing = duffing_rig()
    duffing.set({"x": FourierSeries(1.0, [0, 0.5, 0.1])}, omega=1.0)
    found.append(("Duffing, 50 Hz", duffing))
    for base, words in ((0.03, "that stays short of its gap"), (0.1, "with a gap"), (0.3, "with a gap, hitting hard")):
        beam = beam_rig()
        beam.set({"x": FourierSeries(80.0, [0, 15 * base, 0.1])}, Omega=80.0, A=base)
        found.append((f"beam {words}", beam))
    return found


def main() -> str:
    rows, worst = [], np.inf
    for name, rig in rigs():
        seconds = measure(lambda rig=rig: rig.run(SAMPLES), repeats=7).seconds
        times = SAMPLES * rig.sample_time / seconds
        worst = min(worst, times)
        rows.append((name, f"{1 / rig.sample_time:g}", f"{1e6 * seconds / SAMPLES:.1f}", f"{times:.0f}"))
    verdict = "met" if worst >= TARGET else "**missed**"
    return "\n\n".join(
        [
            markdown_table(("rig", "samples per second", "time per sample [µs]", "times real time"), rows),
            f"Slowest: {worst:.0f} times real time (target {TARGET:g}): {verdict}. Of the time per sample the Taylor "
            "step itself takes about 1 µs; the rest is the controller, in Python, one sample after the other.",
        ]
    )
