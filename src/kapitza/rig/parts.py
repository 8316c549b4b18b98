"""What a simulated rig is made of: actuators, controllers, sensors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from kapitza.errors import RigError


def _check_delay(delay: float) -> None:
    if not (math.isfinite(delay) and delay >= 0):
        raise RigError(f"delay = {delay}; give a time in s, 0 or more.")


@dataclass(frozen=True)
class PureDelay:
    """An actuator that follows its demand exactly, `delay` seconds late: y_a(t) = ỹ(t - τ)."""

    delay: float = 0.0

    def __post_init__(self):
        _check_delay(self.delay)


@dataclass(frozen=True)
class SecondOrder:
    """An actuator with inertia and a loop of its own (HYBRID 18), critically damped.

        y_a'' + 2 ω_s y_a' + ω_s² (y_a - ỹ(t - τ)) = F / m_a

    frequency: ω_s in rad/s; mass: m_a in kg, infinite for an actuator that the load does not move; force: name of the
    output that loads it.
    """

    frequency: float
    mass: float = math.inf
    delay: float = 0.0
    force: str = ""

    def __post_init__(self):
        _check_delay(self.delay)
        if not (self.frequency > 0 and math.isfinite(self.frequency)) or not self.mass > 0:
            raise RigError(
                f"An actuator with ω_s = {self.frequency:g} rad/s, m_a = {self.mass:g} kg: give positive ones."
            )
        if math.isfinite(self.mass) and not self.force:
            raise RigError('An actuator of finite mass needs the name of the output that loads it: force="F".')


Actuator = PureDelay | SecondOrder


@dataclass(frozen=True)
class Driven:
    """A coordinate whose motion an actuator imposes; the model's equation of that number is given over to it.

    limit, rate_limit: of the demand, in the unit of the coordinate and per second.
    """

    coordinate: str
    actuator: Actuator = field(default_factory=PureDelay)
    limit: float = math.inf
    rate_limit: float = math.inf


@dataclass(frozen=True)
class Feedback:
    """A sampled controller that drives a coordinate towards a periodic demand x̃ (HYBRID 23).

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
        _check_delay(self.delay)
        if len(self.gains) != 2 or not all(math.isfinite(g) for g in self.gains):
            raise RigError(f"gains = {self.gains}; give two finite numbers (k1, k2).")
        if not self.saturation > 0:
            raise RigError(f"saturation = {self.saturation}; give a positive number.")
        if self.velocity not in ("sensor", "differences"):
            raise RigError(f'velocity = "{self.velocity}"; choose "sensor" or "differences".')


@dataclass(frozen=True)
class Sensors:
    """What the sensors add to the truth, by name of the output.

    noise: standard deviation per sample (white); quantum: step of the converter; drift: standard deviation of a random
    walk after one second; drop: probability that a whole sample is lost. A controller reads the same sensors.
    """

    noise: Mapping[str, float] = field(default_factory=dict)
    quantum: Mapping[str, float] = field(default_factory=dict)
    drift: Mapping[str, float] = field(default_factory=dict)
    drop: float = 0.0

    def __post_init__(self):
        if not 0 <= self.drop < 1:
            raise RigError(f"drop = {self.drop}; give a probability below 1.")
        for what in ("noise", "quantum", "drift"):
            for name, value in getattr(self, what).items():
                if not (math.isfinite(value) and value >= 0):
                    raise RigError(f"{what} of {name} = {value}; give a finite number, 0 or more.")
