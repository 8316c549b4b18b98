"""Points of the Hénon map, whose cycles are known: a strobed record without a clock."""

import numpy as np


def henon(count: int, a: float = 1.4, b: float = 0.3, start: tuple[float, float] = (0.1, 0.1)) -> np.ndarray:
    """(count, 2) points of x' = 1 - a x² + y, y' = b x after a transient of 100."""
    x, y = start
    out = np.empty((count + 100, 2))
    for i in range(len(out)):
        x, y = 1 - a * x * x + y, b * x
        out[i] = x, y
    return out[100:]
