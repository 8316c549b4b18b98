"""Random switches inside switches, and a small-step reference in plain Python that knows no events."""

from __future__ import annotations

import math
import re

import numpy as np
from scipy.integrate import solve_ivp

END = 6.0
TIMES = np.linspace(0.0, END, 25)
CONSTANTS = ("a", "b", "c")

SHAPES = (
    "abs({0} - {k})",
    "max({0}, {k})",
    "min(abs({0}), {k})",
    "max({0}, {1})",
    "min({0}, {1}, {k})",
    "max({0}, {1}, {2})",
    "max(abs({0}) - {k}, 0)",  # a gap
    "max(-{k}, min({k}, {0}))",  # a saturation
    "min(abs({0}), {k})*sign({0})",  # the same of a magnitude
    "Piecewise(({0} - {k}, {0} > {k}), ({0} + {k}, {0} < -{k}), (0, True))",  # backlash
    "({0})*Heaviside({0})",
    "({k}*{0} + abs({1}))",
    "Piecewise((max({0}, {k}), {0} > {1}), (max({1}, {k}), True))",
)


def term(rng: np.random.Generator, depth: int) -> str:
    """A continuous piecewise-smooth expression in x, x' and t with switches nested up to `depth`."""
    k = str(rng.choice(CONSTANTS))
    if depth == 0:
        return str(rng.choice(["x", "x'", f"{k}*cos(1.3*t)", f"(x - {k}*x')", "sin(x)"]))
    inner = [term(rng, depth - 1) for _ in range(3)]
    return str(rng.choice(SHAPES)).format(*inner, k=k)


def oscillator(rng: np.random.Generator) -> str:
    """Acceleration of a forced oscillator with a random nested force."""
    return f"-x - 0.3*x' + cos(1.3*t) - 0.5*({term(rng, int(rng.integers(2, 4)))})"


def reference(text: str, values: dict[str, float], start: np.ndarray, times: np.ndarray = TIMES) -> np.ndarray:
    """States (N, 2) by small Runge-Kutta steps on the expression as Python understands it."""
    known = {
        "cos": math.cos,
        "sin": math.sin,
        "abs": abs,
        "max": max,
        "min": min,
        "sign": lambda s: (s > 0) - (s < 0),
        "Heaviside": lambda s: (s > 0) - 0.5 * (s == 0),
        "Piecewise": lambda *cases: next(value for value, holds in cases if holds),
    }
    # The expressions are made above; Python's own arithmetic is the independent judge.
    source = re.sub(r"\bx'", "v", text)
    right = eval(f"lambda t, x, v: {source}", {**known, **values})  # noqa: S307
    found = solve_ivp(
        lambda t, y: (y[1], right(t, *y.tolist())),
        (times[0], times[-1]),
        start,
        "DOP853",
        times,
        rtol=1e-9,
        atol=1e-11,
        max_step=0.05,
    )
    return found.y.T
