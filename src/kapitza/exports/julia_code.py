"""Write a Julia module for OrdinaryDiffEq.

The smooth equations are given as a system of ModelingToolkit.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files

from kapitza.exports.names import headline, quoted
from kapitza.exports.printing import Language
from kapitza.exports.program import Body, DriveTable, Program
from kapitza.exports.tables import merged_knots

JULIA = Language(
    lambda kind, i: "t" if kind == "t" else f"{kind}[{i + 1}]",
    power="({0})^({1})",
    choice="({0} ? {1} : {2})",
    absolute="abs({0})",
    sign="sign({0})",
    define="{0} = {1}",
)


def julia_file(program: Program, stem: str) -> str:
    """Return the text of a module.

    Its name is the stem with a capital letter.
    """
    knots = merged_knots(program)
    name = stem[0].upper() + stem[1:]
    events = 2 * (len(program.switches) + len(program.walls))
    return "\n".join(
        [
            f"# {headline(program.name, program.description)} Written by kapitza.",
            f'# Use: include("{stem}.jl"); X = {name}.simulate(range({_times(program)}, 101)). Angles are not wrapped.',
            f"module {name}\n",
            "using DiffEqCallbacks, ModelingToolkit, OrdinaryDiffEq",
            "using SpecialFunctions: erf\n" if _uses_erf(program) else "",
            f"const STATES = [{', '.join(quoted(q.name) for q in program.states)}]",
            f"const START = {_vector(q.value for q in program.states)}",
            f"const PARAMETERS = String[{', '.join(quoted(q.name) for q in program.parameters)}]",
            f"const VALUES = {_vector(q.value for q in program.parameters)}",
            f"const OUTPUTS = String[{', '.join(quoted(q.name) for q in program.outputs)}]",
            f"const PERIOD = {program.period!r}",
            "# Where measured drives that do not repeat are known (-Inf, Inf: everywhere).",
            f"const REACH = {_reach(program)}",
            f"const LIMIT = {quoted(program.limit)}",
            f"const CAN_STICK = Bool[{', '.join(str(s.can_stick).lower() for s in program.switches)}]",
            f"const CAN_VANISH = Bool[{', '.join(str(s.can_vanish).lower() for s in program.switches)}]",
            f"const WALLS = {len(program.walls)}",
            f"const KNOTS = {_vector([] if knots is None else knots)}",
            f"const TABLES = [{', '.join(_table(t) for t in program.tables)}]\n",
            _function("rates!(d, t, x, u, p, m)", program.rates, "d", ""),
            _function("surfaces(t, x, u, du, p, m, d)", program.surfaces, "s", f"s = zeros({events})"),
            _resets(program),
            _function("outputs(t, x, u, p, d)", program.output_values, "y", f"y = zeros({len(program.outputs)})"),
            files("kapitza.exports").joinpath("runtime.jl").read_text(encoding="utf-8"),
            "end\n",
        ]
    )


def _reach(program: Program) -> str:
    return "(-Inf, Inf)" if program.reach is None else repr(program.reach)


def _uses_erf(program: Program) -> bool:
    bodies = (program.rates, program.surfaces, program.output_values, *program.resets)
    return any("erf" in JULIA.text(e) for b in bodies for e in (*(s for _, s in b.steps), *b.results))


def _times(program: Program) -> str:
    return ", ".join(f"{t:.9g}" for t in program.span)


def _vector(values: Iterable[float]) -> str:
    return f"Float64[{', '.join(repr(float(v)) for v in values)}]"


def _table(table: DriveTable) -> str:
    rows = "; ".join(" ".join(repr(float(v)) for v in row) for row in table.coefficients)
    return f"(period = {table.period!r}, knots = {_vector(table.knots)}, coefficients = [{rows}])"


def _function(head: str, body: Body, target: str, first: str) -> str:
    lines = JULIA.lines(body, lambda i, text: f"{target}[{i + 1}] = {text}")
    return "\n    ".join([f"function {head}", *([first] if first else []), *lines, f"return {target}"]) + "\nend\n"


def _resets(program: Program) -> str:
    found = [
        _function(f"reset_{j + 1}(t, x, u, p, m)", r, "y", f"y = zeros({len(program.states)})")
        for j, r in enumerate(program.resets)
    ]
    cases = "".join(f"    j == {j + 1} && return reset_{j + 1}(t, x, u, p, m)\n" for j in range(len(found)))
    return "\n".join([*found, f"function reset(j, t, x, u, p, m)\n{cases}    return x\nend\n"])
