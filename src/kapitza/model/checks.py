"""Checks of models before any work starts.

A model that contradicts itself is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

import sympy as sp

from kapitza.base import checks
from kapitza.base.cures import Do
from kapitza.errors import ModelError, nearest_name
from kapitza.model.delays import delayed_parts, is_delayed
from kapitza.model.measured import Signal
from kapitza.model.parts import Coordinate, Excitation, Impact, Parameter, Symmetry
from kapitza.model.structure import solve_derived
from kapitza.model.symbols import Expression, rate, symbol

if TYPE_CHECKING:
    from kapitza.model.model import Model

RESERVED = ("t", "pi")
"""Names that no parameter, coordinate or signal may have."""

_Part = TypeVar("_Part")


def check_model(model: Model) -> None:
    """Check types, names, counts and symbols of a model.

    Raises ModelError for the first contradiction.
    """
    _admit(model)
    _check_names(model)
    if len(model.equations) != len(model.coordinates):
        raise ModelError(
            f'Model "{model.name}": {len(model.equations)} equations for {len(model.coordinates)} coordinates '
            f"({', '.join(c.name for c in model.coordinates)}); give one equation per coordinate."
        )
    if not model.equations:
        raise ModelError(f'Model "{model.name}" has no equations.')
    solve_derived(model.parameters)  # refuses circles
    _check_symbols(model)
    _check_cells(model)
    for name in model.start:
        if name not in model.states:
            raise ModelError(
                f'Start value for "{name}", which is not a state.{nearest_name(name, model.states)} '
                f"The states are {', '.join(model.states)}."
            )


def _admit(model: Model) -> None:
    """Check every field of a model by its kind.

    Numbers among the expressions become numbers of SymPy.
    """

    def put(field: str, value: object) -> None:
        object.__setattr__(model, field, value)

    for field in ("name", "description", "source", "letters"):
        checks.text(f"The {field} of a model", getattr(model, field), error=ModelError)
    for field, kind in (
        ("coordinates", Coordinate),
        ("parameters", Parameter),
        ("impacts", Impact),
        ("symmetries", Symmetry),
    ):
        put(field, _all_of(field, getattr(model, field), kind))
    _check_excitation(model.excitation)
    if model.excitation:
        _all_of("signals", model.excitation.signals, Signal)
    for field in ("equations", "partition"):
        put(field, tuple(_expression(field, e) for e in checks.items(field, getattr(model, field), error=ModelError)))
    for field in ("outputs", "invariants"):
        put(field, _expressions(field, getattr(model, field)))
    start = checks.table("start", model.start, error=ModelError)
    for parameter in model.parameters:
        if parameter.expression is not None:
            _refuse_constants(f'The derived parameter "{parameter.name}"', parameter.expression)
    put("start", {k: checks.number(f'The start value of "{k}"', v, error=ModelError) for k, v in start.items()})
    checks.flag("is_map", model.is_map, error=ModelError)
    put("impacts", tuple(_impact(i) for i in model.impacts))
    put("symmetries", tuple(Symmetry(_expressions("A symmetry", s.map), s.shift) for s in model.symmetries))


def _check_excitation(given: object) -> None:
    if not isinstance(given, Excitation | None):
        raise ModelError(f"The excitation is {checks.shown(given)}; give Excitation(period, signals).")


def _all_of(field: str, values: object, kind: type[_Part]) -> tuple[_Part, ...]:
    found = tuple(checks.items(field, values, error=ModelError))
    for entry in found:
        if not isinstance(entry, kind):
            raise ModelError(f"{field} holds {checks.shown(entry)}; give {kind.__name__} objects.")
    return found


def _expression(what: str, value: object) -> Expression:
    found = checks.expression(what, value, error=ModelError)
    if isinstance(found, sp.Equality):
        raise ModelError(
            f"{what} holds the equation {found}; write its residual, or use {Do('Model.from_equations', 'equations')}."
        )
    _refuse_constants(what, found)
    return found


def _refuse_constants(what: str, expression: Expression) -> None:
    """Refuse constants that are not finite real numbers.

    Every part without symbols is tested: acos(2) is not a real number, and 1/(sin(1)**2 + cos(1)**2 - 1) is not finite.
    """
    left: list[sp.Basic] = [expression]
    while left:
        node = left.pop()
        if not isinstance(node, sp.Expr) or node.free_symbols or not node.args or node.is_Rational:
            left += node.args
            continue
        value = sp.N(node, 20)
        poles = (p.base for p in node.atoms(sp.Pow) if p.exp.is_negative)
        if not (value.is_Float or value.is_Integer) or not value.is_finite or any(map(_vanishes, poles)):
            raise ModelError(f"{what} holds the constant {checks.shown(node)}, which is not a finite real number.")


def _vanishes(constant: Expression) -> bool:
    """Return whether a constant is zero within its digits.

    The digits are those left after its terms have cancelled: SymPy does not see that sin² + cos² is 1.
    """
    size = sum(abs(complex(sp.N(term, 20))) for term in sp.Add.make_args(constant))
    # Evaluated with 20 digits, of which the rounding of the terms may take two.
    return abs(complex(sp.N(constant, 20))) <= 1e-18 * size


def _expressions(what: str, given: object) -> dict[str, Expression]:
    return {k: _expression(f'{what} "{k}"', e) for k, e in checks.table(what, given, error=ModelError).items()}


def _impact(impact: Impact) -> Impact:
    checks.text("The name of an impact", impact.name, error=ModelError)
    return Impact(_expression("Impact surface", impact.surface), _expressions("Impact", impact.reset), impact.name)


def _check_names(model: Model) -> None:
    signals = model.signals
    names = [c.name for c in model.coordinates] + [p.name for p in model.parameters] + [s.name for s in signals]
    for name, count in Counter(names).items():
        if count > 1:
            raise ModelError(
                f'The name "{name}" stands for {count} things in model "{model.name}"; rename one of them.'
            )
        if name in RESERVED:
            raise ModelError(
                f'The name "{name}" is taken (t is time, pi the number); rename the parameter or coordinate.'
            )
    looks: dict[str, str] = {checks.skeleton(name): name for name in RESERVED}
    for name in names:
        other = looks.setdefault(checks.skeleton(name), name)
        if other != name:
            raise ModelError(
                f'The names "{other}" ({other.encode("unicode_escape").decode()}) and "{name}" '
                f"({name.encode('unicode_escape').decode()}) look the same; rename one of them."
            )


def _check_symbols(model: Model) -> None:
    parameters = {symbol(p.name) for p in model.parameters}
    signals = {symbol(s.name) for s in model.signals}
    states = {symbol(s) for s in model.states}
    time = symbol("t")
    tops: set[sp.Symbol] = set() if model.is_map else {rate(c.name, c.order) for c in model.coordinates}
    everything = parameters | signals | states | tops | {time}

    known_past = {s.name for s in states | tops}

    def past(candidate: sp.Symbol) -> bool:
        """Return whether a symbol is a past value.

        It must be that of a state or of its rate, with a delay made of parameters.
        """
        if model.is_map or not is_delayed(candidate):
            return False
        name, delay = delayed_parts(candidate, [p.name for p in model.parameters])
        return name in known_past and delay.free_symbols <= parameters

    def check(what: str, expressions: Iterable[Expression | None], allowed: set[sp.Symbol]) -> None:
        for expression in expressions:
            unknown = sorted(s.name for s in expression.free_symbols - allowed) if expression is not None else []
            if unknown and what.startswith("Equation"):
                unknown = [name for name in unknown if not past(symbol(name))]
            if unknown:
                known = [s.name for s in allowed]
                if unknown[0] in known:
                    raise ModelError(
                        f'{what} has a symbol "{unknown[0]}" with other assumptions than those of the model; make it '
                        f"by {Do('kapitza.model.symbol', 'text')}, or use {Do('Model.from_equations', 'equations')}, "
                        "which converts them."
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
                raise ModelError(f'{label} resets "{name}", which is not a state: {", ".join(model.states)}.')
    for symmetry in model.symmetries:
        check("A symmetry", symmetry.map.values(), parameters | states)
        for name in symmetry.map:
            if name not in model.states:
                raise ModelError(f'A symmetry maps "{name}", which is not a state: {", ".join(model.states)}.')
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
