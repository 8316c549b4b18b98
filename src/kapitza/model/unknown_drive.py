"""An excitation of which only the period is known: its Fourier coefficients become parameters (HARMONIC 3)."""

from __future__ import annotations

from dataclasses import replace

import sympy as sp

from kapitza.errors import ModelError, nearest_name
from kapitza.model.model import Model
from kapitza.model.parts import Excitation, Parameter
from kapitza.model.symbols import symbol, time


def unknown_excitation(model: Model, name: str, harmonics: int = 1) -> Model:
    """Replace the measured signal `name` by y(t) = Σ_j E_j cos jωt + F_j sin jωt with unknown E1, F1, E2, ...

    ω = 2π over the period of the excitation. The new parameters enter linearly wherever the signal did; coefficients
    that multiply it can then not be told from them and must be fixed.
    """
    signals = model.signals
    if model.excitation is None or name not in [s.name for s in signals]:
        known = [s.name for s in signals]
        raise ModelError(f'Model "{model.name}" has no signal "{name}".{nearest_name(name, known)}')
    if harmonics < 1:
        raise ModelError(f"An unknown excitation needs at least one harmonic, not {harmonics}.")
    frequency = 2 * sp.pi / model.excitation.period
    new, series = [], sp.Integer(0)
    for order in range(1, harmonics + 1):
        for letter, wave in (("E", sp.cos), ("F", sp.sin)):
            parameter = f"{letter}{order}"
            if any(p.name == parameter for p in model.parameters):
                raise ModelError(f'Model "{model.name}" already has a parameter "{parameter}": rename it first.')
            new.append(Parameter(parameter, 0.0, description=f"{name}, {wave.__name__} {order}ωt"))
            series += symbol(parameter) * wave(order * frequency * time)
    return replace(
        model,
        equations=tuple(e.xreplace({symbol(name): series}) for e in model.equations),
        parameters=(*model.parameters, *new),
        excitation=Excitation(model.excitation.period, tuple(s for s in signals if s.name != name)),
    )
