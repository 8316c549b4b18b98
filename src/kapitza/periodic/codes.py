"""Symbolic codes: one letter per section point, from the cells of the model's partition."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kapitza.model import Model, compile_expressions

Array = NDArray[np.float64]


def symbolic_code(model: Model, points: Array) -> str:
    """Letters of the section points (p, n), shifted to come first in the alphabet; '' without a partition."""
    if not (model.partition and model.letters) or model.period is None:
        return ""
    evaluate = compile_expressions(model.partition, model.states, model.names)
    signs = evaluate(np.ascontiguousarray(points.T), model.vector) < 0
    weights = 2 ** np.arange(len(model.partition))[::-1]
    letters = [model.letters[i] for i in weights @ signs]
    return canonical("".join(letters))


def canonical(word: str) -> str:
    """The first in the alphabet among the cyclic shifts of a word."""
    return min((word[i:] + word[:i] for i in range(len(word))), default="")
