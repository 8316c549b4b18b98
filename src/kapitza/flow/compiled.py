"""Compiled integrators: built once per system and tangent set, kept for the process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import heyoka as hy
import sympy as sp

from kapitza.flow.engine import System
from kapitza.model.compiled import to_heyoka
from kapitza.model.symbols import time as time_symbol

# Its warnings about event cooldowns at equilibria are no news to users; what matters is raised as an error.
hy.set_logger_level_error()

T = TypeVar("T")

LARGEST_UNROLLED = 24
"""Equations (states and tangents) up to this number compile without loops: two to three times as fast to run.

Beyond, compilation would grow from one second to ten and more."""

_builds = 0
_counting = threading.Lock()
_kept = threading.local()


def count_builds() -> int:
    """How many integrators this process has compiled so far."""
    return _builds


def kept(key: Hashable, build: Callable[[], T]) -> T:
    """The object of this key, built at the first call; each thread has its own, as integrators hold a state."""
    objects: dict[Hashable, Any] = _kept.__dict__.setdefault("objects", {})
    if key not in objects:
        objects[key] = build()
    return objects[key]


def compile_integrator(build: Callable[[], T]) -> T:
    """Run one compilation and count it."""
    global _builds
    with _counting:
        _builds += 1
    return build()


def symbol_table(system: System) -> dict[sp.Symbol, hy.expression]:
    """Where each symbol of the system lives in compiled code.

    States are variables, time is heyoka's, parameters and then the modes of the switches are run-time parameters.
    """
    table = {symbol: hy.expression(symbol.name) for symbol in system.states}
    table[time_symbol] = hy.time
    runtime = (*system.parameters, *(switch.mode for switch in system.switches))
    table.update({symbol: hy.par[i] for i, symbol in enumerate(runtime)})
    return table


def equations(system: System) -> list[tuple[hy.expression, hy.expression]]:
    """x' = f of the system, in heyoka's terms."""
    table = symbol_table(system)
    return [(table[s], to_heyoka(f, table)) for s, f in zip(system.states, system.smooth_rates, strict=True)]


def with_tangents(system: System, wrt: tuple[int, ...]) -> Any:
    """The equations followed by those of the tangents: row-major n x (n + k), derivatives by states then by wrt."""
    table = symbol_table(system)
    arguments = [table[s] for s in system.states] + [hy.par[i] for i in wrt]
    return hy.var_ode_sys(equations(system), arguments, order=1)


def is_unrolled(system: System, tangents: bool, wrt: tuple[int, ...]) -> bool:
    n = len(system.states)
    return n * (1 + (n + len(wrt) if tangents else 0)) <= LARGEST_UNROLLED
