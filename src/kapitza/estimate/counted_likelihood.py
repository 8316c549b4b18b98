"""Likelihood of a motion under the noise of sensors and measured drives.

It is that which `counted_noise` maximises: profiles and posteriors of such a fit run it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from kapitza.base.arrays import Array
from kapitza.errors import KapitzaError
from kapitza.estimate.counted_noise import BOTH, LONGEST
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.missing import Cuts, Weighted, Window, begin_states, filtered_window, rows_of
from kapitza.estimate.priors import priors_of
from kapitza.estimate.result import workings_of
from kapitza.estimate.shooting_fit import MotionWorkings
from kapitza.flow import Flow

ITERATIONS, SETTLED = 12, 0.01
"""Most steps of the other parameters of a profile, and the step, in standard errors, that ends them."""


def counts_drives(estimate: Estimate) -> bool:
    """Return whether the estimate is the most likely one under both noises."""
    motion, misfit = estimate.motion, estimate.misfit
    return motion is not None and bool(motion.drive_noise) and misfit is not None and misfit.noise == BOTH


@dataclass(frozen=True)
class _Stretch:
    """A window with its state at the begin, which follows the parameters.

    state (n,), vector (npar,), times (N,), measured (N, c), weight (N, c). white: the filtered window; basis (R, n):
    of the filtered columns of the initial state (any sign: Q Qᵀ); moved (n, k): its response to the parameters.
    """

    window: Window
    white: Window
    state: Array
    vector: Array
    times: Array
    measured: Array
    weight: Array
    basis: Array
    moved: Array


class CountedLikelihood:
    """-2 log likelihood of parameters, the noise of the drives and the initial states eliminated.

    Σ rᵀ C⁻¹ r over the windows of the fit, with C that at the estimate; initial states follow by one linear step from
    their response to the parameters. The score that the fit adds for the noise in its sensitivities is added here too,
    so that the minimum is at the estimate.
    """

    def __init__(self, estimate: Estimate):
        motion, self.names = estimate.motion, estimate.names
        assert motion is not None
        self.centre = np.array([estimate.values[n] for n in self.names])
        self.priors = priors_of(estimate.model, self.names)
        task = workings_of(estimate, MotionWorkings).task
        self.sight, samples = task.observation, task.problem.samples
        self.places = [estimate.model.names.index(n) for n in self.names]
        windows = rows_of(estimate, (), (), self.names, motion.drive_noise or {}, Cuts(LONGEST))
        white = [filtered_window(window) for window in windows]
        rows = Weighted.of(white, self.priors.weight, self.priors.pull(self.centre))
        self.covariance = rows.covariance
        self.score = -(rows.products.whole[: len(self.names), -1] - self.priors.pull(self.centre))
        number = np.unique(samples.record, return_inverse=True)[1]
        noise = [[sizes.get(c, 1.0) for c in self.sight.channels] for sizes in motion.noise_by_record]
        self.stretches = []
        for window, filtered, (state, vector) in zip(windows, white, begin_states(estimate, windows), strict=True):
            part = slice(window.begin, window.begin + len(window.residual))
            initial, free = (columns.reshape(-1, columns.shape[2]) for columns in (filtered.initial, filtered.free))
            towards = np.linalg.pinv(initial)
            self.stretches.append(_Stretch(
                window=replace(window, terms=window.terms[..., :0]),
                white=filtered,
                state=state + towards @ filtered.residual.ravel(),
                vector=vector,
                times=samples.time[part],
                measured=samples.values[part],
                weight=np.where(window.lost, 0.0, 1.0 / np.array(noise)[number[part]]),
                basis=linalg.orth(initial),  # any sign: Q Qᵀ
                moved=-towards @ free,
            ))  # fmt: skip
        self.flow = Flow(estimate.model, tolerance=1e-11)
        self.lowest = float(self.costs(self.centre[None])[0])

    def residuals(self, stretch: _Stretch, theta: Array) -> Array:
        """Return the residuals (R, B) of parameters (B, k), filtered and without those of initial states."""
        count, channels = stretch.measured.shape
        off = theta - self.centre
        vectors = np.tile(stretch.vector, (len(theta), 1))
        vectors[:, self.places] = theta
        runs = self.flow.paths(
            stretch.state + off @ stretch.moved.T, np.tile(stretch.times, (len(theta), 1)), vectors, refuse=False
        )
        flat, at = runs.reshape(-1, runs.shape[2]), np.tile(stretch.times, len(theta))
        value = self.sight.value(flat, at, np.repeat(vectors, count, axis=0))
        gap = -self.sight.residual(value, np.tile(stretch.measured, (len(theta), 1)))
        gap = np.moveaxis(gap.reshape(len(theta), count, channels), 0, 2) * stretch.weight[..., None]
        # A motion that leaves the finite numbers has no likelihood.
        failed = ~np.isfinite(gap).all(axis=(0, 1))
        made = filtered_window(replace(stretch.window, free=np.where(failed, 0.0, gap))).free
        made = made.reshape(-1, len(theta))
        return np.where(failed, np.inf, made - stretch.basis @ (stretch.basis.T @ made))

    def costs(self, theta: Array) -> Array:
        """Return -2 log p (B,) of parameters (B, k), up to a constant."""
        total = (self.priors.weight * (theta - self.priors.mean) ** 2).sum(axis=1)
        total = total - 2 * (theta - self.centre) @ self.score
        return total + sum((self.residuals(stretch, theta) ** 2).sum(axis=0) for stretch in self.stretches)

    def __call__(self, theta: Array) -> Array:
        """Return log p (B,) of parameters (B, k)."""
        return -0.5 * self.costs(theta)

    def downhill(self, theta: Array) -> Array:
        """Return the score (k,) at theta (k,), with the sensitivities of the estimate."""
        pulls = [
            stretch.white.free.reshape(-1, theta.size).T @ self.residuals(stretch, theta[None])[:, 0]
            for stretch in self.stretches
        ]
        return np.asarray(sum(pulls) - self.priors.pull(theta) + self.score, np.float64)


class CountedProfile:
    """Profile over one parameter, the others at their best."""

    def __init__(self, estimate: Estimate, name: str):
        self.likelihood, self.place = CountedLikelihood(estimate), estimate.names.index(name)
        self.name, plain = name, float(self.likelihood.covariance[self.place, self.place])
        self.width, self.theta = float(np.sqrt(plain)), self.likelihood.centre
        self.widening = max(estimate.deviations[name] ** 2 / plain, 1.0)

    def rise(self, value: float) -> float:
        likelihood, others = self.likelihood, np.arange(self.theta.size) != self.place
        # From the best point of the last value, along the ridge of the Gaussian.
        ridge = likelihood.covariance[:, self.place] / self.width**2
        theta = self.theta + ridge * (value - self.theta[self.place])
        information = np.linalg.pinv(likelihood.covariance, hermitian=True)[np.ix_(others, others)]
        spread = np.linalg.pinv(information, hermitian=True)
        for _ in range(ITERATIONS):
            step = spread @ likelihood.downhill(theta)[others]
            if not np.isfinite(step).all():
                raise KapitzaError(f"The profile of {self.name} could not be followed to {value:.6g}.")
            theta[others] += step
            if (np.abs(step) <= SETTLED * np.sqrt(np.diag(spread))).all():
                break
        self.theta = theta
        return float(likelihood.costs(theta[None])[0]) - likelihood.lowest
