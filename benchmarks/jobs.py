"""Single jobs beside plain programs of NumPy and SciPy: section, tangents, events, delay, returns, census.

The peers are what a careful user writes in a page of code: DOP853 at the tolerance that gives about the same error,
its own root finding for events, `fsolve` for orbits, a k-d tree for neighbours. Errors are distances from a run of the
other program at its tightest tolerance, over a time in which chaos has not yet lost the digits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Contender, markdown_table, measure, ratio_table
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.optimize import fsolve
from scipy.spatial import KDTree

import kapitza as kz
from kapitza.base.angles import wrap

Array = NDArray[np.float64]

SIGMA, RHO, BETA = 10.0, 28.0, 8.0 / 3.0
START = np.array([1.0, 2.0, 30.0])
ALIKE, TIGHT = 1e-11, 2.3e-14
"""Tolerances of DOP853: the one whose error is about ours at 1e-12, and the smallest it takes."""

REPEATS = 2
POINTS = 10**6
LARGEST_PERIOD = 5
STARTS = 60


def main() -> str:
    parts = [section(), tangents(), events(), delay(), returns(), census()]
    return (
        "# Single jobs beside plain programs\n\nSeconds of processor time, every program measured alike: one run to "
        f"warm up, then the best of {REPEATS}.\n\n" + "\n\n".join(parts)
    )


def beside(heading: str, ours: Callable[[], Any], theirs: Callable[[], Any], errors: tuple[float, float]) -> str:
    """Processor time of two programs on one job."""
    table = ratio_table(
        Contender("Kapitza", measure(ours, REPEATS).seconds, errors[0], note="tolerance 1e-12"),
        [Contender("SciPy DOP853", measure(theirs, REPEATS).seconds, errors[1], note=f"tolerance {ALIKE:g}")],
    )
    return f"## {heading}\n\n{table}"


# -- Lorenz: sections and tangents ------------------------------------------------------------------------------------


def lorenz_rates(t: float, x: Array) -> list[float]:
    return [SIGMA * (x[1] - x[0]), x[0] * (RHO - x[2]) - x[1], x[0] * x[1] - BETA * x[2]]


def lorenz() -> kz.Model:
    return kz.library.lorenz().with_values(sigma=SIGMA, rho=RHO, beta=BETA)


def section() -> str:
    flow, fine = kz.Flow(lorenz(), tolerance=1e-12), kz.Flow(lorenz(), tolerance=1e-15)

    def scipy_section(count: int, tolerance: float) -> Array:
        def surface(t: float, x: Array) -> float:
            return x[2] - 27.0

        surface.direction = 1
        length = 1.2 * count
        found = solve_ivp(
            lorenz_rates, (0.0, length), START, "DOP853", events=surface, rtol=tolerance, atol=tolerance
        )  # fmt: skip
        return found.y_events[0][:count]

    def our_section(count: int, used: kz.Flow) -> Array:
        return np.asarray(used.section(START, "z - 27", count).states)

    few = 8
    errors = (
        float(np.abs(our_section(few, flow) - scipy_section(few, TIGHT)).max()),
        float(np.abs(scipy_section(few, ALIKE) - our_section(few, fine)).max()),
    )
    return beside(
        "Section: 1000 crossings of z = 27 by Lorenz's flow",
        lambda: our_section(1000, flow), lambda: scipy_section(1000, ALIKE), errors,
    )  # fmt: skip


def tangents() -> str:
    flow, fine = kz.Flow(lorenz(), tolerance=1e-12), kz.Flow(lorenz(), tolerance=1e-15)
    starts = START + np.random.default_rng(0).uniform(-3.0, 3.0, (100, 3))

    def rates(t: float, y: Array) -> Array:
        x, matrix = y[:3], y[3:].reshape(3, 3)
        slope = np.array([[-SIGMA, SIGMA, 0.0], [RHO - x[2], -1.0, -x[0]], [x[1], x[0], -BETA]])
        return np.concatenate([lorenz_rates(t, x), (slope @ matrix).ravel()])

    def scipy_tangents(tolerance: float) -> Array:
        ends = [
            solve_ivp(rates, (0.0, 1.0), [*x, *np.eye(3).ravel()], "DOP853", rtol=tolerance, atol=tolerance).y[3:, -1]
            for x in starts
        ]
        return np.array(ends).reshape(-1, 3, 3)

    def our_tangents(used: kz.Flow) -> Array:
        jacobians = used.propagate_many(starts, 0.0, 1.0, tangents=True).jacobian
        assert jacobians is not None
        return jacobians

    errors = (
        float(np.abs(our_tangents(flow) - scipy_tangents(TIGHT)).max()),
        float(np.abs(scipy_tangents(ALIKE) - our_tangents(fine)).max()),
    )
    return beside(
        "Tangents: ∂x(1)/∂x(0) of 100 starts of Lorenz's flow",
        lambda: our_tangents(flow), lambda: scipy_tangents(ALIKE), errors,
    )  # fmt: skip


# -- impacts and delay ------------------------------------------------------------------------------------------------


def events() -> str:
    model = kz.library.pin_joint()
    flow, fine = kz.Flow(model, tolerance=1e-12), kz.Flow(model, tolerance=1e-15)
    gamma, r = model.values["gamma"], model.values["r"]
    start = model.state()

    def scipy_motion(length: float, tolerance: float) -> Array:
        def hits(side: int) -> Any:
            def wall(t: float, x: Array) -> float:
                return 1.0 - side * x[0]

            wall.terminal, wall.direction = True, -1
            return wall

        walls, t, x = [hits(1), hits(-1)], 0.0, start
        while t < length:
            found = solve_ivp(
                lambda t, x: [x[1], gamma * np.sin(t)], (t, length), x, "DOP853", events=walls,
                rtol=tolerance, atol=tolerance,
            )  # fmt: skip
            t, x = float(found.t[-1]), found.y[:, -1]
            if found.status == 1:
                x = np.array([np.sign(x[0]) * (1 - 1e-15), -r * x[1]])
        return x

    def our_motion(length: float, used: kz.Flow) -> Array:
        return used.propagate(start, 0.0, length, tangents=False).state

    short, long = 20.0, 200 * 2 * np.pi
    errors = (
        float(np.abs(our_motion(short, flow) - scipy_motion(short, TIGHT)).max()),
        float(np.abs(scipy_motion(short, ALIKE) - our_motion(short, fine)).max()),
    )
    return beside(
        "Events: 200 periods of a pin between rigid walls",
        lambda: our_motion(long, flow), lambda: scipy_motion(long, ALIKE), errors,
    )  # fmt: skip


def delay() -> str:
    model = kz.Model.from_equations(
        "x' = beta*x(t - tau)/(1 + x(t - tau)**10) - gamma*x",
        parameters={"beta": 0.2, "gamma": 0.1, "tau": 17.0}, start={"x": 1.2}, name="mackey_glass",
    )  # fmt: skip
    flow, fine = kz.Flow(model, tolerance=1e-12), kz.Flow(model, tolerance=1e-15)

    def scipy_motion(segments: int, tolerance: float) -> float:
        def past(t: float) -> float:
            return 1.2

        x = np.array([1.2])
        for k in range(segments):
            found = solve_ivp(
                lambda t, x, before=past: 0.2 * before(t - 17.0) / (1 + before(t - 17.0) ** 10) - 0.1 * x,
                (17.0 * k, 17.0 * (k + 1)), x, "DOP853", dense_output=True, rtol=tolerance, atol=tolerance,
            )  # fmt: skip
            past, x = (lambda t, s=found.sol: s(t)[0]), found.y[:, -1]
        return float(x[0])

    def our_motion(segments: int, used: kz.Flow) -> float:
        return float(used.propagate({"x": 1.2}, 0.0, 17.0 * segments, tangents=False).state[0])

    errors = (
        abs(our_motion(10, flow) - scipy_motion(10, TIGHT)),
        abs(scipy_motion(10, ALIKE) - our_motion(10, fine)),
    )
    return beside(
        "Delay: 60 delays of the Mackey-Glass equation",
        lambda: our_motion(60, flow), lambda: scipy_motion(60, ALIKE), errors,
    )  # fmt: skip


# -- orbits -----------------------------------------------------------------------------------------------------------


def henon_points() -> Array:
    side = 1000
    state = np.random.default_rng(0).uniform(-0.1, 0.1, (2, side))
    points = np.empty((POINTS // side, 2, side))
    for k in range(-100, len(points)):
        if k >= 0:
            points[k] = state
        state = np.array([1 - 1.4 * state[0] ** 2 + state[1], 0.3 * state[0]])
    return points


def plain_returns(points: Array) -> list[tuple[int, Array]]:
    """Close returns, an affine map of the 20 points around each, its fixed point; one orbit is kept once."""
    tree_points = points[:-LARGEST_PERIOD].transpose(0, 2, 1).reshape(-1, 2)
    tree, found = KDTree(tree_points), []
    for p in range(1, LARGEST_PERIOD + 1):
        later = points[p : len(points) - LARGEST_PERIOD + p].transpose(0, 2, 1).reshape(-1, 2)
        close = np.flatnonzero(np.abs(later - tree_points).max(axis=1) < 2e-3)
        close = close[np.unique(np.round(tree_points[close], 2), axis=0, return_index=True)[1]]
        if not close.size:
            continue
        for near in tree.query(tree_points[close], 20)[1]:
            x = np.column_stack([np.ones(20), tree_points[near]])
            answer = np.linalg.lstsq(x, later[near], rcond=None)[0]
            point = np.linalg.solve(np.eye(2) - answer[1:].T, answer[0])
            if np.abs(point - tree_points[near[0]]).max() < 0.02:
                known = (q for d, q in found if p % d == 0)
                if not any(np.abs(cycle - point).max(axis=1).min() < 0.01 for cycle in known):
                    cycle = [point]
                    for _ in range(p - 1):
                        where = tree.query(cycle[-1])[1]
                        cycle.append(points[1:].transpose(0, 2, 1).reshape(-1, 2)[where])
                    found.append((p, np.array(cycle)))
    return found


def returns() -> str:
    points = henon_points()
    count, side = points.shape[0], points.shape[2]
    rows = points.transpose(2, 0, 1).reshape(-1, 2)
    record = kz.Record.from_arrays(
        (np.arange(count) + (count + 1.0) * np.arange(side)[:, None]).ravel(),
        {"x": rows[:, 0], "y": rows[:, 1]},
        segment=np.repeat(np.arange(side), count),
        period=1.0,
    )
    here = measure(lambda: kz.find_orbits(record, max_period=LARGEST_PERIOD), REPEATS)
    there = measure(lambda: plain_returns(points), REPEATS)
    ours, found, theirs, plain = here.seconds, here.answer, there.seconds, there.answer
    exact = (-0.7 + np.sqrt(0.49 + 5.6)) / 2.8
    first = [o for o in found if len(o.points) == 1 and o.points[0, 0] > 0]
    errors = abs(first[0].points[0, 0] - exact), min(abs(c[0, 0] - exact) for p, c in plain if p == 1)
    table = markdown_table(
        ["program", "time [s]", "error of the fixed point", "ratio", "orbits of periods 1-5"],
        [
            ("Kapitza", f"{ours:.3g}", f"{errors[0]:.1e}", "1", counts([len(o.points) for o in found])),
            ("NumPy, SciPy KDTree", f"{theirs:.3g}", f"{errors[1]:.1e}", f"{theirs / ours:.3g}",
             counts([p for p, _ in plain])),
        ],
    )  # fmt: skip
    return (
        f"## Returns in 10^6 points of the Hénon map, without noise\n\n{table}\n\nThe map has 1, 1, 0, 1, 0 orbits of "
        "periods 1 to 5 on its attractor. Kapitza's time includes judging the noise, Newton's method on cubic maps, "
        "multipliers and their covariances."
    )


def counts(periods: list[int]) -> str:
    return ", ".join(str(periods.count(p)) for p in range(1, LARGEST_PERIOD + 1))


def census() -> str:
    model = kz.library.parametric_pendulum()
    period = float(model.period or 1.0)
    flow = kz.Flow(model)
    compiled = flow.rates

    def after(x: Array) -> Array:
        found = solve_ivp(
            lambda t, y: compiled(y, t), (0.0, period), x, "DOP853", rtol=1e-9, atol=1e-9
        )  # fmt: skip
        return found.y[:, -1]

    def gap(x: Array) -> Array:
        rest = after(x) - x
        return np.array([wrap(rest[0]), rest[1]])

    def plain() -> list[Array]:
        random, found = np.random.default_rng(0), []
        for _ in range(STARTS):
            start = random.uniform([-np.pi, -15.0], [np.pi, 15.0])
            x, _, status, _ = fsolve(gap, start, full_output=True)
            point = np.array([wrap(x[0]), x[1]])
            distances = [np.hypot(wrap(point[0] - q[0]), point[1] - q[1]) for q in found]
            if status == 1 and np.abs(gap(x)).max() < 1e-7 and min(distances, default=1.0) > 1e-4:
                found.append(point)
        return found

    here, there = measure(lambda: kz.find_orbits(model, max_period=1), REPEATS), measure(plain, REPEATS)
    ours, orbits, theirs, found = here.seconds, here.answer, there.seconds, there.answer
    table = markdown_table(
        ["program", "time [s]", "starts", "ratio", "orbits of period 1"],
        [
            ("Kapitza", f"{ours:.3g}", "1024", "1", str(len(orbits))),
            ("SciPy fsolve on DOP853", f"{theirs:.3g}", str(STARTS), f"{theirs / ours:.3g}", str(len(found))),
        ],
    )
    return (
        f"## Census: orbits of period 1 of the parametric pendulum\n\n{table}\n\nThe plain program has no multipliers, "
        "no certificates and no partners under symmetry; its ratio is for its fewer starts."
    )
