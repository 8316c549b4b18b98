"""Models without force, with a damping.

The damping unfolds their families of free vibrations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sympy as sp

from kapitza.errors import KapitzaError
from kapitza.model import Excitation, Model, Parameter, rate, symbol

UNFOLDING = "unfolding"
"""The damping [1/s] that an autonomous model is given; zero on every orbit of a conservative one."""


def undamped(
    model: Model, frequency: str, force: str | Sequence[str], damping: str | Sequence[str]
) -> tuple[Model, tuple[str, ...]]:
    """Return the model without force and damping.

    The names of the dampings are returned too; the first unfolds its families.
    """
    forces = (force,) if isinstance(force, str) else tuple(force)
    dampings = (damping,) if isinstance(damping, str) else tuple(damping)
    model.needs_repetition("families of orbits")
    if model.period is None:
        return _unfolded(model, frequency, forces, dampings)
    for name in (*forces, *dampings, frequency):
        model.check(name)
    if not dampings:
        raise KapitzaError(f'Name a damping of "{model.name}": it is set to zero, and unfolds the family.')
    return model.with_values(**dict.fromkeys((*forces, *dampings), 0.0)), dampings


def _unfolded(
    model: Model, frequency: str, forces: tuple[str, ...], dampings: tuple[str, ...]
) -> tuple[Model, tuple[str, ...]]:
    """Return an autonomous model with unfolding damping.

    A clock is added that distinguishes the orbits of its families.
    """
    if forces:
        raise KapitzaError(f'"{model.name}" has no excitation: there is no force to leave out.')
    if model.is_map or model.delays:
        raise KapitzaError(f'"{model.name}" is a map or has delays: backbones are those of differential equations.')
    for name in dampings:
        model.check(name)
    for name in (frequency, UNFOLDING):
        if name in model.names or name in model.states:
            raise KapitzaError(
                f'"{name}" has a meaning in "{model.name}": give the frequency of the free vibration another name, '
                'backbone(model, "w").'
            )
    d = symbol(UNFOLDING)
    if all(c.order == 2 for c in model.coordinates):
        # With x'' + d x' for x'' the power is -d x'ᵀ M x', whatever the masses.
        damped = {rate(c.name, 2): rate(c.name, 2) + d * rate(c.name) for c in model.coordinates}
    elif model.invariants and all(c.order == 1 for c in model.coordinates):
        energy = next(iter(model.invariants.values()))
        damped = {rate(c.name): rate(c.name) + d * sp.diff(energy, symbol(c.name)) for c in model.coordinates}
    else:
        raise KapitzaError(
            f'"{model.name}" has equations of first order: what is conserved must be known to unfold the family, '
            'Model.from_equations(..., invariants={"energy": "..."}).'
        )
    period = 2 * sp.pi / symbol(frequency)
    extended = replace(
        model,
        equations=tuple(e.xreplace(damped) for e in model.equations),
        parameters=(*model.parameters, Parameter(frequency, 1.0, unit="rad/s"), Parameter(UNFOLDING, 0.0, unit="1/s")),
        excitation=Excitation(period),
    )
    return extended.with_values(**dict.fromkeys(dampings, 0.0)), (UNFOLDING, *dampings)
