"""Result of a search for invariants.

Results are given in numbers and as text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from kapitza.base.arrays import Array
from kapitza.base.cures import Give, keep_cures
from kapitza.errors import Status
from kapitza.model import compile_expressions

if TYPE_CHECKING:
    import pandas as pd


SHOWN = 3
"""Most refused combinations that a verdict names."""
TOGETHER = 0.95
"""Correlation of two channels above which the terms of one can replace those of the other."""


@dataclass(frozen=True)
class FoundInvariant:
    """Invariant conserved along every orbit of the data.

    I = Σ_k c_k φ_k. terms: φ_k; coefficients: c_k, one of them 1; errors: standard errors (0 for that one).
    variation: rms of I about its level, relative to its spread over unrelated combinations of the same states;
    held_back: the same on data not used. noise_ratio: variation over what the noise (known, estimated or assumed)
    explains. levels: value on each orbit. shares: spread of each term alone, in the units of `variation`.
    """

    terms: tuple[sp.Expr, ...]
    coefficients: Array
    errors: Array
    variation: float
    held_back: float
    noise_ratio: float
    levels: Array
    shares: Array

    @property
    def expression(self) -> sp.Expr:
        """Invariant with rounded coefficients.

        Coefficients are rounded to what their errors justify, and to simple fractions where they agree.
        """
        scaled, errors = _readable(self.coefficients, self.errors)
        numbers = [_rounded(c, e) for c, e in zip(scaled, errors, strict=True)]
        return sp.Add(*(n * t for n, t in zip(numbers, self.terms, strict=True)))

    def table(self) -> pd.DataFrame:
        """Return one row per term.

        Coefficient, standard error, share of the variation over unrelated states.
        """
        import pandas as pd

        rows = {
            str(t): (c, e, s)
            for t, c, e, s in zip(self.terms, self.coefficients, self.errors, self.shares, strict=True)
        }
        return pd.DataFrame.from_dict(rows, orient="index", columns=["coefficient", "error", "share"])

    def evaluate(self, record: Any) -> Array:
        """Return the values of I (N,) along a record."""
        names = sorted({str(s) for t in self.terms for s in t.free_symbols})
        values = compile_expressions(self.terms, names)(record.values(names).T)
        return self.coefficients @ values

    def __str__(self) -> str:
        kept = f"{100 * self.variation:.2g} % (held-back data {100 * self.held_back:.2g} %)"
        return f"{self.expression}: conserved to {kept}"


@dataclass(frozen=True)
class InvariantSearch:
    """Result of `find_invariant`.

    It holds the invariants found, simplest first, and the verdict as text. closest: noise ratio of the most nearly
    conserved combination. dropped: terms that are constant, or combinations of others, on any data. noise: how the
    noise was known. status: INTERRUPTED when the search was stopped.
    """

    found: tuple[FoundInvariant, ...]
    verdict: str
    closest: float
    dropped: tuple[sp.Expr, ...] = ()
    noise: str = ""
    count: int = 0
    levels: int = 1
    names: tuple[str, ...] = field(default=())
    status: Status = Status.CONVERGED

    def __post_init__(self) -> None:
        keep_cures(self, "verdict")

    def __bool__(self) -> bool:
        return bool(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def __getitem__(self, index: int) -> FoundInvariant:
        return self.found[index]

    def table(self) -> pd.DataFrame:
        """Return one row per invariant.

        The columns are expression, variation [%], held-back variation [%] and noise ratio.
        """
        import pandas as pd

        rows = [(str(f.expression), 100 * f.variation, 100 * f.held_back, f.noise_ratio) for f in self.found]
        return pd.DataFrame(rows, columns=["invariant", "variation_%", "held_back_%", "noise_ratio"])

    def __str__(self) -> str:
        return self.verdict


def describe(found: tuple[FoundInvariant, ...], search: Any, closest: float) -> InvariantSearch:
    """Return the result of a search with its verdict."""
    source = {
        "known": "the stated noise",
        "estimated": "the noise estimated from dense sampling",
        "tolerance": "the tolerance given",
        "tolerances": "the tolerances given",
        "rounding": "1 % noise",
    }[search.kind]
    count, levels = len(search.library), search.train.levels
    ratio = float(np.sqrt(closest))
    if not found:
        verdict = (
            f"No invariant among combinations of {count} terms: the most nearly conserved one varies {ratio:.3g} times "
            f"as much as {source} explains, where it was fitted."
            if search.refused
            else f"No invariant among combinations of {count} terms: the most nearly conserved one varies {ratio:.3g} "
            f"times as much as {source} explains."
        )
        # Without a noise level nothing distinguishes an invariant from a slow variable.
        if search.kind == "rounding":
            verdict += (
                f" The noise is not known, so only what is constant to rounding counts: state {Give('noise')} or "
                f"{Give('tolerance')}."
            )
    else:
        lines = [_reason(f, source, levels) for f in found]
        verdict = f"{len(found)} invariant(s) among combinations of {count} terms:\n" + "\n".join(lines)
    together = moving_together(search.train.values, search.train.variables) if search.kind == "tolerance" else []
    if found and together:
        verdict += (
            f"\nDo not trust single coefficients: {', '.join(together)} move together, so that which of their "
            f"products count depends on the tolerance of each. State it by channel ({Give(tolerance={...})}, or "
            f"{Give('noise')})."
        )
    if search.refused:
        shown = "; ".join(search.refused[:SHOWN]) + (" …" if len(search.refused) > SHOWN else "")
        verdict += f"\nConstant on the part used, but no invariant: {shown}."
    if search.dropped:
        verdict += f"\nLeft out as constant or dependent on any data: {', '.join(map(str, search.dropped))}."
    return InvariantSearch(
        found, verdict, ratio, tuple(search.dropped), search.kind, count, levels, search.train.variables
    )


def moving_together(values: Array, names: tuple[str, ...]) -> list[str]:
    """Return strongly correlated pairs of channels.

    values: (d, N). Products of one can replace those of the other.
    """
    related = np.atleast_2d(np.corrcoef(values))
    pairs = np.argwhere(np.triu(np.abs(related), 1) > TOGETHER)
    return [f"{names[i]} and {names[j]} (correlation {related[i, j]:.2f})" for i, j in pairs]


def _reason(found: FoundInvariant, source: str, levels: int) -> str:
    names = sorted({str(s) for t in found.terms for s in t.free_symbols})
    text = (
        f"  {found}\n    {found.noise_ratio:.2g} times what {source} explains; not trivial because over unrelated "
        f"combinations of the same {', '.join(names)} it varies {1 / max(found.variation, 1e-16):.3g} times as much, "
        f"and its terms alone vary by {100 * found.shares.min():.2g} to {100 * found.shares.max():.2g} %"
    )
    if levels == 1:
        text += "\n    seen on one orbit only: a relation special to this orbit looks the same; add a record of another"
    else:
        spread = np.ptp(found.levels) * abs(_readable(found.coefficients, found.errors)[0][0] / found.coefficients[0])
        text += f"\n    {levels} orbits share it, with values spread by {spread:.3g}"
    return text


def _readable(coefficients: Array, errors: Array) -> tuple[Array, Array]:
    """Return the coefficients at a readable scale.

    Most of them are simple fractions there; the smallest of them is 1 or 1/2 where that ties.
    """
    best, score = (coefficients, errors), -1
    for value in coefficients:
        for target in (1.0, 0.5):
            factor = target / value
            scaled, widths = coefficients * factor, errors * abs(factor)
            simple = sum(_fraction(c, e) is not None for c, e in zip(scaled, widths, strict=True))
            if simple > score:
                best, score = (scaled, widths), simple
    return best


def _fraction(value: float, error: float) -> Fraction | None:
    """Return a simple fraction within the error.

    Denominator up to 4; None unless the error is small enough.
    """
    # With larger errors some fraction always agrees by chance.
    if error > 0.02 * abs(value):
        return None
    near = Fraction(value).limit_denominator(4)
    simple = 0 < abs(near.numerator) <= 12
    return near if simple and abs(float(near) - value) <= max(3 * error, 1e-9 * abs(value)) else None


def _rounded(value: float, error: float) -> sp.Expr:
    near = _fraction(value, error)
    if near is not None:
        return sp.Rational(near.numerator, near.denominator)
    digits = (
        6 if error <= 0 else int(np.clip(1 + np.floor(np.log10(abs(value))) - np.floor(np.log10(error)) + 1, 1, 12))
    )
    return sp.Float(value, digits)
