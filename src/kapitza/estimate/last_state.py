"""State of a model at the end of a recording, and its error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kapitza.base.arrays import Array
from kapitza.data import Record
from kapitza.errors import KapitzaError
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.identify import identify
from kapitza.estimate.missing import Cuts, begin_states, rows_of
from kapitza.estimate.shooting_fit import ShootingFit
from kapitza.flow import Flow
from kapitza.model import Model
from kapitza.solve import scaled_inverse

LENGTHS = (20_000, 640, 160, 40)
"""Samples from which the last state is found: the most that the model follows to the noise. From all samples of a fit,
its errors and those of the parameters are independent; from most of them, they are not (bands held 90 %, not 95 %)."""

WEAK = 1e-12
"""Relative information of a direction of the state below which the samples do not determine it."""


@dataclass(frozen=True)
class LastState:
    """State (n,) at the end of a recording.

    time: in the clock of the model. by_parameter (n, k): how the state moves with the free parameters, which it was
    found with; covariance (n, n): by the noise of the sensors, at given parameters.
    """

    state: Array
    time: float
    by_parameter: Array
    covariance: Array


def last_state(
    model: Model, record: Record, measures: Mapping[str, str], noise: Mapping[str, float], free: Sequence[str]
) -> LastState:
    """Return the model's state at the record's end.

    With J and X the sensitivities of the last samples by the free parameters and by the state x_b at their begin, in
    standard deviations of the noise, x_b has the covariance (XᵀX)⁻¹ and moves with the parameters by -(XᵀX)⁻¹XᵀJ.
    The tangents of the flow carry both to the end.

    noise: standard deviation by channel, as fitted; a channel without one counts with 1 % of its spread.
    """
    seen = [c for c in record.channels if c in measures or c in model.states or c in model.outputs]
    piece = record.segments()[-1]
    fit, failure, size = None, None, piece.stop - piece.start
    for length in (min(size, LENGTHS[0]), *(n for n in LENGTHS[1:] if n < size)):
        tail = record.select(seen).samples(slice(piece.stop - length, piece.stop))
        sizes = {c: noise.get(c, 0.0) or 0.01 * (float(np.std(tail.unwrapped()[c])) or 1.0) for c in seen}
        method = ShootingFit(outputs={c: e for c, e in measures.items() if c in seen}, noise=sizes)
        try:
            fit = identify(model, tail, [], method)
        except KapitzaError as error:
            failure = error
            continue
        if fit.misfit is None or fit.misfit.to_the_noise:
            break
    if fit is None:
        raise failure or KapitzaError("The recording is too short to find its last state.")
    return _at_end(fit, tuple(free))


def _at_end(fit: Estimate, free: tuple[str, ...]) -> LastState:
    """Return the last state of a fit without free parameters."""
    assert fit.motion is not None
    window = rows_of(fit, (), (), free, {}, Cuts(fit.motion.sample_times.size, np.inf))[-1]
    by_state, by_free = (part.reshape(-1, part.shape[2]) for part in (window.initial, window.free))
    # Residuals beyond the noise, of a model that misses, make the state less certain.
    left = float(np.mean(window.residual[~window.lost] ** 2)) if not window.lost.all() else 1.0
    spread = scaled_inverse(by_state.T @ by_state, WEAK)
    moved = -spread @ (by_state.T @ by_free)
    begin, end = float(fit.motion.sample_times[window.begin]), float(fit.motion.sample_times[-1])
    state, vector = begin_states(fit, [window])[0]
    run = Flow(fit.model, wrt=free).propagate(state, begin, end, vector)
    assert run.jacobian is not None
    assert run.sensitivity is not None
    by_parameter = run.jacobian @ moved + run.sensitivity
    covariance = max(left, 1.0) * run.jacobian @ spread @ run.jacobian.T
    return LastState(np.asarray(run.state), end, by_parameter, covariance)
