"""Free parameters that every recording has a value of its own of: amplitudes, offsets, temperatures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sympy as sp

from kapitza.errors import ModelError
from kapitza.estimate.request import parts_of
from kapitza.model import Model, Parameter, symbol


def with_own(model: Any, data: Any, free: list[str] | None, own: Sequence[str]) -> tuple[Any, Any, list[str] | None]:
    """The same question with F as F_0, F_1, … of the recordings 0, 1, …, each free, for every name F in `own`.

    F becomes a derived parameter, F_0·at_0 + F_1·at_1 + …, where at_i is one for recording i and zero for the others:
    settings of the recordings, which every method takes.
    """
    names = list(dict.fromkeys(own))
    if not names:
        return model, data, free
    if not isinstance(model, Model):
        raise ModelError("own= names parameters of a Model.")
    parts = parts_of(data)
    if len(parts) < 2:
        raise ModelError(
            f"own={names}: there is one recording only, so its values are the values; name them in free instead."
        )
    for name in names:
        model.check(name)
        if free is not None and name not in free:
            raise ModelError(
                f"{name} is in own but not in free: what every recording has its own value of is free too."
            )
        for part in parts:
            if name in part.own:
                raise ModelError(f"{name} is in own and also given with {part.label}: leave it out of one of them.")
    switches = [f"at_{number}" for number in range(len(parts))]
    values = {name: [f"{name}_{number}" for number in range(len(parts))] for name in names}
    made = [*switches, *(each for several in values.values() for each in several)]
    known = {p.name for p in model.parameters} | set(model.states)
    taken = [name for name in made if name in known]
    if taken:
        raise ModelError(f'own= makes a parameter "{taken[0]}", which the model has already: rename that one.')
    parameters: list[Parameter] = []
    for parameter in model.parameters:
        if parameter.name not in values:
            parameters.append(parameter)
            continue
        several = values[parameter.name]
        parameters += [replace(parameter, name=each) for each in several]
        total = sp.Add(*[symbol(each) * symbol(at) for each, at in zip(several, switches, strict=True)])
        parameters.append(Parameter(parameter.name, expression=total, unit=parameter.unit))
    parameters += [Parameter(at, 1.0 if at == switches[0] else 0.0) for at in switches]
    pairs = [
        (part.source, {**part.own, **{at: float(number == part.number) for number, at in enumerate(switches)}})
        for part in parts
    ]
    chosen = list(model.names) if free is None else free
    spelled = [each for name in chosen for each in values.get(name, [name])]
    return replace(model, parameters=tuple(parameters)), pairs, spelled
