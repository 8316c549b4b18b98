"""HarmonicFit on whole records: smoothing, weak rows, weights, solution, estimate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.signal import oaconvolve

from kapitza.errors import DataError, ModelError
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.redundancy import refuse_redundant
from kapitza.estimate.request import Request
from kapitza.estimate.weak.alternatives import Alternatives, alternatives_of
from kapitza.estimate.weak.measured import Measured, known_values, measured_from
from kapitza.estimate.weak.regressors import Regressors, Smoothed, regressors_of
from kapitza.estimate.weak.second_order import Pulls, RowsAt, pulls_of_noise, without_bias
from kapitza.estimate.weak.solvers import RowSolution, System, solve
from kapitza.estimate.weak.weak import Rows, Whitener, assemble, row_covariance, whitener
from kapitza.estimate.weak.windows import Windows
from kapitza.model import Model, symbol
from kapitza.monitor import checkpoint
from kapitza.signal import Kernels, cutoff_half_width, five_point, local_polynomial, signal_band, smoothing_spline

if TYPE_CHECKING:
    from kapitza.estimate.weak.settings import HarmonicFit

Array = NDArray[Any]

REWEIGHTINGS = 3
SHORTEST_WINDOW = 32
"""Samples that a test function needs so that sums over them are integrals."""

GROUPS_WANTED = 10
LONGEST_GROUP = 8
"""Groups over which the covariance is taken: at least so many per parameter, of at most so many window lengths."""

WEAK = 10.0
"""Condition of the rows from which noise in the regressors may pass for information about a weak combination."""

ATTENUATED, HOPELESS = 0.03, 0.4
"""Part of noise in that information from which it is taken off, and from which that no longer helps."""

CORRECTIONS = 2
"""Rounds of the errors-in-variables solution, each weighed at the values of the one before."""

SIMULATED = 4
"""Copies with fresh noise from which the errors-in-variables solver learns how noise spreads over the columns."""


@dataclass(frozen=True)
class WeakProblem:
    """Everything that stays the same while the parameters are solved for."""

    settings: HarmonicFit
    request: Request
    measured: Measured
    regressors: Regressors
    smoothing: Kernels
    kernels: Kernels
    windows: Windows
    states: list[Smoothed]
    calm: list[Smoothed]
    noise: Array | None
    values: Array

    @property
    def model(self) -> Model:
        return self.request.model

    def full_values(self, theta: Array) -> Array:
        """Values of all parameters of the model with the linear ones set to θ."""
        result = self.values.copy()
        for name, value in zip(self.regressors.linear, theta, strict=True):
            result[self.regressors.parameters.index(name)] = value
        return result


def fit_weak(settings: HarmonicFit, request: Request) -> Estimate:
    """Weak form on a Record, several Records, or the profiles of an OrbitSet."""
    from kapitza.estimate.weak.result import estimate_of

    problem = pose(settings, request)
    if problem.regressors.nonlinear:
        from kapitza.estimate.weak.combined import combine, fit_combined
        from kapitza.estimate.weak.separable import fit_separable

        combined = combine(problem.regressors, request.names)
        return fit_separable(problem) if combined is None else fit_combined(replace(problem, regressors=combined))
    rows = assemble(problem.regressors, problem.states, problem.windows, problem.values, problem.noise)
    theta = unweighted(rows, problem)
    history = [theta]
    linear = problem.regressors.linear
    checkpoint(dict(zip(linear, theta.tolist(), strict=True)), "unweighted")
    factors, solution = None, None
    rounds = 0 if settings.solver == "least squares" else REWEIGHTINGS
    for number in range(rounds):
        factors = weigh(problem, problem.full_values(theta))
        solution = solve_rows(problem, rows, factors)
        moved = np.abs(solution.theta - theta) <= 0.01 * np.sqrt(np.diag(solution.covariance))
        theta = solution.theta
        history.append(theta)
        checkpoint(dict(zip(linear, theta.tolist(), strict=True)), f"weighting {number + 1}")
        if moved.all():
            break
    if solution is None:
        solution = solve_rows(problem, rows, factors)
    share = noise_share(problem, rows, factors, solution)
    attenuated = ATTENUATED < share < HOPELESS
    if factors is not None and attenuated:
        solution = without_attenuation(problem, rows, solution)
        history.append(solution.theta)
    tested = Tested(alternatives_of(problem, problem.full_values(solution.theta)), share=share)
    if factors is not None and careful(problem):
        solution, tested = corrected(problem, factors, solution, tested, linear_rows(solution.theta), not attenuated)
        history.append(solution.theta)
    left = [r.residual(solution.theta) for r in rows]
    return estimate_of(problem, solution, history, left, tested)


@dataclass(frozen=True)
class Tested:
    """What the rows are tested against, and how noise alone pulls at it, where that is known.

    share: part of noise in what the regressors say about the weakest combination of the parameters.
    """

    alternatives: Alternatives
    pulls: Pulls | None = None
    share: float = 0.0


def linear_rows(theta: Array) -> RowsAt:
    """Rows of a problem that is linear in its parameters, at θ."""

    def rows_at(problem: WeakProblem) -> list[Rows]:
        rows = assemble(problem.regressors, problem.states, problem.windows, problem.values, problem.noise)
        return [Rows(r.matrix, r.residual(theta)) for r in rows]

    return rows_at


def corrected(
    problem: WeakProblem,
    factors: list[Whitener],
    solution: RowSolution,
    tested: Tested,
    rows_at: RowsAt,
    own: bool = True,
) -> tuple[RowSolution, Tested]:
    """The solution without its bias of second order, and what noise alone pulls at the alternatives."""
    pulls = pulls_of_noise(problem, factors, solution.groups, rows_at, tested.alternatives)
    return without_bias(solution, pulls, own), replace(tested, pulls=pulls)


def careful(problem: WeakProblem) -> bool:
    """Is the noise known, and what it does to weights and regressors to be taken off?"""
    settings = problem.settings
    return settings.solver == "weighted" and settings.correct_bias and bool((problem.measured.noise > 0).all())


def noise_share(problem: WeakProblem, rows: list[Rows], factors: list[Whitener] | None, solution: RowSolution) -> float:
    """Largest part that noise makes up of what the regressors say about any combination of the parameters.

    The regressors are noisy themselves: along a combination that a steady motion hardly determines their noise passes
    for information, and pulls the values towards where it has none. Only weak combinations are in danger.
    """
    if factors is None or not careful(problem) or solution.condition < WEAK:
        return 0.0
    noise = simulated_noise(problem, rows, factors, copies=1)[:-1, :-1]
    size = np.sqrt(np.diag(solution.information))
    scaled = np.outer(size, size)
    try:
        return float(eigh(noise / scaled, solution.information / scaled, eigvals_only=True)[-1])
    except np.linalg.LinAlgError:
        return 1.0


def without_attenuation(problem: WeakProblem, rows: list[Rows], solution: RowSolution) -> RowSolution:
    """The solution with the noise of the regressors taken off: errors in variables, weighed where it ends."""
    for _ in range(CORRECTIONS):
        factors = weigh(problem, problem.full_values(solution.theta))
        system = stack(whiten(rows, factors), problem.windows.parts)
        system = replace(system, noise_matrix=simulated_noise(problem, rows, factors))
        try:
            found = solve(system, problem.regressors.linear, "total")
        except np.linalg.LinAlgError:
            return solution
        if not (np.diag(np.linalg.inv(found.information)) > 0).all() or not np.isfinite(found.theta).all():
            return solution
        solution = found
    return solution


def pose(settings: HarmonicFit, request: Request) -> WeakProblem:
    """Read the data, derive the regressors, choose smoothing and windows."""
    model = request.model
    if model.is_map:
        raise ModelError(f'Model "{model.name}" is a map: the harmonic and weak forms need a flow.')
    refuse_redundant(request, [symbol(c.name) for c in model.coordinates])
    measured = measured_from(request)
    inputs = tuple(s.name for s in model.signals)
    regressors = regressors_of(model, request.names, inputs, separate=settings.nonlinear != "refuse")
    values = known_values(request, request.names)
    smoothing = choose_kernels(settings, measured)
    kernels = with_raw_values(smoothing)
    states = smooth(measured, kernels)
    windows = choose_windows(settings, model, measured, states)
    noise = noise_covariance(regressors, measured, kernels) if settings.correct_bias else None
    calm = calmed(states, smoothing, measured) if settings.correct_bias else states
    return WeakProblem(
        settings, request, measured, regressors, smoothing, kernels, windows, states, calm, noise, values
    )


def choose_kernels(settings: HarmonicFit, measured: Measured, offsets: Any = None) -> Kernels:
    """The smoothing rule: as asked for, or as narrow as the band of the signal asks for."""
    if settings.derivatives == "five-point":
        return five_point()
    if settings.half_width is not None and settings.derivatives == "local polynomial":
        return local_polynomial(settings.half_width, settings.degree)
    longest = max(measured.pieces, key=lambda p: len(p.times))
    if len(longest.times) < 64:
        raise DataError(
            f"The longest stretch has {len(longest.times)} samples: too few to tell motion from noise. Give "
            "HarmonicFit(half_width=...) or a longer record."
        )
    band = float(signal_band(longest.channels, measured.noise).max())
    if settings.derivatives == "spline":
        return smoothing_spline(band)
    half_width = cutoff_half_width(band, settings.degree)
    return local_polynomial(min(half_width, (len(longest.times) - 1) // 8), settings.degree)


def with_raw_values(kernels: Kernels) -> Kernels:
    """Smooth the rates only: the test functions average functions of the coordinates themselves well enough."""
    weights = kernels.weights.copy()
    weights[0] = 0.0
    weights[0, kernels.half_width] = 1.0
    return replace(kernels, weights=weights)


def smooth(measured: Measured, kernels: Kernels) -> list[Smoothed]:
    """Coordinates with first and second derivatives at the interior samples of every piece that is long enough."""
    m = kernels.half_width
    states = []
    for piece in measured.pieces:
        if len(piece.times) <= 2 * m + 8:
            continue
        inner = slice(m, len(piece.times) - m)
        derivatives = kernels.apply(measured.coordinates(piece), measured.step)
        states.append(Smoothed(piece.times[inner], derivatives, piece.inputs[inner], measured.step, piece.own))
    if not states:
        raise DataError(
            f"No stretch of the record is longer than the {2 * m + 9} samples that the derivatives need: use a longer "
            "record or a smaller HarmonicFit(half_width=...)."
        )
    return states


def calmed(states: list[Smoothed], kernels: Kernels, measured: Measured) -> list[Smoothed]:
    """The path along which the weights are taken: values smoothed like the rates, by kernels that keep to the motion.

    A stiffer rule would leave the motion by many noise deviations, and rows whose noise nearly cancels at the wrong
    place would be trusted most; raw values would let the weights follow the noise of their own row, a bias.
    """
    if kernels.weights[0].max() < 1.0:
        return smooth(measured, kernels)
    again = local_polynomial(max(2 * kernels.half_width, 6), 5).weights[0]
    wide = (len(again) - 1) // 2
    result = []
    for state in states:
        if len(state.times) <= 2 * wide:
            result.append(state)
            continue
        padded = np.pad(state.derivatives, ((0, 0), (wide, wide), (0, 0)), mode="reflect", reflect_type="odd")
        result.append(replace(state, derivatives=oaconvolve(padded, again[None, :, None], mode="valid", axes=1)))
    return result


def choose_windows(settings: HarmonicFit, model: Model, measured: Measured, states: list[Smoothed]) -> Windows:
    """Two excitation periods or two typical oscillations, 2π rms(u')/rms(u''), but no more than the data hold."""
    longest = max(len(s.times) for s in states)
    width = settings.width
    if width is None:
        typical = typical_period(states)
        # A measured excitation repeats only after the whole record: then the motion itself sets the scale.
        forced = model.period is not None and model.period < 4.0 * typical
        width = 2.0 * (model.period if forced and model.period else typical)
    stride = max(2, round(width / measured.step / settings.overlap))
    if settings.width is None:
        stride = max(2, min(max(stride, -(-SHORTEST_WINDOW // settings.overlap)), longest // (settings.overlap + 1)))
    elif stride * settings.overlap < SHORTEST_WINDOW // 2:
        raise DataError(
            f"A test function of width {width:.3g} spans {width / measured.step:.2g} samples: sums over fewer than "
            f"{SHORTEST_WINDOW // 2} are no integrals. Pass at least width={SHORTEST_WINDOW // 2 * measured.step:.3g}."
        )
    return Windows(stride, settings.overlap, settings.modulation, measured.step)


def typical_period(states: list[Smoothed]) -> float:
    rates = np.concatenate([s.derivatives[1] for s in states])
    accelerations = np.concatenate([s.derivatives[2] for s in states])
    moving = accelerations.std(axis=0) > 0
    if not moving.any():
        raise DataError("Nothing moves in this record: every channel is constant or a straight line.")
    return float(2.0 * np.pi * np.mean(rates.std(axis=0)[moving] / accelerations.std(axis=0)[moving]))


def noise_covariance(regressors: Regressors, measured: Measured, kernels: Kernels) -> Array:
    """(z, z) covariance of the smoothed variables: that of the coordinates times the gain of the kernels."""
    gain, spread = kernels.noise_gain(measured.step), measured.coordinate_covariance
    i = np.array([place for place, _ in regressors.noisy])
    order = np.array([o for _, o in regressors.noisy])
    return spread[np.ix_(i, i)] * gain[np.ix_(order, order)]


def unweighted(rows: list[Rows], problem: WeakProblem) -> Array:
    """First values: plain least squares with every kind of row scaled to the size of its largest term."""
    rms = np.sqrt(
        np.mean([np.mean(r.rest**2, axis=0) + np.mean(r.matrix**2, axis=0).max(axis=-1) for r in rows], axis=0)
    )
    scaled = [Rows(r.matrix / rms[:, None], r.rest / rms) for r in rows]
    return solve(stack(scaled, problem.windows.parts), problem.regressors.linear).theta


def weigh(problem: WeakProblem, values: Array) -> list[Whitener]:
    """Whitening from the noise at the present parameter values; without noise, from noise of one size everywhere."""
    measured = problem.measured
    if not (measured.noise > 0).all():
        size = np.concatenate([p.channels.std(axis=0, keepdims=True) for p in measured.pieces]).mean(axis=0)
        measured = replace(measured, noise=np.where(measured.noise > 0, measured.noise, 1e-9 * size))
    gain = problem.kernels.weights[1]
    memory = np.abs(np.correlate(gain, gain, "full")).sum() / max(gain @ gain, np.finfo(float).tiny)
    # Halves of the samples leave fewer windows, whose factor is the first part of that of all.
    whole = problem.settings.solver == "instruments"
    windows, noise = problem.windows, problem.noise
    return [
        whitener(row_covariance(problem.regressors, measured, state, windows, values, noise, memory, whole))
        for state in problem.calm
        if windows.count(len(state.times))
    ]


def stack(rows: list[Rows], parts: int) -> System:
    """All rows under each other; a group is a run of neighbouring windows, much longer than one, within one piece."""
    size = rows[0].matrix.shape[2]
    matrix = np.concatenate([r.matrix.reshape(-1, size) for r in rows])
    rest = np.concatenate([r.rest.ravel() for r in rows])
    total = sum(len(r.rest) for r in rows)
    run = int(np.clip(total // (GROUPS_WANTED * max(size, 1)), parts, LONGEST_GROUP * parts))
    labels, base = [], 0
    for r in rows:
        own = base + np.arange(len(r.rest)) // run
        labels.append(np.repeat(own, r.rest.shape[1]))
        base = int(own[-1]) + 1
    return System(matrix, rest, np.concatenate(labels))


def whiten(rows: list[Rows], factors: list[Whitener]) -> list[Rows]:
    return [factor(r) for factor, r in zip(factors, rows, strict=True)]


def solve_rows(problem: WeakProblem, rows: list[Rows], factors: list[Whitener] | None) -> RowSolution:
    """Solve the whitened rows by the solver that was asked for."""
    kind = problem.settings.solver
    white = rows if factors is None else whiten(rows, factors)
    system = stack(white, problem.windows.parts)
    if factors is not None and kind == "total":
        system = replace(system, noise_matrix=simulated_noise(problem, rows, factors))
    if factors is not None and kind == "instruments":
        system = split_halves(problem, factors)
    return solve(system, problem.regressors.linear, kind)


def simulated_noise(problem: WeakProblem, rows: list[Rows], factors: list[Whitener], copies: int = SIMULATED) -> Array:
    """Noise part of [A b]ᵀ[A b], from copies of the data with fresh noise of the known size on top."""
    generator = np.random.default_rng(problem.settings.seed)
    size = len(problem.regressors.linear) + 1
    total = np.zeros((size, size))
    for number in range(copies):
        checkpoint(text=f"noise of the rows, copy {number + 1} of {copies}")
        shaken = problem.measured.shaken(generator)
        states = smooth(shaken, problem.kernels)
        shaken_rows = assemble(problem.regressors, states, problem.windows, problem.values, problem.noise)
        for factor, copy, original in zip(factors, shaken_rows, rows, strict=True):
            change = factor(Rows(copy.matrix - original.matrix, copy.rest - original.rest))
            columns = np.concatenate([change.matrix, change.rest[..., None]], axis=2).reshape(-1, size)
            total += columns.T @ columns
    return total / copies


def split_halves(problem: WeakProblem, factors: list[Whitener]) -> System:
    """Rows from even samples with instruments from odd ones, and the other way round: independent noise."""
    m = problem.kernels.half_width
    wide = max(m, problem.settings.degree + 2)
    offsets = np.arange(-wide, wide + 1)
    same, other = (
        with_raw_values(local_polynomial(wide, problem.settings.degree, offsets[offsets % 2 == k])) for k in (0, 1)
    )
    halves = []
    for parity in (0, 1):
        states = []
        for a, b in zip(smooth(problem.measured, same), smooth(problem.measured, other), strict=True):
            own = (np.arange(len(a.times)) % 2 == parity)[None, :, None]
            states.append(replace(a, derivatives=np.where(own, a.derivatives, b.derivatives)))
        noise = noise_covariance(problem.regressors, problem.measured, same) if problem.noise is not None else None
        rows = assemble(problem.regressors, states, problem.windows, problem.values, noise)
        halves.append(stack(whiten(rows, factors), problem.windows.parts))
    even, odd = halves
    return System(
        np.concatenate([even.matrix, odd.matrix]),
        np.concatenate([even.rest, odd.rest]),
        np.concatenate([even.groups, odd.groups + even.groups[-1] + 1]),
        np.concatenate([odd.matrix, even.matrix]),
    )
