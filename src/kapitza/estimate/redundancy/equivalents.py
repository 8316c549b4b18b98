"""Other parameter values with exactly the same outputs.

Examples are exchanged compartments, changed signs, mirrored angles.

Motions x' = f(x, t, θ) observed through y = h(x, t, θ) have a twin at other values θ* if an affine change of the states
maps one onto the other,

    f(T x + δ, t, θ*) = T f(x, t, θ),    h(T x + δ, t, θ*) = h(x, t, θ)    for all x and t.

At random points these are equations for θ*, T and δ. They are solved by least squares from many starts (exchanged
values, changed signs, exchanged states, random ones), all at once; solutions that hold at points not used are twins. A
change of the states that is not affine is not found.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy as sp

from kapitza.base.arrays import Array, Indices
from kapitza.model import Expression, Model, derived_in_base, symbol, symbolic, time

POINTS = 3
"""Random points per unknown."""

BEGINNINGS, ROUNDS, ITERATIONS, PATIENCE = 48, 3, 40, 12
"""Starts of a round, rounds (each from exchanges of the twins found before), iterations of least squares, and those
after which an iteration must halve the cost."""

HELD, LINEAR = 5, 1e-9
"""Iterations during which the parameters keep the values of their start, and the damping at their beginning."""

DECADES = 4.0
"""Of the sizes of states and drives at every second point: below 1, where a solution is checked also above."""

SOLVED = 1e-18
"""Mean square of the relative residuals of a solution."""

EXACT = 1e-7
"""Largest residual of a twin, relative to the terms."""

APART = 1e-4
"""Relative difference from which two sets of values are different ones."""

MOST_STATES, MOST_PARAMETERS = 6, 8
"""Largest models that are searched: the number of unknowns grows as the square of the states."""

STEP = 1e-6
"""Relative step of an argument by which the sizes of terms are found."""

Twin = Mapping[str, float]


class Twins:
    """Conditions above for one model and its outputs.

    free: names of the free parameters.
    """

    def __init__(self, model: Model, outputs: Sequence[Expression], free: Sequence[str]):
        self.model, self.free, self.n = model, tuple(free), len(model.states)
        inputs = [*map(symbol, model.states), time, *(symbol(s.name) for s in model.signals), *map(symbol, model.names)]
        with symbolic:
            base = derived_in_base(model)
            written = [e.xreplace(base) for e in (*model.structure.rates, *outputs)]
            dummies = {s: sp.Dummy(f"v{i}") for i, s in enumerate(inputs)}
            self._function = sp.lambdify(
                list(dummies.values()), [e.xreplace(dummies) for e in written], "numpy", cse=True
            )
        self.columns = [model.names.index(name) for name in self.free]

    def found(self, values: Mapping[str, float], seed: int = 0) -> tuple[Twin, ...]:
        """Return the twins of these parameter values.

        values: of all parameters; a twin holds those of the free ones.
        """
        rng, n = np.random.default_rng(seed), self.n
        theta = np.array([values[name] for name in self.free])
        size = np.where(theta != 0, np.abs(theta), 1.0)
        unknowns = theta.size + n * n + n
        conditions = self._conditions(values, theta, size, POINTS * unknowns, rng)
        # Points that the solver does not use, also far out: a solution must hold there too, behind a stop as before it.
        check = self._conditions(values, theta, size, 2 * POINTS * unknowns, rng, far=True)
        if conditions is None or check is None:
            return ()
        twins: list[Array] = [theta]
        fresh = [theta]
        for _ in range(ROUNDS):
            solutions = _least_squares(conditions, *self._beginnings(fresh, size, rng))
            fresh = []
            for one in solutions:
                held = np.abs(check(one[None])[0]).max() < EXACT
                other = one[: theta.size] * size
                change = one[theta.size : theta.size + n * n].reshape(n, n)
                # A singular change of the states would map motions onto fewer dimensions.
                if not held or np.linalg.cond(change) > 1 / EXACT:
                    continue
                if not any(_same_values(other, known, size) for known in twins):
                    twins.append(other)
                    fresh.append(other)
            if not fresh:
                break
        return tuple(dict(zip(self.free, twin.tolist(), strict=True)) for twin in twins[1:])

    def _conditions(
        self,
        values: Mapping[str, float],
        theta: Array,
        size: Array,
        points: int,
        rng: np.random.Generator,
        far: bool = False,
    ) -> Callable[[Array], Array] | None:
        """Return the residuals (S, q) as a function.

        The unknowns (S, m) are θ*/size, T and δ, the points are random; None where f has no value. far: every second
        point has states and times of any one size.
        """
        n, moving = self.n, self.n + 1 + len(self.model.signals)
        fixed = np.array([values[name] for name in self.model.names])[:, None]
        for positive in (False, True):
            x = rng.uniform(0.3, 1.7, (moving, points))
            # Over decades, so that a large term (k3 = 5e6 beside c = 3) does not hide a small one everywhere.
            if far:
                x[:, 1::2] *= 10.0 ** rng.uniform(-DECADES, DECADES, x[0, 1::2].shape)
            else:
                x[:, 1::2] *= 10.0 ** rng.uniform(-DECADES, 0.0, x[:, 1::2].shape)
            if not positive:
                # States of both signs first; only positive ones where roots or logarithms need them.
                x[:n] *= rng.choice([-1.0, 1.0], (n, points))
            with np.errstate(all="ignore"):
                here = self._evaluate(x, np.broadcast_to(fixed, (len(fixed), points)))
            good = np.isfinite(here).all(axis=0)
            if good.mean() > 0.5:
                break
        else:
            return None
        x, here = x[:, good], here[:, good]
        scale = self._sizes(x, np.broadcast_to(fixed, (len(fixed), x.shape[1])), here) + 1e-12

        def residuals(unknown: Array) -> Array:
            count, k = len(unknown), theta.size
            change, shift = unknown[:, k : k + n * n].reshape(count, n, n), unknown[:, k + n * n :]
            moved = np.broadcast_to(x[:, None, :], (moving, count, x.shape[1])).copy()
            moved[:n] = np.moveaxis(change @ x[:n] + shift[:, :, None], 1, 0)
            parameters = np.broadcast_to(fixed[:, :, None], (len(fixed), count, x.shape[1])).copy()
            for i, column in enumerate(self.columns):
                parameters[column] = (unknown[:, i] * size[i])[:, None]
            with np.errstate(all="ignore"):
                there = self._evaluate(moved, parameters)
            wanted = np.broadcast_to(here[:, None, :], there.shape).copy()
            wanted[:n] = np.moveaxis(change @ here[:n], 1, 0)
            left = np.moveaxis((there - wanted) / scale[:, None, :], 1, 0)
            return np.where(np.isfinite(left), left, 1e3).reshape(count, -1)

        return residuals

    def _sizes(self, moving: Array, parameters: Array, here: Array) -> Array:
        """Return the sizes of the terms of f and h.

        They are (q, P): |f| + Σ |z ∂f/∂z| over all arguments z at each point. |f| alone is small where terms cancel,
        and such points would outweigh all others in the least squares.
        """
        size = np.abs(here)
        for group in (moving, parameters):
            for row in range(len(group)):
                moved = group.copy()
                moved[row] *= 1.0 + STEP
                pair = (moved, parameters) if group is moving else (moving, moved)
                with np.errstate(all="ignore"):
                    change = np.abs(self._evaluate(*pair) - here) / STEP
                size = size + np.where(np.isfinite(change), change, 0.0)
        return size

    def _evaluate(self, moving: Array, parameters: Array) -> Array:
        found = self._function(*moving, *parameters)
        return np.array([np.broadcast_to(np.real(v), moving.shape[1:]) for v in found], float)

    def _beginnings(self, known: Sequence[Array], size: Array, rng: np.random.Generator) -> tuple[Array, Indices]:
        """Return starts (S, m) of the least squares.

        The starts are exchanges of values and of states, changes of sign, and random ones. The second part (S,) is the
        number of values to hold at first: all of them where values alone are exchanged.
        """
        n, k, made = self.n, size.size, []
        signs = [np.diag(s) for s in itertools.product((1.0, -1.0), repeat=n) if n <= 4 or sum(x < 0 for x in s) == 1]
        swaps = [np.eye(n)[list(_swapped(n, i, j))] for i, j in itertools.combinations(range(n), 2)]
        if n % 2 == 0:
            # A coordinate is exchanged together with its rate.
            half = n // 2
            swaps += [np.kron(np.eye(2), np.eye(half)[list(_swapped(half, i, j))])
                      for i, j in itertools.combinations(range(half), 2)]  # fmt: skip
        for theta in known:
            start = theta / size
            made += [(start, change) for change in (*signs[1:], *swaps)]
            for i, j in itertools.combinations(range(k), 2):
                other = theta[list(_swapped(k, i, j))] / size
                made += [(other, np.eye(n)), *((other, swap) for swap in swaps[:3])]
                made += [(other, rng.standard_normal((n, n))) for _ in range(2)]
        while len(made) < BEGINNINGS:
            made.append((known[-1] / size * np.exp(rng.uniform(-1.4, 1.4, k)), rng.standard_normal((n, n))))
        made = made[: 4 * BEGINNINGS]
        starts = np.array([[*start, *change.ravel(), *np.zeros(n)] for start, change in made])
        same = np.array([bool((change == np.eye(n)).all()) for _, change in made])
        return starts, np.where(same, k, 0)


def _same_values(one: Array, other: Array, size: Array) -> bool:
    """Return whether two sets of values (k,) are equal.

    Values that differ by full turns count as equal.
    """
    gap = one - other
    # A parameter that is an angle has equal values a turn apart.
    gap -= 2 * np.pi * np.round(gap / (2 * np.pi))
    return bool((np.minimum(np.abs(gap), np.abs(one - other)) <= APART * size).all())


def _swapped(count: int, i: int, j: int) -> Indices:
    """Return the indices (count,) with two of them exchanged."""
    order = np.arange(count, dtype=np.intp)
    order[[i, j]] = order[[j, i]]
    return order


def _least_squares(residuals: Callable[[Array], Array], start: Array, held: Indices) -> Array:
    """Return the solutions (S', m) of residuals = 0.

    All starts (S, m) take Levenberg-Marquardt steps at once. held (S,): that many of the first unknowns, the values,
    are held for HELD steps. For the right values the change of the states follows from equations that are often
    linear, while values that move before it is known leave the exchange that they began with.
    """
    now, unknowns = start.copy(), start.shape[1]
    left, damping = residuals(now), np.where(held > 0, LINEAR, 1e-2)
    solved = []
    for number in range(ITERATIONS):
        step = 1e-7 * np.maximum(np.abs(now), 1.0)
        moved = (now[:, None, :] + step[:, :, None] * np.eye(unknowns)).reshape(-1, unknowns)
        slopes = (residuals(moved).reshape(len(now), unknowns, -1) - left[:, None]) / step[..., None]
        if number < HELD:
            slopes[np.arange(unknowns) < held[:, None]] = 0.0
        elif number == HELD:
            damping = np.where(held > 0, 1e-2, damping)
        normal, pull = slopes @ np.swapaxes(slopes, 1, 2), np.einsum("smq,sq->sm", slopes, left)
        size = np.maximum(np.einsum("smm->sm", normal), 1e-12)
        damped = normal + (damping[:, None] * size)[:, :, None] * np.eye(unknowns)
        trial = now - np.linalg.solve(damped, pull[..., None])[..., 0]
        there, before = residuals(trial), (left**2).sum(axis=1)
        after = (there**2).sum(axis=1)
        lower = after < before
        now[lower], left[lower] = trial[lower], there[lower]
        # Levenberg and Marquardt: less damping after a success, more after a failure.
        damping = np.where(lower, damping / 5.0, damping * 4.0)
        cost = np.minimum(before, after)
        solved.append(now[cost < SOLVED * left.shape[1]])
        # Starts that have converged or progress slowly are removed, which makes the next iterations faster.
        creeping = (damping > 1e4) | ((number >= PATIENCE) & (cost > 0.5 * before) & (cost > 1e-6))
        alive = (cost >= SOLVED * left.shape[1]) & ~creeping & np.isfinite(cost)
        now, left, damping, held = now[alive], left[alive], np.maximum(damping[alive], 1e-12), held[alive]
        if not len(now):
            break
    return np.concatenate(solved) if solved else start[:0]


def equivalents(
    model: Model, outputs: Sequence[Expression], free: Sequence[str], settings: Sequence[Mapping[str, float]] = ()
) -> tuple[Twin, ...]:
    """Return other parameter values with the same outputs.

    They are values of the free parameters, within the bounds. settings: values of parameters of single recordings;
    where they differ, a twin must be one for each of them.
    """
    searchable = not (model.delays or model.impacts or model.is_map or model.structure.steps)
    if not searchable or not free or len(model.states) > MOST_STATES or len(free) > MOST_PARAMETERS:
        return ()
    if not np.isfinite([model.values[n] for n in model.names]).all():
        return ()
    twins = _twins(_Question(model, tuple(outputs), tuple(free)))
    if twins is None:
        return ()
    made: tuple[Twin, ...] | None = None
    for own in settings or [{}]:
        found = twins.found({**model.values, **own})
        # A twin must explain every recording.
        made = found if made is None else tuple(one for one in made if any(_same(one, other) for other in found))
        if not made:
            return ()
    return tuple(one for one in made or () if all(_inside(model, name, value) for name, value in one.items()))


def _same(one: Twin, other: Twin) -> bool:
    return all(abs(one[n] - other[n]) <= APART * max(abs(one[n]), 1e-12) for n in one)


def _inside(model: Model, name: str, value: float) -> bool:
    low, high = model.parameter(name).bounds
    return low <= value <= high


def _generic(model: Model) -> Mapping[str, float]:
    """Return generic parameter values near the model's.

    No two of them are equal by accident.
    """
    rng = np.random.default_rng(3)
    return {n: (v if v else 1.0) * float(np.exp(rng.uniform(-0.3, 0.3))) for n, v in model.values.items()}


@dataclass(frozen=True, eq=False)
class _Question:
    """Model, outputs and free parameters, compared by equations.

    Values are not compared, because every fit of a model repeats the question at other values.
    """

    model: Model
    outputs: tuple[Expression, ...]
    free: tuple[str, ...]

    @property
    def key(self) -> tuple[object, ...]:
        return self.model.structure.key, self.model.names, self.outputs, self.free

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Question) and self.key == other.key


@lru_cache(maxsize=32)
def _twins(question: _Question) -> Twins | None:
    """Return the conditions of a model.

    None where they cannot be written or have no solution at generic values.
    """
    try:
        made = Twins(question.model, question.outputs, question.free)
    except (TypeError, ValueError, NotImplementedError):
        return None
    return made if made.found(_generic(question.model)) else None
