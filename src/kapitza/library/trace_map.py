"""The Fibonacci trace map."""

from __future__ import annotations

import math

from kapitza.model import Model, Parameter


def trace_map() -> Model:
    """Recursion with a conserved quantity (INVARIANT, equations 24-25).

        x[n+1] = a + b (x[n] + x[n-1]) + c x[n] x[n-1] - x[n-2]

    Conserved: I = x² + y² + z² - a (x + y + z) - b (xy + xz + yz) - c xyz, with x, y, z = x[n], x[n-1], x[n-2].
    The Fibonacci trace map has a = b = 0, c = 2; its orbit x[n] = cos 2πθ[n], θ[n+1] = θ[n] + θ[n-1] has I = 1.

    Returns
    -------
    Model
        At the values of its source; `model.with_values(...)` changes them.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.library.trace_map().states
    ('x', 'y', 'z')
    """
    first, second = 0.1, math.sqrt(2.0) - 1.0
    return Model.from_map(
        {"x": "a + b*(x + y) + c*x*y - z", "y": "x", "z": "y"},
        parameters=[
            Parameter("a", 0.0, description="constant"),
            Parameter("b", 0.0, description="linear term"),
            Parameter("c", 2.0, description="product term"),
        ],
        invariants={"I": "x**2 + y**2 + z**2 - a*(x + y + z) - b*(x*y + x*z + y*z) - c*x*y*z"},
        start={
            "x": math.cos(2 * math.pi * (first + second)),
            "y": math.cos(2 * math.pi * second),
            "z": math.cos(2 * math.pi * first),
        },
        name="trace_map",
        description="Fibonacci trace map; I is conserved",
        source="INVARIANT, equations 21-25",
    )
