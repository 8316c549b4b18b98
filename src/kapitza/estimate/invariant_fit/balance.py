"""Energy balance in weak form.

Parameters of H and of the power that feeds or drains it, from slightly damped or driven motion.

Along a motion dH/dt = P(z, t; θ), with P = ∇H·f + ∂H/∂t from the equations (friction, excitation). For a smooth window
w(t) that vanishes at its ends, integration by parts removes the derivative of the data:

    ∫ w' H dt + ∫ w P dt = 0     for every window.

Both H and P are sums of coefficients times functions of the state; the rows are weighted by the noise they carry.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from scipy import sparse

from kapitza.base.arrays import Array, Flags, Indices
from kapitza.base.cures import SUGGEST, Do, Fit, Give
from kapitza.errors import DataError, IdentifiabilityError, ModelError
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.invariant_fit.conserved import (
    FeatureTable,
    Form,
    Moments,
    Points,
    VarianceProblem,
    declared_invariant,
    inverse_by_units,
    linear_starts,
    long_run,
    make_form,
    minimise_corrected,
    minimise_raw,
    triangle,
)
from kapitza.estimate.invariant_fit.drains import likely_drain
from kapitza.estimate.invariant_fit.report import finish
from kapitza.estimate.invariant_fit.setup import (
    USUAL,
    Setup,
    collected,
    generic_point,
    refuse_dependent,
    scale_direction,
    start_of,
    words,
)
from kapitza.estimate.parts import LevelSets
from kapitza.estimate.request import Request
from kapitza.model import Model, rate, symbol, time, vanishes

if TYPE_CHECKING:
    from kapitza.estimate.invariant_fit.fit import InvariantFit

POWER = symbol("#power")
NONSMOOTH = (sp.sign, sp.Abs, sp.Heaviside, sp.Max, sp.Min, sp.Piecewise)
SMOOTHNESS = 4
"""Power of the window (1 - u²)^4: its derivatives vanish at the ends, so that sums are accurate integrals."""
OVERLAP = 4
"""Windows start every OVERLAP-th part of their length, a quarter."""
REACH = 3
"""Range of the correlation between scores of neighbouring windows, in lengths of the shortest window."""
LEAST_SAMPLES = 4
"""Fewest samples of a window for which sums approximate integrals."""
REWEIGHTINGS = 6
"""Fits, each weighted by the noise at the values of the one before."""

OPEN = 2.0
"""Mean square of the weighted residuals above which a balance does not close within the stated noise."""

OPEN_REBUILT = 30.0
"""The same where rates are differences of positions, whose own errors leave up to ten in right models."""


@dataclass(frozen=True)
class Windows:
    """Windows of the balance as sparse matrices (W, N).

    The matrices give the integrals ∫ w' · dt and ∫ w · dt; the run (W,) and place (W,) of every window. place: time
    of the middle since the start of the run, in quarters of the shortest window.
    """

    slope: sparse.csr_array
    plain: sparse.csr_array
    run: Indices
    place: Indices


def power_of(model: Model, invariant: sp.Expr) -> sp.Expr:
    """Return P = dH/dt along the motion.

    It is simplified, so that conserved parts drop out.
    """
    if model.is_map:
        raise ModelError(f"An energy balance needs a flow; for maps use {Give(objective='variance')} or 'surface'.")
    structure = model.structure
    if structure.elimination is not None:
        return _power_of_forces(model, invariant)
    parts = [sp.diff(invariant, symbol(s)) * rate for s, rate in zip(model.states, structure.rates, strict=True)]
    power = sp.expand(sp.Add(*parts) + sp.diff(invariant, time))
    if power.has(*NONSMOOTH):
        # `simplify` would write friction as a Piecewise; its product with the rate is a plain modulus.
        speeds = [symbol(s) for s in model.states]
        return sp.expand(power.subs({sp.sign(v) * v: sp.Abs(v) for v in speeds}))
    return sp.simplify(power)


def _power_of_forces(model: Model, invariant: sp.Expr) -> sp.Expr:
    """Return P for a large mass matrix M.

    Where ∂H/∂q' = M q', P = ∂H/∂q q' - q'·h + ∂H/∂t contains no acceleration.
    """
    mass, rest = model.structure.mass_matrix, model.structure.rest
    speeds = [rate(c.name) for c in model.coordinates]
    second = all(c.order == 2 for c in model.coordinates)
    momenta = mass.T * sp.Matrix(speeds) if second else []
    if not second or not all(vanishes(sp.diff(invariant, v) - p) for v, p in zip(speeds, momenta, strict=True)):
        raise ModelError(
            f"The balance of {invariant} needs the accelerations of {len(speeds)} coupled coordinates written out. "
            "Give the energy whose momenta ∂H/∂q' are those of the equations, each equation in the order of its "
            f"coordinate, as {Do('Model.from_lagrangian', 'a Lagrangian')} writes them."
        )
    parts = [sp.diff(invariant, symbol(c.name)) * v for c, v in zip(model.coordinates, speeds, strict=True)]
    parts += [-v * h for v, h in zip(speeds, rest, strict=True)]
    return sp.expand(sp.Add(*parts) + sp.diff(invariant, time))


def make_windows(points: Points, shortest: float) -> Windows:
    """Return windows of several lengths inside every run.

    They last `shortest` seconds, twice, four times … that length, and are a quarter apart.
    Short windows determine the stiffness, long ones the loss: over a whole period the exchange of kinetic and
    potential energy averages out, and with it the errors of measured rates. The longest is half the longest run.
    """
    runs = [np.flatnonzero(points.run == run) for run in np.unique(points.run)]
    step = float(np.median(np.diff(points.times)[points.run[1:] == points.run[:-1]]))
    if shortest < LEAST_SAMPLES * step:
        raise DataError(
            f"A window of {shortest:.4g} s holds fewer than {LEAST_SAMPLES} samples {step:.4g} s apart: pass "
            f"{Fit('invariant', window=...)} of at least {LEAST_SAMPLES * step:.4g} s, or none."
        )
    longest = max(float(np.ptp(points.times[members])) for members in runs)
    lengths = [shortest]
    while 2 * lengths[-1] <= longest / 2:
        lengths.append(2 * lengths[-1])
    entries: list[tuple[NDArray, NDArray, NDArray, NDArray]] = []
    owner: list[int] = []
    centre: list[float] = []
    for number, members in enumerate(runs):
        t = points.times[members]
        if t.size < 8:
            continue
        measure = np.gradient(t)  # trapezoidal weights; the ends of a window weigh nothing
        for length in lengths:
            for start in np.arange(t[0], t[-1] - length * (1 - 1e-9), length / OVERLAP):
                a, b = np.searchsorted(t, [start, start + length])
                u = 2 * (t[a:b] - start) / length - 1
                bump = np.clip(1 - u**2, 0, None)
                plain = bump**SMOOTHNESS * measure[a:b]
                slope = -2 * SMOOTHNESS * u * bump ** (SMOOTHNESS - 1) * (2 / length) * measure[a:b]
                entries.append((np.full(b - a, len(owner)), members[a:b], slope, plain))
                owner.append(number)
                centre.append((start + length / 2 - t[0]) * OVERLAP / shortest)
    if not entries:
        raise DataError(
            f"No segment is longer than the window of {shortest:.4g} s: pass {Fit('invariant', window=...)} in seconds."
        )
    row, column, slope, plain = (np.concatenate([e[i] for e in entries]) for i in range(4))
    shape = (len(owner), points.count)
    matrix = sparse.csr_array((slope, (row, column)), shape=shape)
    plain = sparse.csr_array((plain, (row, column)), shape=shape)
    return Windows(matrix, plain, np.array(owner), np.array(centre).astype(np.intp))


def default_window(points: Points) -> float:
    """Return the default length of the windows.

    It is 0.8 periods of the fastest state, a period being two median intervals between crossings of the mean.
    Over whole periods kinetic and potential energy average alike, and only the ratio of friction to stiffness is left.
    """
    spans = []
    for row in points.values:
        side = row > np.mean(row)
        crossing = np.flatnonzero((side[1:] != side[:-1]) & (points.run[1:] == points.run[:-1]))
        if crossing.size > 4:
            spans.append(2 * float(np.median(np.diff(points.times[crossing]))))
    steps = np.diff(points.times)[points.run[1:] == points.run[:-1]]
    return max(0.8 * min(spans) if spans else 0.0, 12 * float(np.median(steps)))


def fit_balance(settings: InvariantFit, request: Request) -> Estimate:
    """Fit the energy balance: InvariantFit(objective="balance")."""
    setup, is_power = _prepare(settings, request)
    windows = make_windows(setup.points, settings.window or default_window(setup.points))
    rows = _Rows(FeatureTable(setup.form, 1), setup.points, windows, is_power)
    _refuse_dependent(setup, rows.columns)
    weight = np.ones(windows.run.size)
    theta, solution, problem = setup.start, None, None
    for _ in range(REWEIGHTINGS):
        problem = VarianceProblem(rows.table, setup.points, weight, given=rows.moments(weight))
        # Other starts are needed once; later weightings move the minimum a little.
        starts = [theta] if solution else [theta, *linear_starts(problem, theta, setup.bounds)]
        solution = minimise_raw(problem, starts, setup.bounds)
        if settings.correction != 0 and setup.points.known_noise and not setup.points.reconstructed:
            solution = minimise_corrected(problem, solution.theta, setup.bounds)
        theta = solution.theta
        noise = rows.noise(theta)
        # A window without noise would dominate all others.
        weight = 1.0 / np.maximum(noise, 1e-6 * noise.max()) if noise.max() > 0 else np.ones_like(noise)
    if solution is None or problem is None:
        raise DataError("There are no windows to fit.")
    covariance = _covariance(rows, setup.form, theta, weight, solution.tau)
    c, _ = setup.form.local(theta)
    residual = (rows.columns @ c) * np.sqrt(weight)
    found = LevelSets(
        setup.form.expression.subs(POWER, 0),
        noise_factor=float(np.mean(residual**2)) if noise.max() > 0 else 0.0,
        windows=int(windows.run.size),
        power=setup.form.expression.coeff(POWER),
    )
    if setup.points.known_noise and found.noise_factor > (OPEN_REBUILT if setup.points.reconstructed else OPEN):
        slopes = rows.columns @ setup.form.local(theta)[1]
        setup = replace(setup, warnings=(*setup.warnings, _open_balance(setup, rows, c, slopes, weight, found)))
    return finish(setup, theta, covariance, residual, found, solution.converged)


def _open_balance(setup: Setup, rows: _Rows, c: Array, slopes: Array, weight: Array, found: LevelSets) -> str:
    """Return a warning about an open balance.

    It names the loss that would close it, if a usual one does.
    """
    drain = likely_drain(setup.points, rows.windows.plain, rows.columns @ c, slopes, weight)
    text = (
        f"the energy balance is missed by {np.sqrt(found.noise_factor):.3g} times what the stated noise explains: "
        "something that is not in the equations feeds or drains energy, and the values make up for it"
    )
    if drain is None:
        return (
            f"{text}; fit the motion itself, {Fit('invariant', then=Fit('shooting'))}, and ask "
            f"{SUGGEST} what is missing"
        )
    return (
        f"{text}. A loss of {drain.strength:.3g}*{drain.law} ({drain.called}) explains {100 * drain.share:.3g} % of "
        "it: add that force to the equations"
    )


def _prepare(settings: InvariantFit, request: Request) -> tuple[Setup, Flags]:
    model = request.model
    name, invariant = declared_invariant(model, settings.invariant)
    marked = invariant + POWER * power_of(model, invariant)
    expression, asked, points = collected(settings, request, marked, "the energy with its balance", True)
    if time in expression.free_symbols:
        points = replace(
            points,
            variables=(*points.variables, "t"),
            values=np.vstack([points.values, points.times]),
            variance=np.vstack([points.variance, np.zeros_like(points.times)]),
        )
    # The balance does not depend on a factor of H and P together.
    held = settings.scale if settings.scale in asked else None
    names = tuple(n for n in asked if n != held)
    form, is_power = _joined(expression, points.variables, names, model)
    bounds, start = start_of(model, names)
    return Setup(request, settings, name, form, points, bounds, start, asked, held, ()), is_power


def _joined(
    expression: sp.Expr, variables: tuple[str, ...], names: tuple[str, ...], model: Model
) -> tuple[Form, NDArray]:
    """Return one form of H and P.

    Its features are those of H, then those of P.
    """
    expanded = sp.expand(expression)
    power = expanded.coeff(POWER)
    whole = make_form(expanded.subs(POWER, 0), variables, names, model.values)
    drain = make_form(power, variables, names, model.values) if power != 0 else None
    if not whole.separable or (drain is not None and not drain.separable):
        raise ModelError(
            "The balance needs energy and power as sums of coefficients times functions of the state; a free "
            f"parameter sits inside such a function: fix it, or use {Give(objective='variance')}."
        )
    features = whole.features + (drain.features if drain else ())
    coefficients = whole.coefficients + (drain.coefficients if drain else ())
    values = {**whole.values, **(drain.values if drain else {})}
    form = Form(expanded, variables, names, values, features, coefficients, True)
    return form, np.arange(len(features)) >= len(whole.features)


class _Rows:
    """Integrals of every feature over every window.

    The class also gives the noise in them.
    """

    def __init__(self, table: FeatureTable, points: Points, windows: Windows, is_power: Flags):
        self.table, self.points, self.windows, self.is_power = table, points, windows, is_power
        self.terms = table.evaluate(points.values, points.variance, np.zeros(len(table.form.free)))
        # exp(-L/2) f to first order: the mean of f under the noise is removed.
        clean = self.terms.value - (self.terms.laplace / 2 if points.known_noise else 0.0)
        self.columns = np.empty((windows.run.size, is_power.size))
        self.columns[:, is_power] = windows.plain @ clean[is_power].T
        self.columns[:, ~is_power] = windows.slope @ clean[~is_power].T

    def moments(self, weight: Array) -> Moments:
        share = weight / weight.sum()
        root = triangle(np.sqrt(share)[:, None] * self.columns)
        noise = np.zeros((self.table.count, self.table.count))
        parts = (self.windows.slope, self.windows.plain)
        slopes = self.terms.gradient * np.sqrt(self.points.variance)
        for i, left in enumerate(parts):
            for j, right in enumerate(parts):
                density = left.multiply(right).T @ share
                rows, columns = self.is_power == bool(i), self.is_power == bool(j)
                size = slopes[0].size  # where nothing feeds or drains H, the power has no rows
                a = (slopes[rows] * density).reshape(rows.sum(), size)
                noise[np.ix_(rows, columns)] = a @ slopes[columns].reshape(columns.sum(), size).T
        if len(root) < self.table.count:
            root = np.vstack([root, np.zeros((self.table.count - len(root), self.table.count))])
        return Moments(root, noise, np.zeros_like(noise), 1)

    def _slopes(self, c: Array) -> list[Array]:
        """Return the derivatives (d, N) of energy and power.

        Derivatives are by the states, for coefficients c.
        """
        parts = (~self.is_power, self.is_power)
        return [np.einsum("k,kdn->dn", c[part], self.terms.gradient[part]) for part in parts]

    def by_sample(self, c: Array) -> list[sparse.csr_array]:
        """Return the derivatives (W, N) by every sample.

        These are the derivatives of the residuals by each state, for coefficients c.
        """
        return [
            sparse.csr_array(self.windows.slope.multiply(a[None]) + self.windows.plain.multiply(b[None]))
            for a, b in zip(*self._slopes(c), strict=True)
        ]

    def noise(self, theta: Array) -> Array:
        """Return the variance (W,) of every window's residual."""
        whole, drain = self._slopes(self.table.form.local(theta)[0])
        a, b, v = self.windows.slope, self.windows.plain, self.points.variance
        total = a.multiply(a) @ np.sum(v * whole**2, axis=0) + b.multiply(b) @ np.sum(v * drain**2, axis=0)
        return total + 2 * (a.multiply(b) @ np.sum(v * whole * drain, axis=0))


def _refuse_dependent(setup: Setup, columns: Array) -> None:
    usual = np.full(setup.start.size, USUAL)
    theta = generic_point(setup.start, usual, setup.bounds)
    c, slopes = setup.form.local(theta)
    direction = scale_direction(c, slopes)
    if direction is not None:
        raise IdentifiabilityError(
            "The balance fixes the energy only up to a factor; along it the free parameters move together "
            f"({words(setup.form.free, direction, theta)}). Leave one out of free, or hold one with {Give('scale')}."
        )
    refuse_dependent(columns @ slopes, setup.form.free, theta)


def _covariance(rows: _Rows, form: Form, theta: Array, weight: Array, tau: float) -> Array:
    c, slopes = form.local(theta)
    share = weight / weight.sum()
    bread = inverse_by_units(slopes.T @ rows.moments(weight).at(tau) @ slopes)
    score = share * (rows.columns @ c) * (rows.columns @ slopes).T
    # Windows of all lengths about the same time share their samples: their scores count as one.
    places = int(rows.windows.place.max()) + 1
    index = rows.windows.run * places + rows.windows.place
    size = (int(rows.windows.run.max()) + 1) * places
    together = np.array([np.bincount(index, row, size) for row in score], float)
    seen = bread @ long_run(together, np.repeat(np.arange(size // places), places), REACH * OVERLAP) @ bread
    # Long windows overlap farther than the range of the sum above. The effect of the noise of every sample through all
    # its windows is known as well, and the larger of the two variances is taken.
    influence = bread @ (rows.columns @ slopes).T * share
    known = np.zeros_like(seen)
    for moved, variance in zip(rows.by_sample(c), rows.points.variance, strict=True):
        reach = moved.T @ influence.T  # (N, k)
        known += (reach * variance[:, None]).T @ reach
    residual = rows.columns @ c
    known *= max(1.0 if rows.points.known_noise else 0.0, float(np.mean(weight * residual**2)))
    ratio = np.diag(known) / np.maximum(np.diag(seen), 1e-300)
    # Rows and columns are scaled, which keeps the correlations.
    wider = np.sqrt(np.maximum(ratio, 1.0))
    return seen * np.outer(wider, wider)
