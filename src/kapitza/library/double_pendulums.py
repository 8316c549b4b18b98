"""Two double pendulums.

One is on a shaken base with friction, one is free and planar.
"""

from __future__ import annotations

import math

from kapitza.errors import ModelError, nearest_name
from kapitza.model import Model, Parameter

SHAKEN_VALUES = {
    "table9": (0.1167, 0.0781, 0.0849, 1.6149, 0.2562, 0.2868, 0.0, 0.00366, 0.0485),
    "true": (0.1131, 0.0711, 0.0820, 1.6816, 0.2630, 0.2913, 1.02e-3, 0.00366, 0.0485),
    "table1": (0.1132, 0.0709, 0.0820, 1.6816, 0.2632, 0.3045, 1.02e-3, 0.00366, 0.0485),
}
"""B11, B12, B15, B21, B22, B25, C11, C12, C2 of HARMONIC: its simulated system, its true values, and what follows from
the masses and lengths of its Table 1."""


def base_excited_double_pendulum(values: str = "table9") -> Model:
    """Double pendulum on a moving base.

    The base moves by y = a cos τ (HARMONIC, equation 4 with the signs derived anew).

        φ1'' + B11 φ2'' cos(φ2-φ1) - B11 φ2'² sin(φ2-φ1) + [B12 + B13 cos τ + B14 sin τ] sin φ1
             + C11 sgn φ1' - C12 (φ2'-φ1') = 0
        φ2'' + B21 φ1'' cos(φ2-φ1) + B21 φ1'² sin(φ2-φ1) + [B22 + B23 cos τ + B24 sin τ] sin φ2
             + C2 (φ2'-φ1') = 0

    φ1, φ2 are absolute angles and time is τ = 2π f_e t with f_e = 5 Hz. For y = a cos τ: Bi3 = -Bi5, Bi4 = 0. The
    encoders measure the outputs theta1 = φ1 and theta2 = φ2 - φ1.

    Parameters
    ----------
    values : str
        "table9" (the simulated system, without dry friction), "true" or "table1" (the rig).

    Returns
    -------
    Model
        At the values of its source; `model.with_values(...)` changes them.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.library.base_excited_double_pendulum().states
    ('phi1', 'phi2', "phi1'", "phi2'")
    """
    if values not in SHAKEN_VALUES:
        known = ", ".join(SHAKEN_VALUES)
        raise ModelError(f'No set of values "{values}"; choose one of {known}.{nearest_name(values, SHAKEN_VALUES)}')
    b11, b12, b15, b21, b22, b25, c11, c12, c2 = SHAKEN_VALUES[values]
    return Model.from_equations(
        [
            "phi1'' + B11*phi2''*cos(phi2 - phi1) - B11*phi2'**2*sin(phi2 - phi1)"
            " + (B12 + B13*cos(t) + B14*sin(t))*sin(phi1) + C11*sign(phi1') - C12*(phi2' - phi1') = 0",
            "phi2'' + B21*phi1''*cos(phi2 - phi1) + B21*phi1'**2*sin(phi2 - phi1)"
            " + (B22 + B23*cos(t) + B24*sin(t))*sin(phi2) + C2*(phi2' - phi1') = 0",
        ],
        coordinates=["phi1", "phi2"],
        angles=["phi1", "phi2"],
        parameters=[
            Parameter("B11", b11, description="coupling of the lower arm into the upper"),
            Parameter("B12", b12, description="gravity on the upper arm"),
            Parameter("B13", -b15, description="base motion on the upper arm, cosine"),
            Parameter("B14", 0.0, description="base motion on the upper arm, sine"),
            Parameter("B21", b21, description="coupling of the upper arm into the lower"),
            Parameter("B22", b22, description="gravity on the lower arm"),
            Parameter("B23", -b25, description="base motion on the lower arm, cosine"),
            Parameter("B24", 0.0, description="base motion on the lower arm, sine"),
            Parameter("C11", c11, description="dry friction of the upper bearing"),
            Parameter("C12", c12, description="viscous friction of the middle bearing, upper arm"),
            Parameter("C2", c2, description="viscous friction of the middle bearing, lower arm"),
        ],
        period="2*pi",
        outputs={"theta1": "phi1", "theta2": "phi2 - phi1"},
        symmetries=[{"map": {name: f"-{name}" for name in ("phi1", "phi2", "phi1'", "phi2'")}}],
        start={"phi1": 1.0, "phi2": 0.5, "phi1'": 0.0, "phi2'": 0.0},
        name="base_excited_double_pendulum",
        description="Double pendulum on a vertically shaken base; time counts 2π per shake",
        source=f"HARMONIC, equation 4, values: {values}",
    )


def planar_double_pendulum() -> Model:
    """Frictionless double pendulum with point masses (INVARIANT, equations 16-20).

        μλ φ1'' + φ2'' cos(φ1-φ2) + φ2'² sin(φ1-φ2) + μλ ω1² sin φ1 = 0
        φ1'' cos(φ1-φ2) + φ2''/λ - φ1'² sin(φ1-φ2) + ω1² sin φ2 = 0

    with ω1 = sqrt(g/l1), λ = l1/l2, μ = 1 + m1/m2. Conserved, up to the factor m2 l1 l2:

        E = μλ φ1'²/2 + φ2'²/(2λ) + φ1' φ2' cos(φ1-φ2) - ω1² (μλ cos φ1 + cos φ2)

    The start is that of the document, (φ1', φ2', φ1, φ2) = (ω1, ω1, π/2, π/2), which is chaotic.

    Returns
    -------
    Model
        At the values of its source; `model.with_values(...)` changes them.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.library.planar_double_pendulum().states
    ('phi1', 'phi2', "phi1'", "phi2'")
    """
    root = math.sqrt(9.81)
    return Model.from_equations(
        [
            "mu*lambda_*phi1'' + phi2''*cos(phi1 - phi2) + phi2'**2*sin(phi1 - phi2)"
            " + mu*lambda_*omega1**2*sin(phi1) = 0",
            "phi1''*cos(phi1 - phi2) + phi2''/lambda_ - phi1'**2*sin(phi1 - phi2) + omega1**2*sin(phi2) = 0",
        ],
        coordinates=["phi1", "phi2"],
        angles=["phi1", "phi2"],
        parameters=[
            Parameter("lambda_", 1.0, "", (0.0, math.inf), description="l1/l2"),
            Parameter("mu", 2.0, "", (1.0, math.inf), description="1 + m1/m2"),
            Parameter("omega1", root, "rad/s", (0.0, math.inf), description="sqrt(g/l1)"),
        ],
        invariants={
            "E": "mu*lambda_*phi1'**2/2 + phi2'**2/(2*lambda_) + phi1'*phi2'*cos(phi1 - phi2)"
            " - omega1**2*(mu*lambda_*cos(phi1) + cos(phi2))"
        },
        symmetries=[{"map": {name: f"-{name}" for name in ("phi1", "phi2", "phi1'", "phi2'")}}],
        start={"phi1": math.pi / 2, "phi2": math.pi / 2, "phi1'": root, "phi2'": root},
        name="planar_double_pendulum",
        description="Double pendulum without friction; E is conserved",
        source="INVARIANT, equations 16-20",
    )
