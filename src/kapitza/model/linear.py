"""Linear parts of a model.

Equations that are linear in some parameters, and the motion near an equilibrium.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kapitza.base.arrays import Array
from kapitza.base.cures import Do
from kapitza.errors import ModelError
from kapitza.model.compiled import compile_derivatives, compile_expressions
from kapitza.model.structure import derived_in_base
from kapitza.model.symbols import Expression, symbol, time
from kapitza.solve import eigenvalues

if TYPE_CHECKING:
    from kapitza.model.model import Model

PHASES = 1024
"""Instants of one excitation period over which the linearisation is averaged; the mean of a smooth periodic function
over an even grid converges faster than any power."""


def linear_terms(model: Model, free: Iterable[str]) -> list[tuple[Expression, dict[str, Expression]]]:
    """See `Model.linear_terms`."""
    free = list(free)
    chosen = _symbols(model, free)
    result: list[tuple[Expression, dict[str, Expression]]] = []
    for number, equation in enumerate(_kept_equations(model, free), start=1):
        coefficients: dict[str, Expression] = {}
        for name, s in zip(free, chosen, strict=True):
            coefficient = sp.diff(equation, s)
            if coefficient.free_symbols & set(chosen):
                raise _not_linear(number, equation, s, chosen)
            if coefficient != 0:
                coefficients[name] = coefficient
        result.append((equation.xreplace(dict.fromkeys(chosen, sp.Integer(0))), coefficients))
    return result


def linear_combinations(model: Model, free: Iterable[str]) -> list[tuple[Expression, dict[Expression, Expression]]]:
    """See `Model.linear_combinations`."""
    free = list(free)
    chosen = _symbols(model, free)
    constants = {symbol(p.name) for p in model.parameters}
    return [
        combinations_of(number, equation, chosen, constants)
        for number, equation in enumerate(_kept_equations(model, free), start=1)
    ]


def combinations_of(
    number: int, equation: Expression, chosen: list[sp.Symbol], constants: set[sp.Symbol]
) -> tuple[Expression, dict[Expression, Expression]]:
    """Return an equation as rest + Σ c·coefficient.

    c: products and powers of the chosen parameters. number: of the equation, for messages.
    """
    rest: list[Expression] = []
    groups: dict[Expression, list[Expression]] = {}
    for term in _terms(equation):
        coefficient, combination = term.as_independent(*chosen, as_Add=False)
        if combination == 1:
            rest.append(coefficient)
        elif combination.free_symbols <= constants:
            groups.setdefault(combination, []).append(coefficient)
        else:
            names = ", ".join(s.name for s in chosen if s in combination.free_symbols)
            raise ModelError(
                f"Equation {number}: in the term {term} the motion and {names} do not separate into a product; "
                f"keep {names} fixed or use a method that integrates the equations."
            )
    return sp.Add(*rest), {c: sp.Add(*groups[c]) for c in sorted(groups, key=sp.sstr)}


def _symbols(model: Model, free: list[str]) -> list[sp.Symbol]:
    return [symbol(model.parameter(name).name) for name in free]


def _kept_equations(model: Model, free: list[str]) -> list[Expression]:
    """Return the residuals with derived parameters replaced.

    Those named in `free` stay symbols.
    """
    kept = {symbol(name) for name in free}
    own = {symbol(p.name): p.expression for p in model.parameters if p.expression is not None}
    order = [s for s in derived_in_base(model) if s not in kept]
    solved: dict[sp.Symbol, Expression] = {}
    for s in order:
        solved[s] = own[s].xreplace(solved)
    return [equation.xreplace(solved) for equation in model.equations]


def _terms(expression: Expression) -> list[Expression]:
    """Return the additive terms of an expression, multiplied out.

    Products and powers of sums are multiplied out, but nothing inside functions or roots.
    """
    expanded = sp.expand(
        expression, deep=False, mul=True, multinomial=True, power_base=False, power_exp=False, log=False, basic=False
    )
    parts = sp.Add.make_args(expanded)
    return [expanded] if parts == (expression,) else [term for part in parts for term in _terms(part)]


def _not_linear(number: int, equation: Expression, culprit: sp.Symbol, chosen: list[sp.Symbol]) -> ModelError:
    shown = next((t for t in _terms(equation) if sp.diff(t, culprit).free_symbols & set(chosen)), equation)
    partners = sorted(s.name for s in shown.free_symbols & set(chosen) if s != culprit)
    together = f" together with {', '.join(partners)}" if partners else ""
    return ModelError(
        f'Equation {number} is not linear in "{culprit.name}"{together}: see the term {shown}. Free fewer '
        "parameters, or write the model in the combinations that occur (a derived parameter may be freed in place of "
        "its sources)."
    )


@dataclass(frozen=True)
class Linearisation:
    """The linear motion about a state.

    It obeys x' = A x, with A averaged over one period of the excitation.

    state: (n,); matrix: A (n, n); eigenvalues: (n,), by growing frequency.
    frequencies: (k,) natural (undamped) angular frequencies |λ| of the oscillating pairs;
    damping_ratios: (k,) -Re λ/|λ|.
    Dry friction and other jumps at the state itself are left out.
    """

    state: Array
    matrix: Array
    eigenvalues: NDArray[np.complex128]
    frequencies: Array
    damping_ratios: Array


def linearise(model: Model, at: Mapping[str, float] | None) -> Linearisation:
    """See `Model.linearise`."""
    rates, jacobian = _averages(model)
    state = model.state(at)
    residual = rates(state)
    # 1e-300 keeps the quotient below finite where the Jacobian is zero.
    scale = np.abs(jacobian(state)).sum(axis=1) * max(1.0, float(np.abs(state).max(initial=0.0))) + 1e-300
    if (np.abs(residual) > 1e-6 * scale).any():
        worst = int(np.argmax(np.abs(residual) / scale))
        raise ModelError(
            f'Model "{model.name}" is not at rest at {dict(zip(model.states, state.tolist(), strict=True))}: the mean '
            f"rate of {model.states[worst]} is {residual[worst]:.3g}. Use "
            f"{Do('model.linearise(model.equilibrium(near))', 'a start nearer to its equilibrium')}."
        )
    matrix = jacobian(state)
    found = eigenvalues(matrix)[::-1]
    pairs = found[found.imag > 0]
    frequencies = np.abs(pairs)
    return Linearisation(state, matrix, found, frequencies, -pairs.real / frequencies)


def equilibrium(model: Model, near: Mapping[str, float] | None) -> dict[str, float]:
    """See `Model.equilibrium`."""
    rates, jacobian = _averages(model)
    start = model.state(near)
    from scipy.optimize import root

    # Powell's hybrid method converges from starts at which full Newton steps diverge.
    found = root(rates, start, jac=jacobian, method="hybr", tol=1e-13)
    residual = float(np.abs(rates(found.x)).max())
    scale = float(np.abs(jacobian(found.x)).max()) * max(1.0, float(np.abs(found.x).max())) + 1e-300
    if not residual < 1e-8 * scale:
        raise ModelError(
            f'Model "{model.name}": no equilibrium found from {dict(zip(model.states, start.tolist(), strict=True))} '
            f"(mean rates up to {residual:.3g} remain); start nearer to one."
        )
    return {name: float(value) for name, value in zip(model.states, found.x, strict=True)}


def _averages(model: Model) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """Return the mean rates and their mean Jacobian.

    Both are functions of the state, averaged over one excitation period: (n,) and (n, n).
    """
    if model.is_map:
        raise ModelError(f'Model "{model.name}" is a map; its linearisation is the Jacobian of one step.')
    if model.delays:
        raise ModelError(
            f'Model "{model.name}" has delays ({model.delays[0].symbol.name}): its state is a piece of its past, which '
            "has no equilibrium or linearisation by the present state. Leave out the delay, or simulate it."
        )
    structure = model.structure
    signals = model.signals
    modes = [switch.mode for switch in structure.switches]
    moving = [*(symbol(s) for s in structure.states), *(symbol(s) for s in structure.signals), time]
    parameters = [symbol(name) for name in structure.parameters]
    size, vector = len(structure.states), model.vector
    surfaces = [
        compile_expressions([switch.function], [*moving, *modes[:k]], parameters)
        for k, switch in enumerate(structure.switches)
    ]
    evaluate = compile_derivatives(
        structure.smooth_rates,
        structure.states,
        [*moving, *modes],
        parameters,
        structure.smooth_steps,
        structure.elimination,
    )
    period = model.period
    times = np.zeros(1) if period is None else period * np.arange(PHASES) / PHASES
    if period is None and signals:
        # Over a measured drive that does not repeat: the mean over all of it.
        times = np.linspace(*model.reach, PHASES)
    driven = [signal(times) for signal in signals]

    def mean(state: Array) -> Array:
        columns = [np.broadcast_to(state[:, None], (size, times.size)), *(d[None] for d in driven), times[None]]
        values = np.concatenate(columns)
        for surface in surfaces:
            distance = surface(values, vector)
            # On the surface itself the two sides are averaged (mode 0).
            values = np.concatenate([values, np.where(np.abs(distance) < 1e-9, 0.0, np.sign(distance))])
        return evaluate(values, vector).mean(axis=1)

    def rates(state: Array) -> Array:
        return mean(np.asarray(state))[:size]

    def jacobian(state: Array) -> Array:
        return mean(np.asarray(state))[size:].reshape(size, size)

    return rates, jacobian
