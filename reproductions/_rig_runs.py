"""Runs of the HYBRID test on simulated rigs that several pages share."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from kapitza.errors import KapitzaError
from kapitza.rig import (
    PureDelay,
    Rig,
    RigPoint,
    SecondOrder,
    Sensors,
    find_doubling,
    pendulum_rig,
    pendulum_test,
)

DOUBLING, FOLD = 0.0132082, 0.0080091
"""Of the emulated system at Ω = 13 rad/s: shooting, and AUTO-07p."""

ONE_PER_CENT = {"theta": 5e-3, "y": 1e-4, "F": 8e-3}
"""Noise of one per cent: of the rms angle 0.5 rad, travel 10 mm and force 0.8 N along the branch."""


def quoted(Omega: float = 13.0) -> float:
    """Forcing is quoted as a / sqrt(Ω²C² + K²)."""
    return float(np.hypot(0.1 * Omega, 200.0))


@dataclass(frozen=True)
class Run:
    """One run: errors of doubling and fold, measurements, points, rig time, how far it came, what went wrong.

    per_point: measurements of the corrector per point of the branch; the doubling and Jacobians come on top.
    """

    doubling: float
    fold: float
    measurements: int
    points: int
    rig_time: float
    reached: float
    seconds: float
    per_point: float = float("nan")
    problem: str = ""

    @property
    def complete(self) -> bool:
        return not self.problem and self.reached > 0.0195 and abs(self.doubling) < 0.02 and abs(self.fold) < 0.02


def actuator_of(kind: str, delay: float) -> PureDelay | SecondOrder:
    return PureDelay(delay) if kind == "pure delay" else SecondOrder(100.0, 5.0, delay, "F")


def noisy_rig(kind: str, delay: float, seed: int, noise: float = 1.0) -> Rig:
    sensors = Sensors(noise={name: noise * level for name, level in ONE_PER_CENT.items()})
    return pendulum_rig(actuator_of(kind, delay), delay=delay, sensors=sensors, seed=seed)


def hybrid_run(rig: Rig, modes: int = 6, last: float = 0.020) -> Run:
    """Doubling without a model's value, then the branch through its fold up to the forcing `last` beyond it."""
    began, test, scale = time.process_time(), pendulum_test(rig, modes=modes), quoted()
    try:
        start = find_doubling(test, "a", (0.010 * scale, 0.018 * scale), points=3)

        def far_enough(point: RigPoint) -> bool:
            return point.value > last * scale and point.series("theta").peak() > 0.8

        branch = test.follow(start, "a", (0.0, 0.03 * scale), watch=far_enough)
        fold = branch.folds[0].value / scale / FOLD - 1 if branch.folds else float("nan")
        reached = branch.points[-1].value / scale if branch.folds else 0.0
        return Run(
            start.value / scale / DOUBLING - 1, fold, test.measurements, len(branch), branch.rig_time, reached,
            time.process_time() - began, float(np.mean([p.measurements for p in branch])),
            "" if branch.folds else branch.message or "no fold",
        )  # fmt: skip
    except KapitzaError as problem:
        spent = time.process_time() - began
        return Run(float("nan"), float("nan"), test.measurements, 0, 0.0, 0.0, spent, problem=str(problem))
