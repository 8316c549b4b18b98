"""Linkages with dry friction at their joints.

They are written in the relative speeds of the joints: r = T v.

The equations M v' + h + Jᵀ (c m) = 0 hold the torques c m of the joints, J being the gradients of the switching
functions s by the speeds v, up to their signs the first rows of T. With M_r = T⁻ᵀ M T⁻¹ and h_r = T⁻ᵀ h they read

    M_r r' + h_r + c m = 0,

one torque in one row. A joint that sticks has a given rate, and its row gives the torque instead of m = ±1: which
joints stick is a choice of rows, and one elimination of the size of M serves all choices. As M_r is definite, there is
exactly one answer to which joints stick and which slip.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import sympy as sp

from kapitza.base.arrays import Array
from kapitza.flow.engine import System
from kapitza.flow.events.held import ABOVE_ZERO, HeldSteps, forces_alone_are_affine, offset
from kapitza.model import Expression, Step, compile_expressions, derivative, solve_definite, vanishes
from kapitza.model import time as time_symbol

MANY_SURFACES = 3
"""From so many switches and walls on one flow serves all regimes of a linkage: k surfaces have 2^k."""


@dataclass(frozen=True)
class JointForm:
    """A system in the speeds of its joints.

    switches: numbers of the k switches that are joints. inverse: T⁻¹ (n, n) of rational numbers, joints first; signs:
    of their rows against those of J (k), such that few entries of T⁻¹ are negative.
    laws: c (k), in the states, time, parameters. slopes: J (k, n).
    """

    switches: tuple[int, ...]
    inverse: tuple[tuple[sp.Expr, ...], ...]
    signs: tuple[int, ...]
    laws: tuple[sp.Expr, ...]
    slopes: tuple[tuple[sp.Expr, ...], ...]


def joint_form(system: System) -> JointForm | None:
    """Return the system in the speeds of its joints.

    None where it is not such a linkage.

    Required are: one definite mass matrix for all accelerations, switching functions s = J v with numbers J that are
    independent of each other, no other switches, and modes that occur in the forces only, along these slopes.
    """
    if len(system.switches) + len(system.walls) < MANY_SURFACES:
        return None
    elimination, n = system.elimination, len(system.states) // 2
    chosen = tuple(i for i, s in enumerate(system.switches) if not s.continuous)
    modes = [system.switches[i].mode for i in chosen]
    if elimination is None or not elimination.is_definite or not chosen or not forces_alone_are_affine(system, modes):
        return None
    every = tuple(range(len(elimination.rest)))
    (block, *others), speeds = elimination.blocks, system.states[n:]
    plain = not others and block.rows == block.columns == every and set(block.signs) == {1} and block.symmetric
    second = system.smooth_rates == (*speeds, *elimination.tops) and len(every) == n
    if not plain or not second:
        return None
    functions = [system.switches[i].function for i in chosen]
    rows = [[derivative(s, v) for v in speeds] for s in functions]
    if not all(entry.is_Rational for row in rows for entry in row):
        return None
    pairs = zip(functions, rows, strict=True)
    linear = all(s == sp.Add(*[entry * v for entry, v in zip(row, speeds, strict=True)]) for s, row in pairs)
    if not linear or len(chosen) < len(system.switches):
        return None
    found = _completed_inverse(sp.Matrix(rows))
    if found is None:
        return None
    inverse, signs = found
    steps: dict[sp.Expr, sp.Expr] = dict(system.smooth_steps)
    laws: list[sp.Expr] = []
    for row, mode in zip(rows, modes, strict=True):
        slopes = [derivative(steps[h], mode) if h in steps else sp.Integer(0) for h in elimination.rest]
        place = next(a for a, entry in enumerate(row) if entry != 0)
        law = slopes[place] / row[place]
        across = [_without_constants(system, e - law * entry) for e, entry in zip(slopes, row, strict=True)]
        if law == 0 or not all(e == 0 or vanishes(e) for e in across):
            return None
        laws.append(law)
    return JointForm(chosen, inverse, signs, tuple(laws), tuple(map(tuple, rows)))


def _without_constants(system: System, expression: Expression) -> Expression:
    """Return the expression in the parameters of the model.

    -c and c may be separate constants.
    """
    first = len(system.parameters) - len(system.constants)
    for name, value in reversed(list(zip(system.parameters[first:], system.constants, strict=True))):
        expression = expression.xreplace({name: value})
    return expression


def _completed_inverse(rows: sp.Matrix) -> tuple[tuple[tuple[sp.Expr, ...], ...], tuple[int, ...]] | None:
    """Return T⁻¹ and the signs of its rows.

    The given rows of T, each times its sign, are completed by single speeds.

    None where the rows depend on each other.
    """
    pivots = rows.rref()[1]
    if len(pivots) < rows.rows:
        return None
    unit = sp.eye(rows.cols)
    others = [unit.row(a) for a in range(rows.cols) if a not in pivots]
    inverse = sp.Matrix.vstack(rows, *others).inv()
    signs = [-1 if sum(inverse.col(j)) < 0 else 1 for j in range(rows.rows)]
    for j, sign in enumerate(signs):
        inverse[:, j] *= sign
    return tuple(tuple(inverse.row(a)) for a in range(rows.cols)), tuple(signs)


@dataclass(frozen=True)
class RelativeSystem:
    """M_r and h_r without the torques of the joints.

    M_r has its entries on and below the diagonal; all are steps or numbers.
    """

    held: HeldSteps
    mass: list[list[sp.Expr]]
    rest: list[sp.Expr]


def relative_system(system: System, form: JointForm) -> RelativeSystem:
    """Write the equations in the speeds of the joints."""
    elimination = system.elimination
    assert elimination is not None
    gone = {system.switches[i].mode: sp.Integer(0) for i in form.switches}
    held = HeldSteps([(name, e.xreplace(gone)) for name, e in system.smooth_steps])
    sums = _Sums(form.inverse, held)
    entries, forces = elimination.mass, elimination.rest
    size = len(forces)
    rows: list[dict[int, sp.Expr]] = [{} for _ in range(size)]
    columns: list[dict[int, sp.Expr]] = [{} for _ in range(size)]

    def half(j: int) -> Callable[[int], sp.Expr]:
        return lambda a: sums(j, lambda b: entries[a][b], rows[a])

    mass = [[sums(i, half(j), columns[j]) for j in range(i + 1)] for i in range(size)]
    known: dict[int, sp.Expr] = {}
    return RelativeSystem(held, mass, [sums(i, lambda a: forces[a], known) for i in range(size)])


class _Sums:
    """Sums Σ_a T⁻¹[a, j] x_a for every j.

    Each is formed from another one where that is shorter: along a chain they differ by one term.
    """

    def __init__(self, inverse: tuple[tuple[sp.Expr, ...], ...], held: HeldSteps):
        self.held = held
        size = len(inverse)
        columns = [[inverse[a][j] for a in range(size)] for j in range(size)]
        order = sorted(range(size), key=lambda j: _count(columns[j]))
        self.plan: dict[int, tuple[int | None, Sequence[sp.Expr]]] = {}
        for j in order:
            best: tuple[int | None, Sequence[sp.Expr]] = None, columns[j]
            for i in self.plan:
                left = [own - other for own, other in zip(columns[j], columns[i], strict=True)]
                if _count(left) + 1 < _count(best[1]) + (best[0] is not None):
                    best = i, left
            self.plan[j] = best

    def __call__(self, j: int, entry: Callable[[int], sp.Expr], known: dict[int, sp.Expr]) -> sp.Expr:
        """Return the sum j of the entries.

        known: sums of the same entries.
        """
        if j not in known:
            base, weights = self.plan[j]
            terms = [w * entry(a) for a, w in enumerate(weights) if w != 0]
            before = [] if base is None else [self(base, entry, known)]
            known[j] = self.held.name(sp.Add(*terms, *before))
        return known[j]


def _count(column: Sequence[sp.Expr]) -> int:
    return sum(entry != 0 for entry in column)


Flags = dict[tuple[int, int], sp.Symbol]
"""Of pairs of joints, the smaller one first: 1 while both slip, 0 otherwise."""


@dataclass(frozen=True)
class JointProgram:
    """Steps of a linkage and the results in them.

    accelerations: v' (n); rates: r' (n); shares: m = torque / c of the joints (k); brakes: positive where the joints
    brake (k); ends: for every switch a function that falls through zero where its stretch ends.
    """

    steps: tuple[Step, ...]
    accelerations: tuple[sp.Expr, ...]
    rates: list[sp.Expr]
    shares: list[sp.Expr]
    brakes: list[sp.Expr]
    ends: list[sp.Expr]


def joint_program(system: System, form: JointForm, flags: tuple[sp.Symbol, ...], slipping: Flags) -> JointProgram:
    """Write the motion for all combinations of stuck joints.

    flags: 1 for the switches that stick; slipping: symbols of pairs of joints.
    """
    relative = relative_system(system, form)
    held, size, count = relative.held, len(relative.rest), len(form.switches)
    sticks = [flags[i] for i in form.switches]
    modes = [system.switches[i].mode for i in form.switches]

    def whole(i: int, j: int) -> sp.Expr:
        return relative.mass[i][j] if j <= i else relative.mass[j][i]

    def both(i: int, j: int) -> sp.Expr:
        joints = [k for k in (j, i) if k < count]
        return slipping[joints[0], joints[-1]] if joints else sp.Integer(1)

    matrix = [[held.name(both(i, j) * whole(i, j)) for j in range(i + 1)] for i in range(size)]
    right: list[sp.Expr] = []
    for i in range(size):
        given = -relative.rest[i]
        if i < count:
            matrix[i][i] = held.name(matrix[i][i] + sticks[i])
            given = slipping[i, i] * (given - form.signs[i] * form.laws[i] * modes[i])
        right.append(held.name(given))
    rates = solve_definite(matrix, right, held)
    torques = [
        held.name(sp.Add(relative.rest[i], *[whole(i, j) * rates[j] for j in range(size)])) for i in range(count)
    ]
    known: dict[int, sp.Expr] = {}
    sums = _Sums(tuple(zip(*form.inverse, strict=True)), held)
    speeds = tuple(sums(a, lambda j: rates[j], known) for a in range(size))
    ends: list[sp.Expr] = []
    for i, s in enumerate(system.switches):
        left = s.mode * s.function + offset(i)
        if i in form.switches:
            k = form.switches.index(i)
            left = slipping[k, k] * left + sticks[k] * (form.laws[k] ** 2 - torques[k] ** 2 + ABOVE_ZERO)
        ends.append(left)
    shares = [-sign * torque / law for sign, torque, law in zip(form.signs, torques, form.laws, strict=True)]
    brakes = [law * relative.mass[0][0] for law in form.laws]
    return JointProgram(tuple(held.steps), speeds, rates, shares, brakes, ends)


@dataclass(frozen=True)
class JointMotion:
    """The motion of a linkage at a place.

    Some joints are stuck, and the others are in their modes.

    accelerations: v' (n); slips: ds/dt of the switching functions (k); shares: m = torque / c (k), within ±1 where a
    joint sticks. has_one_answer: every joint brakes, as friction does; then one answer fits to which stick and slip.
    walls: g, wall_slopes: (walls, 2 n + 1) their derivatives by states and time.
    """

    accelerations: Array
    slips: list[float]
    shares: list[float]
    has_one_answer: bool
    walls: list[float]
    wall_slopes: Array


class Joints:
    """A linkage with plain joints in numbers.

    It shows which joints stick and which slip at a place.

    inputs: of the points, then flags of the surfaces, then those of pairs of joints.
    slopes: J (k, n), sizes: |J|; lift: (n, k) speeds that take back a unit of each s and change no other.
    """

    def __init__(
        self,
        system: System,
        form: JointForm,
        inputs: tuple[sp.Symbol, ...],
        flags: tuple[sp.Symbol, ...],
        slipping: Flags,
    ):
        self.size, self.count, self.walls = len(system.states) // 2, len(form.switches), len(system.walls)
        program = joint_program(system, form, flags, slipping)
        slips = [sign * r for sign, r in zip(form.signs, program.rates, strict=False)]
        surfaces = [w.surface for w in system.walls]
        slopes = [derivative(g, x) for g in surfaces for x in (*system.states, time_symbol)]
        outputs = [*program.accelerations, *slips, *program.shares, *program.brakes, *surfaces, *slopes]
        self._compiled = compile_expressions(outputs, (*inputs, *flags), steps=program.steps)
        self.slopes = np.array(form.slopes, float)
        self.sizes = np.abs(self.slopes)
        self._terms = [[(a, w) for a, w in enumerate(row) if w] for row in self.sizes.tolist()]
        self.lift = np.array(form.inverse, float)[:, : self.count] * np.array(form.signs, float)

    def motion(self, state: Array, t: float, parameters: Array, modes: Array, flags: Array) -> JointMotion:
        """Return the motion at a place in given modes.

        flags: which joints are stuck.
        """
        n, k = self.size, self.count
        found = self._compiled(np.concatenate((state, (t,), parameters, modes, flags)))
        numbers = found.tolist()
        first = n + 3 * k + self.walls
        return JointMotion(
            found[:n],
            numbers[n : n + k],
            numbers[n + k : n + 2 * k],
            min(numbers[n + 2 * k : n + 3 * k]) > 0.0,
            numbers[n + 3 * k : first],
            found[first:].reshape(self.walls, 2 * n + 1),
        )

    def speeds(self, state: Array) -> list[float]:
        """Return s (k) of a state."""
        return (self.slopes @ state[self.size :]).tolist()

    def size_of(self, joint: int, values: list[float]) -> float:
        """Return |J| times values (n), for one joint."""
        return sum([w * values[a] for a, w in self._terms[joint]])
