"""The parametrically excited pendulum on a crank."""

from __future__ import annotations

from kapitza.model import Model, Parameter


def parametric_pendulum(experiment: bool = False) -> Model:
    """Pendulum on a support that moves vertically.

    A crank and rod move it (ORBITS, equations 3.2-3.3).

        φ'' + [k1 sgn φ' + k2 φ' + k3 φ'|φ'|] / (m l²)
            + [ g/l - (A ω²/l) ( cos ωt + ε (cos 2ωt + ε² sin⁴ωt) / (1 - ε² sin²ωt)^(3/2) ) ] sin φ = 0

    Values of the simulations; with `experiment` those of the rig, where dry friction k1 ends the chaos after some ten
    thousand periods. The section at t = 0 modulo 2π/ω (support at the top) is cut into the quadrants A B above C D by
    φ' = 0 and φ = π, with φ in [0, 2π). Symmetric under (φ, φ') -> (-φ, -φ').

    Parameters
    ----------
    experiment : bool
        The values of the rig.

    Returns
    -------
    Model
        At the values of its source; `model.with_values(...)` changes them.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.library.parametric_pendulum().states
    ('phi', "phi'")
    """
    mass, length, dry = (0.0854, 0.318, 6.88e-4) if experiment else (0.0858, 0.317, 0.0)
    shaking = (
        "(cos(omega*t) + epsilon*(cos(2*omega*t) + epsilon**2*sin(omega*t)**4)/(1 - epsilon**2*sin(omega*t)**2)**(3/2))"
    )
    return Model.from_equations(
        f"phi'' + (k1*sign(phi') + k2*phi' + k3*phi'*abs(phi'))/(m*l**2) + (g/l - A*omega**2/l*{shaking})*sin(phi) = 0",
        angles=["phi"],
        parameters=[
            Parameter("m", mass, "kg", (0.0, float("inf")), description="mass"),
            Parameter("l", length, "m", (0.0, float("inf")), description="reduced length"),
            Parameter("k1", dry, "N m", (0.0, float("inf")), description="dry friction"),
            Parameter("k2", 4.85e-4, "N m s", description="viscous friction"),
            Parameter("k3", 1.90e-4, "N m s²", description="quadratic (air) friction"),
            Parameter("A", 0.131, "m", description="crank radius"),
            Parameter("epsilon", 0.173, "", (-1.0, 1.0), description="crank radius over rod length"),
            Parameter("omega", 9.09, "rad/s", (0.0, float("inf")), description="drive frequency"),
            Parameter("g", 9.81, "m/s²", description="gravity"),
        ],
        period="2*pi/omega",
        symmetries=[{"map": {"phi": "-phi", "phi'": "-phi'"}}],
        partition=["phi'", "sin(phi)"],
        letters="ABCD",
        start={"phi": 0.5, "phi'": 1.0},
        name="parametric_pendulum",
        description="Pendulum with a support shaken vertically by a crank",
        source="ORBITS, equations 3.2-3.3; simulation values, or those of the experiment",
    )
