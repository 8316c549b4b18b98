"""Symbolic codes from the model's partition.

The cells of the partition give one letter per section point.
"""

from __future__ import annotations

import numpy as np

from kapitza.base.arrays import Array
from kapitza.model import Model, compile_expressions


def symbolic_code(model: Model, points: Array) -> str:
    """Return the code of section points (p, n).

    Letters shifted to come first in the alphabet; '' without a partition.
    """
    if not (model.partition and model.letters) or model.period is None:
        return ""
    return canonical(spelled(model, points))


def spelled(model: Model, points: Array) -> str:
    """Return one letter per point (N, n).

    A point on the border of two cells, to rounding, counts as positive.
    """
    evaluate = compile_expressions(model.partition, model.states, model.names)
    values = evaluate(np.ascontiguousarray(points.T), model.vector)
    # A point on a border, to rounding, must give the same letter on every processor.
    signs = values < -1e-9 * np.maximum(np.abs(values).max(axis=1, keepdims=True), 1e-3)
    weights = 2 ** np.arange(len(model.partition))[::-1]
    return "".join(model.letters[i] for i in weights @ signs)


def canonical(word: str) -> str:
    """Return the alphabetically first cyclic shift of a word."""
    return min((word[i:] + word[:i] for i in range(len(word))), default="")
