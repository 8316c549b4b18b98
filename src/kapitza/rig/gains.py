"""Advice on the gains of a controller.

The advice follows from the contraction per period, measured by one small step of the demand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kapitza.base.arrays import Array
from kapitza.errors import RigError
from kapitza.rig.experiment import Experiment
from kapitza.rig.fourier import FourierSeries, project
from kapitza.rig.protocol import sound_samples

ENOUGH, PLENTY = 0.2, 0.01
"""Contractions per period: two periods settle at the first; below the second the gain is higher than is needed."""


@dataclass(frozen=True)
class GainAdvice:
    """Measured contraction of the control loop.

    contraction: of the distance from the periodic state, per period of the demand; an upper bound where `resolved`
    is False because one period brings it below the noise. changes: (periods,) relative distances, the last as zero.
    effort: rms of the control over that of the coordinate's own acceleration, at the demand that was given.
    """

    contraction: float
    resolved: bool
    changes: Array
    effort: float

    @property
    def verdict(self) -> str:
        value = f"{'' if self.resolved else 'below '}{self.contraction:.2g}"
        if not self.resolved and self.contraction > ENOUGH:
            return f"Contraction {value} per period: noise hides it. Take a larger step to know it better."
        if self.contraction >= 1:
            return f"Contraction {value} per period: the loop does not settle. Change the sign or lower the gains."
        if self.contraction > ENOUGH:
            periods = math.ceil(math.log(1e-2) / math.log(self.contraction))
            return (
                f"Contraction {value} per period: {periods} periods to a hundredth. Raise the derivative gain until it "
                f"is {ENOUGH:g} or less."
            )
        if self.resolved and self.contraction < PLENTY:
            return (
                f"Contraction {value} per period: more gain than is needed, which hides errors instead of removing "
                "them. Lower the derivative gain, and evaluate points by their effort."
            )
        return f"Contraction {value} per period: two periods settle, leave the gains as they are."

    def __str__(self) -> str:
        return self.verdict


def advise_gains(
    experiment: Experiment,
    demands: Mapping[str, FourierSeries] | None = None,
    step: float = 0.05,
    periods: int = 12,
) -> GainAdvice:
    """Measure how fast the control loop settles.

    The first mode of the controlled demand is stepped, and the motion settles, period by period.

    Parameters
    ----------
    demands : mapping
        Where to look (default: zero demands); inputs left out are demanded to be zero.
    step : float
        Of the first mode, as a share of the scale of the controlled input.
    periods : int
        To watch; the last two are taken as settled.
    """
    if not experiment.tracked:
        raise RigError("Nothing on this rig is controlled: there are no gains to evaluate.")
    if periods < 5:
        raise RigError(f"periods = {periods}; give 5 or more.")
    frequency = experiment.base_frequency(experiment.values)
    given = dict(demands or {})
    series = {i.name: given.get(i.name, FourierSeries.zero(frequency)) for i in experiment.inputs}
    start = experiment.pack(series)
    moved = start.copy()
    moved[1] += step * experiment.scale(experiment.tracked[0].name)
    with experiment.rig:
        before = experiment.measure(start, experiment.values).measurement
        sets = _periods(experiment, moved, periods)
    channel = before.outputs.index(experiment.tracked[0].feedback)
    path = sets[:, channel]
    # The last two periods stand for the periodic state.
    distance = np.sqrt(np.sum((path[:-2] - path[-2:].mean(axis=0)) ** 2, axis=1))
    size = float(np.sqrt(np.sum((path[-2:].mean(axis=0) - before.coefficients[channel]) ** 2)))
    if not size > 0:
        raise RigError("The step of the demand moved nothing: is the controller switched on?")
    # Three deviations of a single period, where the measurement is a mean of several.
    floor = 3 * float(np.sqrt(np.sum(before.deviations[channel] ** 2) * before.averaged)) / size
    own = before.series(experiment.tracked[0].feedback).derivative(2).rms
    effort = float(before.effort[0]) / own if own > 0 else 0.0
    return _advice(distance / size, floor, effort)


def _periods(experiment: Experiment, coefficients: Array, periods: int) -> Array:
    """Measure periods after the demand has changed.

    The result has shape (periods, channels, coefficients).
    """
    rig, values = experiment.rig, experiment.values
    demands = experiment.demands(coefficients, values)
    rig.set(demands, **{p.name: values[p.name] for p in rig.parameters})
    step = experiment.base_frequency(values) * rig.sample_time
    count = math.ceil(2 * np.pi / step)
    found = []
    for _ in range(periods):
        samples = sound_samples(rig, count)
        if samples.changing:
            raise RigError(
                "The rig takes longer than a period to change its demand: the contraction cannot be measured. Shorten "
                "its ramp, or raise its rate limit."
            )
        if samples.saturated.any():
            raise RigError("The controller was at its limit while it settled: take a smaller step.")
        found.append(
            project(samples.values, float(samples.phases[0]), step, experiment.modes + experiment.extra, samples.lost)
        )
    return np.array(found)


def _advice(distance: Array, floor: float, effort: float) -> GainAdvice:
    """Return the advice from distances per period.

    The first period holds the change of the demand itself; from the second on the loop settles alone.
    """
    least = max(floor, 1e-9)
    above = [float(d) for d in distance[1:] if d > least]
    if len(above) < 2:
        # One period more brings it below the noise: the contraction is at most what noise and last distance allow.
        bound = least / max(above[0] if above else float(distance[0]), least)
        return GainAdvice(bound, False, distance, effort)
    ratio = (above[-1] / above[0]) ** (1 / (len(above) - 1))
    return GainAdvice(ratio, True, distance, effort)
