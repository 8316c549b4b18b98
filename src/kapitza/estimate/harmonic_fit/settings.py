"""Settings of the harmonic and weak forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from kapitza.base import checks
from kapitza.base.argument_checks import Anything, Count, NotNegative, Seed, Share
from kapitza.base.cures import Give
from kapitza.data import FITTED, Noise, Record
from kapitza.errors import KapitzaError
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.harmonic_fit.balance import fit_balance
from kapitza.estimate.harmonic_fit.weak_fit import fit_weak
from kapitza.estimate.method import Accepts, Estimator
from kapitza.estimate.request import Request
from kapitza.orbits import OrbitSet

CHOICES = {
    "test": ("windows", "harmonics"),
    "solver": ("weighted", "least squares", "robust", "total", "instruments", "exclusion"),
    "derivatives": ("local polynomial", "five-point", "spline", "series"),
    "nonlinear": ("refuse", "separate"),
    "harmonics": ("below drive", "informative"),
}


@dataclass(frozen=True)
class HarmonicFit(Estimator):
    """Fit the equations of motion themselves.

    The fit needs no starting values and no integration.

    Every coordinate must be measured. The equations, linear in the free parameters, are integrated against test
    functions, which leaves a linear system for them. Priors count as further samples.

    Parameters
    ----------
    test : str
        "windows" (bumps of compact support on the whole record: nothing is assumed periodic), or "harmonics" (cosines
        and sines over each orbit of an OrbitSet: inverse harmonic balance, HARMONIC 17-22).
    width : float, optional
        Length of a test function [s]; two excitation periods, or two typical oscillations, when left out.
    overlap, modulation : int
        Windows that overlap at each instant; harmonics that multiply the bump.
    derivatives : str
        How rates are formed: "local polynomial" (Savitzky-Golay), "five-point" (HARMONIC 28, 29), "spline", or
        "series" (Fourier series with rotation, harmonics only).
    half_width, degree : int, optional
        Of the local polynomial, in samples; the half width follows from where the spectrum drops into the noise.
    solver : str
        "weighted" (by the covariance that the noise gives the rows), "least squares", "robust" (Huber), "total"
        (errors in variables), "instruments" (regressors from odd samples against even ones), "exclusion" (the
        document's: sub-harmonics with the largest residues are dropped, share β, until ε < error_limit).
    harmonics : str or float
        Sub-harmonics used per orbit: "below drive" (up to the driving frequency), "informative" (above the noise
        floor), or a largest order in units of the drive.
    low_pass : float, optional
        Cut-off of every factor of a product, as a fraction of the sampling frequency (None: no filter).
    share, error_limit : float
        Of the exclusion.
    outputs : mapping
        What a channel measures where it is neither a coordinate nor an output of the model, linear in the coordinates:
        ``{"theta2": "phi2 - phi1"}``.
    noise : float or mapping, optional
        Standard deviation for all channels or by channel (0: exact), when the record does not carry it; otherwise it is
        estimated from the spectrum.
    correct_bias : bool
        Subtract the mean that noise adds to curved regressors.
    nonlinear : str
        Treatment of parameters that do not enter linearly. "separate" (the default with test="windows"): where
        they enter in products and powers (m*l**2), all are found together from many starts; otherwise they are iterated
        on from the model's values with the linear ones eliminated. "refuse": name the term and stop.
    seed : int
        Of resampling and of simulated noise.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> truth = kz.library.lorenz()
    >>> record = kz.measure(kz.simulate(truth, x0=[1, 1, 20], t=np.arange(3000) * 0.01), noise=0.05, seed=1)
    >>> unknown = truth.with_values(sigma=float("nan"), rho=float("nan"), beta=float("nan"))
    >>> fit = kz.identify(unknown, record, method=kz.HarmonicFit())
    >>> {name: round(value) for name, value in fit.values.items()}
    {'sigma': 10, 'rho': 28, 'beta': 3}
    """

    accepts: ClassVar[Accepts] = Accepts(
        sources=(Record, OrbitSet),
        alone=(OrbitSet,),
        known=tuple(error.name for error in FITTED if error.linear and not error.delays),
        by_parts=True,
        likelihood="gaussian",
    )

    test: str = "windows"
    width: float | None = None
    overlap: int = 4
    modulation: int = 1
    derivatives: str = "local polynomial"
    half_width: Count | None = None
    degree: Count = 9
    solver: str = "weighted"
    harmonics: str | float = "below drive"
    low_pass: float | None = 0.2
    share: Share = 0.05
    error_limit: NotNegative = 0.1
    outputs: Mapping[str, Anything] = field(default_factory=dict)
    noise: Noise = None
    correct_bias: bool = True
    nonlinear: str | None = None
    seed: Seed = 0

    def __post_init__(self):
        checks.seed(self.seed)
        for setting, known in CHOICES.items():
            value = getattr(self, setting)
            if isinstance(value, str) or setting in ("test", "solver", "derivatives"):
                checks.choice(setting, value, known)
        if self.width is not None:
            checks.number("width, in seconds,", self.width, above=0)
        checks.whole("overlap, in windows,", self.overlap, least=2)
        checks.whole("modulation, in harmonics,", self.modulation, least=0)
        if not isinstance(self.harmonics, str):
            checks.number("harmonics, in units of the drive,", self.harmonics, above=0)
        if self.test == "windows" and self.derivatives == "series":
            raise KapitzaError(
                f"{Give(derivatives='series')} needs periodic data: pass {Give(test='harmonics')} with an OrbitSet."
            )
        if self.test == "harmonics" and self.nonlinear == "separate":
            raise KapitzaError(
                f"{Give(nonlinear='separate')} works with {Give(test='windows')}, on orbits too: leave test out."
            )
        if self.test == "windows" and self.solver == "exclusion":
            raise KapitzaError(
                f"{Give(solver='exclusion')} drops sub-harmonics: it needs {Give(test='harmonics')} with an OrbitSet."
            )

    def fit(self, request: Request) -> Estimate:
        """Estimate the free parameters from records or orbits."""
        request.require_free()
        return (fit_weak if self.test == "windows" else fit_balance)(self, request)
