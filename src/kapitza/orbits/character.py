"""What a section looks like before any orbit is sought: too short, periodic, noise, random walk, or deterministic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kapitza.orbits.local_fit import fit_local
from kapitza.orbits.polynomials import term_count
from kapitza.orbits.section import Section

Array = NDArray[np.float64]
UNPREDICTED = 0.25  # 2 % noise on the pendulum's section leaves 0.16; noise and walks leave 0.6 and more


@dataclass(frozen=True)
class Character:
    """kind: "short", "periodic", "noise", "walk" or "deterministic"; sentence: what to tell the user.

    period: steps after which a periodic record repeats, else 0.
    unpredicted: share of the motion that neighbours leave unexplained (0 deterministic, 1 noise).
    """

    kind: str
    sentence: str
    period: int = 0
    unpredicted: float = float("nan")


def describe_section(section: Section, max_period: int, tolerance: float, degree: int = 1) -> Character:
    """Judge a section; only "deterministic" ones are worth a search for unstable orbits."""
    steps = section.size
    if steps < 10:
        return Character(
            "short", f"The record spans {steps} steps of the map; at least ten are needed to see a return."
        )
    repeat = repeating_period(section, 2 * max_period, tolerance)
    if repeat:
        return Character(
            "periodic",
            f"The record repeats itself every {repeat} step(s) ({repeat * section.step:.6g} s): it is periodic, on a "
            "stable orbit. Unstable orbits need a chaotic record; for this one fit the orbit itself.",
            period=repeat,
        )
    least = 4 * term_count(section.dimension, degree)
    if len(section.starts) < 3 * least:
        return Character(
            "short",
            f"The record has {len(section.starts)} steps with an image; local maps of degree {degree} in "
            f"{section.dimension} coordinates need at least {3 * least}. Record longer, or use fewer coordinates.",
        )
    share, of_motion = unpredicted_share(section, least)
    worst = max(share, of_motion)
    if share > UNPREDICTED:
        return Character(
            "noise",
            f"Neighbours do not agree on where they go next ({100 * share:.0f} % of the spread is unpredicted): the "
            "record looks like noise, or has too few coordinates to be a state. Check the channels, or embed it.",
            unpredicted=worst,
        )
    if worst > UNPREDICTED:
        return Character(
            "walk",
            f"Steps are small but not predicted by the position ({100 * of_motion:.0f} % of their spread is left): the "
            "record looks like a random walk or a drift. Remove the drift, or measure the state that drives it.",
            unpredicted=worst,
        )
    return Character("deterministic", "Neighbours agree on where they go next.", unpredicted=worst)


def repeating_period(section: Section, longest: int, tolerance: float) -> int:
    """The smallest p after which nearly all points of the record return within a third of the tolerance, or 0."""
    limit = max(tolerance / 3.0, 6.0 * float(np.max(section.noise)) * np.sqrt(section.dimension))
    limit = min(limit, 0.05)
    for p in range(1, min(longest, section.size // 3) + 1):
        # A slow drift also returns after one step; a periodic record still does so half a record later.
        far = p * max(1, int(section.run.max()) // (2 * p))
        if all(_share_returning(section, lag, limit) > 0.9 for lag in (p, far)):
            return p
    return 0


def _share_returning(section: Section, lag: int, limit: float) -> float:
    rows = np.flatnonzero(section.run >= lag)
    if rows.size < 5:
        return 0.0
    rows = rows[:: max(1, rows.size // 20000)]
    gap = np.linalg.norm(section.wrap(section.unit[rows + lag] - section.unit[rows]), axis=1)
    return float(np.mean(gap <= limit))


def unpredicted_share(section: Section, neighbours: int, centres: int = 400) -> tuple[float, float]:
    """Scatter of the images about local linear maps, relative to the spread of all points and of all steps (medians).

    Noise leaves the first near 1; a random walk leaves the second near 1; deterministic motion leaves both small.
    """
    rows = section.starts[np.linspace(0, len(section.starts) - 1, min(centres, len(section.starts))).astype(int)]
    fits = fit_local(section, section.unit[rows], degree=1, neighbours=max(neighbours, 24), noise_widths=0.0)
    spread = np.median(fits.spread, axis=0)
    overall = _spread(section.unit, section.circle)
    moves = section.wrap(section.unit[section.starts + 1] - section.unit[section.starts])
    steps = _spread(moves, section.circle)
    return float(np.max(spread / overall)), float(np.max(spread / np.minimum(steps, overall)))


def _spread(unit: Array, circle: NDArray[np.bool_]) -> Array:
    """Standard deviation per coordinate; on a circle of unit length about the circular mean."""
    centred = unit - unit.mean(axis=0)
    for column in np.flatnonzero(circle):
        direction = np.angle(np.mean(np.exp(2j * np.pi * unit[:, column]))) / (2 * np.pi)
        offset = unit[:, column] - direction
        centred[:, column] = offset - np.round(offset)
    return np.maximum(centred.std(axis=0), 1e-300)
