"""What continuation gives back: bifurcations and the ends of branches."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.model import Model

Array = NDArray[np.float64]


class Kind(Enum):
    """What happens at a point of a branch; the value is the word to show."""

    FOLD = "fold"
    DOUBLING = "period doubling"
    NEIMARK_SACKER = "Neimark-Sacker"
    PITCHFORK = "pitchfork"
    BRANCH_POINT = "branch point"
    HOPF = "Hopf"
    GRAZING = "grazing"
    SEQUENCE = "change of event sequence"
    STICK = "beginning of stick"
    CUSP = "cusp"
    RESONANCE_1_1 = "1:1 resonance"
    RESONANCE_1_2 = "1:2 resonance"
    GENERALISED_DOUBLING = "generalised period doubling"
    BOGDANOV_TAKENS = "Bogdanov-Takens"


class End(Enum):
    """Why a branch ends; the value is the sentence to show."""

    BOUND = "the parameter reached its bound"
    CLOSED = "the branch closed on itself"
    RETURNED = "the branch came back on the same orbits, shifted or mirrored"
    HOMOCLINIC = "the period grows without limit: a homoclinic orbit"
    GRAZING = "the orbit grazes a wall or a surface, where it has no derivative"
    SECTION = "an event lies at the instant of the section"
    EXTINCT = "the motion dies out"
    EQUILIBRIUM = "the orbit shrinks to an equilibrium"
    STEP = "the step fell below the smallest one allowed"
    POINTS = "the number of points asked for was reached"
    INTERRUPTED = "stopped by the user"
    START = "the branch begins here"


@dataclass(frozen=True)
class Bifurcation:
    """A point where the family changes character.

    kind: what; parameter and value: where; point: (n,) state at t = 0 (or on the orbit); period; repeats; multipliers:
    (n,) largest first (eigenvalues for equilibria); critical: the one on the circle (or axis).
    verified: False where the certificate of the multipliers does not allow a label: shown as "unverified".
    defect: of the multipliers; distance: of the critical one from where it should be.
    vector: (n,) critical direction in state space; position: index of the branch point before it.
    frequency: imaginary part of the critical eigenvalue at a Hopf point, angle of the critical pair at Neimark-Sacker.
    interval: (low, high) of the value from the posterior of a fit, where one was given, and its standard deviation,
    deviation. model: at which values it was found; values: of all parameters of a curve. half: found on the half map;
    span, offset: excitation periods of its map and where that begins. note: why it is not verified.

    Examples
    --------
    >>> import kapitza as kz
    >>> model = kz.Model.from_equations(
    ...     "x'' + c*x' + x + x**3 = B*cos(omega*t)", parameters={"c": 0.1, "B": 0.3, "omega": 1.0}, period="2*pi/omega"
    ... )
    >>> branch = kz.follow(model, None, "omega", bounds=(0.9, 2.0))
    >>> [(fold.kind.value, round(fold.value, 4)) for fold in branch.bifurcations]
    [('fold', 1.7797), ('fold', 1.3242)]
    """

    kind: Kind
    model: Model = field(repr=False)
    parameter: str
    value: float
    point: Array
    period: float
    repeats: int | None
    multipliers: NDArray[np.complex128]
    critical: complex
    verified: bool
    defect: float
    distance: float
    vector: Array = field(repr=False)
    position: int = -1
    frequency: float = float("nan")
    interval: tuple[float, float] | None = None
    deviation: float = float("nan")
    half: bool = False
    span: float = 1.0
    offset: float = 0.0
    values: Any = field(default=None, repr=False)
    note: str = ""

    @property
    def name(self) -> str:
        return self.kind.value if self.verified else f"{self.kind.value} (unverified)"

    def __str__(self) -> str:
        where = f"{self.name} at {self.parameter} = {self.value:.12g}"
        if self.interval is not None:
            where += f" [{self.interval[0]:.6g}, {self.interval[1]:.6g}]"
        return where
