"""Knots of several measured drives on one clock."""

from __future__ import annotations

import math

import numpy as np

from kapitza.base.arrays import Array
from kapitza.exports.program import Program

SAME_INSTANT = 1e-12
"""Relative to the period or span: knots closer than this are one."""


def merged_knots(program: Program) -> Array | None:
    """Return knots of all measured drives.

    They cover the common period, which is that of the excitation, or of drives that do not repeat the time in which
    all are known; None without drives.
    """
    if not program.tables:
        return None
    if program.reach is not None:
        low, high = program.reach
        knots = np.unique(np.concatenate([table.knots for table in program.tables]))
        knots = knots[(knots > low) & (knots < high)]
        apart = np.diff(np.append(knots, high)) > SAME_INSTANT * (high - low)
        return np.concatenate([[low], knots[apart], [high]])
    period = program.period
    repeated = [
        table.knots + turn * table.period
        for table in program.tables
        for turn in range(max(1, math.floor(period / table.period + 0.5)))
    ]
    knots = np.unique(np.concatenate([*repeated, [0.0, period]]))
    knots = knots[np.append(np.diff(knots) > SAME_INSTANT * period, True)]
    knots[0], knots[-1] = 0.0, period
    return knots
