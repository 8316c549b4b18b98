"""A fit from one start, and whether its minimum is believed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from kapitza.estimate.judge import NOT_WHITE, whiteness
from kapitza.estimate.orbits.problem import OrbitProblem
from kapitza.estimate.orbits.solver import OUTLYING, Extra, OrbitSolution
from kapitza.estimate.orbits.task import OrbitTask

Array = NDArray[np.float64]

LARGEST_CHI2 = 25.0
"""χ² per degree of freedom of a believable minimum; false minima lie at 1e2 (coarse data) to 1e8 (precise data)."""

CLOSE_ENOUGH = 3e-3
"""Root mean square residual, in units of the spread, below which a minimum is believed whatever its χ²."""

LEAST_MATCHED = 2 / 3
"""Share of the orbits that a believable minimum explains; some of those found in noisy data are always spurious."""

CONVINCING = 4.0
"""χ² per degree of freedom, with at least six of them, at which half of the orbits are enough."""

LARGEST_MISFIT = 0.3
"""Residuals in units of the spread where the noise is not known: beyond it the orbits do not resemble the data."""

LARGEST_PATTERN = 0.1
"""The same where the residuals are not white: it is then the model, not the noise."""

SURE = 3
"""Degrees of freedom below which χ² hardly tells one minimum from another."""

PLENTY = 10
"""Degrees of freedom at which a false minimum that passes for a believable one is not to be expected."""

SUSPECT = 0.05
"""Probability of a larger χ² below which, with fewer degrees of freedom than that, other minima are looked for."""


@dataclass(frozen=True)
class Outcome:
    """A fit from one start. matched: indices of the matched orbits; reasons: why others were set aside.

    inflation: factor on the variances of each matched orbit; without_multipliers: covariance before they were added.
    returned: orbits that had been lost and were put back. begun: how the fit was started. alternatives: other
    parameters that fit as well.
    """

    problem: OrbitProblem
    solution: OrbitSolution
    deviations: Array
    matched: tuple[int, ...]
    reasons: Mapping[int, str]
    inflation: Array
    without_multipliers: Array
    extra: Extra | None = None
    accepted: bool = False
    attempts: int = 1
    tried: int = 1
    begun: str = "the given values"
    returned: tuple[int, ...] = ()
    alternatives: tuple[Array, ...] = ()

    @property
    def chi2(self) -> float:
        return sum(float((r.residual**2).sum()) for r in self.solution.reduced)

    @property
    def objective(self) -> float:
        """What was minimised: χ² and the squared distances from the priors, in their deviations."""
        prior = self.problem.prior_weight * (self.solution.theta - self.problem.prior_mean) ** 2
        return self.chi2 + float(prior.sum())

    @property
    def count(self) -> int:
        return sum(r.residual.size for r in self.solution.reduced)

    @property
    def freedom(self) -> int:
        """Degrees of freedom: readings (and priors) less parameters, and less phase and period of free motions."""
        free = sum(block.free for block in self.solution.blocks)
        informed = int((self.problem.prior_weight > 0).sum())
        return self.count + informed - self.solution.theta.size - free

    @property
    def dof(self) -> int:
        return max(self.freedom, 1)

    @property
    def misfit(self) -> float:
        """Root mean square residual in units of each channel's spread."""
        parts = [
            b.residual[: t.times.size] / self.problem.channel_scale[t.channel]
            for b, t in zip(self.solution.blocks, self.problem.targets, strict=True)
        ]
        return float(np.sqrt(np.mean(np.concatenate(parts) ** 2)))

    @property
    def merit(self) -> float:
        """For the choice between minima: unmatched orbits count as fitting not at all."""
        lost = len(self.reasons) / max(len(self.reasons) + len(self.matched), 1)
        return (self.misfit + lost) * (1.0 if self.solution.status.ok else 1e3) if not self.accepted else -1.0


def acceptable(task: OrbitTask, outcome: Outcome) -> bool:
    """Whether χ² (or, with unknown noise, the residuals beside the spread of the data) speaks for this minimum."""
    total, good = len(task.problem.targets), outcome.inflation <= OUTLYING
    if not outcome.solution.status.ok:
        return False
    share = good.sum() / total
    if task.noise_known:
        parts = [float((r.residual**2).sum()) for r in outcome.solution.reduced]
        plain = float((np.array(parts) * outcome.inflation)[good].sum()) / outcome.dof
        convincing = share >= 0.5 and outcome.freedom >= 6 and plain <= CONVINCING
        fits = plain <= LARGEST_CHI2 or outcome.misfit <= CLOSE_ENOUGH
        return fits and (share >= LEAST_MATCHED or convincing)
    limit = LARGEST_PATTERN if residual_pattern(outcome) else LARGEST_MISFIT
    return share >= LEAST_MATCHED and outcome.misfit <= limit


def decided(task: OrbitTask, outcome: Outcome) -> bool:
    """Whether an accepted minimum is the answer without a look at the other starts."""
    if not task.noise_known or outcome.freedom >= PLENTY:
        return True
    return outcome.freedom >= SURE and float(stats.chi2.sf(outcome.chi2, outcome.freedom)) > SUSPECT


@dataclass(frozen=True)
class Pattern:
    """Correlation of neighbouring residuals, and the chance that white noise has as much."""

    correlation: float
    chance: float


def residual_pattern(outcome: Outcome) -> dict[str, Pattern]:
    """Channels of sampled motions whose neighbouring residuals are correlated.

    Only such correlation counts as tells of a model that does not follow: a positive one of lag one.
    """
    found: dict[str, Pattern] = {}
    sampled = [
        (target, block)
        for target, block in zip(outcome.problem.targets, outcome.solution.blocks, strict=True)
        if target.times.size > 2 * target.count
    ]
    for channel, name in enumerate(outcome.problem.sensors.channels):
        parts = []
        for target, block in sampled:
            mine = np.flatnonzero(target.channel == channel)
            if mine.size >= 8:
                parts.append(block.residual[: target.times.size][mine][np.argsort(target.times[mine], kind="stable")])
        if not parts:
            continue
        rest = np.concatenate(parts)
        joined = np.concatenate([np.arange(part.size) < part.size - 1 for part in parts])
        if float(rest @ rest) > 1e-18 * rest.size * outcome.problem.channel_scale[channel] ** 2:
            chance, correlation = whiteness(rest, joined, rest.size, lags=1)
            if chance < NOT_WHITE and correlation > 0:
                found[name] = Pattern(correlation, chance)
    return found


def post_mortem(task: OrbitTask, outcome: Outcome) -> str:
    total, status = len(task.problem.targets), outcome.solution.status
    how = "" if status.ok else f" ({status.value})"
    text = (
        f"OrbitFit found no set of {', '.join(task.names)} at which the model has the measured orbits{how}: the best "
        f"of {outcome.tried} starts matches {len(outcome.matched)} of {total} orbits with χ² = {outcome.chi2:.3g} for "
        f"{outcome.dof} degrees of freedom and residuals of {100 * outcome.misfit:.2g} % of their spread. "
    )
    if status.ok and outcome.reasons and outcome.chi2 <= CONVINCING * outcome.dof:
        place = ", ".join(f"{n} = {v:.6g}" for n, v in zip(task.names, outcome.solution.theta, strict=True))
        gone = "; ".join(task.problem.targets[i].label for i in outcome.reasons)
        return text + f"Those matched agree within their errors at {place}: check the orbits not matched ({gone})."
    used = np.flatnonzero(outcome.problem.prior_weight)
    priors = " and ".join(
        f"the prior of {task.names[i]} ({outcome.problem.prior_mean[i]:.6g} ± "
        f"{outcome.problem.prior_weight[i] ** -0.5:.2g})"
        for i in used
    )
    what = f"the model, the fixed parameters and {priors}" if priors else "the model and the fixed parameters"
    return text + f"Check {what}, start nearer, or raise restarts."
