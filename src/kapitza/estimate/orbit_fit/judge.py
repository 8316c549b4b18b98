"""After a fit: which orbits are matched, whether the minimum is believed, what to tell the user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from kapitza.errors import Status
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.identifiability import Identifiability
from kapitza.estimate.orbit_fit.derived import derived_parameters
from kapitza.estimate.orbit_fit.multipliers import known_multipliers
from kapitza.estimate.orbit_fit.problem import Problem
from kapitza.estimate.orbit_fit.solver import OUTLYING, Solution
from kapitza.estimate.orbit_fit.task import Task
from kapitza.orbit import PeriodicOrbit, minimal_period
from kapitza.periodic.codes import symbolic_code
from kapitza.periodic.floquet import monodromy

if TYPE_CHECKING:
    from kapitza.estimate.orbit_fit.fit import OrbitFit

Array = NDArray[np.float64]

CLOSED = 1e-6
"""Largest gap, in units of the spread, of an orbit that counts as closed."""

LARGEST_CHI2 = 25.0
"""χ² per degree of freedom of a believable minimum; false minima lie at 1e2 (coarse data) to 1e8 (precise data)."""

CLOSE_ENOUGH = 3e-3
"""Root mean square residual, in units of the spread, below which a minimum is believed whatever its χ²."""

LEAST_MATCHED = 2 / 3
"""Share of the orbits that a believable minimum explains; some of those found in noisy data are always spurious."""

LARGEST_MISFIT = 0.3
"""The same where the noise is not known: beyond it the fitted orbits do not resemble the data."""


@dataclass(frozen=True)
class Outcome:
    """A fit from one start. kept: indices of the matched orbits; reasons: why others were set aside.

    inflation: factor on the variances of each matched orbit; without_multipliers: covariance before they were added.
    """

    problem: Problem
    solution: Solution
    deviations: Array
    kept: tuple[int, ...]
    reasons: Mapping[int, str]
    inflation: Array
    without_multipliers: Array
    accepted: bool = False
    attempts: int = 1

    @property
    def chi2(self) -> float:
        return sum(float((r.residual**2).sum()) for r in self.solution.reduced)

    @property
    def count(self) -> int:
        return sum(r.residual.size for r in self.solution.reduced)

    @property
    def dof(self) -> int:
        free = sum(b.gap_by_state.shape[1] - b.gap_by_state.shape[0] for b in self.solution.blocks)
        return max(self.count - self.solution.theta.size - free, 1)

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
        lost = len(self.reasons) / max(len(self.reasons) + len(self.kept), 1)
        return (self.misfit + lost) * (1.0 if self.solution.status.ok else 1e3) if not self.accepted else -1.0


def unmatched_reasons(problem: Problem, solution: Solution) -> dict[int, str]:
    """Orbits that the model does not have at these parameters, by index, with the reason."""
    misfit = np.array([float((r.residual[: t.times.size] ** 2).mean()) for r, t in
                       zip(solution.reduced, problem.targets, strict=True)])  # fmt: skip
    typical = max(float(np.median(misfit)), 1.0)
    reasons: dict[int, str] = {}
    nodes = problem.nodes(solution.unknowns)
    for i, (target, block) in enumerate(zip(problem.targets, solution.blocks, strict=True)):
        gap = float(np.abs(block.gap.reshape(-1, problem.scale.size) / problem.scale).max())
        shorter = target.count
        if target.count > 1 and target.repeats == target.count:
            shorter = minimal_period(nodes[i], problem.model.angles, 1e-6 * float(problem.scale.max()))
        turns = tuple(int(t) for t in block.turns)
        if gap > CLOSED:
            reasons[i] = f"the model has no such orbit nearby (gap {gap:.1e} of the spread)"
        elif shorter < target.count:
            reasons[i] = f"collapsed onto an orbit of period {shorter}"
        elif len(target.winding) == len(turns) and turns != target.winding:
            reasons[i] = f"winds {turns} times, the measured orbit {target.winding}"
        elif misfit[i] > OUTLYING * typical:
            reasons[i] = f"residuals of {np.sqrt(misfit[i]):.0f} standard deviations"
    return reasons


def acceptable(task: Task, outcome: Outcome) -> bool:
    """Whether χ² (or, with unknown noise, the residuals beside the spread of the data) speaks for this minimum."""
    total, good = len(task.problem.targets), outcome.inflation <= OUTLYING
    if not outcome.solution.status.ok or good.sum() < LEAST_MATCHED * total:
        return False
    if task.noise_known:
        parts = [float((r.residual**2).sum()) for r in outcome.solution.reduced]
        plain = float((np.array(parts) * outcome.inflation)[good].sum()) / outcome.dof
        return plain <= LARGEST_CHI2 or outcome.misfit <= CLOSE_ENOUGH
    return outcome.misfit <= LARGEST_MISFIT


def post_mortem(task: Task, outcome: Outcome) -> str:
    total, status = len(task.problem.targets), outcome.solution.status
    how = "" if status.ok else f" ({status.value})"
    return (
        f"OrbitFit found no set of {', '.join(task.names)} at which the model has the measured orbits{how}: the best "
        f"of {outcome.attempts} starts matches {len(outcome.kept)} of {total} orbits with χ² = {outcome.chi2:.3g} for "
        f"{outcome.dof} degrees of freedom and residuals of {100 * outcome.misfit:.2g} % of their spread. Check the "
        "model and the fixed parameters, start nearer, or raise restarts."
    )


def make_estimate(task: Task, outcome: Outcome, known: Identifiability, settings: OrbitFit) -> Estimate:
    model, solution, names = task.model, outcome.solution, task.names
    fitted = dict(zip(names, solution.theta.tolist(), strict=True))
    moved = model.with_values(**fitted)
    covariance, scatter = solution.covariance, outcome.chi2 / outcome.dof
    doubtful = task.noise_known and stats.chi2.sf(outcome.chi2, outcome.dof) < 1e-3
    if doubtful:
        covariance = covariance * scatter
    table = derived_parameters(moved, names, covariance, settings.derived)
    derived = dict(zip(table["name"], table["value"], strict=True)) if len(table) else {}
    status = solution.status if outcome.accepted or not solution.status.ok else Status.DIVERGED
    own = {p.name for p in model.parameters if p.expression is not None}
    orbits = fitted_orbits(moved, outcome)
    return Estimate(
        names=names,
        values={**fitted, **derived},
        covariance=covariance,
        method=f"OrbitFit, {settings.formulation} ({task.estimator}{', multipliers' if settings.multipliers else ''})",
        status=status,
        units={p.name: p.unit for p in model.parameters},
        fixed={n: v for n, v in model.values.items() if n not in names and n not in own},
        start={name: model.values[name] for name in names},
        dof=float("inf") if task.noise_known else float(outcome.dof),
        chi2=outcome.chi2,
        noise={} if task.noise_known else dict(
            zip(task.problem.sensors.channels, outcome.deviations.tolist(), strict=True)
        ),
        residuals=_residuals(outcome),
        warnings=tuple(_warnings(task, outcome, covariance, scatter if doubtful else 1.0)),
        identifiable=() if known.complete else known.determined,
        history=pd.DataFrame(list(solution.history)),
        model=moved,
        data=task.data,
        details={
            "orbits": orbits,
            "matches": _matches(task, outcome),
            "unmatched": {task.problem.targets[i].label: why for i, why in outcome.reasons.items()},
            "derived": table,
            "information": solution.information,
            "identifiability": known,
            "attempts": outcome.attempts,
            "scatter": scatter,
            "without_multipliers": outcome.without_multipliers,
            "log_likelihood": _log_likelihood(task, outcome),
            "readings": outcome.count,
            "outcome": outcome,
            "task": task,
            "settings": settings,
        },
    )  # fmt: skip


def _log_likelihood(task: Task, outcome: Outcome) -> float:
    """log p(readings | θ) at the minimum."""
    total = -0.5 * outcome.chi2 - 0.5 * outcome.count * np.log(2 * np.pi)
    for weight in outcome.solution.weights:
        total += float(np.log(weight).sum()) if weight.ndim == 1 else float(np.linalg.slogdet(weight)[1])
    return float(total)


def _residuals(outcome: Outcome) -> dict[str, Array]:
    """Weighted residuals by channel (decorrelated where an orbit has a covariance), multipliers apart."""
    problem = outcome.problem
    channel = np.concatenate([t.channel for t in problem.targets])
    pairs = list(zip(outcome.solution.reduced, problem.targets, strict=True))
    weighted = np.concatenate([r.residual[: t.times.size] for r, t in pairs])
    found = {name: weighted[channel == c] for c, name in enumerate(problem.sensors.channels)}
    extra = np.concatenate([r.residual[t.times.size + (t.period_deviation is not None) :] for r, t in pairs])
    return found | ({"multipliers": extra} if extra.size else {})


def fitted_orbits(model: Any, outcome: Outcome) -> tuple[PeriodicOrbit, ...]:
    """The model's own orbits that match the measured ones."""
    problem, solution, found = outcome.problem, outcome.solution, []
    for target, block, z, nodes in zip(
        problem.targets, solution.blocks, solution.unknowns, problem.nodes(solution.unknowns), strict=True
    ):
        points = nodes.copy()
        if target.repeats is not None and target.repeats != target.count:
            points = nodes[:: max(1, target.count // target.repeats)]
        on_circle = np.array(model.angles)
        points[:, on_circle] = (points[:, on_circle] + np.pi) % (2 * np.pi) - np.pi
        gap = float(np.abs(block.gap.reshape(-1, problem.scale.size) / problem.scale).max())
        period = float(z[-1]) if problem.autonomous else target.period - float(target.node_times[0])
        found.append(
            PeriodicOrbit(
                model.states, points, period, target.repeats, tuple(int(t) for t in block.turns),
                multipliers=monodromy(block.jacobians).multipliers, closure=gap, code=symbolic_code(model, points),
                parameters=dict(model.values), method="OrbitFit",
            )
        )  # fmt: skip
    return tuple(found)


def _matches(task: Task, outcome: Outcome) -> pd.DataFrame:
    """One row per orbit given: χ² per reading, largest residual, factor on its variances, multipliers, or why not."""
    place = {index: i for i, index in enumerate(outcome.kept)}
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
                "matched": "yes",
            }
            use = known_multipliers(target)
            if use.any():
                assert target.multipliers is not None
                model = np.abs(monodromy(outcome.solution.blocks[i].jacobians).multipliers)
                off = (model - target.multipliers) / np.asarray(target.multiplier_deviation)
                row["multiplier mismatch"] = float(np.abs(off[use]).max())
        else:
            row["matched"] = outcome.reasons.get(index, "set aside")
        rows.append(row)
    return pd.DataFrame(rows)


def _warnings(task: Task, outcome: Outcome, covariance: Array, scatter: float) -> list[str]:
    solution, found = outcome.solution, []
    deviation = np.sqrt(np.clip(np.diag(covariance), 0, None))
    for i, name in enumerate(task.names):
        value = solution.theta[i]
        if solution.at_bound[i]:
            found.append(f"{name} sits at its bound {value:.6g}: its interval is not meaningful; widen the bound.")
        elif value == task.model.values[name]:
            found.append(f"{name} did not move from its start {value:.6g}: the data may not depend on it.")
        elif deviation[i] > abs(value):
            found.append(f"{name} is smaller than its own standard error: these orbits hardly determine it.")
    for index, reason in outcome.reasons.items():
        found.append(f"orbit {task.problem.targets[index].label} was not matched: {reason}.")
    if scatter > 1:
        found.append(
            f"the residuals are {np.sqrt(scatter):.2g} times larger than the orbits' own uncertainty: the intervals "
            "were widened by that factor; the model or the covariances are not quite right."
        )
    loud = outcome.inflation > 10
    if loud.any():
        found.append(
            f"{int(loud.sum())} of {loud.size} orbits fit worse than their covariance allows and count less; see "
            'details["matches"].'
        )
    if outcome.attempts > 1:
        found.append(f"the given start led to a false minimum; start number {outcome.attempts} led here.")
    return found
