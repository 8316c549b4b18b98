"""Refusal of models that contradict themselves, before any work starts."""

from __future__ import annotations

import keyword
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import sympy as sp

from kapitza.errors import ModelError, nearest_name
from kapitza.model.structure import derived_in_base
from kapitza.model.symbols import Expression, rate, symbol

if TYPE_CHECKING:
    from kapitza.model.model import Model

RESERVED = ("t", "pi")


def check_model(model: Model) -> None:
    """Names, counts and symbols of a model; raises ModelError for the first contradiction."""
    _check_names(model)
    if len(model.equations) != len(model.coordinates):
        raise ModelError(
            f'Model "{model.name}": {len(model.equations)} equations for {len(model.coordinates)} coordinates '
            f"({', '.join(c.name for c in model.coordinates)}); give one equation per coordinate."
        )
    if not model.equations:
        raise ModelError(f'Model "{model.name}" has no equations.')
    derived_in_base(model)
    _check_symbols(model)
    _check_cells(model)
    for name in model.start:
        if name not in model.states:
            raise ModelError(
                f'Start value for "{name}", which is no state.{nearest_name(name, model.states)} '
                f"The states are {', '.join(model.states)}."
            )


def _check_names(model: Model) -> None:
    signals = model.excitation.signals if model.excitation else ()
    names = [c.name for c in model.coordinates] + [p.name for p in model.parameters] + [s.name for s in signals]
    for name, count in Counter(names).items():
        if count > 1:
            raise ModelError(
                f'The name "{name}" stands for {count} things in model "{model.name}"; rename one of them.'
            )
        if not name.isidentifier() or keyword.iskeyword(name) or "__" in name:
            hint = f' Write "{name}_".' if keyword.iskeyword(name) else " Use letters, digits and single underscores."
            raise ModelError(f'"{name}" cannot be used as a name.{hint}')
        if name in RESERVED:
            raise ModelError(
                f'The name "{name}" is taken (t is time, pi the number); rename the parameter or coordinate.'
            )


def _check_symbols(model: Model) -> None:
    parameters = {symbol(p.name) for p in model.parameters}
    signals = {symbol(s.name) for s in model.excitation.signals} if model.excitation else set()
    states = {symbol(s) for s in model.states}
    time = symbol("t")
    tops = set() if model.is_map else {rate(c.name, c.order) for c in model.coordinates}
    everything = parameters | signals | states | tops | {time}

    def check(what: str, expressions: Iterable[Expression | None], allowed: set[sp.Symbol]) -> None:
        for expression in expressions:
            unknown = sorted(s.name for s in expression.free_symbols - allowed) if expression is not None else []
            if unknown:
                known = [s.name for s in allowed]
                if unknown[0] in known:
                    raise ModelError(
                        f'{what} has a symbol "{unknown[0]}" with other assumptions than those of the model; make it '
                        "by kapitza.model.symbol, or use Model.from_equations, which converts them."
                    )
                raise ModelError(
                    f'{what} uses "{unknown[0]}", which is not declared here.{nearest_name(unknown[0], known)} '
                    "Add it to the parameters (or coordinates, or signals) of the model; "
                    f"known: {', '.join(sorted(known))}."
                )

    for number, equation in enumerate(model.equations, start=1):
        check(f"Equation {number}", [equation], everything - ({time} if model.is_map else set()))
    for parameter in model.parameters:
        check(f'The derived parameter "{parameter.name}"', [parameter.expression], parameters)
    if model.excitation:
        check("The period of the excitation", [model.excitation.period], parameters)
    for name, output in model.outputs.items():
        check(f'Output "{name}"', [output], everything)
    for name, invariant in model.invariants.items():
        check(f'Invariant "{name}"', [invariant], parameters | states)
    for number, impact in enumerate(model.impacts, start=1):
        label = f'Impact "{impact.name or number}"'
        check(label, [impact.surface, *impact.reset.values()], parameters | states | {time})
        for name in impact.reset:
            if name not in model.states:
                raise ModelError(f'{label} resets "{name}", which is no state: {", ".join(model.states)}.')
    for symmetry in model.symmetries:
        check("A symmetry", symmetry.map.values(), parameters | states)
        for name in symmetry.map:
            if name not in model.states:
                raise ModelError(f'A symmetry maps "{name}", which is no state: {", ".join(model.states)}.')
    check("The partition", model.partition, parameters | states)


def _check_cells(model: Model) -> None:
    cells = 2 ** len(model.partition) if model.partition else 0
    if model.letters and len(model.letters) != cells:
        raise ModelError(
            f'{len(model.letters)} letters "{model.letters}" for {len(model.partition)} partition expressions, '
            f"which cut {cells} cells; give one letter per cell."
        )
    if len(set(model.letters)) != len(model.letters):
        raise ModelError(f'The letters "{model.letters}" repeat; give each cell its own.')
