"""Section crossings of cycles of an autonomous record.

In the channels of the record: a fit compares these values with a model.
The section has separate, smoothed coordinates u. Every channel at the crossing, and the time τ to the next one, are
functions of u too; the smoother that gives the next crossing gives them as well: y = Σ_i w_i y_i over the neighbours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array
from kapitza.data import Record
from kapitza.orbits import Crossings
from kapitza.orbits.in_records.local_fit import LocalFits
from kapitza.orbits.in_records.locate import Uncertainty
from kapitza.orbits.in_records.polynomials import monomial_slopes, monomials
from kapitza.orbits.in_records.section import Section

AMBIGUOUS = 0.1
"""A channel whose samples scatter by more than this share of their range is not a function of the section's
coordinates.

An example is x on a section of the Lorenz system made from z alone, which does not distinguish x from -x.
"""


PARTS = 12
"""Instants between two crossings at which every channel is kept."""


def paths_between(record: Record, piece: slice, crossing: Array) -> tuple[Array, Array]:
    """Return the channels between crossings, and their rates.

    The channels (M, PARTS, c) run from each crossing (M,) of a segment to the next; the rates (M, c) are at the
    crossings.
    The last crossing has no next one; its path is constant.
    """
    time, values = record.time[piece], record.values()[piece]
    length = np.append(np.diff(crossing), 0.0)
    at = (crossing[:, None] + length[:, None] * np.arange(PARTS) / PARTS).ravel()
    sample = np.clip(np.searchsorted(time, at, side="right") - 1, 0, len(time) - 2)
    step = time[sample + 1] - time[sample]
    states, slopes = between_samples(values, sample, (at - time[sample]) / step)
    shape = (len(crossing), PARTS, values.shape[1])
    return states.reshape(shape), (slopes / step[:, None]).reshape(shape)[:, 0]


def between_samples(values: Array, sample: NDArray[np.intp], share: Array) -> tuple[Array, Array]:
    """Interpolate values and slopes between samples.

    Values and slopes per sample (M, c) at s + share, from the polynomial through samples s-2 … s+3 of columns (N, c).
    """
    knots = np.arange(-2.0, 4.0)
    # Column k: coefficients, lowest power first, of the polynomial that is 1 at knot k and 0 at the others.
    basis = np.linalg.inv(np.vander(knots, increasing=True))
    powers = np.vander(share, knots.size, increasing=True)
    rates = np.column_stack([np.zeros_like(share), powers[:, :-1] * np.arange(1.0, knots.size)])
    near = values[np.clip(sample[:, None] + knots.astype(np.intp), 0, len(values) - 1)]
    return np.einsum("mk,mkc->mc", powers @ basis, near), np.einsum("mk,mkc->mc", rates @ basis, near)


def crossings_of(section: Section, fits: LocalFits, uncertainty: Uncertainty, points: Array) -> Crossings | None:
    """Return the channels at the crossings of a cycle.

    The cycle has shape (p, n). Times and the covariance of all are returned too; None for forced records.
    A crossing late by δt shows as an error -y' δt of the values there.
    """
    if section.paths is None or section.rates is None or section.duration is None:
        return None
    local = section.wrap(points - fits.centre) / fits.width[:, None]
    weight = np.einsum("kq,kqi->ki", monomials(local, fits.degree), fits.influence)
    slope_terms = monomial_slopes(local, fits.degree) / fits.width[:, None, None]
    slope = np.einsum("kqm,kqi->kmi", slope_terms, fits.influence)
    values = section.paths[:, 0]
    response = np.concatenate([values[fits.rows], section.duration[fits.rows][..., None]], axis=2)
    mean = np.einsum("ki,kic->kc", weight, response)
    offset = section.wrap(section.unit[fits.rows] - fits.centre[:, None]) / fits.width[:, None, None]
    fitted = np.einsum("kiq,kqj,kjc->kic", monomials(offset, fits.degree), fits.influence, response, optimize=True)
    rest = response - fitted
    inside = fits.weight > 0
    scatter = np.array([np.sqrt(np.mean(rest[..., c][inside] ** 2)) for c in range(values.shape[1])])
    used = np.flatnonzero(scatter <= AMBIGUOUS * np.ptp(values, axis=0))
    if not used.size:
        return None
    rates = np.einsum("ki,kic->kc", weight, section.rates[:, used][fits.rows])
    # The last column is the time to the next crossing.
    columns = np.append(used, values.shape[1])
    by_point = np.einsum("kmi,kic->kcm", slope, response[..., columns])
    paths = np.einsum("ki,kisc->ksc", weight, section.paths[:, :, used][fits.rows])
    times = np.concatenate([[0.0], np.cumsum(mean[:, -1])])
    fractions = np.arange(PARTS) / PARTS
    return Crossings(
        channels=tuple(section.channels[c] for c in used),
        values=mean[:, used],
        times=times[:-1],
        covariance=_covariance(uncertainty.points, by_point, weight, rest[..., columns], rates),
        path_times=(times[:-1, None] + fractions * np.diff(times)[:, None]).ravel(),
        path_values=paths.reshape(-1, used.size),
    )


def _covariance(places: Array, by_point: Array, weight: Array, rest: Array, rates: Array) -> Array:
    """Return the covariance of values and period.

    The values are those at given times; errors come from the cycle's points and from the samples.
    """
    p, n, count = len(weight), by_point.shape[2], rates.shape[1]
    spread = np.zeros((p, count + 1, p, n))
    spread[np.arange(p), :, np.arange(p), :] = by_point
    spread = spread.reshape(p * (count + 1), p * n)
    own = spread @ places @ spread.T
    own = own.reshape(p, count + 1, p, count + 1)
    direct = np.einsum("ki,kic,kid->kcd", weight**2, rest, rest)
    own[np.arange(p), :, np.arange(p), :] += direct
    # Values at given times: the time of crossing k is the sum of the durations before it.
    turn = np.zeros((p * count + 1, p, count + 1))
    for k in range(p):
        rows = np.arange(k * count, (k + 1) * count)
        turn[rows, k, np.arange(count)] = 1.0
        turn[rows, :k, count] = -rates[k][:, None]
    turn[-1, :, count] = 1.0
    turn = turn.reshape(p * count + 1, -1)
    return turn @ own.reshape(p * (count + 1), -1) @ turn.T
