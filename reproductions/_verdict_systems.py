"""Held-out systems for verdicts and intervals: written down before the rules, and used for no tuning.

RIGHT: models that are fitted to their own records, and to records of the same system with a small further term.
EXCHANGED: textbook systems whose data allow several sets of parameters. LOOSE: likelihoods far from a parabola.
TWO_INVARIANTS: motions with a second conserved quantity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

import kapitza as kz
from reproductions._bad_sample_systems import Held

RIGHT: tuple[Held, ...] = (
    Held("Lorenz-84", ("x' = -y**2 - z**2 - a*x + a*F {0}", "y' = x*y - b*x*z - y + G", "z' = b*x*y + x*z - z"),
         {"a": 0.25, "b": 4.0, "F": 8.0, "G": 1.0}, (1.0, 1.0, -0.5), 0.02, ("x", "y", "z"),
         ("a", "b", "F", "G"), 20.0),
    Held("Arneodo", ("x' = y", "y' = z", "z' = a*x - b*y - z - d*x**3 {0}"), {"a": 5.5, "b": 3.5, "d": 1.0},
         (0.5, 0.3, 0.2), 0.05, ("x", "y", "z"), ("a", "b", "d"), 30.0),
    Held("Selkov", ("x' = -x + a*y + x**2*y {0}", "y' = b - a*y - x**2*y"), {"a": 0.08, "b": 0.6}, (0.6, 1.2), 0.06,
         ("x", "y"), ("a", "b")),
    Held("Lengyel-Epstein", ("x' = a - x - 4*x*y/(1 + x**2) {0}", "y' = b*x*(1 - y/(1 + x**2))"),
         {"a": 10.0, "b": 2.0}, (2.0, 4.0), 0.03, ("x", "y"), ("a", "b")),
    Held("predator and prey", ("x' = r*x*(1 - x/K) - x*y/(1 + h*x) {0}", "y' = e*x*y/(1 + h*x) - m*y"),
         {"r": 1.0, "K": 5.0, "h": 0.6, "e": 0.7, "m": 0.5}, (1.5, 1.5), 0.06, ("x", "y"), ("r", "K", "h", "e", "m")),
    Held("Wilberforce", ("z'' + c*z' + k*z + e*p {0} = 0", "p'' + d*p + e*z = 0"),
         {"c": 0.01, "k": 5.0, "d": 5.2, "e": 0.3}, (1.0, 0.2, 0.0, 0.0), 0.05, ("z", "p"), ("c", "k", "d", "e")),
    Held("Burke-Shaw", ("x' = -s*(x + y)", "y' = -s*x*z - y {0}", "z' = s*x*y + v"), {"s": 10.0, "v": 4.27},
         (0.6, 0.1, 0.2), 0.01, ("x", "y", "z"), ("s", "v"), 10.0),
    Held("WINDMI", ("x' = y", "y' = z", "z' = -a*z - y + b - exp(x) {0}"), {"a": 0.7, "b": 2.5}, (0.2, 0.3, 0.1), 0.06,
         ("x", "y", "z"), ("a", "b"), 30.0),
    Held("Morse decay", ("x'' + c*x' + D*(1 - exp(-x))*exp(-x) {0} = 0",), {"c": 0.04, "D": 4.0}, (1.1, 0.0), 0.03,
         ("x",), ("c", "D")),
    Held("SEIR waves", ("s' = m*(1 - s) - B*(1 + 0.15*cos(w*t))*s*i {0}", "e' = B*(1 + 0.15*cos(w*t))*s*i - (m + k)*e",
                        "i' = k*e - (m + g)*i"),
         {"m": 0.05, "B": 60.0, "k": 12.0, "g": 10.0, "w": 1.3}, (0.2, 0.004, 0.004), 0.02, ("e", "i"), ("B", "k", "g"),
         parts={"period": "2*pi/w"}),
    Held("three-well beam", ("x'' + c*x' + k*x - q*x**3 + p*x**5 {0} = F*cos(w*t)",),
         {"c": 0.15, "k": 1.0, "q": 2.0, "p": 0.7, "F": 0.5, "w": 0.9}, (0.4, 0.3), 0.05, ("x",),
         ("c", "k", "q", "p", "F"), 6.981317007977318, parts={"period": "2*pi/w"}),
    Held("gyroscope on springs", ("a'' + c*a' + k*a + n*b' + q*a**3 {0} = F*cos(w*t)", "b'' + c*b' + k*b - n*a' = 0"),
         {"c": 0.1, "k": 4.0, "n": 0.8, "q": 1.5, "F": 2.0, "w": 2.3}, (0.5, 0.2, 0.1, 0.0), 0.04, ("a", "b"),
         ("c", "k", "n", "q", "F"), parts={"period": "2*pi/w"}),
    Held("Josephson junction with load", ("p'' + c*p' + sin(p) + l {0} = J + A*cos(w*t)", "r*l' = p' - l"),
         {"c": 0.6, "r": 2.0, "J": 0.4, "A": 1.1, "w": 0.8}, (0.2, 0.1, 0.3), 0.06, ("p",), ("c", "r", "J", "A"),
         parts={"period": "2*pi/w", "angles": ["p"]}),
    Held("ship in waves", ("p'' + c*p' + d*p'*abs(p') + k*p - q*p**3 {0} = F*cos(w*t)",),
         {"c": 0.06, "d": 0.08, "k": 1.0, "q": 1.0, "F": 0.06, "w": 0.83}, (0.2, 0.0), 0.08, ("p",),
         ("c", "d", "k", "q", "F"), parts={"period": "2*pi/w"}),
)  # fmt: skip
"""`{0}` marks the place of the term in MISSING."""

MISSING: Mapping[str, str] = {
    "Lorenz-84": "+ 0.03*x*z", "Arneodo": "- 0.02*y*abs(y)", "Selkov": "- 0.03*x**2", "Lengyel-Epstein": "- 0.02*x**2",
    "predator and prey": "- 0.01*x*y**2", "Wilberforce": "+ 0.1*z**3", "Burke-Shaw": "- 0.05*y*abs(y)",
    "WINDMI": "- 0.02*y**2", "Morse decay": "+ 0.03*x'*abs(x')", "SEIR waves": "- 0.05*i*s",
    "three-well beam": "+ 0.03*x'*abs(x')", "gyroscope on springs": "+ 0.05*a'*abs(a')",
    "Josephson junction with load": "+ 0.05*p'*abs(p')", "ship in waves": "+ 0.1*p**5",
}  # fmt: skip
"""Small terms of the truth that the model lacks."""


def verdict_record(held: Held, samples: int, seed: int, complete: bool = False, spread: float = 0.1) -> kz.Record:
    """A clean run from initial states of its own; complete: with the term that the model lacks."""
    text = MISSING.get(held.label, "") if complete else ""
    model = _model(held, text)
    rng = np.random.default_rng([seed, len(held.label)])
    start = np.array(held.start) * (1.0 + spread * rng.uniform(-1.0, 1.0, len(held.start)))
    skip = round(held.settle / held.step)
    run = kz.simulate(model, x0=start.tolist(), t=np.arange(skip + samples) * held.step)
    return run.samples(slice(skip, None)).select(list(held.seen))


def right_model(held: Held) -> kz.Model:
    """The model that is believed."""
    return _model(held, "")


def _model(held: Held, text: str) -> kz.Model:
    equations = [e.format(text) for e in held.equations]
    return kz.Model.from_equations(equations, parameters=dict(held.values), name=held.label, **held.parts)


@dataclass(frozen=True)
class Exchanged:
    """A system with several sets of parameters for the same data; solutions: values of the free ones, truth first."""

    label: str
    equations: tuple[str, ...]
    values: Mapping[str, float]
    start: tuple[float, ...]
    step: float
    samples: int
    outputs: Mapping[str, str]
    solutions: tuple[Mapping[str, float], ...]


EXCHANGED: tuple[Exchanged, ...] = (
    Exchanged("absorption and elimination", ("a' = -ka*a", "c' = ka*a - ke*c"), {"ka": 1.4, "ke": 0.35}, (5.0, 0.0),
              0.05, 300, {"plasma": "c"}, ({"ka": 1.4, "ke": 0.35}, {"ka": 0.35, "ke": 1.4})),
    Exchanged("two isotopes in one counter", ("a' = -la*a", "b' = -lb*b"), {"la": 0.9, "lb": 0.2}, (3.0, 2.0),
              0.05, 300, {"count": "a + b"}, ({"la": 0.9, "lb": 0.2}, {"la": 0.2, "lb": 0.9})),
    Exchanged("beating of two strings", ("x'' + d*x' + p*x = 0", "y'' + e*y' + q*y = 0"),
              {"p": 9.0, "q": 12.0, "d": 0.05, "e": 0.02}, (1.0, 0.6, 0.0, 0.0), 0.03, 600, {"mic": "x + y"},
              ({"p": 9.0, "q": 12.0, "d": 0.05, "e": 0.02}, {"p": 12.0, "q": 9.0, "d": 0.02, "e": 0.05})),
    Exchanged("two time constants", ("T1*u' = sin(0.7*t) + sin(2.1*t) - u", "T2*v' = u - v"), {"T1": 0.3, "T2": 1.2},
              (0.0, 0.5), 0.05, 400, {"out": "v"}, ({"T1": 0.3, "T2": 1.2}, {"T1": 1.2, "T2": 0.3})),
    Exchanged("inclinometer on a tilted pendulum", ("p'' + c*p' + w*sin(p - d) = 0",), {"c": 0.1, "w": 4.0, "d": 0.3},
              (1.2, 0.0), 0.03, 500, {"acc": "cos(p)"},
              ({"c": 0.1, "w": 4.0, "d": 0.3}, {"c": 0.1, "w": 4.0, "d": -0.3})),
    Exchanged("three tanks in a row", ("a' = -k*a", "b' = k*a - l*b", "c' = l*b - m*c"),
              {"k": 0.3, "l": 0.8, "m": 2.0}, (4.0, 1.0, 0.5), 0.05, 400, {"level": "c"},
              tuple({"k": k, "l": l, "m": m} for k, l, m in (
                  (0.3, 0.8, 2.0), (0.3, 2.0, 0.8), (0.8, 0.3, 2.0), (0.8, 2.0, 0.3), (2.0, 0.3, 0.8),
                  (2.0, 0.8, 0.3)))),
)  # fmt: skip
"""All states that are not seen are free at the start, so exchanged parameters fit exactly as well."""

LOOSE: tuple[Exchanged, ...] = (
    Exchanged("saturating uptake", ("s' = -V*s/(K + s)",), {"V": 1.0, "K": 2.0}, (4.0,), 0.15, 60, {"s": "s"}, ()),
    Exchanged(
        "logistic growth, early", ("n' = r*n*(1 - n/C)",), {"r": 0.8, "C": 10.0}, (0.5,), 0.08, 50, {"n": "n"}, ()
    ),
    Exchanged(
        "Monod batch",
        ("s' = -m*s*b/(K + s)", "b' = 0.5*m*s*b/(K + s)"),
        {"m": 0.6, "K": 0.5},
        (2.0, 0.3),
        0.12,
        70,
        {"s": "s", "b": "b"},
        (),
    ),
    Exchanged(
        "cooling by radiation",
        ("T' = -a*(T - 0.3) - b*(T**4 - 0.0081)",),
        {"a": 0.3, "b": 0.2},
        (1.0,),
        0.08,
        60,
        {"T": "T"},
        (),
    ),
    Exchanged(
        "drag and dry friction", ("v' = -c*v - d*v*abs(v)",), {"c": 0.3, "d": 0.4}, (1.5,), 0.08, 60, {"v": "v"}, ()
    ),
)
"""Short noisy records in which parameters are traded for each other."""

TWO_INVARIANTS: tuple[tuple[Held, Mapping[str, str], str], ...] = (
    (Held("rigid body", ("p' = (B - C)/A*q*r", "q' = (C - A)/B*r*p", "r' = (A - B)/C*p*q"),
          {"A": 1.0, "B": 2.0, "C": 3.2}, (0.6, 1.0, 0.3), 0.05, ("p", "q", "r"), ("C",)),
     {"energy": "A*p**2 + B*q**2 + C*r**2"}, "the squared momentum"),
    (Held("spherical pendulum", ("x'' = -l*x", "y'' = -m*y"), {"l": 2.0, "m": 2.9}, (0.6, 0.2, 0.1, 0.7), 0.05,
          ("x", "y"), ("m",)),
     {"energy": "(x'**2 + y'**2 + l*x**2 + m*y**2)/2"}, "the energy of x alone"),
    (Held("central force", ("x'' = -k*x/sqrt(x**2 + y**2)**3", "y'' = -k*y/sqrt(x**2 + y**2)**3"), {"k": 1.0},
          (1.0, 0.0, 0.0, 1.15), 0.03, ("x", "y"), ("k",)),
     {"energy": "(x'**2 + y'**2)/2 - k/sqrt(x**2 + y**2)"}, "angular momentum"),
)  # fmt: skip
"""A declared invariant and what else is conserved."""
