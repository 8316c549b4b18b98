"""Compiled integrators, cached for the process.

An integrator is built once per system and set of tangents.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypedDict, TypeVar

import heyoka as hy
import sympy as sp

from kapitza.base.arrays import Array
from kapitza.flow.engine import System
from kapitza.model import symbolic, to_heyoka, top_slopes, translate_steps
from kapitza.model import time as time_symbol

# heyoka warns about event cooldowns at equilibria, which are harmless; failures are raised as errors.
hy.set_logger_level_error()

T = TypeVar("T")

LARGEST_UNROLLED = 3000
"""Nodes of the right-hand sides, shared ones counted again, up to which code without loops is compiled.

It runs about twice as fast, and compiles in about a second; beyond, compilation grows to a minute."""

LARGEST_UNROLLED_LANES = 1200
"""The same for SIMD batches, whose code has two vectors for every number: that of a pendulum on a spring with its
tangents, 1257 nodes, takes ten seconds to compile without loops, half a second with them, and gains a third of the run.
"""

MOST_EQUATIONS = 32
"""The same for the number of equations: of a chain with many links hardly a node is shared."""

MOST_FUNCTIONS = 64
"""The same for sin, exp and similar functions: each is a separate recurrence, 0.03 s of compilation without loops. A
Fourier series of 300 samples has as many."""

MOST_CACHED = 256
"""Compiled objects that a thread holds; a study of many models must not grow without end."""

_builds = 0
_counting = threading.Lock()
_cache = threading.local()


def count_builds() -> int:
    """Return the number of integrators compiled so far.

    Those of this process are counted.
    """
    return _builds


def cached(key: Hashable, build: Callable[[], T]) -> T:
    """Return the object of a key, built once.

    When there are too many, the object used longest ago is dropped.
    Each thread has its own, as integrators hold a state; their machine code is heyoka's, once for all threads.
    """
    objects: OrderedDict[Hashable, Any] = _cache.__dict__.setdefault("objects", OrderedDict())
    if key not in objects:
        with symbolic:
            built = build()
        objects[key] = built
        while len(objects) > MOST_CACHED:
            objects.popitem(last=False)
    # The object used last is the last to be dropped.
    objects.move_to_end(key)
    return objects[key]


def compile_integrator(build: Callable[[], T]) -> T:
    """Run one compilation and count it."""
    global _builds
    with _counting:
        _builds += 1
    return build()


class FunctionArguments(TypedDict, total=False):
    """Optional arguments of a compiled function.

    A function takes only those that occur in its expressions.
    """

    pars: Array
    time: float | Array


class CodeOptions(TypedDict):
    """How heyoka generates the code of an integrator."""

    compact_mode: bool
    opt_level: int


def code_of(compact: bool) -> CodeOptions:
    """Return how the code is generated.

    In loops the last level of optimisation doubles the compilation time and gains nothing.
    """
    return {"compact_mode": compact, "opt_level": 2 if compact else 3}


def symbol_table(system: System) -> dict[sp.Symbol, hy.expression]:
    """Map each symbol of the system to compiled code.

    States are variables, time is heyoka's; parameters and the modes of the switches are run-time parameters.
    """
    table = {symbol: hy.expression(symbol.name) for symbol in system.states}
    table[time_symbol] = hy.time
    runtime = (*system.parameters, *(switch.mode for switch in system.switches))
    table.update({symbol: hy.par[i] for i, symbol in enumerate(runtime)})
    return table


def full_table(system: System) -> dict[sp.Symbol, hy.expression]:
    """Return `symbol_table` with the named steps added.

    These are the steps of the smooth rates.
    """
    return translate_steps(system.smooth_steps, symbol_table(system))


Equations = list[tuple[hy.expression, hy.expression]]


def equations(system: System) -> Equations:
    """Return x' = f of the system for heyoka."""
    table = full_table(system)
    return [(table[s], to_heyoka(f, table)) for s, f in zip(system.states, system.smooth_rates, strict=True)]


def with_tangents(system: System, wrt: tuple[int, ...]) -> Equations:
    """Return the equations with those of all tangents.

    The tangents are row-major n x (n + k): derivatives by the states, then by wrt.
    """
    table = full_table(system)
    arguments = [table[s] for s in system.states] + [hy.par[i] for i in wrt]
    if system.elimination is None and not _selects(system):
        return list(hy.var_ode_sys(equations(system), arguments, order=1).sys)
    n, columns = len(system.states), len(arguments)
    tangents = [[hy.expression(f"tangent:{i}:{c}") for c in range(columns)] for i in range(n)]
    result = equations(system)
    for own, slopes in zip(tangents, _jacobian(system, table, arguments), strict=True):
        # Entries that vanish identically would only lengthen the compiled code.
        present = [k for k in range(n) if slopes[k] != _NOTHING]
        for c in range(columns):
            direct = [slopes[c]] if c >= n else []
            result.append((own[c], hy.sum([*(slopes[k] * tangents[k][c] for k in present), *direct])))
    return result


_NOTHING = hy.expression(0.0)


def with_some_tangents(system: System, wrt: tuple[int, ...], count: int) -> Equations:
    """Return the equations with those of some tangents.

    `count` columns V' = f_x V of any start are followed by the columns of the parameters wrt.
    The tangents are row-major, n x (count + k). They suit large systems, whose rows hold few of the states.
    """
    table = full_table(system)
    result = equations(system)
    states = [table[s] for s in system.states]
    n, columns = len(states), count + len(wrt)
    tangents = [[hy.expression(f"tangent:{i}:{c}") for c in range(columns)] for i in range(n)]
    places = {s.name: i for i, s in enumerate(system.states)}
    dense = None
    if system.elimination is not None or _selects(system):
        dense = _jacobian(system, table, states + [hy.par[i] for i in wrt])
    for i, (_, rate) in enumerate(result[:n]):
        if dense is not None:
            slopes = [(k, dense[i][k]) for k in range(n) if dense[i][k] != _NOTHING]
            direct = dense[i][n:]
        else:
            present = sorted(places[name] for name in hy.get_variables(rate))
            slopes = [(k, hy.diff(rate, states[k])) for k in present]
            direct = [hy.diff(rate, hy.par[j]) for j in wrt]
        for c in range(columns):
            own = [direct[c - count]] if c >= count and direct[c - count] != _NOTHING else []
            products = [slope * tangents[k][c] for k, slope in slopes]
            result.append((tangents[i][c], hy.sum([*products, *own]) if products or own else _NOTHING))
    return result


def _jacobian(
    system: System, table: dict[sp.Symbol, hy.expression], by: list[hy.expression]
) -> list[list[hy.expression]]:
    """Return the derivatives of the rates, (n, by).

    It serves systems that heyoka cannot differentiate itself.
    """
    if system.elimination is None:
        symbols = {expression: symbol for symbol, expression in table.items()}
        return [[to_heyoka(sp.diff(f, symbols[s]), table) for s in by] for f in system.smooth_rates]
    tops = dict(zip(system.elimination.tops, top_slopes(system.elimination, table, by), strict=True))
    return [tops[f] if f in tops else [hy.diff(to_heyoka(f, table), s) for s in by] for f in system.smooth_rates]


def _selects(system: System) -> bool:
    """Return whether a branch may have no value.

    SymPy differentiates inside the branches. heyoka weights the derivatives of a branch that is left out by zero, which
    gives NaN where the branch has no value.
    """
    return not system.smooth_steps and any(f.has(sp.Piecewise) for f in system.smooth_rates)


def divergence(system: System) -> hy.expression:
    """Return Σ ∂f_i/∂x_i.

    It is the rate of log|det| of the tangents.
    """
    if system.elimination is None and not _selects(system):
        return hy.sum([hy.diff(rate, variable) for variable, rate in equations(system)])
    table = full_table(system)
    rows = _jacobian(system, table, [table[s] for s in system.states])
    return hy.sum([row[i] for i, row in enumerate(rows)])


def is_short(system: System, written: Equations, largest: int = LARGEST_UNROLLED) -> bool:
    """Return whether code without loops is worth compiling."""
    if len(written) > MOST_EQUATIONS or sum(len(rate) for _, rate in written) > largest:
        return False
    return len(set().union(*(e.atoms(sp.Function) for e in system.smooth_expressions))) <= MOST_FUNCTIONS
