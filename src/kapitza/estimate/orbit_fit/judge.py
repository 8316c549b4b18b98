"""Outcome of an orbit fit, its misfit and warnings.

Whether the minimum is accepted, how well it follows the data, and what is suspicious.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from scipy import special

from kapitza.base.arrays import Array
from kapitza.base.cures import By, Give
from kapitza.estimate.identifiability import Identifiability
from kapitza.estimate.judge import NOT_WHITE, doubtful_parameters, whiteness
from kapitza.estimate.misfit import Misfit, floor_of, structure, worst
from kapitza.estimate.orbit_fit.matching import multiplier_mismatch
from kapitza.estimate.orbit_fit.problem import OrbitProblem, Target
from kapitza.estimate.orbit_fit.solver import OUTLYING, Extra, OrbitSolution
from kapitza.estimate.orbit_fit.task import OrbitTask
from kapitza.estimate.priors import surprising_priors
from kapitza.orbits import PeriodicOrbit

LARGEST_CHI2 = 25.0
"""Largest χ² per degree of freedom of an accepted minimum; false ones have 1e2 (coarse data) to 1e8 (precise data)."""

CLOSE_ENOUGH = 3e-3
"""Root mean square residual, in units of the spread, below which a minimum is accepted whatever its χ²."""

LEAST_MATCHED = 2 / 3
"""Smallest share of the orbits that an accepted minimum explains; some orbits found in noisy data are spurious."""

CONVINCING = 4.0
"""χ² per degree of freedom, with at least six of them, at which half of the orbits are enough."""

LARGEST_MISFIT = 0.3
"""Residuals in units of the spread where the noise is not known: beyond it the orbits do not resemble the data."""

LARGEST_PATTERN = 0.1
"""The same where the residuals are not white: then they come from the model, not from the noise."""

SURE = 3
"""Degrees of freedom below which χ² hardly distinguishes two minima."""

PLENTY = 10
"""Degrees of freedom from which a false minimum is not expected to be accepted."""

SUSPECT = 0.05
"""Probability of a larger χ² below which other minima are searched, with fewer than PLENTY degrees of freedom."""

FOUND = 2.0
"""Largest ratio of true to stated variance of orbits found in a record: few visits determine their covariance."""


@dataclass(frozen=True)
class Outcome:
    """Fit from one start.

    matched: indices of the matched orbits; reasons: why others were set aside.
    inflation: factor on the variances of each matched orbit; without_multipliers: covariance before they were added.
    returned: orbits that had been lost and were put back. begun: how the fit was started. alternatives: other
    parameters that fit as well. resembling: no start led to an accepted minimum, and this one resembles the data.
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
    resembling: bool = False

    @property
    def chi2(self) -> float:
        return sum(float((r.residual**2).sum()) for r in self.solution.reduced)

    @property
    def objective(self) -> float:
        """Return the minimised function.

        It is χ² plus the squared distances from the priors, in their deviations.
        """
        return self.chi2 + 2 * self.problem.priors.cost(self.solution.theta)

    @property
    def count(self) -> int:
        return sum(r.residual.size for r in self.solution.reduced)

    @property
    def freedom(self) -> int:
        """Return the degrees of freedom.

        They are samples (and priors) less parameters, and less phase and period of free motions.
        """
        free = sum(block.free for block in self.solution.blocks)
        informed = int((self.problem.priors.weight > 0).sum())
        return self.count + informed - self.solution.theta.size - free

    @property
    def dof(self) -> int:
        return max(self.freedom, 1)

    @property
    def misfit(self) -> float:
        """Root mean square residual, in spreads.

        The unit is each channel's spread.
        """
        return float(np.sqrt(np.mean(np.concatenate(self.problem.misfits(self.solution.blocks)) ** 2)))

    @property
    def merit(self) -> float:
        """Rank of a minimum, smaller is better.

        Unmatched orbits count as residuals of one spread.
        """
        lost = len(self.reasons) / max(len(self.reasons) + len(self.matched), 1)
        # Converged minima come before others, accepted ones before all.
        return (self.misfit + lost) * (1.0 if self.solution.status.ok else 1e3) if not self.accepted else -1.0


def acceptable(task: OrbitTask, outcome: Outcome) -> bool:
    """Return whether a minimum is accepted.

    χ² decides or, with unknown noise, the residuals relative to the spread of the data.
    """
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
    # Correlated residuals are a wrong model, which must be closer to the data than pure noise has to be.
    limit = LARGEST_PATTERN if residual_pattern(outcome) else LARGEST_MISFIT
    return share >= LEAST_MATCHED and outcome.misfit <= limit


def resembles(task: OrbitTask, outcome: Outcome) -> bool:
    """Return whether the model's orbits resemble the measured ones.

    They differ by more than all their errors: such a minimum is reported together with its misfit.
    """
    share = len(outcome.matched) / len(task.problem.targets)
    return outcome.solution.status.ok and share >= LEAST_MATCHED and outcome.misfit <= LARGEST_PATTERN


def decided(task: OrbitTask, outcome: Outcome) -> bool:
    """Return whether an accepted minimum needs no other starts."""
    from scipy import stats

    if not task.noise_known or outcome.freedom >= PLENTY:
        return True
    return outcome.freedom >= SURE and float(stats.chi2.sf(outcome.chi2, outcome.freedom)) > SUSPECT


def sampled_residuals(outcome: Outcome, channel: int) -> list[Array]:
    """Return the residuals of one channel, in time order.

    Only orbits that are sampled densely are listed.
    """
    problem, parts = outcome.problem, []
    for target, residual in zip(problem.targets, problem.readings(outcome.solution.blocks), strict=True):
        mine = np.flatnonzero(target.channel == channel)
        # Section points are too few to show a correlation in time.
        if target.times.size > 2 * target.count and mine.size >= 8:
            parts.append(residual[mine][np.argsort(target.times[mine], kind="stable")])
    return parts


def residual_pattern(outcome: Outcome) -> dict[str, float]:
    """Return channels with correlated residuals, and their p-values.

    The motions must be sampled. Only a positive correlation of lag one counts, because a model that does not follow
    the data makes it.
    """
    found: dict[str, float] = {}
    for channel, name in enumerate(outcome.problem.channels.names):
        parts = sampled_residuals(outcome, channel)
        if not parts:
            continue
        rest = np.concatenate(parts)
        joined = np.concatenate([np.arange(part.size) < part.size - 1 for part in parts])
        if float(rest @ rest) > 1e-18 * rest.size * outcome.problem.channel_scale[channel] ** 2:
            chance, correlation = whiteness(rest, joined, rest.size, lags=1)
            if chance < NOT_WHITE and correlation > 0:
                found[name] = chance
    return found


def misfit_of(task: OrbitTask, outcome: Outcome) -> Misfit | None:
    """Return the misfit of the orbits.

    χ² relative to the covariances where these are known, correlated residuals of sampled motions where they are not.
    """
    if not outcome.freedom > 0:
        return None
    return _stated(outcome) if task.noise_known else _sampled(outcome)


def _stated(outcome: Outcome) -> Misfit:
    """Return the misfit relative to the orbits' errors."""
    found = any(_was_found(target) for target in outcome.problem.targets)
    scatter = outcome.chi2 / outcome.dof
    # Covariances estimated from few visits are themselves uncertain.
    chance = float(special.chdtrc(outcome.dof, outcome.chi2 / (FOUND if found else 1.0)))
    beyond = np.sqrt(max(scatter - 1.0, 0.0))
    share = outcome.misfit * beyond / np.sqrt(max(scatter, 1e-300))
    per_orbit = [float((r.residual**2).mean()) for r in outcome.solution.reduced]
    loudest = int(np.argmax(per_orbit))
    where = f"orbit {outcome.problem.targets[loudest].label}" if len(per_orbit) > 1 else ""
    noise = "the errors of the orbits" if found else "the noise stated"
    return Misfit(float(beyond), float(share), chance, "the orbits", where, noise)


def _was_found(target: Target) -> bool:
    source = target.source
    return isinstance(source, PeriodicOrbit) and (source.influence is not None or bool(source.visits))


def _sampled(outcome: Outcome) -> Misfit | None:
    """Return the misfit relative to the residuals' white part.

    The motions must be sampled.
    """
    patterns, judged = residual_pattern(outcome), []
    channels = outcome.problem.channels.names
    for c, channel in enumerate(channels):
        left = np.concatenate(sampled_residuals(outcome, c) or [np.empty(0)])
        scale = float(outcome.problem.channel_scale[c])
        if left.size < 16 or float(left @ left) <= 1e-18 * left.size * scale**2:
            continue
        # Residuals of a fit with few samples per parameter are correlated by the fit itself.
        chance = min(1.0, 2 * structure(left))
        if channel in patterns:
            chance = min(chance, patterns[channel])
        floor = floor_of(left)
        beyond = np.sqrt(max(float(np.mean(left**2)) - floor**2, 0.0))
        where = f'"{channel}"' if len(channels) > 1 else ""
        size = beyond / max(floor, 1e-300)
        judged.append(Misfit(size, beyond / scale, chance, "the orbits", where, "scatter of the samples"))
    return worst(judged)


def post_mortem(task: OrbitTask, outcome: Outcome) -> str:
    total, status = len(task.problem.targets), outcome.solution.status
    how = "" if status.ok else f" ({status.value})"
    text = (
        f"{By('orbits')} found no set of {', '.join(task.names)} at which the model has the measured "
        f"orbits{how}: the best of {outcome.tried} starts matches {len(outcome.matched)} of {total} orbits with χ² = "
        f"{outcome.chi2:.3g} for {outcome.dof} degrees of freedom and residuals of {100 * outcome.misfit:.2g} % of "
        "their spread. "
    )
    # The matched orbits agree well: then those not matched are more suspect than the model.
    if status.ok and outcome.reasons and outcome.chi2 <= CONVINCING * outcome.dof:
        place = ", ".join(f"{n} = {v:.6g}" for n, v in zip(task.names, outcome.solution.theta, strict=True))
        gone = "; ".join(task.problem.targets[i].label for i in outcome.reasons)
        return text + f"Those matched agree within their errors at {place}: check the orbits not matched ({gone})."
    known = outcome.problem.priors
    priors = " and ".join(
        f"the prior of {task.names[i]} ({known.mean[i]:.6g} ± {known.weight[i] ** -0.5:.2g})"
        for i in np.flatnonzero(known.weight)
    )
    what = f"the model, the fixed parameters and {priors}" if priors else "the model and the fixed parameters"
    return text + f"Check {what}, start nearer, or raise restarts."


def warnings_of(
    task: OrbitTask, outcome: Outcome, known: Identifiability, covariance: Array, misfit: Misfit | None
) -> Iterator[str]:
    if not known.complete:
        yield known.message()
    yield from _about_parameters(task, outcome, covariance)
    yield from _about_orbits(task, outcome)
    if misfit is not None:
        yield from misfit.warnings()
    yield from _about_the_minimum(task, outcome)


def _about_parameters(task: OrbitTask, outcome: Outcome, covariance: Array) -> Iterator[str]:
    solution = outcome.solution
    yield from doubtful_parameters(task.request, solution.theta, covariance, solution.at_bound)
    for i, name in enumerate(task.names):
        if task.model.parameter(name).prior is not None and not task.problem.priors.weight[i]:
            yield f'the prior of {name} was not used: {Give(estimator="auto")} or "bayes" uses it.'
    if task.problem.priors.weight.any():
        yield from surprising_priors(task.model, task.names, solution.theta, covariance, solution.at_bound)


def _about_orbits(task: OrbitTask, outcome: Outcome) -> Iterator[str]:
    for index, reason in outcome.reasons.items():
        yield f"orbit {task.problem.targets[index].label} was not matched: {reason}."
    for i, index in enumerate(outcome.matched):
        target = task.problem.targets[index]
        _, text = multiplier_mismatch(target, outcome.solution.blocks[i])
        if text:
            yield f"orbit {target.label} is matched, but its multipliers are not: {text}."
    total = len(task.problem.targets)
    if len(outcome.matched) < LEAST_MATCHED * total:
        yield f"only {len(outcome.matched)} of {total} orbits are matched; the estimate depends on those alone."
    loud = outcome.inflation > 10
    if loud.any():
        yield (
            f"{int(loud.sum())} of {loud.size} orbits fit worse than their covariance allows and count less; see "
            "fit.matches.table."
        )


def _about_the_minimum(task: OrbitTask, outcome: Outcome) -> Iterator[str]:
    if outcome.resembling:
        yield (
            f"the model does not have the measured orbits within their errors: the best of {outcome.tried} starts "
            f"follows {len(outcome.matched)} of {len(task.problem.targets)} of them to {100 * outcome.misfit:.2g} % of "
            "their spread. The intervals are widened by the residuals; an error that all orbits share is not in them. "
            "A term is missing, or a fixed parameter is off."
        )
    elif outcome.attempts > 1:
        yield f"the given start led to a false minimum; start number {outcome.attempts} ({outcome.begun}) led here."
    for other in outcome.alternatives:
        place = ", ".join(f"{name} = {value:.6g}" for name, value in zip(task.names, other, strict=True))
        yield f"{place} explains the data as well: add an orbit, a profile or a prior to decide."
    if outcome.freedom < SURE:
        yield (
            f"{outcome.count} samples for {len(task.names)} parameters leave {max(outcome.freedom, 0)} degrees of "
            "freedom: χ² cannot show whether the model is right."
        )
