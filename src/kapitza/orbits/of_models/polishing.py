"""Polished orbits from cycles of section points."""

from __future__ import annotations

import numpy as np

from kapitza.base.arrays import Array
from kapitza.base.workers import Shared
from kapitza.errors import Status
from kapitza.model import Model
from kapitza.orbits import PeriodicOrbit
from kapitza.orbits.of_models.codes import symbolic_code
from kapitza.orbits.of_models.floquet import monodromy, stability
from kapitza.orbits.of_models.returns import StepReturn
from kapitza.orbits.of_models.shooting import MultipleShooting
from kapitza.orbits.of_models.solve_orbit import solve_orbit


def polished_cycle(model: Model, cycle: Array, details: bool) -> tuple[PeriodicOrbit, str]:
    """Return the orbit through a cycle (p, n).

    The reason of a rejection is returned too ('' when it is kept).
    """
    if model.is_map:
        return _map_orbit(model, cycle), ""
    orbit = solve_orbit(model, cycle, len(cycle), MultipleShooting(nodes=1), throw=False, profile=details)
    if orbit.status not in (Status.CONVERGED, Status.GRAZING):
        return orbit, orbit.status.value
    return orbit, ""


def _map_orbit(model: Model, cycle: Array) -> PeriodicOrbit:
    step = StepReturn(model)
    after, slopes = step(cycle, True)
    assert slopes is not None
    multipliers = monodromy(slopes).multipliers
    gap = np.abs(after - np.roll(cycle, -1, axis=0)).max() / max(np.abs(cycle).max(), 1e-12)
    return PeriodicOrbit(
        model.states,
        cycle,
        float(len(cycle)),
        len(cycle),
        (0,) * len(model.states),
        multipliers,
        float(gap),
        symbolic_code(model, cycle),
        stability(multipliers, float("nan"), False),
        parameters=dict(model.values),
        method="census",
    )


def polished_cycles(model: Shared[Model], cycles: list[Array], details: bool) -> list[tuple[PeriodicOrbit, str]]:
    """Polish several cycles, here or in a worker."""
    return [polished_cycle(model.value, cycle, details) for cycle in cycles]
