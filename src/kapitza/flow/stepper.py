"""Short steps with parameters that change between them.

A sampled controller does this to a model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import heyoka as hy
import numpy as np
import sympy as sp

from kapitza.base.arrays import Array
from kapitza.base.cures import Give
from kapitza.errors import FlowError, ModelError
from kapitza.flow.compiled import FunctionArguments, cached, compile_integrator, equations, full_table, is_short
from kapitza.flow.domains import Domain
from kapitza.flow.engine import Engine, System, described
from kapitza.flow.events import EventEngine
from kapitza.flow.events.geometry import levels
from kapitza.flow.hoisting import constants_function, hoist_constants
from kapitza.flow.smooth import SmoothEngine
from kapitza.flow.system import polynomial_signals, system_of
from kapitza.model import Model, symbol, to_heyoka
from kapitza.model import time as time_symbol

_whole = hy.taylor_outcome.time_limit

Numbers: TypeAlias = "memoryview[Any]"
"""View of an array, quicker to read and write number by number than the array."""

Looked = tuple[list[float], list[float]]
"""Values of the switching functions and margins at a state, and their rates."""


class Stepper:
    """A model advanced in short steps.

    `step(values, length)` advances `state`, after `begin(time)` and until `release`.

    held: names of parameters that change from step to step, neighbours at the end of `model.names`. Other parameters
    change by `load`. Within a step everything is constant but the states and the time.

    Steps that stay clear of every switching surface and of the ends of all terms are plain Taylor steps; the others,
    and all steps of a model with impacts, go to the engine that locates events.
    """

    def __init__(self, model: Model, held: Sequence[str] = (), tolerance: float = 1e-11):
        if model.delays:
            raise ModelError(
                f'Model "{model.name}" has delays ({model.delays[0].symbol.name}); a rig steps the present state '
                "alone. Leave out the delay in the equations; that of a controller is a setting of its feedback."
            )
        if polynomial_signals(model):
            raise ModelError(
                f'Model "{model.name}" has a measured excitation given by samples; a rig needs it as a Fourier series '
                f"({Give(kind='fourier')} of the signal)."
            )
        if held and tuple(held) != model.names[-len(held) :]:
            raise ModelError("Held parameters must be the last ones of the model, in their order.")
        self.model, self.tolerance = model, tolerance
        absorbed = frozenset(symbol(name) for name in model.names if name not in held)
        self.system = hoist_constants(system_of(model), absorbed)
        self.size = len(self.system.states)
        self._first, self._last = len(model.names) - len(held), len(model.names)
        self._constants = constants_function(self.system)
        self._runtime = np.zeros(len(self.system.parameters))
        self._engine: Engine | None = None
        self._domain = Domain(self.system)
        if self.system.switches or self.system.walls or self._domain.watched:
            kind = SmoothEngine if self.system.is_smooth and not self.system.switches else EventEngine
            # A root is entered at a margin that a loose tolerance would lose.
            fine = min(tolerance, 1e-15) if self._domain.is_entered else tolerance
            self._engine = cached(("stepped", self.system, fine), lambda: kind(self.system, (), fine))
        self._ta = cached(("stepper", self.system, tolerance), lambda: compile_integrator(self._build))
        fixed = frozenset(s for s in self.system.parameters if s.name not in held)
        self._near = None
        # Whether a function vanishes all around is left to the engine.
        can_vanish = any(s.can_vanish for s in self.system.switches)
        if self._domain.is_simple and not can_vanish and (self.system.switches or self._domain.watched):
            self._near = cached(("near", self.system, fixed), lambda: _Near(self.system, self._domain, fixed))
        self._state = np.zeros(self.size)
        self.load(model.vector)

    def _build(self) -> hy.taylor_adaptive_dbl:
        written = equations(self.system)
        compact = not is_short(self.system, written)
        return hy.taylor_adaptive(written, [0.0] * self.size, tol=self.tolerance, compact_mode=compact)

    def load(self, vector: Array) -> None:
        """Load all parameters, in the order of `model.names`."""
        values = np.asarray(vector, float)
        constants = self._constants(np.empty((0, 1)), values)[:, 0] if self.system.constants else np.empty(0)
        self._runtime[:] = np.concatenate((values, constants))

    @property
    def state(self) -> Array:
        """Current state (n,).

        It is a view that the next step changes.
        """
        return self._state

    @property
    def view(self) -> Numbers:
        """Current state between `begin` and `release`.

        For a few numbers it is much quicker to read than an array.
        """
        return self._view

    def begin(self, state: Array, time: float) -> None:
        """Continue from this state at this time.

        The integrator belongs to this stepper until `release`.
        """
        ta = self._ta
        ta.state[:] = state
        self._state, ta.time = ta.state, time
        self._view: Any = ta.state.data
        self._now = time
        used = min(ta.pars.size, self._runtime.size)
        ta.pars[:used] = self._runtime[:used]
        # Parameters that occur in no equation may be missing at the end.
        stop = min(self._last, ta.pars.size)
        self._window: Any = ta.pars.data[self._first : stop]
        self._partial = stop < self._last
        self._taylor, self._pars = ta.step, ta.pars  # each look at an attribute of the integrator costs a microsecond
        self._planes, self._known = None, None
        if self._near is not None and not self.system.walls:
            self._planes = self._near.planes(ta.pars)

    def step(self, values: Array | Numbers, length: float) -> None:
        """Advance by `length` seconds with these held values."""
        self._window[:] = values[: len(self._window)] if self._partial else values
        if self._engine is not None:
            if self._planes is not None:
                self._beside_planes(self._planes, values, length)
            else:
                self._careful(values, length)
            return
        outcome, done = self._taylor(length)
        if done != length and outcome != _whole:
            self._finish(outcome, length, done)

    def _beside_planes(self, planes: _Planes, values: Array | Numbers, length: float) -> None:
        """Make a step of a model with linear surfaces.

        The switching functions and margins are linear in the states.
        """
        start, near, known = self._view.tolist(), self._near, self._known
        time = self._now
        self._now = time + length
        assert near is not None
        if known is None:
            known = planes.at(start)
            inside = near.load(known[0], self._pars)
        else:
            inside = True  # the step before ended clear of every surface, in the modes that are loaded
        if inside and self._taylor(length)[1] == length:
            end = self._view.tolist()
            after = planes.at(end)
            if math.isfinite(sum(end)):
                if near.clear(*known, *after, length):
                    self._known = after
                    return
                if self._crossed(planes, start, time, known, after, length):
                    return
        self._located(np.array(start), time, values, length)

    def _crossed(
        self, planes: _Planes, start: list[float], time: float, known: Looked, after: Looked, length: float
    ) -> bool:
        """Repeat the step with one crossing inside.

        One switch was passed and nothing else was met: its mode changes on the surface. Returns False where the step
        failed. Rates that are linear in the states are the same on both sides, so a crossing never becomes a sliding.
        """
        near = self._near
        assert near is not None
        index = near.passed(*known, *after, length)
        if index is None:
            return False
        first, last = known[0][index], after[0][index]
        instant = length * first / (first - last)
        # Newton's method for the instant: the function is linear in the states, so a few iterations reach rounding.
        for _ in range(8):
            self._restart(start, time)
            if self._taylor(instant)[1] != instant:
                return False
            functions, rates = planes.at(self._view.tolist())
            change = functions[index] / rates[index] if rates[index] else math.inf
            if abs(change) <= 1e-14 * length:
                break
            instant -= change
            if not 0 < instant < length:
                return False
        else:
            return False
        self._pars[near.first + index] = math.copysign(1.0, last)
        rest = length - instant
        if self._taylor(rest)[1] != rest:
            return False
        end = self._view.tolist()
        found = planes.at(end)
        # From the surface on it counts as being on the far side.
        functions[index] = math.copysign(math.inf, last)
        if not math.isfinite(sum(end)) or not near.clear(functions, rates, *found, rest):
            return False
        self._known = found
        return True

    def _restart(self, state: list[float], time: float) -> None:
        for i, value in enumerate(state):
            self._view[i] = value
        self._ta.time = time

    def _careful(self, values: Array | Numbers, length: float) -> None:
        near, pars, state = self._near, self._pars, self._state
        start, time = state.copy(), self._ta.time
        if near is not None and not self.system.walls:
            functions, rates = near(start, time, pars)
            # A mode changes the functions around it and the margins: evaluate them again at every level.
            inside = near.load(functions, pars)
            for _ in range(near.levels):
                functions, rates = near(start, time, pars)
                inside = near.load(functions, pars)
            if inside and self._plain(length):
                after, later = near(state, time + length, pars)
                if near.clear(functions, rates, after, later, length):
                    return
        self._located(start, time, values, length)

    def _located(self, start: Array, time: float, values: Array | Numbers, length: float) -> None:
        """Make the step by the engine that locates events."""
        assert self._engine is not None
        self._runtime[self._first : self._last] = values
        self._state[:] = self._engine.run(start, None, time, time + length, self._runtime).state
        self._ta.time, self._known = time + length, None

    def _plain(self, length: float) -> bool:
        """Make a Taylor step without locating surfaces.

        Returns False when the state is no longer finite.
        """
        outcome, done = self._taylor(length)
        if outcome == _whole:
            return True  # a state that is not finite has another outcome
        whole = done == length
        if outcome == hy.taylor_outcome.success and not whole:
            whole = self._ta.propagate_for(length - done, max_steps=1000)[0] == _whole
        return whole and bool(np.isfinite(self._state).all())

    def _finish(self, outcome: hy.taylor_outcome, length: float, done: float) -> None:
        """Make the rest of a long step.

        The step was too long for one Taylor polynomial.
        """
        ta = self._ta
        if outcome == hy.taylor_outcome.success:
            outcome = ta.propagate_for(length - done, max_steps=1000)[0]
            if outcome == _whole:
                return
        place = described(self.system, ta.state[: self.size])
        raise FlowError(
            f"The trajectory left the finite numbers near t = {ta.time:.6g} with {place}: it diverges, or the "
            "equations are singular there."
        )

    def release(self) -> None:
        """Copy the state out of the integrator.

        Other steppers of the same equations share the integrator.
        """
        self._state = np.array(self._state)


class _Near:
    """Switching functions and margins with their rates.

    The margins of terms that end follow the switching functions. They are evaluated at one state, and show whether a
    step kept clear of their zeros.

    fixed: parameters that do not change from step to step.
    """

    def __init__(self, system: System, domain: Domain, fixed: frozenset[sp.Symbol]):
        table = full_table(system)
        functions = [*(s.function for s in system.switches), *(e.margin for e in domain.watched)]
        rates = [
            sp.diff(s, time_symbol)
            + sum(sp.diff(s, x) * f for x, f in zip(system.states, system.smooth_rates, strict=True))
            for s in functions
        ]
        written = [*functions, *rates]
        expressions = [to_heyoka(e, table) for e in written]
        # Linear in the states, with coefficients that stay as they are from step to step.
        self.flat = all(
            e.free_symbols <= {*system.states, *fixed}
            and all(sp.diff(e, x).free_symbols <= fixed for x in system.states)
            for e in written
        )
        self.states = len(system.states)
        self.count, self.switches, self.first = len(functions), len(system.switches), len(system.parameters)
        modes = {s.mode for s in system.switches}
        held = any(not modes.isdisjoint(f.free_symbols) for f in functions)
        self.levels = len(levels(system)) if held else 0
        self._evaluate = hy.cfunc(expressions, vars=[table[s] for s in system.states])

    def __call__(self, state: Array, time: float, pars: Array) -> Looked:
        arguments: FunctionArguments = {}
        if self._evaluate.nparams:
            arguments["pars"] = pars[: self._evaluate.nparams]
        if self._evaluate.is_time_dependent:
            arguments["time"] = time
        values = self._evaluate(state, **arguments).tolist()
        return values[: self.count], values[self.count :]

    def planes(self, pars: Array) -> _Planes | None:
        """Return all functions and rates as a + b·x.

        The parameters are given. None where the functions are not linear. A step then needs no compiled call.
        """
        if not self.flat:
            return None
        first = np.concatenate(self(np.zeros(self.states), 0.0, pars))
        rows = [np.concatenate(self(unit, 0.0, pars)) - first for unit in np.eye(self.states)]
        return _Planes(first.tolist(), np.column_stack(rows).tolist(), self.count)

    def load(self, functions: list[float], pars: Array) -> bool:
        """Set the modes by the signs.

        Returns False on a surface, or outside the domain of a term.
        """
        for i, value in enumerate(functions[: self.switches]):
            if value == 0.0:
                return False
            pars[self.first + i] = 1.0 if value > 0 else -1.0
        return self.count == self.switches or all(value > 0.0 for value in functions[self.switches :])

    def clear(
        self, before: list[float], slopes: list[float], after: list[float], later: list[float], length: float
    ) -> bool:
        """Return whether the step met no surface.

        No sign changed, and no function turned round close enough to zero to have touched it.
        """
        for s0, r0, s1, r1 in zip(before, slopes, after, later, strict=True):
            if not s0 * s1 > 0:
                return False
            approaches, leaves = s0 * r0 < 0, s1 * r1 > 0
            if approaches and leaves and abs(s0) < length * abs(r0):
                return False
        return True

    def passed(
        self, before: list[float], slopes: list[float], after: list[float], later: list[float], length: float
    ) -> int | None:
        """Return the one switch whose sign changed.

        Its function moves one way at both ends, and all others stayed clear; None otherwise.
        """
        changed = [i for i in range(self.switches) if before[i] * after[i] < 0]
        if len(changed) != 1:
            return None
        index = changed[0]
        others = [i for i in range(self.count) if i != index]
        one_way = slopes[index] * after[index] > 0 and later[index] * after[index] > 0
        old, old_rates, new, new_rates = ([values[i] for i in others] for values in (before, slopes, after, later))
        return index if one_way and self.clear(old, old_rates, new, new_rates, length) else None


class _Planes:
    """Linear switching functions and margins with their rates.

    They are linear in the states and evaluated without a compiled call.
    """

    def __init__(self, constants: list[float], slopes: list[list[float]], count: int):
        self.rows = [(c, [(i, s) for i, s in enumerate(row) if s]) for c, row in zip(constants, slopes, strict=True)]
        self.count = count

    def at(self, x: list[float]) -> Looked:
        """Return functions and rates at a state."""
        values = []
        for value, row in self.rows:
            for i, slope in row:
                value += slope * x[i]
            values.append(value)
        return values[: self.count], values[self.count :]
