"""Fits that count the noise of their measured drives.

The covariance C of the samples with the response to this noise in it is known, so that the most likely parameters
solve Jᵀ C⁻¹ r = 0 and have the covariance (Jᵀ C⁻¹ J)⁻¹. Gauss-Newton steps lead there from plain least squares; the
motion is fitted again after each. On a resonant rig least squares alone is several times less certain: its residuals
are correlated over many oscillations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from kapitza.base.arrays import Array
from kapitza.errors import FlowError, KapitzaError, Status
from kapitza.estimate.disagreement import of_widening
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.faults import Leverage
from kapitza.estimate.judge import doubtful_parameters
from kapitza.estimate.misfit import Misfit
from kapitza.estimate.missing import (
    Cuts,
    Weighted,
    Window,
    filtered_window,
    residuals_without,
    rows_of,
    structure_chance,
)
from kapitza.estimate.parts import Likelihood
from kapitza.estimate.result import workings_of
from kapitza.estimate.shooting_fit import (
    HeldMotion,
    MotionSolution,
    MotionTask,
    MotionWorkings,
    fault_columns,
    faults_of,
    leverages,
    noise_of,
    of_bent_errors,
    own_noise,
)

LONGEST = 200_000
"""Most samples of a fit that counts the noise of its drives: the filter takes about 2 s for so many."""

STEPS, SETTLED = 8, 0.05
"""Most Gauss-Newton steps, and the step, in standard errors, that ends them."""

BOTH = "the noise of sensors and drive"

CLEAR = 3.0
"""Standard errors from a bound at which it does not cut an interval."""

ENOUGH = 4000
"""Samples from which the level of the noise of the drives is tested."""

LEVELS = (0.0, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.25)
"""Levels that are compared, in units of that from the spectrum of the drive."""

UNSEEN = 1e-8
"""Singular value, of columns of size 1, below which an initial state counts as unseen."""

REFUTED, ALIKE = 25.0, 2.0
"""Drop of the log-likelihood within which the level of the spectrum is kept, and then that within which none is. The
first is large because initial states of windows absorb a part of the noise: 14 was seen where the level was right."""


def supported_level(fit: Estimate, levels: Mapping[str, float], free: Sequence[str] | None = None) -> float:
    """Return the most likely level of the noise of drives.

    In units of `levels`, 0 where the residuals show none: the spectrum of a drive with content at all frequencies, a
    random or a switched one, looks like noise. The residuals tell the two apart by their restricted likelihood
    -r̃ᵀr̃/2 - log |C|/2 - log |JᵀC⁻¹J|/2. J holds the initial states of short windows too, which absorb most of what the
    drive does to a chaotic motion; without the last term each would count as evidence against its noise.
    """
    stated = counting(fit, levels)
    windows = rows_of(stated, (), (), free, levels, Cuts(ENOUGH))
    nothing = np.zeros(windows[0].free.shape[2])

    def cost(level: float) -> float:
        white = [filtered_window(_scaled(window, level)) for window in windows]
        rows = Weighted.of(white, nothing, nothing)
        return 0.5 * rows.square + rows.log_det + 0.5 * _log_information(white, windows, rows.covariance)

    costs = {level: cost(level) for level in LEVELS}
    best = min(LEVELS, key=costs.__getitem__)
    if costs[1.0] < costs[best] + REFUTED:
        return 1.0
    return 0.0 if costs[0.0] < costs[best] + ALIKE else best


def _log_information(white: Sequence[Window], windows: Sequence[Window], covariance: Array) -> float:
    """Return log |JᵀC⁻¹J| of initial states and parameters.

    windows: before they were filtered, which scale the columns; covariance: of the parameters.
    """
    found = -np.linalg.slogdet(covariance / np.outer(*[np.sqrt(np.diag(covariance))] * 2))[1]
    found -= np.log(np.diag(covariance)).sum()
    for after, before in zip(white, windows, strict=True):
        size = np.maximum(np.linalg.norm(before.initial, axis=(0, 1)), np.finfo(float).tiny)
        columns = (after.initial / size).reshape(-1, size.size)
        # A direction that no sensor sees has the same size at all levels.
        found += np.log(np.maximum(np.linalg.svd(columns, compute_uv=False), UNSEEN)).sum() * 2.0
    return float(found)


def _scaled(window: Window, level: float) -> Window:
    """Return a window with noise of another level in its drives."""
    if window.kicks is None:
        return window
    return replace(window, kicks=replace(window.kicks, push=level * window.kicks.push))


def counting(fit: Estimate, levels: Mapping[str, float]) -> Estimate:
    """Return the estimate with the noise of its drives stated.

    Tests of terms count it then; levels: standard deviations by drive. The noise of the sensors is stated without the
    part of the residuals that the drive explains.
    """
    workings = workings_of(fit, MotionWorkings)
    found = replace(workings.found, sensors=own_noise(workings.task, workings.found))
    by_channel, by_record = noise_of(workings.task, found)
    assert fit.motion is not None
    motion = replace(fit.motion, drive_noise=dict(levels), noise_by_record=by_record)
    return fit.with_(findings=motion, workings=workings, noise=by_channel)


def counted(fit: Estimate, levels: Mapping[str, float]) -> Estimate | None:
    """Return the most likely estimate under noise of drives.

    levels: standard deviations by drive. Its misfit is judged with both noises. None where it cannot be found: with
    bounds that hold, errors of derived values, a robust loss, or steps that do not converge.
    """
    # Without the noise of the drive the likelihood of a chaotic motion is bent where that with it is not.
    bent = any(map(of_bent_errors, fit.warnings))
    plain = (fit.draws is None or bent) and not fit.derived and bool(np.isfinite(fit.covariance).all())
    if fit.motion is None or not plain or fit.motion.sample_times.size > LONGEST:
        return None
    if not fit.names or set(fit.names) - set(fit.model.names):
        return None
    settings = workings_of(fit, MotionWorkings).task.settings
    if settings.robust or settings.process_noise:
        return None
    try:
        found = _most_likely(counting(fit.with_(draws=None), levels))
    except (FlowError, KapitzaError, np.linalg.LinAlgError):
        return None
    return found if found is None or not bent or _clear_of_bounds(found) else None


def _clear_of_bounds(fit: Estimate) -> bool:
    """Return whether the bounds do not cut the intervals, which then need no draws."""
    low, high = workings_of(fit, MotionWorkings).task.request.bounds
    values, reach = np.array([fit.values[n] for n in fit.names]), CLEAR * np.sqrt(np.diag(fit.covariance))
    return bool((values - reach > low).all() and (values + reach < high).all())


def _most_likely(now: Estimate) -> Estimate | None:
    """Return the estimate after Gauss-Newton steps."""
    workings, names = workings_of(now, MotionWorkings), now.names
    task, held = workings.task, HeldMotion(now, names)
    theta, priors = np.array([now.values[n] for n in names]), task.problem.priors
    low, high = task.request.bounds
    first, score = now, None
    for _ in range(STEPS):
        windows = _rows(now)
        rows = Weighted.of([filtered_window(window) for window in windows], priors.weight, priors.pull(theta))
        settled = (np.abs(rows.step) <= SETTLED * rows.deviations).all()
        if settled and score is None:
            score = _score_of_noise(now, rows.deviations, windows)
        step = rows.step if score is None else rows.step + rows.covariance @ score
        if (np.abs(step) <= SETTLED * rows.deviations).all():
            return _finished(first, now, windows, rows)
        theta = theta + step
        if (theta <= low).any() or (theta >= high).any():
            return None
        solution = replace(_followed(held, theta, workings.found.solution), theta=theta)
        values = dict(zip(names, theta.tolist(), strict=True))
        workings = replace(workings, found=replace(workings.found, solution=solution), curved=())
        now = now.with_(values={**now.values, **values}, model=now.model.with_values(**values), workings=workings)
    return None


def _rows(now: Estimate) -> list[Window]:
    """Return the columns of the free parameters, with the noise of the drives in them."""
    assert now.motion is not None
    return rows_of(now, (), (), now.names, now.motion.drive_noise or {}, Cuts(LONGEST))


def _score_of_noise(now: Estimate, deviations: Array, windows: Sequence[Window]) -> Array:
    """Return the score (k,) that the noise of the drives is expected to take away.

    The sensitivities are those along the measured drive u + e, so they contain its noise: J(u + e) = J(u) + ∂G/∂θ e,
    while the residual is -G e. Hence E[Jᵀ C⁻¹ r] = -tr(C⁻¹ G ∂Gᵀ/∂θ) = -½ ∂ log |C|/∂θ at the true parameters
    (attenuation, as of any regression on a noisy input). It is of the order of the noise squared, and counts where the
    noise of the drive exceeds that of the sensors in many directions.
    """
    score = np.zeros(len(now.names))
    for j, name in enumerate(now.names):
        # log |C| changes slowly over the error of a parameter.
        sides = []
        for step in (-0.25, 0.25):
            value = now.values[name] + step * deviations[j]
            moved = now.with_(values={**now.values, name: value}, model=now.model.with_values(**{name: value}))
            sides.append(_rows(moved))
        if all([w.residual.shape for w in side] == [w.residual.shape for w in windows] for side in sides):
            low, high = (sum(filtered_window(window).log_det for window in side) for side in sides)
            score[j] = (high - low) / (0.5 * deviations[j])
    return score


def _followed(held: HeldMotion, theta: Array, last: MotionSolution) -> MotionSolution:
    """Return the motion fitted at other parameters.

    A chaotic motion under a wrong drive may not follow the data at the right parameters; then the last one stays, whose
    states begin the windows.
    """
    try:
        found = held.again(held.at(theta), np.empty(0), last.states, None).solution
    except FlowError:
        return last
    good = found.status is Status.CONVERGED and len(found.states) == len(last.states)
    return replace(found, at_bound=np.zeros(theta.size, bool)) if good else last


def _finished(first: Estimate, now: Estimate, windows: Sequence[Window], rows: Weighted) -> Estimate:
    """Return the estimate with its intervals and verdict.

    first: the plain least-squares estimate.
    """
    workings, motion = workings_of(now, MotionWorkings), now.motion
    assert motion is not None
    task, solution = workings.task, workings.found.solution
    samples, channels = task.problem.samples, task.observation.channels
    own = replace(workings.found, sensors=own_noise(task, workings.found))
    sizes = samples.at_readings(own.sensors.deviations)
    every, read = solution.sweep.residual / sizes, samples.sensor >= 0
    misfit, white = _misfit(windows, rows, [samples.spread[c] / sizes[:, c] for c in range(len(channels))])
    # Noise that the residuals exceed without structure was estimated too small.
    covariance = rows.covariance * max(rows.level, 1.0)
    deviations = np.sqrt(np.diag(covariance))
    total = -0.5 * rows.square - rows.log_det - float(np.log(sizes[read] * np.sqrt(2 * np.pi)).sum())
    fitted = 0 if first.likelihood is None else first.likelihood.fitted
    return now.with_(
        covariance=covariance,
        dof=float("inf") if own.sensors.all_known else float(rows.rows),
        warnings=_warnings(first, now, task, covariance),
        residuals={c: every[:, i] for i, c in enumerate(channels)},
        chi2=float((every**2).sum()),
        whiteness=dict(zip(channels, white, strict=True)),
        misfit=misfit,
        noise_alone=None,
        likelihood=Likelihood(total, samples.readings, fitted),
        leverage=_leverage(task, workings, windows, deviations),
        findings=replace(
            motion,
            times=samples.time[solution.nodes.index],
            states=solution.states,
            predicted=solution.sweep.predicted,
        ),
    )


def _misfit(windows: Sequence[Window], rows: Weighted, signal: Sequence[Array]) -> tuple[Misfit, list[float]]:
    """Return the misfit beyond both noises, and the whiteness of channels.

    signal: of each channel, the spread of the samples (N,) in standard deviations of its sensor.
    """
    left = residuals_without([filtered_window(window) for window in windows], range(rows.step.size))
    chances = [structure_chance([part[:, [c]] for part in left]) for c in range(len(signal))]
    beyond = float(np.sqrt(max(rows.level - 1.0, 0.0)))
    # Share of the signal, in the channel where it is largest.
    share = max(beyond / float(np.max(one)) for one in signal)
    chance = min(1.0, min(chances) * len(chances))
    return Misfit(beyond, share, chance, "the motion", "", BOTH), chances


def misfit_under(fit: Estimate, levels: Mapping[str, float], free: Sequence[str]) -> Misfit:
    """Return the misfit of a motion beyond both noises.

    levels: standard deviations of the noise of drives; free: parameters that follow the data.
    """
    stated = counting(fit, levels)
    workings = workings_of(stated, MotionWorkings)
    windows = rows_of(stated, (), (), free, levels, Cuts(LONGEST))
    nothing = np.zeros(windows[0].free.shape[2])
    rows = Weighted.of([filtered_window(window) for window in windows], nothing, nothing)
    samples = workings.task.problem.samples
    sizes = samples.at_readings(own_noise(workings.task, workings.found).deviations)
    return _misfit(windows, rows, [samples.spread[c] / sizes[:, c] for c in range(sizes.shape[1])])[0]


def _leverage(
    task: MotionTask, workings: MotionWorkings, windows: Sequence[Window], deviations: Array
) -> tuple[Leverage, ...]:
    """Return the effect of small faults, under both noises."""
    tried = faults_of(task)
    columns = fault_columns(task, workings.found.solution, tried)
    sizes, made = task.problem.samples.at_readings(own_noise(task, workings.found).deviations), []
    for window in windows:
        part = slice(window.begin, window.begin + len(window.residual))
        weight = np.where(window.lost, 0.0, 1.0 / sizes[part])
        made.append(filtered_window(replace(window, terms=columns[part] * weight[..., None])))
    priors = task.problem.priors
    theta = workings.found.solution.theta
    shifts = Weighted.of(made, priors.weight, priors.pull(theta)).shifts(priors.weight)
    return leverages(task, tried, theta, shifts, deviations)


def _warnings(first: Estimate, now: Estimate, task: MotionTask, covariance: Array) -> tuple[str, ...]:
    """Return the warnings of the fit that still hold.

    Those on the misfit, on widened intervals and on doubtful values are made anew.
    """
    old = np.array([first.values[n] for n in first.names])
    gone = set(doubtful_parameters(task.request, old, first.covariance))
    if first.misfit is not None:
        gone |= {text + task.doubtful_bridges for text in first.misfit.warnings()}
    kept = [text for text in first.warnings if text not in gone and not of_widening(text) and not of_bent_errors(text)]
    theta = np.array([now.values[n] for n in now.names])
    return (*kept, *doubtful_parameters(task.request, theta, covariance))
