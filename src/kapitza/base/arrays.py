"""Types of arrays, named once.

Array: real numbers; Flags: truth values; Indices: positions; Integers: whole numbers; Numbers: those of which linear
algebra does not state the kind.
"""

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
