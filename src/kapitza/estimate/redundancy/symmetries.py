"""Parameter changes that a change of coordinates undoes.

No output can detect them. A model R(u, u', u'', t, θ) = 0 with outputs y = h(u, u', u'', t, θ) is unchanged by
θ → θ + ε ξ if there is a change of coordinates u → u + ε η, η = B u + δ + γ t (scales, mixtures, shifts), with

    ∂R/∂u η + ∂R/∂u' η' + ∂R/∂u'' η'' + ∂R/∂θ ξ = 0,    ∂h/∂u η + ∂h/∂u' η' + ∂h/∂u'' η'' + ∂h/∂θ ξ = 0

at every point with R = 0. The unknowns ξ, B, δ, γ enter linearly: they are the null space of rows at random points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import sympy as sp

from kapitza.base.arrays import Array
from kapitza.model import Coordinate, Expression, Model, derived_in_base, rate, symbol, symbolic, time

NULL = 1e-10
"""Singular values of the scaled rows below this share of the largest belong to a symmetry."""

CLEAR = 1e-7
"""The next singular value must be this large, else the rank is undecided."""


SIZES = (-6, 5)
"""Powers of ten, first and beyond the last, of the sizes of states and times at which a symmetry must hold: a gap of
5 mm, a drive that starts after 20 minutes and the width of a smooth friction law show nowhere else."""

SPREAD_OUT, CANDIDATES = 10, 24_000
"""Times more points where sizes differ, and points (at all parameter sets) of which those are added where a parameter
counts most: each variable has its own size, and a law may act at few combinations, a blow at few times."""

ENOUGH = 0.2
"""Share of random points at which the equations must have a value; the others are outside the domain of a root."""


@dataclass(frozen=True)
class Sampled:
    """Symmetries at several parameter sets.

    theta is (J, k); directions (J, k, d) are orthonormal columns ξ/θ.
    """

    theta: Array
    directions: Array

    @property
    def count(self) -> int:
        return self.directions.shape[2]


class Conditions:
    """Conditions above for one model, ready to be sampled."""

    def __init__(self, model: Model, outputs: Sequence[Expression], free: Sequence[str]):
        self.model, self.free = model, tuple(free)
        with symbolic:
            self._prepare(outputs)

    @classmethod
    def of(cls, model: Model, outputs: Sequence[Expression], free: Sequence[str]) -> Conditions:
        """Return the conditions of a model.

        Those of the same equations with other values are compiled once.
        """
        parameters = tuple((p.name, p.expression) for p in model.parameters)
        impacts = tuple((i.surface, tuple(i.reset.items())) for i in model.impacts)
        form = _Form(
            model.coordinates, model.equations, impacts, model.is_map, tuple(s.name for s in model.signals),
            parameters, tuple(outputs), tuple(free), model,
        )  # fmt: skip
        made = copy(_compiled(form))
        made.model = model
        return made

    def _prepare(self, outputs: Sequence[Expression]) -> None:
        model, base = self.model, derived_in_base(self.model)
        orders = {c.name: 1 if model.is_map else c.order for c in model.coordinates}
        self.tops = [rate(n, o) for n, o in orders.items()]
        self.states = [symbol(s) for s in model.states]
        signals = model.signals
        self.moving = [*self.states, time, *(symbol(s.name) for s in signals)]
        if model.is_map:
            residuals = [top - e.xreplace(base) for top, e in zip(self.tops, model.equations, strict=True)]
        else:
            residuals = [e.xreplace(base) for e in model.equations]
        changes = self._changes(orders)
        self.columns = len(changes)
        inputs = [*self.moving, *self.tops, *map(symbol, model.names)]
        every = [*residuals, *(h.xreplace(base) for h in outputs)]
        for impact in model.impacts:
            every.append(impact.surface.xreplace(base))
        rows = [_along(e, changes, self.free) for e in every]
        for impact in model.impacts:
            reset = {symbol(n): e.xreplace(base) for n, e in impact.reset.items()}
            rows += [_through(reset, s, changes, self.free) for s in self.states]
        self.solved = [[sp.diff(r, top) for top in self.tops] for r in residuals]
        rest = [r.xreplace(dict.fromkeys(self.tops, sp.Integer(0))) for r in residuals]
        # Derivatives of switches are pulses, which count as independent functions.
        spikes: dict[sp.Basic, sp.Symbol] = {}
        self._top_function = _function([*(e for row in self.solved for e in row), *rest], inputs, spikes)
        self._row_function = _function([e for row in rows for e in row], inputs, spikes)
        self.rows, self.spikes = len(rows), spikes

    def _changes(self, orders: Mapping[str, int]) -> list[dict[sp.Symbol, Expression]]:
        """Return a basis of the changes of coordinates.

        Each entry gives the change of every state and highest derivative.
        """
        model, top_of = self.model, {}
        for name, order in orders.items():
            chain = [symbol(name)] if model.is_map else [rate(name, k) if k else symbol(name) for k in range(order)]
            chain.append(rate(name, order))
            top_of[name] = chain
        found: list[dict[sp.Symbol, Expression]] = []
        one = sp.Integer(1)
        for name, order in orders.items():
            chain = top_of[name]
            for other, its in orders.items():
                source = top_of[other]
                if its >= order:  # its derivatives up to the order needed are known
                    found.append({chain[k]: source[k] for k in range(order + 1)})
                if its == 2 and order == 1:
                    found.append({chain[k]: source[k + 1] for k in range(2)})
            if model.is_map:
                found.append(dict.fromkeys(chain, one))
            else:
                found.append({chain[0]: one})
                # γ t: its rate is γ.
                found.append({chain[0]: time, chain[1]: one})
        return found

    def sample(
        self,
        settings: Sequence[Mapping[str, float]],
        count: int,
        seed: int,
        everywhere: tuple[float, float] | None = None,
    ) -> Sampled | None:
        """Return the symmetries at `count` random parameter sets.

        The sets are near the model's values; settings: parameter values of the records. States and times are of the
        size 1, where ranks are clearest; with `everywhere`, the first and last time of the records, of all sizes.
        """
        rng = np.random.default_rng(seed)
        theta = self._parameter_sets(count, rng)
        columns = len(self.free) + self.columns * len(settings)
        # Several times more rows than unknowns, so that the null space is that of all points.
        points = max(40, int(np.ceil(6 * columns / max(self.rows, 1))))
        blocks = []
        for number, own in enumerate(settings):
            rows = self._rows(theta, own, points if everywhere is None else points * SPREAD_OUT, rng, everywhere)
            if rows is None:
                return None
            if everywhere is not None:
                more = self._rows(theta, own, max(points, CANDIDATES // count), rng, everywhere)
                if more is not None:
                    rows = np.concatenate([rows, _telling(more, theta, points)], axis=1)
            k, wide = len(self.free), np.zeros((*rows.shape[:2], columns))
            wide[..., :k] = rows[..., :k]
            first = k + self.columns * number
            wide[..., first : first + self.columns] = rows[..., k:]
            blocks.append(wide)
        return _null_spaces(np.concatenate(blocks, axis=1), theta)

    def _parameter_sets(self, count: int, rng: np.random.Generator) -> Array:
        """Draw parameter sets (J, k) around the model's values.

        They have the same sign and are within the bounds.
        """
        columns = []
        for name in self.free:
            value = self.model.values[name]
            low, high = self.model.parameter(name).bounds
            if np.isfinite(value) and value != 0:
                # Generic values: a symmetry must hold for all parameters, not for accidental ones.
                drawn = value * np.exp(rng.uniform(-0.6, 0.6, count))
            else:
                sign = 1.0 if low >= 0 else -1.0 if high <= 0 else rng.choice([-1.0, 1.0])
                drawn = sign * rng.uniform(0.5, 1.5, count)
            inside = (drawn >= low) & (drawn <= high)
            middle = value if np.isfinite(value) and value != 0 else 0.5 * (low + high)
            columns.append(np.where(inside | ~np.isfinite(middle), drawn, middle))
        return np.array(columns).T.reshape(count, len(self.free))

    def _rows(
        self,
        theta: Array,
        own: Mapping[str, float],
        points: int,
        rng: np.random.Generator,
        everywhere: tuple[float, float] | None,
    ) -> Array | None:
        """Return the conditions at random points of the motion.

        (J, points · rows, k + columns); None where the equations have no value at too many points.
        """
        count = len(theta)
        values = {**self.model.values, **own}
        fixed = [values[n] if np.isfinite(values[n]) else 1.0 + 0.1 * i for i, n in enumerate(self.model.names)]
        parameters = np.broadcast_to(np.array(fixed)[:, None, None], (len(fixed), count, points)).copy()
        for i, name in enumerate(self.free):
            parameters[self.model.names.index(name)] = theta[:, i, None]
        for positive in (False, True):
            moving = rng.uniform(0.3, 1.7, (len(self.moving), count, points))
            if everywhere is not None:
                moving *= 10.0 ** rng.integers(*SIZES, moving.shape)
                # Every second point lies in the time of the records.
                clock = moving[len(self.states)]
                clock[:, ::2] = rng.uniform(*everywhere, clock[:, ::2].shape)
            if not positive:
                moving[: len(self.states)] *= rng.choice([-1.0, 1.0], (len(self.states), count, points))
            spikes = rng.uniform(0.5, 1.5, (len(self.spikes), count, points))
            with np.errstate(all="ignore"):
                rows = self._evaluate(moving, parameters, spikes)
            good = np.asarray(np.isfinite(rows).all(axis=(2, 3)))
            if good.sum(axis=1).min() >= ENOUGH * points:
                return np.where(good[..., None, None], rows, 0.0).reshape(count, points * self.rows, -1)
        return None

    def _evaluate(self, moving: Array, parameters: Array, spikes: Array) -> Array:
        count, points, tops = moving.shape[1], moving.shape[2], len(self.tops)
        empty = np.zeros((tops, count, points))
        linear = np.moveaxis(self._top_function(moving, empty, parameters, spikes), 0, -1)
        matrix, rest = linear[..., : tops * tops].reshape(count, points, tops, tops), linear[..., tops * tops :]
        broken = ~np.isfinite(matrix).all(axis=(2, 3)) | (np.abs(np.linalg.det(np.nan_to_num(matrix))) < 1e-12)
        # Singular points are replaced so that the batch can be solved, and marked as NaN below.
        matrix = np.where(broken[..., None, None], np.eye(tops), matrix)
        solution = -np.asarray(np.linalg.solve(matrix, rest[..., None])[..., 0], float)
        solution[broken] = np.nan
        rows = self._row_function(moving, np.moveaxis(solution, -1, 0), parameters, spikes)
        return np.moveaxis(rows, 0, -1).reshape(count, points, self.rows, -1)


@dataclass(frozen=True)
class _Form:
    """Everything that compiled conditions depend on.

    It is all of a model but its values.
    """

    coordinates: tuple[Coordinate, ...]
    equations: tuple[Expression, ...]
    impacts: tuple[tuple[object, tuple[tuple[str, object], ...]], ...]
    is_map: bool
    signals: tuple[str, ...]
    parameters: tuple[tuple[str, Expression | None], ...]
    outputs: tuple[Expression, ...]
    free: tuple[str, ...]
    model: Model = field(compare=False, repr=False)


@lru_cache(maxsize=64)
def _compiled(form: _Form) -> Conditions:
    return Conditions(form.model, form.outputs, form.free)


def _along(expression: Expression, changes: Sequence[Mapping[sp.Symbol, Expression]], free: Sequence[str]) -> list:
    """Differentiate by parameters and along coordinate changes."""
    slopes = {s: sp.diff(expression, s) for s in {s for change in changes for s in change} & expression.free_symbols}
    row = [sp.diff(expression, symbol(n)) if symbol(n) in expression.free_symbols else sp.Integer(0) for n in free]
    for change in changes:
        row.append(sp.Add(*[slopes[s] * by for s, by in change.items() if s in slopes]))
    return row


def _through(
    reset: Mapping[sp.Symbol, Expression],
    state: sp.Symbol,
    changes: Sequence[Mapping[sp.Symbol, Expression]],
    free: Sequence[str],
) -> list:
    """Return the condition on a reset map.

    For x⁺ = r(x⁻, θ) the change of x⁺ through r equals its own change of coordinates.
    """
    before = _along(reset.get(state, state), changes, free)
    after = [change.get(state, sp.S.Zero).xreplace(dict(reset)) for change in changes]
    return [*before[: len(free)], *(b - a for b, a in zip(before[len(free) :], after, strict=True))]


def _function(expressions: Sequence[Expression], inputs: Sequence[sp.Symbol], spikes: dict[sp.Basic, sp.Symbol]):
    """Compile expressions (E, …) to one function of arrays.

    A Dirac pulse is replaced by a separate random input.
    """
    for expression in expressions:
        for pulse in expression.atoms(sp.DiracDelta):
            spikes.setdefault(pulse, sp.Dummy(f"pulse{len(spikes)}"))
    pulses = list(spikes.values())
    written = [e.xreplace(spikes) for e in expressions]
    dummies = {s: sp.Dummy(f"v{i}") for i, s in enumerate(inputs)}
    arguments = [*dummies.values(), *pulses]
    compiled = sp.lambdify(arguments, [e.xreplace(dummies) for e in written], "numpy", cse=True)

    def evaluate(moving: Array, tops: Array, parameters: Array, drawn: Array) -> Array:
        values = compiled(*moving, *tops, *parameters, *drawn[: len(pulses)])
        return np.array([np.broadcast_to(v, moving.shape[1:]) for v in values], float)

    return evaluate


def _telling(rows: Array, theta: Array, count: int) -> Array:
    """Return the rows (J, k · count, c), of those given (J, m, c), in which each parameter counts most."""
    size = np.linalg.norm(rows, axis=2)
    share = np.abs(rows[..., : theta.shape[1]] * theta[:, None, :]) / np.where(size > 0, size, 1.0)[..., None]
    most = np.argsort(-share, axis=1, kind="stable")[:, :count].reshape(len(rows), -1)
    return np.take_along_axis(rows, most[..., None], axis=1)


def _null_spaces(rows: Array, theta: Array) -> Sampled | None:
    """Return the parameter parts of null spaces.

    The rows are (J, m, c), used where their rank is clear; None where it is clear for less than half of the sets.
    """
    k = theta.shape[1]
    scale = np.ones((len(theta), rows.shape[2]))
    # Relative changes of the parameters are the unknowns.
    scale[:, :k] = theta
    scaled = rows * scale[:, None, :]
    length = np.linalg.norm(scaled, axis=2, keepdims=True)
    scaled = scaled / np.where(length > 0, length, 1.0)
    # A QR step first makes the SVD cheap: there are many more rows than columns.
    _, values, right = np.linalg.svd(np.linalg.qr(scaled, mode="r"))  # any sign: null spaces
    full = np.zeros((len(theta), rows.shape[2]))
    full[:, : values.shape[1]] = values
    null = full <= NULL * full[:, :1]
    clear = ~((full > NULL * full[:, :1]) & (full < CLEAR * full[:, :1])).any(axis=1)
    if clear.sum() < 0.5 * len(theta):
        return None
    theta, right, null = theta[clear], right[clear], null[clear]
    found = []
    for j in range(len(theta)):
        left, size, _ = np.linalg.svd(right[j][null[j]][:, :k].T, full_matrices=False)  # any sign: as a space
        found.append(left[:, size > 1e-7])
    # The generic number of symmetries; special parameter sets may have more.
    least = min(f.shape[1] for f in found)
    kept = [j for j, f in enumerate(found) if f.shape[1] == least]
    return Sampled(theta[kept], np.array([found[j] for j in kept]).reshape(len(kept), k, least))
