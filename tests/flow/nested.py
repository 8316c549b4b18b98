"""Random switches inside switches, and a small-step reference in plain Python that knows no events.

Every expression is built twice at once: as text for the model, and as a Python function of (t, x, x', constants) put
together from the same parts. Python's own abs, max and comparisons are the independent judge.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp

END = 6.0
TIMES = np.linspace(0.0, END, 25)
CONSTANTS = ("a", "b", "c")

Values = dict[str, float]
Value = Callable[[float, float, float, Values], float]


@dataclass(frozen=True)
class Term:
    """An expression as text and as a function of t, x, x' and the constants."""

    text: str
    value: Value


def _sign(s: float) -> float:
    return float((s > 0) - (s < 0))


def _backlash(s: float, k: float) -> float:
    return s - k if s > k else s + k if s < -k else 0.0


SHAPES: tuple[tuple[str, Callable[[float, float, float, float], float]], ...] = (
    ("abs({0} - {k})", lambda p, q, r, k: abs(p - k)),
    ("max({0}, {k})", lambda p, q, r, k: max(p, k)),
    ("min(abs({0}), {k})", lambda p, q, r, k: min(abs(p), k)),
    ("max({0}, {1})", lambda p, q, r, k: max(p, q)),
    ("min({0}, {1}, {k})", lambda p, q, r, k: min(p, q, k)),
    ("max({0}, {1}, {2})", lambda p, q, r, k: max(p, q, r)),
    ("max(abs({0}) - {k}, 0)", lambda p, q, r, k: max(abs(p) - k, 0.0)),  # a gap
    ("max(-{k}, min({k}, {0}))", lambda p, q, r, k: max(-k, min(k, p))),  # a saturation
    ("min(abs({0}), {k})*sign({0})", lambda p, q, r, k: min(abs(p), k) * _sign(p)),  # the same of a magnitude
    (
        "Piecewise(({0} - {k}, {0} > {k}), ({0} + {k}, {0} < -{k}), (0, True))",
        lambda p, q, r, k: _backlash(p, k),
    ),
    ("({0})*Heaviside({0})", lambda p, q, r, k: p if p > 0 else 0.0),
    ("({k}*{0} + abs({1}))", lambda p, q, r, k: k * p + abs(q)),
    (
        "Piecewise((max({0}, {k}), {0} > {1}), (max({1}, {k}), True))",
        lambda p, q, r, k: max(p, k) if p > q else max(q, k),
    ),
)


def _leaf(rng: np.random.Generator, k: str) -> Term:
    leaves = (
        Term("x", lambda t, x, v, c: x),
        Term("x'", lambda t, x, v, c: v),
        Term(f"{k}*cos(1.3*t)", lambda t, x, v, c: c[k] * math.cos(1.3 * t)),
        Term(f"(x - {k}*x')", lambda t, x, v, c: x - c[k] * v),
        Term("sin(x)", lambda t, x, v, c: math.sin(x)),
    )
    return leaves[rng.integers(len(leaves))]


def term(rng: np.random.Generator, depth: int) -> Term:
    """A continuous piecewise-smooth expression in x, x' and t with switches nested up to `depth`."""
    k = str(rng.choice(CONSTANTS))
    if depth == 0:
        return _leaf(rng, k)
    inner = [term(rng, depth - 1) for _ in range(3)]
    template, combine = SHAPES[rng.integers(len(SHAPES))]
    parts = [part.value for part in inner]

    def value(t: float, x: float, v: float, c: Values) -> float:
        p, q, r = (part(t, x, v, c) for part in parts)
        return combine(p, q, r, c[k])

    return Term(template.format(*(part.text for part in inner), k=k), value)


def oscillator(rng: np.random.Generator) -> Term:
    """Acceleration of a forced oscillator with a random nested force."""
    force = term(rng, int(rng.integers(2, 4)))

    def value(t: float, x: float, v: float, c: Values) -> float:
        return -x - 0.3 * v + math.cos(1.3 * t) - 0.5 * force.value(t, x, v, c)

    return Term(f"-x - 0.3*x' + cos(1.3*t) - 0.5*({force.text})", value)


@dataclass(frozen=True)
class Problem:
    """One random structure with constants and a start."""

    number: int
    force: Term
    values: Values
    start: np.ndarray

    @property
    def vector(self) -> np.ndarray:
        return np.array([self.values[name] for name in CONSTANTS])


def problems(count: int, seed: int) -> list[Problem]:
    """`count` problems with `count` different expressions; the first ones are the same for every count."""
    found: dict[str, Problem] = {}
    number = 0
    while len(found) < count:
        rng = np.random.default_rng([seed, number])
        force = oscillator(rng)
        values = dict(zip(CONSTANTS, rng.uniform(0.1, 0.9, 3).tolist(), strict=True))
        found.setdefault(force.text, Problem(number, force, values, rng.uniform(-1.0, 1.0, 2)))
        number += 1
    return list(found.values())


def reference(value: Value, values: Values, start: np.ndarray, times: np.ndarray = TIMES) -> np.ndarray:
    """States (N, 2) of x'' = value by small Runge-Kutta steps."""
    found = solve_ivp(
        lambda t, y: (y[1], value(t, float(y[0]), float(y[1]), values)),
        (times[0], times[-1]),
        start,
        "DOP853",
        times,
        rtol=1e-9,
        atol=1e-11,
        max_step=0.05,
    )
    return found.y.T
