"""Figures of experiments: stability of hybrid tests with delay."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from kapitza.report.style import ACCENT, CYCLE, FAINT, styled
from kapitza.rig import DelayStability


def plot_delay_stability(test: DelayStability, points: int = 40) -> Figure:
    """Left: the rightmost characteristic roots. Right: the growth rate against the delay."""
    import matplotlib.pyplot as plt

    spacing = test.compensation.spacing
    if spacing is None:
        delays = np.linspace(0.25, 3.0, points) * test.delay
    else:
        delays = spacing * np.arange(1, max(3, round(2 * test.delay / spacing)))
    rates = [test.at_delay(float(d)).rate for d in delays]
    with styled():
        figure, (plane, curve) = plt.subplots(1, 2, figsize=(8.4, 3.6), layout="constrained")
        both = np.concatenate([test.roots, test.roots.conj()])
        plane.axvline(0.0, color=FAINT, lw=0.8)
        if np.isfinite(test.essential_rate):
            plane.axvline(test.essential_rate, color=ACCENT, ls="--", lw=1.0, label="essential rate")
            plane.legend(loc="center right")
        plane.plot(both.real, both.imag, "o", ms=4, color=CYCLE[0])
        plane.set_xlabel("Re λ [1/s]")
        plane.set_ylabel("Im λ [rad/s]")
        plane.set_title(f"roots at a delay of {1e3 * test.delay:g} ms")
        curve.plot(1e3 * delays, rates, color=CYCLE[0])
        curve.axhline(0.0, color=FAINT, lw=0.8)
        curve.plot([1e3 * test.delay], [test.rate], "o", color=ACCENT)
        curve.set_xlabel("delay [ms]")
        curve.set_ylabel("rate of the leading root [1/s]")
        curve.set_title("unstable" if not test.stable else "stable")
        return figure
