"""Steps along a branch: Kapitza by shooting, on the half map and by collocation, beside SciPy and AUTO-07p's time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import markdown_table
from scipy.integrate import solve_ivp

import kapitza as kz
from kapitza.continuation import Branch, Kind

AUTO = 2.7e-3
"""Seconds per step of AUTO-07p on the HYBRID branch (40 × 4 collocation), as quoted with the task."""


def best(work: Callable[[], Branch], repeats: int = 3) -> tuple[float, Branch]:
    """Shortest process time per point: other programs on the machine count little."""
    shortest, branch = float("inf"), work()
    for _ in range(repeats):
        begin = time.process_time()
        branch = work()
        shortest = min(shortest, (time.process_time() - begin) / len(branch))
    return shortest, branch


def hybrid() -> tuple[list[tuple[Any, ...]], float]:
    model, rest = kz.library.pendulum_on_spring(), {"y": 0, "theta": 0, "y'": 0, "theta'": 0}
    hanging = kz.follow(model.with_values(a=2.4), rest, "a", (2.3, 3.0), direction=1)
    (doubling,) = hanging.of(Kind.DOUBLING)
    whole, branch = best(lambda: kz.switch_branch(doubling, (0.5, 4.4)))
    start = branch.orbit(-1)
    upper = model.with_values(a=float(branch.values[-1, 0]))
    half, mirrored = best(lambda: kz.follow(upper, start, "a", (0.5, 4.5), half_map=True, direction=-1))
    method = kz.Collocation(elements=20)
    elements, fixed = best(lambda: kz.follow(upper, start, "a", (1.7, 4.5), method=method, direction=-1), 1)
    flow = kz.Flow(upper, wrt=("a",))
    begin = time.process_time()
    for _ in range(50):
        flow.propagate(start.points[0], 0.0, start.period, tangents=True)
    unit = (time.process_time() - begin) / 50
    rows = [
        ("HYBRID, shooting", len(branch), 1e3 * whole, 1.35, AUTO / whole, whole / unit),
        ("HYBRID, half map", len(mirrored), 1e3 * half, 1.0, AUTO / half, half / unit),
        ("HYBRID, collocation 40 × 4", len(fixed), 1e3 * elements, 4.05, AUTO / elements, elements / unit),
    ]
    return rows, unit


class Peer:
    """Pseudo-arclength for Duffing as a SciPy user writes it: DOP853 with variations, Newton at every step."""

    def __init__(self, force: float = 0.3):
        self.force = force

    def map(self, x: np.ndarray, omega: float) -> tuple[np.ndarray, np.ndarray]:
        """x(T) and [M, dx(T)/dω], time scaled to 2π so that ω is an ordinary parameter."""

        def rates(s: float, z: np.ndarray) -> np.ndarray:
            u, v = z[0], z[1]
            f = -0.1 * v - u - u**3 + self.force * np.cos(s)
            tangents = z[2:].reshape(2, 3)
            slope = np.array([[0.0, 1.0], [-1 - 3 * u**2, -0.1]])
            change = slope @ tangents / omega
            change[:, 2] -= np.array([v, f]) / omega**2
            return np.concatenate([[v / omega, f / omega], change.ravel()])

        start = np.concatenate([x, np.eye(2, 3).ravel()])
        end = solve_ivp(rates, (0, 2 * np.pi), start, method="DOP853", rtol=1e-10, atol=1e-12).y[:, -1]
        return end[:2], end[2:].reshape(2, 3)

    def follow(self, x: np.ndarray, omega: float, stop: float, step: float = 0.1) -> np.ndarray:
        z, tangent, points = np.append(x, omega), np.array([0.0, 0.0, 1.0]), []
        while z[2] <= stop and len(points) < 200:
            guess = z + step * tangent if points else z
            target = tangent @ guess
            for _ in range(8):
                end, slopes = self.map(guess[:2], guess[2])
                jacobian = np.vstack([slopes - np.eye(2, 3), tangent])
                change = np.linalg.solve(jacobian, -np.append(end - guess[:2], tangent @ guess - target))
                guess = guess + change
                if np.abs(change).max() < 1e-9:
                    break
            else:
                step /= 2
                continue
            z = guess
            new = np.linalg.solve(jacobian, np.array([0.0, 0.0, 1.0]))
            tangent = new / np.linalg.norm(new)
            points.append(z)
            step = min(0.15, step * 1.2)
        return np.array(points)


def duffing() -> list[tuple[Any, ...]]:
    model = kz.Model.from_equations(
        "x'' + 0.1*x' + x + x**3 = B*cos(omega*t)",
        parameters={"B": 0.3, "omega": 0.8}, period="2*pi/omega", start={"x": 0.3, "x'": 0.0}, name="duffing",
    )  # fmt: skip
    orbit = kz.solve_orbit(model)
    ours, branch = best(lambda: kz.follow(model, orbit, "omega", (0.8, 2.2), direction=1))
    begin = time.process_time()
    points = Peer().follow(orbit.points[0], 0.8, 2.2)
    peer = (time.process_time() - begin) / len(points)
    return [
        ("Duffing in ω, Kapitza", len(branch), 1e3 * ours, "", 1.0),
        ("Duffing in ω, SciPy DOP853 continuation", len(points), 1e3 * peer, "", peer / ours),
    ]


def main() -> str:
    rows, unit = hybrid()
    table = markdown_table(
        [
            "branch",
            "points",
            "ms per point",
            "target [ms]",
            "AUTO-07p 2.7 ms over ours",
            "in propagations with tangents",
        ],
        [(n, c, f"{t:.2f}", target, f"{ratio:.2f}", f"{share:.1f}") for n, c, t, target, ratio, share in rows],
    )
    other = markdown_table(
        ["program", "points", "ms per point", "", "ratio"],
        [(n, c, f"{t:.2f}", x, f"{r:.1f}") for n, c, t, x, r in duffing()],
    )
    return "\n\n".join(
        [
            "# Steps along a branch",
            "Process time per point; multipliers, test functions, located points and their certificates included; "
            f"one propagation of the HYBRID orbit with tangents took {1e3 * unit:.2f} ms in the same run.",
            table,
            "The time of AUTO-07p is the one quoted for this branch, from another machine.",
            other,
        ]
    )
