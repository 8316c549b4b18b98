"""Test whether delay coordinates determine the state.

The value that the record shows a moment later must follow from them.
Where two sheets of the attractor overlap, neighbours agree in all coordinates and are different states. A return or a
cycle located there is false. On one sheet the sample after the last delay is a smooth function of the coordinates;
over two it takes two values.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kapitza.base.angles import wrap_states
from kapitza.base.arrays import Array
from kapitza.data import Record
from kapitza.orbits import OrbitSet
from kapitza.orbits.in_records.polynomials import monomials, term_count
from kapitza.orbits.in_records.section import Section

APART = 0.05
"""Scatter of the next sample about a smooth function, as a share of its range, from which there are two sheets."""

CLOSE = 0.02
"""Scatter from which there are two sheets, while other coordinates may still be chosen."""

LOOKED_AT = 300
"""Points of a section at which its coordinates are tested for being a state."""

FOLDED = 0.05
"""Share of these points with two sheets from which the coordinates are not a state."""


def scatter_ahead(section: Section, record: Record, names: tuple[str, ...], delay: int, points: Array) -> Array:
    """Return the scatter (P,) of the next samples.

    It is how far samples after the last delay deviate from a smooth function of the coordinates, near points (P, n).
    In ranges of the channel, the largest over channels; noise is subtracted. It is NaN where the record ends before.
    """
    later = delay * (section.dimension // len(names))
    terms = term_count(section.dimension, 2)
    _, rows = section.nearest(points, 5 * terms)
    at = section.sample[rows] + later
    segment = record.content.segment
    inside = (at < record.size) & (segment[np.minimum(at, record.size - 1)] == segment[section.sample[rows]])
    offset = section.wrap(section.unit[rows] - points[:, None])
    values = record.values(names)[np.minimum(at, record.size - 1)] / section.scale[: len(names)]
    turning = np.asarray(section.angles[: len(names)], bool)
    found = np.full(len(points), np.nan)
    for i in range(len(points)):
        chosen = inside[i]
        if chosen.sum() < 3 * terms:
            continue
        ahead = values[i, chosen]
        ahead = wrap_states((ahead - ahead[0]) * 2 * np.pi, turning) / (2 * np.pi)
        width = float(np.abs(offset[i, chosen]).max()) or 1.0
        design = monomials(offset[i, chosen] / width, 2)
        rest = ahead - design @ np.linalg.lstsq(design, ahead, rcond=None)[0]
        size = (rest**2).sum(axis=0) / (chosen.sum() - terms)
        found[i] = np.sqrt(np.maximum(size - 4 * section.noise[: len(names)] ** 2, 0.0).max())
    return found


def is_folded(section: Section, record: Record, names: tuple[str, ...], delay: int) -> bool:
    """Test whether sheets overlap on much of a section."""
    rows = section.starts[np.linspace(0, len(section.starts) - 1, min(LOOKED_AT, len(section.starts))).astype(int)]
    found = scatter_ahead(section, record, names, delay, section.unit[rows])
    return bool(np.nanmean(found > CLOSE) > FOLDED) if np.isfinite(found).any() else False


def without_folds(orbits: OrbitSet, section: Section, record: Record, names: tuple[str, ...], delay: int) -> OrbitSet:
    """Refuse orbits where two sheets overlap.

    The others are kept; refused ones are listed with the reason.
    """
    kept, refused = [], list(orbits.rejected)
    for orbit in orbits:
        points = section.canonical(np.asarray(orbit.points, float) / section.scale)
        found = scatter_ahead(section, record, names, delay, points)
        worst = float(np.nanmax(found)) if np.isfinite(found).any() else 0.0
        if worst > APART:
            reason = f"one more delay shows two sheets there, {100 * worst:.2g} % of the range apart: not a return"
            refused.append((orbit, reason))
        else:
            kept.append(orbit)
    lost = len(orbits) - len(kept)
    if not lost:
        return orbits
    said = f"{orbits.message} {lost} of them refused: the delay coordinates have two sheets there."
    return replace(orbits, orbits=tuple(kept), rejected=tuple(refused), message=said)
