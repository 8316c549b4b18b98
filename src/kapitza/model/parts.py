"""The parts of a model: parameters, coordinates, excitation, impacts, symmetries."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from kapitza.errors import ModelError
from kapitza.model.measured import Signal
from kapitza.model.symbols import Expression


@dataclass(frozen=True)
class Prior:
    """Gaussian knowledge of a parameter before the data."""

    mean: float
    deviation: float

    def __post_init__(self):
        if not (math.isfinite(self.mean) and math.isfinite(self.deviation) and self.deviation > 0):
            raise ModelError(
                f"Prior: mean {self.mean:g}, deviation {self.deviation:g}; both must be finite and the deviation > 0."
            )


@dataclass(frozen=True)
class Parameter:
    """A parameter; with `expression` it is derived from others and has no value of its own."""

    name: str
    value: float = math.nan
    unit: str = ""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    prior: Prior | None = None
    expression: Expression | None = None
    description: str = ""

    def __post_init__(self):
        low, high = self.bounds
        if not low < high:
            raise ModelError(
                f'Parameter "{self.name}": bounds ({low:g}, {high:g}) are empty; give the lower one first.'
            )
        if self.expression is not None and not math.isnan(self.value):
            raise ModelError(
                f'Parameter "{self.name}" has both a value ({self.value:g}) and an expression; keep one of them.'
            )
        if math.isinf(self.value):
            raise ModelError(f'Parameter "{self.name}" is infinite; give a finite value.')


@dataclass(frozen=True)
class Coordinate:
    """A coordinate with the order of its equation (1 or 2); angles live on a circle."""

    name: str
    order: int = 2
    angle: bool = False
    unit: str = ""
    description: str = ""

    def __post_init__(self):
        if self.order not in (1, 2):
            raise ModelError(
                f'Coordinate "{self.name}" has an equation of order {self.order}; write it with orders 1 and 2 '
                "(a third derivative is the rate of a further coordinate)."
            )


@dataclass(frozen=True)
class Excitation:
    """What drives the model: the period as an expression in the parameters (2*pi/omega), and measured signals."""

    period: Expression
    signals: tuple[Signal, ...] = ()


@dataclass(frozen=True)
class Impact:
    """A wall: motion takes place where surface >= 0; when it reaches 0 from above the reset map applies.

    reset: new value of each state that jumps, in the states before the impact.
    """

    surface: Expression
    reset: Mapping[str, Expression]
    name: str = ""


@dataclass(frozen=True)
class Symmetry:
    """If x(t) is a motion, so is S x(t + shift·period): `map` gives S (states left out stay as they are)."""

    map: Mapping[str, Expression]
    shift: float = 0.0
