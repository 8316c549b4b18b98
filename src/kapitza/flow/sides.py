"""Sides of the switching surfaces at a state.

The function of a switch may hold the modes of switches inside it (abs(abs(x) - a)), so modes are found from the inside
out, at every start and at every crossing anew: nothing of an earlier run is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import heyoka as hy
import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kapitza.base.arrays import Array, Flags
from kapitza.errors import EventError
from kapitza.flow.compiled import FunctionArguments, full_table
from kapitza.flow.domains import Domain
from kapitza.flow.engine import Edge, System, described
from kapitza.model import FLAT, Expression, to_heyoka
from kapitza.model import time as time_symbol

ON_SURFACE = 1e-13
"""A switching function this close to zero, relative to the size of its terms, is on its surface."""

PERHAPS_ON_SURFACE = 1e-7
"""Farther away than this, relative to the state, the slopes need not be evaluated."""

TOUCH = 1e-7
"""At rates below this, relative to the state, a surface may be touched and not crossed."""

WRONG_SIDE = 1e-9
"""A switch this far on the side that contradicts its mode, relative to the state, is an error."""

SHORT = 120
"""Operations up to which rates cost less in plain numbers than the call of a compiled function."""

MOMENTS = (1e-5, 1e-3)
"""Times ahead, in the time scale of the state, at which the side is evaluated where the rate does not decide it."""


class Sides:
    """Modes of the switches at a state.

    A mode is the sign of its function; on a surface it is the side towards which the motion leaves.
    Columns in every method: states (n, N), times (N,), runtime (npar + switches, N) with the modes at the end.
    """

    def __init__(self, system: System):
        self.switches, self.size = system.switches, len(system.states)
        self.count, self.first = len(system.switches), len(system.parameters)
        self._levels, self._probes = levels(system), Probes(system)
        table = full_table(system)
        slopes = [[sp.diff(s.function, x) for x in (*system.states, time_symbol)] for s in system.switches]
        rates = [row[-1] + sum(d * f for d, f in zip(row, system.smooth_rates, strict=False)) for row in slopes]
        inputs = [table[s] for s in system.states]

        def compiled(expressions: Iterable[Expression]) -> hy.cfunc_dbl:
            return hy.cfunc([to_heyoka(e, table) for e in expressions], vars=inputs)

        self._functions = compiled(s.function for s in system.switches)
        self._rates = compiled(rates)
        self._in_numbers = _in_numbers(system, rates)
        self._slopes = compiled(d for row in slopes for d in row)
        self._field = compiled(system.smooth_rates)
        # Switches on a single state, the usual case, need no compiled call.
        self._rows = [system.states.index(s.function) if s.function in system.states else -1 for s in system.switches]
        self._direct = all(row >= 0 for row in self._rows)
        self._domain, self._system = Domain(system), system
        self.has_entries = self._domain.is_entered

    def functions(self, states: Array, times: Array, runtime: Array) -> Array:
        """Return the switching functions, (switches, N)."""
        if self._direct:
            return states[self._rows]
        return self._evaluate(self._functions, states, times, runtime)

    def modes(self, states: Array, times: Array, runtime: Array, forward: Array | float) -> tuple[Array, Flags | None]:
        """Return the modes (switches, N) of a start.

        Also where the motion stays on a surface; None where it stays on none.
        Resting means that the rate does not lead off the surface: it stays there, or leaves it by the curvature of the
        path, in the modes given. The modes that `runtime` brings along are not used.
        """
        runtime = runtime[: self.first + self.count].copy()
        runtime[self.first :] = 1.0
        values = self._by_sign(states, times, runtime)
        size = np.maximum(1.0, np.abs(states).max(axis=0))
        # The usual case: far from every surface no slopes are needed.
        if (np.abs(values) > PERHAPS_ON_SURFACE * size).all():
            return runtime[self.first :], None
        near = self._near(values, states, times, runtime)
        if not near.any():
            return runtime[self.first :], None
        resting = self._leave(states, times, runtime, forward)
        return runtime[self.first :], resting if resting.any() else None

    def cross(self, state: Array, time: float, runtime: Array, crossed: int, side: float, forward: float) -> None:
        """Set the modes at a crossing, in place.

        One switch crosses to the given side.
        All the others are evaluated as well: two events at one instant are reported as one, and the functions of
        switches around the crossed one may have changed.
        """
        modes = runtime[self.first : self.first + self.count]
        if side:
            modes[crossed] = side
        if self._domain.is_entered:
            state, time = self._domain.inside(state, time, runtime)
        if self.count == 1 or self._domain.is_entered:
            fast = self._is_fast(state, time, runtime, crossed)
            if side and fast and self.count == 1:
                return
            if not fast:
                self._domain.require_one_way(state, time, runtime, self._described(state, time))
        column = runtime[: self.first + self.count, None].copy()
        where = state[:, None], np.array([time])
        values = self._evaluate(self._functions, *where, column)
        near = self._near(values, *where, column)
        near[crossed] = True
        self._leave(*where, column, forward, crossed, side)
        modes[:] = column[self.first :, 0]

    def _is_fast(self, state: Array, time: float, runtime: Array, crossed: int) -> bool:
        """Return whether the surface is crossed and not touched.

        The rate at the state is then too large for a touch.
        Evaluated at every crossing, where the call of a compiled function would be most of the cost: short rates are
        evaluated in plain numbers.
        """
        place = state.tolist()
        scale = max(1.0, *map(abs, place))
        if self._in_numbers is not None:
            try:
                rate = self._in_numbers(*place, time, *runtime[: self.first + self.count].tolist())
                return abs(rate[crossed]) > TOUCH * scale
            except (ArithmeticError, ValueError):
                pass  # outside the domain of a term: the compiled function decides
        where = state[:, None], np.array([time])
        column = runtime[: self.first + self.count, None]
        return abs(float(self._evaluate(self._rates, *where, column)[crossed, 0])) > TOUCH * scale

    def refuse_repetition(self, switch: int, state: Array, time: float) -> None:
        """Refuse a surface met repeatedly at one instant."""
        raise EventError(
            f"The surface {self.switches[switch].function} = 0 is met again and again at {self._described(state, time)}"
            ", and the motion does not continue. Shift the start, or smooth the switches that meet there."
        )

    def _described(self, state: Array, time: float) -> str:
        return f"t = {time:.6g} with {described(self._system, state)}"

    def _by_sign(self, states: Array, times: Array, runtime: Array) -> Array:
        """Set the modes by the signs of the functions.

        The modes in `runtime` are set from the inside out. Returns the values of the functions.
        """
        values = self.functions(states, times, runtime)
        for number, level in enumerate(self._levels):
            if number:
                values = self.functions(states, times, runtime)
            runtime[self.first + level] = np.where(values[level] >= 0, 1.0, -1.0)
        return values

    def _leave(
        self, states: Array, times: Array, runtime: Array, forward: Array | float, crossed: int = -1, side: float = 0.0
    ) -> Flags:
        """Set the modes to the sides the motion enters.

        The modes are set from the inside out. Returns where the motion does not leave its surface.
        """
        resting = np.zeros((self.count, states.shape[1]), bool)
        for level in self._levels:
            values = self.functions(states, times, runtime)
            near = self._near(values, states, times, runtime)
            if crossed >= 0:
                near[crossed] = True
            quieted, held = self._quieten(near, level, runtime), np.zeros_like(near)
            leaving = forward * self._evaluate(self._rates, states, times, runtime)
            size = np.maximum(1.0, np.abs(states).max(axis=0))
            tied = near & (np.abs(leaving) <= TOUCH * size)
            if tied[level].any():
                # A surface that is touched is located before or after the turning point: the curved path decides.
                ahead, still = self._ahead(states, times, runtime, forward)
                stopped = tied & (np.abs(leaving) <= ON_SURFACE * size)
                leaving = np.where(tied & ~still, ahead, leaving)
                if crossed in level and still[crossed, 0] and side and not quieted[crossed, 0]:
                    leaving[crossed] = side
                    stopped[crossed] = False
                resting[level] = stopped[level]
                held = stopped & still
            shown = np.where(near, leaving, values)
            # A state that does not leave its surface stays where the terms that end there are switched off.
            shown = np.where(held & quieted, runtime[self.first : self.first + self.count], shown)
            runtime[self.first + level] = np.where(shown[level] >= 0, 1.0, -1.0)
            for i, column in zip(*np.nonzero(near), strict=True):
                if i in level and self._is_flat(i, states[:, column], float(times[column]), runtime[:, column]):
                    runtime[self.first + i, column] = 0.0
                    resting[i, column] = False
        return resting

    def _quieten(self, near: Flags, level: NDArray[np.intp], runtime: Array) -> Flags:
        """Switch off terms that end at reached surfaces.

        They have no slopes there. The modes are set in place.
        """
        done = np.zeros_like(near)
        if not self._domain.is_entered:
            return done
        for i, column in zip(*np.nonzero(near), strict=True):
            if i in level:
                quiet = self._domain.quiet_side(int(i), runtime[self.first : self.first + self.count, column])
                runtime[self.first + i, column] = quiet or runtime[self.first + i, column]
                done[i, column] = quiet != 0.0
        return done

    def enter(self, state: Array, time: float, runtime: Array) -> float:
        """Move a state (n,), in place, into all domains.

        The domains are those of all terms that the modes have switched on. Returns the time of the moved state.
        """
        if not self._domain.is_entered:
            return time
        state[:], later = self._domain.inside(state.copy(), time, runtime)
        return later

    def pass_edge(self, edge: Edge, state: Array, time: float, runtime: Array, forward: float) -> bool:
        """Continue at the end of a term, if possible.

        The model must define the continuation. The modes are set in place.
        A switch that leaves the term out is on its surface there: the motion stays on it, passes to the other side, or
        touches it and comes back.
        """
        if self._domain.passes(edge, state, time, runtime):
            return True
        column = runtime[: self.first + self.count, None].copy()
        where = state[:, None], np.array([time])
        near = self._near(self.functions(*where, column), *where, column)[:, 0]
        asked = [i for i in edge.guards if near[i]]
        if len(asked) != 1:
            # Just before a guard is crossed the series of the term is at its end, and the term is not.
            return bool(edge.guards) and not asked
        i = self.first + asked[0]
        active = column[i, 0]
        column[i] = -active
        ahead, still = self._ahead(*where, column, forward)
        value = float(ahead[asked[0], 0])
        if not np.isfinite(value):
            return False
        if not still[asked[0], 0] and active * value > 0:
            return True
        runtime[i] = -active
        return True

    def _ahead(self, states: Array, times: Array, runtime: Array, forward: Array | float) -> tuple[Array, Flags]:
        """Return the sides a moment later, and open cases.

        The path is followed with its curvature. A case is open where the functions are still zero to rounding.
        x - sin(x), the difference in max(x, sin(x)), is left at third order: while the value is within rounding, the
        rate shows the side long before.
        """
        shown, still = np.full((self.count, times.size), np.nan), np.ones((self.count, times.size), bool)
        for part in MOMENTS:
            place = self._later(states, times, runtime, forward * part)
            values = self.functions(*place, runtime)
            near = self._near(values, *place, runtime)
            found = np.where(near, forward * self._evaluate(self._rates, *place, runtime), values)
            size = np.maximum(1.0, np.abs(place[0]).max(axis=0))
            finite = np.isfinite(found)
            shown = np.where(still & finite, found, shown)
            still &= ~finite | (near & (np.abs(found) <= ON_SURFACE * size))
            if not still.any():
                break
        return shown, still

    def _later(self, states: Array, times: Array, runtime: Array, part: Array | float) -> tuple[Array, Array]:
        """Return the place a short time later.

        The time is a part of the time scale of the state; one step of fourth order is made.
        """
        # The classical Runge-Kutta method.
        first = self._evaluate(self._field, states, times, runtime)
        moment = part * (1.0 + np.abs(states).max(axis=0)) / (1.0 + np.abs(first).max(axis=0))
        half = times + moment / 2
        second = self._evaluate(self._field, states + moment / 2 * first, half, runtime)
        third = self._evaluate(self._field, states + moment / 2 * second, half, runtime)
        last = self._evaluate(self._field, states + moment * third, times + moment, runtime)
        return states + moment / 6 * (first + 2 * second + 2 * third + last), times + moment

    def _is_flat(self, switch: int, state: Array, time: float, runtime: Array) -> bool:
        """Return whether a function vanishes all around.

        It is zero at this state; the modes are the present ones.
        """
        if not self.switches[switch].can_vanish:
            return False
        states, times = self._probes.around(state, time)
        columns = np.repeat(runtime[:, None], times.size, axis=1)
        values = self.functions(states, times, columns)[switch]
        return bool((np.abs(values) <= FLAT * (1.0 + np.abs(states).max(axis=0))).all())

    def _near(self, values: Array, states: Array, times: Array, runtime: Array) -> Flags:
        """Return where a function is zero to rounding.

        The rounding is that of the largest values of its terms.
        """
        slopes = np.abs(self._evaluate(self._slopes, states, times, runtime)).reshape(self.count, self.size + 1, -1)
        place = 1.0 + np.abs(np.vstack((states, times[None])))
        return np.abs(values) <= ON_SURFACE * np.maximum(1.0, np.einsum("scn,cn->sn", slopes, place))

    def stays(self, states: Array, times: Array, runtime: Array, chosen: Flags) -> bool:
        """Return whether chosen switches stay on their surfaces.

        chosen: (switches,). All columns are compared.
        """
        runtime = np.broadcast_to(runtime[: self.first + self.count], (self.first + self.count, times.size))
        return bool(self._near(self.functions(states, times, runtime), states, times, runtime)[chosen].all())

    def check(self, states: Array, times: Array, runtime: Array, tolerance: float = 0.0) -> None:
        """Refuse a state that contradicts its modes.

        A switch on the wrong side means that a crossing was lost.
        tolerance: of the integration; a distance that it explains is not evidence. A function with the mode 0 vanishes
        altogether.
        """
        modes = runtime[self.first : self.first + self.count]
        values = self.functions(states, times, runtime)
        signed = np.where(modes == 0.0, -np.abs(values), modes * values)
        wrong = signed < -max(WRONG_SIDE, 1e3 * tolerance) * np.maximum(1.0, np.abs(states).max(axis=0))
        if wrong.any():
            which, column = (int(i[0]) for i in np.nonzero(wrong))
            raise EventError(
                f"At t = {times[column]:.6g} the switching function {self.switches[which].function} is "
                f"{values[which, column]:.3g} while its mode is {modes[which, column]:+.0f}: a crossing was lost. "
                "Tighten the tolerance of the flow."
            )

    def _evaluate(self, function: hy.cfunc_dbl, states: Array, times: Array, runtime: Array) -> Array:
        arguments: FunctionArguments = {}
        if function.nparams:
            arguments["pars"] = np.ascontiguousarray(runtime[: function.nparams])
        if function.is_time_dependent:
            arguments["time"] = np.ascontiguousarray(times)
        return function(np.ascontiguousarray(states), **arguments)


def _in_numbers(system: System, rates: Sequence[sp.Expr]) -> Callable[..., Sequence[float]] | None:
    """Return the rates as a function of plain numbers.

    The numbers are states, time, parameters, modes. None where the rates are long.
    """
    known = [*system.states, time_symbol, *system.parameters, *(switch.mode for switch in system.switches)]
    if sum(int(sp.count_ops(rate)) for rate in rates) > SHORT or any(r.free_symbols - set(known) for r in rates):
        return None
    names = {s: sp.Dummy(f"v{i}") for i, s in enumerate(known)}
    return sp.lambdify(list(names.values()), [rate.xreplace(names) for rate in rates], "math", cse=True)


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
