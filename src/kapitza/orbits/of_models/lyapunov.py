"""Result of `exponents`: a Lyapunov spectrum.

It belongs to one model, or to every point of a plane of parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kapitza.base.arrays import Array
from kapitza.base.display import drawn
from kapitza.errors import DataError, Status

if TYPE_CHECKING:
    import os

    import pandas as pd


CERTAIN = 2.0
"""Standard errors from zero below which an exponent counts as zero in the Kaplan-Yorke dimension."""


@dataclass(frozen=True, repr=False)
class LyapunovSpectrum:
    """Lyapunov exponents with standard errors, per time or iteration.

    values: (..., n) in descending order; -inf where sticking collapses a direction in finite time, NaN where the motion
    leaves the finite numbers. errors: (..., n) standard errors from blocks. dimension, dimension_error: (...) of
    Kaplan and Yorke. divergence: (...) mean rate of ln(volume), which the exponents sum to.
    axes: the parameters varied, with their values; their shape comes first in the arrays. Empty for one model.
    length: time averaged over, without transient. blocks: pieces of it from which the errors come.
    followed: points that a device handed back and the processor followed. name: of the model; per: "unit of time" or
    "iteration"; status: whether the run was stopped before its end.

    Examples
    --------
    >>> import kapitza as kz
    >>> doubling = kz.Model.from_map({"x": "a*x*(1 - x)"}, parameters={"a": 4.0}, start={"x": 0.3})
    >>> found = kz.exponents(doubling, length=20000)
    >>> bool(abs(found.largest - 0.6931) < 3 * found.errors[0] + 1e-4)  # ln 2
    True
    """

    name: str
    values: Array
    errors: Array
    dimension: Array
    dimension_error: Array
    divergence: Array
    length: float
    blocks: int
    axes: dict[str, Array] = field(default_factory=dict)
    per: str = "unit of time"
    followed: int = 0
    status: Status = Status.CONVERGED

    def __post_init__(self):
        shape = np.shape(self.values)
        if not shape or not shape[-1]:
            raise DataError("A spectrum without exponents.")
        plane = tuple(np.size(v) for v in self.axes.values())
        wanted = {"values": (*plane, shape[-1]), "errors": (*plane, shape[-1])}
        wanted |= dict.fromkeys(("dimension", "dimension_error", "divergence"), plane)
        for name, expected in wanted.items():
            found = np.shape(getattr(self, name))
            if found != expected:
                raise DataError(f"The {name} of a spectrum have the shape {found}, not {expected}.")

    @property
    def largest(self) -> Any:
        """Largest exponent: a number, or (...) over the plane."""
        return self.values[..., 0] if self.axes else float(self.values[0])

    @property
    def chaotic(self) -> Any:
        """Whether the largest exponent is positive.

        It must exceed zero by more than three standard errors.
        """
        found = self.values[..., 0] > 3.0 * self.errors[..., 0]
        return found if self.axes else bool(found)

    def table(self) -> pd.DataFrame:
        """Return a table of the exponents.

        It has one row per exponent, over a plane one row per point.
        """
        import pandas as pd

        names = [f"lambda{i + 1}" for i in range(self.values.shape[-1])]
        if not self.axes:
            return pd.DataFrame({"exponent": self.values, "error": self.errors}, index=pd.Index(names, name="number"))
        points = np.meshgrid(*self.axes.values(), indexing="ij")
        columns = {name: grid.ravel() for name, grid in zip(self.axes, points, strict=True)}
        for i, name in enumerate(names):
            columns[name] = self.values[..., i].ravel()
            columns[f"{name}_error"] = self.errors[..., i].ravel()
        columns["dimension"] = self.dimension.ravel()
        return pd.DataFrame(columns)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Plot the exponents with error bars.

        Over one parameter curves are drawn, over two a chart of the largest exponent.
        """
        from kapitza.report import plot_exponents

        return drawn(plot_exponents(self), path)

    def __repr__(self) -> str:
        head = f"Lyapunov exponents of {self.name} per {self.per}, over {self.length:.6g} in {self.blocks} blocks"
        if self.status is not Status.CONVERGED:
            head += f" ({self.status.name.lower()})"
        if self.axes:
            ranges = ", ".join(f"{n} {v[0]:g} … {v[-1]:g} ({v.size})" for n, v in self.axes.items())
            lost = np.isnan(self.values[..., 0])
            lines = [head, ranges, f"largest exponent {_range(self.values[..., 0])}"]
            lines.append(f"chaotic at {np.mean(self.chaotic):.1%} of {lost.size} points, no value at {lost.sum()}")
            if self.followed:
                lines.append(f"{self.followed} points were handed back by the device and followed by the processor")
            return "\n".join(lines)
        rows = [
            f"  {'∞' if np.isinf(v) else f'{v:.6g}':>12} ± {e:.2g}".replace("∞", "-inf")
            for v, e in zip(self.values, self.errors, strict=True)
        ]
        dimension = f"Kaplan-Yorke dimension {float(self.dimension):.5g} ± {float(self.dimension_error):.2g}"
        return "\n".join([head, *rows, dimension, f"mean divergence {float(self.divergence):.6g}"])


def _range(values: Array) -> str:
    finite = values[np.isfinite(values)]
    return f"{finite.min():.5g} … {finite.max():.5g}" if finite.size else "not known"


def standard_error(series: Array) -> Array:
    """Return the standard error of correlated block values.

    The result is the error (...) of the mean of block values (blocks, ...).
    The largest of the errors from single blocks, pairs and fours of them: blocks that are correlated, as in
    intermittent motion, show in the longer ones.
    """
    found = np.zeros(series.shape[1:])
    with np.errstate(invalid="ignore"):
        for together in (1, 2, 4):
            count = len(series) // together
            # A standard deviation of fewer than four means is too uncertain to count.
            if count < 4 and together > 1:
                break
            means = series[: count * together].reshape(count, together, *series.shape[1:]).mean(axis=1)
            spread = means.std(axis=0, ddof=1) if count > 1 else np.full(found.shape, np.nan)
            found = np.fmax(found, spread / np.sqrt(count)) if together > 1 else spread / np.sqrt(count)
    return found


def kaplan_yorke(values: Array, errors: Array, series: Array) -> tuple[Array, Array]:
    """Return the Kaplan-Yorke dimension and its error.

    The dimension is D = k + Σ_{i<=k} λ_i / |λ_{k+1}|; D and its standard error are (...).
    values, errors: (..., n) in descending order; series: (blocks, ..., n). k is the largest number with Σ_{i<=k} λ_i
    >= 0. Exponents within `CERTAIN` errors of zero count as zero, or D of a limit cycle would be 0 by rounding.
    """
    n = values.shape[-1]
    counted = np.where(np.abs(values) <= CERTAIN * errors, 0.0, values)
    with np.errstate(invalid="ignore", divide="ignore"):
        sums = np.cumsum(counted, axis=-1)
        k = (sums >= 0).sum(axis=-1)
        before = np.concatenate((np.zeros((*k.shape, 1)), sums), axis=-1)
        at = np.minimum(k, n - 1)[..., None]
        total = np.take_along_axis(before, at, -1)[..., 0]
        following = np.abs(np.take_along_axis(counted, at, -1)[..., 0])
        dimension = np.where(k == n, float(n), k + total / np.where(k == n, 1.0, following))
        # First order: δD = Σ_{i<=k} δλ_i / |λ_{k+1}| + (Σ_{i<=k} λ_i) δλ_{k+1} / λ_{k+1}².
        inside = np.arange(n) < k[..., None]
        own = np.take_along_axis(series, np.broadcast_to(at, (len(series), *at.shape)), -1)[..., 0]
        moves = np.where(inside, series, 0.0).sum(axis=-1) / following + total * own / following**2
        error = np.where((k == 0) | (k == n) | np.isinf(following), 0.0, standard_error(moves))
    lost = np.isnan(values).any(axis=-1)
    return np.where(lost, np.nan, dimension), np.where(lost, np.nan, error)
