"""Constructors of models.

A model is written as equations, a Lagrangian, a Hamiltonian or a map.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import sympy as sp
from sympy.core.function import AppliedUndef

from kapitza.base import checks
from kapitza.errors import ModelError, nearest_name
from kapitza.model.measured import Signal
from kapitza.model.model import Model
from kapitza.model.notation import parse_equation, parse_expression, primed_names
from kapitza.model.parts import Coordinate, Excitation, Impact, Parameter, Symmetry
from kapitza.model.structure import states_of
from kapitza.model.symbols import Expression, derivative, rate, symbol, time

Written = str | sp.Basic | float
"""An expression as users write it: plain notation, SymPy, or a number."""

Parameters = Mapping[str, Written | Parameter] | Iterable[Parameter | str | sp.Basic] | None
"""{name: value | "expression" | Parameter}, or a list of Parameters and bare names."""


TEXTS = ("letters", "start", "name", "description", "source")
PARTS = ("parameters", "signals", "period", "outputs", "invariants", "impacts", "symmetries", "partition", *TEXTS)


MOST_PARTS = 10_000
"""Equations, parameters, outputs, ... of one model."""


def to_symbols(given: object, what: str = "An expression") -> Expression:
    """Rewrite SymPy input in the symbols of models.

    f(t) becomes f, f(t).diff(t, 2) becomes f'', and every symbol becomes the real symbol of the same name.
    """
    expression = checks.expression(what, given, error=ModelError)
    if isinstance(expression, sp.Equality):
        left, right = (checks.expression(what, side, error=ModelError) for side in expression.args)
        expression = left - right
    replacements: dict[sp.Basic, sp.Basic] = {}
    for slope in expression.atoms(sp.Derivative):
        if not isinstance(slope.expr, AppliedUndef) or [v.name for v in slope.variables if v.name != "t"]:
            raise ModelError(f"{slope} is not a time derivative of a coordinate; carry it out by .doit() first.")
        replacements[slope] = rate(checks.canonical(slope.expr.func.__name__), len(slope.variables))
    expression = expression.xreplace(replacements)
    functions: dict[sp.Basic, sp.Basic] = {}
    for f in expression.atoms(AppliedUndef):
        if [getattr(a, "name", "") for a in f.args] != ["t"]:
            raise ModelError(f"{what}: {f} is not a function of the time t alone; write coordinates as x(t).")
        functions[f] = symbol(checks.canonical(f.func.__name__))
    expression = expression.xreplace(functions)
    canonical = {s: symbol(checks.canonical(s.name)) for s in expression.free_symbols}
    return expression.xreplace({s: ours for s, ours in canonical.items() if s != ours})


def read_expression(written: Written, names: Iterable[str], what: str, *place: str | int) -> Expression:
    """Return an expression from text or SymPy.

    Text is read in the known names. place: keys of the model file that lead to the expression.
    """
    if isinstance(written, str):
        try:
            return parse_expression(written, names)
        except ModelError as error:
            raise error.within(what, *place) from None
    return to_symbols(written, what)


def make_parameters(given: Parameters) -> tuple[Parameter, ...]:
    """Return the parameters from a mapping or a list.

    The mapping is {name: value | "expression" | Parameter}; the list holds Parameters and bare names.
    """
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        listed = checks.items("parameters", given, most=MOST_PARTS, error=ModelError)
        return tuple(
            p if isinstance(p, Parameter) else Parameter(checks.name("A parameter", _word(p), error=ModelError))
            for p in listed
        )
    named = checks.table("parameters", given, most=MOST_PARTS, error=ModelError)
    made: list[Parameter] = []
    for name, value in named.items():
        if isinstance(value, Parameter):
            made.append(replace(value, name=name))
        elif isinstance(value, (str, sp.Basic)):
            expression = read_expression(value, named.keys(), f'Parameter "{name}"', "parameters", name)
            constant = expression.is_number
            made.append(Parameter(name, float(expression)) if constant else Parameter(name, expression=expression))
        else:
            made.append(Parameter(name, checks.number(f'Parameter "{name}"', value, finite=False, error=ModelError)))
    return tuple(made)


def _word(given: object) -> object:
    """Return the name of a symbol or function.

    The function is x(t) of SymPy. Text stays as it is.
    """
    if isinstance(given, AppliedUndef):
        return given.func.__name__
    return given.name if isinstance(given, sp.Symbol) else given


def _expressions(given: Mapping[str, Written] | None, names: Sequence[str], what: str) -> dict[str, Expression]:
    if given is None:
        return {}
    content = checks.table(what, given, most=MOST_PARTS, error=ModelError)
    table = {"Output": ("outputs",), "Invariant": ("invariants",)}.get(what)
    return {
        key: read_expression(
            value, names, f'{what} "{checks.printable(key)}"', *(() if table is None else (*table, key))
        )
        for key, value in content.items()
    }


def _listed(parts: dict[str, Any], key: str) -> list[Any]:
    """Return one of the parts that are lists."""
    given = parts.pop(key, None)
    return [] if given is None else checks.items(key, given, most=MOST_PARTS, error=ModelError)


def signals_of(parts: Mapping[str, object]) -> list[Signal]:
    given = parts.get("signals")
    listed = [] if given is None else checks.items("signals", given, most=MOST_PARTS, error=ModelError)
    for entry in listed:
        if not isinstance(entry, Signal):
            raise ModelError(f"signals holds {checks.shown(entry)}; give Signal objects.")
    return listed


def assemble(coordinates: tuple[Coordinate, ...], equations: tuple[Expression, ...], parts: dict[str, Any]) -> Model:
    """Return a model from coordinates, equations and parts.

    parts: the remaining arguments, which all constructors share.
    """
    parameters: tuple[Parameter, ...] = parts.pop("parameters")
    signals = tuple(signals_of(parts))
    parts.pop("signals", None)
    period = parts.pop("period", None)
    is_map = parts.pop("is_map", False)
    states = tuple(c.name for c in coordinates) if is_map else states_of(coordinates)
    constants = [p.name for p in parameters]
    tops = [] if is_map else [rate(c.name, c.order).name for c in coordinates]
    names = [*states, *constants, *tops, *(s.name for s in signals)]
    repeats = [s.period for s in signals if s.period is not None]
    if period is None and signals and len(repeats) == len(signals):
        period = sp.Float(repeats[0])
    law = None if period is None else read_expression(period, constants, "The period", "excitation", "period")
    excitation = None if law is None and not signals else Excitation(law, signals)
    return Model(
        name=parts.pop("name", "model"),
        coordinates=coordinates,
        equations=equations,
        parameters=parameters,
        excitation=excitation,
        outputs=_expressions(parts.pop("outputs", None), names, "Output"),
        invariants=_expressions(parts.pop("invariants", None), names, "Invariant"),
        impacts=tuple(_impact(i, names) for i in _listed(parts, "impacts")),
        symmetries=tuple(_symmetry(s, names) for s in _listed(parts, "symmetries")),
        partition=tuple(read_expression(p, names, "The partition") for p in _listed(parts, "partition")),
        letters=parts.pop("letters", ""),
        start=checks.table("start", parts.pop("start", None) or {}, error=ModelError),
        is_map=is_map,
        description=parts.pop("description", ""),
        source=parts.pop("source", ""),
        **_no_more(parts),
    )


def _no_more(parts: dict[str, Any]) -> dict[str, NoReturn]:
    for name in parts:
        raise ModelError(f'A model has no part "{name}".{nearest_name(name, PARTS)} It has: {", ".join(PARTS)}.')
    return {}


def _impact(given: object, names: Sequence[str]) -> Impact:
    if isinstance(given, Impact):
        content: Mapping[str, Any] = {"surface": given.surface, "reset": given.reset, "name": given.name}
    else:
        content = _fields("An impact", given, required=("surface", "reset"), known=("surface", "reset", "name"))
    surface = read_expression(content["surface"], names, "Impact surface")
    return Impact(surface, _expressions(content["reset"], names, "Impact reset"), content.get("name", ""))


def _fields(what: str, given: object, required: Sequence[str], known: Sequence[str]) -> dict[str, Any]:
    content = checks.table(what, given, error=ModelError)
    for key in content:
        if key not in known:
            raise ModelError(f'{what} has no "{checks.printable(key)}"; it has {", ".join(known)}.')
    for key in required:
        if key not in content:
            raise ModelError(f'{what} lacks "{key}"; give {", ".join(required)}.')
    return content


def _symmetry(given: object, names: Sequence[str]) -> Symmetry:
    if isinstance(given, Symmetry):
        content: Mapping[str, Any] = {"map": given.map, "shift": given.shift}
    else:
        content = _fields("A symmetry", given, required=("map",), known=("map", "shift"))
    return Symmetry(_expressions(content["map"], names, "Symmetry"), content.get("shift", 0.0))


def make_coordinates(
    given: Iterable[str | sp.Basic | Coordinate] | None, orders: Mapping[str, int], angles: Iterable[str]
) -> tuple[Coordinate, ...]:
    """Return the coordinates, given or found by their primes.

    Orders and angles are filled in.
    """
    listed = [angles] if isinstance(angles, str) else sorted(angles) if isinstance(angles, (set, frozenset)) else angles
    angles = {checks.canonical(a) for a in checks.texts("angles", listed, error=ModelError)}
    if isinstance(given, str):
        given = [given]
    entries = list(orders) if given is None else checks.items("coordinates", given, most=MOST_PARTS, error=ModelError)
    made: list[Coordinate] = []
    for entry in map(_word, entries):
        if isinstance(entry, Coordinate):
            coordinate = entry
        else:
            name = checks.name("A coordinate", entry, error=ModelError)
            coordinate = Coordinate(name, orders.get(name, 2))
        made.append(replace(coordinate, angle=coordinate.angle or coordinate.name in angles))
    unknown = sorted(angles - {c.name for c in made})
    if unknown:
        known = [c.name for c in made]
        raise ModelError(
            f'"{unknown[0]}" is declared an angle but is not a coordinate.{nearest_name(unknown[0], known)}'
        )
    return tuple(made)


def _orders(equations: Iterable[sp.Basic]) -> dict[str, int]:
    """Return the coordinates of SymPy residuals with their orders.

    A coordinate is found by its primes; the coordinates are sorted by name.
    """
    found: dict[str, int] = {}
    symbols = {s for e in equations for s in e.free_symbols}
    for name in sorted(str(s) for s in symbols):
        base = name.rstrip("'")
        if base != name:
            found[base] = max(found.get(base, 0), len(name) - len(base))
    return found


def from_equations(
    equations: str | sp.Basic | Iterable[str | sp.Basic],
    coordinates: Iterable[str | sp.Basic | Coordinate] | None = None,
    angles: Iterable[str] = (),
    parameters: Parameters = None,
    **parts: Any,
) -> Model:
    """See `Model.from_equations`."""
    alone = isinstance(equations, (str, sp.Expr, sp.Equality))
    given = [equations] if alone else checks.items("equations", equations, most=MOST_PARTS, error=ModelError)
    constants = make_parameters(parameters)
    orders: dict[str, int] = {}
    for number, equation in enumerate(given, start=1):
        for name, order in (
            primed_names(equation)
            if isinstance(equation, str)
            else _orders([to_symbols(equation, f"Equation {number}")])
        ).items():
            orders[name] = max(orders.get(name, 0), order)
    found = make_coordinates(coordinates, orders, angles)
    names = [c.name + "'" * k for c in found for k in range(c.order + 1)]
    names += [p.name for p in constants] + [s.name for s in signals_of(parts)]
    residuals: list[Expression] = []
    for number, equation in enumerate(given, start=1):
        if isinstance(equation, str):
            try:
                residuals.append(parse_equation(equation, names))
            except ModelError as error:
                raise error.within(f"Equation {number}", "equations", number - 1) from None
        else:
            residuals.append(to_symbols(equation, f"Equation {number}"))
    return assemble(found, tuple(residuals), {"parameters": constants, **parts})


def from_lagrangian(
    lagrangian: str | sp.Basic,
    coordinates: Iterable[str | sp.Basic | Coordinate],
    angles: Iterable[str] = (),
    parameters: Parameters = None,
    forces: Mapping[str, Written] | None = None,
    dissipation: Written = 0,
    **parts: Any,
) -> Model:
    """See `Model.from_lagrangian`."""
    found = make_coordinates(coordinates, {}, angles)
    for c in found:
        if c.order != 2:
            raise ModelError(f'Coordinate "{c.name}" has order {c.order}; those of a Lagrangian have order 2.')
    constants = make_parameters(parameters)
    names = [*states_of(found), *(p.name for p in constants), *(s.name for s in signals_of(parts))]
    energy = read_expression(lagrangian, names, "The Lagrangian")
    lost = read_expression(dissipation, names, "The dissipation function")
    applied = _expressions(forces, names, "Force on")
    check_keys("A force acts on", applied, [c.name for c in found])
    equations: list[Expression] = []
    for c in found:
        position, velocity = symbol(c.name), rate(c.name)
        momentum = derivative(energy, velocity)
        residual = _total_derivative(momentum, found) - derivative(energy, position) + derivative(lost, velocity)
        equations.append(residual - applied.get(c.name, 0))
    return assemble(found, tuple(equations), {"parameters": constants, **parts})


def _total_derivative(expression: Expression, coordinates: tuple[Coordinate, ...]) -> Expression:
    """Return d/dt of an expression along a motion.

    This is the partial derivative by time plus the chain rule through positions and velocities.
    """
    result = derivative(expression, time)
    for c in coordinates:
        result += derivative(expression, symbol(c.name)) * rate(c.name)
        result += derivative(expression, rate(c.name)) * rate(c.name, 2)
    return result


def check_keys(what: str, given: Mapping[str, object], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise ModelError(f'{what} "{name}", which is none of {", ".join(known)}.{nearest_name(name, known)}')


def _names(what: str, given: object) -> list[object]:
    listed = [given] if isinstance(given, str) else checks.items(what, given, most=MOST_PARTS, error=ModelError)
    return [_word(entry) for entry in listed]


def from_hamiltonian(
    hamiltonian: str | sp.Basic,
    positions: Sequence[str | sp.Basic],
    momenta: Sequence[str | sp.Basic],
    angles: Iterable[str] = (),
    parameters: Parameters = None,
    forces: Mapping[str, Written] | None = None,
    **parts: Any,
) -> Model:
    """See `Model.from_hamiltonian`."""
    positions = [checks.name("A position", n, error=ModelError) for n in _names("positions", positions)]
    momenta = [checks.name("A momentum", n, error=ModelError) for n in _names("momenta", momenta)]
    if len(positions) != len(momenta):
        raise ModelError(f"{len(positions)} positions and {len(momenta)} momenta; each position has its own momentum.")
    found = make_coordinates([Coordinate(n, 1) for n in (*positions, *momenta)], {}, angles)
    constants = make_parameters(parameters)
    names = [*positions, *momenta, *(p.name for p in constants), *(s.name for s in signals_of(parts))]
    energy = read_expression(hamiltonian, names, "The Hamiltonian")
    applied = _expressions(forces, names, "Force on")
    check_keys("A force acts on", applied, list(positions))
    equations = [rate(q) - sp.diff(energy, symbol(p)) for q, p in zip(positions, momenta, strict=True)]
    equations += [
        rate(p) + sp.diff(energy, symbol(q)) - applied.get(q, 0) for q, p in zip(positions, momenta, strict=True)
    ]
    moving = {time, *(symbol(s.name) for s in signals_of(parts))}
    if not applied and "invariants" not in parts and not energy.free_symbols & moving:
        parts["invariants"] = {"H": energy}
    return assemble(found, tuple(equations), {"parameters": constants, **parts})


def from_map(
    equations: Mapping[str, Written],
    angles: Iterable[str] = (),
    parameters: Parameters = None,
    **parts: Any,
) -> Model:
    """See `Model.from_map`."""
    equations = checks.table("The map", equations, most=MOST_PARTS, error=ModelError)
    found = make_coordinates([Coordinate(n, 1) for n in equations], {}, angles)
    constants = make_parameters(parameters)
    names = [*equations, *(p.name for p in constants)]
    images = tuple(read_expression(e, names, f'New value of "{n}"', "map", n) for n, e in equations.items())
    return assemble(found, images, {"parameters": constants, "is_map": True, **parts})
