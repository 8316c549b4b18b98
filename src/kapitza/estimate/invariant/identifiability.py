"""Which parameters an invariant can tell apart, said in words."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SINGULAR = 1e-9
"""Relative size below which a direction of the sensitivities counts as none."""


def generic_point(theta: Array, low: Array, high: Array) -> Array:
    """A parameter set near θ, away from accidental zeros."""
    turn = 0.1 + 0.1 * np.mod(np.arange(1, theta.size + 1) * 0.6180339887, 1.0)
    moved = theta + turn * np.maximum(np.abs(theta), 0.5)
    return np.where(
        moved < high, np.maximum(moved, low), np.clip(theta - turn * np.maximum(np.abs(theta), 0.5), low, high)
    )


def scale_direction(invariant: Array, sensitivities: Array) -> Array | None:
    """Parameter change δ (k,) that multiplies the invariant by a factor, if there is one.

    invariant: (M,) and sensitivities: (M, k), both without their level means (or in coefficients).
    """
    if sensitivities.shape[1] == 0:
        return None
    size = np.linalg.norm(sensitivities, axis=0)
    size = np.where(size > 0, size, 1.0)
    change = np.linalg.lstsq(sensitivities / size, invariant, rcond=SINGULAR)[0] / size
    rest = np.linalg.norm(invariant - sensitivities @ change)
    return change if rest <= 1e-7 * np.linalg.norm(invariant) else None


def null_directions(sensitivities: Array, theta: Array) -> Array:
    """Relative parameter changes (k, m) that leave the invariant as it is; m = 0 when all can be told apart."""
    size = np.where(np.abs(theta) > 0, np.abs(theta), 1.0)
    columns = sensitivities * size
    norms = np.linalg.norm(columns, axis=0)
    if not norms.any():
        return np.eye(theta.size)
    dead = norms <= SINGULAR * norms.max()
    balanced = columns / np.where(dead, 1.0, norms)
    _, values, right = np.linalg.svd(balanced)
    values = np.concatenate([values, np.zeros(right.shape[0] - values.size)])
    directions = right[values <= SINGULAR * values.max()].T / np.where(dead, 1.0, norms)[:, None]
    return directions / np.abs(directions).max(axis=0) if directions.size else directions.reshape(theta.size, 0)


def direction_in_words(names: Sequence[str], direction: Array) -> str:
    """For example: m +1 %, l -0.5 %."""
    lead = direction / direction[np.argmax(np.abs(direction))]
    return ", ".join(f"{n} {100 * v / 100:+.3g} %" for n, v in zip(names, lead, strict=True) if abs(v) > 1e-6)


def combinations(names: Sequence[str], directions: Array) -> tuple[str, ...]:
    """Power products that the null directions leave unchanged, such as m*l**2; '' where exponents are not simple."""
    k = len(names)
    if directions.shape[1] == 0:
        return tuple(names)
    _, values, right = np.linalg.svd(directions.T)
    rows = right[np.sum(values > 1e-9) :]
    result = []
    for row in _reduced(rows):
        powers = [Fraction(float(v)).limit_denominator(4) for v in row]
        if all(abs(float(p) - v) < 1e-6 for p, v in zip(powers, row, strict=True)):
            result.append(_product(names, powers))
    return tuple(result) if len(result) == k - directions.shape[1] else ()


def _reduced(rows: Array) -> Array:
    """Reduced row echelon form."""
    rows, lead = rows.copy(), 0
    for column in range(rows.shape[1]):
        if lead == rows.shape[0]:
            break
        pivot = lead + int(np.argmax(np.abs(rows[lead:, column])))
        if abs(rows[pivot, column]) < 1e-9:
            continue
        rows[[lead, pivot]] = rows[[pivot, lead]]
        rows[lead] /= rows[lead, column]
        others = np.arange(rows.shape[0]) != lead
        rows[others] -= np.outer(rows[others, column], rows[lead])
        lead += 1
    rows[np.abs(rows) < 1e-12] = 0.0
    return rows


def _product(names: Sequence[str], powers: Sequence[Fraction]) -> str:
    def factor(name: str, power: Fraction) -> str:
        if power == 1:
            return name
        return f"{name}**{power}" if power.denominator == 1 else f"{name}**({power})"

    above = [factor(n, p) for n, p in zip(names, powers, strict=True) if p > 0]
    below = [factor(n, -p) for n, p in zip(names, powers, strict=True) if p < 0]
    top = "*".join(above) or "1"
    return top + "".join(f"/{b}" for b in below)
