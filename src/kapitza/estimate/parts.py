"""Parts of an estimate beyond values and covariance.

Each is a small type; an estimate holds those that apply.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kapitza.base.argument_checks import Anything
from kapitza.base.arrays import Array, Flags
from kapitza.base.cures import keep_cures
from kapitza.base.display import Shown
from kapitza.base.lazy_fields import as_computed, deferrable
from kapitza.estimate.misfit import Misfit
from kapitza.orbits import PeriodicOrbit

if TYPE_CHECKING:
    import pandas as pd

    from kapitza.estimate.estimate import Estimate


@dataclass(frozen=True)
class Question:
    """Model, data and settings of a fit.

    model: with the fitted values. data: what was fitted, as `identify` takes it. settings: the method. sensors: what
    the channels measure, as it was given with the method. start: values that the fit began from. fixed: values that
    were held. units: of all parameters.
    """

    model: Anything = None
    data: Anything = None
    settings: Anything = None
    sensors: Mapping[str, Anything] = field(default_factory=dict)
    start: Mapping[str, float] = field(default_factory=dict)
    fixed: Mapping[str, float] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Agreement:
    """Agreement of the model with the data.

    residuals: by output, weighted (so that 1 is one standard deviation) unless the method says otherwise. noise: by
    channel. chi2: sum of the weighted squared residuals, NaN where they have no weights. dof: degrees of freedom of
    the noise estimate, infinite where the noise was known. whiteness: by channel, the probability that white noise is
    as correlated as the residuals. misfit: the verdict.
    """

    residuals: Mapping[str, Array] = field(default_factory=dict)
    noise: Mapping[str, float] = field(default_factory=dict)
    chi2: float = float("nan")
    dof: float = float("inf")
    whiteness: Mapping[str, float] = field(default_factory=dict)
    misfit: Misfit | None = None


@dataclass(frozen=True)
class Course:
    """Course of the fit.

    history: one row per iteration. chain: what method="auto" tried. post_mortem: why a fit failed.
    """

    history: pd.DataFrame | None = deferrable(None)
    chain: tuple[str, ...] = ()
    post_mortem: str = ""

    def __post_init__(self) -> None:
        keep_cures(self, "chain", "post_mortem")

    def __getstate__(self) -> dict[str, Any]:
        # A deferred field holds a lock, which cannot be pickled.
        return as_computed(self)


@dataclass(frozen=True)
class Combined:
    """Fit behind free combinations of parameters.

    base: the estimate of the parameters fitted in their place. held: names of the parameters held.
    """

    base: Estimate | None = None
    held: tuple[str, ...] = ()


@dataclass(frozen=True)
class Likelihood:
    """Log-likelihood log p(samples | estimate).

    readings: number of samples. fitted: number of values fitted to them: parameters, noises, initial states.
    """

    log_likelihood: float
    readings: int
    fitted: int

    @property
    def aic(self) -> float:
        """Akaike's criterion 2k - 2 log L."""
        return 2 * self.fitted - 2 * self.log_likelihood

    @property
    def bic(self) -> float:
        """Schwarz's criterion k log N - 2 log L."""
        return float(self.fitted * np.log(max(self.readings, 1)) - 2 * self.log_likelihood)


@dataclass(frozen=True)
class NoiseAlone:
    """Covariance (k, k) of parameters by noise alone.

    dof: degrees of freedom of the noise estimate. The covariance of the estimate is at least as wide, because it
    includes correlated residuals and pieces that disagree.
    """

    covariance: Array
    dof: float = float("inf")


@dataclass(frozen=True)
class OrbitMatches:
    """Orbits of the data matched by `OrbitFit`.

    table: one row per orbit given: χ² per sample, largest residual, multipliers, or why it is not matched.
    orbits: the model's own, of those matched. unmatched: label and reason of the others. put_back: orbits that had been
    lost on the way. alternatives: other values that explain the data as well. begun: where the accepted fit started;
    attempts: how many starts it took. scatter: χ² per degree of freedom. without_multipliers: covariance (k, k) before
    the multipliers were added.
    """

    table: pd.DataFrame
    orbits: tuple[PeriodicOrbit, ...]
    unmatched: Mapping[str, str]
    put_back: tuple[str, ...]
    alternatives: tuple[Mapping[str, float], ...]
    begun: str
    attempts: int
    scatter: float
    without_multipliers: Array


@dataclass(frozen=True)
class Prediction(Shown):
    """Prediction of samples that were held back.

    The motion of each record is continued from its last fitted state. time (N,) and error (N, c), predicted minus
    measured in standard deviations, of one record after the other; horizon [s]: how long it stays within four standard
    deviations, in the worst record.
    """

    time: Array
    error: Array
    horizon: float


@dataclass(frozen=True)
class FittedMotion:
    """Motion fitted by `ShootingFit`.

    times (J,) [s] and states (J, n): the nodes. sample_times (N,) [s], measured (N, c), predicted (N, c): samples and
    what the sensors should have read, channels in the order of the residuals; piece (N,): number of the uninterrupted
    motion that a sample belongs to. noise_by_record: standard deviation by channel, record by record. process_noise:
    deviation of the kicks by state, None where there are none. prediction: of the samples held back. record (N,):
    number of the record of a sample; read (N, c): False where a channel has no sample or a bad one, not fitted.
    drive_noise: standard deviation of the noise of measured drives that the fit counts, None where they count as exact.
    """

    times: Array
    states: Array
    sample_times: Array
    measured: Array
    predicted: Array
    piece: NDArray[np.int64]
    noise_by_record: tuple[Mapping[str, float], ...]
    process_noise: Mapping[str, float] | None = None
    prediction: Prediction | None = None
    record: NDArray[np.int64] | None = None
    read: Flags | None = None
    drive_noise: Mapping[str, float] | None = None


@dataclass(frozen=True)
class WeakRows:
    """Linear system of the weak form.

    count: number of rows; condition: condition number of its scaled columns. chi2_per_row: mean square of the whitened
    residuals. window: length of a test function [s]; half_width: of the
    derivatives, in samples; derivatives: the rule by which they were formed. loss: ratio of the standard errors to
    the best that the samples allow, a lower bound.
    """

    count: int
    condition: float
    chi2_per_row: float
    window: float
    half_width: int
    derivatives: str
    loss: float = 1.0


@dataclass(frozen=True)
class Exclusion:
    """Exclusion of sub-harmonics from the harmonic balance.

    before, after: identification error; dropped: rows; rounds: of the exclusion. used: (n,) rows that were kept.
    """

    before: float
    after: float
    dropped: int
    rounds: int
    used: Flags


@dataclass(frozen=True)
class HarmonicRows:
    """Linear system of the harmonic balance on orbits.

    residues: by equation (r, 4): predicted value, residue, orbit and sub-harmonic of every row. used: (n,) rows that
    were used, orbit by orbit, equation by equation. identification_error: by equation, largest residue over largest
    value. bootstrap: standard errors from resampled orbits. exclusions: of each set of equations that share parameters.
    """

    condition: float
    derivatives: str
    residues: Mapping[str, Array]
    used: Flags
    identification_error: Mapping[str, float]
    bootstrap: Mapping[str, float] | None = None
    exclusions: tuple[Exclusion, ...] = ()


@dataclass(frozen=True)
class LevelSets:
    """Constancy of the invariant of `InvariantFit` over the data.

    invariant: H as it was fitted, in the states; levels: its value on each level set. noise_factor: τ, variance of the
    noise over the stated one. variance: F3, mean square of H about its levels; distance: F2, sum of squared distances
    from the level sets in standard deviations; NaN where the objective was another. projections: (d, N) nearest points
    on the level sets; unprojected: points without one. windows and power: of the balance. bootstrap: (S, k) estimates
    from resampled points.
    """

    invariant: sp.Expr
    levels: Array = field(default_factory=lambda: np.empty(0))
    noise_factor: float = 0.0
    variance: float = float("nan")
    distance: float = float("nan")
    projections: Array | None = None
    unprojected: int = 0
    windows: int = 0
    power: sp.Expr | None = None
    bootstrap: Array | None = None
