"""Projection back onto conserved quantities.

A state y that has drifted from Θ(y) = c, one or several invariants, moves to the nearest point of that set by Newton
steps along the gradients: δ = -Gᵀ (G Gᵀ)⁻¹ (Θ(y) - c) with G = ∂Θ/∂y (INVARIANT, section 2).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

from kapitza.base.argument_checks import Reals
from kapitza.base.arrays import Array
from kapitza.base.cures import Fit, Give
from kapitza.errors import FlowError, ModelError
from kapitza.flow import arguments
from kapitza.flow.arguments import Parameters
from kapitza.flow.core import TURN, Core, Filled
from kapitza.model import Evaluator, Model, Structure, compile_expressions, symbol, time

ITERATIONS = 8
"""Newton steps onto the invariants: integrated states are so near that two or three suffice."""

ROUNDING = 64 * np.finfo(float).eps
"""Defect of an invariant, relative to its largest term, that is rounding."""

SAMPLES_PER_RESTART = 32
"""Samples after which the integration restarts from the projected state."""
LARGEST_POWER = 1e-10
"""dΘ/dt along the equations, relative to the sum of its terms' moduli, up to which Θ counts as conserved."""
LARGEST_DRIFT = 1e-8
"""Drift between two restarts, relative to the largest term of Θ, that no rounding explains (say, a lossy impact)."""


def invariants(model: Model, X: Reals, parameters: Parameters = None) -> Array:
    """Evaluate the model's invariants.

    Returns values (N, m) at states X (N, n).
    """
    _require_invariants(model)
    vector = arguments.parameter_vector(model, parameters)
    rows = arguments.state_rows(model, np.atleast_2d(np.asarray(X, float)))
    return _compiled(model.structure)[0](np.ascontiguousarray(rows.T), vector).T


def project(model: Model, X: Reals, values: Reals, parameters: Parameters = None) -> Array:
    """Project states onto given values of the invariants.

    Each of the states (N, n) (or one, (n,)) is moved to the nearest point where the invariants have the values (m,).
    """
    _require_invariants(model)
    vector = arguments.parameter_vector(model, parameters)
    given = np.asarray(X, float)
    rows = arguments.state_rows(model, np.atleast_2d(given))
    moved = _project(model, rows, np.atleast_1d(np.asarray(values, float)), vector)
    return moved[0] if given.ndim == 1 else moved


def _project(model: Model, rows: Array, values: Array, vector: Array) -> Array:
    functions, gradients, sizes = _compiled(model.structure)
    count, n = values.size, rows.shape[1]
    # Whole turns would cost digits.
    turns = TURN * np.where(np.array(model.angles, bool), np.round(rows / TURN), 0.0)
    rows = rows - turns
    for _ in range(ITERATIONS):
        columns = np.ascontiguousarray(rows.T)
        defect = functions(columns, vector).T - values
        slopes = gradients(columns, vector).T.reshape(-1, count, n)
        normal = slopes @ slopes.transpose(0, 2, 1)
        # With a condition number above 1e14 hardly a digit of the step is left.
        if not np.isfinite(normal).all() or (np.linalg.cond(normal) > 1e14).any():
            raise FlowError(
                f'Projection: the gradients of the invariants of "{model.name}" vanish or are dependent at a state, '
                "so it has no nearest point. Start away from equilibria."
            )
        rows = rows - (slopes.transpose(0, 2, 1) @ np.linalg.solve(normal, defect[..., None]))[..., 0]
        # The terms of an invariant cancel; the defect cannot be smaller than the rounding of the largest term.
        if (np.abs(defect) <= ROUNDING * np.maximum(np.abs(values), sizes(columns, vector).T)).all():
            return rows + turns if turns.any() else rows
    raise FlowError(
        f'Projection onto the invariants of "{model.name}" did not settle in {ITERATIONS} steps; the largest defect is '
        f"{np.abs(defect).max():.3g}. The states are too far from the values {values}."
    )


def projected_samples(
    core: Core, state: Array, times: Array, vector: Array, after: Filled | None = None
) -> tuple[Array, Array]:
    """Sample a trajectory projected onto its invariants.

    At every sample the state returns to the invariants of the start; the motion continues from there.
    Gives states (N, n) whose angles stay within a few turns, and the whole turns (N, n) in rad that make them
    continuous: the sum has lost the last digits, and with them the exact value of the invariants.
    """
    model = core.model
    _require_invariants(model)
    values = _compiled(model.structure)[0](state[:, None], vector)[:, 0]
    result, turns = np.empty((times.size, core.size)), np.zeros((times.size, core.size))
    now, offset = state, np.zeros(core.size)
    result[0] = state
    for first in range(0, times.size - 1, SAMPLES_PER_RESTART):
        last = min(first + SAMPLES_PER_RESTART, times.size - 1)
        whole = core.whole_turns(now)
        now, offset = now - whole, offset + whole
        samples, _ = core.sample(now, times[first : last + 1], vector, tangents=False)
        _refuse_unconserved(model, samples, times[first : last + 1], values, vector)
        projected = _project(model, samples[1:], values, vector)
        result[first + 1 : last + 1], turns[first + 1 : last + 1] = projected, offset
        now = projected[-1]
        if after is not None:
            after(result, last + 1)
    return result, turns


@lru_cache(maxsize=64)
def _compiled(structure: Structure) -> tuple[Evaluator, Evaluator, Evaluator]:
    """Compile the invariants, their gradients and their sizes.

    Gradients are row-major; the size is that of the largest term of each.
    """
    expressions = list(structure.invariants.values())
    gradients = [sp.diff(e, symbol(s)) for e in expressions for s in structure.states]
    sizes = [sp.Max(*[sp.Abs(term) for term in sp.Add.make_args(sp.expand(e))]) for e in expressions]
    inputs = structure.states, structure.parameters
    return (
        compile_expressions(expressions, *inputs),
        compile_expressions(gradients, *inputs),
        compile_expressions(sizes, *inputs),
    )


@lru_cache(maxsize=64)
def _powers(structure: Structure) -> Evaluator:
    """Compile dΘ/dt of every invariant along the equations.

    The sums of the moduli of the terms follow.
    """
    totals, sizes = [], []
    for expression in structure.invariants.values():
        terms = [sp.diff(expression, symbol(s)) * r for s, r in zip(structure.states, structure.rates, strict=True)]
        totals.append(sp.Add(*terms))
        sizes.append(sp.Add(*(sp.Abs(t) for t in terms)))
    inputs = (*structure.states, time.name)
    return compile_expressions((*totals, *sizes), inputs, structure.parameters, structure.steps)


def _refuse_unconserved(model: Model, samples: Array, times: Array, values: Array, vector: Array) -> None:
    """Refuse to project a motion that changes an invariant.

    The equations or impacts of the motion (N, n) change a quantity that was declared as conserved.
    Projection would undo the damping or the drive of such a model without a warning.
    """
    columns, count = np.ascontiguousarray(samples.T), values.size
    ratio = np.zeros(count)
    if not model.structure.signals:
        power, size = np.split(_powers(model.structure)(np.vstack([columns, times]), vector), 2)
        ratio = np.sum(np.abs(power), axis=1) / np.maximum(np.sum(size, axis=1), 1e-300)
    drift = np.zeros(count)
    if model.structure.signals or model.structure.impacts:  # else dΘ/dt is enough, in any units
        functions, _, sizes = _compiled(model.structure)
        drift = np.abs(functions(columns, vector) - values[:, None])
        drift = np.max(drift / np.maximum(np.maximum(np.abs(values)[:, None], sizes(columns, vector)), 1e-300), axis=1)
    for k, name in enumerate(model.invariants):
        if ratio[k] > LARGEST_POWER or drift[k] > LARGEST_DRIFT:
            how = f"d{name}/dt is {ratio[k]:.3g} of the sum of its terms" if ratio[k] > LARGEST_POWER else ""
            how = how or f"it changes by {drift[k]:.3g} of its largest term within {np.ptp(times):.3g} s"
            raise ModelError(
                f'Model "{model.name}" declares the invariant "{name}" but does not conserve it: {how}. Simulating '
                f"it would project the damping, drive or impacts away. Take it out of {Give('invariants')} (a fit of "
                f"its balance takes it as {Fit('invariant', objective='balance', invariant=...)}), or set what "
                "changes it to zero."
            )


def _require_invariants(model: Model) -> None:
    if not model.invariants:
        raise ModelError(
            f'Model "{model.name}" declares no invariants; give them as {Give(invariants={"energy": ...})} to '
            "project onto."
        )
