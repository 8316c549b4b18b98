"""Inverse harmonic balance on periodic orbits (HARMONIC 17-22).

Equal harmonics of all terms give one linear system.
An orbit of k excitation periods is written as u = Ω t + a0/2 + Σ (a_j cos jωt/k + b_j sin jωt/k). Every regressor is a
product of factors that were low-pass filtered first; its coefficients at sub-harmonic j give a cosine and a sine row.
These rows are the weak form with periodic test functions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from kapitza.base.angles import TURN, turns, unwrap_states
from kapitza.base.arrays import Flags, Numbers
from kapitza.base.cures import Give
from kapitza.base.monitor import checkpoint
from kapitza.data import Record
from kapitza.errors import DataError, KapitzaError
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.harmonic_fit.balance_misfit import JudgedRows, misfit_of
from kapitza.estimate.harmonic_fit.measured import (
    Measured,
    Piece,
    known_values,
    measured_from,
    orbit_set,
    stretch_of,
)
from kapitza.estimate.harmonic_fit.problem import choose_kernels, noise_covariance
from kapitza.estimate.harmonic_fit.regressors import Regressors, Smoothed, regressors_of
from kapitza.estimate.harmonic_fit.solvers import (
    RowSolution,
    System,
    exclude_by_residue,
    identification_error,
    solve,
)
from kapitza.estimate.harmonic_fit.weak import adjoint_series
from kapitza.estimate.identifiability import determined
from kapitza.estimate.judge import doubtful_parameters
from kapitza.estimate.parts import Exclusion, HarmonicRows
from kapitza.estimate.priors import surprising_priors, with_priors_and_bounds
from kapitza.estimate.redundancy import refuse_redundant
from kapitza.estimate.request import Request, Task
from kapitza.estimate.result import make_estimate
from kapitza.model import symbol
from kapitza.orbits import OrbitSet
from kapitza.signal import Kernels, low_pass_periodic

if TYPE_CHECKING:
    from kapitza.estimate.harmonic_fit.settings import HarmonicFit

BOOTSTRAPS = 200
"""Resampled sets of orbits; with 200 the standard errors are accurate to about 5 %."""


@dataclass(frozen=True)
class OrbitRows:
    """Rows of one orbit.

    matrix: (equations, r, k); rest: (equations, r); order: (r,) sub-harmonic of each row.
    response: (equations x r, samples x channels) what noise of unit size on each sample adds to a row.
    """

    matrix: Numbers
    rest: Numbers
    order: NDArray[np.integer]
    response: Numbers


@dataclass(frozen=True)
class Balance(Task):
    """Orbits in the coordinates of the model.

    values: (p,) of its parameters; kernels: None for Fourier series.
    noise: (z, z) covariance of the smoothed variables, None where its bias is not subtracted.
    """

    settings: HarmonicFit
    orbits: OrbitSet
    measured: Measured
    regressors: Regressors
    values: Numbers
    kernels: Kernels | None
    noise: Numbers | None

    def rotation(self, number: int) -> Numbers:
        """Return the mean rate Ω of each coordinate.

        It follows from the whole turns of the channels over the period.
        """
        orbit, measured = self.orbits[number], self.measured
        turns = np.zeros(len(measured.channels))
        if orbit.winding:
            turns = np.array([orbit.winding[orbit.states.index(n)] for n in measured.channels], float)
        return measured.mixing @ (2.0 * np.pi * turns / orbit.period)

    def state(self, number: int) -> Smoothed:
        """Return the coordinates and derivatives of one orbit.

        Derivatives are those of its Fourier series, or follow from a digital rule on the raw samples.
        """
        measured, piece, rotation = self.measured, self.measured.pieces[number], self.rotation(number)
        coordinates = measured.coordinates(piece)
        count = len(coordinates)
        times = np.arange(count) * measured.step
        ramp = np.zeros((3, *coordinates.shape))
        # A rotating angle is a ramp plus a periodic part; only the latter has a Fourier series.
        ramp[0], ramp[1] = times[:, None] * rotation, rotation
        if self.kernels is None:
            derivatives = _by_series(coordinates - ramp[0], measured.step) + ramp
        else:
            derivatives = self.kernels.apply(self.with_margins(number, self.kernels.half_width), measured.step)
        if self.settings.low_pass is not None:
            # The cut-off is a fraction of the sampling frequency.
            harmonics = max(1, int(self.settings.low_pass * count))
            filtered = low_pass_periodic((derivatives - ramp).transpose(1, 0, 2), harmonics)
            derivatives = filtered.transpose(1, 0, 2) + ramp
        return Smoothed(piece.times, derivatives, piece.inputs, measured.step, piece.own)

    def with_margins(self, number: int, margin: int) -> Numbers:
        """Return a stretch with `margin` samples on both sides.

        The margins are raw samples of the record, or else continue the stretch by periodicity.
        """
        measured, piece = self.measured, self.measured.pieces[number]
        stretch, record = stretch_of(self.orbits, number), self.orbits.source
        if isinstance(record, Record) and stretch is not None:
            first, last = stretch.start - margin, stretch.stop + margin
            label = record.content.segment
            # The margins must be inside the record and in the same segment.
            if first >= 0 and last <= record.size and label[first] == label[last - 1]:
                raw = np.column_stack([record[n] for n in measured.channels])[first:last]
                angle = [record.angles[record.channels.index(n)] for n in measured.channels]
                raw = unwrap_states(raw, angle)
                raw += TURN * turns(piece.channels[0] - raw[margin], angle)
                return measured.coordinates(Piece(piece.times, raw, piece.inputs))
        inside, turn = measured.coordinates(piece), self.rotation(number) * self.orbits[number].period
        return np.concatenate([inside[-margin:] - turn, inside, inside[:margin] + turn])

    def closed(self, number: int) -> Balance:
        """Return the problem with one orbit closed.

        The gap between its ends is spread over it, and its record is left out.
        """
        piece, around = self.measured.pieces[number], self.with_margins(number, 1)
        gap = around[-1] - around[1] - self.rotation(number) * self.orbits[number].period
        ramp = np.outer(np.arange(len(piece.times)) / len(piece.times), np.linalg.pinv(self.measured.mixing) @ gap)
        pieces = list(self.measured.pieces)
        pieces[number] = replace(piece, channels=piece.channels - ramp)
        measured = replace(self.measured, pieces=tuple(pieces))
        return replace(self, measured=measured, orbits=OrbitSet(self.orbits.orbits, self.orbits.angles))

    def rows(self, number: int, state: Smoothed, theta: Numbers) -> OrbitRows:
        """Return the harmonic rows of one orbit.

        They hold cosine and sine coefficients of every term at the chosen sub-harmonics; the noise is evaluated at θ.
        """
        regressors, measured, chosen = self.regressors, self.measured, self.settings.harmonics
        base = self.orbits[number].repeats or 1
        values = regressors.placed(self.values, regressors.linear, theta)
        coefficients, rest = regressors.terms(state, values, self.noise)
        count = rest.shape[-1]
        largest = base if isinstance(chosen, str) else int(chosen * base)
        if chosen == "informative":
            largest = max(base, int(0.1 * count))
        # Below the Nyquist frequency of the samples of one orbit.
        largest = min(largest, count // 2 - 1)
        phase = 2.0 * np.pi * np.outer(np.arange(largest + 1), np.arange(count)) / count
        waves = np.concatenate([np.cos(phase), np.sin(phase[1:])])
        order = np.concatenate([np.arange(largest + 1), np.arange(1, largest + 1)])
        scale = 2.0 / count
        series = adjoint_series(regressors, measured, regressors.slopes(state, values, self.noise))
        rate = 2.0 * np.pi / (count * measured.step) * order
        slopes = rate[:, None] * np.concatenate([-np.sin(phase), np.cos(phase[1:])])
        bends = -(rate[:, None] ** 2) * waves
        response = np.einsum("prn,pecn->ercn", np.stack([waves, slopes, bends]), series, optimize=True) * scale
        rows = OrbitRows(
            np.einsum("rn,ekn->erk", waves, coefficients, optimize=True) * scale,
            np.einsum("rn,en->er", waves, rest, optimize=True) * scale,
            order,
            response.reshape(regressors.equations * len(order), -1),
        )
        return _informative(rows) if chosen == "informative" else rows


def fit_balance(settings: HarmonicFit, request: Request) -> Estimate:
    """Fit an OrbitSet by harmonic balance."""
    balance = pose_balance(settings, request)
    names, states = balance.regressors.linear, [balance.state(i) for i in range(len(balance.orbits))]
    theta: Numbers = np.zeros(len(names))
    weighed = theta
    # Weights depend on θ; the solvers of the document use none.
    rounds = 1 if settings.solver in ("least squares", "exclusion") else 3
    for number in range(rounds):
        weighed, rows = theta, [balance.rows(i, state, theta) for i, state in enumerate(states)]
        solution, used, exclusions = solve_balance(balance, rows)
        theta = solution.theta
        checkpoint(dict(zip(names, theta.tolist(), strict=True)), f"weighting {number + 1} of {rounds}")
    judged, measured = _judged(balance, rows, theta, used, weighed), balance.measured
    misfit = misfit_of(judged, len(theta), measured.noise_source, measured.noise_freedom)
    return _estimate(balance, rows, solution, used, exclusions, misfit)


def pose_balance(settings: HarmonicFit, request: Request) -> Balance:
    model, orbits = request.model, orbit_set(request)
    if orbits is None:
        raise DataError(f"{Give(test='harmonics')} needs an OrbitSet: find orbits first, by find_orbits.")
    refuse_redundant(request, [symbol(c.name) for c in model.coordinates])
    measured = measured_from(request)
    regressors = regressors_of(model, request.names, tuple(s.name for s in model.signals))
    values = known_values(request, regressors.linear)
    kernels = None if settings.derivatives == "series" else choose_kernels(settings, measured)
    noise = None
    if settings.correct_bias and kernels is not None and (measured.noise > 0).all():
        noise = noise_covariance(regressors, measured, kernels)
    return Balance(request, settings, orbits, measured, regressors, values, kernels, noise)


def _judged(balance: Balance, rows: list[OrbitRows], theta: Numbers, used: Flags, weighed: Numbers) -> list[JudgedRows]:
    """Return the rows by which the misfit is tested.

    weighed: the values at which the rows were weighted.
    """
    judged, first = [], 0
    for number, (orbit, own) in enumerate(zip(balance.orbits, rows, strict=True)):
        residual = own.rest + own.matrix @ theta
        opened = np.zeros_like(residual)
        if balance.kernels is None:
            # Only Fourier series assume that the stretch closes.
            closed = balance.closed(number)
            again = closed.rows(number, closed.state(number), weighed)
            if again.rest.shape == own.rest.shape:
                opened = again.rest + again.matrix @ theta - residual
        terms = np.maximum(np.abs(own.rest), np.abs(own.matrix * theta).max(axis=2))
        kept = used[first : first + residual.size].reshape(residual.shape)
        first += residual.size
        judged.append(JudgedRows(residual, kept, own.response, opened, terms, own.order, orbit.repeats or 1))
    return judged


def _by_series(periodic: Numbers, step: float) -> Numbers:
    count = len(periodic)
    spectrum = np.fft.rfft(periodic, axis=0)
    rate = 2j * np.pi * np.fft.rfftfreq(count, step)[:, None]
    if count % 2 == 0:
        # The derivative of the Nyquist component is not defined by its samples.
        rate[-1] = 0.0
    return np.stack([np.fft.irfft(spectrum * rate**order, n=count, axis=0) for order in range(3)])


def _informative(rows: OrbitRows) -> OrbitRows:
    """Keep the sub-harmonics above the noise.

    Some equation must exceed its noise by at least three deviations there.
    """
    equations, count = rows.rest.shape
    deviation = np.linalg.norm(rows.response, axis=1).reshape(equations, count)
    size = np.maximum(np.abs(rows.rest), np.abs(rows.matrix).max(axis=2))
    # Three standard deviations: below, a row is mostly noise.
    strong = (size > 3.0 * deviation).any(axis=0)
    keep = np.isin(rows.order, rows.order[strong])
    response = rows.response.reshape(equations, count, -1)[:, keep].reshape(equations * int(keep.sum()), -1)
    return replace(
        rows, matrix=rows.matrix[:, keep], rest=rows.rest[:, keep], order=rows.order[keep], response=response
    )


def _whitened(rows: OrbitRows) -> tuple[Numbers, Numbers]:
    size = rows.matrix.shape[2]
    covariance = rows.response @ rows.response.T
    scale = np.diag(covariance).max()
    # Rows of neighbouring sub-harmonics can be nearly dependent.
    factor = cholesky(covariance + 1e-9 * scale * np.eye(len(covariance)), lower=True)
    columns = np.column_stack([rows.matrix.reshape(-1, size), rows.rest.ravel()])
    solved = solve_triangular(factor, columns, lower=True)
    return solved[:, :size], solved[:, size]


def solve_balance(balance: Balance, rows: list[OrbitRows]) -> tuple[RowSolution, Flags, tuple[Exclusion, ...]]:
    """Solve the rows of all orbits.

    Rows come equation by equation within an orbit.
    """
    settings, names = balance.settings, balance.regressors.linear
    exclusions: tuple[Exclusion, ...] = ()
    used = np.ones(sum(r.rest.size for r in rows), bool)
    # These solvers need rows of equal variance; the plain ones of the document take them as they are.
    if settings.solver in ("weighted", "robust", "total", "instruments"):
        parts = [_whitened(r) for r in rows]
        groups = np.concatenate([np.full(len(p[1]), i) for i, p in enumerate(parts)])
        matrix, rest = np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
        if settings.solver in ("total", "instruments"):
            raise KapitzaError(
                f"{Give(solver=settings.solver)} works with {Give(test='windows')}: the rows of orbits carry closure "
                "errors, not sensor noise alone."
            )
        return solve(System(matrix, rest, groups), names, settings.solver), used, exclusions
    matrix = np.concatenate([r.matrix.reshape(-1, len(names)) for r in rows])
    rest = np.concatenate([r.rest.ravel() for r in rows])
    groups = np.concatenate([np.full(r.rest.size, i) for i, r in enumerate(rows)])
    if settings.solver == "exclusion":
        used, exclusions = _exclude(balance, rows, matrix, rest)
    return solve(System(matrix[used], rest[used], groups[used]), names), used, exclusions


def _exclude(balance: Balance, rows: list[OrbitRows], matrix: Numbers, rest: Numbers):
    """Exclude sub-harmonics by residue (HARMONIC 5.5.3).

    Separately for every equation, or set of equations that share parameters.
    """
    equation = np.concatenate([np.repeat(np.arange(r.rest.shape[0]), r.rest.shape[1]) for r in rows])
    # Unique labels of (orbit, sub-harmonic): cosine and sine rows are dropped together.
    unit = np.concatenate([i * 10_000 + np.tile(r.order, r.rest.shape[0]) for i, r in enumerate(rows)])
    used, settings = np.ones(len(rest), bool), balance.settings
    found: list[Exclusion] = []
    for members in _independent_equations(balance.regressors):
        here = np.isin(equation, members)
        columns = np.flatnonzero(np.abs(matrix[here]).any(axis=0))
        _, report = exclude_by_residue(
            matrix[np.ix_(here, columns)], rest[here], unit[here], settings.share, settings.error_limit
        )
        used[np.flatnonzero(here)[~report.used]] = False
        found.append(report)
    return used, tuple(found)


def _independent_equations(regressors: Regressors) -> list[list[int]]:
    """Group the equations so that groups share no parameter."""
    groups: list[tuple[set[int], set[int]]] = []
    for e, row in enumerate(regressors.coefficients):
        used = {j for j, c in enumerate(row) if c != 0}
        joined, others = ({e}, used), []
        for members, columns in groups:
            if columns & used:
                joined = (joined[0] | members, joined[1] | columns)
            else:
                others.append((members, columns))
        groups = [*others, joined]
    return [sorted(members) for members, _ in sorted(groups, key=lambda g: min(g[0]))]


def residue_table(regressors: Regressors, rows: list[OrbitRows], theta: Numbers) -> dict[str, Numbers]:
    """Return predicted values and residues per equation.

    Each sub-harmonic row has its predicted right-hand side, residue, orbit and sub-harmonic.
    """
    table: dict[str, Numbers] = {}
    for e in range(regressors.equations):
        predicted = np.concatenate([-(r.matrix[e] @ theta) for r in rows])
        residue = np.concatenate([r.rest[e] + r.matrix[e] @ theta for r in rows])
        orbit = np.concatenate([np.full(len(r.order), i) for i, r in enumerate(rows)])
        order = np.concatenate([r.order for r in rows])
        table[f"equation {e + 1}"] = np.column_stack([predicted, residue, orbit, order])
    return table


def bootstrap(rows: list[OrbitRows], names: tuple[str, ...], weighted: bool, seed: int) -> Numbers | None:
    """Return standard errors from resampled orbits.

    The result is None with fewer than three orbits.
    """
    if len(rows) < 3:
        return None
    size = len(names)
    parts = [_whitened(r) if weighted else (r.matrix.reshape(-1, size), r.rest.ravel()) for r in rows]
    squares = np.array([m.T @ m for m, _ in parts])
    products = np.array([m.T @ b for m, b in parts])
    generator = np.random.default_rng(seed)
    estimates = []
    for _ in range(BOOTSTRAPS):
        pick = generator.integers(len(rows), size=len(rows))
        estimates.append(np.linalg.lstsq(squares[pick].sum(axis=0), -products[pick].sum(axis=0), rcond=None)[0])
    return np.std(estimates, axis=0, ddof=1)


def _estimate(balance: Balance, rows: list[OrbitRows], solution: RowSolution, used, exclusions, misfit) -> Estimate:
    settings, request, measured, kernels = balance.settings, balance.request, balance.measured, balance.kernels
    names, model = balance.regressors.linear, request.model
    order = [names.index(name) for name in request.names]
    weighted = settings.solver in ("weighted", "robust")
    spread = bootstrap(rows, names, weighted, settings.seed)
    errors = np.sqrt(np.diag(solution.covariance))
    table = residue_table(balance.regressors, rows, solution.theta)
    identification = {
        key: identification_error(np.ones((len(t), 1)) * t[:, :1], -t[:, 0] + t[:, 1], np.ones(1))
        for key, t in table.items()
    }
    warnings = []
    if spread is not None:
        for name, error, resampled in zip(names, errors, spread, strict=True):
            if resampled > 2.0 * error:
                warnings.append(
                    f"{name}: resampling the orbits gives an error of {resampled:.2g}, the rows {error:.2g}: the "
                    "orbits disagree (imperfect closure); trust the larger."
                )
    for key, value in identification.items():
        if value > settings.error_limit and settings.solver != "exclusion":
            warnings.append(f"The identification error of {key} is {100 * value:.1f} % (10 % is the usual limit).")
    # The regressors have their own order of the parameters.
    theta, covariance = solution.theta[order], solution.covariance[np.ix_(order, order)]
    theta, covariance = with_priors_and_bounds(model, request.names, theta, covariance)
    warnings += doubtful_parameters(request, theta, covariance)
    warnings += surprising_priors(model, request.names, theta, covariance)
    warnings += [] if misfit is None else misfit.warnings()
    return make_estimate(
        request,
        f"HarmonicFit, harmonic balance ({settings.solver}, {settings.derivatives})",
        theta,
        covariance,
        dof=solution.dof,
        chi2=solution.chi2,
        noise=dict(zip(measured.channels, measured.noise.tolist(), strict=True)),
        residuals={key: t[:, 1] for key, t in table.items()},
        warnings=tuple(warnings),
        settings=settings,
        misfit=misfit,
        identifiability=determined(request.names, solution.condition),
        rows=HarmonicRows(
            condition=solution.condition,
            derivatives="Fourier series" if kernels is None else kernels.name,
            residues=table,
            used=used,
            identification_error=identification,
            bootstrap=None if spread is None else dict(zip(names, spread.tolist(), strict=True)),
            exclusions=exclusions,
        ),
    )
