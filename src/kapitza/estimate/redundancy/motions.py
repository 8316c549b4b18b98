"""Rank of the sensitivities over random motions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.linalg import orth

from kapitza.base.arrays import Array
from kapitza.errors import KapitzaError
from kapitza.estimate.observation import Observation
from kapitza.flow import Flow
from kapitza.model import Model

RUNS, SAMPLES, TIME = 8, 60, 4.0
"""Number of motions from random states, samples of each, and their mean duration."""

NULL, CLEAR = 1e-10, 1e-8
"""Relative singular values of the sensitivities up to which they are zero, and from which they are not; between the two
the rank is undecided."""


OTHER_SIZES = (-2, -1, 1, 2)
"""Powers of ten of the sizes of states and begins at which motions are tried too where those of size 1 show less than
the equations: they may not reach a stop, or end before a drive begins."""

LONGER = (10.0, 100.0)
"""Factors of the duration of further motions of size 1 from time 0: a drive may act for a short time between the begins
above."""


def rank_by_motions(
    model: Model, seen: Observation, free: Sequence[str], settings: Sequence[Mapping[str, float]], rank: int
) -> int | None:
    """Return the rank of ∂ outputs/∂θ over random motions.

    Motions start from random states, which are themselves unknown; None where the rank is not clear. It cannot exceed
    the structural `rank`. It is smaller where a change of the parameters is undone by one of the coordinates that is
    not a scale, shift or mixture.
    """
    if model.is_map or model.delays or model.impacts or not np.isfinite(list(model.values.values())).all():
        return None
    # Full precision: the rank test compares singular values over ten decades.
    flow = Flow(model, wrt=tuple(free), tolerance=1e-16)
    rows = _sensitivities(flow, seen, free, settings, np.ones(RUNS))
    if len(rows) < RUNS // 2:
        return None
    found = _rank(rows)
    if found is not None and found >= rank:
        return found
    rows += _sensitivities(flow, seen, free, settings, np.repeat(10.0 ** np.array(OTHER_SIZES), 2))
    found = _rank(rows)
    if found is not None and found >= rank:
        return found
    for longer in LONGER:
        more = _rank(rows + _sensitivities(flow, seen, free, settings, np.ones(2), longer))
        # Long motions may amplify rounding: they can show more, and never less.
        found = more if found is None or (more is not None and more > found) else found
    return found


def _rank(rows: list[Array]) -> int | None:
    """Return the rank of sensitivities; None where it is not clear."""
    values = np.linalg.svd(np.concatenate(rows), compute_uv=False)
    # A value between the limits may be rounding or a weak dependence.
    if ((values > NULL * values[0]) & (values < CLEAR * values[0])).any():
        return None
    return int((values > CLEAR * values[0]).sum())


def _sensitivities(
    flow: Flow,
    seen: Observation,
    free: Sequence[str],
    settings: Sequence[Mapping[str, float]],
    sizes: Array,
    longer: float | None = None,
) -> list[Array]:
    """Return the scaled sensitivities along a motion of each size, without what initial states explain.

    longer: factor of the duration of motions that begin at time 0.
    """
    model, rng, rows = flow.model, np.random.default_rng(0), []
    scale = np.array([model.values[n] or 1.0 for n in free])
    for run, size in enumerate(sizes):
        # The settings of the recordings take turns.
        vector = model.with_values(**settings[run % len(settings)]).vector
        start = rng.uniform(0.4, 1.4, len(model.states)) * (rng.choice([-1, 1], len(model.states)) if run % 2 else 1)
        start *= size
        duration = TIME * rng.uniform(0.5, 1.5)
        times = 0.3 * size + np.linspace(0.0, duration, SAMPLES)
        if longer is not None:
            times = np.linspace(0.0, longer * duration, SAMPLES * int(longer))
        try:
            states, by_state, by_theta = flow.trajectory_tangents(start, times, vector)
        except KapitzaError:
            continue
        _, slopes = seen.along(states, times, np.broadcast_to(vector, (times.size, vector.size)), (by_state, by_theta))
        flat = slopes.reshape(-1, slopes.shape[-1])
        if not np.isfinite(flat).all():
            continue
        # Changes that unknown initial states explain carry no information on the parameters.
        initial = flat[:, : start.size]
        basis = orth(initial / np.linalg.norm(initial, axis=0).clip(1e-300))  # any sign: Q Qᵀ
        own = flat[:, start.size :] * scale
        rows.append((own - basis @ (basis.T @ own)) / max(float(np.abs(own).max()), 1e-300))
    return rows
