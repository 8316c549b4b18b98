"""Labels and colours of figures, whatever draws them."""

from __future__ import annotations

import html

CYCLE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Colours of lines, distinct also for colour-blind readers (Okabe and Ito)."""

GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "theta": "θ", "kappa": "κ", "lambda": "λ",
    "mu": "μ", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "psi": "ψ", "omega": "ω", "Omega": "Ω",
}  # fmt: skip


def spelled(name: str, unit: str = "") -> str:
    """Return a label of name and unit.

    Greek letters are shown by their sign, rates with a prime: "phi'" in rad/s reads φ' [rad/s]. Names that are not
    Greek letters stay as they are.
    """
    stem = name.rstrip("'0123456789_")
    shown = GREEK[stem] + name[len(stem) :].replace("_", "") if stem in GREEK else name
    return f"{shown} [{unit}]" if unit else shown


def escaped(text: str) -> str:
    """Return text that Plotly shows unchanged.

    Plotly reads a few HTML tags; a name must not contain them.
    """
    return html.escape(text, quote=False)


def escaped_label(name: str, unit: str = "") -> str:
    """Return the label of an axis, escaped for Plotly."""
    return escaped(spelled(name, unit))
