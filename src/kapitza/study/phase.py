"""Find when the excitation began.

The clock of a forced recording is compared with its motion, before any fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kapitza.data import Record
from kapitza.errors import KapitzaError
from kapitza.estimate import HarmonicFit, identify
from kapitza.model import CLOCK, Model

SHIFTS = 16
"""Starts of the excitation that are tried over one period."""

LONGEST = 5_000
"""Samples that are looked at."""

FEWEST_PERIODS = 4.0
"""Below, a shift of the clock and a transient look alike."""

ALIKE = 1.2
"""Ratio of two misfits up to which they are equal."""

WORSE = 4.0
"""How many times worse than with the best start the equations are met before it is talked about."""


def best_shift(model: Model, record: Record, free: Sequence[str]) -> tuple[float, float] | None:
    """Return the shift of the excitation's start.

    How much later [s] the recording began than it says, and how many times better the equations are then met.
    The equations in integral form are fitted (`HarmonicFit`) under 16 starts of the excitation, the best ones refined
    by parabolas; None where that cannot be done: coordinates that were not measured, one sample per period.
    """
    if model.is_map or model.excitation is None or model.excitation.signals or model.period is None:
        return None
    if model.excitation.timing & set(free):
        return None
    period = float(model.period)
    record = record.samples(slice(0, LONGEST)) if record.size > LONGEST else record
    record = record.select([c for c in record.channels if c in model.states])
    duration, step = float(np.ptp(record.time)), float(np.median(np.diff(record.time)))
    if duration < FEWEST_PERIODS * period or step > period / 6:
        return None
    own = [name for name in free if name in model.names and name != CLOCK]
    if not own:
        return None
    starts = {name: model.values[name] for name in own}

    def misfit(shift: float) -> tuple[float, int]:
        """Return χ² of the equations.

        The number of parameters that change their sign is returned too.
        """
        moved = record.with_attributes(phase=record.phase + shift, period=period)
        try:
            # Misfits are compared with each other: what noise does to the values, most of the work, is left out.
            fit = identify(model, moved, own, HarmonicFit(correct_bias=False))
        except KapitzaError:
            return np.inf, 0
        return float(fit.chi2), sum(fit.values[name] * value < 0 for name, value in starts.items())

    now = misfit(0.0)[0]
    if not np.isfinite(now):
        return None
    grid = period * np.arange(SHIFTS) / SHIFTS
    tried = [(now, 0), *(misfit(float(shift)) for shift in grid[1:])]
    costs = np.array([cost for cost, _ in tried])
    lowest = np.flatnonzero((costs <= np.roll(costs, 1)) & (costs <= np.roll(costs, -1)) & np.isfinite(costs))
    lowest = lowest[np.argsort(costs[lowest], kind="stable")][:2]
    found = [_refined(misfit, float(grid[i]), period / SHIFTS, tried[i]) for i in lowest]
    best = min(cost for _, cost, _ in found)
    # half a period later with the drive turned round is the same: keep the signs that the model starts with
    shift, cost, _ = min((f for f in found if f[1] < ALIKE * best), key=lambda f: (f[2], f[1]))
    return (shift + period / 2) % period - period / 2, now / max(cost, 1e-300)


def _refined(
    misfit: Callable[[float], tuple[float, int]], at: float, width: float, first: tuple[float, int]
) -> tuple[float, float, int]:
    """Refine a shift by parabolas through three neighbours.

    This is done four times, each a fifth as wide. It returns shift, χ² and signs that changed.
    """
    cost, flips = first
    for _ in range(4):
        left, right = misfit(at - width)[0], misfit(at + width)[0]
        curvature = left - 2 * cost + right
        if not (np.isfinite(curvature) and curvature > 0):
            break
        guess = float(np.clip(at + 0.5 * width * (left - right) / curvature, at - width, at + width))
        found = misfit(guess)
        if found[0] < cost:
            at, (cost, flips) = guess, found
        width /= 5
    return at, cost, flips


def phase_warning(model: Model, record: Record, free: Sequence[str]) -> str:
    """Warn when the excitation began at another time.

    The text says when it began; it is empty where the recording is right.
    """
    if CLOCK in free:
        return ""
    found = best_shift(model, record, free)
    if found is None or found[1] < WORSE or model.period is None:
        return ""
    shift, better = found
    phase = (record.phase + shift) % model.period
    return (
        f"The clock of the recording does not fit the excitation: with a start {abs(shift):.4g} s "
        f"{'earlier' if shift > 0 else 'later'} than it says the equations are met {better:.3g} times better. "
        f'phase = {phase:.5g} in [data] fits; or add "clock" to free.'
    )
