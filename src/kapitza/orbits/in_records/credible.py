"""Tests that cycles of a section must pass.

A cycle must be closed, unstable, moving, and listed once.
"""

from __future__ import annotations

import numpy as np

from kapitza.base.arrays import Array
from kapitza.orbits import PeriodicOrbit
from kapitza.orbits.in_records.section import Section

Kept = tuple[Array, PeriodicOrbit]

AT_REST = 0.02  # of the range of every channel: a path that spans less is a rest position
SURELY = 4.0  # deviations from which two orbits count as different


def credible(section: Section, kept: list[Kept]) -> tuple[list[Kept], list[tuple[PeriodicOrbit, str]]]:
    """Split cycles into credible orbits and refused ones.

    Cycles are (scaled points, orbit). An orbit of a sustained aperiodic motion is credible. The others come with
    reasons.
    """
    good: list[Kept] = []
    refused: list[tuple[PeriodicOrbit, str]] = []
    # Short cycles first: longer ones are compared with them for repetitions.
    for points, orbit in sorted(kept, key=lambda entry: len(entry[0])):
        reason = _at_rest(section, orbit) or _too_stable(orbit) or _copied(section, points, orbit, good)
        if reason:
            refused.append((orbit, reason))
        else:
            good.append((points, orbit))
    return good, refused


def _at_rest(section: Section, orbit: PeriodicOrbit) -> str:
    crossings = orbit.crossings
    if crossings is None or section.paths is None:
        return ""
    used = [section.channels.index(name) for name in crossings.channels]
    whole = np.ptp(section.paths[:, :, used].reshape(-1, len(used)), axis=0)
    share = float(np.max(np.ptp(crossings.path_values, axis=0) / np.maximum(whole, 1e-300)))
    if share > AT_REST:
        return ""
    return f"its path spans {100 * share:.2g} % of the motion: it is a rest position, not a periodic motion"


def _too_stable(orbit: PeriodicOrbit) -> str:
    """Return the reason to refuse a stable orbit.

    A record that comes near a stable orbit stays there; a record that leaves it again is driven by something else.
    """
    if orbit.stability != "stable" or orbit.multipliers is None:
        return ""
    return (
        f"its multipliers are at most {abs(orbit.multipliers[0]):.2g}: a motion that comes near it would stay, and "
        "this one leaves; it is the mean of a motion that noise drives"
    )


def _copied(section: Section, points: Array, orbit: PeriodicOrbit, good: list[Kept]) -> str:
    """Return the reason to refuse a duplicate cycle.

    A duplicate is a listed cycle, or a repetition of it, within the deviations of both.
    """
    own = _deviation(section, points, orbit)
    for other, shorter in good:
        times, rest = divmod(len(points), len(other))
        if rest:
            continue
        around = _deviation(section, other, shorter)
        shift = np.arange(len(other))[:, None]
        row = (np.arange(len(points)) + shift) % len(other)
        gap = np.abs(section.wrap(points - other[row]))
        if np.any(np.all(gap <= SURELY * np.hypot(own, around[row]), axis=(1, 2))):
            what = "an orbit listed before" if times == 1 else f"{times} turns of an orbit of period {len(other)}"
            return f"within the deviations of both it is not distinguishable from {what}"
    return ""


def _deviation(section: Section, points: Array, orbit: PeriodicOrbit) -> Array:
    if orbit.covariance is None:
        return np.zeros_like(points)
    return np.sqrt(np.maximum(np.diag(orbit.covariance), 0.0)).reshape(points.shape) / section.scale
