"""The OLEO landing gear.

It has an oil damper, a gas spring that warms up, and seal friction.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from kapitza.errors import ModelError
from kapitza.model import Model, Parameter, Signal


def sampled_force(period: float = 1.0, samples: int = 200) -> Signal:
    """A periodic force on the strut [N].

    It stays in the working range: a sine on a constant load, and a step for 0.3 periods.

    The force measured in the document is not in it; this one takes its place.

    Parameters
    ----------
    period : float
        After which it repeats [s].
    samples : int
        In one period.

    Returns
    -------
    Signal
        Named F, in N.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.library.sampled_force(samples=100).times.size
    100
    """
    times = period * np.arange(samples) / samples
    phase = times / period
    step = np.where((phase >= 0.35) & (phase < 0.65), 300.0, 0.0)
    return Signal("F", times, 3300.0 + 600.0 * np.sin(2 * math.pi * phase) + step, period, unit="N")


def oleo(force: Signal | None = None, values: str = "orbits") -> Model:
    """Landing-gear strut with gas temperature.

    The coordinates are compression u [m] and temperature T [K] (PERIODIC, equations 6.6-6.8).

        θ1 (u'' + θ2) + θ3 |u'| u' + θ4 T / (1 + θ5 u + θ6 T) + (θ7 + θ8 u²) arctan(θ9 u') + θ10 = F(t)
        T' + θ11 (T + θ12) + θ13 T u' / (1 + θ5 u) = 0

    θ12 = -293 K (printed with the wrong sign), θ13 = 0.4 θ5. Measured is y = u + θ14. Only θ1 θ2 + θ10 is identifiable.

    Parameters
    ----------
    force : Signal, optional
        A measured one [N]; without it `sampled_force()`.
    values : str
        "orbits" (θ7 = 73.2, θ9 = 1e4, section 6.4) or "estimation" (θ7 = 41.4, θ9 = 1000, section 6.5).

    Returns
    -------
    Model
        At the values of its source; `model.with_values(...)` changes them.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.library.oleo().states
    ('u', 'T', "u'")
    """
    if values not in ("orbits", "estimation"):
        raise ModelError(f'No set of values "{values}"; choose "orbits" or "estimation".')
    theta7, theta9 = (73.211274, 1e4) if values == "orbits" else (41.380285, 1000.0)
    return Model.from_equations(
        [
            "theta1*(u'' + theta2) + theta3*abs(u')*u' + theta4*T/(1 + theta5*u + theta6*T)"
            " + (theta7 + theta8*u**2)*atan(theta9*u') + theta10 = F",
            "T' + theta11*(T + theta12) + theta13*T*u'/(1 + theta5*u) = 0",
        ],
        coordinates=["u", "T"],
        parameters=[
            Parameter("theta1", 25.0, "kg", description="mass"),
            Parameter("theta2", 9.81, "m/s²", description="gravity"),
            Parameter("theta3", 2897.4615, "kg/m", description="oil damping"),
            Parameter("theta4", 6.0491577, "N/K", description="gas spring"),
            Parameter("theta5", -3.7869565, "1/m", description="gas volume per stroke"),
            Parameter("theta6", 1.3043478e-4, "1/K", description="thermal growth of the oil"),
            Parameter("theta7", theta7, "N", description="seal friction"),
            Parameter("theta8", 2037.1833, "N/m²", description="seal friction growing with stroke"),
            Parameter("theta9", theta9, "s/m", description="slope of the friction at rest"),
            Parameter("theta10", -313.4, "N", description="atmospheric load"),
            Parameter("theta11", 0.66718718, "1/s", description="heat loss"),
            Parameter("theta12", -293.0, "K", description="minus the ambient temperature"),
            Parameter("theta13", 0.4 * -3.7869565, "1/m", description="heating by compression"),
            Parameter("theta14", -0.1405, "m", description="offset of the displacement sensor"),
        ],
        signals=[replace(force or sampled_force(), name="F")],
        outputs={"y": "u + theta14"},
        start={"u": 0.13, "T": 293.0, "u'": 0.0},
        name="oleo",
        description="OLEO landing-gear strut with gas temperature, under a measured force",
        source=f"PERIODIC, equations 6.6-6.8, values for {values}; the force is synthetic unless given",
    )


def oleo_simple(force: Signal | None = None) -> Model:
    """Landing-gear strut without temperature.

    The coordinate is the compression u [m] (PERIODIC, equations 6.9-6.10).

        θ1 (u'' + g) + θ2 |u'| u' + θ3 (1 / (1 - θ4 u))^θ5 + θ6 - θ8 + (2 θ9/π) arctan(θ10 u') = F(t)

    (the scan lost the dot on the last u). Measured is y = u + θ7. Only θ1 g + θ6 - θ8 is identifiable.

    Parameters
    ----------
    force : Signal, optional
        A measured one [N]; without it `sampled_force()`.

    Returns
    -------
    Model
        At the values of its source; `model.with_values(...)` changes them.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.library.oleo_simple().states
    ('u', "u'")
    """
    return Model.from_equations(
        "theta1*(u'' + g) + theta2*abs(u')*u' + theta3*(1/(1 - theta4*u))**theta5 + theta6 - theta8"
        " + 2*theta9/pi*atan(theta10*u') = F",
        coordinates=["u"],
        parameters=[
            Parameter("theta1", 25.0, "kg", description="mass"),
            Parameter("theta2", 2883.22126873955, "kg/m", description="oil damping"),
            Parameter("theta3", 1811.5, "N", description="gas spring"),
            Parameter("theta4", 3.7, "1/m", description="gas volume per stroke"),
            Parameter("theta5", 1.0, "", description="polytropic exponent"),
            Parameter("theta6", 37.0, "N", description="preload"),
            Parameter("theta7", -0.1405, "m", description="offset of the displacement sensor"),
            Parameter("theta8", 348.35, "N", description="atmospheric load"),
            Parameter("theta9", 81.0, "N", description="seal friction"),
            Parameter("theta10", 170.0, "s/m", description="slope of the friction at rest"),
            Parameter("g", 9.81, "m/s²", description="gravity"),
        ],
        signals=[replace(force or sampled_force(), name="F")],
        outputs={"y": "u + theta7"},
        start={"u": 0.13, "u'": 0.0},
        name="oleo_simple",
        description="OLEO landing-gear strut without temperature, under a measured force",
        source="PERIODIC, equations 6.9-6.10; the force is synthetic unless given",
    )
