"""Period of an excitation that is written in t."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import sympy as sp

from kapitza.model.symbols import Expression, symbol, time

WAVES = (sp.sin, sp.cos, sp.tan)
"""Functions that repeat."""


def stated_by_waves(equations: Sequence[Expression], states: Iterable[str]) -> str | None:
    """Return the common period of the waves in t, as text such as "2*pi/omega".

    None where the time stands elsewhere too, where a phase is not linear in t, or where there is no common period.
    """
    moving = {symbol(name) for name in states}
    waves = {wave for e in equations for wave in e.atoms(*WAVES) if wave.has(time)}
    held = {wave: sp.Dummy() for wave in waves}
    if any(e.xreplace(held).has(time) for e in equations):
        return None
    rates = [sp.diff(wave.args[0], time) for wave in waves]
    if not rates or any(rate.free_symbols & {time, *moving} for rate in rates):
        return None
    ratios = [sp.nsimplify(sp.simplify(rate / rates[0])) for rate in rates]
    if not all(ratio.is_Rational for ratio in ratios):
        return None
    parts = [Fraction(str(ratio)) for ratio in ratios]
    shared = sp.Integer(math.gcd(*(p.numerator for p in parts))) / math.lcm(*(p.denominator for p in parts))
    rate = sp.nsimplify(rates[0] * shared)
    return str(2 * sp.pi / (-rate if rate.could_extract_minus_sign() else rate))
