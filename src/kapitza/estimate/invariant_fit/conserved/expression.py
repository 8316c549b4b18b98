"""Conserved quantity split into features and coefficients.

It consists of functions of the state, and coefficients that hold the parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache

import numpy as np
import sympy as sp

from kapitza.base.arrays import Array
from kapitza.base.cures import Code, Do, Fit
from kapitza.errors import ModelError, nearest_name
from kapitza.model import Model, compile_expressions, parse_expression, symbol


def declared_invariant(model: Model, wanted: str | sp.Expr | None) -> tuple[str, sp.Expr]:
    """Return name and expression of the invariant.

    Derived parameters are written out.
    wanted: the name of a declared invariant, or an expression (text or SymPy) in states and parameters.
    """
    known = dict(model.invariants)
    if isinstance(wanted, sp.Expr):
        return "invariant", _written_out(model, wanted)
    if wanted is not None and not isinstance(wanted, str):
        raise ModelError(f"{Fit('invariant', invariant=wanted)}: give the name of an invariant, or an expression.")
    # A text that is not a name is an expression.
    if wanted is not None and wanted not in known and not wanted.isidentifier():
        names = {*model.states, *(p.name for p in model.parameters)}
        return "energy", _written_out(model, parse_expression(wanted, names))
    if not known:
        raise ModelError(
            f'The model "{model.name}" declares no invariant: pass '
            f"{Fit('invariant', invariant=Code('expression'))}, or build the model with "
            f"{Do('Model.from_hamiltonian', 'invariants = {...}')}."
        )
    if wanted is None:
        if len(known) > 1 and "energy" not in known:
            raise ModelError(
                f"The model has the invariants {', '.join(known)}: say which with {Fit('invariant', invariant=...)}."
            )
        wanted = "energy" if "energy" in known else next(iter(known))
    if wanted not in known:
        raise ModelError(f'No invariant "{wanted}"; the model has {", ".join(known)}.{nearest_name(wanted, known)}')
    return wanted, _written_out(model, known[wanted])


def _written_out(model: Model, expression: sp.Expr) -> sp.Expr:
    derived = {symbol(p.name): p.expression for p in model.parameters if p.expression is not None}
    for _ in range(len(derived)):
        expression = sp.expand(expression.xreplace(derived), deep=False)
    return expression


@dataclass(frozen=True)
class Form:
    """Conserved quantity H(z; θ) = Σ_k c_k(θ) φ_k(z).

    Where no such split exists, it is the local one H + Σ_j δ_j ∂H/∂θ_j. variables: names of the states in H. free:
    the parameters θ. values: all parameters by name. features: φ_k; coefficients: c_k; separable: whether φ is free
    of θ (then one pass over the data serves every θ).
    """

    expression: sp.Expr
    variables: tuple[str, ...]
    free: tuple[str, ...]
    values: Mapping[str, float]
    features: tuple[sp.Expr, ...]
    coefficients: tuple[sp.Expr, ...]
    separable: bool

    def __getstate__(self) -> dict[str, object]:
        """Leave out compiled functions, which cannot be pickled."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def parameters(self, theta: Array) -> Array:
        """Return all parameters, the free ones at `theta` (k,).

        They are in the order of `values`.
        """
        replaced = dict(self.values) | dict(zip(self.free, theta, strict=True))
        return np.array([replaced[n] for n in self.values])

    @cached_property
    def _coefficient_functions(self):
        first = _derivatives(self.coefficients, self.free)
        return compile_expressions((*self.coefficients, *first), (), tuple(self.values))

    def local(self, theta: Array) -> tuple[Array, Array]:
        """Return coefficients c (K,) and derivatives C (K, k).

        Both are evaluated at `theta`.
        """
        count, k = len(self.features), len(self.free)
        if not self.separable:
            return np.eye(count)[0], np.eye(count)[:, 1:]
        every = self._coefficient_functions(np.empty((0, 1)), self.parameters(theta))[:, 0]
        return every[:count], every[count:].reshape(count, k)

    def coefficients_of(self, thetas: Array) -> Array:
        """Return the coefficients of several parameter sets.

        They are (K, M) for M parameter sets (k, M).
        """
        table = np.tile(np.array(list(self.values.values()))[:, None], (1, thetas.shape[1]))
        table[[list(self.values).index(n) for n in self.free]] = thetas
        return self._coefficient_functions(np.empty((0, thetas.shape[1])), table)[: len(self.features)]

    @cached_property
    def _point_functions(self):
        slopes = _derivatives((self.expression,), self.variables + self.free)
        return compile_expressions((self.expression, *slopes), self.variables, tuple(self.values))

    def at(self, states: Array, theta: Array) -> tuple[Array, Array, Array]:
        """Return H and its derivatives at states (d, N).

        It returns H (N,), ∂H/∂z (d, N) and ∂H/∂θ (k, N).
        """
        d = len(self.variables)
        every = self._point_functions(states, self.parameters(theta))
        return every[0], every[1 : 1 + d], every[1 + d :]


@lru_cache(maxsize=128)
def _derivatives(expressions: tuple[sp.Expr, ...], names: tuple[str, ...]) -> tuple[sp.Expr, ...]:
    return tuple(sp.diff(e, symbol(n)) for e in expressions for n in names)


def make_form(expression: sp.Expr, variables: Sequence[str], free: Sequence[str], values: Mapping[str, float]) -> Form:
    """Split `expression` into features and coefficients.

    The coefficients hold the free parameters.
    """
    free_symbols, state = {symbol(n) for n in free}, tuple(symbol(n) for n in variables)
    unknown = expression.free_symbols - set(state) - {symbol(n) for n in values}
    if unknown:
        names = ", ".join(sorted(str(s) for s in unknown))
        raise ModelError(f"The invariant contains {names}, neither a state nor a parameter of the model.")
    used = tuple(n for n in values if symbol(n) in expression.free_symbols and n not in variables)
    features, coefficients = _split(expression, state)
    separable = not any(f.free_symbols & free_symbols for f in features)
    if not separable:
        # The features depend on θ then, and the moments are formed again at every θ.
        features = (expression, *(sp.diff(expression, symbol(n)) for n in free))
        coefficients = tuple(sp.Integer(i == 0) for i in range(len(features)))
    return Form(
        expression,
        tuple(variables),
        tuple(free),
        {n: float(values[n]) for n in used},
        features,
        coefficients,
        separable,
    )


@lru_cache(maxsize=128)
def _split(expression: sp.Expr, state: tuple[sp.Symbol, ...]) -> tuple[tuple[sp.Expr, ...], tuple[sp.Expr, ...]]:
    """Return the features and coefficients of an expression.

    Terms of the expanded expression, merged where their coefficients differ by a number only.
    """
    collected: dict[sp.Expr, sp.Expr] = {}
    for term in sp.Add.make_args(sp.expand(expression)):
        coefficient, feature = term.as_independent(*state, as_Add=False)
        if feature != 1:  # a constant is the same on every level set
            collected[feature] = collected.get(feature, sp.Integer(0)) + coefficient
    features: list[sp.Expr] = []
    coefficients: list[sp.Expr] = []
    for feature, coefficient in collected.items():
        for k, other in enumerate(coefficients):
            ratio = sp.cancel(coefficient / other)
            if ratio.is_number:
                features[k] += ratio * feature
                break
        else:
            features.append(feature)
            coefficients.append(coefficient)
    return tuple(features), tuple(coefficients)
