"""Write a Modelica model.

It has equations, switches as relations, friction with explicit stick modes, and impacts by reinit.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import sympy as sp

from kapitza.exports.names import comment, identifiers, quoted
from kapitza.exports.printing import Language
from kapitza.exports.program import Body, Program, Quantity, argument, body

KEYWORDS = ("time", "der", "pre")


PASSED = 1e-4
"""Depth behind a wall, as a share of the sizes of all states, at which it counts as passed."""


def modelica_file(program: Program, stem: str) -> str:
    """Return the text of a model.

    Its name is the stem.
    """
    writer = _Writer(program)
    return "\n".join(
        [
            f"model {stem} {quoted(program.description or program.name)}",
            "  // Written by kapitza. Angles are not wrapped.",
            *writer.declarations(),
            "equation",
            *writer.equations(),
            f"  annotation(experiment(StartTime = {program.span[0]!r}, StopTime = {program.span[1]!r}));",
            f"end {stem};\n",
        ]
    )


class _Writer:
    """Names and texts of one model."""

    def __init__(self, program: Program):
        self.program = program
        taken = [*KEYWORDS]
        self.states = identifiers((q.name for q in program.states), taken)
        self.parameters = identifiers((q.name for q in program.parameters), (*taken, *self.states))
        taken += [*self.states, *self.parameters]
        self.outputs = identifiers((q.name for q in program.outputs), taken)
        taken += self.outputs
        numbers = range(1, len(program.switches) + 1)
        self.modes, self.switches, self.stuck, self.side, self.above, self.below = (
            identifiers([f"{word}_{i}" for i in numbers], taken)
            for word in ("mode", "switching", "stuck", "side", "above", "below")
        )
        self.walls = identifiers([f"gap_{j + 1}" for j in range(len(program.walls))], taken)
        self.drives = identifiers([f"drive_{t.name}" for t in program.tables], taken)
        self.place = identifiers([f"interval_{t.name}" for t in program.tables], taken)
        self.origin = identifiers([f"knot_{t.name}" for t in program.tables], taken)
        self.language = Language(
            self._reference,
            power="({0})^({1})",
            choice="(if {0} then {1} else {2})",
            absolute="abs({0})",
            sign="sign({0})",
            both="and",
            either="or",
            negation="not ({0})",
            unequal="<>",
            define="  {0} = {1};",
        )
        self.locals: list[str] = []

    def _reference(self, kind: str, i: int) -> str:
        if kind == "t":
            return "time"
        names = {"x": self.states, "p": self.parameters, "m": self.modes, "u": self.drives}
        if kind in names:
            return names[kind][i]
        return f"der({self.states[i]})" if kind == "d" else f"d{self.drives[i]}"

    def declarations(self) -> list[str]:
        """Return the declarations of all variables.

        Those of local names come last.
        """
        p = self.program
        lines = [
            f"  parameter Real {n} = {q.value!r} {_told(q)};"
            for n, q in zip(self.parameters, p.parameters, strict=True)
        ]
        lines += [
            f"  Real {n}(start = {q.value!r}, fixed = true) {_told(q)};"
            for n, q in zip(self.states, p.states, strict=True)
        ]
        lines += [f"  output Real {n} {_told(q)};" for n, q in zip(self.outputs, p.outputs, strict=True)]
        for i, s in enumerate(p.switches):
            lines += [f"  Real {self.switches[i]} {quoted(s.label)};", f"  Real {self.modes[i]};"]
            if s.can_stick:
                lines += [f"  Real {self.above[i]};", f"  Real {self.below[i]};"]
                lines += [f"  discrete Real {self.stuck[i]};"]
                lines += [f"  discrete Real {self.side[i]};"]
        lines += [f"  Real {n} {quoted(w)};" for n, w in zip(self.walls, p.walls, strict=True)]
        for i, table in enumerate(p.tables):
            lines += [
                f"  Real {self.drives[i]} {quoted(f'{table.name} [{table.unit}]')};",
                f"  discrete Integer {self.place[i]}(start = {self._first_place(i)}, fixed = true);",
                f"  discrete Real {self.origin[i]}(start = 0, fixed = true);",
                f"  parameter Real {self.drives[i]}_knots[{table.knots.size}] = {{{_row(table.knots)}}};",
                f"  parameter Real {self.drives[i]}_table[{len(table.coefficients)}, {table.coefficients.shape[1]}] = "
                f"{{{', '.join('{' + _row(r) + '}' for r in table.coefficients)}}};",
            ]
        self._bodies = self._write_bodies()
        return lines + [f"  Real {name};" for name in self.locals]

    def _block(self, program: Body, mark: str, targets: list[str]) -> list[str]:
        """Return a program's equations with local names."""
        renamed = {name: sp.Symbol(f"w:{mark}{i}", real=True) for i, (name, _) in enumerate(program.steps)}
        self.locals += [f"w{mark}{i}" for i in range(len(program.steps))]
        own = Body(
            tuple((renamed[n], e.xreplace(renamed)) for n, e in program.steps),
            tuple(e.xreplace(renamed) for e in program.results),
        )
        return self.language.lines(own, lambda i, text: f"  {targets[i]} = {text};")

    def _write_bodies(self) -> list[str]:
        p = self.program
        lines = self._block(p.rates, "r", [f"der({n})" for n in self.states])
        n, w = len(p.switches), len(p.walls)
        values = body((), [_unfolded(p.surfaces, k) for k in (*range(n), *range(2 * n, 2 * n + w))])
        lines += self._block(values, "s", [*self.switches, *self.walls])
        sticky = [i for i, s in enumerate(p.switches) if s.can_stick]
        if sticky:
            sides = [_side(p, i, side) for i in sticky for side in (1, -1)]
            lines += self._block(_joined(sides), "e", [t for i in sticky for t in (self.above[i], self.below[i])])
        return lines + self._block(p.output_values, "y", list(self.outputs))

    def equations(self) -> list[str]:
        """Return equations, modes, drives and impacts."""
        lines = list(self._bodies)
        for i, s in enumerate(self.program.switches):
            if s.can_stick:
                lines += self._sticking(i)
            else:
                # A function that vanishes on a stretch has the mode 0 there.
                other = f"if {self.switches[i]} < 0 then -1.0 else 0.0" if s.can_vanish else "-1.0"
                lines.append(f"  {self.modes[i]} = if {self.switches[i]} > 0 then 1.0 else {other};")
        for i, table in enumerate(self.program.tables):
            lines += self._drive(i, table.coefficients.shape[1], table.period)
        return lines + self._limits() + self._impacts()

    def _limits(self) -> list[str]:
        """Return assertions that stop the model where its measured drives end."""
        if self.program.reach is None:
            return []
        low, high = self.program.reach
        near = 1e-9 * (high - low)
        words = quoted(self.program.limit)
        return [f"  assert(time >= {low - near!r}, {words});", f"  assert(time <= {high + near!r}, {words});"]

    def _sticking(self, i: int) -> list[str]:
        m, s, stuck, side = self.modes[i], self.switches[i], self.stuck[i], self.side[i]
        above, below = self.above[i], self.below[i]
        free = side
        if self.program.switches[i].can_vanish:
            gone = " and ".join(f"abs({name}) <= 0" for name in (s, above, below))
            free = f"if noEvent({gone}) then 0.0 else {side}"
        return [
            f"  {m} = if {stuck} > 0.5 then ({above} + {below}) / ({below} - {above}) else {free};",
            "  when initial() then",
            f"    {stuck} = if abs({s}) <= 1e-12 and {above} < 0 and {below} > 0 then 1.0 else 0.0;",
            f"    {side} = if {s} > 1e-12 or ({s} >= -1e-12 and {above} > 0) then 1.0 else -1.0;",
            f"  elsewhen {stuck} < 0.5 and {side} * {s} < 0 then",
            f"    {stuck} = if {above} < 0 and {below} > 0 then 1.0 else 0.0;",
            f"    {side} = if {above} < 0 and {below} > 0 then pre({side}) else -pre({side});",
            f"  elsewhen {stuck} > 0.5 and abs({m}) > 1 then",
            f"    {stuck} = 0.0;",
            f"    {side} = if {m} > 0 then 1.0 else -1.0;",
            "  end when;",
        ]

    def _first_place(self, i: int) -> int:
        """Return the interval of a drive in which the motion starts, counted from 1."""
        table = self.program.tables[i]
        if table.period:
            return 1
        passed = int(np.searchsorted(table.knots, self.program.span[0], side="right"))
        return min(max(passed, 1), len(table.coefficients))

    def _drive(self, i: int, order: int, period: float) -> list[str]:
        name, place, origin = self.drives[i], self.place[i], self.origin[i]
        local = f"(time - {origin} - {name}_knots[{place}])"
        terms = " + ".join(
            f"{name}_table[{place}, {k + 1}]" + "".join(f" * {local}" for _ in range(k)) for k in range(order)
        )
        count = len(self.program.tables[i].coefficients)
        if not period:
            # The last interval stays: the drive ends with it.
            return [
                f"  {name} = {terms};",
                f"  when pre({place}) < {count} and time >= {name}_knots[min(pre({place}) + 1, {count})] then",
                f"    {place} = pre({place}) + 1;",
                f"    {origin} = 0;",
                "  end when;",
            ]
        return [
            f"  {name} = {terms};",
            f"  when time >= pre({origin}) + {name}_knots[pre({place}) + 1] then",
            f"    {place} = if pre({place}) < {count} then pre({place}) + 1 else 1;",
            f"    {origin} = if pre({place}) < {count} then pre({origin}) else pre({origin}) + {period!r};",
            "  end when;",
        ]

    def _impacts(self) -> list[str]:
        """Return one when clause for all walls.

        A state is set in one clause only.
        Where impacts die out, solvers miss the last of them and pass through the wall: an assertion stops them there.
        """
        size = " + ".join(f"abs({state})" for state in self.states)
        words = '"impacts die out: lasting contact is not exported"'
        lines = [f"  assert({gap} > -{PASSED} * ({size} + 1e-12), {words});" for gap in self.walls]
        for j, gap in enumerate(self.walls):
            lines.append(f"  {'when' if j == 0 else 'elsewhen'} {gap} < 0 then")
            for i in range(len(self.states)):
                expression = _unfolded(self.program.resets[j], i)
                if expression != argument("x", i):
                    before = {argument("x", k): sp.Symbol(f"b:{k}", real=True) for k in range(len(self.states))}
                    text = _before(self.language, self.states).text(expression.xreplace(before))
                    lines.append(f"    reinit({self.states[i]}, {text});")
        return [*lines, "  end when;"] if lines else []


def _before(language: Language, states: tuple[str, ...]) -> Language:
    """Return the language for values before events.

    b:i stands for the value of a state before an event.
    """

    def reference(kind: str, i: int) -> str:
        return f"pre({states[i]})" if kind == "b" else language.reference(kind, i)

    return Language(
        reference, language.power, language.choice, language.absolute, language.sign, language.root, language.both,
        language.either, language.negation, language.unequal, language.integer, language.local, language.define,
    )  # fmt: skip


def _unfolded(program: Body, result: int) -> sp.Expr:
    """Return a result with its steps written out."""
    found = program.results[result]
    for name, expression in reversed(program.steps):
        found = found.xreplace({name: expression})
    return found


def _side(program: Program, switch: int, side: int) -> Body:
    """Return a switching function's rate at +1 or -1.

    Its own mode has that value; the program is one of the state alone.
    """
    own = {argument("m", switch): sp.Integer(side)}
    steps = tuple((n, e.xreplace(own)) for n, e in program.rates.steps)
    rates = {argument("d", k): e.xreplace(own) for k, e in enumerate(program.rates.results)}
    slope = _unfolded(program.surfaces, len(program.switches) + switch).xreplace(rates)
    return Body(steps, (slope.xreplace(own),))


def _joined(bodies: list[Body]) -> Body:
    """Join several programs, their local names kept apart."""
    steps, results = [], []
    for b, program in enumerate(bodies):
        renamed = {name: sp.Symbol(f"j:{b}_{i}", real=True) for i, (name, _) in enumerate(program.steps)}
        steps += [(renamed[n], e.xreplace(renamed)) for n, e in program.steps]
        results += [e.xreplace(renamed) for e in program.results]
    return body(steps, results)


def _told(q: Quantity) -> str:
    words = [comment(q.name), comment(q.description), f"[{comment(q.unit)}]" if q.unit else ""]
    return quoted(" ".join(t for t in words if t))


def _row(values: Iterable[float]) -> str:
    return ", ".join(repr(float(v)) for v in values)
