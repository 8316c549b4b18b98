"""First-order systems of models, ready for the engines."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import sympy as sp

from kapitza.flow.domains import edges_of
from kapitza.flow.engine import System, Wall
from kapitza.model import Model, Signal, Structure, split_program, symbol
from kapitza.model import time as time_symbol


def system_of(model: Model, zeros: frozenset[str] = frozenset()) -> System:
    """Return the system of a model.

    Parameters named in `zeros` are left out of the equations (their value is zero).
    Fourier signals are written out; piecewise-polynomial ones become Σ c_k (t - t_knot)^k with run-time coefficients.
    """
    signals = model.signals
    written = tuple((s.name, s.expression) for s in signals if s.kind == "fourier")
    pieces = tuple((s.name, s.coefficients.shape[1]) for s in signals if s.kind == "polynomial")
    return _system(model.structure, model.angles, written, pieces, zeros)


def signal_symbols(name: str, coefficients: int) -> tuple[sp.Symbol, ...]:
    """Return the run-time parameters of a polynomial signal.

    The knot comes first, then the coefficients, constant term first.
    """
    return (symbol(f"{name}:knot"), *(symbol(f"{name}:{k}") for k in range(coefficients)))


def polynomial_signals(model: Model) -> tuple[Signal, ...]:
    signals = model.signals
    return tuple(s for s in signals if s.kind == "polynomial")


@lru_cache(maxsize=256)
def _system(
    structure: Structure,
    angles: tuple[bool, ...],
    written: tuple[tuple[str, sp.Expr], ...],
    pieces: tuple[tuple[str, int], ...],
    zeros: frozenset[str],
) -> System:
    states = tuple(symbol(s) for s in structure.states)
    known: dict[sp.Basic, sp.Basic] = {symbol(name): expression for name, expression in written}
    extra: list[sp.Symbol] = []
    for name, count in pieces:
        knot, *coefficients = signal_symbols(name, count)
        extra += [knot, *coefficients]
        local = time_symbol - knot
        known[symbol(name)] = sp.Add(*[c * local**k for k, c in enumerate(coefficients)])
    known.update({symbol(name): sp.Integer(0) for name in zeros})
    rates = tuple(f.xreplace(known) for f in structure.rates)
    steps = tuple((name, e.xreplace(known)) for name, e in structure.steps)
    if zeros:
        switches, smooth_steps, smooth = split_program(steps, rates, (*states, time_symbol))
    else:
        switches = tuple(replace(s, function=s.function.xreplace(known)) for s in structure.switches)
        smooth_steps = tuple((name, e.xreplace(known)) for name, e in structure.smooth_steps)
        smooth = tuple(f.xreplace(known) for f in structure.smooth_rates)
    walls = tuple(
        Wall(
            impact.surface.xreplace(known),
            tuple(impact.reset.get(s.name, s).xreplace(known) for s in states),
            impact.name,
        )
        for impact in structure.impacts
    )
    parameters = (*(symbol(p) for p in structure.parameters), *extra)
    return System(
        states,
        parameters,
        rates,
        smooth,
        angles,
        switches,
        walls,
        steps=steps,
        smooth_steps=smooth_steps,
        elimination=structure.elimination,
        edges=edges_of(smooth_steps, smooth, states, switches),
    )


@lru_cache(maxsize=256)
def vanishing_candidates(system: System) -> tuple[int, ...]:
    """Return the parameters whose zero may remove a jump.

    They are indices of parameters that multiply the difference of the two sides.
    """
    jumps = [j for s in system.switches if not s.continuous for f in system.smooth_expressions for j in s.jumps(f)]
    used = set().union(*(j.free_symbols for j in jumps)) if jumps else set()
    return tuple(
        i
        for i, p in enumerate(system.parameters)
        if p in used and all(j.xreplace({p: sp.Integer(0)}) != j for j in jumps if j.has(p))
    )
