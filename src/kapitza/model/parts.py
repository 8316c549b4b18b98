"""The parts of a model.

Parameters, coordinates, excitation, impacts, symmetries.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sympy as sp

from kapitza.base import checks
from kapitza.base.cures import PRIOR
from kapitza.errors import ModelError
from kapitza.model.measured import Signal
from kapitza.model.symbols import Expression, Written


@dataclass(frozen=True)
class Prior:
    """Gaussian knowledge of a parameter before the data.

    It is mean ± deviation, in its unit.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.Parameter("m", 0.09, unit="kg", prior=kz.Prior(0.09, 0.001)).prior.deviation
    0.001
    """

    mean: float
    deviation: float

    def __post_init__(self):
        for key in ("mean", "deviation"):
            value = checks.number(f"Prior: {key}", getattr(self, key), finite=False, error=ModelError)
            object.__setattr__(self, key, value)
        if not (math.isfinite(self.mean) and math.isfinite(self.deviation) and self.deviation > 0):
            raise ModelError(
                f"Prior: mean {self.mean:g}, deviation {self.deviation:g}; both must be finite and the deviation > 0."
            )


@dataclass(frozen=True)
class Parameter:
    """A parameter, free-standing or derived from others.

    With `expression` it is derived and has no value of its own.

    name: as it occurs in the equations; value: NaN where none is known; unit: "" for none; bounds: (low, high) that a
    fit keeps; prior: further knowledge; description: for readers.

    Examples
    --------
    >>> import kapitza as kz
    >>> mass = kz.Parameter("m", 0.09, unit="kg", bounds=(0.0, 1.0))
    >>> kz.Model.from_equations("m*x'' + x = 0", parameters=[mass]).values["m"]
    0.09
    """

    name: str
    value: float = math.nan
    unit: str = ""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    prior: Prior | None = None
    expression: Expression | None = None
    description: str = ""

    def __post_init__(self):
        label = _named(self, "A parameter", "Parameter")
        object.__setattr__(self, "value", checks.number(label, self.value, finite=False, error=ModelError))
        bounds = checks.array(f"{label}: bounds", self.bounds, shape=(2,), error=ModelError)
        object.__setattr__(self, "bounds", (low := float(bounds[0]), high := float(bounds[1])))
        if self.expression is not None:
            object.__setattr__(self, "expression", checks.expression(label, self.expression, error=ModelError))
        _check_prior(label, self.prior)
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
    """A coordinate with the order of its equation.

    The order is 1 or 2; angles live on a circle.

    name: as it occurs in the equations; unit: of its values, "" for none; description: for readers.

    Examples
    --------
    >>> import kapitza as kz
    >>> angle = kz.Coordinate("phi", angle=True, unit="rad")
    >>> kz.Model.from_equations("phi'' + sin(phi) = 0", coordinates=[angle]).angles
    (True, False)
    """

    name: str
    order: int = 2
    angle: bool = False
    unit: str = ""
    description: str = ""

    def __post_init__(self):
        label = _named(self, "A coordinate", "Coordinate")
        object.__setattr__(self, "order", checks.whole(f"{label}: order", self.order, error=ModelError))
        object.__setattr__(self, "angle", checks.flag(f"{label}: angle", self.angle, error=ModelError))
        if self.order not in (1, 2):
            raise ModelError(
                f'Coordinate "{self.name}" has an equation of order {self.order}; write it with orders 1 and 2 '
                "(a third derivative is the rate of a further coordinate)."
            )


@dataclass(frozen=True)
class Excitation:
    """The period (2*pi/omega) and measured signals of a drive.

    The period is None where a signal does not repeat.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.library.duffing().excitation.period
    2*pi
    """

    period: Expression | None
    signals: tuple[Signal, ...] = ()

    def __post_init__(self):
        object.__setattr__(self, "signals", tuple(checks.items("signals", self.signals, error=ModelError)))
        lasting = _lasting(self.signals)
        if self.period is None:
            if not lasting:
                raise ModelError("The excitation has neither a period nor a signal without one; give its period.")
            return
        object.__setattr__(self, "period", checks.expression("The period", self.period, error=ModelError))
        if lasting:
            raise ModelError(
                f'The excitation has the period {self.period}, but its signal "{lasting[0]}" does not repeat: leave '
                "the period of the model out, or give the signal one."
            )

    @classmethod
    def of_signals(cls, signals: Sequence[Signal]) -> Excitation:
        """Return the excitation by measured signals alone.

        Its period is the longest of theirs, or None where one does not repeat.
        """
        periods = [signal.period for signal in signals if signal.period is not None]
        return cls(sp.Float(max(periods)) if periods and len(periods) == len(signals) else None, tuple(signals))

    @property
    def timing(self) -> set[str]:
        """Return the names of parameters in the period."""
        return set() if self.period is None else {s.name for s in self.period.free_symbols}


@dataclass(frozen=True)
class Impact:
    """Describe a wall and its reset map.

    Motion takes place where surface >= 0; when it reaches 0 from above the reset map applies.

    reset: new value of each state that jumps, in the states before the impact. name: for messages.

    Examples
    --------
    >>> import kapitza as kz
    >>> model = kz.Model.from_equations("y'' + 9.81 = 0", impacts=[{"surface": "y", "reset": {"y'": "-0.5*y'"}}])
    >>> model.impacts[0].surface
    y
    """

    surface: Written
    reset: Mapping[str, Written]
    name: str = ""


@dataclass(frozen=True)
class Symmetry:
    """State that images of motions are motions.

    If x(t) is a motion, so is S x(t + shift·period): `map` gives S (states left out stay as they are).

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.library.parametric_pendulum().symmetries[0].map["phi"]
    -phi
    """

    map: Mapping[str, Written]
    shift: float = 0.0

    def __post_init__(self):
        object.__setattr__(self, "shift", checks.number("Symmetry: shift", self.shift, error=ModelError))


def _check_prior(label: str, given: object) -> None:
    if not isinstance(given, Prior | None):
        raise ModelError(f"{label}: the prior is {checks.shown(given)}; give {PRIOR}.")


def _lasting(signals: Sequence[object]) -> list[str]:
    """Return the names of the signals without a period."""
    return [s.name for s in signals if isinstance(s, Signal) and s.period is None]


def _named(part: Parameter | Coordinate, what: str, kind: str) -> str:
    """Check the name, unit and description of a part.

    Returns its label for messages.
    """
    object.__setattr__(part, "name", checks.name(what, part.name, error=ModelError))
    label = f'{kind} "{part.name}"'
    for key in ("unit", "description"):
        checks.text(f"{label}: {key}", getattr(part, key), error=ModelError)
    return label
