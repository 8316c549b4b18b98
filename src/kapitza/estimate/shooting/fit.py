"""ShootingFit: maximum likelihood from the raw series, chaotic or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from scipy import optimize

from kapitza.errors import ConvergenceError, IdentifiabilityError, ModelError, Status
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.shooting.checks import (
    check_initial,
    check_left,
    check_motion,
    check_noise,
    check_settings,
    check_unknowns,
    free_names,
)
from kapitza.estimate.shooting.judge import Judgement, judge
from kapitza.estimate.shooting.observation import Observation, observe
from kapitza.estimate.shooting.pieces import Part, Samples, gather, parts_of
from kapitza.estimate.shooting.solver import Fitter, Solution, SolverSettings
from kapitza.estimate.shooting.start import noise_guess, sizes, states_from_data
from kapitza.estimate.shooting.sweep import Problem
from kapitza.flow import Flow
from kapitza.model import Model

Array = NDArray[np.float64]

FLOW_TOLERANCE = 1e-13
"""Of the integration: far below any noise, and a third cheaper than rounding."""

LARGEST_STEPS = 1000
"""Of the integrator between two nodes. Far more than a motion that samples can follow; a trial that blows up or turns
ever faster is given up after this many, else one wild step of the iteration takes minutes."""

RESTARTS = (4.0, 0.2, 20.0)
"""Factors on the softness of the links when the first run does not reach the data."""

SAME_NOISE = 0.03
"""Ratios between channels are known to this fraction: it costs a thousandth of the standard errors."""

LARGEST_MISFIT = 0.5
"""Residuals beyond this fraction of the data's spread are a false minimum, not a fit."""


@dataclass(frozen=True)
class ShootingFit:
    """Multiple shooting: states at the nodes and parameters together, continuity as constraint.

    Minimises Σ (h(x(t_i), θ) - y_i)²/σ² (and the priors of the parameters) subject to x being a motion of the model
    over each piece of the record (H. G. Bock 1981; E. Baake et al., Phys. Rev. A 45 (1992) 5524).

    outputs: what a channel measures where its name is neither a state nor an output of the model, in plain
    notation: {"theta2": "phi2 - phi1"}.
    noise: standard deviation per channel when known, or one number for all; otherwise the record's own, otherwise
    estimated.
    spacing: samples per shooting interval at the end (default: by the growth of the tangents, at most 10).
    window: samples of the first fit of a long record, from which the whole is fitted.
    softness: how far the links may stretch at the start, in units of each state's spread.
    process_noise: standard deviation per state and interval of kicks that the motion really has, or True to
    estimate one common relative size.
    robust: Huber's loss beyond 1.345 standard deviations, against outliers.
    initial: the state at the start of every piece, where it is known.
    hold_back: fraction of the last samples kept out of the fit to test its prediction.
    max_gap: gaps longer than this many median steps cut the record.
    """

    outputs: Mapping[str, str | sp.Expr] = field(default_factory=dict)
    noise: Mapping[str, float] | float = field(default_factory=dict)
    spacing: int | None = None
    window: int = 5000
    softness: float = 0.05
    process_noise: bool | Mapping[str, float] = False
    robust: bool = False
    initial: Mapping[str, float] = field(default_factory=dict)
    hold_back: float = 0.0
    max_gap: float = 20.0
    tolerance: float = 1e-9
    max_iterations: int = 100
    throw: bool = True

    def fit(self, model: Model, data: Part | Sequence[Part], free: Sequence[str] | None) -> Estimate:
        return self.fit_named(model, data, free_names(model, free))

    def fit_named(self, model: Model, data: Part | Sequence[Part], names: tuple[str, ...]) -> Estimate:
        """The fit with these free parameters, none of them (states alone) included."""
        task = self.prepare(model, data, names)
        samples = task.problem.samples
        check_motion(samples, task.observation.channels)
        prior = int(np.count_nonzero(task.problem.prior_weight)) + len(self.initial) * len(samples.pieces)
        check_unknowns(samples, len(model.states), len(names), prior)
        solution, deviations = self._solve_with_restarts(task)
        verdict = judge(task, solution, deviations)
        estimate = _estimate(task, solution, deviations, verdict)
        if self.throw and solution.status is not Status.CONVERGED:
            raise ConvergenceError(verdict.post_mortem, estimate)
        if self.throw and not verdict.identifiability.complete:
            raise IdentifiabilityError(verdict.identifiability.message())
        return estimate

    def prepare(self, model: Model, data: Part | Sequence[Part], names: tuple[str, ...]) -> Task:
        check_settings(self)
        record = parts_of(data)[0][0]
        observation = observe(model, record, self.outputs, names)
        everything = gather(model, data, observation, self.max_gap)
        kept = everything.size - round(self.hold_back * everything.size)
        check_left(everything.size, kept)
        samples = everything.take(0, kept)
        held = everything.take(kept, everything.size) if kept < everything.size else None
        states, known = states_from_data(model, samples, observation)
        given = {**record.noise, **check_noise(self.noise, observation.channels)}
        guess = noise_guess(samples, observation)
        deviations = np.array([given.get(c, guess[i]) for i, c in enumerate(observation.channels)])
        measured = all(c in given for c in observation.channels)
        priors = [model.parameter(name).prior for name in names]
        problem = Problem(
            flow=Flow(model, wrt=names, tolerance=FLOW_TOLERANCE, max_steps=LARGEST_STEPS),
            samples=samples,
            observation=observation,
            columns=np.array([model.names.index(name) for name in names], np.intp),
            angles=np.array(model.angles),
            prior_mean=np.array([p.mean if p else 0.0 for p in priors], float),
            prior_weight=np.array([p.deviation**-2 if p else 0.0 for p in priors], float),
        )
        scale = sizes(model, samples, states, known)
        if self.initial:
            problem = replace(problem, **_held(model, self.initial, scale))
        return Task(model, self, names, problem, states, known, scale, deviations, measured, held, data)

    def _solve_with_restarts(self, task: Task) -> tuple[Solution, Array]:
        """From softer and stiffer links in turn, until the motion follows the data; the best is kept."""
        samples = task.problem.samples
        best, deviations = self._solve(task, self.softness)
        for factor in RESTARTS:
            if _follows(task, best):
                break
            again, spread = self._solve(task, factor * self.softness)
            if _follows(task, again) or _misfit(samples, again) < _misfit(samples, best):
                best, deviations = again, spread
        if best.status is Status.CONVERGED and not _follows(task, best):
            best = replace(best, status=Status.DIVERGED)
        return best, deviations

    def _solve(self, task: Task, softness: float) -> tuple[Solution, Array]:
        model, problem = task.model, task.problem
        bounds = np.array([model.parameter(name).bounds for name in task.names]).reshape(-1, 2)
        low, high = bounds[:, 0], bounds[:, 1]
        theta = np.array([model.values[name] for name in task.names])
        settings = SolverSettings(
            softness=softness, tolerance=self.tolerance, max_iterations=self.max_iterations,
            spacing=self.spacing, huber=1.345 if self.robust else None, process_noise=self._kicks(task),
            learn_noise=not (task.noise_known or self.robust or self.process_noise),
        )  # fmt: skip
        fitter = Fitter(problem, settings, task.scale, task.deviations, low, high)
        spacing = 1
        if problem.samples.size > 2 * self.window:
            theta, softness, spacing = self._first_window(task, fitter, theta)
        solution = fitter.solve(theta, task.states, softness=softness, spacing=spacing)
        if spacing > 1 and solution.status is not Status.CONVERGED:
            solution = fitter.solve(theta, task.states, softness=softness)
        if self.process_noise is True:
            return self._with_estimated_kicks(fitter, solution, task), task.deviations
        solution = self._with_noise(task, fitter, solution)
        return solution, fitter.deviations

    def _with_noise(self, task: Task, fitter: Fitter, solution: Solution) -> Solution:
        """Noise of each channel from the residuals, and the fit again with these weights until their ratios stand."""
        plain = not (self.robust or self.process_noise or fitter.problem.prior_weight.any())
        for _ in range(0 if task.noise_known else 8):
            if solution.status is not Status.CONVERGED:
                break
            deviations = fitter.noise_of(solution)
            ratio = np.log(deviations / fitter.deviations)
            fitter.deviations = deviations
            # A common factor leaves the answer alone; only the ratios between channels move it. Much less noise than
            # was assumed calls for a stricter end of the iteration, though.
            if plain and np.ptp(ratio) < SAME_NOISE and ratio.min() > -0.7:
                return solution.with_noise_scaled(float(np.exp(ratio.mean())))
            solution = fitter.resume(solution)
            if np.ptp(ratio) < SAME_NOISE:
                break
        return solution

    def _with_estimated_kicks(self, fitter: Fitter, first: Solution, task: Task) -> Solution:
        """The common relative size of kicks that makes the data most likely, the noise of the sensors taken as known.

        Links soften from sample to sample, so the nodes stay at the samples.
        """
        found: dict[float, tuple[float, Solution]] = {}
        current = first

        def unlikely(log_size: float) -> float:
            nonlocal current
            fitter.settings = replace(fitter.settings, process_noise=np.exp(log_size) * task.scale)
            current = fitter.resume(current)
            found[log_size] = fitter.evidence(current), current
            return found[log_size][0]

        coarse = np.log(np.geomspace(3e-2, 1e-5, 8))
        values = [unlikely(x) for x in coarse]
        best = int(np.argmin(values))
        ends = sorted((coarse[max(best - 1, 0)], coarse[min(best + 1, coarse.size - 1)]))
        current = found[coarse[best]][1]
        optimize.minimize_scalar(unlikely, bounds=ends, method="bounded", options={"xatol": 0.05})
        size = min(found, key=lambda x: found[x][0])
        return replace(found[size][1], kicks=np.exp(size) * task.scale)

    def _kicks(self, task: Task) -> Array | None:
        if isinstance(self.process_noise, Mapping):
            for name in self.process_noise:
                if name not in task.model.states:
                    raise ModelError(f'process_noise names "{name}", not a state of {task.model.name}.')
            return np.array([self.process_noise.get(name, 0.0) for name in task.model.states])
        # Soft from the start: with kicks in the data rigid links would not close.
        return 0.01 * task.scale if self.process_noise else None

    def _first_window(self, task: Task, fitter: Fitter, theta: Array) -> tuple[Array, float, int]:
        """Parameters from the stretch with the largest excursions, a softness and a node spacing to go on with.

        The noise found there becomes that of `fitter`. From good parameters and states that the data give, nodes need
        not be dense any more: that saves most of the work on a long record.
        """
        problem, width = task.problem, self.window
        activity = np.cumsum(np.abs(np.diff(problem.samples.values, axis=0)).sum(axis=1))
        starts = np.arange(0, problem.samples.size - width, max(1, width // 2))
        best = int(starts[np.argmax(activity[starts + width - 1] - activity[starts])])
        inner = replace(problem, samples=problem.samples.take(best, best + width))
        states = task.states[best : best + width]
        for factor in (1.0, *RESTARTS):
            first = Fitter(inner, fitter.settings, task.scale, task.deviations, fitter.low, fitter.high)
            found = first.solve(theta, states, softness=factor * fitter.settings.softness)
            if found.status is Status.CONVERGED and _misfit(inner.samples, found) < LARGEST_MISFIT:
                found = self._with_noise(task, first, found)
                fitter.deviations = first.deviations
                spacing = int(found.nodes.length.max()) if task.known.all() else 1
                return found.theta, min(fitter.settings.softness, 0.01), spacing
        return theta, fitter.settings.softness, 1


@dataclass(frozen=True)
class Task:
    """A fit made ready: what was asked, the numbers it starts from."""

    model: Model
    settings: ShootingFit
    names: tuple[str, ...]
    problem: Problem
    states: Array
    known: NDArray[np.bool_]
    scale: Array
    deviations: Array
    noise_known: bool
    held_back: Samples | None
    data: Any

    @property
    def observation(self) -> Observation:
        return self.problem.observation


def _misfit(samples: Samples, solution: Solution) -> float:
    """Root mean square residual in units of the spread of the data."""
    return float(np.sqrt(((solution.sweep.residual / samples.spread) ** 2).mean()))


def _follows(task: Task, solution: Solution) -> bool:
    """Converged, and on the data rather than on a false minimum far from them."""
    return solution.status is Status.CONVERGED and _misfit(task.problem.samples, solution) < LARGEST_MISFIT


def _held(model: Model, initial: Mapping[str, float], scale: Array) -> dict[str, Array]:
    check_initial(model, initial)
    state = np.array([initial.get(name, 0.0) for name in model.states])
    weight = np.array([1e16 if name in initial else 0.0 for name in model.states]) / scale**2
    return {"held_state": state, "held_weight": weight}


def _estimate(task: Task, solution: Solution, deviations: Array, verdict: Judgement) -> Estimate:
    model, names, samples = task.model, task.names, task.problem.samples
    fitted = dict(zip(names, solution.theta.tolist(), strict=True))
    moved = model.with_values(**fitted)
    derived = {p.name: moved.values[p.name] for p in model.parameters if p.expression is not None}
    count = samples.values.size
    unknowns = len(model.states) * len(samples.pieces) + len(names)
    weighted = solution.sweep.residual / deviations
    return Estimate(
        names=names,
        values={**fitted, **derived},
        covariance=solution.covariance,
        method="ShootingFit",
        status=solution.status,
        units={p.name: p.unit for p in model.parameters},
        fixed={name: value for name, value in model.values.items() if name not in names and name not in derived},
        start={name: model.values[name] for name in names},
        dof=float("inf") if task.noise_known else float(max(count - unknowns, 1)),
        chi2=float((weighted**2).sum()),
        noise=dict(zip(task.observation.channels, deviations.tolist(), strict=True)),
        residuals={c: weighted[:, i] for i, c in enumerate(task.observation.channels)},
        warnings=verdict.warnings,
        identifiable=verdict.identifiability.determined,
        history=solution.history,
        model=moved,
        data=task.data,
        details={
            "states": solution.states,
            "times": samples.time[solution.nodes.index],
            "predicted": solution.sweep.predicted,
            "information": solution.information,
            "prediction": verdict.prediction,
            "whiteness": verdict.whiteness,
            "post_mortem": verdict.post_mortem,
            "log_likelihood": verdict.log_likelihood,
            "samples": count,
            "process_noise": None
            if solution.kicks is None
            else dict(zip(model.states, solution.kicks.tolist(), strict=True)),
            "settings": task.settings,
        },
    )
