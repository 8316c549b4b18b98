"""Misfit of weak rows, and their loss of efficiency.

Rows are compared with their noise; the loss is relative to the best use of the samples.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import special

from kapitza.base.arrays import Numbers
from kapitza.estimate.faults import strongest
from kapitza.estimate.harmonic_fit.alternatives import linear_values, whitened
from kapitza.estimate.harmonic_fit.problem import SHORTEST_WINDOW, WeakProblem, weigh
from kapitza.estimate.harmonic_fit.regressors import Regressors, Smoothed
from kapitza.estimate.harmonic_fit.second_order import UNCORRECTABLE, Tested
from kapitza.estimate.harmonic_fit.solvers import RowSolution
from kapitza.estimate.harmonic_fit.weak import Rows, Whitener, row_covariance, whitener
from kapitza.estimate.harmonic_fit.windows import Windows
from kapitza.estimate.misfit import ALARM, Misfit, chance_of_level, place_of, scores_of, structure, with_fault

TOLERANCE = 1.03
"""Largest mean square of whitened rows of a right model, by second-order noise and sums in place of integrals."""

NUMERICAL = 1e-5
"""Residuals of the equations below this share of their terms may come from sampling and are not a misfit."""


EXACT = 1e-6
"""Noise below this share of a channel's spread counts as zero: the attainable error then depends on rounding."""


def misfit_of(
    problem: WeakProblem,
    solution: RowSolution,
    left: list[Numbers],
    regressors: Regressors,
    values: Numbers,
    tested: Tested,
) -> Misfit:
    """Return the misfit of weak rows at the solution.

    left: residual rows (windows, rows) of every piece at `values`. Three tests, of which the most significant counts:
    the mean square of the whitened rows, a band of frequencies in them, and what terms that are not in the equations
    (powers, drag, a drive) would explain of them. Faults of the measurement (gains, the clock, …) are computed as well.
    """
    here = replace(problem, regressors=regressors)
    factors = (tested.weights.at(values) if tested.weights else None) or weigh(here, values)
    white = [factor(Rows(np.zeros((*r.shape, 1)), r)).rest for factor, r in zip(factors, left, strict=True)]
    flat = np.concatenate([w.ravel() for w in white])
    dof = max(flat.size - len(solution.theta), 1)
    level = float(flat @ flat) / dof
    curved = _curved(problem)
    uncorrectable = tested.share >= UNCORRECTABLE
    # Values biased by noise leave larger residuals, by about the share of noise in the regressors.
    allowed = TOLERANCE * (1.0 + tested.share) ** 2 if uncorrectable else TOLERANCE
    chances = [chance_of_level(level / allowed, dof, problem.measured.noise_freedom)]
    # Products of large noise leave a weak band in long records of a right model.
    chances.append(1.0 if uncorrectable or curved >= LARGE else structure(flat))
    known = solution.matrix if len(solution.matrix) == flat.size else np.ones((flat.size, 1))
    terms, laws = tested.alternatives, len(tested.alternatives.laws)
    labels = terms.labels(regressors.equations > 1)
    drawn = None if tested.pulls is None else (tested.pulls.parameters, tested.pulls.alternatives)
    scores = scores_of(whitened(tested.columns(here), factors), known, flat, drawn)
    pulled = scores.chances[:laws] if laws and not uncorrectable else np.ones(1)
    strength = float(np.sqrt(special.chdtri(1, max(float(pulled.min()), np.finfo(float).tiny)) / flat.size))
    # A pull that products of noise can make is not evidence of a term.
    chances.append(float(min(1.0, pulled.min() * max(laws, 1))) if strength > curved else 1.0)
    # Bonferroni's correction for the tests.
    chance = min(1.0, len(chances) * min(chances))
    size = float(np.sqrt(max(level - 1.0, 0.0)))
    # Both are in units of the noise, so that their ratio is relative to the terms.
    share = size / max(_terms(here, factors, values), np.finfo(float).tiny)
    where = ""
    exact = share < NUMERICAL and (size > 1 or not (problem.measured.noise > 0).all())
    if exact:
        chance = 1.0
    elif chance < ALARM:
        where = labels[int(np.argmin(pulled))] if labels and chances[2] < ALARM else _place(here, left, factors)
    found = Misfit(size, float(share), chance, "the equations", where, problem.measured.noise_source)
    if exact or uncorrectable:
        return found
    fault = strongest(terms.faults, scores.of(slice(laws, None)))
    return with_fault(found, fault, max(level, 1.0), (level - 1.0) * dof)


CURVED = 4.0
"""Largest pull of an absent term per row by products of noise on a right model, in units of noise over signal."""


LARGE = 0.1
"""Such a pull from which bands in the rows are not evidence of a misfit."""


def _curved(problem: WeakProblem) -> float:
    """Return the pull per row by curved terms.

    Noise in curved terms makes it; it grows with the noise, not with the length of the record.
    """
    spread = np.std(np.concatenate([p.channels for p in problem.measured.pieces]), axis=0)
    moving = spread > 0
    return CURVED * float((problem.measured.noise[moving] / spread[moving]).max(initial=0.0))


def _terms(problem: WeakProblem, factors: list[Whitener], values: Numbers) -> float:
    """Return the root mean square of the equations' terms.

    The mean is over whitened rows; the largest term of each row counts.
    """
    regressors = problem.regressors
    rows = replace(problem, states=problem.calm, values=values, noise=None).rows()
    if not regressors.linear:
        return float(
            np.sqrt(np.mean(np.concatenate([f(r).rest.ravel() for f, r in zip(factors, rows, strict=True)]) ** 2))
        )
    theta = linear_values(regressors, values)
    total, count = 0.0, 0
    for factor, row in zip(factors, rows, strict=True):
        seen = factor(row)
        # Terms of an equation cancel each other: the largest one measures the signal, not their sum.
        parts = np.concatenate([seen.matrix * theta, seen.rest[..., None]], axis=2)
        total += float((parts**2).max(axis=2).sum())
        count += seen.rest.size
    return float(np.sqrt(total / max(count, 1)))


def _place(problem: WeakProblem, left: list[Numbers], factors: list[Whitener]) -> str:
    """Return the equation and states with the largest residuals.

    Rows are compared with their own noise.
    """
    functions = problem.windows.functions
    ratios = []
    for rest, factor in zip(left, factors, strict=True):
        # Each row relative to its own variance, without the mixing of the whitening.
        own = rest**2 / factor.variances[: rest.size].reshape(rest.shape)
        ratios.append(own.reshape(len(rest), -1, functions).mean(axis=2))
    every = np.concatenate(ratios)
    worst = int(np.argmax(every.mean(axis=0)))
    signals: dict[str, Numbers] = {}
    names = [c.name for c in problem.model.coordinates]
    for index, name in enumerate(names):
        for order, mark in ((0, ""), (1, "'")):
            parts = []
            for state in problem.calm:
                if problem.windows.count(len(state.times)):
                    series = np.abs(state.derivatives[order, :, index])
                    if order == 0 and problem.model.coordinates[index].angle:
                        continue
                    parts.append(problem.windows.integrate(series)[:, 0])
            if parts and sum(map(len, parts)) == len(every):
                signals[name + mark] = np.concatenate(parts)
    place = place_of(every[:, worst], signals)
    label = f"equation {worst + 1}" if every.shape[1] > 1 else ""
    return f"{label} {place}".strip()


LARGEST_LOOK = 20_000_000
"""Most entries of the covariance of short rows in `loss_of`: stretches of long records are enough."""


def _stretches(states: list[Smoothed], windows: Windows, size: int) -> tuple[list[Smoothed], float]:
    """Return evenly spread stretches of limited total size.

    Windows of `size` rows of the stretches have a covariance of at most LARGEST_LOOK numbers. The second value is their
    share of all windows.
    """
    counts = np.array([windows.count(len(s.times)) for s in states])
    allowed = max(LARGEST_LOOK // (windows.parts * size**2), 2 * windows.parts)
    if counts.sum() <= allowed:
        return [s for s, count in zip(states, counts, strict=True) if count], 1.0
    found, chosen, pieces = [], 0, 8
    # Eight stretches, spread over the record, represent all of it.
    own = max(allowed // pieces, windows.parts)
    for k in np.linspace(0, counts.sum() - 1, pieces).astype(int):
        piece = int(np.searchsorted(np.cumsum(counts), k, side="right"))
        count = min(own, int(counts[piece]))
        first = min(int(k - counts[:piece].sum()), int(counts[piece]) - count)
        rows = slice(first * windows.stride, (first + count - 1) * windows.stride + windows.width)
        state = states[piece]
        found.append(state.part(rows))
        chosen += count
    return found, chosen / float(counts.sum())


def loss_of(problem: WeakProblem, solution: RowSolution, regressors: Regressors, values: Numbers) -> float:
    """Return the loss of efficiency of the weak form.

    It is a lower bound of the ratio of the standard errors to those of the best use of these samples.
    Rows of the shortest test functions, linearised along the path and weighted by the linear noise alone, hold nearly
    all information of the samples (the motion between two test functions excepted): the inverse of their information is
    about the Cramér-Rao bound.
    """
    if regressors.factors is not None or regressors.nonlinear:
        return 1.0
    # Shorter test functions would be below the resolution of the smoothing.
    width = max(SHORTEST_WINDOW, int(1.5 * problem.kernels.half_width))
    short = Windows(max(2, width // 4), 4, 1, problem.windows.step)
    size = np.std(np.concatenate([p.channels for p in problem.measured.pieces]), axis=0)
    if short.width >= problem.windows.width or not (problem.measured.noise > EXACT * size).all():
        return 1.0
    information = np.zeros_like(solution.information)
    stretches, share = _stretches(problem.calm, short, regressors.equations * short.functions)
    here = replace(problem, regressors=regressors, windows=short, values=values, noise=None)
    for state in stretches:
        (row,) = replace(here, states=[state]).rows()
        seen = whitener(row_covariance(here, state, values, 1.0))(row).matrix.reshape(-1, len(regressors.linear))
        # Scaled up to all windows.
        information += seen.T @ seen / share
    own = np.diag(np.linalg.inv(solution.information))
    best = np.diag(np.linalg.inv(information))
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.sqrt(own / best)
    return float(np.nanmax(ratio)) if np.isfinite(ratio).any() else 1.0
