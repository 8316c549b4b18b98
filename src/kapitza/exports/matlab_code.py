"""Write a MATLAB and Octave function.

It integrates by ode45 with events.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files

from kapitza.exports.names import comment, headline, identifiers
from kapitza.exports.printing import Language
from kapitza.exports.program import Body, DriveTable, Program
from kapitza.exports.tables import merged_knots

MATLAB = Language(
    lambda kind, i: "t" if kind == "t" else f"{kind}({i + 1})",
    power="({0})^({1})",
    # Both sides of a choice must not be evaluated: one of them may have no finite value.
    choice="pick_({0}, @() {1}, @() {2})",
    absolute="abs({0})",
    sign="sign({0})",
    negation="~({0})",
    unequal="~=",
    define="{0} = {1};",
)


def matlab_file(program: Program, stem: str) -> str:
    """Return the text of the function file.

    Its name is the stem.
    """
    names = identifiers(q.name for q in program.parameters)
    listed = ", ".join(f"{name} ({comment(q.name)})" for name, q in zip(names, program.parameters, strict=True))
    runtime = files("kapitza.exports").joinpath("runtime.m").read_text(encoding="utf-8")
    return "\n".join(
        [
            f"function [X, Y] = {stem}(times, x0, changes)",
            f"% {headline(program.name, program.description)} Written by kapitza.",
            f"%   X = {stem}(times) gives the states in the rows of X, by ode45 with events; x0: first state,",
            f"%   changes: a struct of parameters, {stem}(times, [], struct('{names[0] if names else 'k'}', 1)).",
            "%   Y: outputs.",
            f"%   model = {stem}() gives names, values, and for calls of ode45 of your own model.begin(t, x),",
            "%   model.rates(q, t, x), model.events(q, t, x), model.happen(q, i, t, x). Angles are not wrapped.",
            f"%   States: {', '.join(comment(q.name) for q in program.states)}. Parameters: {listed}.",
            "  c = constants_();",
            "  if nargin == 0",
            "    X = struct('states', {c.states}, 'start', c.start, 'parameters', {c.parameters}, ...",
            "               'values', c.values, 'begin', @(t, x) motion_(t, x, c.values), 'rates', @rates_at_, ...",
            "               'events', @events_at_, 'happen', @happen_at_);",
            "    return",
            "  end",
            "  if nargin < 2 || isempty(x0)",
            "    if abs(times(1) - c.start_at) > 1e-9*max(1, abs(c.start_at))",
            "      error('kapitza:start', '%s', c.other_start);",
            "    end",
            "    x0 = c.start;",
            "  end",
            "  p = c.values;",
            "  if nargin > 2",
            "    given = fieldnames(changes);",
            "    for i = 1:numel(given)",
            "      k = find(strcmp(c.parameters, given{i}));",
            "      if isempty(k), error('kapitza:parameter', 'No parameter %s.', given{i}); end",
            "      p(k) = changes.(given{i});",
            "    end",
            "  end",
            "  X = run_(times, x0(:), p);",
            "  if nargout > 1",
            f"    Y = zeros(numel(times), {len(program.outputs)});",
            "    for i = 1:numel(times)",
            "      x = X(i, :).'; q = motion_(times(i), x, p); d = field_(q, times(i), x);",
            "      Y(i, :) = outputs_(times(i), x, drives_(times(i), q.at), p, d).';",
            "    end",
            "  end",
            "end\n",
            _constants(program, names),
            _function("rates_", "t, x, u, p, m", program.rates, len(program.states)),
            _function(
                "surfaces_", "t, x, u, du, p, m, d", program.surfaces, 2 * (len(program.switches) + len(program.walls))
            ),
            _resets(program),
            _function("outputs_", "t, x, u, p, d", program.output_values, len(program.outputs)),
            runtime,
        ]
    )


def _constants(program: Program, names: Iterable[str]) -> str:
    knots = merged_knots(program)
    tables = ", ".join(_table(t) for t in program.tables)
    lines = [
        "function c = constants_()",
        "persistent kept",
        "if isempty(kept)",
        f"  kept.states = {{{', '.join(_text(q.name) for q in program.states)}}};",
        f"  kept.start = {_column([q.value for q in program.states])};",
        "  % Time of a fitted start under a drive (NaN: it may begin at any time).",
        f"  kept.start_at = {'NaN' if program.fitted_at is None else repr(program.fitted_at)};",
        f"  kept.other_start = {_text(program.other_start)};",
        f"  kept.parameters = {{{', '.join(_text(n) for n in names)}}};",
        f"  kept.values = {_column([q.value for q in program.parameters])};",
        f"  kept.period = {program.period!r};",
        "  % Where measured drives that do not repeat are known (empty: everywhere).",
        f"  kept.reach = [{', '.join(repr(v) for v in program.reach or ())}];",
        f"  kept.limit = {_text(program.limit)};",
        f"  kept.switches = {len(program.switches)};",
        f"  kept.walls = {len(program.walls)};",
        f"  kept.can_stick = {_column([float(s.can_stick) for s in program.switches])};",
        f"  kept.can_vanish = {_column([float(s.can_vanish) for s in program.switches])};",
        f"  kept.knots = {_column([] if knots is None else knots.tolist())};",
        f"  kept.tables = {{{tables}}};",
        "end",
        "c = kept;",
        "end\n",
    ]
    return "\n".join(lines)


def _table(table: DriveTable) -> str:
    rows = "; ".join(", ".join(repr(float(v)) for v in row) for row in table.coefficients)
    knots = _column(table.knots.tolist())
    return f"struct('period', {table.period!r}, 'knots', {knots}, 'coefficients', [{rows}])"


def _column(values: list[float]) -> str:
    return f"[{'; '.join(repr(float(v)) for v in values)}]" if values else "zeros(0, 1)"


def _text(text: str) -> str:
    return "'" + comment(text).replace("'", "''") + "'"


def _function(name: str, arguments: str, body: Body, count: int) -> str:
    lines = MATLAB.lines(body, lambda i, text: f"r({i + 1}) = {text};")
    return "\n  ".join([f"function r = {name}({arguments})", f"r = zeros({count}, 1);", *lines]) + "\nend\n"


def _resets(program: Program) -> str:
    found = [
        _function(f"reset_{j + 1}_", "t, x, u, p, m", reset, len(program.states))
        for j, reset in enumerate(program.resets)
    ]
    cases = "\n".join(f"  if j == {j + 1}, x = reset_{j + 1}_(t, x, u, p, m); return, end" for j in range(len(found)))
    return "\n".join([*found, f"function x = reset_(j, t, x, u, p, m)\n{cases}\nend\n"])
