"""Largest Lyapunov exponent of a section.

It follows from the Jacobians of maps fitted along the section.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from kapitza.base.arrays import Array
from kapitza.base.monitor import checkpoint
from kapitza.errors import DataError
from kapitza.orbits.in_records.local_fit import fit_local
from kapitza.orbits.in_records.polynomials import term_count
from kapitza.orbits.in_records.section import Section
from kapitza.signal import Lyapunov

STRETCHES = 32  # whose scatter gives the interval of the exponent
ALIGN = 8  # steps after which a vector has turned into the most stretched direction
LONGEST = 200  # steps of a stretch, at most
SHOWN = 12  # steps of the growth that is drawn


def section_exponent(section: Section, divergence: Lyapunov | None = None) -> Lyapunov:
    """Estimate the largest Lyapunov exponent of a section.

    It is λ = mean of log |A_k v_k| per step over the mean time of a step, with its 90 % interval.
    A_k are the Jacobians of local maps with the noise on both sides taken into account, v_k a vector carried along the
    record. Noise, folds and cusps bias such an estimate by more than its scatter. It is therefore made with linear and
    quadratic maps, in narrow and wide windows, and beside the slope by which neighbours separate (`divergence`): the
    value is the median, and the interval holds all of them, each widened by Student's interval over stretches of the
    record.
    """
    rows = _stretches(section)
    step = section.step if section.duration is None else float(np.nanmean(section.duration[section.starts]))
    # (degree, neighbours per term): quadratic, linear, and quadratic in wide windows.
    settings = ((2, 8), (1, 8), (2, 16))
    found = [_mean_stretch(section, rows, *setting) for setting in settings]
    means = found[0][2]
    reach = float(stdtrit(len(means) - 1, 0.95) * np.std(means, ddof=1) / np.sqrt(len(means))) / step
    values = [value / step for value, _, _ in found]
    low, high = min(values) - reach, max(values) + reach
    if divergence is not None and np.isfinite(divergence.value):
        values.append(divergence.value)
        low, high = min(low, divergence.low), max(high, divergence.high)
    growth = found[0][1]
    times: Array = np.asarray(np.arange(len(growth)) * step, float)
    return Lyapunov(float(np.median(values)), low, high, times, growth, (0, len(growth) - 1))


def _stretches(section: Section) -> NDArray[np.intp]:
    """Return rows (S, L) of stretches without gaps.

    They are spread over the record.
    """
    # A stretch must hold the alignment and the growth that is drawn.
    length = int(np.clip(section.size // STRETCHES, ALIGN + SHOWN, LONGEST))
    able = np.flatnonzero(section.run >= length)
    if len(able) < 3 * length:
        raise DataError(
            f"The section has no three stretches of {length} steps without a gap: record longer for an exponent."
        )
    count = int(min(STRETCHES, len(able) // length))
    first = able[np.linspace(0, len(able) - 1, count).astype(int)]
    return first[:, None] + np.arange(length)


def _mean_stretch(section: Section, rows: NDArray[np.intp], degree: int, per_term: int) -> tuple[float, Array, Array]:
    """Return the mean log stretch per step.

    Its mean course over the first steps after alignment and the mean of each stretch are returned too.
    """
    count, length = rows.shape
    n = section.dimension
    neighbours = min(per_term * term_count(n, degree), max(3 * term_count(n, degree), section.size // 15))
    centres = section.unit[rows].reshape(-1, n)
    parts = []
    # Batches bound the memory of the neighbours.
    for first in range(0, len(centres), 500):
        checkpoint()
        here = centres[first : first + 500]
        fits = fit_local(
            section,
            here,
            degree=degree,
            neighbours=neighbours,
            search=4 * neighbours,
            noise_widths=2.0,
        )
        parts.append(fits.jacobian(here, section))
    jacobian = np.concatenate(parts).reshape(count, length, n, n)
    # A random vector has a component along the most stretched direction.
    vector = np.random.default_rng(0).normal(size=(count, n))
    logs = np.empty((count, length))
    for k in range(length):  # along a stretch, all stretches together
        vector = np.einsum("sab,sb->sa", jacobian[:, k], vector)
        size = np.maximum(np.linalg.norm(vector, axis=1), 1e-300)
        logs[:, k] = np.log(size)
        vector /= size[:, None]
    logs = logs[:, ALIGN:]
    growth = np.concatenate([[0.0], np.cumsum(logs.mean(axis=0)[:SHOWN])])
    return float(logs.mean()), growth, logs.mean(axis=1)
