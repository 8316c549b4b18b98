"""Draw figures of harmonic fits.

They show residues of the sub-harmonics, and spectra with and without a filter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from kapitza.base.argument_checks import Count
from kapitza.errors import KapitzaError
from kapitza.estimate import Estimate
from kapitza.report.style import axes_for


def plot_residues(fit: Estimate, equation: Count = 1, axes: Axes | None = None) -> Axes:
    """Draw residues of sub-harmonics against predicted values.

    The figure follows HARMONIC, figures 14 and 15.
    Dropped sub-harmonics are drawn as crosses; the identification error ε stands in the title.
    """
    key = f"equation {equation}"
    residues = getattr(fit.rows, "residues", {})
    if key not in residues:
        known = ", ".join(residues) or "none: it is not a harmonic balance"
        raise KapitzaError(f'The fit has no residues for "{key}"; it has {known}.')
    table = residues[key]
    kept = _kept_rows(fit, equation)
    axes = axes_for(axes, (6.4, 4.0))
    axes.axhline(0.0, color="0.6", lw=0.8)
    axes.plot(table[kept, 0], table[kept, 1], ".", ms=5, label="used")
    if not kept.all():
        axes.plot(table[~kept, 0], table[~kept, 1], "x", ms=5, color="tab:red", label="dropped")
        axes.legend(frameon=False)
    error = np.abs(table[kept, 1]).max() / np.abs(table[kept, 0]).max()
    axes.set(xlabel="predicted coefficient", ylabel="residue", title=f"{key}: ε = {100 * error:.1f} %")
    return axes


def _kept_rows(fit: Any, equation: int) -> Any:
    """Return which rows of an equation were used.

    Rows are stored orbit by orbit, equation by equation within an orbit.
    """
    residues = fit.rows.residues
    equations = len(residues)
    orbit = residues["equation 1"][:, 2]
    sizes = [int((orbit == i).sum()) for i in np.unique(orbit)]
    kept, parts, start = fit.rows.used, [], 0
    for size in sizes:
        block = kept[start : start + equations * size].reshape(equations, size)
        parts.append(block[equation - 1])
        start += equations * size
    return np.concatenate(parts)
