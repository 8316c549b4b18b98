"""Outliers of a fit.

Samples far from the fitted motion while their neighbours follow it.
Without a model only large spikes can be distinguished from the motion (`kapitza.signal.bad_samples`). With one, a
sample counts as an outlier where its residual, less the running median of its neighbours, exceeds what noise gives.
Residuals beside a sharp event of the motion itself (an impact that comes a sample early) are not outliers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy import special

from kapitza.base.arrays import Array, Flags
from kapitza.data import KEEP, SPIKE
from kapitza.errors import Status
from kapitza.estimate.shooting_fit.search import Found, finish, fitter_for
from kapitza.estimate.shooting_fit.task import MotionTask
from kapitza.signal import MEDIAN_TO_DEVIATION, bad_sample_sentence

SMALLEST = 4.5
"""Smallest size of an outlier, in robust deviations."""

ROUGH = 3.5
"""Smallest distance of an outlier from the cubic through the neighbouring residuals, in robust deviations."""

FALSE = 0.005
"""Probability that Gaussian noise alone gives an outlier anywhere in the data."""

MOST = 0.05
"""Largest share of outliers among the samples of a sensor; more are a misfit."""

AROUND = 11
"""Samples of the running median, with the one in the middle left out."""

FEWEST = 40
"""Fewest samples of a sensor that determine the scale of its residuals."""

CUBIC = np.array([-2.0, 3.0, 6.0, 0.0, 6.0, 3.0, -2.0]) / 14
"""Weights of the least-squares cubic through three neighbours on either side."""

ROUNDS = 2
"""Searches for outliers: small ones become visible when large ones are removed."""


def without_outliers(task: MotionTask, found: Found) -> tuple[MotionTask, Found]:
    """Fit again without the outliers.

    The task lists them; unchanged where there are none.
    """
    every = np.zeros(task.problem.samples.values.shape, bool)
    # A robust loss weights outliers down already; kicked states follow them.
    if task.settings.robust or task.settings.process_noise:
        return task, found
    for _ in range(ROUNDS):
        if found.solution.status is not Status.CONVERGED:
            break
        outliers = _outliers(task, found)
        if not outliers.any():
            break
        samples, solution = task.problem.samples, found.solution
        fewer = replace(task, problem=replace(
            task.problem, samples=replace(samples, sensor=np.where(outliers, -1, samples.sensor))
        ))  # fmt: skip
        fitter = fitter_for(fewer, task.settings.softness)
        fitter.sensors = found.sensors
        again = fitter.go_on(solution.theta, solution.states, solution.nodes, solution.sweep.residual)
        if again.status is not Status.CONVERGED:
            break
        every |= outliers
        task, found = replace(fewer, outliers=every), replace(finish(fewer, fitter, again), rivals=found.rivals)
    return task, found


def _outliers(task: MotionTask, found: Found) -> Flags:
    """Return flags (N, c) of the outliers.

    An outlier is out of line with the motion and with its neighbours.
    """
    samples, sweep = task.problem.samples, found.solution.sweep
    made = np.zeros(samples.values.shape, bool)
    kept = [record.content.attrs.get(KEEP) == "keep" for record, _ in task.request.records]
    # Gaussian quantile for the number of samples: long records have larger extremes by chance.
    limit = max(SMALLEST, float(special.ndtri(1.0 - 0.5 * FALSE / max(samples.readings, 1))))
    for s, c in enumerate(found.sensors.channel):
        mine = np.flatnonzero(samples.sensor[:, c] == s)
        if mine.size < FEWEST or kept[found.sensors.record[s]]:
            continue
        residual = sweep.residual[mine, c]
        left = residual - _neighbours(residual)
        # A misfit that varies from sample to sample is smooth; an outlier is not.
        rough = residual - np.convolve(np.pad(residual, len(CUBIC) // 2, mode="reflect"), CUBIC, "valid")
        scale, roughness = (float(np.median(np.abs(one))) * MEDIAN_TO_DEVIATION for one in (left, rough))
        far = (np.abs(left) > limit * scale) & (rough * np.sign(left) > ROUGH * roughness)
        # A glitch smaller than the residuals of a wrong model changes nothing: an encoder of 1 kHz has 3 % of them, of
        # 1e-4 rad, 4 to 15 times smaller than what friction leaves.
        far &= np.abs(left) > float(np.median(np.abs(residual))) * MEDIAN_TO_DEVIATION
        # Beside a sharp event a small error in time looks like an outlier.
        far &= np.abs(left) > 2 * _sharpness(task, sweep.predicted[mine, c], c)
        if scale > 0 and 0 < far.sum() <= MOST * mine.size:
            made[mine[far], c] = True
    return made


def _neighbours(residual: Array) -> Array:
    """Return the median (N,) of the samples around each.

    Itself left out: with it, the scale would be 16 % low.
    """
    half = AROUND // 2
    padded = np.pad(residual, half, mode="reflect")
    around = np.delete(np.lib.stride_tricks.sliding_window_view(padded, AROUND), half, axis=1)
    # Sorted rows take a fifth of the time of np.median, which selects in each row.
    around.sort(axis=1)
    return 0.5 * (around[:, half - 1] + around[:, half])


def _sharpness(task: MotionTask, predicted: Array, c: int) -> Array:
    """Return the sharpness (N,) of the fitted motion.

    It is its distance from the line through its neighbours, the largest within two samples.
    """
    from scipy.ndimage import maximum_filter1d

    bent = np.diff(predicted, 2)
    if task.observation.angles[c]:
        bent = np.arctan2(np.sin(bent), np.cos(bent))
    return maximum_filter1d(np.pad(np.abs(bent), 1), 5)


def outlier_warnings(task: MotionTask) -> Iterator[str]:
    """Yield a warning per channel and record with outliers."""
    outliers, samples = task.outliers, task.problem.samples
    if outliers is None:
        return
    records = [record for record, _ in task.request.records]
    for number, record in enumerate(records):
        mine = samples.record == number
        head = f"record {number}: " if len(records) > 1 else ""
        for c, channel in enumerate(task.observation.channels):
            flags = outliers[:, c] & mine
            if flags.any():
                time = samples.time + record.excitation_start
                yield head + bad_sample_sentence(channel, time, {SPIKE.mark: flags})
