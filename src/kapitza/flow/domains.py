"""Ends of the terms of the rates.

Roots, logarithms and inverse functions lose their real value there, and poles have no value.
A Taylor step passes the end of a root where the solution itself is analytic, as (1 - t/2)² is for x' = -√x, and goes on
along the other branch. So something that changes its sign there is watched: √b where b is a double zero, b itself
where it is a zero of odd order. At a logarithm, a pole or a simple zero of b the steps shrink to nothing; then the end
that is near gives the failure its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import heyoka as hy
import numpy as np
import sympy as sp
from sympy.logic.boolalg import Boolean

from kapitza.base.arrays import Array
from kapitza.errors import FlowError
from kapitza.flow.engine import Edge, System
from kapitza.model import Evaluator, Expression, Step, Switch, compile_derivatives, compile_expressions, vanishes
from kapitza.model import time as time_symbol

Condition = Boolean

NEAR_AN_END = 1e-6
"""A motion that fails with a margin below this, relative to its terms, fails at that end."""

ROUNDING = 1e-13
"""Largest negative margin, relative to its terms, that may be rounding."""

INSIDE = 1e-13
"""Seconds by which a term is entered: the order of a Taylor step times the logarithm of its inverse must not overflow.
The shift is of the size of rounding."""

SMALLEST = 1e-14
"""A margin at which a term is entered at no speed. Below the tolerance of the integrator, which is absolute for small
states, its error would lead out again."""

BEYOND = 1e-25
"""Margin by which a motion that stays at an end is put beyond it."""

WEIGHT = sp.Float("1e-30")
"""Weight of the function watched at an end. Where it is singular, as √b at a simple zero, it must not shorten steps."""

LARGEST_DENOMINATOR = 64
"""Largest denominator of a fraction that a decimal exponent is taken for."""


def edges_of(
    steps: tuple[Step, ...], rates: tuple[sp.Expr, ...], states: tuple[sp.Symbol, ...], switches: tuple[Switch, ...]
) -> tuple[Edge, ...]:
    """Return all ends of terms in steps and rates.

    Steps and rates are written with modes.
    """
    search = _Search({*states, time_symbol}, {s.mode: i for i, s in enumerate(switches)})
    for name, expression in steps:
        search.look(expression)
        if not search.moving.isdisjoint(expression.free_symbols):
            search.moving.add(name)
    for expression in rates:
        search.look(expression)
    return tuple(sorted(search.found, key=_order))


def _order(edge: Edge) -> tuple[str, ...]:
    return sp.sstr(edge.term), sp.sstr(edge.margin), sp.sstr(edge.watched)


class End(NamedTuple):
    """An end of a term without its guards.

    The fields are those of `Edge`.
    """

    margin: Expression
    watched: Expression | None = None
    exponent: Expression | None = None
    pole: bool = False


class _Search:
    """Search for the ends of terms in expressions.

    A term inside a Piecewise counts while its condition, which depends on modes, holds.
    """

    def __init__(self, moving: set[sp.Symbol], numbers: dict[sp.Symbol, int]):
        self.moving, self.numbers = moving, numbers
        self.found: set[Edge] = set()
        self.cut: set[sp.Basic] = set()
        self._seen: set[tuple[sp.Basic, Condition]] = set()

    def look(self, expression: sp.Expr) -> None:
        """Find the ends in one expression."""
        # An angle by atan2 jumps by a full turn, which its sine and cosine do not notice.
        self.cut = {
            angle
            for angle in expression.atoms(sp.atan2)
            if not vanishes(expression.xreplace({angle: angle + 2 * sp.pi}) - expression)
        }
        self._seen.clear()
        self.walk(expression, sp.true)

    def walk(self, node: sp.Basic, holds: Condition) -> None:
        if (node, holds) in self._seen or self.moving.isdisjoint(node.free_symbols):
            return
        self._seen.add((node, holds))
        if isinstance(node, sp.Piecewise):
            before = holds
            for case in node.args:
                self.walk(case.expr, sp.And(before, case.cond))
                before = sp.And(before, sp.Not(case.cond))
            return
        if isinstance(node, sp.Expr):
            for end in _ends(node):
                self._keep(node, end, holds)
            if node in self.cut:
                self._keep(node, _cut_of(node), holds)
        for argument in node.args:
            self.walk(argument, holds)

    def _stays_away(self, margin: sp.Expr) -> bool:
        """Return whether a margin never vanishes at real states."""
        # SymPy does not call 1 + (x/k)**2 positive, since k may be zero; in a model that runs, 1/k is a real number.
        return bool(margin.replace(self._is_fixed_reciprocal, lambda _: sp.Dummy(real=True)).is_nonzero)

    def _is_fixed_reciprocal(self, node: sp.Basic) -> bool:
        return isinstance(node, sp.Pow) and bool(node.exp.is_negative) and self.moving.isdisjoint(node.free_symbols)

    def _keep(self, term: sp.Expr, end: End, holds: Condition) -> None:
        margin, watched = end.margin, end.watched
        if self.moving.isdisjoint(margin.free_symbols) or self._stays_away(margin):
            return
        if holds is not sp.true:
            margin = sp.Piecewise((margin, holds), (1, True))
            watched = None if watched is None else sp.Piecewise((watched, holds), (1, True))
        watched = None if watched is None else WEIGHT * watched
        guards = tuple(sorted(i for mode, i in self.numbers.items() if mode in holds.free_symbols))
        self.found.add(Edge(term, margin, watched, guards, end.exponent, end.pole))


def _cut_of(angle: Expression) -> End:
    """Return the end of atan2(y, x) at its cut.

    The cut is y = 0 with x < 0, where √(x² + y²) + x = 0.
    """
    across, along = angle.args
    margin = sp.sqrt(along**2 + across**2) + along
    return End(margin, sp.sqrt(margin))


def _ends(node: sp.Expr) -> Iterator[End]:
    """Yield the ends of one term."""
    inside = node.args[0] if node.args else node
    if isinstance(node, sp.Pow):
        yield from _ends_of_power(node)
    elif isinstance(node, sp.log):
        yield End(inside)
    elif isinstance(node, (sp.asin, sp.acos)):
        for margin in (1 - inside, 1 + inside):
            yield End(margin, sp.sqrt(margin))
    elif isinstance(node, sp.acosh):
        yield End(inside - 1, sp.sqrt(inside - 1))
    elif isinstance(node, sp.atanh):
        for margin in (1 - inside, 1 + inside):
            yield End(margin)
    elif isinstance(node, sp.tan):
        yield End(sp.cos(inside), pole=True)


def _ends_of_power(node: sp.Pow) -> Iterator[End]:
    base, exponent = node.base, node.exp
    if base.is_number:
        return
    if exponent.is_integer:
        if not exponent.is_nonnegative:
            yield End(base, pole=True)
        return
    if not exponent.is_number:
        # Its value may be any: both signs are watched, and let pass where it is a whole number.
        yield End(base, base, exponent)
        yield End(base, node, exponent)
        return
    near = Fraction(str(sp.N(exponent, 17))).limit_denominator(LARGEST_DENOMINATOR)
    # b = τⁿ has an analytic power only where n is a multiple of the denominator. An even one leaves b positive, and
    # the power changes its sign; with an odd one b does, or nothing.
    yield End(base, base ** (abs(exponent) % 1) if near.denominator % 2 == 0 else base)


class Domain:
    """Numerical values of the ends of terms.

    They are evaluated at one state with its modes. One object serves all threads.
    """

    def __init__(self, system: System):
        self.system, self.size = system, len(system.states)
        self._modes = tuple(s.mode for s in system.switches)
        self.watched = tuple(e for e in system.edges if e.watched is not None)
        moved = set(self._modes)
        self._entered = [
            k for k, e in enumerate(system.edges) if not e.pole and not moved.isdisjoint(e.margin.free_symbols)
        ]

    def __deepcopy__(self, memo: dict[int, object]) -> Domain:
        # Integrators copy their callbacks; nothing here changes.
        return self

    @property
    def entered(self) -> list[Edge]:
        """Return the ends whose margins hold modes."""
        return [self.system.edges[k] for k in self._entered]

    @property
    def is_entered(self) -> bool:
        """Return whether modes may lead into a domain.

        A change of modes switches a term on, and the motion enters the domain of the term.
        """
        return bool(self._entered)

    @property
    def is_simple(self) -> bool:
        """Return whether the margins hold no named steps.

        They are then written out in the states.
        """
        named = {name for name, _ in self.system.smooth_steps}
        return all(named.isdisjoint(e.margin.free_symbols) for e in self.watched)

    @cached_property
    def _inputs(self) -> tuple[sp.Symbol, ...]:
        return (*self.system.states, time_symbol, *self.system.parameters, *self._modes)

    @cached_property
    def _margins(self) -> Evaluator:
        by, steps = (*self.system.states, time_symbol), self.system.smooth_steps
        return compile_derivatives([e.margin for e in self.system.edges], by, self._inputs, steps=steps)

    @cached_property
    def _rates(self) -> Evaluator:
        return compile_expressions(self.system.smooth_rates, self._inputs, steps=self.system.smooth_steps)

    @cached_property
    def _exponents(self) -> Evaluator:
        exponents = [sp.Rational(1, 2) if e.exponent is None else e.exponent for e in self.system.edges]
        return compile_expressions(exponents, self._inputs, steps=self.system.smooth_steps)

    @cached_property
    def _activity(self) -> Evaluator:
        margins = [e.margin if e.guards else None for e in self.system.edges]
        active = [
            sp.Piecewise((1, m.args[0].cond), (0, True)) if isinstance(m, sp.Piecewise) else sp.Integer(1)
            for m in margins
        ]
        return compile_expressions(active, self._modes)

    def _table(self, point: Array) -> tuple[Array, Array]:
        """Return the margins and their derivatives.

        The margins are (e,), the derivatives by states and time (e, n + 1).
        """
        found = self._margins(point)
        count = len(self.system.edges)
        return found[:count], found[count:].reshape(count, self.size + 1)

    def _point(self, state: Array, time: float, runtime: Array) -> Array:
        return np.concatenate((state, (time,), runtime[: len(self._inputs) - self.size - 1]))

    def passes(self, edge: Edge, state: Array, time: float, runtime: Array) -> bool:
        """Return whether the motion passes this end.

        The end is not one where the exponent is a whole number, or where the root is that of a truncated series.
        """
        k, point = self.system.edges.index(edge), self._point(state, time, runtime)
        margins, slopes = self._table(point)
        size = 1.0 + float(np.abs(slopes[k]) @ np.append(np.abs(state), abs(time)))
        if margins[k] > NEAR_AN_END * size:
            return True
        return edge.exponent is not None and float(self._exponents(point)[k]).is_integer()

    def quiet_side(self, switch: int, modes: Array) -> float:
        """Return the mode that switches the ending terms off.

        These are the terms that end at the surface of the switch; 0 when there are none.
        """
        own = [k for k, e in enumerate(self.system.edges) if switch in e.guards and not e.pole]
        if not own:
            return 0.0
        above, below = modes.copy(), modes.copy()
        above[switch], below[switch] = 1.0, -1.0
        active = [self._activity(m)[own].sum() for m in (above, below)]
        return float(np.sign(active[1] - active[0]))

    def inside(self, state: Array, time: float, runtime: Array) -> tuple[Array, float]:
        """Move a state into the domains of all terms.

        The place is the same to rounding, and all terms that the modes have just switched on have a value there.
        Those that they leave out have none. runtime: the parameters, then the modes. A crossing is located to rounding,
        on either side.
        """
        if not self._entered:
            return state, time
        for k in self._entered:
            state = self._outside(k, state, time, runtime)
            margins, slopes = self._table(self._point(state, time, runtime))
            place = np.append(np.abs(state), abs(time))
            own = float(margins[k])
            size = float(np.abs(slopes[k]) @ (1.0 + place))
            floor = max(SMALLEST, 4e-16 * float(np.abs(slopes[k]) @ place))
            if own > max(floor, INSIDE * size) or own < -ROUNDING * (1.0 + size):
                continue
            state, time = _moved(state, time, slopes[k], floor - own)
            field = self._rates(self._point(state, time, runtime))
            speed = float(np.abs(slopes[k] @ np.append(field, 1.0)))
            if np.isfinite(speed) and INSIDE * speed > floor and INSIDE * speed > own:
                state, time = _moved(state, time, slopes[k], INSIDE * speed - max(own, floor))
        return state, time

    def _outside(self, k: int, state: Array, time: float, runtime: Array) -> Array:
        """Move a state just beyond a term's end.

        The state is on the end, and its modes leave the term out.
        An event function that is zero for a while would be met without end, and one on the wrong side never.
        """
        first = len(self.system.parameters)
        for i in self.system.edges[k].guards:
            modes = runtime[first : first + len(self._modes)]
            if modes[i] != self.quiet_side(i, modes):
                continue
            there = runtime.copy()
            there[first + i] = -modes[i]
            margins, slopes = self._table(self._point(state, time, there))
            reach = float(np.abs(slopes[k, :-1]) @ np.abs(state))
            floor = max(BEYOND, 4e-16 * reach)
            if slopes[k, :-1].any() and -floor < margins[k] <= ROUNDING * (1.0 + reach):
                state, _ = _moved(state, time, slopes[k], -floor - float(margins[k]))
        return state

    def nearest(self, state: Array, time: float, runtime: Array) -> Edge | None:
        """Return the end at which a motion fails.

        None where no end is near this state.
        """
        with np.errstate(all="ignore"):
            margins, slopes = self._table(self._point(state, time, runtime))
            sizes = 1.0 + np.abs(slopes) @ np.append(np.abs(state), abs(time))
            poles = np.array([e.pole for e in self.system.edges])
            # A pole is reached from both sides, the end of a domain from inside only.
            lacking = np.where(poles, np.abs(margins), np.maximum(margins, 0.0))
            share = lacking / np.where(np.isfinite(sizes), sizes, 1.0)
        share = np.where(np.isfinite(share), share, np.inf)
        if not share.size or share.min() > NEAR_AN_END:
            return None
        return self.system.edges[int(share.argmin())]

    def named(self, edge: Edge) -> str:
        """Return the term as written in the equations.

        The signs of the switches replace their modes.
        """
        signs = {s.mode: sp.sign(s.function) for s in self.system.switches}
        term = edge.term
        for _ in range(len(signs)):
            if term.free_symbols.isdisjoint(signs):
                break
            term = term.xreplace(signs)
        return str(term)

    def refusal(self, edge: Edge, place: str) -> FlowError:
        """Return the error at the end of a term.

        place: time and state.
        """
        if edge.pole:
            return FlowError(
                f"The trajectory reaches a pole of {self.named(edge)} at {place}: the rates grow without bound there, "
                "or are 0/0. End the time before, start elsewhere, or write a quotient that is 0/0 without its common "
                "factor."
            )
        if edge.exponent is not None:
            return FlowError(
                f"The trajectory reaches the end of the domain of {self.named(edge)} at {place}: with the parameter "
                f"{edge.exponent} as exponent the base must be positive. Write a whole exponent as a number, or "
                "abs(...) around the base."
            )
        return FlowError(
            f"The trajectory reaches the end of the domain of {self.named(edge)} at {place}: beyond, it has no real "
            "value or another branch. End the time before, say with max(..., 0) or Piecewise how the law goes on, or "
            "smooth it, sqrt(x**2 + a**2) for instance."
        )


def _moved(state: Array, time: float, slope: Array, change: float) -> tuple[Array, float]:
    """Return the nearest place with a larger margin.

    The margin grows by `change`. The states are moved, or the time where the margin depends on no state.
    """
    normal = slope[:-1]
    if normal.any():
        return state + normal * (change / float(normal @ normal)), time
    return (state, time + change / slope[-1]) if slope[-1] else (state, time)


class LastFinite:
    """Callback that keeps the last finite state.

    A failed run is repeated with it to see where it fails.
    """

    def __init__(self, size: int, state: Array, time: float):
        self.size, self.state, self.time = size, np.array(state), time

    def __call__(self, integrator: hy.taylor_adaptive_dbl) -> bool:
        if np.isfinite(integrator.time) and np.isfinite(integrator.state[: self.size]).all():
            self.state, self.time = integrator.state[: self.size].copy(), integrator.time
        return True
