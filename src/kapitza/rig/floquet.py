"""Measured Floquet multipliers of a tracked motion.

A multisine excites the neighbourhood of the motion, and a periodic linear model is fitted in weak form.

Around the motion the experiment obeys δx'' = p δx + r δx' + e δy'' + b δu, and its force is
δF = f0 δx + f1 δx' + f2 δy'' + f3 δu, with coefficients of the motion's period. They are fitted to records in which
multisines move all demands; then u = 0 is set in the fitted equations, the numerical part is coupled
(M y'' + C y' + K y = F), and the linear equations are integrated over one period.

Noise is in all signals, regressors included, so that least squares would be biased. The multisine is repeated: with
X₁ θ = y₁ and X₂ θ = y₂ from its two turns, whose noise is independent, each is the instrument of the other,
(X₂ᵀ X₁ + X₁ᵀ X₂) θ = X₂ᵀ y₁ + X₁ᵀ y₂, in which noise has the mean zero (Söderström & Stoica 1983).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array
from kapitza.errors import RigError
from kapitza.rig.branch import RigPoint
from kapitza.rig.experiment import Experiment, resized
from kapitza.rig.floquet_fit import Trial, Turns, bump, jackknife, weak_rows
from kapitza.rig.fourier import FourierSeries, columns, project
from kapitza.rig.protocol import sound_samples

MOST_NOISE, MOST_DEVIATION = 0.02, 0.2
"""Share of noise, and deviation of the largest modulus, up to which the deviations were shown to hold."""


@dataclass(frozen=True)
class MeasuredMultipliers:
    """Measured multipliers with deviations.

    multipliers: largest modulus first; deviation: of each modulus, by leaving out parts of the record (jackknife).
    timing: coefficient of the derivative of the control over that of the control, in s, with its standard deviation:
    zero unless the recorded control is early or late (tested by `trusted`). inertia: mean of b, the effect of a
    unit of control (1 where the control adds to an equation with unit leading coefficient).
    """

    multipliers: NDArray[np.complex128]
    deviation: Array
    timing: float
    timing_deviation: float
    inertia: float
    rig_time: float
    noise: float = 0.0
    """Share of noise in the square of the moved coordinate: what the two turns of the multisine do not share."""
    modes: int = 0
    """Modes of the coefficients: as many as the record shows."""

    @property
    def trusted(self) -> bool:
        """Whether the deviations can be trusted.

        The control is recorded in time, and the noise is small enough that the deviations were shown to hold.
        """
        in_time = abs(self.timing) <= max(3 * self.timing_deviation, 2e-4)
        return in_time and self.noise <= MOST_NOISE and bool(self.deviation[0] <= MOST_DEVIATION)

    @property
    def stable(self) -> bool | None:
        """Whether the motion is stable.

        It is None where the noise does not decide.
        """
        largest = float(np.abs(self.multipliers[0]))
        if abs(largest - 1) <= 2 * float(self.deviation[0]) or not self.trusted:
            return None
        return largest < 1


@dataclass(frozen=True)
class FloquetSettings:
    """Settings of the multisine measurement.

    periods: of the record, in which the multisine turns twice; angle, travel: its rms, as shares of the scales of
    controlled and driven inputs.

    highest: rad/s of the multisine; modes: of the coefficients, at most; window: length of the test functions in s.
    parts: of the record, for the deviations; seed: of the phases of the multisine.
    """

    periods: int = 40
    angle: float = 0.05
    travel: float = 0.06
    highest: float | None = None
    modes: int = 8
    window: float | None = None
    parts: int = 10
    seed: int = 0

    def __post_init__(self):
        if self.periods < 4 or self.parts < 4:
            raise RigError(f"periods = {self.periods}, parts = {self.parts}; give 4 or more of both.")

    @property
    def turn(self) -> int:
        """Return periods of the motion per turn of the multisine."""
        return self.periods // 2


def measure_multipliers(
    experiment: Experiment, point: RigPoint, settings: FloquetSettings | None = None
) -> MeasuredMultipliers:
    """Measure the multipliers of a tracked motion.

    They are those of the uncontrolled, coupled experiment, from the experiment itself.
    The controlled input comes first; at most one input is driven, and its numerical part must be linear.
    """
    settings = settings or FloquetSettings()
    if len(experiment.tracked) != 1:
        raise RigError("Multipliers are measured for experiments with one controlled coordinate.")
    with _standing_at(experiment, point):
        return _measured(experiment, point, settings)


@contextmanager
def _standing_at(experiment: Experiment, point: RigPoint) -> Iterator[None]:
    """Set the experiment to the point's parameters.

    A point of another base frequency is refused.
    """
    before = experiment.values
    experiment.values = {**before, **{n: v for n, v in point.measurement.parameters.items() if n in before}}
    try:
        own, base = point.measurement.frequency, experiment.base_frequency(experiment.values)
        if abs(base / own - 1) > 1e-9:
            raise RigError(
                f"The point was measured at a base frequency of {own:.6g} rad/s, the experiment is at {base:.6g} "
                "rad/s: set its values to those of the point first."
            )
        yield
    finally:
        experiment.values = before


def _measured(experiment: Experiment, point: RigPoint, settings: FloquetSettings) -> MeasuredMultipliers:
    record = _Record(experiment, point, settings)
    with experiment.rig:
        record.take()
    turns = record.rows()
    chosen = Trial.of(experiment, point, min(2, settings.modes), turns, settings.parts)
    # Each further mode adds noise to the multipliers, so modes are added only while they help.
    while chosen.fit.modes < settings.modes:
        more = Trial.of(experiment, point, min(chosen.fit.modes + 2, settings.modes), turns, settings.parts)
        if not more.better_than(chosen):
            break
        chosen = more
    fit = chosen.fit
    timing = jackknife(np.array([[other.timing()] for other in chosen.others]))
    rig_time = (settings.periods + 4) * 2 * np.pi / point.measurement.frequency
    return MeasuredMultipliers(
        fit.multipliers(),
        chosen.deviation,
        fit.timing(),
        float(timing[0]),
        fit.inertia(),
        rig_time,
        fit.noise(),
        fit.modes,
    )


def with_multipliers(point: RigPoint, found: MeasuredMultipliers) -> RigPoint:
    """Return the point with measured multipliers."""
    return replace(point, multipliers=found.multipliers, multiplier_deviation=found.deviation)


class _Record:
    """Long record with multisines on all demands.

    The periodic motion itself is subtracted.
    """

    def __init__(self, experiment: Experiment, point: RigPoint, settings: FloquetSettings):
        self.experiment, self.point, self.settings = experiment, point, settings
        self.base = point.measurement.frequency
        self.step = experiment.rig.sample_time
        # Modes may have been added after this point was found.
        self.own = experiment.demands(resized(point.z, experiment)[:-1], {**experiment.values})
        # 45 rad/s on the HYBRID rig, where the measurement was tested.
        self.highest = settings.highest or 7.0 * self.base
        self.window = settings.window or 0.155 * 2 * np.pi / self.base

    def demands(self) -> dict[str, FourierSeries]:
        """Return demands with a multisine.

        The base period is as long as a turn; demands contain the motion, and lines between its harmonics.
        """
        experiment, settings = self.experiment, self.settings
        rng = np.random.default_rng(settings.seed)
        turn = settings.turn
        count = math.ceil(self.highest / (self.base / turn))
        # Harmonics of the motion are left out: the periodic part is subtracted from the record.
        lines = np.array([k for k in range(1, count + 1) if k % turn])
        made = {}
        for part in experiment.inputs:
            values = np.zeros(2 * max(count, turn * experiment.modes) + 1)
            own = self.own[part.name].coefficients
            values[0] = own[0]
            for k in range(1, experiment.modes + 1):
                values[2 * k * turn - 1 : 2 * k * turn + 1] = own[2 * k - 1 : 2 * k + 1]
            share = settings.angle if part.feedback else settings.travel
            phases = rng.uniform(0, 2 * np.pi, lines.size)
            size = share * experiment.scale(part.name) * math.sqrt(2 / lines.size)
            values[2 * lines - 1], values[2 * lines] = size * np.cos(phases), size * np.sin(phases)
            made[part.name] = FourierSeries(self.base / turn, values)
        return made

    def take(self) -> None:
        rig, settings = self.experiment.rig, self.settings
        adjustable = {p.name for p in rig.parameters}
        values = {**self.experiment.values, **self.point_values()}
        rig.set(self.demands(), **{n: v for n, v in values.items() if n in adjustable})
        per_period = 2 * np.pi / self.base / self.step
        while sound_samples(rig, math.ceil(4 * per_period)).changing:
            continue  # until the demand has arrived, and four periods more at most
        self.samples = sound_samples(rig, math.ceil((2 * settings.turn + 0.2) * per_period))
        share = float(self.samples.saturated.mean())
        if share > 0:
            raise RigError(
                f"A controller or actuator was at its limit in {100 * share:.2g} % of the samples: the motion around "
                "the orbit is not linear then. Take a smaller multisine (FloquetSettings(angle=..., travel=...))."
            )

    def point_values(self) -> dict[str, float]:
        return {n: v for n, v in self.point.measurement.parameters.items() if n in self.experiment.values}

    def rows(self) -> Turns:
        """Return weak-form rows of both turns.

        Signals and their derivatives against bump windows; the part that repeats with the motion is removed first.
        """
        experiment, samples = self.experiment, self.samples
        phases = samples.phases * self.settings.turn  # of the motion
        lost = samples.lost
        values = np.concatenate([samples.values, samples.control], axis=1)
        modes = experiment.modes + experiment.extra
        step = float(phases[1] - phases[0])
        periodic = project(values, float(phases[0]), step, modes, lost)
        rest = values - columns(phases, modes) @ periodic.T
        if lost.any():
            good = np.flatnonzero(~lost)
            rest = np.column_stack([np.interp(np.arange(len(rest)), good, rest[good, j]) for j in range(rest.shape[1])])
        # A value held from a sample to the next acts half a sample late; uncorrected it shifts multipliers by 8 %.
        control = rest[:, len(experiment.rig.outputs) :]
        rest[1:, len(experiment.rig.outputs) :] = 0.5 * (control[1:] + control[:-1])
        half = max(round(self.window / self.step / 2), 4)
        later = round(self.settings.turn * 2 * np.pi / abs(step))
        # Both windows of a pair must lie in the record; they overlap by seven eighths.
        centres = np.arange(half, min(later, len(rest) - half - later), max(half // 4, 1))
        names = [*experiment.rig.outputs, "control"]
        turns = []
        for first in (centres, centres + later):
            index = first[:, None] + np.arange(-half, half + 1)[None, :]
            signals = {name: rest[:, j][index] for j, name in enumerate(names)}
            turns.append(weak_rows(experiment, signals, phases[index], bump(half, self.step), self.settings.modes))
        return tuple(turns)
