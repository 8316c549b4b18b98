"""Held-out systems for the detector of bad samples: written down before its rules, and used for no tuning.

Smooth motions that can be fitted, and motions that look like faults to a careless detector: impacts, stops with
clearance, stick-slip, hysteresis, relaxation, bursts, wrapped angles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kapitza as kz

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Held:
    """A held-out system. free: parameters of its fits, empty where it is only looked at; seen: channels measured.

    step [s] between samples; settle [s]: left out before the record; spread: of the initial states between seeds.
    """

    label: str
    equations: tuple[str, ...]
    values: Mapping[str, float]
    start: tuple[float, ...]
    step: float
    seen: tuple[str, ...]
    free: tuple[str, ...] = ()
    settle: float = 0.0
    spread: float = 0.1
    parts: Mapping[str, Any] = field(default_factory=dict)

    def model(self) -> kz.Model:
        equations, values = list(self.equations), dict(self.values)
        return kz.Model.from_equations(equations, parameters=values, name=self.label, **self.parts)

    def record(self, samples: int, seed: int, noise: float) -> kz.Record:
        """A noisy record from initial states of its own; noise: share of the spread of each channel."""
        clean = _clean(self.label, samples, seed)
        return clean if noise == 0.0 else kz.measure(clean, noise=noise, seed=seed)


@lru_cache(maxsize=512)
def _clean(label: str, samples: int, seed: int) -> kz.Record:
    held = next(h for h in (*SMOOTH, *ROUGH) if h.label == label)
    rng = np.random.default_rng([seed, len(label)])
    start = np.array(held.start) * (1.0 + held.spread * rng.uniform(-1.0, 1.0, len(held.start)))
    skip = round(held.settle / held.step)
    run = kz.simulate(held.model(), x0=start.tolist(), t=np.arange(skip + samples) * held.step)
    return run.samples(slice(skip, None)).select(list(held.seen))


SMOOTH: tuple[Held, ...] = (
    Held("Thomas", ("x' = sin(y) - b*x", "y' = sin(z) - b*y", "z' = sin(x) - b*z"), {"b": 0.19}, (1.0, -0.5, 0.3),
         0.15, ("x", "y", "z"), ("b",), 50.0),
    Held("Sprott L", ("x' = y + a*z", "y' = b*x**2 - y", "z' = 1 - x"), {"a": 3.9, "b": 0.9}, (2.0, 8.0, -2.2), 0.05,
         ("x", "y", "z"), ("a", "b"), 20.0),
    Held("Brusselator", ("x' = a - (b + 1)*x + x**2*y", "y' = b*x - x**2*y"), {"a": 1.0, "b": 2.6}, (1.3, 2.0), 0.04,
         ("x", "y"), ("a", "b")),
    Held("drag decay", ("x'' + c*x' + d*x'*abs(x') + k*x - s*x**3 = 0",),
         {"c": 0.02, "d": 0.05, "k": 9.0, "s": 1.5}, (1.4, 0.0), 0.02, ("x",), ("c", "d", "k", "s")),
    Held("Ueda, shifted", ("x'' + c*x' + q*x**3 = F*cos(w*t) + b",),
         {"c": 0.05, "q": 1.0, "F": 7.5, "b": 0.5, "w": 1.0}, (2.0, 1.0), 0.03, ("x",),
         ("c", "q", "F"), 12.566370614359172, parts={"period": "2*pi/w"}),
    Held("elastic pendulum", ("r'' - (1 + r)*phi'**2 + k*r - g*cos(phi) + c*r' = 0",
                              "(1 + r)*phi'' + 2*r'*phi' + g*sin(phi) = 0"),
         {"k": 40.0, "g": 9.81, "c": 0.05}, (0.3, 0.9, 0.1, 0.1), 0.02, ("r", "phi"), ("k", "g", "c")),
    Held("Genesio-Tesi", ("x' = y", "y' = z", "z' = -c*x - b*y - a*z + x**2"), {"a": 0.44, "b": 1.1, "c": 1.0},
         (0.1, 0.1, 0.1), 0.08, ("x", "y", "z"), ("a", "b", "c"), 20.0),
    Held("two-well beam", ("x'' + c*x' - k*x + q*x**3 = F*cos(w*t)",),
         {"c": 0.2, "k": 1.0, "q": 1.0, "F": 0.35, "w": 1.1}, (0.8, 0.3), 0.05, ("x",),
         ("c", "k", "q", "F"), 5.711986642890533, parts={"period": "2*pi/w"}),
)  # fmt: skip
"""Systems that are fitted: two of their parameters and more, all smooth."""

ROUGH: tuple[Held, ...] = (
    Held("hammer", ("x'' + c*x' + k*x = F*cos(w*t)",), {"c": 0.1, "k": 1.0, "F": 1.5, "w": 2.1, "e": 0.7},
         (0.5, 0.5), 0.03, ("x", "x'"), parts={"period": "2*pi/w", "impacts": [
             {"name": "anvil", "surface": "0.6 - x", "reset": {"x'": "-e*x'"}}]}),
    Held("ball on a table", ("x'' = -g + a*sin(t)",), {"g": 1.0, "a": 0.55, "e": 0.8}, (1.0, 0.5), 0.04, ("x", "x'"),
         parts={"period": "2*pi", "impacts": [{"name": "table", "surface": "x", "reset": {"x'": "-e*x'"}}]}),
    Held("stops with clearance", ("x'' + c*x' + k*x + s*(Max(x - 0.5, 0) + Min(x + 0.5, 0)) = F*cos(w*t)",),
         {"c": 0.1, "k": 0.2, "s": 400.0, "F": 1.0, "w": 1.3}, (0.3, 0.2), 0.02, ("x", "x'"),
         parts={"period": "2*pi/w"}),
    Held("brake", ("x'' + c*x' + k*x + f*sign(x' - v)*(0.6 + 0.4*exp(-3*abs(x' - v))) = 0",),
         {"c": 0.02, "k": 4.0, "f": 1.0, "v": 0.35}, (0.2, 0.1), 0.03, ("x", "x'")),
    Held("hysteresis", ("x'' + c*x' + k*x + h*z = F*cos(w*t)", "z' = x' - b*abs(x')*z*abs(z) - d*x'*z**2"),
         {"c": 0.05, "k": 1.0, "h": 2.0, "F": 2.0, "w": 1.4, "b": 3.0, "d": 1.0}, (0.5, 0.0, 0.1), 0.04,
         ("x", "z"), parts={"period": "2*pi/w"}),
    Held("Rayleigh relaxation", ("x'' - m*(1 - x'**2)*x' + x = 0",), {"m": 12.0}, (3.0, 0.5), 0.05, ("x", "x'")),
    Held("Hindmarsh-Rose", ("x' = y - x**3 + 3*x**2 - z + i", "y' = 1 - 5*x**2 - y", "z' = r*(4*(x + 1.6) - z)"),
         {"i": 3.2, "r": 0.006}, (-1.0, -3.0, 3.0), 0.2, ("x", "y", "z")),
    Held("Oregonator", ("e*x' = q*y - x*y + x*(1 - x)", "d*y' = -q*y - x*y + f*z", "z' = x - z"),
         {"e": 0.04, "d": 0.002, "q": 0.0008, "f": 0.9}, (0.3, 0.05, 0.2), 0.02, ("x", "z")),
    Held("turning rotor", ("phi'' + c*phi' + sin(phi) = T + A*cos(w*t)",), {"c": 0.2, "T": 0.8, "A": 1.2, "w": 0.7},
         (0.3, 1.5), 0.08, ("phi", "phi'"), parts={"period": "2*pi/w", "angles": ["phi"]}),
    Held("three phases", ("a' = 1.0 + k*(sin(b - a) + sin(c - a))", "b' = 1.4 + k*(sin(a - b) + sin(c - b))",
                          "c' = 0.5 + k*(sin(a - c) + sin(b - c))"),
         {"k": 0.25}, (0.1, 1.0, 2.5), 0.1, ("a", "b", "c"), parts={"angles": ["a", "b", "c"]}),
)  # fmt: skip
"""Systems whose clean records must not be flagged: events, fast phases, wrapped angles."""


def quantised(record: kz.Record, parts: int) -> kz.Record:
    """Every channel rounded to its standard deviation over `parts`."""
    for name, angle in zip(record.channels, record.angles, strict=True):
        q = float(record[name].std()) / parts
        record = record.with_channel(name, np.round(record[name] / q) * q, record.units[name], angle)
    return record
