"""Measured period doubling of a rest state.

It is found by the determinant of a response or by an amplitude condition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from kapitza.base import checks
from kapitza.base.arrays import Array
from kapitza.base.cures import Give
from kapitza.errors import RigError
from kapitza.rig.branch import RigBifurcation
from kapitza.rig.corrector import RigStepping, Solved, solved
from kapitza.rig.experiment import Experiment, RigFamily
from kapitza.solve import DenseLinearised, Measured, MeasuredSystem, NewtonSettings, newton, singular_vectors

REFINEMENTS = 3
"""Secant steps at most, once det G is extrapolated to small perturbations."""

LEFT = 0.15
"""Part of the effect of the perturbation's size that the extrapolation may leave; it counts as a standard deviation."""


@dataclass
class _RestState(MeasuredSystem):
    """Equations of the motion without subharmonic.

    Only the driven inputs move, at multiples of the excitation frequency.
    """

    experiment: Experiment
    values: dict[str, float]

    def __post_init__(self):
        experiment = self.experiment
        count = 2 * experiment.modes + 1
        first = len(experiment.tracked) * count
        even = [0] + [
            2 * k - 1 + j for k in range(1, experiment.modes + 1) if k % experiment.repeats == 0 for j in (0, 1)
        ]
        # The rest state has the period of the drive: only every `repeats`-th mode is free.
        self.free = np.array([first + i for i in even])

    @property
    def size(self) -> float:
        assert self.experiment.part is not None
        return self.experiment.scale(self.experiment.part.coordinate)

    def full(self, x: Array) -> Array:
        coefficients = np.zeros(self.experiment.unknowns)
        coefficients[self.free] = x
        return coefficients

    def measure(self, x: Array) -> Measured:
        found = self.experiment.measure(self.full(x), self.values)
        return Measured(found.value[self.free], found.deviation[self.free])

    def jacobian(self, x: Array) -> Array:
        """Measure the Jacobian by differences.

        They are a quarter of the scale: the rest state is nearly linear, so one Jacobian serves all forcings.
        """
        here, step = self.measure(x).value, 0.25 * self.size
        columns = [(self.measure(x + step * unit).value - here) / step for unit in np.eye(x.size)]
        return np.column_stack(columns)


def rest_state(
    experiment: Experiment, values: dict[str, float], start: Array, jacobian: Array | None
) -> tuple[Array, Array]:
    """Return the demands of the rest state.

    It returns demands (unknowns,) at which the experiment moves with the excitation alone, and the Jacobian for the
    next.
    """
    if experiment.part is None:
        return np.zeros(experiment.unknowns), np.zeros((0, 0))
    state = _RestState(experiment, values)
    result = None
    for matrix in (jacobian, None):
        if matrix is None:
            matrix = state.jacobian(start[state.free])
        begin = DenseLinearised(np.zeros(state.free.size), matrix)
        # Kept as it is: updates from steps as small as the noise would spoil it.
        settings = NewtonSettings(max_iterations=8, update="chord", noise_level=2.0)
        result = newton(state, start[state.free], settings, state.size, begin=begin)
        if result.status.ok:
            return state.full(result.x), matrix
    assert result is not None
    raise RigError(f"The rest state could not be reached on the rig: {result.message or result.status.value}")


@dataclass(frozen=True)
class Response:
    """Response of the first mode.

    matrix: G = ∂(θ - θ̃)/∂θ̃ of the first mode (2, 2), with its variance. determinant and deviation: det G and its
    standard deviation. direction: the null direction.
    """

    matrix: Array
    variance: Array
    determinant: float
    deviation: float
    direction: Array


@dataclass(frozen=True)
class HigherModes:
    """Response to the other subharmonic modes.

    It is the response of the controlled input, measured once because it changes little.
    The doubled motion contains such modes (the third by the parametric forcing). A demand without them makes the
    controller resist them: det G of the first mode alone is then off in proportion to the gain.
    places: (n,) their unknowns; columns: (2 + n, n) residuals of the first mode, then theirs, per unit of each.
    """

    places: Array
    columns: Array


def subharmonic_places(experiment: Experiment) -> Array:
    """Return the unknowns of higher subharmonic modes.

    They belong to the controlled input, in the modes that only a doubled motion has; the first mode is left out.
    """
    modes = [k for k in range(2, experiment.modes + 1) if k % experiment.repeats]
    return np.array([2 * k - 1 + j for k in modes for j in (0, 1)], int)


def _columns(
    experiment: Experiment, values: dict[str, float], rest: Array, places: Array, rows: Array, size: float
) -> tuple[Array, Array]:
    """Return central differences of the residuals.

    `rows` are differenced by the unknowns `places`; deviations are returned too.
    """
    matrix, spread = np.empty((rows.size, places.size)), np.empty((rows.size, places.size))
    for column, place in enumerate(places):
        pair = []
        for sign in (1.0, -1.0):
            moved = rest.copy()
            # Central differences cancel the quadratic part of the response.
            moved[place] += sign * size
            pair.append(experiment.measure(moved, values))
        matrix[:, column] = (pair[0].value[rows] - pair[1].value[rows]) / (2 * size)
        spread[:, column] = np.hypot(pair[0].deviation[rows], pair[1].deviation[rows]) / (2 * size)
    return matrix, spread


def higher_modes(experiment: Experiment, values: dict[str, float], rest: Array, size: float) -> HigherModes:
    places = subharmonic_places(experiment)[:2]  # the next one: those beyond hold a hundredth of it
    rows = np.array([1, 2, *places])
    return HigherModes(places, _columns(experiment, values, rest, places, rows, size)[0])


def subharmonic_response(
    experiment: Experiment, values: dict[str, float], rest: Array, size: float, higher: HigherModes
) -> Response:
    """Measure the response of the first mode.

    Both coefficients of the first mode of the controlled input are perturbed by ± size.
    The higher modes follow as they would without control: G = G₁₁ - G₁₃ G₃₃⁻¹ G₃₁.
    """
    rows = np.array([1, 2, *higher.places])
    found, spread = _columns(experiment, values, rest, np.array([1, 2]), rows, size)
    passed_on = np.zeros((2, 0))
    if higher.places.size:
        passed_on = higher.columns[:2] @ np.linalg.inv(higher.columns[2:])
    matrix = found[:2] - passed_on @ found[2:]
    return _response(matrix, spread[:2] ** 2 + passed_on**2 @ spread[2:] ** 2)


def _response(matrix: Array, variance: Array) -> Response:
    cofactors = np.array([[matrix[1, 1], matrix[1, 0]], [matrix[0, 1], matrix[0, 0]]])
    _, _, right = singular_vectors(matrix)
    deviation = float(np.sqrt(np.sum(cofactors**2 * variance)))
    return Response(matrix, variance, float(np.linalg.det(matrix)), deviation, right[-1])


def find_doubling(
    experiment: Experiment,
    parameter: str,
    bounds: tuple[float, float],
    *,
    perturbation: float = 0.1,
    points: int = 9,
    tolerance: float = 5e-4,
    max_iterations: int = 12,
    average: int = 6,
) -> RigBifurcation:
    """Find the period doubling of the rest state.

    det G = 0 is solved without a model of the experiment.

    The determinant is scanned upwards from the lower bound until it changes its sign, then located by regula falsi
    (Illinois). Its null vector gives the phase in which the doubled motion leaves. G is that of the first mode of the
    controlled input with the next subharmonic mode left free to follow, so that the gains do not bias it, and
    extrapolated to small perturbations at the end.

    Parameters
    ----------
    bounds : (low, high)
        Range of the parameter; `points` values are tested, upwards.
    perturbation : float
        Of the first mode, in units of the controlled input (rad): large against the noise, small enough to be linear.
    tolerance : float
        Relative, of the parameter.
    average : int
        Periods in each mean: near the doubling the response is a small difference.
    """
    experiment.check(parameter)
    if experiment.repeats < 2:
        raise RigError(
            f"repeats = {experiment.repeats}: a doubling shows in demands of twice the period, {Give(repeats=2)}."
        )
    low_bound, high_bound = checks.span("bounds", bounds, error=RigError)
    search = _Search(experiment, parameter, perturbation, (low_bound, high_bound))
    began = experiment.measurements
    with experiment.rig, _finely(experiment, average):
        low, high = search.bracket(np.linspace(*bounds, points))
        value, deviation, response, rest = search.locate(low, high, tolerance, max_iterations)
        demands = experiment.demands(rest, experiment.values)
    return RigBifurcation(
        kind="period doubling",
        parameter=parameter,
        value=value,
        deviation=deviation,
        method="det G",
        measurements=experiment.measurements - began,
        direction=response.direction,
        values={**experiment.values, parameter: value},
        demands=demands,
    )


@contextmanager
def _finely(experiment: Experiment, average: int) -> Iterator[None]:
    """Wait longer and average more.

    A transient of a thousandth moves det G by a per cent.
    The next subharmonic mode must be among the unknowns.
    """
    before = experiment.resolution, experiment.average, experiment.patience, experiment.modes
    experiment.resolution, experiment.average, experiment.patience = 0.1 * before[0], average, 3
    experiment.modes = max(experiment.modes, experiment.repeats + 1)
    try:
        yield
    finally:
        experiment.resolution, experiment.average, experiment.patience, experiment.modes = before
        experiment.forget()


Sample = tuple[float, Response, Array]


@dataclass
class _Search:
    """Search for a zero of det G.

    The search varies the parameter and carries the rest state along.
    """

    experiment: Experiment
    parameter: str
    perturbation: float
    bounds: tuple[float, float]
    jacobian: Array | None = None
    last: tuple[float, Array] | None = None
    higher: HigherModes | None = None

    def at(self, value: float) -> Sample:
        values = {**self.experiment.values, self.parameter: float(value)}
        start = np.zeros(self.experiment.unknowns)
        if self.last is not None and self.last[0]:
            # The rest state of a forced linear part grows with the forcing.
            start = self.last[1] * value / self.last[0]
        rest, self.jacobian = rest_state(self.experiment, values, start, self.jacobian)
        self.last = value, rest
        if self.higher is None:
            self.higher = higher_modes(self.experiment, values, rest, self.perturbation)
        return float(value), subharmonic_response(self.experiment, values, rest, self.perturbation, self.higher), rest

    def without_amplitude(self, sample: Sample) -> Response:
        """Extrapolate G to zero perturbation.

        Its error grows with the square, which a measurement at twice the size shows.
        """
        value, small, rest = sample
        values = {**self.experiment.values, self.parameter: value}
        assert self.higher is not None
        large = subharmonic_response(self.experiment, values, rest, 2 * self.perturbation, self.higher)
        # Error a h² at size h: (4 G(h) - G(2h))/3 is free of it.
        matrix = small.matrix - (large.matrix - small.matrix) / 3
        return _response(matrix, (16 * small.variance + large.variance) / 9)

    def bracket(self, grid: Sequence[float] | Array) -> tuple[Sample, Sample]:
        before = self.at(float(grid[0]))
        for value in grid[1:]:
            now = self.at(float(value))
            if before[1].determinant * now[1].determinant <= 0:
                return before, now
            before = now
        raise RigError(
            f"No period doubling between {self.parameter} = {grid[0]:.5g} and {grid[-1]:.5g}: det G keeps its sign "
            f"(last {before[1].determinant:.3g} ± {before[1].deviation:.1g}). Widen the bounds."
        )

    def locate(self, low: Sample, high: Sample, tolerance: float, limit: int) -> tuple[float, float, Response, Array]:
        f_low, f_high = low[1].determinant, high[1].determinant
        slope = (f_high - f_low) / (high[0] - low[0])
        side, now = 0, high
        for _ in range(limit):
            value = (low[0] * f_high - high[0] * f_low) / (f_high - f_low)
            now = self.at(value)
            determinant = now[1].determinant
            width = high[0] - low[0]
            if abs(determinant) <= max(
                0.3 * now[1].deviation, tolerance * abs(slope * value)
            ) or width < tolerance * abs(value):
                break
            # Illinois: the value at an end that stays twice is halved.
            if determinant * f_high < 0:
                low, f_low, slope = high, f_high, (determinant - f_high) / (value - high[0])
                high, f_high, side = now, determinant, 0
            else:
                slope = (determinant - f_high) / (value - high[0]) if value != high[0] else slope
                f_low = f_low / 2 if side else f_low
                high, f_high, side = now, determinant, 1
        return self._refined(now, slope, tolerance)

    def _inside(self, value: float) -> float:
        """Limit a value to the bounds.

        A secant step ends there: nothing beyond the bounds is sent.
        """
        return min(max(value, self.bounds[0]), self.bounds[1])

    def _refined(self, now: Sample, slope: float, tolerance: float) -> tuple[float, float, Response, Array]:
        """Refine by secant steps on extrapolated det G.

        det G for small perturbations is not zero at the zero for finite ones.
        """
        response = self.without_amplitude(now)
        better = self._inside(now[0] - response.determinant / slope)
        # The higher modes were measured where the search began: measured anew here, the first step gives no slope.
        self.higher = None
        for number in range(REFINEMENTS):
            there = self.at(better)
            finer = self.without_amplitude(there)
            change, noise = finer.determinant - response.determinant, np.hypot(finer.deviation, response.deviation)
            if number and abs(change) > 3 * noise:
                slope = change / (there[0] - now[0])
            now, response, better = there, finer, self._inside(there[0] - finer.determinant / slope)
            if abs(better - now[0]) <= max(tolerance * abs(better), finer.deviation / abs(slope)):
                break
        # The extrapolated part is known only to a share of itself.
        amplitude = LEFT * (now[1].determinant - response.determinant)
        deviation = float(np.hypot(response.deviation, amplitude) / abs(slope))
        return float(better), deviation, response, now[2] * (better / now[0])


def doubling_at_amplitude(
    experiment: Experiment,
    doubling: RigBifurcation,
    amplitude: float = 0.1,
    *,
    values: dict[str, float] | None = None,
    stepping: RigStepping | None = None,
    jacobian: Array | None = None,
) -> tuple[RigBifurcation, Solved]:
    """Find the doubled motion of a given amplitude.

    An rms amplitude (HYBRID 31): for a small one the parameter is that of the doubling.
    values: further parameters, such as another frequency than that of the doubling found before, from which it is
    continued. jacobian: carried from the neighbour; measured anew without.
    """
    stepping = stepping or RigStepping()
    parameter = doubling.parameter
    experiment.values = {**experiment.values, **(values or {})}
    if doubling.direction is None:
        raise RigError("The doubling has no phase in which its branch leaves; find it with find_doubling.")
    family = RigFamily(experiment, parameter, abs(doubling.value) or 1.0, stepping.difference)
    began = experiment.measurements
    guess = np.append(experiment.pack(doubling.demands), doubling.value)
    way = np.zeros(guess.size)
    way[1:3] = doubling.direction / np.linalg.norm(doubling.direction)
    target = float(np.sqrt(2) * amplitude)
    guess = guess + (target - float(way @ guess)) * way
    with experiment.rig:
        matrix = family.jacobian(guess) if jacobian is None else jacobian
        outcome = solved(family, guess, way, target, matrix, stepping)
        if outcome.z is None and jacobian is not None:
            outcome = solved(family, guess, way, target, family.jacobian(guess), stepping)
    if outcome.z is None or outcome.found is None:
        raise RigError(f"The amplitude condition could not be met on the rig: {outcome.message}")
    first = outcome.z[1:3]
    return (
        RigBifurcation(
            kind="period doubling",
            parameter=parameter,
            value=float(outcome.z[-1]),
            deviation=_parameter_deviation(outcome, way),
            method=f"amplitude {amplitude:g}",
            measurements=experiment.measurements - began,
            direction=first / np.linalg.norm(first),
            values={**experiment.values, parameter: float(outcome.z[-1])},
            demands=experiment.demands(outcome.z[:-1], experiment.values),
            jacobian=outcome.jacobian,
        ),
        outcome,
    )


def _parameter_deviation(outcome: Solved, row: Array) -> float:
    """Return the standard deviation of the parameter.

    It follows from that of the residuals.
    """
    assert outcome.found is not None
    square = np.vstack([outcome.jacobian, row])
    inverse = np.linalg.inv(square)
    return float(np.sqrt(np.sum((inverse[-1, :-1] * outcome.found.deviation) ** 2)))
