"""The colliding cart without an integrator: its flights and contacts are written down, crossings are roots of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, root

Array = NDArray[np.float64]

STIFFNESS, DAMPING = 30.0, 2.0
LOOKS = 64
"""Instants per stretch of π/8 at which a crossing is looked for."""


def motion(x: float, u: float, t: float, gamma: float, side: int) -> tuple:
    """Position and speed as functions of the time after (x, u) at t; side: 0 free, ±1 in contact with that buffer."""
    if side == 0:
        slope = u + gamma * np.cos(t)
        return (
            lambda s: x + slope * (s - t) - gamma * (np.sin(s) - np.sin(t)),
            lambda s: slope - gamma * np.cos(s),
        )
    decay, turn = DAMPING / 2, np.sqrt(STIFFNESS - DAMPING**2 / 4)
    # y = x - side follows y'' + b y' + k y = γ sin t.
    response = gamma / complex(STIFFNESS - 1, DAMPING)
    particular, its_speed = (lambda s: (response * np.exp(1j * s)).imag), (lambda s: (response * np.exp(1j * s)).real)
    first = x - side - particular(t)
    second = (u - its_speed(t) + decay * first) / turn

    def place(s):
        r = s - t
        return side + np.exp(-decay * r) * (first * np.cos(turn * r) + second * np.sin(turn * r)) + particular(s)

    def speed(s):
        r = s - t
        own = (turn * second - decay * first) * np.cos(turn * r) - (turn * first + decay * second) * np.sin(turn * r)
        return np.exp(-decay * r) * own + its_speed(s)

    return place, speed


def after(state: Array, gamma: float, periods: int) -> tuple[Array, int]:
    """The state after some excitation periods, and how often a buffer was met or left."""
    (x, u), t, end = state, 0.0, 2 * np.pi * periods
    side = int(np.sign(x)) if abs(x) > 1 else 0
    crossings = 0
    while t < end:
        place, speed = motion(x, u, t, gamma, side)
        later = min(t + np.pi / 8, end)
        times = np.linspace(t, later, LOOKS + 1)
        # Outside of what the present side allows, from the second instant on.
        beyond = np.abs(place(times)) - 1
        out = beyond > 0 if side == 0 else beyond < 0
        out[0] = False
        hit = np.flatnonzero(out)
        if not hit.size:
            x, u, t = float(place(later)), float(speed(later)), later
            continue
        low, high = times[hit[0] - 1], times[hit[0]]
        wall = float(np.sign(place(high))) if side == 0 else float(side)
        if hit[0] == 1:
            # The start itself may be on the border, to rounding.
            low = low + 1e-9 * (high - low)
        t = float(brentq(lambda s, place=place, wall=wall: place(s) - wall, low, high, xtol=1e-15, rtol=1e-15))
        x, u = wall, float(speed(t))
        side = int(wall) if side == 0 else 0
        crossings += 1
    return np.array([x, u]), crossings


def fold(point: Array, value: float, vector: Array, periods: int, step: float) -> float:
    """The extreme of γ along the orbits next to a point: solved for at five places, on the quartic through them.

    point, value, vector: near which place, and along which direction, to look.
    """
    places, values, counts = step * np.arange(-2, 3), [], set()
    for s in places:

        def equations(z: Array, s: float = s) -> Array:
            end, _ = after(z[:2], z[2], periods)
            return np.append(end - z[:2], vector @ (z[:2] - point) - s)

        found = root(equations, np.append(point + s * vector / (vector @ vector), value), tol=1e-13)
        if np.abs(equations(found.x)).max() > 1e-9:
            raise RuntimeError(f"No orbit at {s:g} from the fold: {found.message}")
        values.append(found.x[2])
        counts.add(after(found.x[:2], found.x[2], periods)[1])
    if len(counts) != 1:
        raise RuntimeError(f"The sequence of contacts changes within {step:g} of the fold: {counts}.")
    curve = np.polynomial.Polynomial.fit(places, values, 4)
    inside = [z.real for z in curve.deriv().roots() if abs(z.imag) < 1e-9 and abs(z.real) < 2 * step]
    return float(curve(min(inside, key=abs)))
