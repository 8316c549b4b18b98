"""Controlled experiment as equations.

The demands are the unknowns; the residuals carry their noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base.argument_checks import Anything, Count, Index, NotNegative
from kapitza.base.cures import Code, Give
from kapitza.base.monitor import checkpoint
from kapitza.errors import FlowError, RigError, RigLimitError, nearest_name, no_such
from kapitza.model import Model
from kapitza.rig.fourier import FourierSeries
from kapitza.rig.journal import Journal
from kapitza.rig.limits import RigBeyondError, limited
from kapitza.rig.measure import Measurement, NoiseLevel, settle_and_measure
from kapitza.rig.numerical import NumericalPart
from kapitza.rig.protocol import PeriodicInput, Rig
from kapitza.solve import Measured

if TYPE_CHECKING:
    from kapitza.rig.branch import RigBranch

Array = NDArray[Any]

RESOLVED = 5e-4
"""Share of the scales that modes beyond the unknowns may hold in a precise measurement.

A tenth of what a continuation allows: 0.4 % moved the fold of a softening spring by two of its deviations.
"""


class RigUnsettledError(RigError, FlowError):
    """Motion that does not repeat, or saturated control.

    No residual can be computed from it.
    """


@dataclass(frozen=True)
class Residual:
    """Residuals of one measurement.

    value and deviation are (m,). beyond and beyond_deviation are those of the modes beyond the unknowns.
    """

    value: Array
    deviation: Array
    beyond: Array
    beyond_deviation: Array
    measurement: Measurement


@dataclass
class Experiment:
    """Experiment as equations for periodic motions.

    A rig, and the simulated part of a hybrid test if there is one.
    Unknowns are the Fourier coefficients of every demand. For an input with feedback the residual is measured value
    minus demand: where it vanishes the control does nothing and the motion is one of the uncontrolled experiment,
    stable or not. For a driven input it is the force balance of the numerical part at the measured motion and force.

    Parameters
    ----------
    rig : Rig
        Of any class; it is put behind the limits that it declares (`LimitedRig`), so that nothing beyond them is sent.
    numerical : Model
        The simulated part; its coordinate is the driven input, its parameter `force` the output of that name.
    frequency : str or float
        Of the excitation in rad/s: a parameter of the rig, or a number. Default: from the period of the numerical part.
    repeats : int
        Excitation periods per period of the motion (2 on a branch after a period doubling).
    modes : int
        Of the unknowns; `extra` more are measured, and energy there adds modes up to `most_modes`.
    scales : mapping
        Typical size of each input. Default: 1 rad for angles, else a fifth of the limit.
    resolution : float
        Residuals below this share of their scale count as zero, however small the noise.
    """

    rig: Rig
    numerical: Model | None = None
    force: str = "F"
    frequency: str | float | None = None
    repeats: Count = 1
    modes: Count = 6
    extra: Index = 4
    most_modes: Count = 12
    scales: Mapping[str, float] = field(default_factory=dict)
    resolution: NotNegative = 1e-4
    average: Count = 2
    patience: Index = 1
    longest: Count = 60
    values: dict[str, float] = field(default_factory=dict)
    journal: Journal = field(default_factory=Journal, repr=False)

    def __post_init__(self):
        self.rig = limited(self.rig)
        self.part = None if self.numerical is None else NumericalPart(self.numerical, self.force)
        self.tracked = tuple(i for i in self.rig.inputs if i.feedback)
        driven = [i for i in self.rig.inputs if not i.feedback]
        if self.part is None and driven:
            raise RigError(
                f'The input "{driven[0].name}" has no feedback: give the numerical part that it is coupled with '
                f"({Give(numerical=Code('Model'))}...)."
            )
        if self.part is not None:
            if [i.name for i in driven] != [self.part.coordinate]:
                raise RigError(
                    f'The numerical part moves "{self.part.coordinate}", the rig drives '
                    f"{', '.join(i.name for i in driven) or 'nothing'}: give them one name."
                )
            if self.force not in self.rig.outputs:
                raise RigError(f'The rig has no output "{self.force}"; it has: {", ".join(self.rig.outputs)}.')
        known = {p.name: p.value for p in self.rig.parameters}
        if self.part is not None:
            known |= self.part.values
        self.values = {**known, **self.values}
        self.inputs: tuple[PeriodicInput, ...] = (*self.tracked, *driven)
        self._scales = {i.name: float(self.scales.get(i.name, _default_scale(i))) for i in self.inputs}
        self.noise = NoiseLevel()
        self.measurements = 0
        self.rig_time = 0.0
        self._last: tuple[Any, Measurement] | None = None
        self.base_frequency(self.values)

    # -- sizes and frequencies

    def base_frequency(self, values: Mapping[str, float]) -> float:
        """Return the excitation frequency over `repeats`."""
        found: float | None
        if isinstance(self.frequency, str):
            self.check(self.frequency)
            found = values.get(self.frequency, self.values[self.frequency])
        elif self.frequency is not None:
            found = float(self.frequency)
        else:
            found = None if self.part is None else self.part.frequency(values)
        if found is None:
            raise RigError(f"Give the frequency of the excitation: {Give(frequency='omega')}, or a number in rad/s.")
        return float(found) / self.repeats

    def check(self, name: str) -> None:
        if name not in self.values:
            raise RigError(
                f'The experiment has no parameter "{name}".{nearest_name(name, self.values)} '
                f"It has: {', '.join(self.values) or 'none'}."
            )

    def scale(self, name: str) -> float:
        """Return the typical size of an input."""
        if name not in self._scales:
            raise RigError(no_such("The experiment", "input", name, list(self._scales)))
        return self._scales[name]

    @property
    def unknowns(self) -> int:
        return len(self.inputs) * (2 * self.modes + 1)

    def sizes(self) -> Array:
        """Return the scale of each coefficient, (unknowns,)."""
        return np.repeat([self._scales[i.name] for i in self.inputs], 2 * self.modes + 1)

    def force_scale(self) -> float:
        """Return the scale of the force.

        This force moves the numerical part by its scale.
        """
        if self.part is None:
            raise RigError("The experiment has no numerical part, so no force acts on one; give numerical=Model... .")
        stiffness = self.part.stiffness(self.base_frequency(self.values), 1, self.values)[0, 0]
        return max(abs(stiffness), 1e-12) * self._scales[self.part.coordinate]

    def demands(self, coefficients: Array, values: Mapping[str, float]) -> dict[str, FourierSeries]:
        """Return each input's series from the unknowns."""
        frequency, count = self.base_frequency(values), 2 * self.modes + 1
        if np.shape(coefficients) != (self.unknowns,):
            raise RigError(
                f"coefficients has the shape {np.shape(coefficients)}; give {self.unknowns} numbers, {count} for "
                f"each of {', '.join(part.name for part in self.inputs)}."
            )
        return {
            part.name: FourierSeries(frequency, coefficients[k * count : (k + 1) * count])
            for k, part in enumerate(self.inputs)
        }

    def pack(self, demands: Mapping[str, FourierSeries]) -> Array:
        """Return the unknowns from each input's series."""
        missing = [part.name for part in self.inputs if part.name not in demands]
        if missing:
            raise RigError(f"demands has no series for {', '.join(missing)}; give one for each input.")
        return np.concatenate([demands[i.name].with_modes(self.modes).coefficients for i in self.inputs])

    # -- measuring

    def measure(self, coefficients: Array, values: Mapping[str, float], again: bool = False) -> Residual:
        """Measure the residual.

        Demands and parameters are set; parameters of the numerical part alone cost no measurement.

        Raises
        ------
        RigBeyondError
            when they are outside the limits of the rig; nothing was sent.
        """
        demands = self.demands(coefficients, values)
        adjustable = {p.name for p in self.rig.parameters}
        parameters = {n: values[n] for n in values if n in adjustable}
        # A request at the same settings is answered by the last measurement: rig time is costly.
        key = (coefficients.tobytes(), self.base_frequency(values), tuple(sorted(parameters.items())), self.modes)
        if again or self._last is None or self._last[0] != key:
            # A repeated request is made in doubt, so it averages longer.
            average = 2 * self.average if again else self.average
            try:
                self._last = key, self._measured(demands, parameters, values, average)
            except RigLimitError as problem:
                raise RigBeyondError(str(problem)) from None
        return self.residual(self._last[1], demands, values)

    def forget(self) -> None:
        """Drop the last measurement.

        The next request is measured anew, also where the last one was.
        """
        self._last = None

    def _measured(
        self,
        demands: Mapping[str, FourierSeries],
        parameters: Mapping[str, float],
        values: Mapping[str, float],
        average: int,
    ) -> Measurement:
        scales = {i.feedback or i.name: self._scales[i.name] for i in self.inputs}
        if self.part is not None:
            scales[self.force] = self.force_scale()
        checkpoint()
        found = settle_and_measure(
            self.rig, demands, parameters, self.modes, extra=self.extra, average=average,
            patience=self.patience, longest=self.longest, scales=scales, resolution=self.resolution, noise=self.noise,
        )  # fmt: skip
        self.measurements += 1
        self.rig_time += found.samples * self.rig.sample_time
        self.journal.add(
            "measurement",
            {
                "number": self.measurements,
                "frequency": found.frequency,
                "values": dict(values),
                "demands": {n: s.coefficients for n, s in demands.items()},
                "coefficients": found.coefficients,
                "deviations": found.deviations,
                "waited": found.waited,
                "averaged": found.averaged,
                "settled": found.settled,
                "effort": found.effort,
                "lost": found.lost,
                "saturated": found.saturated,
            },
        )
        if found.saturated > 0:
            raise RigUnsettledError(
                f"A controller or actuator was at its limit in {100 * found.saturated:.0f} % of the samples: the "
                "motion under it is not that of the experiment. Take smaller steps, raise the limit or lower the gains."
            )
        if not found.settled:
            raise RigUnsettledError(
                f"The motion did not repeat within its noise after {found.waited + found.averaged} periods: raise the "
                "derivative gain of the controller until two periods settle, or wait longer (longest)."
            )
        return found

    def residual(
        self, found: Measurement, demands: Mapping[str, FourierSeries], values: Mapping[str, float]
    ) -> Residual:
        """Return the residual of one measurement."""
        count = 2 * self.modes + 1
        self._require_fitting(found, demands)
        value, spread, beyond, beyond_spread = [], [], [], []
        for part in self.tracked:
            channel = found.outputs.index(part.feedback)
            error = found.coefficients[channel].copy()
            # Modes beyond the demand have no demand to subtract.
            error[:count] -= demands[part.name].coefficients
            deviation = np.hypot(found.deviations[channel], self.resolution * self._scales[part.name])
            value.append(error[:count])
            beyond.append(error[count:])
            spread.append(deviation[:count])
            beyond_spread.append(deviation[count:])
        if self.part is not None:
            channels = [found.outputs.index(self.part.coordinate), found.outputs.index(self.force)]
            balance = self.part.balance(
                found.series(self.part.coordinate),
                found.series(self.force),
                (found.deviations[channels[0]], found.deviations[channels[1]]),
                values,
            )
            deviation = np.hypot(balance.deviations, self.resolution * self.force_scale())
            value.append(balance.coefficients[:count])
            beyond.append(balance.coefficients[count:])
            spread.append(deviation[:count])
            beyond_spread.append(deviation[count:])
        return Residual(
            np.concatenate(value), np.concatenate(spread), np.concatenate(beyond), np.concatenate(beyond_spread), found
        )

    def _require_fitting(self, found: Measurement, demands: Mapping[str, FourierSeries]) -> None:
        """Refuse measurements or demands of another rig.

        Other modes are refused too.
        """
        count = 2 * self.modes + 1
        needed = [i.feedback for i in self.tracked]
        needed += [] if self.part is None else [self.part.coordinate, self.force]
        for output in needed:
            if output not in found.outputs:
                raise RigError(no_such("The measurement", "output", output, found.outputs))
        size = np.shape(found.coefficients)
        if size != np.shape(found.deviations) or size != (len(found.outputs), count + 2 * self.extra):
            raise RigError(
                f"The measurement has coefficients of shape {size}, this experiment {len(found.outputs)} outputs with "
                f"{self.modes} modes and {self.extra} beyond: measure with this experiment."
            )
        for part in self.tracked:
            if part.name not in demands:
                raise RigError(no_such("The demands", "input", part.name, tuple(demands)))
            if demands[part.name].coefficients.size != count:
                raise RigError(
                    f'The demand of "{part.name}" has {demands[part.name].coefficients.size} coefficients, this '
                    f"experiment {count} ({self.modes} modes)."
                )

    def blocks(self) -> list[float]:
        """Return the scale of each residual block.

        A block holds 2 modes + 1 residuals.
        """
        scales = [self._scales[i.name] for i in self.tracked]
        return scales if self.part is None else [*scales, self.force_scale()]

    def relative_noise(self, found: Residual) -> float:
        """Return the largest relative noise of a block.

        Rms deviation of a block of residuals, as a share of its scale.
        """
        rows = found.deviation.reshape(len(self.blocks()), -1)
        return float(max(np.sqrt(np.mean(row**2)) / scale for row, scale in zip(rows, self.blocks(), strict=True)))

    def missing_modes(self, found: Residual) -> float:
        """Return the share of modes beyond the unknowns.

        It is relative to the scale of their input; 0 when it is noise.
        A force left over in the balance counts by the motion it would cause in the numerical part: near a resonance of
        that part a small force matters.
        """
        count, worst = 2 * self.extra, 0.0
        for k, scale in enumerate(self.blocks()):
            part, noise = (rows[k * count : (k + 1) * count] for rows in (found.beyond, found.beyond_deviation))
            # Within three deviations the modes beyond are noise.
            if np.sqrt(np.mean((part / noise) ** 2)) <= 3.0:
                continue
            if k == len(self.tracked):
                assert self.part is not None
                total = self.modes + self.extra
                stiffness = self.part.stiffness(found.measurement.frequency, total, self.values)
                dynamic = np.hypot(np.diag(stiffness), np.append(np.diag(stiffness, 1), 0.0))
                part = part / np.maximum(np.abs(dynamic[-count:]), 1e-300)
                scale = self._scales[self.part.coordinate]
            worst = max(worst, float(np.sqrt(0.5 * np.sum(part**2))) / scale)
        return worst

    def add_modes(self) -> int:
        """Add two modes to the unknowns.

        The number of modes before is returned.
        """
        before = self.modes
        self.modes = min(before + 2, self.most_modes)
        # Variances are stored per coefficient, whose number has changed.
        self.noise.variance = None
        return before

    def follow(
        self,
        start: Anything = None,
        parameter: str | None = None,
        bounds: tuple[float, float] | None = None,
        **settings: Anything,
    ) -> RigBranch:
        """Follow a branch; see `kapitza.rig.follow_rig`."""
        # The public name, whose arguments are checked.
        from kapitza.rig import follow_rig

        return follow_rig(self, start, parameter, bounds, **settings)


@dataclass
class RigFamily:
    """Experiment as a `MeasuredFamily`.

    Unknowns are all coefficients, then the parameter that is followed.
    """

    experiment: Experiment
    parameter: str
    parameter_scale: float
    difference: float = 0.05
    beyond: Array | None = field(default=None, repr=False)
    share: float = float("nan")
    """Size of the last differences, as a share of the scales."""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    """Bounds of the parameter: nothing outside of them is sent."""
    refused: RigBeyondError | None = None
    """The last refusal of a limit since it was set back."""

    def __post_init__(self):
        own = [p.bounds for p in self.experiment.rig.parameters if p.name == self.parameter]
        for low, high in own:
            self.bounds = max(self.bounds[0], low), min(self.bounds[1], high)

    def passed(self, value: float) -> float | None:
        """Return the bound that a value passed.

        The value is that of the parameter; None inside the bounds.
        """
        low, high = self.bounds
        slack = 1e-9 * self.parameter_scale
        return low if value < low - slack else high if value > high + slack else None

    @property
    def scale(self) -> Array:
        return np.append(self.experiment.sizes(), self.parameter_scale)

    def values(self, z: Array) -> dict[str, float]:
        inside = min(max(float(z[-1]), self.bounds[0]), self.bounds[1])
        return {**self.experiment.values, self.parameter: inside}

    def residual(self, z: Array, again: bool = False) -> Residual:
        try:
            if (bound := self.passed(z[-1])) is not None:
                raise RigBeyondError(
                    f"{self.parameter} = {z[-1]:.6g} is outside of bounds = ({self.bounds[0]:g}, {self.bounds[1]:g}): "
                    "nothing was sent to the rig.",
                    bound,
                )
            return self.experiment.measure(z[:-1], self.values(z), again)
        except RigBeyondError as problem:
            self.refused = problem
            raise

    def measure(self, z: Array) -> Measured:
        found = self.residual(z)
        return Measured(found.value, found.deviation)

    def jacobian(self, z: Array) -> Array:
        """Measure the Jacobian (m, N) by differences.

        One-sided, sized so that the noise on a column stays small.
        """
        columns, beyond = self._differences(z, range(z.size))
        self.beyond = beyond
        return columns

    def resolved(self, z: Array) -> tuple[Array, Array]:
        """Measure the Jacobian in as many modes as matter.

        Modes are added while those beyond the unknowns exceed their noise and `RESOLVED`: the controller resists them,
        so that the motion is not free. The unknowns are returned in these modes, with the Jacobian.
        """
        experiment, jacobian = self.experiment, self.jacobian(z)
        # Points of a branch were measured in `extra` modes beyond theirs: their residuals are known up to there.
        most = min(experiment.most_modes, experiment.modes + experiment.extra)
        while experiment.modes < most:
            if experiment.missing_modes(self.residual(z)) <= RESOLVED:
                break
            before = experiment.add_modes()
            z = resized(z, experiment)
            jacobian = self.extended(z, jacobian, before)
        return z, jacobian

    def extended(self, z: Array, jacobian: Array, before: int) -> Array:
        """Extend the Jacobian by added modes.

        Modes were added to `before` of them: only the new columns are measured.
        The dependence of the new residuals on the old unknowns was measured in the modes beyond, with the Jacobian.
        """
        experiment = self.experiment
        blocks, old, new = len(experiment.inputs), 2 * before + 1, 2 * experiment.modes + 1
        added, extra = new - old, 2 * experiment.extra
        known = self.beyond
        if known is None or known.shape != (blocks * extra, blocks * old + 1) or added > extra:
            return self.jacobian(z)
        seen = known.reshape(blocks, extra, -1)
        if not np.isfinite(seen[:, :added]).all():
            return self.jacobian(z)
        kept, fresh = (
            np.concatenate([k * new + np.arange(*span) for k in range(blocks)]) for span in ((0, old), (old, new))
        )
        columns = np.append(kept, z.size - 1)
        result, beyond = np.empty((blocks * new, z.size)), np.full((blocks, extra, z.size), np.nan)
        result[np.ix_(kept, columns)] = jacobian
        result[np.ix_(fresh, columns)] = seen[:, :added].reshape(blocks * added, -1)
        beyond[:, : extra - added, columns] = seen[:, added:]
        result[:, fresh], measured = self._differences(z, fresh)
        beyond[:, :, fresh] = measured.reshape(blocks, extra, -1)
        self.beyond = beyond.reshape(blocks * extra, -1)
        return result

    def _differences(self, z: Array, places: Sequence[int] | Array) -> tuple[Array, Array]:
        """Measure columns of the derivative.

        The residuals and those beyond the unknowns are differentiated.
        """
        here = self.residual(z)
        # Differences from 0.01 to 0.2 rad all served on the HYBRID rig with 1 % noise.
        share = self.share = min(max(self.difference, 10 * self.experiment.relative_noise(here)), 0.2)
        columns, beyond = [], []
        for j in places:
            # Towards zero, so that limits are not met on the way.
            there, step = self._moved(z, j, share * self.scale[j] * (-1.0 if z[j] > 0 and j < z.size - 1 else 1.0))
            columns.append((there.value - here.value) / step)
            beyond.append((there.beyond - here.beyond) / step)
        return np.column_stack(columns), np.column_stack(beyond)

    def _moved(self, z: Array, j: int, step: float) -> tuple[Residual, float]:
        """Measure the residual with one unknown moved.

        The direction is changed or the step reduced where a limit of the rig is met; the step is returned too.
        """
        # A one-sided difference may go the other way, or be smaller, where a limit is met.
        for factor in (1.0, -1.0, 0.25):
            moved = z.copy()
            moved[j] += factor * step
            try:
                return self.residual(moved), factor * step
            except RigBeyondError:
                continue
        moved = z.copy()
        moved[j] -= 0.25 * step
        return self.residual(moved), -0.25 * step


def resized(z: Array, experiment: Experiment) -> Array:
    """Return unknowns in the present number of modes.

    The vector holds the coefficients and the parameter; it is padded with zeros or cut to the experiment's modes.
    """
    blocks, wanted = len(experiment.inputs), 2 * experiment.modes + 1
    count = (z.size - 1) // blocks
    if count == wanted:
        return z
    result = np.zeros(blocks * wanted + 1)
    kept = min(count, wanted)
    for k in range(blocks):
        result[k * wanted : k * wanted + kept] = z[k * count : k * count + kept]
    result[-1] = z[-1]
    return result


def _default_scale(part: PeriodicInput) -> float:
    if part.unit in ("", "rad") and not math.isfinite(part.limit):
        return 1.0
    return part.limit / 5 if math.isfinite(part.limit) else 1.0
