"""What continuation returns: bifurcations and the ends of branches."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from kapitza.base.argument_checks import Anything
from kapitza.base.arrays import Array, Numbers
from kapitza.base.part_fields import Inside
from kapitza.model import Model


class Kind(Enum):
    """Kind of a bifurcation; the value is shown."""

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
    RESONANCE_1_3 = "1:3 resonance"
    RESONANCE_1_4 = "1:4 resonance"
    GENERALISED_DOUBLING = "generalised period doubling"
    FOLD_FLIP = "fold-flip"
    FOLD_NEIMARK_SACKER = "fold-Neimark-Sacker"
    FLIP_NEIMARK_SACKER = "flip-Neimark-Sacker"
    DOUBLE_NEIMARK_SACKER = "double Neimark-Sacker"
    BOGDANOV_TAKENS = "Bogdanov-Takens"
    GENERALISED_HOPF = "generalised Hopf"
    ZERO_HOPF = "zero-Hopf"
    DOUBLE_HOPF = "double Hopf"


class End(Enum):
    """Reason why a branch ends; the value is shown."""

    BOUND = "the parameter reached its bound"
    CLOSED = "the branch closed on itself"
    RETURNED = "the branch came back on the same orbits, shifted or mirrored"
    HOPF = "the orbits shrink to an equilibrium at a Hopf point"
    MERGED = "the branch ends at the bifurcation where it leaves another one"
    CODIMENSION_TWO = "the curve ends at a point of codimension two"
    HOMOCLINIC = "the period grows without limit: a homoclinic orbit of a saddle"
    HETEROCLINIC = "the period grows without limit: a heteroclinic cycle"
    SADDLE_NODE = "the period grows without limit: a saddle-node on an invariant circle"
    NEIMARK_SACKER = "the tori shrink to a periodic orbit at a Neimark-Sacker point"
    LOCKED = "the rotation number comes next to a ratio p/q, where the motion is phase-locked"
    ROUGH = "the torus is not resolved by the harmonics that are allowed"
    GRAZING = "the orbit grazes a wall or a surface, where it has no derivative"
    SECTION = "an event lies at the instant of the section"
    EXTINCT = "the motion dies out"
    EQUILIBRIUM = "the orbit shrinks to an equilibrium"
    STEP = "the step fell below the smallest one allowed"
    POINTS = "the number of points asked for was reached"
    INTERRUPTED = "stopped by the user"
    START = "the branch begins here"


@dataclass(frozen=True)
class Critical:
    """Critical multiplier (or eigenvalue) of a bifurcation.

    critical: the multiplier (eigenvalue) that crosses the circle (or the axis); vector: (n,) its direction in state
    space; frequency: imaginary part of the eigenvalue at a Hopf point, angle of the pair at Neimark-Sacker;
    coefficient: first Lyapunov coefficient of a Hopf point, negative where it is supercritical; tangent: (N,) of the
    branch at a branch point, in its unknowns.
    """

    critical: complex
    vector: Numbers = field(repr=False)
    frequency: float = float("nan")
    coefficient: float = float("nan")
    tangent: Array | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Proof:
    """Certificate of the label of a bifurcation.

    verified: False where the certificate of the multipliers does not allow it: shown as "unverified"; defect: of the
    multipliers; distance: of the critical one from where it should be; note: why it is not verified.
    """

    verified: bool
    defect: float
    distance: float
    note: str = ""


@dataclass(frozen=True)
class ReturnMap:
    """Map that a bifurcation was found on.

    half: half of the period, by a symmetry; span, offset: its excitation periods and where they begin.
    """

    half: bool = False
    span: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True)
class Bifurcation:
    """A point where the family changes character.

    kind: what; parameter and value: where; point: (n,) state at t = 0 (or on the orbit); period; repeats; multipliers:
    (n,) largest first (eigenvalues for equilibria). position: index of the branch point before it.
    model: at which values it was found; values: of all parameters of a curve. interval: (low, high) of the value from
    the posterior of a fit, where one was given, and its standard deviation, deviation. unfolding: the damping that
    unfolds a family of free vibrations. sizes: (n,) of the states along the branch, for points that are at the origin.

    Three parts: crossing (`Critical`: critical, vector, frequency, coefficient, tangent), proof (`Proof`: verified,
    defect, distance, note) and map (`ReturnMap`: half, span, offset). Their fields are attributes of the point too.

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
    crossing: Critical
    proof: Proof
    map: ReturnMap = field(default_factory=ReturnMap)
    position: int = -1
    interval: tuple[float, float] | None = None
    deviation: float = float("nan")
    values: Anything = field(default=None, repr=False)
    unfolding: str = ""
    sizes: Array | None = field(default=None, repr=False)

    critical = Inside[complex]("crossing")
    vector = Inside["Numbers"]("crossing")
    frequency = Inside[float]("crossing")
    coefficient = Inside[float]("crossing")
    tangent = Inside["Array | None"]("crossing")
    verified = Inside[bool]("proof")
    defect = Inside[float]("proof")
    distance = Inside[float]("proof")
    note = Inside[str]("proof")
    half = Inside[bool]("map")
    span = Inside[float]("map")
    offset = Inside[float]("map")

    @property
    def criticality(self) -> str:
        """Return the criticality where the normal form was computed.

        It is "supercritical" or "subcritical", and "" elsewhere.
        """
        if not np.isfinite(self.coefficient):
            return ""
        return "supercritical" if self.coefficient < 0 else "subcritical"

    @property
    def name(self) -> str:
        return self.kind.value if self.verified else f"{self.kind.value} (unverified)"

    def __str__(self) -> str:
        where = f"{self.name} at {self.parameter} = {self.value:.12g}"
        if self.criticality:
            where += f", {self.criticality}"
        if self.interval is not None:
            where += f" [{self.interval[0]:.6g}, {self.interval[1]:.6g}]"
        return where
