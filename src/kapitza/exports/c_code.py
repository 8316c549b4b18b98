"""Write C99 with a header.

It holds functions of the model, and the motion between events.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import files

import numpy as np
from scipy.integrate import DOP853

from kapitza.exports.names import comment, headline, identifiers, quoted
from kapitza.exports.printing import Language
from kapitza.exports.program import Body, Program, Quantity
from kapitza.exports.tables import merged_knots

NEAR, LOST = "1e-12", "1e-8"  # as in driver.py
STAGES = 12
"""Stages of DOP853; the thirteenth is the first of the next step."""

C = Language(lambda kind, i: "t" if kind == "t" else f"{kind}[{i}]")


def c_files(program: Program, stem: str) -> dict[str, str]:
    """Return source and header texts by suffix.

    `stem` begins all their names.
    """
    return {".c": _named(source(program, f'#include "{stem}.h"'), stem), ".h": _named(header(program), stem)}


def _named(text: str, stem: str) -> str:
    return text.replace("kz_", f"{stem}_").replace("KZ_", f"{stem.upper()}_")


def header(program: Program) -> str:
    """Return the declarations, with names that begin with kz_."""
    counts = {
        "STATES": len(program.states),
        "PARAMETERS": len(program.parameters),
        "OUTPUTS": len(program.outputs),
        "DRIVES": len(program.tables),
        "SWITCHES": len(program.switches),
        "WALLS": len(program.walls),
        "EVENTS": len(program.switches) + len(program.walls),
        "SURFACES": max(1, 2 * (len(program.switches) + len(program.walls))),
    }
    return "\n".join(
        [
            f"/* {headline(program.name, program.description)} Written by kapitza. */",
            "#ifndef KZ_H",
            "#define KZ_H",
            *(f"#define KZ_{name} {count}" for name, count in counts.items()),
            "#define KZ_ROOM(n) ((n) > 0 ? (n) : 1)",
            f"#define KZ_PERIOD {program.period!r}",
            *_reach(program),
            *_fitted_start(program),
            *_enumerated("STATE", program.states),
            *_enumerated("PARAMETER", program.parameters),
            *_enumerated("OUTPUT", program.outputs),
            DECLARATIONS,
            "#endif\n",
        ]
    )


def _reach(program: Program) -> list[str]:
    """Return where measured drives that do not repeat are known; nothing where they repeat."""
    if program.reach is None:
        return []
    return [
        "/* The measured drives do not repeat: times beyond are refused, and rates asked there are NaN. */",
        f"#define KZ_FIRST_TIME {program.reach[0]!r}",
        f"#define KZ_LAST_TIME {program.reach[1]!r}",
        f"#define KZ_LIMIT {quoted(program.limit)}",
    ]


def _fitted_start(program: Program) -> list[str]:
    """Return the time of a fitted start under a drive; nothing where the motion may begin at any time."""
    if program.fitted_at is None:
        return []
    return [
        f"#define KZ_START_AT {program.fitted_at!r}",
        f"#define KZ_OTHER_START {quoted(program.other_start)}",
    ]


DECLARATIONS = """\
/* A motion: time, state, parameters; then modes of the switches, which of them stick and with which control,
   surfaces just left, the time whose polynomials of the drives hold, the size of the next step. */
typedef struct {
    double t, x[KZ_STATES], p[KZ_ROOM(KZ_PARAMETERS)];
    double m[KZ_ROOM(KZ_SWITCHES)], held[KZ_ROOM(KZ_SWITCHES)];
    int stuck[KZ_ROOM(KZ_SWITCHES)], left[KZ_ROOM(KZ_EVENTS)];
    double at, step, tolerance;
    const char *message;
} kz_motion;

extern const double kz_start[KZ_STATES];
extern const double kz_values[KZ_ROOM(KZ_PARAMETERS)];

/* Use: kz_motion q; kz_init(&q, 0.0, NULL, NULL); kz_advance(&q, 1.0); then q.x is the state at t = 1. Angles are
   not wrapped. All functions return 0, or a number that q.message explains. */
int kz_init(kz_motion *q, double t, const double *x, const double *p);
int kz_begin(kz_motion *q);
int kz_advance(kz_motion *q, double end);
void kz_outputs_of(kz_motion *q, double *y);

/* Parts, for solvers of your own: rates with given drives u and modes m; rates of the motion; watched surfaces.
   Polynomials of measured drives are those at q.at: keep it between the knots (kz_next_knot) around the time. */
void kz_rates(double t, const double *x, const double *u, const double *p, const double *m, double *d);
void kz_field(kz_motion *q, double t, const double *x, double *d);
void kz_watch(kz_motion *q, double t, const double *x, double *value, double *slope, double *watched);
int kz_happen(kz_motion *q, int i);
int kz_settle(kz_motion *q, double t, const double *x);
double kz_next_knot(double t);
"""


def _enumerated(kind: str, quantities: Sequence[Quantity]) -> list[str]:
    """Write named places, such as p[RIG_PARAMETER_K]."""
    words = identifiers(q.name for q in quantities)
    return [
        f"#define KZ_{kind}_{word.upper()} {i} /* {comment(q.name)} {f'[{comment(q.unit)}]' if q.unit else ''} */"
        for i, (word, q) in enumerate(zip(words, quantities, strict=True))
    ]


def source(program: Program, include: str) -> str:
    """Return the source, with names that begin with kz_."""
    tableau = [
        _array("static const double kz_stage[12][12]", [_row(r[:STAGES]) for r in DOP853.A[:STAGES]]),
        f"static const double kz_weight[12] = {_row(DOP853.B)};",
        f"static const double kz_node[12] = {_row(DOP853.C[:STAGES])};",
        f"static const double kz_error3[13] = {_row(DOP853.E3)};",
        f"static const double kz_error5[13] = {_row(DOP853.E5)};",
    ]
    flags = [
        f"static const int kz_{name}[] = {{{', '.join(str(int(v)) for v in values)}}};"
        for name, values in (
            ("can_stick", [s.can_stick for s in program.switches]),
            ("can_vanish", [s.can_vanish for s in program.switches]),
        )
        if values
    ]
    # Events are found by signs at the ends of a step: in a long step two flips of a switch would cancel.
    longest = program.period / 50 if program.switches and program.period else 0.0
    return "\n".join(
        [
            "#include <math.h>",
            "#include <stddef.h>",
            "#include <string.h>",
            include,
            f"#define KZ_NEAR {NEAR}",
            f"#define KZ_LOST {LOST}",
            f"#define KZ_LONGEST_STEP {repr(longest) if longest else 'HUGE_VAL'}",
            f"#define KZ_SPAN_FIRST {program.span[0]!r}",
            f"#define KZ_SPAN_LAST {program.span[1]!r}",
            f"const double kz_start[KZ_STATES] = {_row([q.value for q in program.states])};",
            "const double kz_values[KZ_ROOM(KZ_PARAMETERS)] = "
            + _row([q.value for q in program.parameters] or [0.0])
            + ";",
            *flags,
            *_tables(program),
            *tableau,
            *_functions(program),
            files("kapitza.exports").joinpath("runtime.c").read_text(encoding="utf-8"),
        ]
    )


def _functions(program: Program) -> list[str]:
    const, drives = "const double *", "const double *u, const double *p"
    common = f"double t, {const}x, {drives}"
    found = [_function("void kz_rates", f"{common}, {const}m, double *d", program.rates, "d", "t x u p m")]
    if program.has_events:
        arguments = f"double t, {const}x, {const}u, {const}du, {const}p, {const}m, {const}d, double *s"
        found.append(_function("static void kz_surfaces", arguments, program.surfaces, "s", "t x u du p m d"))
    for j, reset in enumerate(program.resets):
        found.append(_function(f"static void kz_reset_{j}", f"{common}, {const}m, double *y", reset, "y", "t x u p m"))
    if program.resets:
        cases = "\n".join(f"    if (j == {j}) kz_reset_{j}(t, x, u, p, m, y);" for j in range(len(program.resets)))
        found.append(f"static void kz_reset(int j, {common}, {const}m, double *y)\n{{\n{cases}\n}}\n")
    arguments = f"{common}, {const}d, double *y"
    found.append(_function("static void kz_outputs", arguments, program.output_values, "y", "t x u p d"))
    return found


def _function(head: str, arguments: str, body: Body, target: str, names: str) -> str:
    lines = C.lines(body, lambda i, text: f"{target}[{i}] = {text};")
    unused = " ".join(f"(void){name};" for name in (*names.split(), target))
    return "\n    ".join([f"{head}({arguments})\n{{", unused, *lines]) + "\n}\n"


def _tables(program: Program) -> Iterable[str]:
    knots = merged_knots(program)
    if knots is None:
        return
    yield "typedef struct { double period; int count, order; const double *knots, *coefficients; } kz_table;"
    for i, table in enumerate(program.tables):
        yield f"/* {comment(table.name)} [{comment(table.unit)}] */"
        yield f"static const double kz_knots_{i}[] = {_row(table.knots)};"
        yield f"static const double kz_coefficients_{i}[] = {_row(table.coefficients.ravel())};"
    rows = [
        f"{{{t.period!r}, {len(t.coefficients)}, {t.coefficients.shape[1]}, kz_knots_{i}, kz_coefficients_{i}}}"
        for i, t in enumerate(program.tables)
    ]
    yield _array("static const kz_table kz_tables[]", rows)
    yield f"#define KZ_KNOTS {knots.size}"
    yield f"static const double kz_knots[KZ_KNOTS] = {_row(knots)};"


def _row(values: Iterable[float] | np.ndarray) -> str:
    return "{" + ", ".join(repr(float(v)) for v in values) + "}"


def _array(head: str, rows: Sequence[str]) -> str:
    return f"{head} = {{\n    " + ",\n    ".join(rows) + "\n};"
