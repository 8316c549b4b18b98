"""Random models whose redundancies are known by construction: coefficients that can be told apart, in disguise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import sympy as sp

import kapitza as kz

MEASURED_ALL: tuple[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]], ...] = (
    (("x'' + {c}*x' + {k}*x + {k3}*x**3 = {F}*cos(w*t)",), ("x",), ("c", "k", "k3", "F")),
    (("x'' + {c}*x' + {d}*x'*abs(x') + {k}*x = {F}*sin(w*t)",), ("x",), ("c", "d", "k", "F")),
    (("phi'' + {c}*phi' + {s}*sign(phi') + {w0}*sin(phi) = 0",), ("phi",), ("c", "s", "w0")),
    (("x'' + {c}*x' + {k}*x + {j}*(x - y) = 0", "y'' + {c}*y' + {h}*(y - x) + {q}*y**3 = 0"), ("x", "y"),
     ("c", "k", "j", "h", "q")),
    (("x' = {s}*(y - x)", "y' = {r}*x - y - {p}*x*z", "z' = x*y - {b}*z"), ("x", "y", "z"), ("s", "r", "p", "b")),
    (("x' = {a}*x - {b}*x*y", "y' = {d}*x*y - {g}*y"), ("x", "y"), ("a", "b", "d", "g")),
    (("x'' + {m}*(x**2 - 1)*x' + {k}*x = {F}*cos(w*t)",), ("x",), ("m", "k", "F")),
    (("x' = -{a}*x + {b}*exp(-x**2)*y", "y' = {c}*sin(x) - {d}*y"), ("x", "y"), ("a", "b", "c", "d")),
)  # fmt: skip
"""Equations with blanks, what is measured, and the blanks: with everything measured each of them is determined."""

HIDDEN: tuple[tuple[tuple[str, ...], dict[str, str], tuple[str, ...], tuple[str, ...]], ...] = (
    (("x' = {a}*x - {b}*x*y", "y' = {d}*x*y - {g}*y"), {"x": "x"}, ("a", "b", "d", "g"), ("a", "d", "g")),
    (("x' = {a}*x - {b}*x*y", "y' = {d}*x*y - {g}*y"), {"y": "y"}, ("a", "b", "d", "g"), ("a", "b", "g")),
    (("s' = -{b}*s*i", "i' = {b}*s*i - {g}*i"), {"cases": "{k}*i"}, ("b", "g", "k"), ("b/k", "g")),
    (("x'' + {c}*x' + {k}*x = {f}",), {"y": "x + {o}"}, ("c", "k", "f", "o"), ("c", "k", "f + k*o")),
    (("v' = v - v**3/3 - {s}*w + {i}", "w' = {e}*v + {a} - {b}*w"), {"v": "v"}, ("s", "i", "e", "a", "b"),
     ("b", "s*e", "i*b - s*a")),
    (("x'' + {c}*x' + {k}*x = {f}*z", "z' = -{r}*z + {q}*cos(w*t)"), {"x": "x"}, ("c", "k", "f", "r", "q"),
     ("c", "k", "r", "f*q")),
    (("x'' + {c}*x' + {k}*x + {q}*x**3 = 0",), {"volt": "{g}*x"}, ("c", "k", "q", "g"), ("c", "k", "q/g**2")),
    (("x' = -{a}*x + {b}*y**2", "y' = -{c}*y + {d}*cos(w*t)"), {"x": "x"}, ("a", "b", "c", "d"),
     ("a", "c", "b*d**2")),
)  # fmt: skip
"""The same with hidden states or unknown gains: equations, outputs, the blanks, what is determined of them."""


@dataclass(frozen=True)
class Disguised:
    """A model, its outputs, all parameters free, and the combinations that its outputs determine."""

    model: kz.Model
    outputs: dict[str, str]
    free: tuple[str, ...]
    determined: tuple[str, ...]


Disguise = Callable[[list[str]], str]
DISGUISES: tuple[tuple[int, Disguise], ...] = (
    (2, lambda p: f"{p[0]}*{p[1]}"),
    (2, lambda p: f"({p[0]} + {p[1]})"),
    (2, lambda p: f"({p[0]} - {p[1]})"),
    (2, lambda p: f"{p[0]}/{p[1]}"),
    (2, lambda p: f"({p[0]} + 3*{p[1]})"),
    (2, lambda p: f"{p[0]}*{p[1]}**2"),
    (3, lambda p: f"{p[0]}*({p[1]} + {p[2]})"),
    (3, lambda p: f"{p[0]}*{p[1]}/{p[2]}"),
)
"""One number written as several, by how many."""


def draw(seed: int) -> Disguised:
    """One model: a system with up to two of its coefficients in disguise, and perhaps a mass in front of x''."""
    rng = np.random.default_rng([16, seed])
    hidden = bool(rng.integers(2))
    if hidden:
        equations, outputs, blanks, determined = HIDDEN[rng.integers(len(HIDDEN))]
    else:
        equations, channels, blanks = MEASURED_ALL[rng.integers(len(MEASURED_ALL))]
        outputs, determined = {c: c for c in channels}, blanks
    count = int(rng.integers(0 if hidden else 1, 3))
    chosen = set(rng.choice(len(blanks), size=min(count, len(blanks)), replace=False).tolist())
    names: list[str] = []
    written: dict[str, str] = {}
    for i, blank in enumerate(blanks):
        needed, disguise = DISGUISES[rng.integers(len(DISGUISES))] if i in chosen else (1, lambda p: p[0])
        parts = [f"p{len(names) + j}" for j in range(needed)]
        names += parts
        written[blank] = disguise(parts)
    lines = [equation.format(**written) for equation in equations]
    meaning = dict(written)
    if len(equations) == 1 and "''" in equations[0] and bool(rng.integers(2)):
        names.append("mass")
        lines = ["mass*" + lines[0]]
        meaning = {b: f"({text})/mass" if f"{{{b}}}" in equations[0] else text for b, text in written.items()}
    values = {n: float(rng.choice([-1, 1]) * rng.uniform(0.3, 2.0)) for n in names}
    order = tuple(names[i] for i in rng.permutation(len(names)))
    driven = any("*t)" in e for e in equations)
    model = kz.Model.from_equations(
        lines,
        parameters={**{n: values[n] for n in order}, **({"w": 1.3} if driven else {})},
        **({"period": "2*pi/w"} if driven else {}),
    )
    known = {sp.Symbol(b): sp.sympify(text) for b, text in meaning.items()}
    truth = tuple(str(sp.sympify(text).subs(known, simultaneous=True)) for text in determined)
    return Disguised(model, {c: text.format(**written) for c, text in outputs.items()}, order, truth)
