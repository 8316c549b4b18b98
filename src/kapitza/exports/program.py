"""Build the intermediate form of every export.

It holds functions as straight-line programs, events, and tables of measured drives.
A model becomes functions of numbered arguments, which each language prints:

    rates     f(t, x, u, p, m)        rates of the states
    surfaces  s, s', g, g'            switching functions and walls with their rates, in t, x, u, du, p, m, d
    resets    x+ of each wall         in t, x, u, p, m
    outputs   y                       in t, x, u, p, d

x: states, u and du: measured drives and their rates, p: parameters, m: modes of the switches, d: rates of the states.
Derived parameters are written out. Between events the modes are constant, so the rates are smooth.

Sliding. A switch whose rate s' depends on its own mode can stick. With f+ the rates at m = +1 for all k stuck switches
and f_j those with m_j = -1, the motion is f = f+ + Σ (λ_j - 1) (f+ - f_j)/2, and λ follows from s' = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy as sp

from kapitza.base.arrays import Array
from kapitza.errors import KapitzaError
from kapitza.model import Expression, Model, Step, derivative, in_base, rate, symbol
from kapitza.model import time as time_symbol

Definition = tuple[sp.Symbol, Expression]


class ExportError(KapitzaError, ValueError):
    """Report a model that cannot be exported.

    A language cannot hold it, or the format is not known.
    """


@dataclass(frozen=True)
class Body:
    """Hold a straight-line program.

    It holds definitions of local names in order, then the results.
    """

    steps: tuple[Definition, ...]
    results: tuple[Expression, ...]


@dataclass(frozen=True)
class Surface:
    """Describe a switch.

    jumps: the rates jump with its mode; can_stick: its own rate does; can_vanish: its mode may be 0.
    """

    label: str
    jumps: bool
    can_stick: bool
    can_vanish: bool


@dataclass(frozen=True)
class DriveTable:
    """Hold a measured drive as a spline.

    The drive is Σ_k coefficients[i, k] (t - knots[i])^k on interval i, repeated after `period`. period: 0 of a drive
    that does not repeat, which is known from its first knot to its last.
    """

    name: str
    unit: str
    period: float
    knots: Array
    coefficients: Array


@dataclass(frozen=True)
class Quantity:
    """Hold a named number.

    It is a state, parameter or output with its value, unit and description.
    """

    name: str
    value: float
    unit: str = ""
    description: str = ""


@dataclass(frozen=True)
class Program:
    """A model, ready to be printed.

    states: with their start at the time `begin`; parameters: independent ones with their values; period: of the
    excitation, 0 for none.
    """

    name: str
    description: str
    states: tuple[Quantity, ...]
    parameters: tuple[Quantity, ...]
    outputs: tuple[Quantity, ...]
    tables: tuple[DriveTable, ...]
    period: float
    switches: tuple[Surface, ...]
    walls: tuple[str, ...]
    rates: Body
    surfaces: Body
    resets: tuple[Body, ...]
    output_values: Body
    begin: float = 0.0
    fitted_at: float | None = None
    """Time [s] of a fitted start in a motion that depends on the time; at others it is refused."""

    @property
    def other_start(self) -> str:
        """Return why the fitted start is refused at other times; "" where it is not."""
        if self.fitted_at is None:
            return ""
        return f"the fitted start belongs to t = {self.fitted_at:.9g} s: begin there, or give a state"

    @property
    def reach(self) -> tuple[float, float] | None:
        """Return the span [s] in which all measured drives are known.

        None where they repeat, or where there are none.
        """
        if not self.tables or self.tables[0].period:
            return None
        return max(float(t.knots[0]) for t in self.tables), min(float(t.knots[-1]) for t in self.tables)

    @property
    def limit(self) -> str:
        """Return why times outside `reach` are refused; "" where there is none."""
        if self.reach is None:
            return ""
        names = ", ".join(t.name for t in self.tables)
        many = len(self.tables) > 1
        return (
            f"the drive{'s' if many else ''} {names} {'were' if many else 'was'} measured from {self.reach[0]:.9g} to "
            f"{self.reach[1]:.9g} s and {'do' if many else 'does'} not repeat: give your own beyond "
            f"(kapitza.with_drives, then export)"
        )

    @property
    def span(self) -> tuple[float, float]:
        """Return the times [s] of a first run.

        They are the drive that was measured, ten periods of the excitation, or ten seconds.
        """
        low, high = self.reach or (self.begin, self.begin + (10 * self.period or 10.0))
        return min(max(low, self.begin), high), high

    @property
    def sticks(self) -> bool:
        """Whether a switch can stick."""
        return any(s.can_stick for s in self.switches)

    @property
    def has_events(self) -> bool:
        """Whether there are switches or walls."""
        return bool(self.switches or self.walls)


def argument(kind: str, number: int | None = None) -> sp.Symbol:
    """Return the symbol of an argument.

    The kind is x, u, du, p, m or d with its number, or t.
    """
    return sp.Symbol(kind if number is None else f"{kind}:{number}", real=True)


def program_of(model: Model) -> Program:
    """Return the program of a flow.

    Maps and delays are refused.
    """
    _refuse(model)
    structure = model.structure
    named = _arguments(model)
    said = _limited(model)
    signals = [s for s in model.signals if s.kind == "polynomial"]
    written = {symbol(s.name): s.expression for s in model.signals if s.kind == "fourier"}

    def put(expression: Expression) -> Expression:
        return sp.sympify(expression).xreplace(written).xreplace(named)

    steps = tuple((s, put(e)) for s, e in structure.smooth_steps)
    rates = tuple(put(e) for e in structure.smooth_rates)
    switches = tuple(put(_without_steps(s.function, structure.smooth_steps)) for s in structure.switches)
    walls = tuple(put(i.surface) for i in structure.impacts)
    slopes = [_slope(e, len(model.states), len(signals)) for e in (*switches, *walls)]
    count = len(switches)
    touched = [_touched(steps, rates, named[s.mode]) for s in structure.switches]
    described = tuple(
        Surface(sp.sstr(s.function), not s.continuous, not s.continuous and _depends(slope, rows), s.can_vanish)
        for s, slope, rows in zip(structure.switches, slopes, touched, strict=False)
    )
    resets = tuple(body((), [put(i.reset.get(name, symbol(name))) for name in model.states]) for i in structure.impacts)
    outputs = _outputs(model, put)
    program = Program(
        name=model.name,
        description=" ".join((model.description, *said)).strip(),
        states=_states(model),
        parameters=tuple(
            Quantity(p.name, float(p.value), p.unit, p.description) for p in model.parameters if p.expression is None
        ),
        outputs=tuple(Quantity(name, 0.0) for name in outputs),
        tables=tuple(DriveTable(s.name, s.unit, float(s.period or 0.0), s.knots, s.coefficients) for s in signals),
        period=model.period or 0.0,
        switches=described,
        walls=tuple(i.name or f"wall {j + 1}" for j, i in enumerate(structure.impacts)),
        rates=body(steps, rates),
        surfaces=body((), [*switches, *slopes[:count], *walls, *slopes[count:]]),
        resets=resets,
        output_values=body((), outputs.values()),
        begin=_begin(model),
    )
    return replace(program, description=" ".join((program.description, *_idle(program))).strip())


def _limited(model: Model) -> list[str]:
    """Return notes about drives that do not repeat.

    Drives with and without a period in one model are refused: they have no common table.
    """
    lasting = [signal for signal in model.signals if signal.period is None]
    if lasting and len(lasting) < len(model.signals):
        raise ExportError(
            f'Model "{model.name}" has measured drives with and without a period: give all of them a period to export, '
            "or none."
        )
    if lasting and not max(s.reach[0] for s in lasting) < min(s.reach[1] for s in lasting):
        raise ExportError(f'The measured drives of "{model.name}" have no time in common.')
    return [
        f'The drive "{s.name}" was measured from {s.reach[0]:.9g} to {s.reach[1]:.9g} s and does not repeat.'
        for s in lasting
    ]


def _begin(model: Model) -> float:
    """Return the time [s] at which the motion starts: 0, or where a measured drive begins later."""
    return max([0.0, *(s.reach[0] for s in model.signals if s.period is None)])


def _idle(program: Program) -> list[str]:
    """Return a note that names parameters on which nothing depends."""
    bodies = (program.rates, program.surfaces, program.output_values, *program.resets)
    used: set[Any] = set()
    for one in bodies:
        for expression in (*(e for _, e in one.steps), *one.results):
            used |= expression.free_symbols
    idle = [q.name for i, q in enumerate(program.parameters) if argument("p", i) not in used]
    return [f"Nothing in this file depends on: {', '.join(idle)}."] if idle else []


def _refuse(model: Model) -> None:
    if model.is_map:
        raise ExportError(f'Model "{model.name}" is a map; only flows can be exported. Write its equations by hand.')
    if model.delays:
        terms = ", ".join(d.symbol.name for d in model.delays)
        raise ExportError(
            f'Model "{model.name}" has delays ({terms}): the solvers of these languages take no past values. '
            "Simulate it with kapitza."
        )
    _ = model.vector  # Missing values are refused, with their names.


def _arguments(model: Model) -> dict[Any, Any]:
    """Return the argument of each model symbol."""
    structure = model.structure
    found: dict[Any, Any] = {time_symbol: argument("t")}
    found |= {symbol(name): argument("x", i) for i, name in enumerate(model.states)}
    found |= {symbol(name): argument("p", i) for i, name in enumerate(structure.parameters)}
    found |= {s.mode: argument("m", i) for i, s in enumerate(structure.switches)}
    polynomial = [s.name for s in model.signals if s.kind == "polynomial"]
    return found | {symbol(name): argument("u", i) for i, name in enumerate(polynomial)}


def _states(model: Model) -> tuple[Quantity, ...]:
    units = model.units
    described = {c.name: c.description for c in model.coordinates}
    return tuple(
        Quantity(name, float(model.start.get(name, 0.0)), units[name], described.get(name, "")) for name in model.states
    )


def _outputs(model: Model, put: Callable[[Expression], Expression]) -> dict[str, Expression]:
    """Return outputs in states and rates.

    The rates d: the acceleration of a stuck mass is that of its motion.
    """
    tops = {}
    second = [c.name for c in model.coordinates if c.order == 2]
    for i, c in enumerate(model.coordinates):
        if c.order == 1:
            tops[rate(c.name)] = argument("d", i)
    for j, name in enumerate(second):
        tops[rate(name, 2)] = argument("d", len(model.coordinates) + j)
    return {name: put(in_base(model, e).xreplace(tops)) for name, e in model.outputs.items()}


def _without_steps(function: Expression, steps: Sequence[Step]) -> Expression:
    """Write out named steps in a switching function.

    The last step is replaced first, because a step may contain the names of earlier ones.
    """
    for name, expression in reversed(steps):
        if name in function.free_symbols:
            function = function.xreplace({name: expression})
    return function


def _slope(function: Expression, states: int, drives: int) -> Expression:
    """Return dh/dt of h(t, x, u).

    It is taken along the motion, in the rates d and du.
    """
    terms = [derivative(function, argument("t"))]
    terms += [derivative(function, argument("x", i)) * argument("d", i) for i in range(states)]
    terms += [derivative(function, argument("u", i)) * argument("du", i) for i in range(drives)]
    return sp.Add(*terms)


def _touched(steps: Sequence[Definition], rates: Sequence[Expression], mode: sp.Symbol) -> set[int]:
    """Return rates that depend on a mode.

    They are numbers; the dependence is through the steps.
    """
    moved: set[Any] = {mode}
    for name, expression in steps:
        if not moved.isdisjoint(expression.free_symbols):
            moved.add(name)
    return {i for i, e in enumerate(rates) if not moved.isdisjoint(e.free_symbols)}


def _depends(slope: Expression, rows: Iterable[int]) -> bool:
    return any(slope.has(argument("d", i)) for i in rows)


def body(steps: Sequence[Definition], results: Iterable[Expression]) -> Body:
    """Return a program with common subexpressions named once.

    The order is one in which each is known before it is used.
    """
    results = list(results)
    names = [name for name, _ in steps]
    counter = iter(range(10**9))
    fresh = (sp.Symbol(f"c:{next(counter)}", real=True) for _ in iter(int, 1))
    found: Any = sp.cse([*(e for _, e in steps), *results], symbols=fresh, order="none")
    shared, reduced = found
    defined: dict[Any, Any] = dict(shared) | dict(zip(names, reduced, strict=False))
    ordered: list[Definition] = []
    _sort(defined, ordered)
    renamed = {name: sp.Symbol(f"w:{i}", real=True) for i, (name, _) in enumerate(ordered)}
    return Body(
        tuple((renamed[name], e.xreplace(renamed)) for name, e in ordered),
        tuple(e.xreplace(renamed) for e in reduced[len(names) :]),
    )


def _sort(defined: Mapping[Any, Any], ordered: list[Definition]) -> None:
    """Append definitions after those they need.

    A loop, as chains of steps are longer than the call stack.
    """
    done: set[Any] = set()
    for first in defined:
        stack = [first]
        while stack:
            name = stack[-1]
            waiting = sorted((s for s in defined[name].free_symbols if s in defined and s not in done), key=str)
            if name in done:
                stack.pop()
            elif waiting:
                stack.extend(waiting)
            else:
                stack.pop()
                done.add(name)
                ordered.append((name, defined[name]))
