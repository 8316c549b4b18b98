"""Equations as MathML, which browsers draw themselves."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

import sympy as sp
from sympy.printing.mathml import MathMLPresentationPrinter

from kapitza.model import Model

PLAIN = re.compile(r"[A-Za-z_]\w*'*")
"""Names that a formula may hold; anything else is shown as text."""

DOTS = {1: "·", 2: "··"}
"""Not the accents ˙ and ¨: fonts without tables for mathematics would draw them through the letter."""

LONGEST_FORMULA = 4000


def formula(model: Model) -> str:
    """Return the equations of a model as HTML.

    "" where a name is not plain or the equations are too long to be read.
    """
    lines = []
    for coordinate, equation in zip(model.coordinates, model.equations, strict=True):
        expression = sp.sympify(equation)
        if not all(PLAIN.fullmatch(str(symbol)) for symbol in expression.free_symbols):
            return ""
        written = "".join(_terms(expression, model.is_map))
        # SymPy would take everything behind an underscore for an index, primes included.
        written = re.sub("<mi>zq (.+?) z</mi>", lambda found: _name(found[1]), written)
        left, right = ("", "<mo>=</mo><mn>0</mn>")
        if model.is_map:
            left, right = f"{_name(coordinate.name)}<mo>→</mo>", ""
        lines.append(f'<math display="block"><mrow>{left}{written}{right}</mrow></math>')
    # Dots over a letter would make every bracket around it grow; names of several letters would run into each other.
    text = re.sub(r"<mo>([()])</mo>", r'<mo stretchy="false">\1</mo>', "".join(lines))
    text = text.replace("<mo>&InvisibleTimes;</mo>", '<mo>&InvisibleTimes;</mo><mspace width="0.15em"/>')
    return text if len(text) < LONGEST_FORMULA * 5 else ""


class Printer(MathMLPresentationPrinter):
    """Print symbols between marks, which `formula` replaces by their MathML."""

    def _print_Symbol(self, sym: sp.Symbol, style: str = "plain") -> Any:
        del style
        letter = self.dom.createElement("mi")
        letter.appendChild(self.dom.createTextNode(f"zq {sym} z"))
        return letter


def _name(name: str) -> str:
    """Return a name as MathML.

    Primes become dots over the letter; digits and what follows an underscore become an index.
    """
    plain = name.rstrip("'")
    letters = re.match(r"[A-Za-z]+", plain)
    base, index = (letters[0], plain[letters.end() :]) if letters else (plain, "")
    made = sp.mathml(sp.Symbol(base), printer="presentation")
    primes = len(name) - len(plain)
    if primes in DOTS:
        made = f"<mover>{made}<mo>{DOTS[primes]}</mo></mover>"
    index = html.escape(index.strip("_").replace("_", ",") + "′" * (primes if primes not in DOTS else 0))
    return f"<msub>{made}<mtext>{index}</mtext></msub>" if index else made


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
        yield Printer().doprint(-term if minus else term)
