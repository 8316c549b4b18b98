"""Limits of steps that the last coefficients of a Taylor series do not show.

Terms may be flat over a long way and act beyond it, as exp(-(x - 30)²) and tanh(t - 300), or be polynomials to rounding
and others beyond, as v sqrt(v² + 1e-8), which is v² and then -v².

A Taylor step is as long as its last coefficients allow. On the tail of such a term they vanish, and one step would pass
over all that follows. The arguments g limit the steps: the series of log(1 + g²) converges as far as |g|, or 1 near
g = 0. So steps approach the place where the term acts in proportion to the distance, and there the term limits them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import heyoka as hy
import sympy as sp

from kapitza.flow.compiled import full_table
from kapitza.flow.engine import System
from kapitza.model import time, to_heyoka

TAILED = (sp.exp, sp.tanh, sp.sinh, sp.cosh, sp.erf)
"""Functions that, or whose reciprocals, are flat to more than any power of their argument."""

HIGHEST = 12
"""Integer power above which a term is flat near zero: it has no coefficients of the orders that decide a step."""

LOOSEST = 1e-9
"""Largest tolerance of the stepper in C: its series then have the order 15, one more than HIGHEST powers need."""

OF_TAIL, OF_POWER = sp.Rational(1, 8), sp.Integer(1)
"""Sizes of the arguments of tails and of high powers: near zero a step changes an exponent by 2 and a base by 1/4, at
most."""

OF_ROOT = sp.Integer(10) ** 100
"""Size of the arguments of roots that never end: they have no size near zero, and a step changes them by a quarter."""

FAINT = 1e-6
"""Size of the limiting function: its root of order 20 doubles the step, to a quarter of the way to the term. A tail
that would be missed then, exp(-3/4 g) behind exp(-g), is below rounding or seen in the coefficients."""


def watched_functions(system: System) -> tuple[sp.Expr, ...]:
    """Return the functions whose zeros end a step of the system."""
    ends = (e.watched for e in system.edges if e.watched is not None)
    return (*(s.function for s in system.switches), *(w.surface for w in system.walls), *ends)


def tail_arguments(
    system: System, watched: Sequence[sp.Expr], delayed: Sequence[sp.Symbol] = ()
) -> tuple[sp.Expr, ...]:
    """Return the arguments that limit steps, in the notation of the smooth rates.

    watched: functions whose zeros are located. delayed: symbols of past states.
    """
    moving = {time, *system.states, *delayed, *(name for name, _ in system.smooth_steps)}
    found: set[sp.Expr] = set()
    ends = {p.base for e in system.edges for part in (e.term, e.watched) if part for p in part.atoms(sp.Pow)}
    for expression in (*system.smooth_expressions, *watched):
        for term in expression.atoms(*TAILED, sp.Pow):
            if _is_root(term) and term.args[0] in ends and not _is_raised_square(term.args[0], moving):
                continue  # the end of the root is watched for itself
            argument = _argument(term)
            if argument is not None and not moving.isdisjoint(argument.free_symbols):
                # exp(-g) and exp(g) have one limit.
                found.add(-argument if argument.could_extract_minus_sign() else argument)
    return tuple(sorted(found, key=str))


def _argument(term: sp.Expr) -> sp.Expr | None:
    if isinstance(term, TAILED):
        return OF_TAIL * term.args[0]
    if isinstance(term, sp.Pow) and term.exp.free_symbols:
        return OF_TAIL * term.exp * sp.log(term.base)
    if isinstance(term, sp.Pow) and term.exp.is_Integer and abs(int(term.exp)) > HIGHEST:
        return OF_POWER * term.base
    return OF_ROOT * term.args[0] if _is_root(term) else None


def _is_root(term: sp.Expr) -> bool:
    return isinstance(term, sp.Pow) and bool(term.exp.is_number) and not term.exp.is_integer


def _is_raised_square(base: sp.Expr, moving: set[sp.Symbol]) -> bool:
    """Return whether a base is a square and a constant, such as v² + e, which ends at negative constants only."""
    constant, rest = base.as_independent(*moving, as_Add=True)
    return constant != 0 and bool(rest.is_nonnegative)


def limit(system: System, observe: tuple[sp.Expr, ...] = ()) -> list[hy.expression]:
    """Return a function, never zero, whose series limits the steps of an integrator that watches it.

    The list is empty where nothing limits them.
    """
    arguments = tail_arguments(system, (*watched_functions(system), *observe))
    return _limit(arguments, full_table(system))


def _limit(arguments: Sequence[sp.Expr], table: Mapping[sp.Symbol, hy.expression]) -> list[hy.expression]:
    logarithms = [hy.log(1.0 + g * g) for g in (to_heyoka(g, table) for g in arguments)]
    return [1.0 + FAINT * hy.sum(logarithms)] if logarithms else []


def watched_limit_of_delays(
    system: System, delayed: Sequence[sp.Symbol], table: Mapping[sp.Symbol, hy.expression]
) -> list[hy.nt_event_dbl]:
    """Return `limit` as an event of an integrator of equations with delays.

    table: expressions of the states, the time and the delayed states.
    """
    return [hy.nt_event(function, _ignore) for function in _limit(tail_arguments(system, (), delayed), table)]


def watched_limit(system: System, observe: tuple[sp.Expr, ...] = ()) -> list[hy.nt_event_dbl]:
    """Return `limit` as an event of an integrator, which never occurs."""
    return [hy.nt_event(function, _ignore) for function in limit(system, observe)]


def watched_limit_of_lanes(system: System) -> list[hy.nt_event_batch_dbl]:
    """Return `limit` as an event of a batch."""
    return [hy.nt_event_batch(function, _ignore_lane) for function in limit(system)]


def _ignore(integrator: hy.taylor_adaptive_dbl, time: float, sign: int) -> None:
    """Do nothing."""


def _ignore_lane(integrator: hy.taylor_adaptive_batch_dbl, time: float, sign: int, lane: int) -> None:
    """Do nothing."""
