"""Trials of an estimator on records with a known truth: noise, far starts, scores against the Cramér-Rao bound."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

import kapitza as kz

Array = NDArray[np.float64]

LORENZ = ("sigma", "rho", "beta")


def lorenz_record() -> kz.Record:
    """3000 samples at 0.01 on the attractor, without noise."""
    run = kz.simulate(kz.library.lorenz(), x0=[1, 1, 1], t=np.arange(4000) * 0.01)
    return kz.Record.from_arrays(np.arange(3000) * 0.01, {c: run[c][1000:] for c in run.channels})


def with_noise(clean: kz.Record, noise: Mapping[str, float], seed: int) -> kz.Record:
    """The channels named in `noise` with Gaussian noise of these standard deviations; angles, period, phase kept."""
    rng = np.random.default_rng(seed)
    angle = dict(zip(clean.channels, clean.angles, strict=True))
    return kz.Record.from_arrays(
        clean.time,
        {c: clean[c] + deviation * rng.normal(size=clean.size) for c, deviation in noise.items()},
        angles=[c for c in noise if angle[c]],
        period=clean.period,
        phase=clean.dataset.attrs.get("phase"),
    )


def far_start(model: kz.Model, free: Sequence[str], spread: float, seed: int) -> kz.Model:
    """Every free parameter off by a factor drawn from [1 - spread, 1 + spread]."""
    factors = 1 + np.random.default_rng(1000 + seed).uniform(-spread, spread, len(free))
    return model.with_values(**{name: model.values[name] * f for name, f in zip(free, factors, strict=True)})


@dataclass
class Trials:
    """Errors (R, k), standard errors (R, k) and hits of the intervals of runs that ended well; seconds of all runs.

    Processor seconds are what a fit costs on an idle machine (it runs on one core); wall seconds are as seen.
    """

    free: tuple[str, ...]
    runs: int = 0
    errors: list[Array] = field(default_factory=list)
    deviations: list[Array] = field(default_factory=list)
    inside: list[NDArray[np.bool_]] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def add(self, truth: kz.Model, start: kz.Model, record: kz.Record, method: kz.ShootingFit) -> None:
        self.runs += 1
        begin, used = time.perf_counter(), time.process_time()
        try:
            fit = kz.identify(start, record, self.free, method)
        except kz.KapitzaError as error:
            self.failures.append(str(error).split(". ")[0])
            return
        finally:
            self.wall.append(time.perf_counter() - begin)
            self.processor.append(time.process_time() - used)
        true = np.array([truth.values[name] for name in self.free])
        interval = fit.interval(0.9)
        self.errors.append(np.array([fit.values[name] for name in self.free]) - true)
        self.deviations.append(np.array(list(fit.deviations.values())))
        self.inside.append(((interval["low"] <= true) & (true <= interval["high"])).to_numpy())

    def reached(self, bound: Array) -> int:
        """Runs whose every error is below six standard deviations of the Cramér-Rao bound."""
        limit = 6 * np.sqrt(np.diag(bound))
        return int(sum((np.abs(error) < limit).all() for error in self.errors))

    def against(self, bound: Array) -> float:
        """Largest ratio, over all combinations of parameters, of the variance seen (about the truth) to the bound.

        The largest eigenvalue of bound⁻¹ C with C the mean of e eᵀ over runs that reached the truth.
        """
        limit = 6 * np.sqrt(np.diag(bound))
        errors = np.array([error for error in self.errors if (np.abs(error) < limit).all()])
        root = np.linalg.cholesky(bound)
        white = np.linalg.solve(root, errors.T)
        return float(np.linalg.eigvalsh(white @ white.T / errors.shape[0]).max())

    def coverage(self) -> Array:
        """Fraction (k,) of all runs whose 90 % interval holds the truth; a failed run holds nothing."""
        return np.sum(self.inside, axis=0) / self.runs
