"""Result of a fit: parameters, intervals and warnings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kapitza.base.argument_checks import Anything
from kapitza.base.arrays import Array
from kapitza.base.csv_tables import write_table
from kapitza.base.cures import keep_cures
from kapitza.base.display import Shown
from kapitza.base.part_fields import Inside, OfKind, with_parts
from kapitza.base.rounded import two_digits
from kapitza.errors import KapitzaError, Status, nearest_name
from kapitza.estimate.faults import Leverage
from kapitza.estimate.identifiability import Identifiability
from kapitza.estimate.intervals import between_bounds, half_width, interval_of
from kapitza.estimate.misfit import Misfit
from kapitza.estimate.parts import (
    Agreement,
    Combined,
    Course,
    FittedMotion,
    HarmonicRows,
    LevelSets,
    Likelihood,
    NoiseAlone,
    OrbitMatches,
    Question,
    WeakRows,
)

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 3
"""Number of faults whose leverage is printed."""


@dataclass(frozen=True)
class Estimate(Shown):
    """Result of `kapitza.identify`.

    names: the free parameters, in the order of `covariance` (k, k). values: estimates by name (derived parameters may
    follow the free ones). status: how the fit ended. warnings: what is suspicious. derived: standard errors of derived
    parameters and combinations. draws: (S, k) samples of the free parameters where bounds make their distribution
    one-sided. noise_alone: the narrower covariance that noise alone would give. leverage: how far small faults of the
    measurement would move parameters. likelihood, identifiability: None where the method does not give them.

    Parts, whose attributes are attributes of the estimate too (``fit.residuals`` is ``fit.agreement.residuals``):
    question (model, data, settings, sensors, start, fixed, units), agreement (residuals, noise, chi2, dof, whiteness,
    misfit), course (history, chain, post_mortem), combined (base, held). findings: what the method knows beyond these,
    given as matches (orbits), motion (shooting), rows (weak form, harmonic balance) or level_sets (invariants).
    workings: what profiles and advice start from; not saved, but made again when it is needed.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> model = kz.Model.from_equations("x'' + c*x' + x = 0", parameters={"c": 0.1}, start={"x": 1.0, "x'": 0.0})
    >>> record = kz.measure(kz.simulate(model, t=np.arange(300) * 0.1), noise=0.01, seed=1)
    >>> fit = kz.identify(model, record, free=["c"])
    >>> fit.status.ok, fit.names
    (True, ('c',))
    >>> bool(fit.interval(0.99).loc["c", "low"] < 0.1 < fit.interval(0.99).loc["c", "high"])
    True
    """

    names: tuple[str, ...]
    values: Mapping[str, float]
    covariance: Array
    method: str
    status: Status = Status.CONVERGED
    warnings: tuple[str, ...] = ()
    derived: Mapping[str, float] = field(default_factory=dict)
    draws: Array | None = field(default=None, repr=False)
    noise_alone: NoiseAlone | None = field(default=None, repr=False)
    leverage: tuple[Leverage, ...] = field(default=(), repr=False)
    likelihood: Likelihood | None = None
    identifiability: Identifiability | None = field(default=None, repr=False)
    question: Question = field(default_factory=Question, repr=False)
    agreement: Agreement = field(default_factory=Agreement)
    course: Course = field(default_factory=Course, repr=False)
    combined: Combined = field(default_factory=Combined, repr=False)
    findings: OrbitMatches | FittedMotion | WeakRows | HarmonicRows | LevelSets | None = field(default=None, repr=False)
    workings: Anything = field(default=None, repr=False, compare=False)

    model = Inside[Any]("question")
    data = Inside[Any]("question")
    settings = Inside[Any]("question")
    sensors = Inside[Mapping[str, Any]]("question")
    start = Inside[Mapping[str, float]]("question")
    fixed = Inside[Mapping[str, float]]("question")
    units = Inside[Mapping[str, str]]("question")
    residuals = Inside[Mapping[str, Array]]("agreement")
    noise = Inside[Mapping[str, float]]("agreement")
    chi2 = Inside[float]("agreement")
    dof = Inside[float]("agreement")
    whiteness = Inside[Mapping[str, float]]("agreement")
    misfit = Inside[Misfit | None]("agreement")
    history = Inside["pd.DataFrame | None"]("course")
    chain = Inside[tuple[str, ...]]("course")
    post_mortem = Inside[str]("course")
    base = Inside["Estimate | None"]("combined")
    held = Inside[tuple[str, ...]]("combined")
    matches = OfKind[OrbitMatches]("findings", OrbitMatches)
    motion = OfKind[FittedMotion]("findings", FittedMotion)
    rows = OfKind["WeakRows | HarmonicRows"]("findings", WeakRows, HarmonicRows)
    level_sets = OfKind[LevelSets]("findings", LevelSets)

    def __post_init__(self) -> None:
        keep_cures(self, "warnings")

    def with_(self, **changes: Anything) -> Estimate:
        """Return the estimate with other values of some fields.

        Fields of its parts may be named as well.
        """
        return with_parts(self, changes)

    @property
    def deviations(self) -> dict[str, float]:
        """Standard errors by name."""
        spread = np.sqrt(np.clip(np.diag(self.covariance), 0.0, None))
        return dict(zip(self.names, spread.tolist(), strict=True))

    @property
    def identifiable(self) -> tuple[str, ...]:
        """Names or combinations that the data determine.

        These are the free parameters or combinations of them; empty where the fit failed.
        """
        if self.identifiability is None or self.status not in (Status.CONVERGED, Status.SINGULAR):
            return ()
        return self.identifiability.determined

    @property
    def correlation(self) -> Array:
        spread = np.sqrt(np.diag(self.covariance))
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.covariance / np.outer(spread, spread)

    @property
    def path(self) -> dict[str, Array]:
        """Values (I,) of each free parameter by iteration.

        The result is empty for methods that do not keep them.
        """
        if self.history is None or not len(self.history):
            return {}
        kept = {n: n if n in self.history.columns else f"theta_{i}" for i, n in enumerate(self.names)}
        return {n: self.history[c].to_numpy(float) for n, c in kept.items() if c in self.history.columns}

    def interval(self, level: float = 0.95) -> pd.DataFrame:
        """Return two-sided intervals, cut at the bounds of parameters.

        They are those of Student's t with `dof` degrees of freedom. Where there are `draws`, as many of them are above
        an interval as below; where they crowd at a bound of the parameter, the interval is the shortest one instead.

        Parameters
        ----------
        level : float
            Probability that an interval holds the true value.

        Returns
        -------
        pandas.DataFrame
            Columns low and high, one row per free parameter.
        """
        return _ends_table(self.ends(level))

    def ends(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Return low and high end of each interval.

        Keys are the names; `interval` shows the same as a table.
        """
        factor = half_width(level, self.dof)
        if self.draws is None:
            return self._ends(self.covariance, factor)
        rows = {}
        for i, name in enumerate(self.names):
            low, high = interval_of(self.draws[:, i], level, *self._bounds(name))
            # Draws come close to a bound but do not reach it; an estimate at the bound belongs to the interval.
            rows[name] = min(low, self.values[name]), max(high, self.values[name])
        return rows

    def noise_interval(self, level: float = 0.95) -> pd.DataFrame:
        """Return the intervals that noise alone would give.

        They assume that the model is right; `interval` is never narrower.

        Parameters
        ----------
        level : float
            Probability that an interval holds the true value.

        Returns
        -------
        pandas.DataFrame
            Columns low and high, one row per free parameter.
        """
        if self.noise_alone is None:
            return self.interval(level)
        factor = half_width(level, self.noise_alone.dof)
        return _ends_table(self._ends(self.noise_alone.covariance, factor))

    def _ends(self, covariance: Array, factor: float) -> dict[str, tuple[float, float]]:
        """Return value ± factor standard errors, within the bounds."""
        spread = np.sqrt(np.clip(np.diag(covariance), 0.0, None)).tolist()
        pairs = zip(self.names, spread, strict=True)
        return {n: between_bounds(self.values[n], factor * s, *self._bounds(n)) for n, s in pairs}

    @property
    def headline(self) -> str:
        """Status of the fit and quality of the prediction.

        One line: how the fit ended and how well the model follows the data.
        """
        if self.misfit is None or not self.status.ok:
            return f"{self.method}: {self.status.value}"
        return f"{self.method}: {self.status.value}; {self.misfit}"

    def _bounds(self, name: str) -> tuple[float, float]:
        if self.model is None or name not in getattr(self.model, "names", ()):
            return -np.inf, np.inf
        return self.model.parameter(name).bounds

    def __getitem__(self, name: str) -> float:
        if name not in self.values:
            raise KapitzaError(f'No estimate of "{name}".{nearest_name(name, self.values)}')
        return self.values[name]

    def table(self, level: float = 0.95) -> pd.DataFrame:
        """Return a table of the parameters.

        The columns are value, unit, standard error, relative error [%] and interval. Fixed parameters follow, without
        an error.
        """
        import pandas as pd

        ends, spread = self.ends(level), self.deviations
        rows = []
        for name in self.names:
            value = self.values[name]
            relative = 100 * spread[name] / abs(value) if value else float("nan")
            low, high = ends[name]
            unit = self.units.get(name, "")
            rows.append((name, value, unit, spread[name], relative, low, high, self.start.get(name, np.nan), "free"))
        factor = half_width(level, self.dof)
        for name, value in {**{k: v for k, v in self.values.items() if k not in self.names}, **self.fixed}.items():
            kind = (
                "fixed" if name in self.fixed else "derived" if name in self.derived or not self.held else "not known"
            )
            error = self.derived.get(name, np.nan)
            relative = 100 * error / abs(value) if value else np.nan
            low, high = value - factor * error, value + factor * error
            rows.append((name, value, self.units.get(name, ""), error, relative, low, high, np.nan, kind))
        columns = ["name", "value", "unit", "error", "error_%", "low", "high", "start", "role"]
        return pd.DataFrame(rows, columns=columns).set_index("name")

    def __str__(self) -> str:
        lines = [self.headline]
        ends, spread = self.ends(0.95), self.deviations
        width = max((len(n) for n in (*self.names, *self.derived, *self.fixed)), default=1)
        for name in self.names:
            value = self.values[name]
            if not self.status.ok and np.isnan(spread[name]):
                lines.append(f"  {name:<{width}} = {value:.6g} {self.units.get(name, '')}".rstrip() + "  (no interval)")
                continue
            relative = f"({100 * spread[name] / abs(value):.2g} %)" if value else ""
            low, high = ends[name]
            lines.append(
                f"  {name:<{width}} = {value:.6g} ± {spread[name]:.2g} {self.units.get(name, '')} {relative}"
                f"  95 %: [{low:.6g}, {high:.6g}]".rstrip()
            )
        for name, error in self.derived.items():
            if name not in self.names:
                unit = self.units.get(name, "")
                text = f"  {name:<{width}} = {self.values[name]:.6g} ± {error:.2g} {unit}".rstrip()
                lines.append(f"{text}  (derived)")
        lines += [f"  {n:<{width}} = {v:.6g} {self.units.get(n, '')} (fixed)".rstrip() for n, v in self.fixed.items()]
        # Values that depend on held parameters carry no information and are only named.
        loose = [n for n in self.values if self.held and n not in (*self.names, *self.derived, *self.fixed)]
        if loose:
            lines.append(f"  not known by themselves: {', '.join((*loose, *self.held))}")
        if self.identifiable and self.identifiability is not None and not self.identifiability.complete:
            lines.append("  identifiable: " + ", ".join(self.identifiable))
        lines += [f"  if unseen: {fault}" for fault in self.leverage[:SHOWN]]
        if len(self.leverage) > SHOWN:
            rest = self.leverage[SHOWN:]
            moved = ", ".join(dict.fromkeys(fault.name for fault in rest))
            lines.append(
                f"  if unseen: {len(rest)} more faults would move {moved} by at most "
                f"{two_digits(rest[0].errors)} standard errors (.leverage lists them)"
            )
        lines += [f"  warning: {text}" for text in self.warnings]
        return "\n".join(lines)

    def to_csv(self, path: str | os.PathLike[str], level: float = 0.95) -> None:
        """Write the table of parameters to a csv file.

        Numbers are written in full precision.
        """
        write_table(self.table(level), path, index=True)

    def to_arviz(self, draws: int = 2000, seed: int = 0) -> Any:
        """Return draws of the estimate as ArviZ InferenceData.

        They are draws of the Gaussian approximation, or `draws` of the estimate where bounds made them.
        `kapitza.posterior` samples the posterior itself. It needs the extra ``kapitza[bayes]``.
        """
        from kapitza.estimate.bayes import bayes_packages

        arviz, _ = bayes_packages()
        if not np.isfinite(self.covariance).all():
            raise KapitzaError("Some parameters are not determined by these data: there are no draws of them.")
        centre = np.array([self.values[name] for name in self.names])
        random = np.random.default_rng(seed)
        drawn = self.draws if self.draws is not None else random.multivariate_normal(centre, self.covariance, draws)
        return arviz.from_dict({name: drawn[None, :, i] for i, name in enumerate(self.names)})

    def report(self, path: str | Path) -> Any:
        from kapitza.report import write_report

        return write_report(self, path)

    def plot(self, **settings: Anything) -> Any:
        from kapitza.report import plot_estimate

        return plot_estimate(self, **settings)


def _ends_table(ends: Mapping[str, tuple[float, float]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame.from_dict(dict(ends), orient="index", columns=["low", "high"])
