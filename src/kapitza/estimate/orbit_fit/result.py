"""Estimate of an orbit fit.

It holds values, covariance, residuals, details orbit by orbit, and warnings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kapitza.base.angles import wrap_states
from kapitza.base.arrays import Array
from kapitza.errors import Status
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.identifiability import Identifiability
from kapitza.estimate.intervals import draws_at_bounds
from kapitza.estimate.orbit_fit.covariance import robust_covariance, widening_of
from kapitza.estimate.orbit_fit.judge import LARGEST_CHI2, Outcome, misfit_of, post_mortem, warnings_of
from kapitza.estimate.orbit_fit.matching import multiplier_mismatch
from kapitza.estimate.orbit_fit.solver import covariance_of, normal_equations, reduce_block
from kapitza.estimate.orbit_fit.task import OrbitTask, prepare, weights_of
from kapitza.estimate.parts import Likelihood, NoiseAlone, OrbitMatches
from kapitza.estimate.request import Request
from kapitza.estimate.result import make_estimate, workings_of
from kapitza.orbits import OrbitMeasurement, PeriodicOrbit
from kapitza.orbits.of_models import monodromy, symbolic_code

if TYPE_CHECKING:
    import pandas as pd

    from kapitza.estimate.orbit_fit.fit import OrbitFit


@dataclass(frozen=True)
class OrbitWorkings:
    """Task and outcome of the fit.

    Profiles, samples of the posterior and advice start from them.
    """

    task: OrbitTask
    outcome: Outcome


def estimate_of(task: OrbitTask, outcome: Outcome, known: Identifiability, settings: OrbitFit) -> Estimate:
    import pandas as pd
    from scipy import stats

    solution, names = outcome.solution, task.names
    covariance, dof = robust_covariance(task, outcome)
    scatter = outcome.chi2 / outcome.dof
    doubtful = task.noise_known and stats.chi2.sf(outcome.chi2, outcome.dof) < 1e-3
    misfit = misfit_of(task, outcome)
    alone = NoiseAlone(covariance, dof)
    widened = None
    independent = known.complete and not any(t.clustered for t in outcome.problem.targets)
    if independent and (doubtful or not task.noise_known):
        white = not doubtful and (misfit is None or misfit.to_the_noise)
        widened = widening_of(outcome, covariance, dof, white, scatter if doubtful else 1.0)
    if widened is not None:
        covariance, dof = widened.of(covariance), widened.freedom
    elif doubtful:
        covariance = covariance * scatter
    if not known.complete:
        free = np.abs(known.directions).max(axis=1) > 0
        # Parameters in an undetermined direction have no finite variance.
        covariance[free], covariance[:, free] = 0.0, 0.0
        covariance[free, free] = np.inf
    # At a bound the Gaussian interval would extend beyond it.
    cut = draws_within_bounds(task, outcome, covariance)
    draws, covariance = (None, covariance) if cut is None else cut
    return make_estimate(
        task.request,
        f"OrbitFit, {settings.formulation} ({task.estimator}{', multipliers' if settings.multipliers else ''})",
        solution.theta,
        covariance,
        wanted=settings.derived,
        status=_status(outcome, known),
        dof=dof,
        chi2=outcome.chi2,
        noise={} if task.noise_known else dict(
            zip(task.problem.channels.names, outcome.deviations.tolist(), strict=True)
        ),
        residuals=_residuals(outcome),
        warnings=tuple(warnings_of(task, outcome, known, covariance, misfit)),
        misfit=misfit,
        noise_alone=alone,
        identifiability=known,
        history=pd.DataFrame(list(solution.history)),
        draws=draws,
        settings=settings,
        likelihood=_likelihood(task, outcome),
        post_mortem="" if outcome.accepted else post_mortem(task, outcome),
        matches=OrbitMatches(
            table=matches(task, outcome),
            orbits=fitted_orbits(task.request.model_at(solution.theta), outcome),
            unmatched={task.problem.targets[i].label: why for i, why in outcome.reasons.items()},
            put_back=tuple(task.problem.targets[i].label for i in outcome.returned),
            alternatives=tuple(dict(zip(names, v.tolist(), strict=True)) for v in outcome.alternatives),
            begun=outcome.begun,
            attempts=outcome.attempts,
            scatter=scatter,
            without_multipliers=outcome.without_multipliers,
        ),
        workings=OrbitWorkings(task, outcome),
    )  # fmt: skip


def slopes_at(fit: Estimate, request: Request, theta: Array) -> tuple[Array, Array]:
    """Return the slopes (R, k) and residuals (R,) of the matched orbits.

    request: of the fit's model with further parameters; theta (k,): values of all of them.
    """
    outcome = workings_of(fit, OrbitWorkings).outcome
    task = prepare(request, fit.settings)
    problem = task.problem.subset(list(outcome.matched))
    weights = weights_of(task, problem, outcome.deviations, outcome.inflation)
    blocks = problem.evaluate(outcome.solution.unknowns, theta)
    reduced = [reduce_block(block, weight) for block, weight in zip(blocks, weights, strict=True)]
    return np.concatenate([one.slope for one in reduced]), np.concatenate([one.residual for one in reduced])


def draws_within_bounds(task: OrbitTask, outcome: Outcome, covariance: Array) -> tuple[Array, Array] | None:
    """Return draws (S, k) of parameters within bounds, and their covariance; see `draws_at_bounds`.

    The Gaussian is that around the unbounded minimum, cut off at the bounds; None where no bound is active. With F
    the information and g the gradient at the bound, the unbounded minimum of the quadratic is θ - F⁻¹ g. A
    parameter at its bound then has a one-sided interval, and the others are as uncertain as the data leave them
    when it is not known to be there.
    """
    solution = outcome.solution
    if not solution.at_bound.any() or not np.isfinite(covariance).all():
        return None
    inside = ~solution.at_bound
    widening = 1.0
    plain = np.diag(solution.covariance)[inside]
    if inside.any() and (plain > 0).all():
        widening = float((np.diag(covariance)[inside] / plain).mean())
    _, gradient = normal_equations(outcome.problem.priors, solution.theta, solution.reduced)
    full = covariance_of(solution.information)
    if not np.isfinite(full).all():
        return None
    centre = solution.theta - full @ gradient
    return draws_at_bounds(solution.theta, centre, widening * full, task.low, task.high, solution.at_bound)


def _status(outcome: Outcome, known: Identifiability) -> Status:
    status = outcome.solution.status
    # Along an undetermined direction the iteration may not end, which is not a failure to fit.
    if not known.complete and (status.ok or outcome.chi2 <= LARGEST_CHI2 * outcome.dof):
        return Status.SINGULAR
    return status if outcome.accepted or not status.ok else Status.FALSE_MINIMUM


def _likelihood(task: OrbitTask, outcome: Outcome) -> Likelihood:
    """Return log p(samples | θ) at the minimum."""
    total = -0.5 * outcome.chi2 - 0.5 * outcome.count * np.log(2 * np.pi)
    for weight in outcome.solution.weights:
        total += float(np.log(weight).sum()) if weight.ndim == 1 else float(np.linalg.slogdet(weight)[1])
    noises = 0 if task.noise_known else len(task.problem.channels.names)
    return Likelihood(float(total), outcome.count, len(task.names) + noises)


def _residuals(outcome: Outcome) -> dict[str, Array]:
    """Return the weighted residuals by channel.

    They are decorrelated where an orbit has a covariance; multipliers are listed apart.
    """
    problem = outcome.problem
    pairs = list(zip(outcome.solution.reduced, problem.targets, strict=True))
    weighted = np.concatenate([r.residual[: t.times.size] for r, t in pairs])
    found = {name: weighted[problem.channel == c] for c, name in enumerate(problem.channels.names)}
    extra = np.concatenate([r.residual[t.times.size + (t.period_deviation is not None) :] for r, t in pairs])
    return found | ({"multipliers": extra} if extra.size else {})


def fitted_orbits(model: Any, outcome: Outcome) -> tuple[PeriodicOrbit, ...]:
    """Return the model's orbits that match the data."""
    problem, solution, found = outcome.problem, outcome.solution, []
    for target, block, z, nodes in zip(
        problem.targets, solution.blocks, solution.unknowns, problem.nodes(solution.unknowns), strict=True
    ):
        points = nodes
        if target.repeats is not None and target.repeats != target.count:
            # One section point per excitation period; the nodes between belong to shooting.
            points = nodes[:: max(1, target.count // target.repeats)]
        elif target.repeats is None:
            points = nodes[np.unique(target.node)]
        points = wrap_states(points, model.angles)
        period = float(z[-1]) if problem.autonomous else target.period - float(target.node_times[0])
        found.append(
            PeriodicOrbit(
                model.states, points, period, target.repeats, tuple(int(t) for t in block.turns),
                multipliers=monodromy(block.jacobians).multipliers, closure=float(problem.gaps(block).max()),
                code=symbolic_code(model, points), parameters=dict(model.values), method="OrbitFit",
                measured=OrbitMeasurement(
                    section_phase=None if problem.autonomous else float(target.node_times[0])
                ),
            )
        )  # fmt: skip
    return tuple(found)


def matches(task: OrbitTask, outcome: Outcome) -> pd.DataFrame:
    """Return one row per orbit given.

    χ² per sample, largest residual, factor on its variances, multipliers, or why it is not matched.
    """
    import pandas as pd

    place = {index: i for i, index in enumerate(outcome.matched)}
    rows = []
    for index, target in enumerate(task.problem.targets):
        row: dict[str, Any] = {"orbit": target.label, "readings": target.times.size}
        if index in place:
            i = place[index]
            weighted = outcome.solution.reduced[i].residual[: target.times.size]
            row |= {
                "chi2/reading": float((weighted**2).mean()),
                "largest": float(np.abs(weighted).max()),
                "variance factor": float(outcome.inflation[i]),
                "matched": "yes, put back" if index in outcome.returned else "yes",
            }
            size, text = multiplier_mismatch(target, outcome.solution.blocks[i])
            if np.isfinite(size):
                row["multiplier mismatch"] = size
            if text:
                row["matched"] = "yes, but its multipliers differ"
            if not outcome.accepted:
                row["matched"] = "no: the fit did not end at a believable minimum"
        else:
            row["matched"] = outcome.reasons.get(index, "set aside")
        rows.append(row)
    return pd.DataFrame(rows)
