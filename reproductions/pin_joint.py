"""Pin joint with clearance (PERIODIC section 6.3, where no orbit was found): closed form against the solvers."""

from __future__ import annotations

import numpy as np
from harness import Comparison, comparison_table, markdown_table
from scipy.optimize import brentq

import kapitza as kz
from reproductions._pin_joint_closed_form import two_impact_orbits

RESTITUTIONS = tuple(round(0.1 * i, 1) for i in range(1, 10))


def largest_multiplier(gamma: float, r: float) -> float:
    orbits = two_impact_orbits(gamma, r)
    return float(np.abs(orbits[0].multipliers).max()) if orbits else float("nan")


def stability_boundary(r: float) -> float:
    """γ at which the symmetric two-impact orbit loses its stability, from the closed form; NaN when it never does."""
    values = np.geomspace(0.05, 5.0, 400)
    excess = np.array([largest_multiplier(g, r) - 1 for g in values])
    change = np.flatnonzero((excess[:-1] < 0) & (excess[1:] > 0))
    if change.size == 0:
        return float("nan")
    low, high = values[change[0]], values[change[0] + 1]
    return float(brentq(lambda g: largest_multiplier(g, r) - 1, low, high, xtol=1e-13))


def main() -> str:
    rows, worst_point, worst_multiplier, boundary_gap = [], 0.0, 0.0, 0.0
    for r in RESTITUTIONS:
        exact = two_impact_orbits(1.0, r)[0]
        state = np.array(exact.state_at(2 * np.pi))
        model = kz.library.pin_joint().with_values(gamma=1.0, r=r)
        gaps = []
        for method in (kz.Shooting(), kz.Collocation()):
            orbit = kz.solve_orbit(model, 1.001 * state, method=method)
            point = float(np.abs(orbit.points[0] - state).max())
            known = np.sort_complex(exact.multipliers.astype(complex))
            multiplier = float(np.abs(np.sort_complex(orbit.multipliers) - known).max())
            worst_point, worst_multiplier = max(worst_point, point), max(worst_multiplier, multiplier)
            gaps += [f"{point:.1e}", f"{multiplier:.1e}"]
        edge = stability_boundary(r)
        at_edge = "-"
        if np.isfinite(edge):
            # At the boundary itself M - I is singular: the crossing of 1 is interpolated from both sides.
            sides = []
            for gamma in (edge * (1 - 1e-5), edge * (1 + 1e-5)):
                near = two_impact_orbits(gamma, r)[0]
                orbit = kz.solve_orbit(model.with_values(gamma=gamma), near.state_at(2 * np.pi))
                sides.append(float(np.abs(orbit.multipliers[0])) - 1)
            located = edge * (1 - 1e-5) + 2e-5 * edge * sides[0] / (sides[0] - sides[1])
            gap = abs(located / edge - 1)
            boundary_gap, at_edge = max(boundary_gap, gap), f"{gap:.1e}"
        rows.append((r, f"{np.abs(exact.multipliers).max():.6f}", *gaps, f"{edge:.9f}", at_edge))
    header = ["r", "largest multiplier", "shooting: point", "multipliers", "collocation: point", "multipliers",
              "stable below γ =", "located - closed form"]  # fmt: skip
    summary = comparison_table(
        [
            Comparison("symmetric two-impact orbits found", "none", len(rows), "9", len(rows) == 9),
            Comparison("largest error of the points", "-", worst_point, "1e-10", worst_point < 1e-10),
            Comparison("largest error of the multipliers", "-", worst_multiplier, "1e-8", worst_multiplier < 1e-8),
            Comparison("stability boundary, relative error", "-", boundary_gap, "1e-7", boundary_gap < 1e-7),
        ]
    )
    return f"# Pin joint with clearance\n\n{summary}\n\nγ = 1, errors against the closed form:\n\n" + markdown_table(
        header, rows
    )
