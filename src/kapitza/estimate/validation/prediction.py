"""Prediction of stretches that were held back.

The state is fitted to the beginning of each, the parameters are held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kapitza.base.arrays import Array, Flags, Indices
from kapitza.base.monitor import checkpoint
from kapitza.data import Part, Record
from kapitza.errors import DataError, KapitzaError
from kapitza.estimate.observation import Observation, Output, observe
from kapitza.estimate.request import make_request
from kapitza.estimate.sensors import lost_readings
from kapitza.estimate.shooting_fit import ShootingFit
from kapitza.estimate.validation.attractor import maxima_of
from kapitza.estimate.validation.result import NOISES, SHARE, PredictionTest
from kapitza.flow import Flow
from kapitza.model import Model

SHORTEST = 12
"""Fewest samples of a stretch to which its state is fitted."""


@dataclass(frozen=True)
class Begun:
    """Fitted state (n,) at a sample of the record.

    spread: (n,) standard deviation of the states after it.
    """

    sample: int
    state: Array
    spread: Array


def stretches_of(record: Record, count: int) -> list[slice]:
    """Cut a record into stretches of equal length.

    None of them crosses a gap.
    """
    pieces = [piece for piece in record.split_at_gaps().segments() if piece.stop - piece.start >= 2 * SHORTEST]
    if not pieces:
        raise DataError(
            f"No uninterrupted stretch of the record has {2 * SHORTEST} samples: nothing to predict. Record longer."
        )
    total = sum(piece.stop - piece.start for piece in pieces)
    # A stretch needs samples to fit its state and as many to predict.
    length = max(total // count, 2 * SHORTEST)
    found = []
    for piece in pieces:
        size = piece.stop - piece.start
        own = max(size // length, 1)
        cuts = piece.start + np.linspace(0, size, own + 1).astype(int)
        found += [slice(int(a), int(b)) for a, b in pairwise(cuts)]
    return found


def predict_stretches(
    model: Model,
    record: Record,
    outputs: Mapping[str, Output],
    noise: Mapping[str, float],
    count: int,
    warm_up: float,
) -> tuple[PredictionTest, list[Begun]]:
    """Predict every stretch of a record.

    Returns the test, and the fitted state at the first sample of every stretch.
    """
    seen = observe(model, [record], outputs, ())
    deviations = np.array([noise[c] for c in seen.channels])
    lost = np.column_stack([lost_readings(record, c) for c in seen.channels])
    spread = _spread(record, seen, lost)
    flow, vector = Flow(model), model.vector
    starts, errors, misfits, states, failed = [], [], [], [], {}
    longest = 0
    for piece in stretches_of(record, count):
        checkpoint()
        cut = piece.start + max(SHORTEST, int(warm_up * (piece.stop - piece.start)))
        begin = float(record.time[cut - 1])
        try:
            # The state is fitted to the beginning of the stretch only; the rest is predicted.
            warm = slice(piece.start, cut)
            path, residual = _fitted_states(model, record.samples(warm), outputs, seen)
            residual[lost[warm]] = np.nan
            ahead = slice(cut - 1, piece.stop)
            times = record.time[ahead] - record.excitation_start
            run = flow.trajectory(path[-1], times, vector)[1:]
        except KapitzaError as error:
            failed[begin] = str(error).split(". ")[0]
            continue
        value = seen.value(run, times[1:], np.broadcast_to(vector, (len(run), vector.size)))
        error = seen.residual(value.copy(), record.values(seen.channels)[cut : piece.stop])
        # Samples beyond the range of a sensor are not errors of the model.
        error[lost[cut : piece.stop]] = np.nan
        starts.append(begin)
        errors.append(error)
        # In units of the noise and of the signal, as the horizons are.
        misfits.append([float(np.sqrt(np.nanmean((residual / size) ** 2))) for size in (deviations, spread)])
        states.append(Begun(piece.start, path[0], path.std(axis=0)))
        longest = max(longest, len(error))
    step = float(np.median(np.diff(record.time)))
    every = np.full((len(errors), longest, len(seen.channels)), np.nan)
    for row, error in zip(every, errors, strict=True):
        row[: len(error)] = error
    lead: Array = step * np.arange(1.0, longest + 1.0)
    lengths = np.array([len(error) for error in errors], np.intp)
    by_noise, all_noise = _horizons(every, NOISES * deviations, lead, lengths)
    by_signal, all_signal = _horizons(every, SHARE * spread, lead, lengths)
    in_noises, in_spreads = np.array(misfits).reshape(-1, 2).T
    test = PredictionTest(
        seen.channels, np.array(starts), lead, every, deviations, spread, in_noises, in_spreads, by_noise, by_signal,
        np.column_stack([all_noise, all_signal]).reshape(-1, 2), failed,
    )  # fmt: skip
    return test, states


def _fitted_states(
    model: Model, record: Record, outputs: Mapping[str, Output], seen: Observation
) -> tuple[Array, Array]:
    """Return the states fitted to a short record.

    They are (J, n) from its first to its last sample, with the residuals (N, c) of this motion.
    """
    method = ShootingFit(outputs={k: v for k, v in outputs.items() if k in record.channels}, throw=True)  # pyright: ignore[reportArgumentType]
    fit = method.fit(make_request(model, [Part(record)], [], method))
    assert fit.motion is not None
    return fit.motion.states, seen.residual(fit.motion.predicted.copy(), fit.motion.measured)


def _spread(record: Record, seen: Observation, lost: Flags) -> Array:
    columns = zip(record.values(seen.channels).T, seen.angles, lost.T, strict=True)
    return np.array([1.0 if angle else float(v[~gone].std() if not gone.all() else 0.0) or 1.0
                     for v, angle, gone in columns])  # fmt: skip


def _horizons(error: Array, limit: Array, lead: Array, lengths: Indices) -> tuple[Array, Flags]:
    """Return the prediction horizons (S,).

    How long every channel stays within its limit (c,); the second value (S,) is True where it did so to the end of the
    stretch. lengths: (S,) samples predicted. A motion that became infinite has left its limit; a lost sample, NaN, has
    not.
    """
    wrong = np.asarray((np.abs(error) > limit).any(axis=2))
    if not wrong.size:
        # No stretch could be predicted.
        return np.zeros(len(error)), np.zeros(len(error), bool)
    first = np.where(wrong.any(axis=1), wrong.argmax(axis=1), lengths)
    reached = np.concatenate([[0.0], lead])
    return reached[first], np.asarray(~wrong.any(axis=1))


def maxima_intervals(record: Record, channel: str) -> Array:
    """Return the times [s] between maxima of a channel.

    Only prominent maxima count.
    """
    return np.concatenate([np.zeros(0), *(np.diff(record.time[tops]) for _, tops in maxima_of(record, channel))])


def oscillation_of(record: Record, channels: Sequence[str]) -> float:
    """Return the mean period of oscillation [s].

    It is that of the channel with the shortest one.
    """
    times = [intervals.mean() for c in channels if len(intervals := maxima_intervals(record, c)) > 2]
    return float(min(times, default=np.nan))
