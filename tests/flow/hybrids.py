"""Random models with friction, walls, gaps and nested laws, one to three bodies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kapitza import Model

PARAMETERS = {
    "c": (0.05, 0.3), "k": (0.6, 1.6), "s": (0.3, 1.0), "mu": (0.05, 0.6), "v": (0.2, 0.8), "g": (0.2, 0.8),
    "kc": (2.0, 12.0), "r": (0.5, 0.95), "w": (0.7, 1.6), "F": (0.4, 1.5), "q": (0.1, 0.5),
}  # fmt: skip
"""Names with the ranges that their values are drawn from."""

LAWS = (
    "mu*sign({x}')",
    "mu*sign({x}' - v)",
    "mu*sign({x}')*(1 + q*exp(-abs({x}')))",
    "mu*sign({x}' - v*cos(w*t))",
    "kc*max(abs({x}) - g, 0)*sign({x})",
    "kc*max({x} - g, 0)",
    "kc*(max({x} - g, 0) + min({x} + g, 0)) + q*max(-g, min(g, {x}))",
    "q*sign({x} - g)",
    "Piecewise((q, {x} > g), (-q, {x} < -g), (0, True))",
    "q*abs({x}')*{x}'",
    "q*abs({x})",
    "q*sin(2*{x})",
    "min(q*abs({x}'), mu)*sign({x}')",
    "mu*sign({x}')*(1 + min(abs({x}), g))",
)
"""Forces on one body, on the left-hand side."""

PAIRS = ("mu*sign({x}' - {y}')", "kc*max(abs({x} - {y}) - g, 0)*sign({x} - {y})", "q*abs({x}' - {y}')*({x}' - {y}')")
"""Forces between two bodies."""

WALLS = (
    ("1 + g - {x}", "-r*{x}'"),
    ("{x} + 1 + g", "-r*{x}'"),
    ("1.2 + g + 0.1*cos(w*t) - {x}", "-r*{x}' - (1 + r)*0.1*w*sin(w*t)"),
)
"""Surfaces and the speed after an impact."""


@dataclass(frozen=True)
class Hybrid:
    """One random structure: equations and impacts as text."""

    equations: tuple[str, ...]
    impacts: tuple[dict[str, object], ...]

    def model(self) -> Model:
        values = {name: (low + high) / 2 for name, (low, high) in PARAMETERS.items()}
        used = {n: v for n, v in values.items() if any(n in _words(t) for t in self._texts())}
        return Model.from_equations(
            list(self.equations), parameters=used, impacts=list(self.impacts), period="2*pi/w", name="random"
        )

    def _texts(self) -> list[str]:
        resets = [str(r) for i in self.impacts for r in (i["surface"], i["reset"])]
        return [*self.equations, *resets, "w"]


def _words(text: str) -> set[str]:
    return set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())


def hybrid(seed: int) -> Hybrid:
    """The structure of a seed."""
    rng = np.random.default_rng([77, seed])
    bodies = int(rng.choice([1, 1, 2, 2, 3]))
    names = [f"x{i + 1}" for i in range(bodies)]
    terms = [[f"{x}'' + c*{x}' + k*{x}"] for x in names]
    for own, x in zip(terms, names, strict=True):
        own += [law.format(x=x) for law in rng.choice(LAWS, size=int(rng.integers(1, 3)), replace=False)]
    for i in range(bodies - 1):
        x, y = names[i], names[i + 1]
        terms[i].append(f"s*({x} - {y})")
        terms[i + 1].append(f"s*({y} - {x})")
        if rng.random() < 0.4:
            force = str(rng.choice(PAIRS)).format(x=x, y=y)
            terms[i].append(force)
            terms[i + 1].append(f"(-({force}))")
    impacts = []
    for wall in rng.choice(len(WALLS), size=int(rng.choice([0, 0, 1, 2])), replace=False):
        surface, after = WALLS[wall]
        x = str(rng.choice(names))
        impacts.append({"name": f"wall{wall}", "surface": surface.format(x=x), "reset": {f"{x}'": after.format(x=x)}})
    equations = [f"{' + '.join(own)} = {'F*cos(w*t)' if i == 0 else '0'}" for i, own in enumerate(terms)]
    return Hybrid(tuple(equations), tuple(impacts))


def draws(model: Model, seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Starts (count, n) and parameter vectors (count, npar)."""
    rng = np.random.default_rng([78, seed])
    limits = np.array([PARAMETERS[name] for name in model.names])
    vectors = rng.uniform(limits[:, 0], limits[:, 1], (count, len(limits)))
    return rng.normal(0.0, 0.5, (count, len(model.states))), vectors
