"""The Duffing oscillator in Ueda's form."""

from __future__ import annotations

from kapitza.model import Model, Parameter


def duffing() -> Model:
    """Hard spring under harmonic forcing (PERIODIC, first test problem).

        x'' + k x' + x³ = B cos t

    At k = 0.08, B = 0.2 five stable orbits coexist, with periods 1, 1, 2, 2 and 3. Symmetric under x(t) -> -x(t + π).

    Returns
    -------
    Model
        At the values of its source; `model.with_values(...)` changes them.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.library.duffing().states
    ('x', "x'")
    """
    return Model.from_equations(
        "x'' + k*x' + x**3 = B*cos(t)",
        parameters=[Parameter("k", 0.08, description="damping"), Parameter("B", 0.2, description="forcing amplitude")],
        period="2*pi",
        symmetries=[{"map": {"x": "-x", "x'": "-x'"}, "shift": 0.5}],
        start={"x": 0.5, "x'": 0.0},
        name="duffing",
        description="Duffing oscillator with a purely cubic spring (Ueda)",
        source="PERIODIC, test problem 1; values at which five stable orbits were computed",
    )
