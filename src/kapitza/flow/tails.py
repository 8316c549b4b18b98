"""Limits of steps that the last coefficients of a Taylor series do not show.

Terms may be flat over a long way and act beyond it, as exp(-(x - 30)²) and tanh(t - 300).

A Taylor step is as long as its last coefficients allow. On the tail of such a term they vanish, and one step would pass
over all that follows. The arguments g limit the steps: the series of log(1 + g²) converges as far as |g|, or 1 near
g = 0. So steps approach the place where the term acts in proportion to the distance, and there the term limits them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import heyoka as hy
import numpy as np
import sympy as sp

from kapitza.base.arrays import Array
from kapitza.flow.compiled import full_table
from kapitza.flow.engine import System
from kapitza.model import time, to_heyoka

TAILED = (sp.exp, sp.tanh, sp.sinh, sp.cosh, sp.erf)
"""Functions that, or whose reciprocals, are flat to more than any power of their argument."""

HIGHEST = 12
"""Integer power above which a term is flat near zero: it has no coefficients of the orders that decide a step."""

OF_TAIL, OF_POWER = sp.Rational(1, 8), sp.Integer(1)
"""Sizes of the arguments of tails and of high powers: near zero a step changes an exponent by 2 and a base by 1/4, at
most."""

FAINT = 1e-6
"""Size of the limiting function: its root of order 20 doubles the step, to a quarter of the way to the term. A tail
that would be missed then, exp(-3/4 g) behind exp(-g), is below rounding or seen in the coefficients."""


def watched_functions(system: System) -> tuple[sp.Expr, ...]:
    """Return the functions whose zeros end a step of the system."""
    ends = (e.watched for e in system.edges if e.watched is not None)
    return (*(s.function for s in system.switches), *(w.surface for w in system.walls), *ends)


def tail_arguments(system: System, watched: Sequence[sp.Expr]) -> tuple[sp.Expr, ...]:
    """Return the arguments that limit steps, in the notation of the smooth rates.

    watched: functions whose zeros are located.
    """
    moving = {time, *system.states, *(name for name, _ in system.smooth_steps)}
    found: set[sp.Expr] = set()
    for expression in (*system.smooth_expressions, *watched):
        for term in expression.atoms(*TAILED, sp.Pow):
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
    return None


def limit(system: System, observe: tuple[sp.Expr, ...] = ()) -> list[hy.expression]:
    """Return a function, never zero, whose series limits the steps of an integrator that watches it.

    The list is empty where nothing limits them.
    """
    table = full_table(system)
    arguments = tail_arguments(system, (*watched_functions(system), *observe))
    logarithms = [hy.log(1.0 + g * g) for g in (to_heyoka(g, table) for g in arguments)]
    return [1.0 + FAINT * hy.sum(logarithms)] if logarithms else []


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


LARGEST_FACTOR, FIRST_PART = 4.0, 1e-12
"""Growth of the first steps of a run, and the share of the run that the first one makes."""


@dataclass(frozen=True)
class Gaps:
    """Whether the series of a start may lack orders, where a state is zero and where the time is."""

    of_states: bool
    of_time: bool

    @classmethod
    def of(cls, system: System) -> Gaps:
        """Return the gaps of a system: those of powers of states above the second, and of powers of the time."""
        moving = {*system.states, *(name for name, _ in system.smooth_steps)}
        powers = {p for e in system.smooth_expressions for p in e.atoms(sp.Pow)}
        high = (p.base.free_symbols for p in powers if p.exp.is_Integer and p.exp > 2)
        return cls(
            any(not moving.isdisjoint(names) for names in high),
            any(time in p.free_symbols for p in powers),
        )

    def at(self, states: Array, begin: float | Array) -> bool:
        """Return whether a run from there needs short first steps, see `first_ends`."""
        return (self.of_states and not np.all(states)) or (self.of_time and not np.all(begin))


def first_ends(begin: float, end: float) -> Array:
    """Return where the first steps of a run from zero end, each a few times later.

    The series of such a start may have gaps (see `Gaps`): that of x'' = -x⁷ from x = 0 has the orders 0, 1,
    8, 9, 16 and 17. The last two coefficients, which decide the step, then vanish, and nothing limits it. A little
    later they do not vanish.
    """
    parts = FIRST_PART * LARGEST_FACTOR ** np.arange(np.ceil(np.log(1.0 / FIRST_PART) / np.log(LARGEST_FACTOR)))
    return begin + parts * (end - begin)
