"""Comparison of a section with a linear recursion.

Noise through a resonance is predicted by a linear recursion as well as by neighbours.
A chaotic map stretches and folds; no linear recursion follows it, however many steps it remembers. A linear process
driven by noise is predicted by one as well as anything can predict it. So the scatter that neighbours leave
unpredicted is compared with the scatter that the best linear recursion leaves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array
from kapitza.orbits.in_records.local_fit import fit_local
from kapitza.orbits.in_records.section import Section

MEMORY = 4  # steps that the recursion remembers: more than a resonance of two or four states needs
CENTRES = 400  # places of the record at which neighbours are compared
MOST_ROWS = 20_000  # rows from which the recursion is fitted: its scatter is known to 1 %, its few coefficients better


def nonlinear_gain(section: Section, neighbours: int, part: Section | None = None) -> float:
    """Return the scatter of local maps over linear.

    It is the smallest ratio, over the coordinates, of the scatter of local linear maps to that of one linear recursion.
    It is about 1 for linear processes whatever drives them; near 0 for chaotic motion without noise. Both scatters are
    medians over the same places, each corrected for the coefficients that were fitted.
    part: the section with fewer starts, among which neighbours are taken; all by default.
    """
    memory = MEMORY
    # Fewer remembered steps where the record is too short for their coefficients.
    while memory > 1 and np.count_nonzero(_remembered(section, memory)) < 40 * memory * section.dimension:
        memory -= 1
    rows = np.flatnonzero(_remembered(section, memory))
    if len(rows) < 20 * section.dimension:
        return 1.0
    used = rows[:: -(-len(rows) // MOST_ROWS)]
    design, target = _recursion(section, used, memory)
    coefficient = np.linalg.lstsq(design, target, rcond=1e-10)[0]
    chosen = np.linspace(0, len(rows) - 1, min(CENTRES, len(rows))).astype(int)
    fits = fit_local(part or section, section.unit[rows[chosen]], degree=1, neighbours=neighbours, noise_widths=0.0)
    local = np.median(fits.spread, axis=0)
    # The residual of the recursion in the same windows, so that both measures are equally local.
    place = np.minimum(np.searchsorted(rows, fits.rows), len(rows) - 1)
    weight = fits.weight * (rows[place] == fits.rows)
    design, target = _recursion(section, rows[place.ravel()], memory)
    rest = (target - design @ coefficient) * np.sqrt(len(used) / max(len(used) - design.shape[1], 1))
    square = np.einsum("ck,ckn->cn", weight, rest.reshape(*place.shape, -1) ** 2)
    linear = np.median(np.sqrt(square / np.maximum(weight.sum(axis=1), 1e-300)[:, None]), axis=0)
    return float(np.min(local / np.maximum(linear, 1e-300)))


def _recursion(section: Section, rows: NDArray[np.intp], memory: int) -> tuple[Array, Array]:
    """Return the regressors and targets of the recursion.

    At these rows the regressors have shape (R, k) and the targets (R, n).
    """
    image = section.unit[rows + 1]
    target = np.where(section.circle, section.wrap(image - section.unit[rows]), image)
    past = [_regressors(section, section.unit[rows - k]) for k in range(memory)]
    return np.column_stack([np.ones(len(rows)), *past]), target


def _remembered(section: Section, memory: int) -> NDArray[np.bool_]:
    """Return rows with an image and enough past.

    At least memory - 1 points come before such a row.
    """
    able = section.follows.copy()
    for k in range(1, memory):
        able[:k] = False
        able[k:] &= section.follows[:-k] if k else True
    return able


def _regressors(section: Section, unit: Array) -> Array:
    turn = 2 * np.pi * unit[:, section.circle]
    return np.column_stack([unit[:, ~section.circle], np.cos(turn), np.sin(turn)])
