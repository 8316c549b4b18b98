"""OLEO landing gear (PERIODIC section 6.4): both models under a sampled force with a step, by two methods."""

from __future__ import annotations

import time

import numpy as np
from harness import Comparison, comparison_table, markdown_table

import kapitza as kz


def timed(model: kz.Model, guess, method) -> tuple[kz.PeriodicOrbit, float]:
    """The second run: compiled code is there."""
    kz.solve_orbit(model, guess, method=method)
    begin = time.perf_counter()
    orbit = kz.solve_orbit(model, guess, method=method)
    return orbit, time.perf_counter() - begin


def main() -> str:
    rows, checks = [], []
    simple = kz.library.oleo_simple().with_values(theta10=1e4)
    for model, slope in ((kz.library.oleo(), "theta9"), (simple, "theta10")):
        shot, shooting = timed(model, model.start, kz.Shooting())
        near, collocation = timed(model, shot, kz.Collocation(tolerance=1e-8))
        walked, homotopy = timed(model, model.start, kz.Homotopy(slope, 10.0, kz.Collocation(tolerance=1e-8)))
        size = np.ptp(shot.profile.states, axis=0)
        gaps = [float((np.abs(o.profile.states - shot.profile.states) / size).max()) for o in (near, walked)]
        rows.append(
            (model.name, f"{shooting:.3f}", f"{collocation:.3f}", f"{homotopy:.3f}", *(f"{g:.1e}" for g in gaps))
        )
        checks += [
            Comparison(f"{model.name}: largest difference", "agrees", max(gaps), "1e-6", max(gaps) < 1e-6),
            Comparison(f"{model.name}: shooting [s]", "100", shooting, "1", shooting < 1),
            Comparison(
                f"{model.name}: collocation from the shooting orbit [s]", "1-10", collocation, "1", collocation < 1
            ),
            Comparison(f"{model.name}: collocation by homotopy in the slope [s]", "-", homotopy),
        ]
    header = ["model", "shooting [s]", "collocation [s]", "by homotopy [s]", "difference", "difference (homotopy)"]
    return (
        "# OLEO landing gear\n\nForce sampled at 200 points with a step, friction slope 1e4, times after compilation, "
        "multipliers and checks included.\n\n" + comparison_table(checks) + "\n\n" + markdown_table(header, rows)
    )
