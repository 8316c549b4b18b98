"""Model: the equations of motion, written once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import sympy as sp
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Prior:
    """Gaussian knowledge of a parameter before the data."""

    mean: float
    deviation: float


@dataclass(frozen=True)
class Parameter:
    """A parameter; with `expression` it is derived from others and has no value of its own."""

    name: str
    value: float = float("nan")
    unit: str = ""
    bounds: tuple[float, float] = (-np.inf, np.inf)
    prior: Prior | None = None
    expression: sp.Expr | None = None
    description: str = ""


@dataclass(frozen=True)
class Coordinate:
    """A coordinate with the order of its equation (1 or 2); angles live on a circle."""

    name: str
    order: int = 2
    angle: bool = False
    unit: str = ""
    description: str = ""


@dataclass(frozen=True)
class Signal:
    """A measured periodic signal that appears in the equations under its name.

    times: (N,) from 0 within one period; values: (N,). kind "polynomial" (piecewise, `degree`, breakpoints at the
    samples, which the integrator respects; 0 holds each sample) or "fourier" (`harmonics`).
    """

    name: str
    times: Array
    values: Array
    period: float
    kind: str = "polynomial"
    degree: int = 1
    harmonics: int | None = None
    unit: str = ""


@dataclass(frozen=True)
class Excitation:
    """What drives the model: the period as an expression in the parameters (2*pi/omega), and measured signals."""

    period: sp.Expr
    signals: tuple[Signal, ...] = ()


@dataclass(frozen=True)
class Impact:
    """A wall: motion takes place where surface >= 0; when it reaches 0 from above the reset map applies.

    reset: new value of each state that jumps, in the states before the impact.
    """

    surface: sp.Expr
    reset: Mapping[str, sp.Expr]
    name: str = ""


@dataclass(frozen=True)
class Symmetry:
    """If x(t) is a motion, so is S x(t + shift·period): `map` gives S (states left out stay as they are)."""

    map: Mapping[str, sp.Expr]
    shift: float = 0.0


@dataclass(frozen=True)
class Model:
    """Equations of motion with parameters: residuals g(u, u', u'', t, θ) = 0, or a map x -> F(x, θ).

    equations: one residual per coordinate for flows; for maps the new value of each state.
    partition: expressions whose signs cut the section into the cells of the symbolic code; `letters` names the cells
    in binary order of the signs (first expression slowest, positive first).
    start: a sensible initial state for simulations.
    """

    name: str
    coordinates: tuple[Coordinate, ...]
    equations: tuple[sp.Expr, ...]
    parameters: tuple[Parameter, ...] = ()
    excitation: Excitation | None = None
    outputs: Mapping[str, sp.Expr] = field(default_factory=dict)
    invariants: Mapping[str, sp.Expr] = field(default_factory=dict)
    impacts: tuple[Impact, ...] = ()
    symmetries: tuple[Symmetry, ...] = ()
    partition: tuple[sp.Expr, ...] = ()
    letters: str = ""
    start: Mapping[str, float] = field(default_factory=dict)
    is_map: bool = False
    description: str = ""
    source: str = ""
