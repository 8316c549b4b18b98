"""Kinds of arrays, named once: numbers, yes or no, positions; numbers whose kind linear algebra does not tell."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]
Flags = NDArray[np.bool_]
Indices = NDArray[np.intp]
Integers = NDArray[np.integer]
Numbers = NDArray[Any]
