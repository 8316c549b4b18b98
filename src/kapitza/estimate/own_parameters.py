"""Free parameters that differ between recordings.

Examples are amplitudes, offsets, temperatures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import sympy as sp

from kapitza.base.cures import Code, Give
from kapitza.data import Part
from kapitza.errors import ModelError
from kapitza.estimate.estimate import Estimate
from kapitza.model import Model, Parameter, symbol

SWITCH = "at_"
"""Prefix of the switch parameters: `at_3` is one for recording 3 and zero for the others."""


def with_own(
    model: Model, parts: tuple[Part, ...], free: list[str] | None, own: Sequence[str]
) -> tuple[Model, tuple[Part, ...], list[str] | None]:
    """Return the question with per-recording parameters F_0, F_1, ….

    For every F in `own`, F becomes a derived parameter, F_0·at_0 + F_1·at_1 + …, where at_i is one for recording i and
    zero for the others. The at_i are values of the recordings, which every method accepts.
    """
    names = list(dict.fromkeys(own))
    if not names:
        return model, parts, free
    if len(parts) < 2:
        raise ModelError(
            f"{Give(own=Code(names))}: there is one recording only, so its values are the values; name them in free "
            "instead."
        )
    for name in names:
        model.check(name)
        if free is not None and name not in free:
            raise ModelError(
                f"{name} is in own but not in free: a parameter that differs between recordings is free too."
            )
        for part in parts:
            if name in part.values:
                raise ModelError(f"{name} is in own and also given with {part.label}: leave it out of one of them.")
    switches = [f"{SWITCH}{number}" for number in range(len(parts))]
    values = {name: [f"{name}_{number}" for number in range(len(parts))] for name in names}
    made = [*switches, *(each for several in values.values() for each in several)]
    known = {p.name for p in model.parameters} | set(model.states)
    # A name of the model would be replaced without a warning.
    taken = [name for name in made if name in known]
    if taken:
        raise ModelError(f'{Give("own")} makes a parameter "{taken[0]}", which the model has already: rename that one.')
    parameters: list[Parameter] = []
    for parameter in model.parameters:
        if parameter.name not in values:
            parameters.append(parameter)
            continue
        several = values[parameter.name]
        parameters += [replace(parameter, name=each) for each in several]
        total = sp.Add(*[symbol(each) * symbol(at) for each, at in zip(several, switches, strict=True)])
        parameters.append(Parameter(parameter.name, expression=total, unit=parameter.unit))
    # The values of the model itself are those of the first recording.
    parameters += [Parameter(at, 1.0 if at == switches[0] else 0.0) for at in switches]
    parts = tuple(
        replace(part, values={**part.values, **{at: float(n == part.number) for n, at in enumerate(switches)}})
        for part in parts
    )
    chosen = list(model.names) if free is None else free
    spelled = [each for name in chosen for each in values.get(name, [name])]
    return replace(model, parameters=tuple(parameters)), parts, spelled


def at_setting(model: Model, values: Mapping[str, float]) -> Model:
    """Return the model with the values of a recording.

    Parameters that differed between the fitted recordings need a value here.
    """
    first = symbol(f"{SWITCH}0")
    own = [p.name for p in model.parameters if p.expression is not None and first in p.expression.free_symbols]
    missing = [name for name in own if name not in values]
    if missing:
        name = missing[0]
        raise ModelError(
            f"{name} differs between the recordings that were fitted: give its value for this one, "
            f'(record, {{"{name}": fit["{name}_0"]}}).'
        )
    held = tuple(replace(p, value=float(values[p.name]), expression=None) if p.name in own else p
                 for p in model.parameters)  # fmt: skip
    model = replace(model, parameters=held) if own else model
    others = {name: value for name, value in values.items() if name not in own}
    return model.with_values(**others) if others else model


def without_common(found: Estimate, names: Sequence[str]) -> Estimate:
    """Return the estimate without common values of per-recording parameters."""
    kept = {name: value for name, value in found.values.items() if name not in names}
    return found.with_(values=kept, derived={n: e for n, e in found.derived.items() if n not in names})
