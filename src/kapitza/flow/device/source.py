"""Kernels for an accelerator, written from the equations.

They are plain C, with one thread per trajectory.
The text has three parts: a shim that makes it a CUDA kernel or a C function, the sizes and functions of the model,
which are written here, and `loop.c`, which is the same for all models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import sympy as sp
from sympy.printing.c import C99CodePrinter

from kapitza.base.cures import Give
from kapitza.errors import ModelError
from kapitza.flow.engine import System
from kapitza.flow.tails import tail_arguments, watched_functions
from kapitza.model import time as time_symbol

MOST_EQUATIONS = 24
"""Equations of one thread; more do not fit into its registers."""

STAGES = 12
"""Evaluations in a step of DOP853; the last one is also the first of the next step."""

JOBS = ("ENDS", "STROBE", "NETS", "GROWTH")

FUNCTIONS = (
    sp.sin, sp.cos, sp.tan, sp.asin, sp.acos, sp.atan, sp.atan2, sp.sinh, sp.cosh, sp.tanh, sp.asinh, sp.acosh,
    sp.atanh, sp.exp, sp.log, sp.Abs, sp.sign, sp.Max, sp.Min, sp.Heaviside, sp.erf,
)  # fmt: skip
"""Functions that the C library and the accelerator both have."""

SHIM = """\
#ifdef __CUDACC__
#define KZ_CARD 1
#define KZ_KERNEL extern "C" __global__
#define KZ_INLINE static __device__ __forceinline__
#define KZ_INDEX ((long)blockIdx.x * blockDim.x + threadIdx.x)
#define KZ_ROOT8(x) ((double)exp2f(-0.125f * log2f((float)(x))))
#define KZ_SINCOS(x, s, c) sincos(x, &s, &c)
#else
#include <math.h>
static long kz_index;
#define KZ_KERNEL static
#define KZ_INLINE static inline
#define KZ_INDEX kz_index
#define KZ_ROOT8(x) exp2(-0.125 * log2(x))
#define KZ_SINCOS(x, s, c) (s = sin(x), c = cos(x))
#endif
"""


class Printer(C99CodePrinter):
    """Printer of C code in double precision.

    Whole numbers are written as doubles, small powers as products, with all digits.
    """

    def __init__(self) -> None:
        super().__init__({"precision": 17})

    def _print_Integer(self, expr: sp.Integer) -> str:
        # In C 1/2 is 0: whole numbers must be doubles.
        return f"{int(expr)}.0"

    def _print_Rational(self, expr: sp.Rational) -> str:
        return f"({int(expr.p)}.0/{int(expr.q)}.0)"

    def _print_Float(self, expr: sp.Float) -> str:
        return repr(float(expr))

    def _print_NumberSymbol(self, expr: sp.Expr) -> str:
        return repr(float(expr))

    def _print_Pow(self, expr: sp.Pow) -> str:
        base, exponent = expr.args
        # pow() of a whole exponent is slower than the product.
        if exponent.is_Integer and 1 < abs(int(exponent)) <= 8:
            inside = self.parenthesize(base, 1000)
            product = "(" + "*".join([inside] * abs(int(exponent))) + ")"
            return product if exponent > 0 else f"(1.0/{product})"
        if exponent == -1:
            return f"(1.0/{self.parenthesize(base, 1000)})"
        if exponent == sp.Rational(1, 2):
            return f"sqrt({self._print(base)})"
        if exponent == sp.Rational(-1, 2):
            return f"(1.0/sqrt({self._print(base)}))"
        return f"pow({self._print(base)}, {self._print(exponent)})"

    def _print_sign(self, expr: sp.Function) -> str:
        inside = self._print(expr.args[0])
        return f"((({inside}) > 0.0) - (({inside}) < 0.0))"

    def _print_Heaviside(self, expr: sp.Function) -> str:
        inside = self._print(expr.args[0])
        return f"(0.5 * (1.0 + (({inside}) > 0.0) - (({inside}) < 0.0)))"


@dataclass(frozen=True)
class Program:
    """The description of a kernel.

    The system has its constants hoisted.
    job: one of `JOBS`. columns: tangent vectors carried. own: parameters (indices) that each thread has for itself; the
    others are shared. volume: integrate the divergence as well. is_map: the rates are the next state.
    """

    system: System
    job: str
    columns: int = 0
    own: tuple[int, ...] = ()
    volume: bool = False
    is_map: bool = False


def refuse(system: System, equations: int, name: str) -> None:
    """Refuse a model that a thread cannot follow.

    The message names each reason.
    """
    reasons: list[str] = []
    if equations > MOST_EQUATIONS:
        reasons.append(f"{equations} equations, more than the {MOST_EQUATIONS} of one thread")
    if any(edge.guards for edge in system.edges):
        reasons.append("terms whose domain a switch leads into, such as sqrt(max(x, 0))")
    modes = {s.mode for s in system.switches}
    if any(s.can_vanish or not modes.isdisjoint(s.function.free_symbols) for s in system.switches):
        reasons.append("switches inside switches")
    unknown = {type(a).__name__ for e in system.smooth_expressions for a in e.atoms(sp.Function)
               if not isinstance(a, FUNCTIONS)}  # fmt: skip
    if unknown:
        reasons.append(f"the functions {', '.join(sorted(unknown))}")
    if reasons:
        raise ModelError(
            f'Model "{name}" cannot be followed on a device: it has {" and ".join(reasons)}. Leave '
            f"{Give('device')} out."
        )


@lru_cache(maxsize=64)
def kernel_source(program: Program) -> str:
    """Return the whole text of a kernel."""
    system = program.system
    n, base = len(system.states), len(system.parameters) - len(system.constants)
    table: dict[sp.Basic, sp.Symbol] = {s: sp.Symbol(f"y[{i}]", real=True) for i, s in enumerate(system.states)}
    table |= {s: sp.Symbol(f"p[{i}]", real=True) for i, s in enumerate(system.parameters)}
    table |= {s.mode: sp.Symbol(f"m[{i}]", real=True) for i, s in enumerate(system.switches)}
    table[time_symbol] = sp.Symbol("t", real=True)
    tails = () if program.is_map else tail_arguments(system, watched_functions(system))
    sizes = {
        "N": n, "K": program.columns, "VOLUME": int(program.volume), "P": base, "C": len(system.constants),
        "M": n + n * program.columns + int(program.volume), "WALLS": len(system.walls),
        "SWITCHES": len(system.switches), "STAGES": STAGES, "MAP": int(program.is_map), "TAILS": len(tails),
        "ANGLES": sum(1 << i for i, angle in enumerate(system.angles) if angle),
    }  # fmt: skip
    defined = [f"#define {name} {value}" for name, value in sizes.items()]
    defined += [f"#define JOB_{name} {i}" for i, name in enumerate(JOBS)] + [f"#define JOB JOB_{program.job}"]
    parts = [SHIM, "\n".join(defined), _parameters(base, program.own), _constants(system, base, table)]
    parts.append(_rates(program, table))
    if tails:
        parts.append(_tails(system, tails, table))
    if system.walls or system.switches:
        parts += _surfaces(system, table)
    parts += [_tableau(), (Path(__file__).with_name("loop.c")).read_text(encoding="utf-8")]
    return "\n\n".join(parts)


def _parameters(count: int, own: Sequence[int]) -> str:
    lines = [
        f"    p[{i}] = own[{own.index(i)} * count + thread];" if i in own else f"    p[{i}] = shared[{i}];"
        for i in range(count)
    ]
    return _function(
        "void kz_parameters(const double *shared, const double *own, long thread, long count, double *p)", lines
    )


def _constants(system: System, base: int, table: Mapping[sp.Basic, sp.Basic]) -> str:
    """Write the function of the hoisted constants.

    c[i] = p[base + i], which follow the parameters.
    """
    lines = [f"    c[{i}] = {_code(expression.xreplace(table))};" for i, expression in enumerate(system.constants)]
    return _function("void kz_constants(const double *p, double *c)", ["    (void)p; (void)c;", *lines])


def _rates(program: Program, table: Mapping[sp.Basic, sp.Basic]) -> str:
    """Write the right-hand side of all M equations.

    They are x' = f, V' = f_x V, and the divergence.
    """
    system, columns = program.system, program.columns
    n = len(system.states)
    steps = [(name, e.xreplace(table)) for name, e in system.smooth_steps]
    named = {name: sp.Symbol(f"s{i}", real=True) for i, (name, _) in enumerate(steps)}
    states = [table[s] for s in system.states]
    wanted = [f.xreplace(table).xreplace(named) for f in system.smooth_rates]
    lines, slopes = [], {}
    entries: list[list[sp.Expr]] = []
    for name, expression in steps:
        rewritten = expression.xreplace(named)
        lines.append(f"    const double {named[name]} = {_code(rewritten)};")
        if columns or program.volume:
            row = _total_slopes(rewritten, states, slopes)
            row = [_named(lines, f"{named[name]}_{j}", d) for j, d in enumerate(row)]
            slopes[named[name]] = row
    if columns or program.volume:
        entries = [_total_slopes(f, states, slopes) for f in wanted]
    flat = [d for row in entries for d in row]
    written, reduced = _shared_terms([*wanted, *flat])
    lines += written
    lines += [f"    f[{i}] = {_code(e)};" for i, e in enumerate(reduced[:n])]
    matrix = {}
    for i, e in enumerate(reduced[n:]):
        if e != 0:
            matrix[divmod(i, n)] = name = f"a{i}"
            lines.append(f"    const double {name} = {_code(e)};")
    for i in range(n):
        for c in range(columns):
            terms = [f"{matrix[i, j]} * y[{n + j * columns + c}]" for j in range(n) if (i, j) in matrix]
            lines.append(f"    f[{n + i * columns + c}] = {' + '.join(terms) or '0.0'};")
    if program.volume:
        trace = [matrix[i, i] for i in range(n) if (i, i) in matrix]
        lines.append(f"    f[{n + n * columns}] = {' + '.join(trace) or '0.0'};")
    head = "void kz_rates(const double *y, double t, const double *p, const double *c, const double *m, double *f)"
    return _function(head, ["    (void)c; (void)m; (void)t; (void)p;", *lines])


def _total_slopes(expression: sp.Basic, states: list[sp.Basic], slopes: dict[sp.Basic, list[sp.Expr]]) -> list[sp.Expr]:
    """Return derivatives by the states, through named steps."""
    inner = [(s, sp.diff(expression, s)) for s in slopes if expression.has(s)]
    return [sp.diff(expression, x) + sp.Add(*[d * slopes[s][j] for s, d in inner]) for j, x in enumerate(states)]


def _named(lines: list[str], name: str, expression: sp.Basic) -> sp.Basic:
    """Return a symbol that holds the expression.

    The expression itself is returned where it is a number or a symbol.
    """
    if expression.is_number or expression.is_Symbol:
        return expression
    lines.append(f"    const double {name} = {_code(expression)};")
    return sp.Symbol(name, real=True)


def _shared_terms(expressions: list[sp.Basic]) -> tuple[list[str], list[sp.Basic]]:
    """Write statements for common subexpressions.

    sin and cos of one argument are computed together. Also returned are the expressions written with them.
    """
    found: Any = sp.cse(expressions, symbols=(sp.Symbol(f"u{i}", real=True) for i in range(100_000)))
    common, reduced = found
    lines, rotations, renamed = [], {}, {}
    for name, term in common:
        expression: sp.Basic = _rotated(sp.sympify(term).xreplace(renamed), lines, rotations)
        if isinstance(expression, sp.Symbol):
            renamed[name] = expression
        else:
            lines.append(f"    const double {name} = {_code(expression)};")
    return lines, [_rotated(e.xreplace(renamed), lines, rotations) for e in reduced]


def _rotated(expression: sp.Basic, lines: list[str], rotations: dict[sp.Basic, int]) -> sp.Basic:
    found = {}
    for term in sorted(expression.atoms(sp.sin, sp.cos), key=sp.sstr):
        if term.args[0].has(sp.sin, sp.cos):
            continue
        if term.args[0] not in rotations:
            # One call gives sine and cosine of an argument.
            rotations[term.args[0]] = number = len(rotations)
            lines.append(
                f"    double r{number}s, r{number}c; KZ_SINCOS({_code(term.args[0])}, r{number}s, r{number}c);"
            )
        number = rotations[term.args[0]]
        found[term] = sp.Symbol(f"r{number}{'s' if isinstance(term, sp.sin) else 'c'}", real=True)
    return expression.xreplace(found)


def _tails(system: System, tails: Sequence[sp.Expr], table: Mapping[sp.Basic, sp.Basic]) -> str:
    """Write the function of the arguments that limit steps."""
    named = {name: sp.Symbol(f"s{i}", real=True) for i, (name, _) in enumerate(system.smooth_steps)}
    lines = [f"    const double {named[name]} = {_code(e.xreplace(table).xreplace(named))};"
             for name, e in system.smooth_steps]  # fmt: skip
    lines += [f"    (void){name};" for name in named.values()]
    lines += [f"    w[{i}] = {_code(e.xreplace(table).xreplace(named))};" for i, e in enumerate(tails)]
    head = "void kz_tails(const double *y, double t, const double *p, const double *m, double *w)"
    return _function(head, ["    (void)y; (void)t; (void)p; (void)m;", *lines])


def _surfaces(system: System, table: Mapping[sp.Basic, sp.Basic]) -> list[str]:
    """Write the functions of walls and switches.

    The slopes by states and by time and the resets with their slopes follow.
    """
    n, t = len(system.states), table[time_symbol]
    states = [table[s] for s in system.states]
    surfaces = [w.surface.xreplace(table) for w in system.walls] + [s.function.xreplace(table) for s in system.switches]
    values = [f"    g[{j}] = {_code(s)};" for j, s in enumerate(surfaces)]
    slopes = [
        f"    d[{j * (n + 1) + i}] = {_code(sp.diff(s, by))};"
        for j, s in enumerate(surfaces)
        for i, by in enumerate([*states, t])
    ]
    resets: list[str] = []
    for j, wall in enumerate(system.walls):
        lines: list[str] = []
        for i, new in enumerate(wall.reset):
            new = new.xreplace(table)
            lines.append(f"        x[{i}] = {_code(new)};")
            lines += [
                f"        rx[{i * (n + 1) + k}] = {_code(sp.diff(new, by))};" for k, by in enumerate([*states, t])
            ]
        resets.append(f"    if (w == {j}) {{\n" + "\n".join(lines) + "\n    }")
    given = "const double *y, double t, const double *p"
    used = "    (void)y; (void)t; (void)p;"
    return [
        _function(f"void kz_surfaces({given}, double *g)", [used, *values]),
        _function(f"void kz_surface_slopes({given}, double *d)", [used, *slopes]),
        _function(f"void kz_reset(int w, {given}, double *x, double *rx)", [used, "    (void)w;", *resets]),
    ]


def _tableau() -> str:
    """Write the stages of a step and its errors.

    The coefficients are those of DOP853 in SciPy.
    """
    from scipy.integrate import DOP853

    a, b, c = np.asarray(DOP853.A), np.asarray(DOP853.B), np.asarray(DOP853.C)
    lines = ["#define KZ_STAGES \\", "    for (int i = 0; i < M; i++) k[0][i] = f[i]; \\"]
    for s in range(1, STAGES):
        lines.append(
            f"    for (int i = 0; i < M; i++) z[i] = y[i] + now * ({_sum(a[s, :s])}); \\\n"
            f"    kz_rates(z, t + {float(c[s])!r} * now, p, c, m, k[{s}]); \\"
        )
    lines.append(f"    for (int i = 0; i < M; i++) z[i] = y[i] + now * ({_sum(b)});")
    e5, e3 = np.asarray(DOP853.E5)[:STAGES], np.asarray(DOP853.E3)[:STAGES]
    return "\n".join([*lines, f"#define KZ_ERRORS a = {_sum(e5)}; b = {_sum(e3)};"])


def _sum(row: Iterable[float]) -> str:
    return " + ".join(f"{float(value)!r} * k[{i}][i]" for i, value in enumerate(row) if value != 0.0)


def _function(head: str, lines: Sequence[str]) -> str:
    return "KZ_INLINE " + head + " {\n" + "\n".join(lines) + "\n}"


def _code(expression: sp.Basic) -> str:
    return str(Printer().doprint(sp.sympify(expression)))
