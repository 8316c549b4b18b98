"""Problems with known answers. Every method that applies is run on every problem (see methods.py).

Add an entry to a list; the tests that walk through the lists (test_orbit_matrix.py, test_fit_matrix.py) pick it up.
Answers come from closed forms, independent codes or cited tables, never from Kapitza's own output.

Words in `offers` say what a problem is, so that a method can ask for them or refuse them:
"forced", "autonomous", "map", "switches", "impacts", "stiff", "measured excitation", "hamiltonian",
"rotating" (an angle that winds), "linear in parameters", "orbits" (the data are an OrbitSet), "series" (a Record).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class OrbitProblem:
    """A model and a periodic orbit that it is known to have.

    model: makes the model. guess: state near the orbit, by name. period: excitation periods, or a time when autonomous.
    point: the section point, where known. multipliers: the Floquet multipliers, where known, in any order.
    """

    name: str
    model: Callable[[], Any]
    guess: Mapping[str, float]
    period: float
    source: str
    offers: frozenset[str] = frozenset()
    point: Mapping[str, float] = field(default_factory=dict)
    point_tolerance: float = 1e-3
    multipliers: tuple[complex, ...] = ()
    multiplier_tolerance: float = 1e-3
    winding: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class FitProblem:
    """A model, data made with known parameters (seeded), and how close an estimate must come.

    start: makes the model from which the fit begins. data: makes the data. truth: true values of the free parameters.
    tolerance: largest relative error (absolute for a truth of zero), by name, or one for all.
    """

    name: str
    start: Callable[[], Any]
    data: Callable[[], Any]
    truth: Mapping[str, float]
    source: str
    tolerance: float | Mapping[str, float] = 0.01
    offers: frozenset[str] = frozenset()


ORBIT_PROBLEMS: list[OrbitProblem] = []
FIT_PROBLEMS: list[FitProblem] = []
