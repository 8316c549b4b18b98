"""Equations as MathML, which browsers draw themselves."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

import sympy as sp

from kapitza.model import Model

PLAIN = re.compile(r"[A-Za-z_]\w*'*")
"""Names that a formula may hold; anything else is shown as text."""

DOTS = {1: "˙", 2: "¨"}

LONGEST_FORMULA = 4000


def formula(model: Model) -> str:
    """Return the equations of a model as HTML.

    "" where a name is not plain or the equations are too long to be read.
    """
    lines = []
    for coordinate, equation in zip(model.coordinates, model.equations, strict=True):
        if not all(PLAIN.fullmatch(str(symbol)) for symbol in sp.sympify(equation).free_symbols):
            return ""
        written = "".join(_terms(sp.sympify(equation), model.is_map))
        left, right = ("", "<mo>=</mo><mn>0</mn>")
        if model.is_map:
            left, right = f"<mi>{html.escape(coordinate.name)}</mi><mo>→</mo>", ""
        lines.append(f'<math display="block"><mrow>{left}{written}{right}</mrow></math>')
    text = re.sub(r"<mi>(\w+?)('{1,2})</mi>", _dotted, "".join(lines))
    # Dots over a letter would make every bracket around it grow.
    text = re.sub(r"<mo>([()])</mo>", r'<mo stretchy="false">\1</mo>', text)
    return text if len(text) < LONGEST_FORMULA * 5 else ""


def _terms(equation: sp.Expr, as_it_is: bool) -> Iterator[str]:
    """Yield the terms of a sum as MathML.

    The highest derivative comes first; SymPy would begin with the parameters: cφ̇ + kφ + φ̈.
    """
    terms = sp.Add.make_args(equation) if not as_it_is else (equation,)
    order = {term: -max((str(s).count("'") for s in term.free_symbols), default=0) for term in terms}
    for place, term in enumerate(sorted(terms, key=lambda term: (order[term], str(term)))):
        minus = place > 0 and term.could_extract_minus_sign()
        if place:
            yield f"<mo>{'−' if minus else '+'}</mo>"
        yield sp.mathml(-term if minus else term, printer="presentation")


def _dotted(match: re.Match[str]) -> str:
    """Write rates with dots over the coordinate."""
    name = sp.mathml(sp.Symbol(match[1]), printer="presentation")
    return f'<mover accent="true">{name}<mo>{DOTS[len(match[2])]}</mo></mover>'
