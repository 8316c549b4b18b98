"""Show nouns in notebooks and papers.

A cell gets HTML, a document LaTeX. Everything printed is escaped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import numpy as np
import pandas as pd
import sympy as sp

from kapitza.base.argument_checks import Anything
from kapitza.data import Record
from kapitza.errors import ArgumentError
from kapitza.estimate import Estimate, Prediction
from kapitza.model import Model
from kapitza.orbits import OrbitSet, PeriodicOrbit
from kapitza.orbits.in_records import Inspection
from kapitza.report.estimate_report import orbit_table, parameter_table
from kapitza.report.page import cell_text, table_cells
from kapitza.study import StudyResult

MOST_ROWS = 40
"""Rows of a table in a notebook; the others are counted."""


def as_html(noun: Anything) -> str:
    """Return a noun as HTML for a notebook.

    >>> import kapitza as kz
    >>> as_html(kz.library.duffing()).startswith('<div class="kapitza">')
    True
    """
    return f'<div class="kapitza">{_maker(noun)[0](noun)}</div>'


def as_latex(noun: Anything) -> str:
    r"""Return a noun as LaTeX.

    The equations of a model become an align environment, everything else a booktabs table.

    >>> import kapitza as kz
    >>> print(as_latex(kz.Model.from_equations("x'' + c*x' + x = 0", parameters={"c": 0.1})))
    \begin{aligned}
    c \dot{x} + \ddot{x} + x &= 0
    \end{aligned}
    """
    return _maker(noun)[1](noun)


def _maker(noun: Any) -> tuple[Callable[[Any], str], Callable[[Any], str]]:
    for kind, makers in MAKERS.items():
        if isinstance(noun, kind):
            return makers
    raise ArgumentError(
        f"noun is a {type(noun).__name__}; give one that has a table: {', '.join(k.__name__ for k in MAKERS)}."
    )


def html_table(frame: pd.DataFrame) -> str:
    """Return an HTML table whose cells are text."""
    cells = table_cells(frame.head(MOST_ROWS))
    head = "".join(f"<th>{escape(name)}</th>" for name, _ in cells["header"])
    rows = "".join(
        "<tr>" + "".join(f'<td style="text-align:{"right" if right else "left"}">{escape(text)}</td>'
                         for text, right in row) + "</tr>"
        for row in cells["rows"]
    )  # fmt: skip
    rest = f"<p>and {len(frame) - MOST_ROWS} more</p>" if len(frame) > MOST_ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{rest}"


def latex_table(frame: pd.DataFrame) -> str:
    """Return a booktabs table, special characters escaped."""
    shown = frame.reset_index() if frame.index.name else frame
    right = [pd.api.types.is_numeric_dtype(dtype) for dtype in shown.dtypes]
    rows = [
        " & ".join(latex_text(cell_text(value)) for value in row) + r" \\" for row in shown.to_numpy(object).tolist()
    ]
    head = " & ".join(latex_text(str(name)) for name in shown.columns) + r" \\"
    columns = "".join("r" if one else "l" for one in right)
    return "\n".join(
        [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]
    )


SPECIAL = {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
SPECIAL |= {character: f"\\{character}" for character in "&%$#_{}"}


def latex_text(text: str) -> str:
    number = re.fullmatch(r"(-?\d(?:\.\d+)?)e([+-]\d+)", text)
    if number:
        return rf"${number[1]} \cdot 10^{{{int(number[2])}}}$"
    return "".join(SPECIAL.get(character, character) for character in text)


def equations_latex(model: Model) -> str:
    """Return the equations as LaTeX, rates with dots."""
    names: dict[sp.Symbol, str] = {}
    for symbol in {s for e in model.equations for s in e.free_symbols}:
        stem = symbol.name.rstrip("'")
        order = len(symbol.name) - len(stem)
        inner = sp.latex(sp.Symbol(stem)) if re.fullmatch(r"\w+", stem) else rf"\text{{{latex_text(stem)}}}"
        names[symbol] = {0: inner, 1: rf"\dot{{{inner}}}", 2: rf"\ddot{{{inner}}}"}.get(order, inner + "'" * order)
    if model.is_map:
        lines = [
            f"{sp.latex(sp.Symbol(c.name))} &\\mapsto {sp.latex(e, symbol_names=names)}"
            for c, e in zip(model.coordinates, model.equations, strict=True)
        ]
    else:
        lines = [f"{sp.latex(e, symbol_names=names)} &= 0" for e in model.equations]
    return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"


def _parameters(model: Model) -> pd.DataFrame:
    rows = [(p.name, model.values[p.name], p.unit, p.description) for p in model.parameters]
    frame = pd.DataFrame(rows, columns=["parameter", "value", "unit", "meaning"])
    return _filled(frame)


def _filled(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table without empty columns."""
    empty = [c for c in frame.columns if frame[c].isna().all() or (frame[c].astype(str) == "").all()]
    return frame.drop(columns=empty)


def _paragraphs(texts: Sequence[str]) -> str:
    return "".join(f"<p>{escape(text)}</p>" for text in texts if text)


def model_html(model: Model) -> str:
    # a dollar sign in a name must not end the formula
    equations = escape(equations_latex(model).replace("$", r"\$"))
    title = f"<strong>{escape(model.name)}</strong>"
    return f"{title}{_paragraphs([model.description])}<p>$${equations}$$</p>{html_table(_parameters(model))}"


def _channels(record: Record) -> pd.DataFrame:
    rows = [
        (name, record.units[name], "angle" if angle else "", float(v.min()), float(np.mean(v)), float(v.max()),
         record.noise.get(name, math.nan))
        for name, angle in zip(record.channels, record.angles, strict=True)
        for v in (record[name],)
    ]  # fmt: skip
    columns = ["channel", "unit", "kind", "smallest", "mean", "largest", "noise"]
    return _filled(pd.DataFrame(rows, columns=columns))


def record_html(record: Record) -> str:
    return _paragraphs([repr(record), f"Sampling: {record.sampling()}"]) + html_table(_channels(record))


def inspection_html(inspection: Inspection) -> str:
    lines = str(inspection).splitlines()
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def _findings(inspection: Inspection) -> pd.DataFrame:
    lines = [line.partition(": ") for line in str(inspection).splitlines()[1:]]
    return pd.DataFrame([(a, c) if c else ("", a) for a, _, c in lines], columns=["finding", "value"])


def orbit_html(orbit: PeriodicOrbit) -> str:
    return html_table(_filled(orbit_table(OrbitSet((orbit,)))))


def orbits_html(orbits: OrbitSet) -> str:
    table = html_table(_filled(orbit_table(orbits))) if len(orbits) else ""
    return _paragraphs([f"{len(orbits)} periodic orbits", orbits.message]) + table


def estimate_html(estimate: Estimate) -> str:
    warnings = "".join(f'<li style="color:#b35900">{escape(text)}</li>' for text in estimate.warnings)
    head = _paragraphs([f"{estimate.method}: {estimate.status.value}"])
    return head + html_table(parameter_table(estimate, 0.95)) + (f"<ul>{warnings}</ul>" if warnings else "")


def _prediction(prediction: Prediction) -> pd.DataFrame:
    error = np.asarray(prediction.error)
    rows = [
        ("samples held back", float(len(prediction.time))),
        ("horizon within four standard deviations [s]", float(prediction.horizon)),
        ("root mean square error [standard deviations]", float(np.sqrt(np.nanmean(error**2)))),
        ("largest error [standard deviations]", float(np.nanmax(np.abs(error)))),
    ]
    return pd.DataFrame(rows, columns=["prediction", "value"])


def result_html(result: StudyResult) -> str:
    return _paragraphs([result.title, result.sentence(), result.verdict()]) + html_table(_filled(result.table()))


MAKERS: dict[type, tuple[Callable[[Any], str], Callable[[Any], str]]] = {
    Model: (model_html, equations_latex),
    Record: (record_html, lambda record: latex_table(_channels(record))),
    Inspection: (inspection_html, lambda inspection: latex_table(_findings(inspection))),
    OrbitSet: (orbits_html, lambda orbits: latex_table(_filled(orbit_table(orbits)))),
    PeriodicOrbit: (orbit_html, lambda orbit: latex_table(_filled(orbit_table(OrbitSet((orbit,)))))),
    Estimate: (estimate_html, lambda estimate: latex_table(parameter_table(estimate, 0.95))),
    Prediction: (lambda one: html_table(_prediction(one)), lambda one: latex_table(_prediction(one))),
    StudyResult: (result_html, lambda result: latex_table(_filled(result.table()))),
}
"""HTML and LaTeX of each noun."""
