"""Test systems for drives that are measured with noise; none of them shaped the method.

Each has a drive of known form, a part of which is held back. The drive is recorded with noise of 1 to 3 % of its root
mean square, the motion with 0.5 to 1 % of that of each channel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import kapitza as kz
from kapitza.base.arrays import Array


@dataclass(frozen=True)
class DrivenSystem:
    """Equations with a measured drive u, true values, and what is recorded.

    wrong: the equations of a rig that has a further term, which the fitted model lacks; further: its values.
    """

    equations: tuple[str, ...]
    true: dict[str, float]
    channels: tuple[str, ...]
    drive: str
    amplitude: float
    band: tuple[float, float]
    size: int
    step: float
    x0: tuple[float, ...]
    drive_noise: float = 0.02
    noise: float = 0.007
    angles: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    further: tuple[tuple[str, float], ...] = ()

    def force(self, seed: int) -> tuple[Array, Array]:
        """Return times and the true drive.

        "sweep": its frequency grows linearly over the band [Hz]; "tones": seven of random phases within it.
        """
        times: Array = np.arange(float(self.size)) * self.step
        low, high = self.band
        if self.drive == "sweep":
            phase = low * times + (high - low) * times**2 / (2 * times[-1])
            return times, self.amplitude * np.sin(2 * np.pi * phase)
        rng = np.random.default_rng([seed, 77])
        tones, phases = np.linspace(low, high, 7), rng.uniform(0, 2 * np.pi, 7)
        waves = np.sin(2 * np.pi * np.outer(times, tones) + phases).sum(axis=1)
        return times, self.amplitude * waves / np.sqrt(7)

    def model(self, times: Array, drive: Array, values: dict[str, float], right: bool = True) -> kz.Model:
        """Return the model with a drive."""
        return kz.Model.from_equations(
            list(self.equations if right else self.wrong), parameters=values,
            signals=[kz.Signal("u", times, drive, degree=3)], angles=list(self.angles),
        )  # fmt: skip

    def measured(self, seed: int, right: bool = True) -> tuple[kz.Model, kz.Record]:
        """Return the model with the recorded drive, at wrong values, and the record."""
        times, drive = self.force(seed)
        rng = np.random.default_rng([seed, 78])
        values = self.true if right else self.true | dict(self.further)
        truth = self.model(times, drive, values, right)
        clean = kz.simulate(truth, x0=list(self.x0), t=times).select(list(self.channels))
        sizes = {c: self.noise * float(np.std(np.asarray(clean[c]))) for c in self.channels}
        record = kz.measure(clean, noise=sizes, seed=int(rng.integers(2**31)))
        reading = drive + self.drive_noise * float(np.std(drive)) * rng.standard_normal(times.size)
        start = {name: value * (1 + 0.1 * rng.uniform(-1, 1)) for name, value in self.true.items()}
        return self.model(times, reading, start), record


SYSTEMS: dict[str, DrivenSystem] = {
    "linear, random force": DrivenSystem(
        ("m*x'' + c*x' + k*x = u",),
        {"m": 2.0, "c": 6.0, "k": 1800.0},
        ("x",),
        "tones",
        12.0,
        (2.0, 9.0),
        2000,
        0.005,
        (0.0, 0.0),
        wrong=("m*x'' + c*x' + k*x + f*tanh(200*x') = u",),
        further=(("f", 0.6),),
    ),
    "softening, sweep": DrivenSystem(
        ("m*x'' + c*x' + k*x - k3*x**3 = u",),
        {"m": 0.8, "c": 1.0, "k": 500.0, "k3": 9e4},
        ("x",),
        "sweep",
        2.0,
        (1.5, 7.0),
        2400,
        0.005,
        (0.0, 0.0),
        0.01,
        0.005,
    ),
    "pendulum, torque": DrivenSystem(
        ("phi'' + c*phi' + w2*sin(phi) = b*u",),
        {"c": 0.25, "w2": 20.0, "b": 5.0},
        ("phi",),
        "sweep",
        1.0,
        (0.3, 1.1),
        2500,
        0.02,
        (0.1, 0.0),
        0.03,
        0.01,
        angles=("phi",),
        wrong=("phi'' + c*phi' + q*phi'**3 + w2*sin(phi) = b*u",),
        further=(("q", 0.01),),
    ),
    "cubic damping, tones": DrivenSystem(
        ("x'' + c*x' + d*x'**3 + k*x = b*u",),
        {"c": 0.6, "d": 0.5, "k": 90.0, "b": 10.0},
        ("x",),
        "tones",
        1.0,
        (0.8, 2.4),
        2000,
        0.02,
        (0.0, 0.0),
        0.02,
        0.005,
    ),
    "two masses": DrivenSystem(
        ("m1*x'' + c1*x' + k1*x + k2*(x - y) = u", "m2*y'' + c2*y' + k2*(y - x) = 0"),
        {"m1": 1.0, "c1": 1.5, "k1": 900.0, "k2": 300.0, "m2": 0.5, "c2": 0.8},
        ("x", "y"),
        "tones",
        6.0,
        (2.0, 7.5),
        2000,
        0.008,
        (0.0, 0.0, 0.0, 0.0),
        0.02,
        0.01,
    ),
    "tank, inflow": DrivenSystem(
        ("h' = a*(1.5 + u) - b*sqrt(h)",),
        {"a": 0.4, "b": 0.5},
        ("h",),
        "tones",
        0.8,
        (0.01, 0.2),
        1500,
        0.25,
        (1.4,),
        0.03,
        0.005,
    ),
    "van der Pol, forced": DrivenSystem(
        ("x'' - e*(1 - x**2)*x' + w2*x = b*u",),
        {"e": 0.8, "w2": 4.0, "b": 3.0},
        ("x",),
        "tones",
        1.0,
        (0.15, 0.6),
        2000,
        0.04,
        (1.0, 0.0),
        0.02,
        0.01,
    ),
    "base acceleration": DrivenSystem(
        ("x'' + c*x' + k*x + k3*x**3 = -u",),
        {"c": 2.0, "k": 1600.0, "k3": 3e6},
        ("x",),
        "tones",
        6.0,
        (2.0, 9.0),
        2400,
        0.004,
        (0.0, 0.0),
        0.02,
        0.007,
        wrong=("x'' + c*x' + k*x + k3*x**3 + q*x**2 = -u",),
        further=(("q", 5e3),),
    ),
    "double well, chaotic": DrivenSystem(
        ("x'' + c*x' - k*x + k3*x**3 = b*u",),
        {"c": 0.25, "k": 1.0, "k3": 1.0, "b": 0.4},
        ("x", "x'"),
        "tones",
        1.4,
        (0.1, 0.25),
        2000,
        0.1,
        (1.0, 0.0),
        0.01,
        0.01,
    ),
    "parametric drive": DrivenSystem(
        ("phi'' + c*phi' + (w2 + b*u)*sin(phi) = 0",),
        {"c": 0.1, "w2": 9.0, "b": 4.0},
        ("phi",),
        "sweep",
        1.0,
        (0.7, 1.3),
        2000,
        0.02,
        (0.4, 0.0),
        0.03,
        0.01,
        angles=("phi",),
    ),
}
"""Ten systems: forces, torques, base accelerations, an inflow, a chaotic and a parametrically driven one."""
