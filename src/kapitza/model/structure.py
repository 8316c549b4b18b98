"""The structure of a model.

First-order rates, mass matrix and switches follow from the equations alone.

Residuals g(u, u', u'', t, θ) = 0, linear in the highest derivative w of each coordinate, read M w + h = 0. The rates of
the states (all coordinates, then the rates of the second-order ones) follow from w = -M⁻¹ h.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

from kapitza.base.arrays import Array
from kapitza.errors import ModelError
from kapitza.model.accelerations import highest_derivatives, read_derivatives
from kapitza.model.delays import is_delayed
from kapitza.model.elimination import Block, Elimination, Step, blocks_of, eliminate
from kapitza.model.harmonics import gathered
from kapitza.model.mass import SINGULAR, MassFunction, is_definite, refuse_singular, singular
from kapitza.model.parts import Coordinate, Impact, Parameter
from kapitza.model.removable import without_removable_poles
from kapitza.model.switches import NONSMOOTH, Switch, split_program
from kapitza.model.symbols import Expression, derivative, rate, symbol, time, vanishes

if TYPE_CHECKING:
    from kapitza.model.model import Model

LARGEST_WRITTEN_OUT = 2
"""Blocks of the mass matrix up to this size are inverted by minors: only the determinant appears below the line.

Larger ones are eliminated step by step: written out, the expressions of a linkage grow sevenfold with every link.
"""

LARGEST_DERIVED = 2000
"""Operations of a derived parameter, written out in independent ones, up to which it is. A chain of such parameters may
double them at every level; what is longer stays a named step."""


@dataclass(frozen=True, eq=False)
class Structure:
    """Everything that follows from the equations alone.

    It does not depend on values of parameters.

    states: names; parameters: names of the independent ones; signals: names of measured excitations.
    rates: right-hand side of each state (for maps the new value), in states, t, parameters, signals and steps.
    steps: named intermediate results of a large mass matrix, or long derived parameters, in the order in which they are
    evaluated; none where everything can be written out. Whoever differentiates rates must go through the steps:
    `compile_derivatives`.
    elimination: what the steps are, None where there are none.
    mass_matrix: M (n, n) and rest: h (n,), with M w + h = 0 for the highest derivatives w (empty for maps).
    impacts, outputs, invariants: of the model, without derived parameters; highest derivatives in outputs are replaced.
    """

    states: tuple[str, ...]
    parameters: tuple[str, ...]
    signals: tuple[str, ...]
    rates: tuple[Expression, ...]
    steps: tuple[Step, ...]
    elimination: Elimination | None
    mass_matrix: sp.ImmutableMatrix
    rest: tuple[Expression, ...]
    impacts: tuple[Impact, ...]
    outputs: Mapping[str, Expression]
    invariants: Mapping[str, Expression]
    source: tuple[object, ...] = field(repr=False)

    def __getstate__(self) -> dict[str, object]:
        # Compiled functions and their locks do not travel to other processes; there they are made again.
        kept = {f.name for f in fields(self)} | {"key"}
        return {name: value for name, value in self.__dict__.items() if name in kept}

    @cached_property
    def key(self) -> str:
        """Return a text that identifies the structure.

        It is equal for equal structures, in any process.
        """
        return hashlib.sha256(sp.srepr(self.source).encode()).hexdigest()

    @cached_property
    def _split(self) -> tuple[tuple[Switch, ...], tuple[Step, ...], tuple[Expression, ...]]:
        signals = [symbol(s) for s in self.signals]
        # A past value moves, and it may be constant for a while, as in a history at rest.
        expressions = (*(e for _, e in self.steps), *self.rates)
        past = {s for e in expressions for s in e.free_symbols if is_delayed(s)}
        moving = [time, *(symbol(s) for s in self.states), *signals, *past]
        return split_program(self.steps, self.rates, moving, (*signals, *past))

    @property
    def switches(self) -> tuple[Switch, ...]:
        """Return the switching functions of the rates.

        Their order is fixed.
        """
        return self._split[0]

    @property
    def smooth_steps(self) -> tuple[Step, ...]:
        """Return the steps with mode symbols."""
        return self._split[1]

    @property
    def smooth_rates(self) -> tuple[Expression, ...]:
        """Return the rates with mode symbols.

        The modes of the switches replace sign, Abs, Heaviside, Max, Min and Piecewise.
        """
        return self._split[2]

    @cached_property
    def accelerations(self) -> Mapping[sp.Symbol, Expression]:
        """Return the highest derivatives as sensors read them, in states and steps.

        They are x'' of the equations, also where friction holds. Empty for maps.
        """
        if not self.mass_matrix.rows:
            return {}
        if self.steps:
            return highest_derivatives(self.states, self.rates)
        past = {s for e in self.rates for s in e.free_symbols if is_delayed(s)}
        signals = {*past, *map(symbol, self.signals)}
        return read_derivatives(self.states, self.rates, self.switches, self.smooth_rates, signals)

    @cached_property
    def is_autonomous(self) -> bool:
        """Return whether the rates hold neither time nor signals."""
        moving = {time, *(symbol(s) for s in self.signals)}
        expressions = (*(e for _, e in self.steps), *self.rates, *(i.surface for i in self.impacts))
        return not any(moving & e.free_symbols for e in expressions)

    @cached_property
    def _mass(self) -> MassFunction:
        variables = (*self.states, *self.signals, time.name)
        return MassFunction(self.mass_matrix, variables, self.parameters)

    def check_mass(self, values: Mapping[str, float]) -> None:
        """Refuse parameter values with a singular mass matrix.

        It is refused when it is singular at every one of a few states.
        """
        if not self._mass.used:
            return
        vector = np.array([values[n] for n in self.parameters])
        if np.isnan(vector).any():
            return
        matrices = self._mass(vector)
        if not np.isfinite(matrices).all():
            self._refuse_mass(values, "has entries that are not finite")
        scale = np.abs(matrices).max(axis=2, keepdims=True)
        scaled = matrices / np.where(scale > 0, scale, 1.0)
        if (np.linalg.cond(scaled) > SINGULAR).all():
            self._refuse_mass(values, "is singular")

    def suits(self, vector: Array) -> bool:
        """Return whether the steps suit these parameter values.

        False where the steps rely on a definite mass matrix and it is not definite at one of a few states.

        vector: values of the independent parameters.
        """
        if self.elimination is None or not self.needs_definite_mass:
            return True
        return is_definite(self._mass(vector), self.elimination.blocks)

    @property
    def needs_definite_mass(self) -> bool:
        """Return whether the steps need a definite mass matrix."""
        return self.elimination is not None and self.elimination.is_definite

    @property
    def mass_parameters(self) -> tuple[int, ...]:
        """Return the independent parameters in the mass matrix.

        They are given by their numbers.
        """
        return tuple(i for i, name in enumerate(self.parameters) if name in self._mass.used)

    def _refuse_mass(self, values: Mapping[str, float], what: str) -> None:
        shown = ", ".join(f"{name} = {values[name]:g}" for name in sorted(self._mass.used))
        raise ModelError(
            f"The mass matrix {what} at {shown}: the accelerations are not determined. "
            "Give masses and inertias values that are not zero."
        )


def structure_of(model: Model) -> Structure:
    """Return the structure of a model.

    Models that differ in values only share one object.
    """
    derived, long = solve_derived(model.parameters)
    signals = tuple(s.name for s in model.signals)
    impacts = tuple(
        replace(i, surface=i.surface.xreplace(derived), reset={k: e.xreplace(derived) for k, e in i.reset.items()})
        for i in model.impacts
    )
    coordinates = tuple((c.name, c.order) for c in model.coordinates)
    equations = tuple(without_removable_poles(e.xreplace(derived)) for e in model.equations)
    if long:
        _refuse_long(model, equations, long)
    definite = False
    if not model.is_map:
        matter = _matter(coordinates, equations)
        if _is_large(matter):
            variables = (*states_of(model.coordinates), *signals, time.name)
            # A value that is still to be given counts as 1; `suits` looks again when it is.
            values = np.nan_to_num([model.values[n] for n in model.names], nan=1.0)
            definite = is_definite(MassFunction(matter.mass, variables, model.names)(values), matter.blocks)
    return _analyse(
        coordinates,
        equations,
        model.names,
        signals,
        tuple((i.name, i.surface, tuple(sorted(i.reset.items()))) for i in impacts),
        tuple((name, e.xreplace(derived)) for name, e in model.outputs.items()),
        tuple((name, e.xreplace(derived)) for name, e in model.invariants.items()),
        model.is_map,
        definite,
        long,
    )


def derived_in_base(model: Model) -> dict[sp.Symbol, Expression]:
    """Return the derived parameters in independent ones.

    Expressions that are too long are refused.
    """
    written, long = solve_derived(model.parameters)
    if long:
        raise too_long(long)
    return written


def in_base(model: Model, expression: Expression) -> Expression:
    """Return an expression in independent parameters.

    Refused where it needs a derived parameter that is too long.
    """
    written, long = solve_derived(model.parameters)
    used = [step for step in long if step[0] in expression.free_symbols]
    if used:
        raise too_long(used)
    return expression.xreplace(written)


def too_long(long: Iterable[Step]) -> ModelError:
    """Return the error of derived parameters that stay steps."""
    names = ", ".join(s.name for s, _ in list(long)[:3])
    return ModelError(
        f"The derived parameters {names} have more than {LARGEST_DERIVED} operations, written out in independent ones; "
        "that is too long here. Give a parameter in the middle of the chain a value of its own."
    )


def _refuse_long(model: Model, equations: tuple[Expression, ...], long: tuple[Step, ...]) -> None:
    """Refuse long derived parameters where steps cannot be used.

    Their steps need smooth equations and a short mass matrix that does not hold them.
    """
    rough = any(e.has(*NONSMOOTH) for e in (*equations, *(e for _, e in long)))
    if rough or model.impacts or model.delays:
        raise too_long(long)
    if not model.is_map:
        matter = _matter(tuple((c.name, c.order) for c in model.coordinates), equations)
        if _is_large(matter) or not matter.mass.free_symbols.isdisjoint(s for s, _ in long):
            raise too_long(long)


def solve_derived(parameters: Iterable[Parameter]) -> tuple[dict[sp.Symbol, Expression], tuple[Step, ...]]:
    """Return the derived parameters in independent ones, and steps.

    Derived parameters that are too long become steps, in their order.

    A step is written in independent parameters and earlier steps.
    """
    remaining = {symbol(p.name): p.expression for p in parameters if p.expression is not None}
    solved: dict[sp.Symbol, Expression] = {}
    long: list[Step] = []
    while remaining:
        ready = [s for s, e in remaining.items() if not e.free_symbols & remaining.keys()]
        if not ready:
            names = ", ".join(sorted(s.name for s in remaining))
            raise ModelError(
                f"The derived parameters {names} are defined by each other in a circle; give one of them a value."
            )
        for s in ready:
            expression = remaining.pop(s)
            size = _operations(expression, solved)
            if size > LARGEST_DERIVED or not expression.free_symbols.isdisjoint(name for name, _ in long):
                long.append((s, expression.xreplace(solved)))
            else:
                solved[s] = expression.xreplace(solved)
    return solved, tuple(long)


def _operations(expression: Expression, solved: Mapping[sp.Symbol, Expression]) -> int:
    """Return the nodes of an expression written out.

    The solved symbols in it are replaced; the nodes are those of the tree.
    """
    return sum(
        sum(1 for _ in sp.preorder_traversal(solved[node])) if isinstance(node, sp.Symbol) and node in solved else 1
        for node in sp.preorder_traversal(expression)
    )


@dataclass(frozen=True)
class _Matter:
    """Mass matrix, rest and blocks of some equations.

    The blocks are those in which the equations are solved.
    """

    mass: sp.ImmutableMatrix
    rest: tuple[Expression, ...]
    blocks: tuple[Block, ...]


@lru_cache(maxsize=256)
def _matter(coordinates: tuple[tuple[str, int], ...], equations: tuple[Expression, ...]) -> _Matter:
    tops = [rate(name, order) for name, order in coordinates]
    mass, rest = _mass_and_rest(tops, equations)
    return _Matter(mass, rest, blocks_of(mass, tops))


def _is_large(matter: _Matter) -> bool:
    return any(len(block.rows) > LARGEST_WRITTEN_OUT for block in matter.blocks)


Named = tuple[tuple[str, Expression], ...]
"""Expressions with their names; unlike a dictionary it can be a key of a cache."""


@lru_cache(maxsize=256)
def _analyse(
    coordinates: tuple[tuple[str, int], ...],
    equations: tuple[Expression, ...],
    parameters: tuple[str, ...],
    signals: tuple[str, ...],
    impacts: tuple[tuple[str, Expression, Named], ...],
    outputs: Named,
    invariants: Named,
    is_map: bool,
    definite: bool,
    long: tuple[Step, ...],
) -> Structure:
    described = tuple(Coordinate(name, order) for name, order in coordinates)
    states = states_of(described)
    elimination, steps = None, long
    tops: dict[sp.Symbol, Expression] = {}
    if is_map:
        mass, rest, rates = sp.ImmutableMatrix(0, 0, []), (), equations
    else:
        matter = _matter(coordinates, equations)
        mass, rest = matter.mass, matter.rest
        symbols = [rate(name, order) for name, order in coordinates]
        if _is_large(matter):
            refuse_singular(mass, matter.blocks, symbols)
            positions = [symbol(c.name) for c in described]
            moving = [time, *(symbol(s) for s in (*states, *signals))]
            elimination, steps = eliminate(
                mass, rest, matter.blocks, definite, lambda given, naming: gathered(given, moving, positions, naming)
            )
            tops = dict(zip(symbols, elimination.tops, strict=True))
        else:
            tops = _written_out(symbols, matter)
        rates = tuple(rate(c.name) if c.order == 2 else tops[rate(c.name)] for c in described)
        rates += tuple(tops[rate(c.name, 2)] for c in described if c.order == 2)
    structure = Structure(
        states=states,
        parameters=parameters,
        signals=signals,
        rates=rates,
        steps=steps,
        elimination=elimination,
        mass_matrix=mass,
        rest=rest,
        impacts=tuple(Impact(surface, dict(reset), name) for name, surface, reset in impacts),
        outputs=dict(outputs),
        invariants=dict(invariants),
        source=(
            coordinates,
            equations,
            parameters,
            signals,
            impacts,
            outputs,
            invariants,
            is_map,
            *((long,) if long else ()),
        ),
    )
    if tops.keys().isdisjoint(s for _, e in outputs for s in e.free_symbols):
        return structure
    return replace(structure, outputs={name: e.xreplace(dict(structure.accelerations)) for name, e in outputs})


def states_of(coordinates: tuple[Coordinate, ...]) -> tuple[str, ...]:
    """Return the names of the states.

    All coordinates come first, then the rates of the second-order ones.
    """
    return (*(c.name for c in coordinates), *(rate(c.name).name for c in coordinates if c.order == 2))


def _mass_and_rest(
    tops: list[sp.Symbol], equations: tuple[Expression, ...]
) -> tuple[sp.ImmutableMatrix, tuple[Expression, ...]]:
    place = {top: j for j, top in enumerate(tops)}
    entries: dict[tuple[int, int], Expression] = {}
    rest: list[Expression] = []
    for i, equation in enumerate(equations):
        coefficients, remainder = _linear_parts(equation, place.keys())
        for top, entry in coefficients.items():
            if not entry.free_symbols.isdisjoint(place):
                raise ModelError(
                    f"Equation {i + 1} is not linear in {top.name} (its coefficient is {entry}): solve it for the "
                    "highest derivatives first."
                )
            entries[i, place[top]] = entry
        rest.append(remainder)
    size = len(tops)
    flat = [entries.get((i, j), sp.Integer(0)) for i in range(size) for j in range(size)]
    return sp.ImmutableMatrix(size, size, flat), tuple(rest)


def _linear_parts(equation: Expression, tops: Iterable[sp.Symbol]) -> tuple[dict[sp.Symbol, Expression], Expression]:
    """Return the coefficients of highest derivatives, and the rest.

    Both are gathered term by term.
    """
    tops = set(tops)
    gathered: dict[sp.Symbol, list[Expression]] = {}
    rest: list[Expression] = []
    for term in sp.Add.make_args(equation):
        present = term.free_symbols & tops
        if not present:
            rest.append(term)
            continue
        factors = sp.Mul.make_args(term)
        bare = [f for f in factors if isinstance(f, sp.Symbol) and f in tops]
        if len(present) == 1 and len(bare) == 1 and sum(1 for f in factors if f.free_symbols & present) == 1:
            gathered.setdefault(bare[0], []).append(sp.Mul(*[f for f in factors if f is not bare[0]]))
            continue
        for top in present:
            gathered.setdefault(top, []).append(derivative(term, top))
        rest.append(term.xreplace(dict.fromkeys(present, sp.Integer(0))))
    return {top: sp.Add(*gathered[top]) for top in sorted(gathered, key=lambda s: s.name)}, sp.Add(*rest)


def _written_out(tops: list[sp.Symbol], matter: _Matter) -> dict[sp.Symbol, Expression]:
    """Solve for the highest derivatives by minors.

    M w = -h is solved block by block, in the order in which the blocks depend on each other.
    """
    mass, size = matter.mass, len(tops)
    flat = mass.flat()
    solved: dict[int, Expression] = {}
    for block in matter.blocks:
        right = [
            -matter.rest[i]
            - sum((flat[i * size + j] * solved[j] for j in solved if flat[i * size + j] != 0), sp.Integer(0))
            for i in block.rows
        ]
        inner = mass.extract(list(block.rows), list(block.columns))
        names = [tops[j].name for j in block.columns]
        for j, expression in zip(block.columns, _solve_block(inner, right, names), strict=True):
            solved[j] = expression
    return {top: solved[j] for j, top in enumerate(tops)}


def _solve_block(matrix: sp.ImmutableMatrix, right: list[Expression], names: list[str]) -> list[Expression]:
    if matrix.rows == 1:
        return [right[0] / matrix[0, 0]]
    determinant = matrix.det(method="berkowitz")
    if vanishes(determinant):
        raise singular(names)
    return [e / determinant for e in matrix.adjugate() * sp.Matrix(right)]
