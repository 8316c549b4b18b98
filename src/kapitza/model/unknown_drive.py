"""Models with a measured excitation replaced by harmonics.

The harmonics are unknown (HARMONIC 3), or one has a chosen level and frequency.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import sympy as sp

from kapitza.errors import ModelError, nearest_name
from kapitza.model.model import Model
from kapitza.model.parts import Excitation, Parameter
from kapitza.model.symbols import symbol, time

SAMPLES = 1 << 16
"""Points at which a measured signal is looked at for its strongest line."""


def unknown_excitation(model: Model, name: str, harmonics: int = 1) -> Model:
    """Replace a measured signal by unknown harmonics.

    The signal `name` becomes y(t) = Σ_j E_j cos jωt + F_j sin jωt with unknown E1, F1, E2, ...

    ω = 2π over the period of the excitation. The new parameters enter linearly wherever the signal did; coefficients
    that multiply it cannot be distinguished from them and must be fixed.
    """
    signals = model.signals
    if model.excitation is None or name not in [s.name for s in signals]:
        known = [s.name for s in signals]
        raise ModelError(f'Model "{model.name}" has no signal "{name}".{nearest_name(name, known)}')
    if harmonics < 1:
        raise ModelError(f"An unknown excitation needs at least one harmonic, not {harmonics}.")
    model.needs_repetition("harmonics to be found")
    assert model.excitation.period is not None
    frequency = 2 * sp.pi / model.excitation.period
    new: list[Parameter] = []
    series: sp.Expr = sp.Integer(0)
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


def harmonic_drive(model: Model, name: str, frequency: str = "omega") -> Model:
    """Replace a measured signal by one harmonic.

    The signal `name` becomes y(t) = level·cos(frequency·t), with parameters NAME_level and `frequency`.

    Level and frequency begin at the half range of the signal and at its strongest line. A fitted model driven by a
    recording becomes one whose responses can be followed over the frequency.
    """
    signal = next((s for s in model.signals if s.name == name), None)
    if signal is None:
        known = [s.name for s in model.signals]
        raise ModelError(f'Model "{model.name}" has no signal "{name}".{nearest_name(name, known)}')
    others = [s.name for s in model.signals if s.name != name]
    if others:
        raise ModelError(f"{', '.join(others)} was measured too: a response to {name} alone cannot be followed.")
    level = f"{name}_level"
    for new in (level, frequency):
        if any(p.name == new for p in model.parameters):
            raise ModelError(f'Model "{model.name}" already has a parameter "{new}": rename it first.')
    begin, end = signal.reach if signal.period is None else (0.0, signal.period)
    values = signal(np.linspace(begin, end, SAMPLES, endpoint=False))
    spectrum = np.abs(np.fft.rfft(values - values.mean()))
    line = 2 * np.pi * max(1, int(np.argmax(spectrum))) / (end - begin)
    wave = symbol(level) * sp.cos(symbol(frequency) * time)
    swapped = {symbol(name): wave}
    return replace(
        model,
        equations=tuple(e.xreplace(swapped) for e in model.equations),
        outputs={key: e.xreplace(swapped) for key, e in model.outputs.items()},
        parameters=(
            *model.parameters,
            Parameter(level, float(np.ptp(values)) / 2, unit=signal.unit, description=f"amplitude of {name}"),
            Parameter(frequency, float(line), unit="rad/s", description=f"angular frequency of {name}"),
        ),
        excitation=Excitation(2 * sp.pi / symbol(frequency)),
    )
