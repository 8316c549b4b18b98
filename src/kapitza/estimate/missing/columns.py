"""Effect of candidate terms on the samples.

Columns are taken along the fitted motion, window by window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kapitza.base.arrays import Array, Flags
from kapitza.base.cures import By
from kapitza.data import PROPOSED
from kapitza.errors import FlowError, KapitzaError
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.missing.dictionary import Term
from kapitza.estimate.missing.drive_filter import DriveKicks, Kicks, filtered_window, scatter_of
from kapitza.estimate.missing.laws import DriveLaws
from kapitza.estimate.observation import Observation, observe_channels
from kapitza.estimate.result import workings_of
from kapitza.estimate.shooting_fit import MotionWorkings
from kapitza.flow import Flow

FINEST = 8
"""Most steps of the quadrature per sample."""

PER_CYCLE = 60
"""Steps of the quadrature per oscillation."""

GROWTH = 1e5
"""Largest growth of the tangents within a window: beyond it the columns of the initial state dominate all others."""

FLATTENING = 1e8
"""Ratio of the largest to the smallest stretch up to which tangents can be inverted without loss."""

LOOK, SPARE = 64, 4
"""A window is first sought within so many samples, and so many times the length of the last one."""

LINEAR = 0.02
"""Scatter of a motion by noise of its drives, in spreads of the samples, at which a window ends."""

FEWEST = 16
"""Samples of a window, at least, that this scatter ends: each has initial states of its own."""

LONGEST = 20_000
"""Most samples that are tested; a longer record is cut there."""


@dataclass(frozen=True)
class Cuts:
    """Limits of windows.

    samples: most of all windows together; scatter: by noise of the drives, in spreads, at which a window ends.
    """

    samples: int = LONGEST
    scatter: float = LINEAR


@dataclass(frozen=True)
class Window:
    """Rows of one uninterrupted stretch.

    Rows are in standard deviations of the noise. lost (N, c): samples without a value; their rows are 0. residual
    (N, c): measured minus predicted. initial (N, c, n), free (N, c, k), terms (N, c, m): what a unit of each would add
    to the prediction. kicks: by noise of the drives, which the rows still contain; None where they contain none.
    begin: number of the first sample. log_det: of the filter that made the noise white, log |C|/2.
    """

    lost: Flags
    residual: Array
    initial: Array
    free: Array
    terms: Array
    kicks: Kicks | None = None
    begin: int = 0
    log_det: float = 0.0

    def first(self, count: int) -> Window:
        """Return the window of the first samples."""
        parts = {name: getattr(self, name)[:count] for name in ("lost", "residual", "initial", "free", "terms")}
        return replace(self, **parts, kicks=None if self.kicks is None else self.kicks.first(count))

    def stacked(self) -> tuple[Array, Array]:
        """Return all columns, and the initial states.

        The columns are free parameters, terms and residual (N, c, k + m + 1); the initial states are (N, c, n).
        """
        return np.concatenate([self.free, self.terms, self.residual[..., None]], axis=2), self.initial


def windows_of(
    estimate: Estimate, terms: Sequence[Term], held: Sequence[str], free: Sequence[str] | None = None
) -> list[Window]:
    """Return the columns of parameters, terms and faults.

    The order is free parameters, terms, drive, held parameters, sensor faults. free: names whose columns count as those
    of free parameters; by default those that were fitted. Where the fit counts the noise of its drives, the rows are
    filtered so that their noise is white.
    """
    levels = {} if estimate.motion is None else estimate.motion.drive_noise or {}
    return [filtered_window(window) for window in rows_of(estimate, terms, held, free, levels)]


def rows_of(
    estimate: Estimate,
    terms: Sequence[Term],
    held: Sequence[str],
    free: Sequence[str] | None,
    levels: Mapping[str, float],
    cuts: Cuts | None = None,
) -> list[Window]:
    """Return the columns of windows of the record.

    levels: standard deviation of the noise of each drive; the rows contain it, and `Window.kicks` describes it.
    """
    cuts = cuts or Cuts()
    if estimate.motion is None:
        raise KapitzaError(f'suggest needs a fit by {By("shooting")} (or "auto"): fit the record by one of them.')
    workings = workings_of(estimate, MotionWorkings)
    task = workings.task
    model, samples = estimate.model, task.problem.samples
    names = estimate.names if free is None else tuple(free)
    wrt = (*names, *held)
    # Columns need less precision than the fit itself.
    flow = Flow(model, wrt=wrt, tolerance=1e-11)
    sight = task.observation
    observation = observe_channels(model, sight.channels, tuple(sight.angles), task.request.outputs, wrt)
    deviations = samples.at_readings(workings.found.sensors.deviations)
    if estimate.motion.drive_noise is not None:
        # Residuals contain the noise of the drive, that of the sensors is stated with the motion.
        own = estimate.motion.noise_by_record
        number = np.unique(samples.record, return_inverse=True)[1]
        deviations = np.array([[noise.get(c, 1.0) for c in sight.channels] for noise in own])[number]
    kicks = DriveKicks.of(model, levels, estimate.motion.process_noise or {})
    drives = DriveLaws.of(estimate, names)
    found: list[Window] = []
    total = 0
    for piece in samples.pieces:
        begin, look = piece.start, piece.stop - piece.start
        while begin < piece.stop - 3 and total < cuts.samples:
            stop = min(piece.stop, begin + cuts.samples - total)
            state, vector = _begun(estimate, flow, begin)
            along = Along(flow, observation, samples, deviations, vector, drives, kicks, cuts.scatter)
            # Where windows are short the rest of the record is not followed for each of them.
            near = min(stop, begin + look)
            stretch = _stretch(along, terms, begin, near, state, len(names))
            if near < stop and stretch is not None and len(stretch.residual) == near - begin:
                stretch = _stretch(along, terms, begin, stop, state, len(names))
            if stretch is None:
                break
            count = len(stretch.residual)
            look = max(LOOK, SPARE * count)
            found.append(stretch)
            begin, total = begin + count, total + count
    if not found:
        raise KapitzaError("The fitted motion cannot be followed over any stretch of the record: nothing to test.")
    return found


def begin_states(estimate: Estimate, windows: Sequence[Window]) -> list[tuple[Array, Array]]:
    """Return the state (n,) that each window begins with, and its parameters (npar,)."""
    flow = Flow(estimate.model, tolerance=1e-11)
    return [_begun(estimate, flow, window.begin) for window in windows]


def _begun(estimate: Estimate, flow: Flow, begin: int) -> tuple[Array, Array]:
    """Return the state at a sample and the parameters there."""
    workings, model = workings_of(estimate, MotionWorkings), estimate.model
    samples, solution = workings.task.problem.samples, workings.found.solution
    vector = samples.parameters[begin].copy()
    vector[[model.names.index(n) for n in estimate.names]] = [estimate.values[n] for n in estimate.names]
    nodes = solution.nodes.index
    node = int(np.searchsorted(nodes, begin, side="right")) - 1
    state = solution.states[node]
    if nodes[node] < begin:
        known = float(samples.time[nodes[node]])
        state = flow.propagate(state, known, float(samples.time[begin]), vector, False).state
    return np.asarray(state, np.float64), vector


@dataclass(frozen=True)
class Along:
    """Flow, sensors and samples behind a window.

    flow: with tangents; deviations: noise (N, c) of the samples; vector: parameters (npar,); drives: tested faults;
    kicks: noise of the drives; scatter: as in `Cuts`.
    """

    flow: Flow
    observation: Observation
    samples: Any
    deviations: Array
    vector: Array
    drives: DriveLaws
    kicks: DriveKicks | None = None
    scatter: float = LINEAR


def _stretch(along: Along, terms: Sequence[Term], begin: int, stop: int, state: Array, free: int) -> Window | None:
    """Return one window from sample `begin`.

    It is as long as the tangents stay small; None where the motion cannot be computed.
    """
    flow, observation, samples, vector = along.flow, along.observation, along.samples, along.vector
    time = samples.time[begin:stop]
    refine = _refinement(samples.values[begin:stop], time)
    fine = _refined(time, refine)
    try:
        path, by_state, by_theta = flow.trajectory_tangents(state, fine, vector)
    except FlowError:
        return None
    # Largest and smallest stretch of the tangents since the start of the window.
    stretches = np.linalg.svd(by_state, compute_uv=False)
    far = (stretches[:, 0] < GROWTH) & (stretches[:, 0] < FLATTENING * stretches[:, -1])
    over = np.flatnonzero(~far)
    # A chaotic motion is cut where its tangents have grown too much; a window keeps at least four samples.
    last = len(fine) if not over.size else max(int(over[0]), 4 * refine + 1)
    count = (last - 1) // refine + 1
    last = (count - 1) * refine + 1
    path, by_state, by_theta, fine = path[:last], by_state[:last], by_theta[:last], fine[:last]
    driven = along.drives.along(path, fine, flow, vector)
    pushed = _responses(terms, path, by_state, fine, driven)[::refine]
    path, by_state, by_theta = path[::refine], by_state[::refine], by_theta[::refine]
    part = slice(begin, begin + count)
    vectors = np.broadcast_to(vector, (count, vector.size))
    value, slopes = observation.along(path, time[:count], vectors, (by_state, by_theta))
    to_state = observation.linearise(path, time[:count], vectors)[1]
    # Lost samples have no weight.
    lost = samples.sensor[part] < 0
    weight = np.where(lost, 0.0, 1.0 / along.deviations[part])
    residual = -observation.residual(value, samples.values[part]) * weight
    n = path.shape[1]
    moving = (to_state @ flow.rates(path, time[:count], vector)[..., None])[..., 0]
    # A drift continues over all windows of a record, so time counts from the start of the record.
    since = time[:count] - samples.time[np.argmax(samples.record == samples.record[begin])]
    columns = np.concatenate([to_state @ pushed, slopes[..., n + free :], _sensor_faults(value, since, moving)], axis=2)
    scaled, kicked = weight[..., None], None
    if along.kicks is not None:
        kicked = along.kicks.along(path, time[:count], vector, by_state, to_state * scaled)
    window = Window(
        lost, residual, slopes[..., :n] * scaled, slopes[..., n : n + free] * scaled, columns * scaled, kicked, begin
    )
    if kicked is None:
        return window
    # The noise of the drive carries a nonlinear motion out of the range of its tangents; those of linear equations,
    # the same from every sample to the next, hold everywhere.
    steps = kicked.transition
    if np.allclose(steps, steps[:1], rtol=1e-6, atol=1e-9 * np.abs(steps).max(initial=0.0)):
        return window
    # The noise of a lost sample is infinite.
    added = scatter_of(kicked) * np.where(lost, 0.0, along.deviations[part]) ** 2
    far = np.flatnonzero((added > (along.scatter * samples.spread) ** 2).any(axis=1))
    return window if not far.size else window.first(max(int(far[0]), FEWEST))


def _responses(terms: Sequence[Term], path: Array, by_state: Array, fine: Array, driven: Array) -> Array:
    """Return ∂x(t)/∂c (M, n, m) of terms c·b.

    For terms on the left side it is -Φ(t) ∫ Φ⁻¹ b dt, by the trapezoidal rule. driven: (M, n, d) further terms, on all
    equations at once.
    """
    # Duhamel's formula: a push at s is transported to t by Φ(t) Φ⁻¹(s).
    inverse = _inverses(by_state)
    single = [inverse[:, :, term.state] * -term.law(path, fine)[:, None] for term in terms]
    push = np.concatenate(
        [np.stack(single, axis=2) if single else np.empty((*path.shape, 0)), -inverse @ driven], axis=2
    )
    steps = np.diff(fine)[:, None, None]
    total = np.concatenate([np.zeros((1, *push.shape[1:])), np.cumsum(0.5 * steps * (push[1:] + push[:-1]), axis=0)])
    return by_state @ total


def _inverses(by_state: Array) -> Array:
    """Return Φ⁻¹ (M, n, n); its pseudo-inverse where the motion sticks and forgets the velocity before.

    A push along a direction that the motion has lost does not move it then.
    """
    try:
        return np.asarray(np.linalg.inv(by_state), float)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.pinv(by_state, rcond=1.0 / FLATTENING), float)


def _sensor_faults(value: Array, time: Array, moving: Array) -> Array:
    """Return the columns of sensor errors.

    The columns (N, c, m c) belong to m errors of each channel; moving holds the rates of the channels.
    """
    count, channels = value.shape
    made = np.zeros((count, channels, len(PROPOSED) * channels))
    for number, error in enumerate(PROPOSED):
        assert error.column is not None
        for c in range(channels):
            made[:, c, number * channels + c] = error.column(value[:, c], moving[:, c], time)
    return made


def _refinement(values: Array, time: Array) -> int:
    """Return the steps of the quadrature per sample."""
    centred = values - values.mean(axis=0)
    # Two crossings of the mean per oscillation, of the fastest channel.
    crossings = max(int(np.count_nonzero(np.diff(np.signbit(centred), axis=0), axis=0).max()), 1)
    per_cycle = 2 * len(time) / crossings
    return int(np.clip(np.ceil(PER_CYCLE / per_cycle), 1, FINEST))


def _refined(time: Array, refine: int) -> Array:
    if refine == 1:
        return time
    inner = time[:-1, None] + np.diff(time)[:, None] * (np.arange(refine) / refine)
    return np.append(inner.ravel(), time[-1])
