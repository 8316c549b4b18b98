"""Dictionary of terms that equations of motion often miss.

The terms are friction, stiffness, stops, harmonics of the drive, and couplings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kapitza.base.arrays import Array
from kapitza.model import Model

Law = Callable[[Array, Array], Array]
"""(states (N, n), times (N,)) → values (N,)."""

MOST_POLYNOMIALS = 60
"""Most polynomial terms of a first-order model; with more, only those up to degree 2 are tested."""


@dataclass(frozen=True)
class Term:
    """A candidate term.

    name: for people; notation: what to add to the left side of the equation, {c} its coefficient. state: row of the
    rates it acts on, -1 for faults of sensors. kind: "force", "friction" (must take energy out), "parameter" (held in
    the fit) or "sensor". law: its values along a motion.
    """

    name: str
    notation: str
    state: int
    kind: str
    law: Law


def candidate_terms(model: Model, reach: Array) -> list[Term]:
    """Return the candidate terms of every equation.

    reach (n,): largest size of each state along the motion.
    """
    names = list(model.states)
    terms: list[Term] = []
    if model.is_map:
        return terms
    first_order = [i for i, c in enumerate(model.coordinates) if c.order == 1]
    second = [c for c in model.coordinates if c.order == 2]
    for coordinate in second:
        x, v = names.index(coordinate.name), names.index(f"{coordinate.name}'")
        terms += friction_terms(coordinate.name, v, reach[v])
        terms += (
            angle_terms(coordinate.name, x, v) if coordinate.angle else spring_terms(coordinate.name, x, v, reach[x])
        )
    for one, other in ((a, b) for i, a in enumerate(second) for b in second[i + 1 :]):
        terms += coupling_terms(one.name, other.name, names)
    terms += polynomial_terms(names, first_order)
    # Harmonics of a measured drive are in its signal already.
    if model.period is not None and not model.signals:
        terms += harmonic_terms(2 * np.pi / model.period, second, names)
    return terms


def friction_terms(name: str, v: int, reach: float) -> list[Term]:
    speed = f"{name}'"
    # Two digits: the number is printed in the suggested term.
    slow = float(f"{0.1 * reach:.2g}") or 1.0
    laws: dict[str, tuple[str, Law]] = {
        "viscous friction": (speed, lambda s, t: s[:, v]),
        "Coulomb friction": (f"sign({speed})", lambda s, t: np.sign(s[:, v])),
        "quadratic drag": (f"{speed}*abs({speed})", lambda s, t: s[:, v] * np.abs(s[:, v])),
        "cubic damping": (f"{speed}**3", lambda s, t: s[:, v] ** 3),
        "stick (friction at low speed)": (
            f"sign({speed})*exp(-abs({speed})/{slow:g})",
            lambda s, t: np.sign(s[:, v]) * np.exp(-np.abs(s[:, v]) / slow),
        ),
    }
    return [Term(f"{title} of {name}", f"{{c}}*{text}", v, "friction", law) for title, (text, law) in laws.items()]


def spring_terms(name: str, x: int, v: int, reach: float) -> list[Term]:
    laws: dict[str, tuple[str, Law]] = {
        "constant force": ("1", lambda s, t: np.ones(len(s))),
        "linear stiffness": (name, lambda s, t: s[:, x]),
        "quadratic stiffness": (f"{name}**2", lambda s, t: s[:, x] ** 2),
        "cubic stiffness": (f"{name}**3", lambda s, t: s[:, x] ** 3),
        "quintic stiffness": (f"{name}**5", lambda s, t: s[:, x] ** 5),
    }
    for share in (0.1, 0.3):
        # Within a clearance the linear stiffness is absent.
        edge = float(f"{share * reach:.2g}")
        laws[f"clearance within {edge:g} (about)"] = (
            f"Max(Min({name}, {edge:g}), {-edge:g})",
            lambda s, t, edge=edge: np.clip(s[:, x], -edge, edge),
        )
    for share in (0.3, 0.6, 0.85):
        # The position of a stop is not known: three are tried, and the name marks it as a guess.
        edge = float(f"{share * reach:.2g}")
        laws[f"stop above {edge:g} (about)"] = (
            f"Max({name} - {edge:g}, 0)",
            lambda s, t, edge=edge: np.maximum(s[:, x] - edge, 0.0),
        )
        laws[f"stop below {-edge:g} (about)"] = (
            f"Min({name} + {edge:g}, 0)",
            lambda s, t, edge=edge: np.minimum(s[:, x] + edge, 0.0),
        )
    return [Term(f"{title} of {name}", f"{{c}}*{text}", v, "force", law) for title, (text, law) in laws.items()]


def angle_terms(name: str, x: int, v: int) -> list[Term]:
    laws: dict[str, tuple[str, Law]] = {
        "constant torque": ("1", lambda s, t: np.ones(len(s))),
        "sine torque": (f"sin({name})", lambda s, t: np.sin(s[:, x])),
        "cosine torque": (f"cos({name})", lambda s, t: np.cos(s[:, x])),
        "second-harmonic torque": (f"sin(2*{name})", lambda s, t: np.sin(2 * s[:, x])),
    }
    return [Term(f"{title} of {name}", f"{{c}}*{text}", v, "force", law) for title, (text, law) in laws.items()]


def coupling_terms(one: str, other: str, names: Sequence[str]) -> list[Term]:
    """Return forces between two coordinates.

    Each force acts on one of the two; the opposite force on the other is a separate term.
    """
    a, b = names.index(one), names.index(other)
    va, vb = names.index(f"{one}'"), names.index(f"{other}'")
    terms = []
    for mine, row, far, near, rate_near, rate_far in ((one, va, b, a, va, vb), (other, vb, a, b, vb, va)):
        gap = f"({names[near]} - {names[far]})"
        speed = f"({names[rate_near]} - {names[rate_far]})"
        laws: dict[str, tuple[str, Law]] = {
            "spring": (gap, lambda s, t, i=near, j=far: s[:, i] - s[:, j]),
            "cubic spring": (f"{gap}**3", lambda s, t, i=near, j=far: (s[:, i] - s[:, j]) ** 3),
            "damper": (speed, lambda s, t, i=rate_near, j=rate_far: s[:, i] - s[:, j]),
        }
        terms += [
            Term(f"{title} between {one} and {other}, on {mine}", f"{{c}}*{text}", row, "force", law)
            for title, (text, law) in laws.items()
        ]
    return terms


def polynomial_terms(names: Sequence[str], rows: Sequence[int]) -> list[Term]:
    """Return monomials of all states for first-order equations.

    Up to degree 3 where they are not too many.
    """
    if not rows:
        return []
    count = len(names)
    exponents = [()]
    exponents += [(i,) for i in range(count)]
    exponents += [(i, j) for i in range(count) for j in range(i, count)]
    cubes = [(i, j, k) for i in range(count) for j in range(i, count) for k in range(j, count)]
    if len(rows) * (len(exponents) + len(cubes)) <= MOST_POLYNOMIALS:
        exponents += cubes
    terms = []
    for row in rows:
        for powers in exponents:
            text = "*".join(names[i] for i in powers) or "1"

            def law(s: Array, t: Array, powers: tuple[int, ...] = powers) -> Array:
                return np.prod(s[:, list(powers)], axis=1) if powers else np.ones(len(s))

            terms.append(Term(f"{text} in the equation of {names[row]}", f"{{c}}*{text}", row, "force", law))
    return terms


def harmonic_terms(omega: float, second: Sequence, names: Sequence[str]) -> list[Term]:
    terms = []
    for coordinate in second:
        row = names.index(f"{coordinate.name}'")
        for order in (1, 2, 3):
            for word, wave in (("cos", np.cos), ("sin", np.sin)):

                def law(s: Array, t: Array, wave=wave, order=order) -> Array:
                    return wave(order * omega * t)

                text = f"{word}({order * omega:.6g}*t)"
                terms.append(Term(f"drive {text} on {coordinate.name}", f"{{c}}*{text}", row, "force", law))
    return terms
