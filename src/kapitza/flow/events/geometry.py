"""Surfaces of a system with switches and walls.

Values, gradients and resets are evaluated at one point.

A switch i has a function s_i(x, t, θ) and a mode m_i = sign s_i; a wall j has a surface g_j(x, t, θ) >= 0, its normal
speed w_j = dg_j/dt and a reset x⁺ = R_j(x, t, θ). Everything the event logic needs at an instant is compiled here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kapitza.base.arrays import Array
from kapitza.errors import ModelError
from kapitza.flow.domains import Domain
from kapitza.flow.engine import System
from kapitza.flow.events.held import Jumps, forces_alone_are_affine
from kapitza.model import (
    FLAT,
    Expression,
    Step,
    compile_derivatives,
    compile_expressions,
    derivative,
    split_switches,
    time,
)

if TYPE_CHECKING:
    from kapitza.flow.events.settle import Motion, MotionKey

ROUNDING = 1e-13
"""A surface closer than this times its natural size counts as reached."""


MOST_KEPT = 32
"""Largest number of results in a cache."""

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Cache of the last few results."""

    def __init__(self):
        self.answers: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        return self.answers.get(key)

    def put(self, key: K, answer: V) -> None:
        if len(self.answers) >= MOST_KEPT:
            self.answers.clear()
        self.answers[key] = answer


class PointFunction:
    """A compiled function of (x, t, θ, m).

    It is evaluated at one point, with its result in a given shape.

    keep: hold the values, read-only, of the last few points: at an instant they are needed again and again.
    """

    def __init__(
        self,
        expressions: Sequence[Expression],
        inputs: tuple[sp.Symbol, ...],
        shape: tuple[int, ...],
        steps: tuple[Step, ...] = (),
        keep: bool = False,
    ):
        self.shape = shape
        self.recent: Recent[bytes, Array] | None = Recent() if keep else None
        self.compiled = compile_expressions(expressions, inputs, steps=steps) if expressions else None

    def __call__(self, point: Array) -> Array:
        if self.compiled is None:
            return np.zeros(self.shape)
        if self.recent is None:
            return self.compiled(point).reshape(self.shape)
        key = point.tobytes()
        found = self.recent.get(key)
        if found is None:
            found = self.compiled(point).reshape(self.shape)
            found.flags.writeable = False
            self.recent.put(key, found)
        return found


class _JacobianFunction:
    """f_x (n, n) at one point.

    The derivative goes through the steps of a large mass matrix.
    """

    def __init__(self, system: System, inputs: tuple[sp.Symbol, ...]):
        self.size = len(system.states)
        rates, states = system.smooth_rates, system.states
        self.compiled = compile_derivatives(
            rates, states, inputs, steps=system.smooth_steps, elimination=system.elimination
        )

    def __call__(self, point: Array) -> Array:
        return self.compiled(point)[self.size :].reshape(self.size, self.size)


class Gradients:
    """Functions with their derivatives at one point.

    The derivatives are by state, time and parameters.

    value: (h,); by_state: (h, n); by_time: (h,); by_parameter: (h, k).
    """

    def __init__(self, table: Array, size: int):
        self.value, self.by_state = table[:, 0], table[:, 1 : 1 + size]
        self.by_time, self.by_parameter = table[:, 1 + size], table[:, 2 + size :]

    def rates(self, field: Array) -> Array:
        """Return d/dt along the field.

        The rate is d/dt = h_x f + h_t.
        """
        return self.by_state @ field + self.by_time

    def columns(self) -> Array:
        """Return (h_x, h_θ), (h, n + k).

        It multiplies a perturbation of state and parameters.
        """
        return np.hstack((self.by_state, self.by_parameter))


class Geometry:
    """Compiled surfaces of a system.

    Points are vectors (x, t, θ, m): see `point`.
    """

    def __init__(self, system: System, wrt: tuple[int, ...]):
        self.system = system
        self.size, self.switches, self.walls = len(system.states), len(system.switches), len(system.walls)
        self.differentiate = (*system.states, time, *(system.parameters[i] for i in wrt))
        self.modes = tuple(s.mode for s in system.switches)
        self.inputs = (*system.states, time, *system.parameters, *self.modes)
        self.motions: Recent[MotionKey, Motion] = Recent()
        self.jumps: Jumps = {}
        self.domain = Domain(system)
        self._smooth_when_zero: dict[bytes, bool] = {}
        self._products: dict[tuple[int, int], bool] = {}
        for number, (wall, speed) in enumerate(zip(system.walls, self.speeds, strict=True), start=1):
            if not speed.free_symbols.isdisjoint((*self.modes, *(name for name, _ in system.smooth_steps))):
                raise ModelError(
                    f"The speed towards wall {number} ({wall.surface} >= 0) contains a switch or an acceleration: "
                    f"{speed}. A wall must be written in coordinates whose rates are states."
                )

    def point(self, state: Array, t: float, parameters: Array, modes: Array) -> Array:
        return np.concatenate((state, (t,), parameters, modes))

    @cached_property
    def speeds(self) -> tuple[sp.Expr, ...]:
        """w_j = g_x f + g_t of every wall."""
        return tuple(self.total_derivative(wall.surface) for wall in self.system.walls)

    def total_derivative(self, expression: sp.Expr) -> sp.Expr:
        pairs = zip(self.system.states, self.system.smooth_rates, strict=True)
        return derivative(expression, time) + sum((derivative(expression, x) * f for x, f in pairs), sp.Integer(0))

    @cached_property
    def rates(self) -> PointFunction:
        """f(x, t, θ; m): (n,)."""
        rates, steps = list(self.system.smooth_rates), self.system.smooth_steps
        return PointFunction(rates, self.inputs, (self.size,), steps, keep=True)

    @cached_property
    def values(self) -> PointFunction:
        """All s_i, then all g_j."""
        surfaces = [s.function for s in self.system.switches] + [w.surface for w in self.system.walls]
        return PointFunction(surfaces, self.inputs, (len(surfaces),))

    @cached_property
    def table_of_switches(self) -> PointFunction:
        return self._table([s.function for s in self.system.switches])

    @cached_property
    def table_of_walls(self) -> PointFunction:
        return self._table([w.surface for w in self.system.walls])

    @cached_property
    def table_of_speeds(self) -> PointFunction:
        return self._table(list(self.speeds))

    @cached_property
    def table_of_resets(self) -> tuple[PointFunction, ...]:
        return tuple(self._table(list(w.reset)) for w in self.system.walls)

    def of_switches(self, point: Array) -> Gradients:
        return Gradients(self.table_of_switches(point), self.size)

    def of_walls(self, point: Array) -> Gradients:
        return Gradients(self.table_of_walls(point), self.size)

    def of_speeds(self, point: Array) -> Gradients:
        return Gradients(self.table_of_speeds(point), self.size)

    def of_reset(self, wall: int, point: Array) -> Gradients:
        """Return the state after an impact with its derivatives.

        It is a function of the state before.
        """
        return Gradients(self.table_of_resets[wall](point), self.size)

    @cached_property
    def jacobian(self) -> _JacobianFunction:
        """f_x in the given modes: (n, n)."""
        return _JacobianFunction(self.system, self.inputs)

    def impulse(self, wall: int, point: Array) -> Array:
        """Return the direction b (n,) of the contact force.

        b is a vector in state space with w_x b > 0.
        For a reset x⁺ = x - (1 + r) w b the matrix I - R_x is (1 + r) b w_x where w = 0.
        """
        normal = self.of_speeds(point).by_state[wall]
        return normal - self.of_reset(wall, point).by_state @ normal

    def closeness(self, gradients: Gradients, point: Array) -> Array:
        """Return the distances from zero that are rounding.

        There is one for each surface.
        """
        x, t = np.abs(point[: self.size]), abs(point[self.size])
        return ROUNDING * (1.0 + np.abs(gradients.by_state) @ (1.0 + x) + np.abs(gradients.by_time) * (1.0 + t))

    @cached_property
    def _probes(self) -> Probes:
        return Probes(self.system)

    def inner(self, switch: int) -> list[int]:
        """Return the switches inside the function of this one.

        The function holds their modes.
        """
        return self._probes.inner[switch]

    def is_flat(self, switch: int, state: Array, t: float, parameters: Array, modes: Array) -> bool:
        """Return whether a switching function vanishes here and around.

        The modes are given.
        """
        if not self.system.switches[switch].can_vanish:
            return False
        for place, instant in zip(*(p.T for p in self._probes.around(state, t)), strict=True):
            value = self.values(self.point(place, instant, parameters, modes))[switch]
            if abs(value) > FLAT * (1.0 + np.abs(place).max()):
                return False
        return True

    @cached_property
    def _levels(self) -> list[NDArray[np.intp]]:
        return levels(self.system)

    def modes_at(self, state: Array, t: float, parameters: Array) -> Array:
        """Return the modes (switches,) at a state.

        They are the signs of the functions, from the inside out; 0 where a function vanishes all around.
        A function that is zero at this state alone counts as positive.
        """
        modes = np.ones(self.switches)
        for level in self._levels:
            values = self.values(self.point(state, t, parameters, modes))
            modes[level] = np.where(values[level] >= 0, 1.0, -1.0)
            for i in level:
                if self.is_flat(i, state, t, parameters, modes):
                    modes[i] = 0.0
        return modes

    def complete(self, state: Array, t: float, parameters: Array, modes: Array, fixed: Sequence[int]) -> Array:
        """Return the modes with those of outer switches updated.

        An inner mode may have moved the functions of outer switches.

        fixed: switches whose modes are decided otherwise. Values within rounding of zero decide nothing.
        """
        if len(self._levels) < 2:
            return modes
        modes = modes.copy()
        free = np.ones(self.switches, bool)
        free[list(fixed)] = False
        for level in self._levels[1:]:
            point = self.point(state, t, parameters, modes)
            gradients = self.of_switches(point)
            clear = free & (np.abs(gradients.value) > self.closeness(gradients, point))
            chosen = level[clear[level]]
            modes[chosen] = np.where(gradients.value[chosen] >= 0, 1.0, -1.0)
            for i in level[~clear[level]]:
                if self.is_flat(i, state, t, parameters, modes):
                    modes[i] = 0.0
        return modes

    @cached_property
    def is_linkage(self) -> bool:
        """Return whether all switches are dry friction between bodies.

        The mass matrix is eliminated step by step, and the modes occur linearly and in the forces alone: which switches
        stick is a linear complementarity problem.
        """
        switches = self.system.switches
        plain = all(s.function.free_symbols.isdisjoint(self.modes) and not s.can_vanish for s in switches)
        return bool(switches) and plain and not any(s.continuous for s in switches) and self.forces_are_affine

    @cached_property
    def forces_are_affine(self) -> bool:
        """Return whether all modes that jump are linear in the forces.

        Then so are those of any regime. The mass matrix is eliminated step by step.
        """
        jumping = [s.mode for s in self.system.switches if not s.continuous]
        return self.system.elimination is not None and forces_alone_are_affine(self.system, jumping)

    def modes_multiply(self, one: int, other: int) -> bool:
        """Return whether two modes multiply each other.

        The product occurs in the rates. Each pair is tested once.
        """
        pair = (min(one, other), max(one, other))
        if pair not in self._products:
            modes, system = [self.modes[i] for i in pair], self.system
            forces = set(system.elimination.rest) if system.elimination is not None else set()
            # A mode in the mass matrix multiplies every other.
            self._products[pair] = (
                system.elimination is not None
                and any(e.has(*modes) for name, e in system.smooth_steps if name not in forces)
            ) or any(sp.diff(e, *modes) != 0 for e in system.smooth_expressions if all(e.has(m) for m in modes))
        return self._products[pair]

    def is_smooth_at(self, parameters: Array) -> bool:
        """Return whether no event changes the rates.

        There is no wall and, with the parameters that are exactly zero, no switch makes the rates jump.
        """
        if self.walls or self.system.enters_by_the_clock:
            return False
        zero = parameters == 0.0
        key = zero.tobytes()
        if key not in self._smooth_when_zero:
            self._smooth_when_zero[key] = self._decide_smooth(zero)
        return self._smooth_when_zero[key]

    def _decide_smooth(self, zero: NDArray[np.bool_]) -> bool:
        """Return whether all jumps vanish on their surfaces.

        The jump of the rates times sign(s) has a continuous switch exactly when the jump vanishes on s = 0.
        """
        gone = {p: sp.Integer(0) for p, is_zero in zip(self.system.parameters, zero, strict=True) if is_zero}
        moving = (*self.system.states, time)
        rates = self.system.smooth_expressions
        for switch in self.system.switches:
            if switch.continuous:
                continue
            jumps = [jump for f in rates for jump in switch.jumps(f.xreplace(gone))]
            present = tuple(j * sp.sign(switch.function.xreplace(gone)) for j in jumps if j != 0)
            found, _ = split_switches(present, moving)
            if not all(s.continuous for s in found):
                return False
        return True

    def _table(self, functions: list[sp.Expr]) -> PointFunction:
        # A sign of parameters alone, as in c*sign(c), has no slope but at zero.
        entries = [
            e.replace(sp.DiracDelta, lambda *_: sp.Integer(0))
            for f in functions
            for e in (f, *(derivative(f, s) for s in self.differentiate))
        ]
        return PointFunction(entries, self.inputs, (len(functions), 1 + len(self.differentiate)), keep=True)


class Probes:
    """Probe points around a state.

    A function that vanishes altogether, as that of abs(max(x, 0)) does while x < 0, is zero there too. It may do so at
    some values of the parameters only, so this is tested in numbers.
    """

    def __init__(self, system: System):
        number = {switch.mode: i for i, switch in enumerate(system.switches)}
        self.inner = [[number[s] for s in switch.function.free_symbols if s in number] for switch in system.switches]
        self._offsets = np.random.default_rng(0).uniform(-1.0, 1.0, (len(system.states) + 1, 3))

    def around(self, state: Array, time: float) -> tuple[Array, Array]:
        """Return states (n, 3) and times (3,) nearby.

        They are about as far from the given ones as these are from zero.
        """
        offsets = self._offsets
        return state[:, None] + (1.0 + np.abs(state))[:, None] * offsets[:-1], time + (1.0 + abs(time)) * offsets[-1]


def levels(system: System) -> list[NDArray[np.intp]]:
    """Return the switches by nesting level.

    Those whose functions hold no modes come first, then those around them, and so on.
    """
    number = {switch.mode: i for i, switch in enumerate(system.switches)}
    depth: list[int] = []
    for switch in system.switches:
        inside = [number[s] for s in switch.function.free_symbols if s in number]
        depth.append(1 + max((depth[i] for i in inside), default=-1))
    return [np.flatnonzero(np.array(depth) == level) for level in range(max(depth, default=-1) + 1)]
