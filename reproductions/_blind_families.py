"""A second set of systems for `follow`, listed before any of them was run: equations, starts, ranges.

Autonomous models (references: AUTO-07p on these equations, or closed forms), models with a periodic excitation
(references: SciPy, DOP853 with variations) and maps (references: closed forms, or SciPy's root finding).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from reproductions._held_out_families import System

AUTONOMOUS = (
    System(
        "enzyme with two substrates", "AUTO-07p, demo plp",
        ("s' = S - s - h*s*a/(1 + s + k*s**2)", "a' = q*(A - a) - h*s*a/(1 + s + k*s**2)"),
        {"S": 110.0, "A": 500.0, "q": 0.2, "h": 2.021628, "k": 0.1}, {"s": 45.55974, "a": 177.7987}, "h", (0.5, 6.0),
    ),
    System(
        "Bazykin", "Nonlinear Dynamics of Interacting Populations (1998); Kuznetsov, Elements, 8.4",
        ("x' = x - x*y/(1 + a*x) - e*x**2", "y' = -g*y + x*y/(1 + a*x) - d*y**2"),
        {"a": 0.5, "d": 0.2, "e": 0.01, "g": 1.0}, {"x": 89.5, "y": 4.8}, "d", (0.02, 0.4),
        second="a", curve={"d": (0.005, 0.6), "a": (0.05, 0.9)},
    ),
    System(
        "stirred tank with one reaction", "Uppal, Ray, Poore, Chem. Eng. Sci. 29 (1974)",
        ("x' = -x + p*(1 - x)*exp(y)", "y' = -y*(1 + c) + 8*p*(1 - x)*exp(y)"),
        {"p": 0.05, "c": 1.2}, {"x": 0.07, "y": 0.27}, "p", (0.02, 0.5),
        second="c", curve={"p": (0.02, 0.8), "c": (0.3, 4.0)},
    ),
    System(
        "cell cycle of Tyson", "Proc. Natl. Acad. Sci. 88 (1991): two variables",
        ("u' = 180*(v - u)*(0.018 + u**2) - p*u", "v' = 0.015 - p*u"),
        {"p": 0.5}, {"u": 0.03, "v": 0.1}, "p", (0.3, 4.0),
    ),
    System(
        "calcium oscillations", "Goldbeter, Dupont, Berridge, Proc. Natl. Acad. Sci. 87 (1990)",
        ("z' = 1 + 7.3*b - 65*z**2/(1 + z**2) + 500*y**2/(4 + y**2)*z**4/(0.9**4 + z**4) + y - 10*z",
         "y' = 65*z**2/(1 + z**2) - 500*y**2/(4 + y**2)*z**4/(0.9**4 + z**4) - y"),
        {"b": 0.05}, {"z": 0.137, "y": 1.1}, "b", (0.0, 1.2),
    ),
    System(
        "Shimizu and Morioka", "Phys. Lett. A 76 (1980)",
        ("x' = y", "y' = x*(1 - z) - l*y", "z' = -a*z + x**2"),
        {"l": 1.4, "a": 0.45}, {"x": 0.67, "y": 0.0, "z": 1.0}, "l", (0.5, 1.6),
    ),
    System(
        "Holling and Tanner", "Ecology 56 (1975): one predator",
        ("x' = x*(1 - x/k) - x*y/(x + 1)", "y' = s*y*(1 - y/(2*x))"),
        {"k": 2.0, "s": 0.1}, {"x": 0.6, "y": 1.2}, "k", (1.0, 20.0),
    ),
    System(
        "Goodwin", "Adv. Enzyme Regul. 3 (1965): Hopf where n z^n = 8 (1 + z^n), closed form",
        ("x' = p/(1 + z**10) - x", "y' = x - y", "z' = y - z"),
        {"p": 3.0}, {"x": 1.05, "y": 1.05, "z": 1.05}, "p", (1.0, 10.0),
    ),
    System(
        "Gray and Scott", "Chem. Eng. Sci. 39 (1984): folds 4 (f + k)² = f, closed form",
        ("x' = -x*y**2 + f*(1 - x)", "y' = x*y**2 - (f + k)*y"),
        {"f": 0.03, "k": 0.05}, {"x": 0.3, "y": 0.27}, "f", (0.005, 0.2),
        second="k", curve={"f": (0.002, 0.2), "k": (0.02, 0.08)},
    ),
    System(
        "bursting neuron with its slow variable held", "Hindmarsh, Rose, Proc. R. Soc. B 221 (1984)",
        ("x' = y - x**3 + 3*x**2 + 2 - z", "y' = 1 - 5*x**2 - y"),
        {"z": -2.0}, {"x": 1.8, "y": -15.2}, "z", (-15.0, 5.0),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Mapped:
    """A map, a cycle of it and the ranges in which its cycles are followed; second, curve: as in `System`."""

    name: str
    source: str
    images: dict[str, str]
    parameters: dict[str, float]
    start: dict[str, float]
    parameter: str
    bounds: tuple[float, float]
    second: str = ""
    curve: dict[str, tuple[float, float]] = field(default_factory=dict)


MAPS = (
    Mapped(
        "Hénon", "AUTO-07p, demo hen; closed form to period 2",
        {"x": "y", "y": "a - b*x - y**2"}, {"a": 0.1, "b": -0.3}, {"x": 0.11, "y": 0.11}, "a", (-1.0, 1.2),
        second="b", curve={"a": (-2.0, 8.0), "b": (-2.0, 2.0)},
    ),
    Mapped(
        "delayed logistic", "Maynard Smith, Mathematical Ideas in Biology (1968); closed form",
        {"x": "r*x*(1 - y)", "y": "x"}, {"r": 1.5}, {"x": 0.33, "y": 0.33}, "r", (0.5, 2.2),
    ),
    Mapped(
        "generalised Hénon", "MatContM manual; Kuznetsov, Meijer, Numerical Bifurcation Analysis of Maps (2019)",
        {"x": "y", "y": "a - b*x - y**2 + R*x*y"}, {"a": 0.2, "b": 0.5, "R": -0.1}, {"x": 0.12, "y": 0.12}, "a",
        (-1.0, 3.0), second="b", curve={"a": (-2.0, 8.0), "b": (-2.0, 2.0)},
    ),
    Mapped(
        "host and parasitoid", "Beddington, Free, Lawton, Nature 255 (1975)",
        {"x": "x*exp(r*(1 - x) - a*y)", "y": "x*(1 - exp(-a*y))"}, {"r": 0.5, "a": 2.0},
        {"x": 0.6, "y": 0.1}, "r", (0.1, 3.5),
    ),
    Mapped(
        "fold and torus", "a fold and a Neimark-Sacker point, coupled; closed form",
        {"x": "(1 + q)*(cos(1)*x - sin(1)*y) - x*(x**2 + y**2)", "y": "(1 + q)*(sin(1)*x + cos(1)*y) - y*(x**2 + y**2)",
         "z": "z + p - z**2 + (x**2 + y**2)"},
        {"p": 0.2, "q": -0.1}, {"x": 0.0, "y": 0.0, "z": 0.447}, "p", (-0.5, 0.5),
        second="q", curve={"p": (-0.5, 0.5), "q": (-0.5, 0.5)},
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Driven:
    """A forced model, a state near an orbit of one excitation period, and the range in which it is followed."""

    name: str
    source: str
    equations: tuple[str, ...]
    parameters: dict[str, float]
    period: str
    start: dict[str, float]
    parameter: str
    bounds: tuple[float, float]


DRIVEN = (
    Driven(
        "driven Brusselator", "Tomita, Kai, J. Stat. Phys. 21 (1979)",
        ("x' = 0.4 - 2.2*x + x**2*y + a*cos(w*t)", "y' = 1.2*x - x**2*y"),
        {"a": 0.1, "w": 0.8}, "2*pi/w", {"x": 0.4, "y": 3.0}, "w", (0.5, 1.2),
    ),
    Driven(
        "epidemics with seasons", "Kuznetsov, Piccardi, J. Math. Biol. 32 (1994): SIR in logarithms",
        ("u' = 0.02*(exp(-u) - 1) - 1800*(1 + d*cos(2*pi*t))*exp(v)", "v' = 1800*(1 + d*cos(2*pi*t))*exp(u) - 100.02"),
        {"d": 0.02}, "1", {"u": -2.89, "v": -8.57}, "d", (0.0, 0.25),
    ),
)  # fmt: skip
