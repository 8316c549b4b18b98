"""Models under other excitations and with added masses.

The equations stay the same; the conditions change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kapitza.base.cures import Give
from kapitza.errors import ModelError, nearest_name
from kapitza.model.measured import Signal
from kapitza.model.model import Model
from kapitza.model.parts import Excitation, Parameter
from kapitza.model.symbols import Expression, symbol


def with_drives(model: Model, drives: Mapping[str, Signal | Expression], end: float | None = None) -> Model:
    """Return the model under other drives than those measured.

    Parameters
    ----------
    model : Model
        With measured drives (`Signal`) in its equations.
    drives : mapping
        Name of a measured drive → a `Signal`, which repeats after its period if it has one, or an expression in t.
    end : float, optional
        How long each signal must last without repeating [s].

    Returns
    -------
    Model
        With the new drives.

    Examples
    --------
    >>> import numpy as np, sympy as sp, kapitza as kz
    >>> measured = kz.Signal("F", np.arange(10) * 0.1, np.ones(10), period=1.0)
    >>> model = kz.Model.from_equations("x'' + x = F", signals=[measured])
    >>> kz.with_drives(model, {"F": sp.cos(sp.Symbol("t", real=True))}).signals
    ()
    """
    own = {s.name: s for s in model.signals}
    for name, given in drives.items():
        if name not in own:
            known = ", ".join(own) or "none"
            raise ModelError(f'"{name}" is not a measured drive of {model.name}; measured are: {known}.')
        if end is not None and isinstance(given, Signal) and given.times[-1] < end - 1e-9 * abs(end):
            raise ModelError(
                f'The drive "{name}" lasts {given.times[-1]:.6g} s, the prediction {end:.6g} s: shorten it, or give a '
                "longer drive."
            )
    if not drives:
        return model
    assert model.excitation is not None
    written = {symbol(n): g for n, g in drives.items() if not isinstance(g, Signal)}
    now = {**own, **drives}  # drives that are not named stay
    signals = tuple(replace(given, name=name) for name, given in now.items() if isinstance(given, Signal))
    period = model.excitation.period
    excitation = None
    if signals:
        excitation = Excitation.of_signals(_on_one_clock(signals, end))
    elif period is not None and not period.is_number:
        excitation = replace(model.excitation, signals=())
    return replace(
        model,
        equations=tuple(e.xreplace(written) for e in model.equations),
        outputs={n: e.xreplace(written) for n, e in model.outputs.items()},
        excitation=excitation,
    )


def _on_one_clock(signals: tuple[Signal, ...], end: float | None) -> tuple[Signal, ...]:
    """Return the signals; refuse those of unequal periods.

    A signal that lasts until the end needs no period.
    """
    if end is not None:
        # A polynomial that lasts until the end is never evaluated after it: it needs no period.
        lasts = [s.kind == "polynomial" and s.times[-1] >= end - 1e-9 * abs(end) for s in signals]
        signals = tuple(replace(s, period=None) if enough else s for s, enough in zip(signals, lasts, strict=True))
    periods = [signal.period for signal in signals if signal.period is not None]
    longest = max(periods, default=0.0)
    for signal in signals if len(periods) == len(signals) else ():
        if signal.period is not None and abs(signal.period - longest) > 1e-9 * longest:
            raise ModelError(
                f'The drive "{signal.name}" repeats after {signal.period:.6g} s, another one after {longest:.6g} s: '
                "give all drives one period, such as a whole multiple of both, with the samples of all of it."
            )
    return signals


def with_added(model: Model, parameter: str, name: str | None = None) -> Model:
    """Return the model with a parameter increased.

    A mass fixed to the rig changes the motion by a known amount, which tells mass from stiffness. The added amount is a
    setting: vary it in a plan, give it to each recording as its own value.

    Parameters
    ----------
    model : Model
        The equations.
    parameter : str
        What is added to, such as "m".
    name : str, optional
        Of the new parameter, by default the old one with "_added".

    Returns
    -------
    Model
        With one parameter more, at 0.

    Examples
    --------
    >>> import kapitza as kz
    >>> model = kz.Model.from_equations("m*x'' + k*x = 0", parameters={"m": 2.0, "k": 8.0})
    >>> kz.with_added(model, "m").equations[0]
    k*x + x''*(m + m_added)
    """
    if parameter not in model.names:
        raise ModelError(f'No parameter "{parameter}" in {model.name}.{nearest_name(parameter, model.names)}')
    added = name or f"{parameter}_added"
    if added in {*model.states, *(p.name for p in model.parameters), *(s.name for s in model.signals)}:
        raise ModelError(f'Model "{model.name}" has "{added}" already: give {Give(name=...)}.')
    own = model.parameter(parameter)
    sum_ = {symbol(parameter): symbol(parameter) + symbol(added)}
    excitation = model.excitation
    if excitation is not None and excitation.period is not None:
        excitation = replace(excitation, period=excitation.period.xreplace(sum_))
    return replace(
        model,
        equations=tuple(e.xreplace(sum_) for e in model.equations),
        excitation=excitation,
        outputs={n: e.xreplace(sum_) for n, e in model.outputs.items()},
        invariants={n: e.xreplace(sum_) for n, e in model.invariants.items()},
        impacts=tuple(
            replace(i, surface=i.surface.xreplace(sum_), reset={s: e.xreplace(sum_) for s, e in i.reset.items()})
            for i in model.impacts
        ),
        partition=tuple(e.xreplace(sum_) for e in model.partition),
        # Parameters derived from the sum follow it: an inertia m l² grows with the mass.
        parameters=(
            *(
                p if p.expression is None else replace(p, expression=p.expression.xreplace(sum_))
                for p in model.parameters
            ),
            Parameter(added, 0.0, own.unit, description=f"added to {parameter}, known"),
        ),
    )
