"""Classification of a section before the search for orbits.

The kinds are too short, periodic, noise, random walk, deterministic, and others of `Character`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kapitza.base.angles import TURN, mean
from kapitza.base.arrays import Array, Indices
from kapitza.orbits.in_records.linear import nonlinear_gain
from kapitza.orbits.in_records.local_fit import fit_local
from kapitza.orbits.in_records.polynomials import term_count
from kapitza.orbits.in_records.section import Section
from kapitza.signal import line_spectrum, noise_level

CLOUDED = 0.05  # turning points of filtered noise scatter by 0.14 of its range, those of a sine with 5 % noise by 0.01
ENOUGH = 300  # steps below which a few wide windows make a chaotic map look like noise
ENOUGH_FOR_NEIGHBOURS = 40_000  # points of a long section whose neighbours are tested first; those of `section_noise`
ENOUGH_ROWS = 20_000  # rows of a long section whose returns are tested
ENOUGH_FOR_SPREAD = 200_000  # rows from which the spread of a long section is taken
CLOUD = (
    " One cloud about one point may also be a response with the period of the drive, with noise: record more samples "
    "per period to distinguish the two."
)
LINEAR = 0.6  # gain of neighbours over a linear recursion: linear processes 0.87 and more, chaos with 5 % noise 0.38
WALK = 0.6  # share of the steps the position does not predict: random walk 1, damped rotation about a point 0.5
UNPREDICTED = 0.25  # 2 % noise on the pendulum's section leaves 0.16; noise and random walks leave 0.6 and more


@dataclass(frozen=True)
class Character:
    """Kind of a section, with a sentence for the user.

    The kinds are "short", "periodic", "quasi-periodic", "decay", "noise", "walk", "resonance" (a linear system that
    noise drives) and "deterministic".

    period: steps after which a periodic record repeats, else 0.
    unpredicted: share of the motion that neighbours leave unexplained (0 deterministic, 1 noise).
    """

    kind: str
    sentence: str
    period: int = 0
    unpredicted: float = float("nan")


def describe_section(section: Section, max_period: int, tolerance: float, degree: int = 1) -> Character:
    """Classify a section.

    Only "deterministic" sections are worth a search for unstable orbits.
    """
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
    almost = almost_period(section)
    if almost and not in_bands(section):
        return Character(
            "quasi-periodic",
            f"All of the record comes back close to itself after {almost} steps ({almost * section.step:.6g} s), as "
            "chaotic motion never does: it is quasi-periodic (several frequencies), periodic with a period longer than "
            "requested, or decays slowly. There are no unstable orbits in it; fit a model to the series itself.",
        )
    decay = decay_factor(section)
    if decay >= 0.5 and (said := _said_lines(section)) and not noisy_period(section, 2 * max_period):
        return Character("quasi-periodic", said)
    if decay < 0.5:
        return Character(
            "decay",
            f"The motion dies out: its spread falls to {100 * decay:.2g} % from the first sixth of the record to the "
            "last. Orbits need sustained motion; fit a model to the series itself.",
        )
    # Four points per coefficient of a local map.
    least = 4 * term_count(section.dimension, degree)
    share, of_motion = np.inf, np.inf
    # Fewer points widen the windows, which adds to the scatter: what a part predicts all points predict.
    part = section.thinned(ENOUGH_FOR_NEIGHBOURS)
    if len(section.starts) >= 3 * least:
        share, of_motion = unpredicted_share(part, least)
        if part is not section and max(share, of_motion) > UNPREDICTED:
            share, of_motion = unpredicted_share(section, least)
    worst = max(share, of_motion)
    if worst > UNPREDICTED:
        repeat = noisy_period(section, 2 * max_period)
        if repeat:
            return Character(
                "periodic",
                f"The record stays about {repeat} point(s), with a scatter that the motion does not explain: it is "
                f"periodic with noise, and repeats every {repeat} step(s) ({repeat * section.step:.6g} s). Unstable "
                "orbits need a chaotic record; for this one fit the orbit itself.",
                period=repeat,
                unpredicted=worst,
            )
    # A record whose few neighbours agree needs no further length.
    needed = max(3 * least, ENOUGH if worst > UNPREDICTED else 0)
    if len(section.starts) < needed:
        return Character(
            "short",
            f"The record is too short to tell chaos from noise: the motion returned to its section "
            f"{len(section.starts)} times, and maps of degree {degree} in {section.dimension} coordinates need at "
            f"least {needed}. To find periodic orbits record longer, or use fewer coordinates; a fit needs neither.",
        )
    if share > UNPREDICTED:
        return Character(
            "noise",
            f"Neighbours do not agree on where they go next ({100 * share:.0f} % of the spread is unpredicted): the "
            "record looks like noise, or has too few coordinates to be a state. Check the channels, or embed it."
            + CLOUD
            * (section.extent is None and _one_cloud(section)),
            unpredicted=worst,
        )
    gain = nonlinear_gain(section, max(least, 24), part)
    if part is not section and gain > LINEAR:
        gain = nonlinear_gain(section, max(least, 24))
    if worst > UNPREDICTED and (worst > WALK or gain <= LINEAR):
        return Character(
            "walk",
            "Steps are small and not predicted by the position: the record looks like a random walk or a drift. Remove "
            "the drift, or measure the state that drives it.",
            unpredicted=worst,
        )
    if gain > LINEAR:
        return Character(
            "resonance",
            f"Neighbours predict with {gain:.2g} of the error of a linear recursion (chaotic motion 0.4 and less): "
            "this is a linear system that noise drives, or several frequencies, not chaos. There are no unstable "
            "orbits in it; fit a model to the series itself, with process_noise.",
            unpredicted=worst,
        )
    return Character("deterministic", "Neighbours agree on where they go next.", unpredicted=worst)


def _said_lines(section: Section) -> str:
    """Describe a motion that is a sum of sinusoids.

    Returns a sentence with the number of frequencies; "" where the motion is not such a sum.
    """
    if section.signal is not None:
        signal = section.signal
        noise = float(noise_level(signal[:, None])[0]) if len(signal) >= 200 else 0.0
    elif (~section.circle).any():
        column = int(np.argmax(~section.circle))
        signal, noise = _longest_stretch(section)[:, column], float(section.noise[column])
    else:
        return ""
    if len(signal) < 200:
        return ""
    found = line_spectrum(signal, noise)
    if not found.hold or in_bands(section):
        return ""
    return (
        f"{len(found.turns)} sinusoids fitted to the first half of the record predict the second to "
        f"{100 * found.error:.2g} % of its spread, as they never do for chaotic motion: it is quasi-periodic (several "
        "frequencies) or periodic with a period longer than requested. There are no unstable orbits in it; fit a model "
        "to the series itself."
    )


def repeating_period(section: Section, longest: int, tolerance: float) -> int:
    """Return the period of a periodic record, or 0.

    It is the smallest p after which nearly all points of the record return within a third of the tolerance.
    """
    noise = section.noise if section.extent is None else section.noise / section.extent
    limit = max(tolerance / 3.0, 6.0 * float(np.max(noise)) * np.sqrt(section.dimension))
    # With strong noise everything would return within six deviations.
    limit = min(limit, 0.05)
    for p in range(1, min(longest, section.size // 3) + 1):
        if all(_share_returning(section, lag, limit) > 0.9 for lag in _multiples(section, p)):
            return p
    return 0


def _multiples(section: Section, p: int) -> list[int]:
    """Return lags at which a periodic motion must return.

    They are multiples of p up to half the longest stretch: drifts and beats return after one p, but not after all
    multiples.
    """
    most = max(1, int(section.run.max()) // (2 * p))
    return [p * k for k in sorted({1, *(k for k in (2, 3, 5, 8, 13, 21) if k < most), most})]


def almost_period(section: Section, largest: int = 20_000) -> int:
    """Return a lag after which the whole motion returns.

    It is a lag between a quarter and half of the longest stretch after which all points return to a third of the
    spread: rms |z_{i+lag} - z_i| ≤ 0.3 of the standard deviation of z in every coordinate (angles as points on a
    circle; derivatives, which carry more noise, left out); 0 when there is none. It is found from the autocorrelation
    in n log n operations.
    """
    from scipy.signal import correlate

    stretch = _longest_stretch(section)[:largest]
    if len(stretch) < 40:
        return 0
    columns = []
    for column in np.flatnonzero(~_derivative(section)):
        circle, x = section.circle[column], 2 * np.pi * stretch[:, column]
        columns += [np.cos(x), np.sin(x)] if circle else [stretch[:, column]]
    count = len(stretch)
    # Shorter lags return in chaotic motion too; longer ones leave too few pairs.
    lags = np.arange(count // 4, count // 2)
    worst = np.zeros(len(lags))
    whole = max(float(np.std(x)) for x in columns)
    for x in columns:
        centred = x - x.mean()
        product = correlate(centred, centred, method="fft")[count - 1 + lags]
        power = np.concatenate([[0.0], np.cumsum(centred**2)])
        square = power[count - lags] + (power[count] - power[lags]) - 2 * product
        # The cosine of an angle that hardly moves is mostly noise: compare it with the size of the others.
        size = max(float(np.var(x)), 0.01 * whole**2)
        worst = np.maximum(worst, square / (count - lags) / size)
    best = int(np.argmin(worst))
    return int(lags[best]) if worst[best] <= 0.09 else 0


def in_bands(section: Section, most: int = 64) -> bool:
    """Test for a chaotic attractor of several bands.

    True if p ≤ `most` bands, visited in turn, explain that the record comes back.
    After any multiple of p steps such motion is within its band, without being quasi-periodic. Three properties
    distinguish it from quasi-periodic, periodic and noisy periodic motion: every p-th point stays in a narrow band, it
    moves within the band from visit to visit (no slow drift), and neighbours in the band agree on where they go.
    """
    stretch = _longest_stretch(section)
    # The standard deviation of a band is taken over at least 40 passes.
    for p in range(2, min(most, len(stretch) // 40) + 1):
        passes = stretch[: len(stretch) // p * p].reshape(-1, p, section.dimension)
        offset = section.wrap(passes - passes[0])
        band = np.sqrt(np.mean(np.var(offset, axis=0), axis=0))
        # The returns of `almost_period` are within 0.3 spreads; points of one band are √2 of its spread apart.
        if np.all(np.sqrt(2.0) * band < 0.37 * _spread(stretch, section.circle)):
            moves = np.sqrt(np.mean(np.diff(offset, axis=0) ** 2, axis=(0, 1)))
            scatter = unpredicted_scatter(section, 24)
            return bool(np.any(band > 1e-6) and np.all(moves >= 0.5 * band) and np.all(scatter <= 0.5 * band))
    return False


def _longest_stretch(section: Section) -> Array:
    first = int(np.argmax(section.run))
    return section.unit[first : first + int(section.run[first]) + 1]


def decay_factor(section: Section, parts: int = 6) -> float:
    """Return the ratio of last to first spread.

    The longest stretch is cut into parts; the ratio is 1 unless the spread falls from each part to the next.
    """
    stretch = _longest_stretch(section)
    # At least 20 points per part for a standard deviation.
    if len(stretch) < 20 * parts:
        return 1.0
    spreads = np.array([_spread(part, section.circle) for part in np.array_split(stretch, parts)])
    size = np.linalg.norm(spreads, axis=1)
    return float(size[-1] / size[0]) if np.all(np.diff(size) < 0) else 1.0


def _share_returning(section: Section, lag: int, limit: float) -> float:
    rows = _rows_before(section, lag)
    if rows.size < 5:
        return 0.0
    gap = section.wrap(section.unit[rows + lag] - section.unit[rows])
    # A section may show a small part of the motion only: measure a return against the whole motion.
    gap = np.linalg.norm(gap if section.extent is None else gap / section.extent, axis=1)
    return float(np.mean(gap <= limit))


def _rows_before(section: Section, lag: int) -> Indices:
    """Return rows that `lag` images follow, about `ENOUGH_ROWS` of those of a long section."""
    step = max(1, section.size // ENOUGH_ROWS)
    found = step * np.flatnonzero(section.run[::step] >= lag)
    # Long lags leave few rows of every stretch: all are needed then.
    return found if step == 1 or found.size >= ENOUGH_ROWS // 4 else np.flatnonzero(section.run >= lag)


def noisy_period(section: Section, longest: int) -> int:
    """Return the period of a noisy periodic record.

    The smallest p such that every p-th point stays in one small cloud, or 0; for points that nothing predicts.
    Small: a standard deviation below `CLOUDED` of the whole motion where the record shows it beyond the section
    (`extent`; derivatives, which carry more noise, below 0.3), or below a fifth of the spread of all points.
    """
    limit = np.where(_derivative(section), 0.3, CLOUDED)
    whole = 0.2 * _spread(section.unit, section.circle)
    for p in range(1, min(longest, section.size // 10) + 1):
        inside = np.max([_lagged_spread(section, lag) for lag in _multiples(section, p)], axis=0)
        if section.extent is not None and np.all(inside < limit * section.extent):
            return p
        if p > 1 and np.all(inside < whole):
            return p
    return 0


def _lagged_spread(section: Section, lag: int) -> Array:
    """Return the standard deviation (n,) of lagged points.

    Four fifths of the differences of points `lag` steps apart are within 1.28 √2 standard deviations.
    A quantile, because noise occasionally adds a false turning point.
    """
    rows = _rows_before(section, lag)
    if rows.size < 5:
        return np.full(section.dimension, np.inf)
    gap = section.wrap(section.unit[rows + lag] - section.unit[rows])
    return np.quantile(np.abs(gap), 0.8, axis=0) / (1.2816 * np.sqrt(2.0))


def _derivative(section: Section) -> NDArray[np.bool_]:
    """Return which coordinates of a turning section are derivatives.

    A derivative is a curvature or higher, named by two primes at its end.
    """
    return np.array([k > 0 and name.endswith("''") for k, name in enumerate(section.states)])


def _one_cloud(section: Section) -> bool:
    """Test for one compact cloud of points.

    True where the spread is small against the distance from zero.
    """
    centre = np.abs(section.unit.mean(axis=0))
    # A strobed response with the period of the drive gives such a cloud.
    return bool(np.any(_spread(section.unit, section.circle) < 0.2 * centre))


def unpredicted_share(section: Section, neighbours: int, centres: int = 400) -> tuple[float, float]:
    """Return the scatter about local linear maps, relative.

    The shares are relative to the spread of all points and of all steps (medians).
    Noise leaves the first near 1; a random walk leaves the second near 1; deterministic motion leaves both small.
    """
    spread = unpredicted_scatter(section, max(neighbours, 24), centres)
    # A standard deviation to a part in a thousand is enough for a share.
    some = section.starts[:: max(1, len(section.starts) // ENOUGH_FOR_SPREAD)]
    overall = _spread(section.unit[some], section.circle)
    moves = section.wrap(section.unit[some + 1] - section.unit[some])
    steps = _spread(moves, section.circle)
    return float(np.max(spread / overall)), float(np.max(spread / np.minimum(steps, overall)))


def unpredicted_scatter(section: Section, neighbours: int, centres: int = 400) -> Array:
    """Return the scatter (n,) about local linear maps.

    It is the standard deviation of the images, as the median over places of the record.
    """
    rows = section.starts[np.linspace(0, len(section.starts) - 1, min(centres, len(section.starts))).astype(int)]
    fits = fit_local(section, section.unit[rows], degree=1, neighbours=neighbours, noise_widths=0.0)
    return np.median(fits.spread, axis=0)


def _spread(unit: Array, circle: NDArray[np.bool_]) -> Array:
    """Return the standard deviation per coordinate.

    Angles, on a circle of unit length, are taken about the circular mean.
    """
    centred = unit - unit.mean(axis=0)
    for column in np.flatnonzero(circle):
        direction = mean(TURN * unit[:, column]) / TURN
        offset = unit[:, column] - direction
        centred[:, column] = offset - np.round(offset)
    return np.maximum(centred.std(axis=0), 1e-300)
