"""Systems whose bifurcations are known from closed forms, tables or other codes."""

import kapitza as kz


def duffing(omega=0.5, force=0.3):
    """x'' + 0.1 x' + x + x³ = B cos ωt."""
    return kz.Model.from_equations(
        "x'' + 0.1*x' + x + x**3 = B*cos(omega*t)",
        parameters={"B": force, "omega": omega},
        period="2*pi/omega",
        start={"x": 0.3, "x'": 0.0},
        symmetries=[{"map": {"x": "-x", "x'": "-x'"}, "shift": 0.5}],
        name="duffing with linear part",
    )
