"""What follows from the equations alone: first-order rates, mass matrix, switches.

Residuals g(u, u', u'', t, θ) = 0, linear in the highest derivative w of each coordinate, read M w + h = 0. The rates of
the states (all coordinates, then the rates of the second-order ones) follow from w = -M⁻¹ h.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components, maximum_bipartite_matching

from kapitza.errors import ModelError
from kapitza.model.compiled import compile_expressions
from kapitza.model.parts import Coordinate, Impact
from kapitza.model.switches import Switch, split_switches
from kapitza.model.symbols import Expression, rate, symbol, time, vanishes

if TYPE_CHECKING:
    from kapitza.model.model import Model

LARGEST_ADJUGATE = 4
"""Blocks of the mass matrix up to this size are inverted by minors: only the determinant appears below the line."""


@dataclass(frozen=True, eq=False)
class Structure:
    """Everything that depends on the equations of a model but not on its values.

    states: names; parameters: names of the independent ones; signals: names of measured excitations.
    rates: right-hand side of each state (for maps the new value), in states, t, parameters and signals.
    mass_matrix: M (n, n) and rest: h (n,), with M w + h = 0 for the highest derivatives w (empty for maps).
    impacts, outputs, invariants: of the model, without derived parameters; highest derivatives in outputs are replaced.
    """

    states: tuple[str, ...]
    parameters: tuple[str, ...]
    signals: tuple[str, ...]
    rates: tuple[Expression, ...]
    mass_matrix: Expression
    rest: tuple[Expression, ...]
    impacts: tuple[Impact, ...]
    outputs: Mapping[str, Expression]
    invariants: Mapping[str, Expression]
    key: str

    @cached_property
    def _split(self) -> tuple[tuple[Switch, ...], tuple[Expression, ...]]:
        moving = [time, *(symbol(s) for s in (*self.states, *self.signals))]
        return split_switches(self.rates, moving)

    @property
    def switches(self) -> tuple[Switch, ...]:
        """Switching functions found in the rates, in a fixed order."""
        return self._split[0]

    @property
    def smooth_rates(self) -> tuple[Expression, ...]:
        """The rates with the mode symbols of the switches in place of sign, Abs, Heaviside, Max, Min, Piecewise."""
        return self._split[1]

    @cached_property
    def is_autonomous(self) -> bool:
        """True when neither time nor a signal occurs in the rates."""
        moving = {time, *(symbol(s) for s in self.signals)}
        expressions = (*self.rates, *(i.surface for i in self.impacts))
        return not any(moving & e.free_symbols for e in expressions)

    def check_mass(self, values: Mapping[str, float], coordinates: tuple[str, ...]) -> None:
        """Refuse parameter values at which the mass matrix is singular at every one of a few states."""
        variables = [symbol(s) for s in (*self.states, *self.signals)] + [time]
        used = self.mass_matrix.free_symbols - set(variables)
        if not used:
            return
        evaluate = compile_expressions(tuple(self.mass_matrix.flat()), variables, [symbol(n) for n in self.parameters])
        points = np.random.default_rng(0).uniform(-1.0, 1.0, (len(variables), 5))
        vector = np.array([values[n] for n in self.parameters])
        if np.isnan(vector).any():
            return
        size = len(coordinates)
        matrices = evaluate(points, vector).T.reshape(-1, size, size)
        if not np.isfinite(matrices).all():
            self._refuse_mass(used, values, "has entries that are not finite")
        scale = np.abs(matrices).max(axis=2, keepdims=True)
        scaled = matrices / np.where(scale > 0, scale, 1.0)
        if (np.linalg.cond(scaled) > 1e14).all():
            self._refuse_mass(used, values, "is singular")

    def _refuse_mass(self, used: set, values: Mapping[str, float], what: str) -> None:
        shown = ", ".join(f"{s.name} = {values[s.name]:g}" for s in sorted(used, key=lambda s: s.name))
        raise ModelError(
            f"The mass matrix {what} at {shown}: the accelerations are not determined. "
            "Give masses and inertias values that are not zero."
        )


def structure_of(model: Model) -> Structure:
    """The structure of a model; models that differ in values only share one object."""
    derived = derived_in_base(model)
    signals = tuple(s.name for s in model.excitation.signals) if model.excitation else ()
    impacts = tuple(
        replace(i, surface=i.surface.xreplace(derived), reset={k: e.xreplace(derived) for k, e in i.reset.items()})
        for i in model.impacts
    )
    return _analyse(
        tuple((c.name, c.order) for c in model.coordinates),
        tuple(e.xreplace(derived) for e in model.equations),
        model.names,
        signals,
        tuple((i.name, i.surface, tuple(sorted(i.reset.items()))) for i in impacts),
        tuple((name, e.xreplace(derived)) for name, e in model.outputs.items()),
        tuple((name, e.xreplace(derived)) for name, e in model.invariants.items()),
        model.is_map,
    )


def derived_in_base(model: Model) -> dict[sp.Symbol, Expression]:
    """Each derived parameter as an expression in independent ones."""
    remaining = {symbol(p.name): p.expression for p in model.parameters if p.expression is not None}
    solved: dict[sp.Symbol, Expression] = {}
    while remaining:
        ready = [s for s, e in remaining.items() if not e.free_symbols & remaining.keys()]
        if not ready:
            names = ", ".join(sorted(s.name for s in remaining))
            raise ModelError(
                f"The derived parameters {names} are defined by each other in a circle; give one of them a value."
            )
        for s in ready:
            solved[s] = remaining.pop(s).xreplace(solved)
    return solved


@lru_cache(maxsize=256)
def _analyse(coordinates, equations, parameters, signals, impacts, outputs, invariants, is_map) -> Structure:
    described = tuple(Coordinate(name, order) for name, order in coordinates)
    states = states_of(described)
    if is_map:
        mass, rest, rates, tops = sp.ImmutableMatrix(0, 0, []), (), equations, {}
    else:
        mass, rest = _mass_and_rest(described, equations)
        tops = _highest_derivatives(described, mass, rest)
        rates = tuple(rate(c.name) if c.order == 2 else tops[rate(c.name)] for c in described)
        rates += tuple(tops[rate(c.name, 2)] for c in described if c.order == 2)
    text = sp.srepr((coordinates, equations, parameters, signals, impacts, outputs, invariants, is_map))
    return Structure(
        states=states,
        parameters=parameters,
        signals=signals,
        rates=rates,
        mass_matrix=mass,
        rest=rest,
        impacts=tuple(Impact(surface, dict(reset), name) for name, surface, reset in impacts),
        outputs={name: e.xreplace(tops) for name, e in outputs},
        invariants=dict(invariants),
        key=hashlib.sha256(text.encode()).hexdigest(),
    )


def states_of(coordinates: tuple[Coordinate, ...]) -> tuple[str, ...]:
    """All coordinates, then the rates of the second-order ones."""
    return (*(c.name for c in coordinates), *(rate(c.name).name for c in coordinates if c.order == 2))


def _mass_and_rest(
    coordinates: tuple[Coordinate, ...], equations: tuple[Expression, ...]
) -> tuple[sp.ImmutableMatrix, tuple[Expression, ...]]:
    tops = [rate(c.name, c.order) for c in coordinates]
    rows = []
    for number, equation in enumerate(equations, start=1):
        row = [sp.diff(equation, top) for top in tops]
        for entry, top in zip(row, tops, strict=True):
            if entry.free_symbols & set(tops):
                raise ModelError(
                    f"Equation {number} is not linear in {top.name} (its coefficient is {entry}): solve it for the "
                    "highest derivatives first."
                )
        rows.append(row)
    rest = tuple(e.xreplace(dict.fromkeys(tops, sp.Integer(0))) for e in equations)
    return sp.ImmutableMatrix(rows), rest


def _highest_derivatives(
    coordinates: tuple[Coordinate, ...], mass: sp.ImmutableMatrix, rest: tuple[Expression, ...]
) -> dict[sp.Symbol, Expression]:
    """Solve M w = -h block by block, in the order in which the blocks depend on each other."""
    tops = [rate(c.name, c.order) for c in coordinates]
    solved: dict[sp.Symbol, Expression] = {}
    for rows, columns in _blocks(mass, tops):
        others = [j for j in range(len(tops)) if j not in columns]
        right = [
            -rest[i] - sum((mass[i, j] * solved[tops[j]] for j in others if mass[i, j] != 0), sp.Integer(0))
            for i in rows
        ]
        for j, expression in zip(
            columns, _solve_block(mass.extract(rows, columns), right, [tops[j] for j in columns]), strict=True
        ):
            solved[tops[j]] = expression
    return solved


def _blocks(mass: sp.ImmutableMatrix, tops: list[sp.Symbol]) -> list[tuple[list[int], list[int]]]:
    """Rows and columns of the diagonal blocks after sorting M to block-triangular form."""
    pattern = np.array([[entry != 0 for entry in mass.row(i)] for i in range(mass.rows)])
    row_of = maximum_bipartite_matching(csr_matrix(pattern), perm_type="row")
    unmatched = [top.name for top, row in zip(tops, row_of, strict=True) if row < 0]
    if unmatched:
        raise ModelError(
            f"The mass matrix is singular: no equation is left that determines {', '.join(unmatched)}. "
            "Give one independent equation per coordinate, each with a highest derivative."
        )
    count, label = connected_components(csr_matrix(pattern[row_of]), directed=True, connection="strong")
    members = [[int(j) for j in np.flatnonzero(label == k)] for k in range(count)]
    needs = [
        {int(label[j]) for c in columns for j in np.flatnonzero(pattern[row_of[c]])} - {k}
        for k, columns in enumerate(members)
    ]
    order: list[int] = []
    while len(order) < count:
        order += [k for k in range(count) if k not in order and needs[k] <= set(order)]
    return [([int(row_of[c]) for c in members[k]], members[k]) for k in order]


def _solve_block(matrix: Expression, right: list[Expression], tops: list[sp.Symbol]) -> list[Expression]:
    size = matrix.rows
    if size == 1:
        return [right[0] / matrix[0, 0]]
    determinant = matrix.det(method="berkowitz")
    if vanishes(determinant):
        raise ModelError(
            f"The mass matrix is singular: the equations for {', '.join(t.name for t in tops)} hold the same "
            "combination of highest derivatives. Replace one of them by an independent equation."
        )
    if size <= LARGEST_ADJUGATE:
        return [e / determinant for e in matrix.adjugate() * sp.Matrix(right)]
    return list(sp.Matrix(matrix).LUsolve(sp.Matrix(right)))
