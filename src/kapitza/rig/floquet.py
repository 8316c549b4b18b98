"""Floquet multipliers of a tracked motion, measured: a multisine around it, a periodic linear model in weak form.

Around the motion the experiment obeys δx'' = p δx + r δx' + e δy'' + b δu, and its force is
δF = f0 δx + f1 δx' + f2 δy'' + f3 δu, with coefficients of the motion's period. They are fitted to records in which
multisines move all demands; then the control is switched off on paper (u = 0), the numerical part is coupled
(M y'' + C y' + K y = F), and the linear equations are integrated over one period.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.errors import RigError
from kapitza.rig.branch import RigPoint
from kapitza.rig.corrector import resized
from kapitza.rig.experiment import Experiment
from kapitza.rig.fourier import FourierSeries, columns, project
from kapitza.rig.protocol import sound_samples

Array = NDArray[Any]


@dataclass(frozen=True)
class MeasuredMultipliers:
    """multipliers: largest modulus first; deviation: of each modulus, from parts of the record.

    timing: coefficient of the derivative of the control over that of the control, in s, with its standard deviation:
    zero unless the recorded control is early or late; trusted says whether it is. inertia: mean of b, the effect of a
    unit of control (1 where the control adds to an equation with unit leading coefficient).
    """

    multipliers: NDArray[np.complex128]
    deviation: Array
    timing: float
    timing_deviation: float
    inertia: float
    rig_time: float

    @property
    def trusted(self) -> bool:
        return abs(self.timing) <= max(3 * self.timing_deviation, 2e-4)

    @property
    def stable(self) -> bool | None:
        """None where the noise does not decide."""
        largest = float(np.abs(self.multipliers[0]))
        if abs(largest - 1) <= 2 * float(self.deviation[0]) or not self.trusted:
            return None
        return largest < 1


@dataclass(frozen=True)
class FloquetSettings:
    """periods: of the record; sizes: rms of the multisine, as shares of the scales of controlled and driven inputs.

    highest: rad/s of the multisine; modes: of the coefficients; window: length of the test functions in s.
    parts: of the record, for the deviations; seed: of the phases of the multisine.
    """

    periods: int = 40
    angle: float = 0.05
    travel: float = 0.06
    highest: float | None = None
    modes: int = 8
    window: float | None = None
    parts: int = 4
    seed: int = 0


def measure_multipliers(
    experiment: Experiment, point: RigPoint, settings: FloquetSettings | None = None
) -> MeasuredMultipliers:
    """Multipliers of the uncontrolled, coupled experiment around a tracked motion, from the experiment itself.

    The controlled input comes first; at most one input is driven, and its numerical part must be linear.
    """
    settings = settings or FloquetSettings()
    if len(experiment.tracked) != 1:
        raise RigError("Multipliers are measured for experiments with one controlled coordinate.")
    with _standing_at(experiment, point):
        return _measured(experiment, point, settings)


@contextmanager
def _standing_at(experiment: Experiment, point: RigPoint) -> Iterator[None]:
    """The experiment at the parameters of the point; a point of another base frequency is refused."""
    before = experiment.values
    experiment.values = {**before, **{n: v for n, v in point.measurement.parameters.items() if n in before}}
    try:
        own, base = point.measurement.frequency, experiment.base_frequency(experiment.values)
        if abs(base / own - 1) > 1e-9:
            raise RigError(
                f"The point was measured at a base frequency of {own:.6g} rad/s, the experiment stands at {base:.6g} "
                "rad/s: set its values to those of the point first."
            )
        yield
    finally:
        experiment.values = before


def _measured(experiment: Experiment, point: RigPoint, settings: FloquetSettings) -> MeasuredMultipliers:
    record = _Record(experiment, point, settings)
    with experiment.rig:
        record.take()
    rows = record.rows()
    whole = _Fit(experiment, point, settings, rows)
    multipliers = whole.multipliers()
    pieces = []
    for part in np.array_split(np.arange(len(rows.phase)), settings.parts):
        try:
            pieces.append(np.abs(_Fit(experiment, point, settings, rows.chosen(part)).multipliers()))
        except np.linalg.LinAlgError:
            continue
    spread = (
        np.std(pieces, axis=0, ddof=1) / math.sqrt(len(pieces))
        if len(pieces) > 1
        else np.full(multipliers.size, np.nan)
    )
    timing, timing_deviation = whole.timing()
    rig_time = (settings.periods + 4) * 2 * np.pi / point.measurement.frequency
    return MeasuredMultipliers(multipliers, spread, timing, timing_deviation, whole.inertia(), rig_time)


def with_multipliers(point: RigPoint, found: MeasuredMultipliers) -> RigPoint:
    """The point with what was measured of its stability."""
    return replace(point, multipliers=found.multipliers, multiplier_deviation=found.deviation)


@dataclass(frozen=True)
class _Rows:
    """Weak-form rows: phase (N,) of each window, and windowed signals (N,)."""

    phase: Array
    x: dict[str, Array]

    def chosen(self, index: Array) -> _Rows:
        return _Rows(self.phase[index], {name: values[index] for name, values in self.x.items()})


class _Record:
    """A long record with multisines on all demands, less the periodic motion itself."""

    def __init__(self, experiment: Experiment, point: RigPoint, settings: FloquetSettings):
        self.experiment, self.point, self.settings = experiment, point, settings
        self.base = point.measurement.frequency
        self.step = experiment.rig.sample_time
        # Modes may have been added after this point was found.
        self.own = experiment.demands(resized(point.z, experiment)[:-1], {**experiment.values})
        self.highest = settings.highest or 7.0 * self.base
        self.window = settings.window or 0.155 * 2 * np.pi / self.base

    def demands(self) -> dict[str, FourierSeries]:
        """Demands of a base period `periods` times as long: the motion, and lines between its harmonics."""
        experiment, settings = self.experiment, self.settings
        rng = np.random.default_rng(settings.seed)
        count = math.ceil(self.highest / (self.base / settings.periods))
        lines = np.array([k for k in range(1, count + 1) if k % settings.periods])
        made = {}
        for part in experiment.inputs:
            values = np.zeros(2 * max(count, settings.periods * experiment.modes) + 1)
            own = self.own[part.name].coefficients
            values[0] = own[0]
            for k in range(1, experiment.modes + 1):
                values[2 * k * settings.periods - 1 : 2 * k * settings.periods + 1] = own[2 * k - 1 : 2 * k + 1]
            share = settings.angle if part.feedback else settings.travel
            phases = rng.uniform(0, 2 * np.pi, lines.size)
            size = share * experiment.scale(part.name) * math.sqrt(2 / lines.size)
            values[2 * lines - 1], values[2 * lines] = size * np.cos(phases), size * np.sin(phases)
            made[part.name] = FourierSeries(self.base / settings.periods, values)
        return made

    def take(self) -> None:
        rig, settings = self.experiment.rig, self.settings
        adjustable = {p.name for p in rig.parameters}
        values = {**self.experiment.values, **self.point_values()}
        rig.set(self.demands(), **{n: v for n, v in values.items() if n in adjustable})
        per_period = 2 * np.pi / self.base / self.step
        while sound_samples(rig, math.ceil(4 * per_period)).changing:
            continue  # until the demand has arrived, and four periods more at most
        self.samples = sound_samples(rig, math.ceil((settings.periods + 0.2) * per_period))
        share = float(self.samples.saturated.mean())
        if share > 0:
            raise RigError(
                f"A controller or actuator was at its limit in {100 * share:.2g} % of the samples: the motion around "
                "the orbit is not linear then. Take a smaller multisine (FloquetSettings(angle=..., travel=...))."
            )

    def point_values(self) -> dict[str, float]:
        return {n: v for n, v in self.point.measurement.parameters.items() if n in self.experiment.values}

    def rows(self) -> _Rows:
        """Signals and their derivatives against bump windows; what repeats with the motion is taken out first."""
        experiment, samples = self.experiment, self.samples
        phases = samples.phases * self.settings.periods  # of the motion
        lost = samples.lost
        values = np.concatenate([samples.values, samples.control], axis=1)
        modes = experiment.modes + experiment.extra
        step = float(phases[1] - phases[0])
        periodic = project(values, float(phases[0]), step, modes, lost)
        rest = values - columns(phases, modes) @ periodic.T
        if lost.any():
            good = np.flatnonzero(~lost)
            rest = np.column_stack([np.interp(np.arange(len(rest)), good, rest[good, j]) for j in range(rest.shape[1])])
        # What is held from a sample to the next acts half a sample later than its first instant.
        control = rest[:, len(experiment.rig.outputs) :]
        rest[1:, len(experiment.rig.outputs) :] = 0.5 * (control[1:] + control[:-1])
        half = max(round(self.window / self.step / 2), 4)
        centres = np.arange(half, len(rest) - half, max(half // 4, 1))
        index = centres[:, None] + np.arange(-half, half + 1)[None, :]
        names = [*experiment.rig.outputs, "control"]
        signals: dict[str, Array] = {}
        for j, name in enumerate(names):
            signals[name] = rest[:, j][index]
        return _weak_rows(experiment, signals, phases[index], _bump(half, self.step), self.settings.modes)


def _bump(half: int, step: float) -> tuple[Array, Array, Array]:
    """(1 - x²)⁴ on 2 half + 1 samples with its first two derivatives in time, times the weights of the sum."""
    x = np.arange(-half, half + 1) / half
    width = half * step
    bump = (1 - x**2) ** 4
    first = -8 * x * (1 - x**2) ** 3 / width
    second = (-8 * (1 - x**2) ** 3 + 48 * x**2 * (1 - x**2) ** 2) / width**2
    return bump, first, second


def _weak_rows(
    experiment: Experiment, signals: dict[str, Array], phases: Array, bump: tuple[Array, Array, Array], modes: int
) -> _Rows:
    """Every term of the periodic linear model, integrated against the bump: (N, terms) blocks by name.

    With w the window and c(t) a periodic coefficient, ∫ w c δx' = -∫ (w c)' δx and ∫ w c δy'' = ∫ (w c)'' δy, so
    that no measured signal is differentiated.
    """
    w, w1, w2 = bump
    frequency = experiment.base_frequency(experiment.values)
    count = 2 * modes + 1
    total = phases.shape[0]
    shape = columns(phases.ravel(), modes).reshape(total, phases.shape[1], count)
    order = np.concatenate([[0], np.repeat(np.arange(1, modes + 1), 2)]) * frequency
    # Derivatives of 1, cos kφ, sin kφ in time.
    turned = np.zeros_like(shape)
    turned[:, :, 1::2], turned[:, :, 2::2] = -shape[:, :, 2::2] * order[1::2], shape[:, :, 1::2] * order[2::2]
    curved = -shape * order**2

    def against(weight: Array, signal: Array, shapes: Array) -> Array:
        return np.matmul((signal * weight)[:, None, :], shapes)[:, 0, :]

    x, control = signals[experiment.tracked[0].feedback], signals["control"]
    blocks = {
        "x": against(w, x, shape),
        "x'": -(against(w1, x, shape) + against(w, x, turned)),
        "x''": (x @ w2)[:, None],
        "u": against(w, control, shape),
        "u'": -(against(w1, control, shape) + against(w, control, turned)),
    }
    if experiment.part is not None:
        y, force = signals[experiment.part.coordinate], signals[experiment.force]
        blocks["y''"] = against(w2, y, shape) + 2 * against(w1, y, turned) + against(w, y, curved)
        blocks["F"] = (force @ w)[:, None]
    return _Rows(phases[:, phases.shape[1] // 2], blocks)


def _exponentials(matrices: Array) -> Array:
    """exp of many small matrices of small norm (N, n, n), by its series."""
    result = term = np.broadcast_to(np.eye(matrices.shape[1]), matrices.shape).copy()
    for k in range(1, 21):
        term = term @ matrices / k
        result = result + term
    return result


class _Fit:
    """Coefficients by least squares, and the monodromy of the coupled linear equations."""

    def __init__(self, experiment: Experiment, point: RigPoint, settings: FloquetSettings, rows: _Rows):
        self.experiment, self.point, self.settings, self.rows = experiment, point, settings, rows
        self.count = 2 * settings.modes + 1
        self.names = ["x", "x'", "u"] if experiment.part is None else ["x", "x'", "y''", "u"]
        matrix = np.concatenate([rows.x[n] for n in self.names], axis=1)
        self.matrix = matrix
        self.motion = np.linalg.lstsq(matrix, rows.x["x''"][:, 0], rcond=None)[0]
        self.force = None
        if experiment.part is not None:
            self.force = np.linalg.lstsq(matrix, rows.x["F"][:, 0], rcond=None)[0]

    def _split(self, solution: Array, phases: Array) -> dict[str, Array]:
        shape = columns(phases, self.settings.modes)
        return {name: shape @ solution[k * self.count : (k + 1) * self.count] for k, name in enumerate(self.names)}

    def inertia(self) -> float:
        return float(self.motion[self.names.index("u") * self.count])

    def timing(self) -> tuple[float, float]:
        """Mean coefficient of u' beside u: the time by which the recorded control is off, with its deviation."""
        matrix = np.concatenate([self.matrix, self.rows.x["u'"][:, :1]], axis=1)
        solution, *_ = np.linalg.lstsq(matrix, self.rows.x["x''"][:, 0], rcond=None)
        left = self.rows.x["x''"][:, 0] - matrix @ solution
        # Windows overlap eightfold: as many fewer rows are independent.
        variance = float(left @ left) / max(len(left) - matrix.shape[1], 1) * 8
        covariance = variance * np.linalg.pinv(matrix.T @ matrix)
        scale = self.inertia() or 1.0
        return float(-solution[-1] / scale), float(np.sqrt(covariance[-1, -1]) / abs(scale))

    def multipliers(self) -> NDArray[np.complex128]:
        """Eigenvalues of the product of exponentials over one period (fourth order in the step)."""
        frequency = self.point.measurement.frequency
        period, steps = 2 * np.pi / frequency, 400
        nodes = np.array([0.5 - math.sqrt(3) / 6, 0.5 + math.sqrt(3) / 6])
        h = period / steps
        times = (np.arange(steps)[:, None] + nodes[None, :]).ravel() * h
        generators = self._generators(frequency * times).reshape(steps, 2, *self._size())
        first, second = generators[:, 0], generators[:, 1]
        exponents = 0.5 * h * (first + second) + math.sqrt(3) / 12 * h**2 * (second @ first - first @ second)
        total = np.eye(self._size()[0])
        for factor in _exponentials(exponents):
            total = factor @ total
        found = np.linalg.eigvals(total)
        return found[np.argsort(-np.abs(found))].astype(complex)

    def _size(self) -> tuple[int, int]:
        return (2, 2) if self.experiment.part is None else (4, 4)

    def _generators(self, phases: Array) -> Array:
        """(N, n, n) of the state (x, x') or (y, x, y', x')."""
        motion = self._split(self.motion, phases)
        result = np.zeros((phases.size, *self._size()))
        if self.experiment.part is None:
            result[:, 0, 1] = 1.0
            result[:, 1, 0], result[:, 1, 1] = motion["x"], motion["x'"]
            return result
        assert self.force is not None
        force = self._split(self.force, phases)
        stiffness = self.experiment.part.stiffness(1.0, 1, self.experiment.values)
        k, c = stiffness[0, 0], stiffness[1, 2]
        m = k - stiffness[1, 1]
        # M y'' + C y' + K y = f0 x + f1 x' + f2 y'': the force holds the acceleration.
        mass = m - force["y''"]
        row = np.stack([-k / mass, force["x"] / mass, -c / mass, force["x'"] / mass], axis=1)
        result[:, 0, 2] = result[:, 1, 3] = 1.0
        result[:, 2] = row
        result[:, 3] = motion["y''"][:, None] * row
        result[:, 3, 1] += motion["x"]
        result[:, 3, 3] += motion["x'"]
        return result
