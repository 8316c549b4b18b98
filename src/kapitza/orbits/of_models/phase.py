"""Phase conditions of autonomous orbits.

They select one of the shifted copies of an orbit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from kapitza.base.arrays import Array
from kapitza.errors import KapitzaError, nearest_name
from kapitza.orbits import Loop
from kapitza.orbits.of_models.field import VectorField


@dataclass(frozen=True)
class PhaseRow:
    """One linear equation on the nodes.

    The equation is Σ_j weights[j]·x_j = target.
    """

    weights: Array
    target: float

    def value(self, nodes: Array) -> float:
        return float((self.weights * nodes).sum() - self.target)


@runtime_checkable
class PhaseCondition(Protocol):
    """Phase condition as an equation on nodes.

    The nodes are at the given fractions (J,); a reference loop near the solution defines the row.
    """

    def row(self, reference: Loop, field: VectorField, fractions: Array) -> PhaseRow: ...


@dataclass(frozen=True)
class OrthogonalPhase:
    """First node in the plane across the flow.

    The plane goes through the reference: f(x̂_0)·(x_0 - x̂_0) = 0.
    """

    def row(self, reference: Loop, field: VectorField, fractions: Array) -> PhaseRow:
        start = reference(np.zeros(1))
        direction = field.rates(start, np.zeros(1))[0]
        size = np.linalg.norm(direction)
        if size == 0:
            raise KapitzaError("The guess starts at an equilibrium, where no phase can be fixed: give a moving state.")
        weights = np.zeros((fractions.size, start.shape[1]))
        weights[0] = direction / size
        return PhaseRow(weights, float(weights[0] @ start[0]))


@dataclass(frozen=True)
class IntegralPhase:
    """Integral phase condition of E. J. Doedel.

    The whole orbit stays as close to the reference as a shift in time can bring it: ∫ x̂'·(x - x̂) ds = 0.
    The condition lets a mesh stay where it is during continuation.
    """

    def row(self, reference: Loop, field: VectorField, fractions: Array) -> PhaseRow:
        states = reference(fractions)
        ahead = np.append(fractions, 1.0 + fractions[0])
        share = 0.5 * (np.diff(ahead) + np.diff(np.append(fractions[-1] - 1.0, fractions)))
        weights = field.rates(states, fractions * reference.period) * share[:, None]
        size = np.linalg.norm(weights)
        if size == 0:
            raise KapitzaError("The guess is an equilibrium, where no phase can be fixed: give a moving orbit.")
        weights = weights / size
        return PhaseRow(weights, float((weights * states).sum()))


@dataclass(frozen=True)
class FixedState:
    """Start where a state has a value.

    The named state has the given value (a Poincaré section).
    """

    state: str
    value: float

    def row(self, reference: Loop, field: VectorField, fractions: Array) -> PhaseRow:
        states = field.model.states
        if self.state not in states:
            raise KapitzaError(f'There is no state "{self.state}".{nearest_name(self.state, states)}')
        weights = np.zeros((fractions.size, len(states)))
        weights[0, states.index(self.state)] = 1.0
        return PhaseRow(weights, self.value)
