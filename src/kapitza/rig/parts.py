"""Actuators, controllers and sensors of a simulated rig."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from kapitza.base import checks
from kapitza.base.cures import Give
from kapitza.errors import RigError


@dataclass(frozen=True)
class PureDelay:
    """Actuator that follows its demand with a delay.

    It is exact but `delay` seconds late: y_a(t) = ỹ(t - τ).
    """

    delay: float = 0.0

    def __post_init__(self):
        checks.number("delay", self.delay, low=0, error=RigError)


@dataclass(frozen=True)
class SecondOrder:
    """Actuator with inertia and a position loop.

    The loop is critically damped (HYBRID 18).

        y_a'' + 2 ω_s y_a' + ω_s² (y_a - ỹ(t - τ)) = F / m_a

    frequency: ω_s in rad/s; mass: m_a in kg, infinite for an actuator that the load does not move; force: name of the
    output that loads it.
    """

    frequency: float
    mass: float = math.inf
    delay: float = 0.0
    force: str = ""

    def __post_init__(self):
        checks.number("The frequency of an actuator (ω_s in rad/s)", self.frequency, above=0, error=RigError)
        checks.number("The mass of an actuator (m_a in kg)", self.mass, above=0, finite=False, error=RigError)
        checks.number("delay", self.delay, low=0, error=RigError)
        if math.isfinite(self.mass) and not self.force:
            raise RigError(f"An actuator of finite mass needs the name of the output that loads it: {Give(force='F')}.")


Actuator = PureDelay | SecondOrder


@dataclass(frozen=True)
class Driven:
    """Coordinate whose motion an actuator imposes.

    The actuator replaces the model's equation of that number.
    limit, rate_limit: of the demand, in the unit of the coordinate and per second.
    """

    coordinate: str
    actuator: Actuator = field(default_factory=PureDelay)
    limit: float = math.inf
    rate_limit: float = math.inf


@dataclass(frozen=True)
class Feedback:
    """Sampled controller of one coordinate.

    It drives the coordinate towards a periodic demand x̃ (HYBRID 23).

        u(t) = -k1 [x - x̃](t - τ) - k2 [x' - x̃'](t - τ),  added to the right-hand side of the coordinate's equation

    gains: (k1, k2) in units of that equation. velocity: "sensor" reads x' from the rig, "differences" takes the
    backward difference of the error (angle minus demand, both sampled alike). saturation: largest |u|.
    """

    coordinate: str
    gains: tuple[float, float] = (4.0, 4.0)
    delay: float = 0.0
    velocity: str = "sensor"
    saturation: float = math.inf
    limit: float = math.inf
    rate_limit: float = math.inf

    def __post_init__(self):
        checks.choice("velocity", self.velocity, ("sensor", "differences"), error=RigError)
        checks.array("gains (k1, k2)", self.gains, shape=(2,), finite=True, error=RigError)
        checks.number("delay", self.delay, low=0, error=RigError)
        for name in ("saturation", "limit", "rate_limit"):
            checks.number(name, getattr(self, name), above=0, finite=False, error=RigError)


@dataclass(frozen=True)
class Sensors:
    """Errors that the sensors add.

    Noise, quantum and drift are given by name of the output.
    noise: standard deviation per sample (white); quantum: step of the converter; drift: standard deviation of a random
    walk after one second; drop: probability that a whole sample is lost. A controller reads the same sensors.
    """

    noise: Mapping[str, float] = field(default_factory=dict)
    quantum: Mapping[str, float] = field(default_factory=dict)
    drift: Mapping[str, float] = field(default_factory=dict)
    drop: float = 0.0

    def __post_init__(self):
        if not 0 <= checks.number("drop", self.drop, error=RigError) < 1:
            raise RigError(f"drop = {self.drop:g}; give a probability below 1.")
        for what in ("noise", "quantum", "drift"):
            for name, value in checks.table(what, getattr(self, what), error=RigError).items():
                checks.number(f"{what} of {name}", value, low=0, error=RigError)
