"""Solution for the highest derivatives by named steps.

M w + h = 0 is solved by a straight-line program, without an inverse. Written out, w = -M⁻¹ h has seven times as many
terms for every further coordinate of a linked system. Here every pivot, factor and partial solution is a step with a
symbol of its own, so that the work grows as N³ and the code likewise.

    definite blocks:  M = L D Lᵀ,  w = -L⁻ᵀ D⁻¹ L⁻¹ h         no pivot is smaller than the smallest eigenvalue of M
    other blocks:     M = L Q with orthogonal rows of Q,  w = -Qᵀ (Q Qᵀ)⁻¹ L⁻¹ h     (Gram-Schmidt without roots)

The divisors of the second vanish only where M is singular, at one and a half times the cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import sympy as sp
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components, maximum_bipartite_matching

from kapitza.base.arrays import Array
from kapitza.errors import ModelError
from kapitza.model.symbols import Expression, symbol, vanishes

if TYPE_CHECKING:
    import heyoka as hy

Step = tuple[sp.Symbol, Expression]
"""A named intermediate result: its symbol and its expression in states, time, parameters and earlier steps."""

Arithmetic = TypeVar("Arithmetic", sp.Expr, "hy.expression")
"""Numbers of an elimination: expressions of SymPy, or those of compiled code."""

Value = Callable[[Expression], Arithmetic]
Keep = Callable[[Arithmetic], Arithmetic]


@dataclass(frozen=True)
class Block:
    """A diagonal block of the sorted mass matrix.

    M is sorted to block-triangular form. rows: equations; columns: highest derivatives.

    symmetric: rows, each times its sign, are in the order in which the block equals its transpose.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    signs: tuple[int, ...]
    symmetric: bool


@dataclass(frozen=True)
class Factors:
    """The factors L D R of one block.

    The block is one of M. lower: L below its diagonal of ones; divisors: D; right: R (None: Lᵀ).

    All entries are step symbols or numbers; 0 where nothing is.
    """

    lower: tuple[tuple[Expression, ...], ...]
    divisors: tuple[Expression, ...]
    right: tuple[tuple[Expression, ...], ...] | None

    def solve(self, given: Sequence[Arithmetic], value: Value[Arithmetic], keep: Keep[Arithmetic]) -> list[Arithmetic]:
        """Return the solution for one right-hand side.

        The arithmetic is that of the entries: value returns the value of an entry, keep names a result.
        """
        size = len(self.divisors)
        forward: list[Arithmetic] = []
        for i in range(size):
            rest = _less(given[i], [(self.lower[i][j], forward[j]) for j in range(i)], value)
            forward.append(keep(rest))
        scaled = [keep(y / value(d)) for y, d in zip(forward, self.divisors, strict=True)]
        if self.right is not None:
            rows = self.right
            return [
                keep(_total([value(rows[i][j]) * scaled[i] for i in range(size) if rows[i][j] != 0]))
                for j in range(size)
            ]
        result: dict[int, Arithmetic] = {}
        for i in reversed(range(size)):
            rest = _less(scaled[i], [(self.lower[j][i], result[j]) for j in range(i + 1, size)], value)
            result[i] = keep(rest)
        return [result[i] for i in range(size)]


@dataclass(frozen=True)
class Elimination:
    """The solution for the highest derivatives by elimination.

    It solves M w + h = 0. Entries and factors are symbols of `steps` or numbers.

    mass: M (n rows of n), rest: h (n); blocks with their factors, in the order in which they are solved; tops: the
    solution w. A substitution in the steps leaves all of these as they are.
    """

    mass: tuple[tuple[Expression, ...], ...]
    rest: tuple[Expression, ...]
    blocks: tuple[Block, ...]
    factors: tuple[Factors, ...]
    tops: tuple[Expression, ...]
    is_definite: bool

    def solve(self, given: Sequence[Arithmetic], value: Value[Arithmetic], keep: Keep[Arithmetic]) -> list[Arithmetic]:
        """Return the solution w, block by block.

        It solves M w = given. The arithmetic is that of the entries, see `Factors.solve`.
        """
        solution: dict[int, Arithmetic] = {}
        for block, factors in zip(self.blocks, self.factors, strict=True):
            known = sorted(solution)
            right = [
                sign * _less(given[i], [(self.mass[i][j], solution[j]) for j in known], value)
                for i, sign in zip(block.rows, block.signs, strict=True)
            ]
            for j, w in zip(block.columns, factors.solve(right, value, keep), strict=True):
                solution[j] = w
        return [solution[j] for j in range(len(self.rest))]


def _less(start: Arithmetic, terms: Sequence[tuple[Expression, Arithmetic]], value: Value[Arithmetic]) -> Arithmetic:
    """Return start - Σ entry · factor.

    Entries that are zero are left out.
    """
    for entry, factor in terms:
        if entry != 0:
            start = start - value(entry) * factor
    return start


def _total(terms: list[Arithmetic]) -> Arithmetic:
    result = terms[0]
    for term in terms[1:]:
        result = result + term
    return result


class Naming(Protocol):
    """An object that names expressions as steps.

    `name` returns the symbol of the step.
    """

    def name(self, expression: Expression) -> Expression: ...


@dataclass
class Program:
    """The steps named so far.

    Equal expressions get one symbol.
    """

    steps: list[Step] = field(default_factory=list[Step])
    known: dict[Expression, sp.Symbol] = field(default_factory=dict[sp.Expr, sp.Symbol])

    def name(self, expression: Expression) -> Expression:
        """Return the step of an expression.

        A number or a step stays as it is.
        """
        return expression if isinstance(expression, sp.Symbol) else self.entry(expression)

    def entry(self, expression: Expression) -> Expression:
        """Return the step of a matrix entry.

        The entry is one of M or h. A bare symbol becomes a step too, because something else may be substituted for it.
        """
        if expression.is_number:
            return expression
        if expression not in self.known:
            self.known[expression] = named = symbol(f"step:{len(self.steps)}")
            self.steps.append((named, expression))
        return self.known[expression]


Shorten = Callable[[Sequence[Expression], Naming], Sequence[Expression]]
"""Writes expressions in a shorter form; parts of them may become steps."""


def eliminate(
    mass: sp.ImmutableMatrix,
    rest: Sequence[Expression],
    blocks: Sequence[Block],
    definite: bool,
    shorten: Shorten | None = None,
) -> tuple[Elimination, tuple[Step, ...]]:
    """Return the steps that solve for the highest derivatives.

    They solve M w + h = 0. definite: symmetric blocks are definite where they will be evaluated.
    """
    program = Program()
    size = mass.rows
    flat: Sequence[Expression] = mass.flat()
    if shorten is not None:
        both = shorten([*flat, *rest], program)
        flat, rest = both[: size**2], both[size**2 :]
    entries = [[program.entry(flat[i * size + j]) for j in range(size)] for i in range(size)]
    right = [program.entry(h) for h in rest]
    factors: list[Factors] = []
    for block in blocks:
        inner = [[s * entries[i][j] for j in block.columns] for i, s in zip(block.rows, block.signs, strict=True)]
        factor = _definite if block.symmetric and definite else _orthogonal
        factors.append(factor(inner, program))
    every = tuple(block.symmetric for block in blocks)
    found = Elimination(
        tuple(map(tuple, entries)), tuple(right), tuple(blocks), tuple(factors), (), definite and any(every)
    )
    tops = found.solve([-h for h in right], lambda e: e, program.name)
    solved = Elimination(found.mass, found.rest, found.blocks, found.factors, tuple(tops), found.is_definite)
    return solved, tuple(program.steps)


def _definite(matrix: list[list[Expression]], program: Naming) -> Factors:
    """Return L D Lᵀ of a definite matrix.

    It is formed column by column; only entries on and below the diagonal are read.
    """
    size = len(matrix)
    zero: Expression = sp.Integer(0)
    if all(entry.is_number for row in matrix for entry in row):
        return _definite_numbers(np.array(matrix, float))
    lower: list[list[Expression]] = [[zero] * size for _ in range(size)]
    products: list[dict[int, Expression]] = [{} for _ in range(size)]
    divisors: list[Expression] = []
    for i in range(size):
        for j in range(i):
            taken = [p * lower[j][k] for k, p in products[i].items() if lower[j][k] != 0]
            left = matrix[i][j] - sp.Add(*taken) if taken else matrix[i][j]
            if left != 0:
                products[i][j] = program.name(left)
                lower[i][j] = program.name(products[i][j] / divisors[j])
        taken = sp.Add(*[p * lower[i][k] for k, p in products[i].items()])
        divisors.append(program.name(matrix[i][i] - taken))
    return Factors(tuple(map(tuple, lower)), tuple(divisors), None)


def _definite_numbers(matrix: Array) -> Factors:
    """Return L D Lᵀ of a matrix without symbols."""
    sign = 1.0 if matrix[0, 0] > 0 else -1.0
    root = np.linalg.cholesky(sign * matrix)
    diagonal = np.diag(root)
    below: Array = np.tril(root / diagonal, -1)
    lower: list[list[Expression]] = [[sp.Float(v) if v != 0 else sp.Integer(0) for v in row] for row in below]
    divisors = tuple(sp.Float(sign * d**2) for d in diagonal)
    return Factors(tuple(map(tuple, lower)), divisors, None)


def _orthogonal(matrix: list[list[Expression]], program: Naming) -> Factors:
    """Return L Q by Gram-Schmidt orthogonalisation without roots.

    From every row its components along the rows before it are subtracted.
    """
    size = len(matrix)
    zero: Expression = sp.Integer(0)
    if size == 1:
        return Factors(((zero,),), (matrix[0][0],), None)
    lower: list[list[Expression]] = [[zero] * size for _ in range(size)]
    rows: list[list[Expression]] = []
    divisors: list[Expression] = []
    for i in range(size):
        row = list(matrix[i])
        for j in range(i):
            along = program.name(sp.Add(*[a * b for a, b in zip(row, rows[j], strict=True)]))
            lower[i][j] = program.name(along / divisors[j])
            row = [program.name(a - lower[i][j] * b) for a, b in zip(row, rows[j], strict=True)]
        rows.append(row)
        divisors.append(program.name(sp.Add(*[a**2 for a in row])))
    return Factors(tuple(map(tuple, lower)), tuple(divisors), tuple(map(tuple, rows)))


def solve_named(
    matrix: Sequence[Sequence[Expression]], right: Sequence[Expression], naming: Naming
) -> list[Expression]:
    """Solve a linear system by named steps.

    Returns x with matrix x = right. `naming` names the steps. The divisors vanish only where the matrix is singular.
    """
    return _orthogonal([list(row) for row in matrix], naming).solve(right, lambda e: e, naming.name)


def blocks_of(mass: sp.ImmutableMatrix, tops: Sequence[sp.Symbol]) -> tuple[Block, ...]:
    """Return the diagonal blocks of the sorted M.

    M is sorted to block-triangular form; the blocks are in the order in which they can be solved.
    """
    size = mass.rows
    flat = mass.flat()
    pattern = np.array([entry != 0 for entry in flat], bool).reshape(size, size)
    row_of = maximum_bipartite_matching(csr_matrix(pattern), perm_type="row")
    unmatched = [top.name for top, row in zip(tops, row_of, strict=True) if row < 0]
    if unmatched:
        raise ModelError(
            f"The mass matrix is singular: no equation is left that determines {', '.join(unmatched)}. "
            "Give one independent equation per coordinate, each with a highest derivative."
        )
    sorted_pattern = csr_matrix(pattern[row_of])
    count, label = connected_components(sorted_pattern, directed=True, connection="strong")
    members = [[int(j) for j in np.flatnonzero(label == k)] for k in range(count)]
    needs = [
        {int(label[j]) for c in columns for j in sorted_pattern[c].indices} - {k} for k, columns in enumerate(members)
    ]
    order: list[int] = []
    done: set[int] = set()
    while len(order) < count:
        ready = [k for k in range(count) if k not in done and needs[k] <= done]
        order += ready
        done.update(ready)
    return tuple(_block(flat, size, [int(row_of[c]) for c in members[k]], members[k]) for k in order)


def _block(flat: Sequence[Expression], size: int, rows: list[int], columns: list[int]) -> Block:
    """Return a block, made symmetric where that is possible.

    Its rows are put in an order, and get signs, that make it symmetric.
    """
    ones = (1,) * len(rows)
    if len(rows) == 1:
        return Block(tuple(rows), tuple(columns), ones, True)
    for order in (sorted(rows), rows):
        signs = _symmetrising_signs([[flat[i * size + j] for j in columns] for i in order])
        if signs is not None:
            return Block(tuple(order), tuple(columns), signs, True)
    return Block(tuple(rows), tuple(columns), ones, False)


def _symmetrising_signs(matrix: list[list[Expression]]) -> tuple[int, ...] | None:
    """Return row signs that make a matrix symmetric.

    The first is +1. None when there are no such signs.
    """
    size = len(matrix)
    signs: list[int] = [1] + [0] * (size - 1)
    reached = [0]
    for i in reached:
        for j in range(size):
            here, there = matrix[i][j], matrix[j][i]
            if i == j or (here == 0 and there == 0):
                continue
            if signs[j]:
                if not _equal(signs[i] * here, signs[j] * there):
                    return None
                continue
            signs[j] = next((s for s in (1, -1) if _equal(signs[i] * here, s * there)), 0)
            if not signs[j]:
                return None
            reached.append(j)
    return tuple(signs)


def _equal(one: Expression, other: Expression) -> bool:
    return one == other or (one.free_symbols == other.free_symbols and vanishes(one - other))
