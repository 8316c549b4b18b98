"""Models given by matrices.

Finite-element programs write them as M x'' + C x' + K x + n(x, x') = f(t).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike
from scipy.sparse import csr_matrix, issparse

from kapitza.base import checks
from kapitza.base.arrays import Array
from kapitza.errors import ModelError
from kapitza.model.build import (
    MOST_PARTS,
    Parameters,
    Written,
    assemble,
    check_keys,
    make_coordinates,
    make_parameters,
    read_expression,
    signals_of,
)
from kapitza.model.modal import ModalReduction, modal_reduction
from kapitza.model.model import Model
from kapitza.model.parts import Coordinate, Parameter
from kapitza.model.structure import solve_derived
from kapitza.model.symbols import Expression, rate, symbol

ROUNDING = 1e-12
"""Entries of a projected matrix smaller than this share of its largest are rounding, not coupling."""


Matrix = ArrayLike | csr_matrix | Mapping[Written, ArrayLike | csr_matrix]
"""Numbers, entries with parameters, or Σ factor · numbers as {factor: numbers}."""


class Terms:
    """A square matrix Σ factor · numbers.

    The factors are expressions in parameters, the numbers arrays.
    """

    def __init__(self, size: int, parts: list[tuple[Expression, Array]]):
        self.size, self.parts = size, parts

    def projected(self, shapes: Array) -> Terms:
        """Return Φᵀ A Φ without entries that are rounding."""
        parts: list[tuple[Expression, Array]] = []
        for factor, numbers in self.parts:
            small = shapes.T @ (numbers @ shapes)
            small[np.abs(small) <= ROUNDING * np.abs(small).max(initial=0.0)] = 0.0
            parts.append((factor, small))
        return Terms(shapes.shape[1], parts)

    def at(self, values: Mapping[sp.Symbol, float]) -> Array:
        """Return the matrix in numbers."""
        total = np.zeros((self.size, self.size))
        for factor, numbers in self.parts:
            weight = complex(sp.N(factor.xreplace(values)))
            total += weight.real * numbers
        return total

    def row(self, i: int) -> dict[int, Expression]:
        """Return the nonzero entries of a row."""
        entries: dict[int, list[Expression]] = {}
        for factor, numbers in self.parts:
            for j in np.flatnonzero(numbers[i]):
                entries.setdefault(int(j), []).append(factor * _number(numbers[i, j]))
        return {j: sp.Add(*terms) for j, terms in entries.items()}


def _number(value: float) -> Expression:
    """Return a number as SymPy writes it shortest.

    A whole number stays whole (k·2 stays short); any other is a floating-point number.
    """
    # Doubles hold all whole numbers below 2**53 = 9e15 exactly.
    return sp.Integer(int(value)) if value == int(value) and abs(value) < 1e15 else sp.Float(float(value))


def from_matrices(
    M: Matrix,
    C: Matrix | None,
    K: Matrix | None,
    coordinates: Iterable[str | sp.Basic | Coordinate] | None = None,
    parameters: Parameters = None,
    forces: Mapping[str, Written] | None = None,
    nonlinear: Mapping[str, Written] | None = None,
    modes: int | ModalReduction | None = None,
    **parts: Any,
) -> Model:
    """See `Model.from_matrices`."""
    constants = make_parameters(parameters)
    known = [p.name for p in constants]
    size = _size_of(M, "M")
    mass, damping, stiffness = (_terms(a, n, size, known) for a, n in ((M, "M"), (C, "C"), (K, "K")))
    given = [f"x{i}" for i in range(1, size + 1)] if coordinates is None else coordinates
    found = make_coordinates(given, {}, ())
    if len(found) != size:
        raise ModelError(f"{len(found)} coordinates for matrices of {size} rows; name one coordinate per row.")
    for c in found:
        if c.order != 2 or c.angle:
            raise ModelError(f'Coordinate "{c.name}": those of matrices are displacements of order 2, no angles.')
    places = [c.name for c in found]
    signals = [s.name for s in signals_of(parts)]
    names = [*places, *(p + "'" for p in places), *known, *signals]
    pushes = _vector(forces, places, names, "A force acts on")
    bends = _vector(nonlinear, places, names, "A nonlinear term stands in the equation of")
    if modes is not None:
        return _reduced(modes, mass, damping, stiffness, places, pushes, bends, constants, parts)
    equations = _equations(mass, damping, stiffness, places)
    residuals = tuple(e + bends.get(p, 0) - pushes.get(p, 0) for e, p in zip(equations, places, strict=True))
    return assemble(found, residuals, {"parameters": constants, **parts})


def _size_of(matrix: Matrix | None, what: str) -> int:
    first = next(iter(matrix.values()), None) if isinstance(matrix, Mapping) else matrix
    shape: tuple[int, ...] = () if first is None else first.shape if issparse(first) else np.shape(first)
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0:
        raise ModelError(f"{what} has the shape {shape}; give a square matrix, one row per coordinate.")
    if shape[0] > MOST_PARTS:
        raise ModelError(f"{what} has {shape[0]} rows; at most {MOST_PARTS} can be handled.")
    return int(shape[0])


def _terms(matrix: Matrix | None, what: str, size: int, names: list[str]) -> Terms:
    """Return a matrix as terms.

    It is given as numbers, as numbers and expressions, or as a mapping Σ expression · matrix; None is zero.
    """
    if matrix is None:
        return Terms(size, [])
    if isinstance(matrix, Mapping):
        return Terms(
            size,
            [
                (read_expression(factor, names, f"Factor of {what}"), _numbers(numbers, f"{what}[{factor!r}]", size))
                for factor, numbers in matrix.items()
            ],
        )
    if issparse(matrix) or (np.asarray(matrix).dtype != object and np.asarray(matrix).dtype.kind in "fiu"):
        return Terms(size, [(sp.Integer(1), _numbers(matrix, what, size))])
    entries = np.asarray(matrix, object)
    _require_shape(entries.shape, what, size)
    gathered: dict[Expression, Array] = {}
    for (i, j), entry in np.ndenumerate(entries):
        expression = read_expression(entry, names, f"{what}[{i + 1}, {j + 1}]")
        numeric, factor = (expression, sp.Integer(1)) if expression.is_number else (sp.Integer(1), expression)
        if expression != 0:
            gathered.setdefault(factor, np.zeros((size, size)))[i, j] = float(numeric)
    return Terms(size, list(gathered.items()))


def _numbers(matrix: object, what: str, size: int) -> Array:
    dense = matrix.toarray() if issparse(matrix) else matrix
    array = checks.array(what, dense, error=ModelError)
    _require_shape(array.shape, what, size)
    if not np.isfinite(array).all():
        i, j = (int(k[0]) for k in np.nonzero(~np.isfinite(array)))
        raise ModelError(f"{what}[{i + 1}, {j + 1}] is {array[i, j]}; give finite numbers.")
    return array


def _require_shape(shape: tuple[int, ...], what: str, size: int) -> None:
    if shape != (size, size):
        raise ModelError(f"{what} has the shape {shape}, but M has {size} rows; all matrices are {size} x {size}.")


def _vector(
    given: Mapping[str, Written] | None, places: list[str], names: list[str], what: str
) -> dict[str, Expression]:
    table = {} if given is None else checks.table(what, given, most=MOST_PARTS, error=ModelError)
    check_keys(what, table, places)
    return {key: read_expression(value, names, f'{what} "{key}"') for key, value in table.items()}


def _equations(mass: Terms, damping: Terms, stiffness: Terms, places: list[str]) -> list[Expression]:
    """Return the linear part, row by row.

    It is M x'' + C x' + K x.
    """
    motion = [(mass, [rate(p, 2) for p in places]), (damping, [rate(p) for p in places])]
    motion.append((stiffness, [symbol(p) for p in places]))
    return [
        sp.Add(*[entry * moved[j] for matrix, moved in motion for j, entry in matrix.row(i).items()])
        for i in range(len(places))
    ]


def _reduced(
    modes: int | ModalReduction,
    mass: Terms,
    damping: Terms,
    stiffness: Terms,
    places: list[str],
    pushes: Mapping[str, Expression],
    bends: Mapping[str, Expression],
    constants: tuple[Parameter, ...],
    parts: dict[str, Any],
) -> Model:
    """Return the model in modal amplitudes.

    The coordinates are the amplitudes q of some modes, x = Φ q; every displacement is an output.
    """
    values = _values_of(constants, [mass, stiffness])
    if not isinstance(modes, ModalReduction):
        modes = modal_reduction(mass.at(values), stiffness.at(values), modes)
    if modes.shapes.shape[0] != len(places):
        raise ModelError(f"The modes have {modes.shapes.shape[0]} rows, the matrices {len(places)}.")
    amplitudes = [f"q{j}" for j in range(1, modes.shapes.shape[1] + 1)]
    taken = {*(p.name for p in constants), *places} & set(amplitudes)
    if taken:
        raise ModelError(f'"{min(taken)}" is the name of a modal amplitude; rename the parameter or coordinate.')
    own = {
        symbol(p + mark): sp.Add(*[sp.Float(w) * symbol(q + mark) for w, q in zip(row, amplitudes, strict=True) if w])
        for p, row in zip(places, modes.shapes, strict=True)
        for mark in ("", "'")
    }
    inertia, losses, springs = (m.projected(modes.shapes) for m in (mass, damping, stiffness))
    equations = _equations(inertia, losses, springs, amplitudes)
    acting = {p: (bends.get(p, sp.Integer(0)) - pushes.get(p, sp.Integer(0))).xreplace(own) for p in {*bends, *pushes}}
    for j in range(len(equations)):
        along = [sp.Float(modes.shapes[places.index(p), j]) * acting[p] for p in sorted(acting)]
        equations[j] = sp.Add(equations[j], *along)
    further: Mapping[str, Written] = parts.pop("outputs", None) or {}
    outputs: dict[str, Written] = {**{p: own[symbol(p)] for p in places}, **further}
    about = modes.about([p for p in places if p in acting], places)
    used = {s.name for matrix in (mass, stiffness) for factor, _ in matrix.parts for s in factor.free_symbols}
    if used and modes.left_out.size:
        at = ", ".join(f"{name} = {values[symbol(name)]:.6g}" for name in sorted(used))
        about += f" The modes are those at {at}: other values change them, unless all of K or of M scales alike."
    parts["description"] = f"{parts.get('description', '')}\n{about}".strip()
    found = make_coordinates(amplitudes, {}, ())
    model = assemble(found, tuple(equations), {"parameters": constants, "outputs": outputs, **parts})
    return replace(model, description=f"{model.description}{_drive_above(model, modes)}")


def _drive_above(model: Model, modes: ModalReduction) -> str:
    """Return a note on an excitation above all modes.

    It is "" unless the excitation is faster than all modes that are kept.
    """
    drive = 0.0 if model.period is None or not modes.left_out.size else 2 * np.pi / model.period
    if not np.isfinite(drive) or drive <= modes.frequencies[-1]:
        return ""
    return f" The excitation, {drive / (2 * np.pi):.4g} Hz, lies above all modes that are kept: keep more."


def _values_of(constants: tuple[Parameter, ...], matrices: list[Terms]) -> dict[sp.Symbol, float]:
    """Return the values of all parameters in the matrices.

    Parameters without a value are refused.
    """
    values: dict[sp.Symbol, float] = {
        symbol(p.name): float(p.value) for p in constants if p.expression is None and not np.isnan(p.value)
    }
    derived, long = solve_derived(constants)
    for name, expression in (*derived.items(), *long):
        result = sp.N(expression.xreplace(values))
        if result.is_number:
            values[name] = float(result)
    used = {s for matrix in matrices for factor, _ in matrix.parts for s in factor.free_symbols}
    missing = sorted(s.name for s in used - values.keys())
    if missing:
        raise ModelError(f"Modes are those of numbers: give {', '.join(missing)} a value first.")
    return values
