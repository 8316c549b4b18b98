"""Motion between walls.

The walls are soft (colliding cart) or rigid (pin joint).
"""

from __future__ import annotations

import math

from kapitza.model import Model, Parameter


def colliding_cart() -> Model:
    """Cart between two buffers (PERIODIC, equations 6.2-6.3).

        x'' + b(x) x' + k(x) = γ sin ωt,   k(x) = k (x ∓ 1) and b(x) = b for ±x > 1, both 0 between

    The damper makes the force jump on contact. Symmetric under x(t) -> -x(t + π/ω).

    Returns
    -------
    Model
        At the values of its source; `model.with_values(...)` changes them.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.library.colliding_cart().states
    ('x', "x'")
    """
    return Model.from_equations(
        "x'' + Piecewise((k*(x - 1) + b*x', x > 1), (k*(x + 1) + b*x', x < -1), (0, True)) = gamma*sin(omega*t)",
        parameters=[
            Parameter("k", 30.0, "", (0.0, math.inf), description="stiffness of the buffers"),
            Parameter("b", 2.0, "", (0.0, math.inf), description="damping of the buffers"),
            Parameter("gamma", 1.0, description="forcing amplitude"),
            Parameter("omega", 1.0, "", (0.0, math.inf), description="forcing frequency"),
        ],
        period="2*pi/omega",
        symmetries=[{"map": {"x": "-x", "x'": "-x'"}, "shift": 0.5}],
        start={"x": 0.5, "x'": 0.5},
        name="colliding_cart",
        description="Forced cart between two spring-damper buffers",
        source="PERIODIC, equations 6.2-6.3",
    )


def pin_joint() -> Model:
    """Pin in a slot with clearance (PERIODIC, equations 6.4-6.5).

        x'' = γ sin t for |x| < 1;   x' -> -r x' at |x| = 1

    The document gives no values; γ = 1, r = 0.8 are ours. Symmetric under x(t) -> -x(t + π).

    Returns
    -------
    Model
        At the values of its source; `model.with_values(...)` changes them.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.library.pin_joint().states
    ('x', "x'")
    """
    return Model.from_equations(
        "x'' = gamma*sin(t)",
        parameters=[
            Parameter("gamma", 1.0, description="forcing amplitude"),
            Parameter("r", 0.8, "", (0.0, 1.0), description="coefficient of restitution"),
        ],
        period="2*pi",
        impacts=[
            {"name": "right wall", "surface": "1 - x", "reset": {"x'": "-r*x'"}},
            {"name": "left wall", "surface": "1 + x", "reset": {"x'": "-r*x'"}},
        ],
        symmetries=[{"map": {"x": "-x", "x'": "-x'"}, "shift": 0.5}],
        start={"x": 0.0, "x'": 0.5},
        name="pin_joint",
        description="Forced pin between rigid walls",
        source="PERIODIC, equations 6.4-6.5; values chosen here",
    )
