"""Colliding cart (PERIODIC section 6.2): periods 1, 2, 4, and one orbit followed over six decades of wall stiffness."""

from __future__ import annotations

import time

import numpy as np
from harness import Comparison, comparison_table, markdown_table

import kapitza as kz
from kapitza.errors import Status

STIFFNESSES = (2.6, 3.0, 5.0, 10.0, 30.0, 45.0, 100.0, 1e3, 3e3, 1e4, 1e5, 1e6)


def settled(model: kz.Model, period: int) -> kz.PeriodicOrbit:
    """The attractor that the motion reaches from its start, corrected by shooting."""
    states = kz.Flow(model).strobe([0.3, 0.2], 400).states
    return kz.solve_orbit(model, states[-period:], period)


def periods() -> str:
    rows = []
    for gamma, period in ((1.0, 1), (2.2, 2), (2.5, 4)):
        model = kz.library.colliding_cart().with_values(gamma=gamma)
        orbit = settled(model, period)
        other = kz.solve_orbit(model, orbit, method=kz.Collocation())
        gap = float(np.abs(orbit.points - other.points).max())
        rows.append(
            (period, gamma, orbit.stability, f"{abs(orbit.multipliers[0]):.6f}", f"{orbit.closure:.1e}", f"{gap:.1e}")
        )
    header = ["period", "γ", "stability", "largest multiplier", "closure", "collocation - shooting"]
    return markdown_table(header, rows)


def is_symmetric(orbit: kz.PeriodicOrbit) -> bool:
    """x(t + π) = -x(t): the orbit that meets both walls alike, from which a pair branches off at a multiplier of 1."""
    start, half = orbit.loop(np.array([0.0, 0.5]))
    return bool(np.abs(start + half).max() < 1e-6)


def followed(
    method: kz.MultipleShooting | kz.Collocation, first: kz.PeriodicOrbit, values: np.ndarray
) -> dict[float, tuple]:
    """Each symmetric orbit is the guess of the next; (orbit, seconds) at every stiffness, up to the first failure."""
    found, guess = {}, first
    for k in values:
        model = kz.library.colliding_cart().with_values(k=float(k))
        begin = time.perf_counter()
        orbit = kz.solve_orbit(model, guess, method=method, throw=False)
        found[float(k)] = (orbit, time.perf_counter() - begin)
        if not orbit.status.ok:
            break
        if is_symmetric(orbit):
            guess = orbit
    return found


def walk() -> tuple[dict[float, tuple], dict[float, tuple]]:
    """From k = 30 down and up, in small factors, with the stiffnesses of the table among them."""
    start = kz.solve_orbit(kz.library.colliding_cart(), [-0.5033, 0.49])
    tables = []
    # Four even nodes keep the symmetry of their guess, so that Newton does not leave at the branching point.
    for method in (kz.MultipleShooting(nodes=4), kz.Collocation()):
        table = {}
        for end, count in ((2.6, 40), (1e6, 12)):
            values = np.geomspace(30.0, end, count)
            marks = [k for k in STIFFNESSES if min(30.0, end) <= k <= max(30.0, end)]
            values = np.array(sorted({*values, *marks}, reverse=end < 30))
            table |= followed(method, start, values)
        tables.append(table)
    return tables[0], tables[1]


def lower_end() -> tuple[float, float]:
    """The fold at which the orbit ends towards soft walls: k where (1 - μ)², linear in k near a fold, falls to zero.

    Also the scatter of its slope over the last three steps, which is small for a fold and for nothing else.
    """
    orbit, k, step = kz.solve_orbit(kz.library.colliding_cart(), [-0.5033, 0.49]), 30.0, 0.9
    passed = []
    while step < 1 - 2e-6:
        trial = kz.solve_orbit(kz.library.colliding_cart().with_values(k=k * step), orbit, throw=False)
        if trial.status is Status.CONVERGED and len(trial.solver.events) == 4:
            orbit, k = trial, k * step
            passed.append((k, (1 - float(np.abs(orbit.multipliers[0]))) ** 2))
        else:
            step = 1 - (1 - step) / 2
    last = np.array(passed[-4:])
    slopes = np.diff(last[:, 1]) / np.diff(last[:, 0])
    return float(last[-1, 0] - last[-1, 1] / slopes[-1]), float(np.ptp(slopes) / slopes[-1])


def differences_success() -> list[tuple]:
    """How many of 20 grids of finite differences converge from the shooting orbit itself, and how wrong they are."""
    rows = []
    grids = range(101, 501, 20)
    orbit = kz.solve_orbit(kz.library.colliding_cart().with_values(k=3.0), [-1.276, -1.155])
    for k in (3.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 100.0, 300.0, 1000.0, 1e4):
        model = kz.library.colliding_cart().with_values(k=k)
        orbit = kz.solve_orbit(model, orbit)
        errors = []
        for points in grids:
            found = kz.solve_orbit(model, orbit, method=kz.Differences(order=2, points=points), throw=False)
            if found.status.ok:
                errors.append(float(np.abs(found.points - orbit.points).max()))
        share = len(errors) / len(grids)
        rows.append((f"{k:g}", f"{100 * share:.0f} %", f"{np.median(errors):.1e}" if errors else "-"))
    return rows


def main() -> str:
    shot, collocated = walk()
    rows = []
    for k in STIFFNESSES:
        orbit, seconds = shot.get(k, (None, np.nan))
        other, other_seconds = collocated.get(k, (None, np.nan))
        ok = orbit is not None and other is not None and orbit.status.ok and other.status.ok
        gap = f"{np.abs(orbit.points - other.points).max():.1e}" if ok else "-"
        largest = f"{abs(orbit.multipliers[0]):.4f}" if ok else "-"
        rows.append((f"{k:g}", largest, gap, f"{1e3 * seconds:.0f}", f"{1e3 * other_seconds:.0f}"))
    stiffness = markdown_table(
        ["k", "largest multiplier", "collocation - shooting", "shooting [ms]", "collocation [ms]"], rows
    )
    lowest, scatter = lower_end()
    agreement = [float(r[2]) if r[2] != "-" else np.inf for r in rows]
    grazing = []
    for k in (1.0, 30.0, 1e6):
        model = kz.library.colliding_cart().with_values(k=k)
        found = kz.solve_orbit(model, [0.0, -1.0], throw=False)
        grazing.append(found.status is Status.GRAZING)
    census = kz.find_orbits(
        kz.library.colliding_cart(), max_period=1, region={"x": (-1.5, 1.5), "x'": (-3, 3)}, starts=600, rounds=4
    )
    listed = markdown_table(
        ["x", "x'", "status", "stability"],
        [(f"{o.points[0, 0]:.6f}", f"{o.points[0, 1]:.6f}", o.status.value, o.stability) for o in census],
    )
    limits = differences_success()
    coarse = markdown_table(["k", "grids that converge", "median error of the section point"], limits)
    summary = comparison_table(
        [
            Comparison("shooting converges to k =", "3000", "1e6", "1e6", bool(np.isfinite(agreement[-1]))),
            Comparison("collocation agrees to k =", "-", "1e6", "1e6", max(agreement) < 1e-6),
            Comparison("discretisation: grids that converge at k = 45", "stops here", limits[5][1]),
            Comparison(
                "orbit with one contact per wall from k =",
                "-",
                lowest,
                "1",
                lowest <= 1.0,
                f"a fold: (1 - μ)² falls to zero there with a slope constant to {100 * scatter:.0f} %; none below",
            ),
            Comparison("x = -sin t named as grazing at k = 1, 30, 1e6", "-", str(grazing), "all", all(grazing)),
        ]
    )
    return "\n\n".join(
        [
            "# Colliding cart",
            summary,
            "Periods at k = 30, b = 2, ω = 1 (the document does not give its values of γ):",
            periods(),
            "The orbit with one contact per wall and period, b = 2, γ = ω = 1, walked from k = 30 in both directions:",
            stiffness,
            "Period-1 orbits at k = 30 in |x| < 1.5, |x'| < 3 (the last touches the walls by 5e-4 and is unstable):",
            listed,
            "Finite differences of order 2 on 20 even grids of 101 to 481 points, started from the orbit itself:",
            coarse,
        ]
    )
