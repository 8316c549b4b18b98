"""Two forced pendulums.

One is hung on a forced spring-mass, one is on a horizontally shaken support.
"""

from __future__ import annotations

import math

from kapitza.model import Model, Parameter


def pendulum_on_spring() -> Model:
    """Pendulum under a mass on a forced spring.

    The mass is forced vertically (HYBRID, the emulated system).

        (M + m) y'' + C y' + K y = a cos Ωt - m l (θ'' sin θ + θ'² cos θ)
        θ'' + κ/(m l²) θ' + (g + y'')/l sin θ = 0

    The forcing is quoted as a / sqrt(Ω²C² + K²); the default 2 N is 0.0100. At Ω = 13 rad/s the hanging state doubles
    its period at 0.0132082, and the swinging branch folds at 0.0080091. Symmetric under θ -> -θ.

    Returns
    -------
    Model
        At the values of its source; `model.with_values(...)` changes them.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.library.pendulum_on_spring().states
    ('y', 'theta', "y'", "theta'")
    """
    positive = (0.0, math.inf)
    return Model.from_equations(
        [
            "(M + m)*y'' + C*y' + K*y = a*cos(Omega*t) - m*l*(theta''*sin(theta) + theta'**2*cos(theta))",
            "theta'' + kappa/(m*l**2)*theta' + (g + y'')/l*sin(theta) = 0",
        ],
        coordinates=["y", "theta"],
        angles=["theta"],
        parameters=[
            Parameter("M", 0.2, "kg", positive, description="mass on the spring"),
            Parameter("C", 0.1, "kg/s", description="damping of the spring"),
            Parameter("K", 200.0, "N/m", description="stiffness of the spring"),
            Parameter("m", 0.27, "kg", positive, description="mass of the pendulum"),
            Parameter("l", 0.1955, "m", positive, description="length of the pendulum"),
            Parameter("kappa", 7.5e-3, "N m s", description="friction of the pivot"),
            Parameter("a", 2.0, "N", description="forcing amplitude"),
            Parameter("Omega", 13.0, "rad/s", positive, description="forcing frequency"),
            Parameter("g", 9.81, "m/s²", description="gravity"),
        ],
        period="2*pi/Omega",
        symmetries=[{"map": {"theta": "-theta", "theta'": "-theta'"}}],
        start={"y": 0.0, "theta": 1.0, "y'": 0.0, "theta'": 0.0},
        name="pendulum_on_spring",
        description="Pendulum hung on a forced spring-mass system",
        source="HYBRID, emulated system",
    )


def horizontally_excited_pendulum() -> Model:
    """Pendulum on a horizontally shaken support.

    Time is that of the drive (HARMONIC, equation 25).

        θ'' + (c/r) θ' + sin θ / r² - f sin t cos θ = 0

    r is the drive frequency over the natural one, c twice the damping ratio. The document gives no values; the default
    ones are ours. Symmetric under θ(t) -> -θ(t + π).

    Returns
    -------
    Model
        At the values of its source; `model.with_values(...)` changes them.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.library.horizontally_excited_pendulum().states
    ('theta', "theta'")
    """
    return Model.from_equations(
        "theta'' + c/r*theta' + sin(theta)/r**2 - f*sin(t)*cos(theta) = 0",
        angles=["theta"],
        parameters=[
            Parameter("c", 0.1, description="damping, twice the damping ratio"),
            Parameter("r", 0.8, "", (0.0, math.inf), description="drive frequency over natural frequency"),
            Parameter("f", 1.5, description="amplitude of the support over the length"),
        ],
        period="2*pi",
        symmetries=[{"map": {"theta": "-theta", "theta'": "-theta'"}, "shift": 0.5}],
        start={"theta": 0.5, "theta'": 0.0},
        name="horizontally_excited_pendulum",
        description="Pendulum on a horizontally shaken support",
        source="HARMONIC, equation 25; values chosen here",
    )
