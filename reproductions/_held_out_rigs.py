"""Rigs that no setting of measured folds and multipliers was chosen on: listed before they were run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import kapitza as kz
from kapitza.model import Parameter
from kapitza.rig import Experiment, Feedback, RigBranch, RigPoint, RigStepping, Sensors, SimulatedRig


@dataclass(frozen=True)
class HeldOut:
    """An oscillator on a rig: equation, amplitude of the drive, frequencies from and to which it is followed."""

    name: str
    equation: str
    B: float
    begin: float
    end: float
    past: tuple[float, float]
    """Frequency and amplitude: beyond the frequency with less than this amplitude the walk ends, all folds behind."""

    @property
    def direction(self) -> int:
        return 1 if self.end > self.begin else -1

    def model(self) -> kz.Model:
        return kz.Model.from_equations(
            f"{self.equation} = B*cos(omega*t)",
            parameters=[Parameter("B", self.B, "", (0.0, 2.0)), Parameter("omega", self.begin, "rad/s", (0.2, 5.0))],
            period="2*pi/omega",
            start={"x": 0.1, "x'": 0.0},
            name=self.name,
        )

    def experiment(self, noise: float, seed: int, omega: float | None = None) -> Experiment:
        feedback = Feedback("x", (1.0, 0.8), limit=10.0, rate_limit=100.0)
        rig = SimulatedRig(
            self.model(), feedback=[feedback], adjustable=("B", "omega"), sample_time=0.02, ramp=1.0, seed=seed,
            sensors=Sensors(noise={"x": noise}),
        )  # fmt: skip
        values = {"B": self.B, "omega": self.begin if omega is None else omega}
        return Experiment(rig, frequency="omega", modes=5, values=values, scales={"x": 1.0})

    def follow(self, experiment: Experiment) -> RigBranch:
        bounds = (min(self.begin, self.end) - 0.1, max(self.begin, self.end) + 0.1)
        return experiment.follow(
            None, "omega", bounds, direction=self.direction, stepping=RigStepping(max_points=130), watch=self.is_past
        )

    def is_past(self, point: RigPoint) -> bool:
        beyond = self.direction * (point.value - self.past[0]) > 0
        return bool(beyond and point.series("x").peak() < self.past[1] and point.arclength > 1.0)

    def folds(self) -> list[float]:
        """Of the model, by its own continuation."""
        bounds = (min(self.begin, self.end), max(self.begin, self.end))
        branch = kz.follow(self.model(), None, "omega", bounds, direction=self.direction)
        return [b.value for b in branch.bifurcations if b.kind.value == "fold"]


RIGS = (
    HeldOut("quintic spring", "x'' + 0.06*x' + x + 0.4*x**5", 0.25, 0.6, 2.2, (1.45, 0.5)),
    HeldOut("softening spring", "x'' + 0.09*x' + x/sqrt(1 + x**2)", 0.2, 1.3, 0.4, (0.75, 0.7)),
    HeldOut("asymmetric spring", "x'' + 0.08*x' + x + 0.3*x**2 + 0.5*x**3", 0.2, 0.6, 1.9, (1.35, 0.5)),
    HeldOut("cubic damping", "x'' + 0.05*x' + 0.03*x'**3 + x + 0.8*x**3", 0.3, 0.6, 2.0, (1.4, 0.5)),
)
NOISE = 0.004
QUANTILE = 1.6449
"""Of the normal distribution, for 90 %."""


def amplitude(point: RigPoint) -> float:
    times = np.linspace(0, 2 * np.pi / point.measurement.frequency, 200)
    return float(np.ptp(point.series("x")(times)) / 2)
