"""Probabilities and sizes in sentences."""

from __future__ import annotations

import math

SMALLEST = -300.0
"""log10 of the smallest probability that is written as a number; doubles end at 1e-308."""


def chance_text(log10_p: float, digits: int = 2) -> str:
    """Return a probability with its sign: "p = 0.012", "p < 1e-300".

    >>> chance_text(-1.9208), chance_text(-6107)
    ('p = 0.012', 'p < 1e-300')
    """
    if log10_p < SMALLEST:
        return f"p < 1e{SMALLEST:.0f}"
    return f"p = {10.0**log10_p:.{digits}g}"


def p_text(chance: float, digits: int = 2) -> str:
    """Return a probability with its sign, from the probability itself; see `chance_text`."""
    return chance_text(math.log10(chance) if chance > 0 else -math.inf, digits)


def two_digits(value: float) -> str:
    """Return a number rounded to two digits, written out: "640", "0.012".

    >>> two_digits(1049.0), two_digits(643.2), two_digits(0.01234)
    ('1000', '640', '0.012')
    """
    return f"{float(f'{value:.2g}'):.7g}"
