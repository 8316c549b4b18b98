"""Random laws whose switching functions vanish on stretches, and a reference that evaluates them as written.

Every law is built twice at once: as text for the model, and as a Python function put together from the same parts,
which also lists the outcome of each comparison it makes. The reference takes a Runge-Kutta step only where all its
stages agree in these outcomes; otherwise it halves the step down to `SHORTEST`. It knows neither modes nor events.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

END = 6.0
CONSTANTS = ("a", "b", "c")
LONGEST, SHORTEST = 5e-3, 1e-10
CHATTER, COARSE = 40, 2e-5
"""Crossings in a row, each right after the one before, from which on a motion is held at a surface: its steps across
are then not shorter than COARSE, and the reference is good to about that."""

Outcomes = list[int]
Value = Callable[[float, float, float, dict[str, float], Outcomes], float]


@dataclass(frozen=True)
class Term:
    """An expression as text and as a function of t, x, x', the constants and the list of outcomes."""

    text: str
    value: Value


def _sign(s: float, seen: Outcomes) -> float:
    outcome = (s > 0) - (s < 0)
    seen.append(outcome)
    return float(outcome)


def _heaviside(s: float, seen: Outcomes) -> float:
    return 0.5 * (1.0 + _sign(s, seen))


def _largest(p: float, q: float, seen: Outcomes) -> float:
    return p if _sign(p - q, seen) >= 0 else q


def _smallest(p: float, q: float, seen: Outcomes) -> float:
    return p if _sign(p - q, seen) <= 0 else q


def _size(p: float, seen: Outcomes) -> float:
    return abs(p) if _sign(p, seen) else 0.0


Shape = tuple[str, Callable[[float, float, float, Outcomes], float]]

PLATEAUS: tuple[Shape, ...] = (
    ("max({0} - {k}, 0)", lambda p, q, k, s: _largest(p - k, 0.0, s)),
    ("min({0} + {k}, 0)", lambda p, q, k, s: _smallest(p + k, 0.0, s)),
    ("(max({0}, {k}) - {k})", lambda p, q, k, s: _largest(p, k, s) - k),
    ("max(abs({0}) - {k}, 0)", lambda p, q, k, s: _largest(_size(p, s) - k, 0.0, s)),
    ("max({0}, 0)*max({1}, 0)", lambda p, q, k, s: _largest(p, 0.0, s) * _largest(q, 0.0, s)),
    ("(max({0}, 0) + max({1} - {k}, 0))", lambda p, q, k, s: _largest(p, 0.0, s) + _largest(q - k, 0.0, s)),
    ("(max({0}, {k}) - max({1}, {k}))", lambda p, q, k, s: _largest(p, k, s) - _largest(q, k, s)),
    (
        "Piecewise(({0} - {k}, {0} > {k}), (0, True))",
        lambda p, q, k, s: p - k if _sign(p - k, s) > 0 else 0.0,
    ),
    ("(Heaviside({0})*({1}))", lambda p, q, k, s: _heaviside(p, s) * q),
    ("(sign({0}) + 1)*({1})", lambda p, q, k, s: (_sign(p, s) + 1.0) * q),
    (
        "Piecewise(({0} - {k}, {0} > {k}), ({0} + {k}, {0} < -{k}), (0, True))",
        lambda p, q, k, s: p - k if _sign(p - k, s) > 0 else p + k if _sign(p + k, s) < 0 else 0.0,
    ),
)
"""Functions of p, q that vanish on stretches."""

SIGNS: tuple[Shape, ...] = (
    ("sign({0})", lambda p, q, k, s: _sign(p, s)),
    ("Heaviside({0})", lambda p, q, k, s: _heaviside(p, s)),
    ("Piecewise((1, {0} > 0), ({k}, True))", lambda p, q, k, s: 1.0 if _sign(p, s) > 0 else k),
    ("Piecewise((1, {0} >= 0), ({k}, True))", lambda p, q, k, s: 1.0 if _sign(p, s) >= 0 else k),
    ("Piecewise((1, {0} < 0), ({k}, True))", lambda p, q, k, s: 1.0 if _sign(p, s) < 0 else k),
    ("Piecewise((1, {0} <= 0), ({k}, True))", lambda p, q, k, s: 1.0 if _sign(p, s) <= 0 else k),
    ("Piecewise((1, {0} > {1}), ({k}, True))", lambda p, q, k, s: 1.0 if _sign(p - q, s) > 0 else k),
    ("abs({0})", lambda p, q, k, s: _size(p, s)),
)
"""What is made of a function that vanishes on stretches."""

JOINED: tuple[Shape, ...] = (
    ("min({0}, {k})", lambda p, q, k, s: _smallest(p, k, s)),
    ("max({0}, {k})", lambda p, q, k, s: _largest(p, k, s)),
    ("abs({0} - {k})", lambda p, q, k, s: _size(p - k, s)),
    ("sign({0} - {k})", lambda p, q, k, s: _sign(p - k, s)),
    ("Heaviside({0})", lambda p, q, k, s: _heaviside(p, s)),
    ("({0})*({1})", lambda p, q, k, s: p * q),
    ("({0} - ({1}))", lambda p, q, k, s: p - q),
    ("abs({0} - ({1}))", lambda p, q, k, s: _size(p - q, s)),
    ("min({0}, {1})", lambda p, q, k, s: _smallest(p, q, s)),
    ("max({0}, -({1}))", lambda p, q, k, s: _largest(p, -q, s)),
    ("Piecewise(({0}, {1} > {k}), ({k}, True))", lambda p, q, k, s: p if _sign(q - k, s) > 0 else k),
    ("Piecewise(({0}, {1} >= 0), ({k}, True))", lambda p, q, k, s: p if _sign(q, s) >= 0 else k),
    ("{0}", lambda p, q, k, s: p),
)
"""Laws of two such terms."""


def _leaf(rng: np.random.Generator, k: str) -> Term:
    leaves = (
        Term("x", lambda t, x, v, c, s: x),
        Term("x", lambda t, x, v, c, s: x),
        Term("x'", lambda t, x, v, c, s: v),
        Term("cos(1.3*t)", lambda t, x, v, c, s: math.cos(1.3 * t)),
        Term(f"(x - {k}*x')", lambda t, x, v, c, s: x - c[k] * v),
        Term(f"(x - {k})", lambda t, x, v, c, s: x - c[k]),
    )
    return leaves[rng.integers(len(leaves))]


def _made(rng: np.random.Generator, shapes: tuple[Shape, ...], part: Callable[[], Term]) -> Term:
    k = str(rng.choice(CONSTANTS))
    first, second = part(), part()
    template, combine = shapes[rng.integers(len(shapes))]

    def value(t: float, x: float, v: float, c: dict[str, float], seen: Outcomes) -> float:
        p, q = first.value(t, x, v, c, seen), second.value(t, x, v, c, seen)
        return combine(p, q, c[k], seen)

    return Term(template.format(first.text, second.text, k=k), value)


def _past_leaf(rng: np.random.Generator, k: str) -> Term:
    """The same of past values, which the functions get in place of the present ones."""
    leaves = (
        Term("x(t - 1)", lambda t, x, v, c, s: x),
        Term("x'(t - 1)", lambda t, x, v, c, s: v),
        Term(f"(x(t - 1) - {k})", lambda t, x, v, c, s: x - c[k]),
        Term(f"(x(t - 1) + {k}*cos(1.3*t))", lambda t, x, v, c, s: x + c[k] * math.cos(1.3 * t)),
        Term(f"(x(t - 1) - {k}*x'(t - 1))", lambda t, x, v, c, s: x - c[k] * v),
    )
    return leaves[rng.integers(len(leaves))]


def force(rng: np.random.Generator, leaf: Callable[[np.random.Generator, str], Term] = _leaf) -> Term:
    """A force with signs of functions that vanish on stretches, inside each other."""

    def plateau() -> Term:
        return _made(rng, PLATEAUS, lambda: leaf(rng, str(rng.choice(CONSTANTS))))

    return _made(rng, JOINED, lambda: _made(rng, SIGNS, plateau))


@dataclass(frozen=True)
class Problem:
    """An oscillator with a random law, constants and a start."""

    number: int
    text: str
    value: Value
    values: dict[str, float]
    start: np.ndarray

    @property
    def vector(self) -> np.ndarray:
        return np.array([self.values[name] for name in CONSTANTS])


def problems(count: int, seed: int, delayed: bool = False) -> list[Problem]:
    """`count` problems with `count` different laws; the first ones are the same for every count.

    delayed: the law is one of the state one second ago; its function takes that state.
    """
    found: dict[str, Problem] = {}
    number = 0
    while len(found) < count:
        rng = np.random.default_rng([seed, number])
        law = force(rng, _past_leaf if delayed else _leaf)

        def value(t: float, x: float, v: float, c: dict[str, float], seen: Outcomes, law: Term = law) -> float:
            return -x - 0.1 * v + 0.4 * math.cos(1.7 * t) - 0.5 * law.value(t, x, v, c, seen)

        text = f"-x - 0.1*x' + 0.4*cos(1.7*t) - 0.5*({law.text})"
        values = dict(zip(CONSTANTS, rng.uniform(0.1, 0.8, 3).tolist(), strict=True))
        start = rng.uniform(-1.0, 1.0, 2)
        found.setdefault(text, Problem(number, text, law.value if delayed else value, values, start))
        number += 1
    return list(found.values())


def reference(problem: Problem, end: float = END, longest: float = LONGEST) -> tuple[np.ndarray, bool]:
    """The state at the end by steps with equal outcomes, and whether the motion was held at a surface."""
    t, (x, v), values = 0.0, problem.start.tolist(), problem.values
    step, shortest, in_a_row, last = longest, SHORTEST, 0, -math.inf

    def rate(t: float, x: float, v: float) -> tuple[float, Outcomes]:
        seen: Outcomes = []
        return problem.value(t, x, v, values, seen), seen

    while t < end:
        a1, here = rate(t, x, v)
        step = min(step, end - t)
        a2, second = rate(t + step / 2, x + step / 2 * v, v + step / 2 * a1)
        v2 = v + step / 2 * a1
        a3, third = rate(t + step / 2, x + step / 2 * v2, v + step / 2 * a2)
        v3 = v + step / 2 * a2
        v4 = v + step * a3
        a4, fourth = rate(t + step, x + step * v3, v4)
        if here == second == third == fourth:
            x, v, t = x + step / 6 * (v + 2 * v2 + 2 * v3 + v4), v + step / 6 * (a1 + 2 * a2 + 2 * a3 + a4), t + step
            step = min(2 * step, longest)
        elif step > shortest:
            step = max(step / 2, shortest)
        else:
            x, v, t = x + step * v, v + step * a1, t + step
            in_a_row = in_a_row + 1 if t - last < 1e3 * shortest else 0
            last = t
            if in_a_row >= CHATTER:
                shortest = COARSE
    return np.array([x, v]), shortest == COARSE


def reference_with_delay(problem: Problem, end: float = END, steps: int = 2000) -> np.ndarray:
    """The state at the end by Heun's rule in `steps` steps per delay, the past constant before t = 0; to about 1e-3."""
    count, h = round(end * steps), 1.0 / steps
    path = np.tile(problem.start, (steps + count + 1, 1))

    def rates(i: int, state: np.ndarray) -> np.ndarray:
        (x, v), past = state, path[i]  # steps before the present one
        law = problem.value(i * h, float(past[0]), float(past[1]), problem.values, [])
        return np.array([v, -x - 0.1 * v + 0.4 * math.cos(1.7 * i * h) - 0.5 * law])

    for i in range(count):
        state = path[steps + i]
        first = rates(i, state)
        path[steps + i + 1] = state + h / 2 * (first + rates(i + 1, state + h * first))
    return path[-1]
