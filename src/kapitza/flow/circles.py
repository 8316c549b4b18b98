"""Check that equations repeat where angles and time wrap.

Wrapping would give wrong numbers without a warning for equations that do not repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from weakref import WeakKeyDictionary

import numpy as np
import sympy as sp

from kapitza.base.arrays import Array
from kapitza.errors import ModelError
from kapitza.flow.clock import PeriodLaw
from kapitza.model import Expression, Model, Structure, compile_expressions
from kapitza.model import time as time_symbol

LOOKS = 16
"""Number of random states and times at which the equations are compared, here and a turn or a period later."""

OTHER_VALUES = (1.137, 0.793)
"""Factors on the timing parameters. A model that repeats at these values too repeats by its structure."""

REMEMBERED = 4096
"""Sets of values whose comparison is remembered."""

_proven: WeakKeyDictionary[Structure, set[tuple[tuple[bool, ...], sp.Expr | None]]] = WeakKeyDictionary()
"""By structure: angles and law of the period with which it was found to repeat."""

DIFFERENT = 1e-6
"""Relative difference from which two values of a function differ; rounding is far smaller."""


class Circles:
    """Comparison of a model before and after wrapping.

    The rates f(x, t, θ) and the walls are compared at φ and φ + 2π for every angle, and at t and t + T.
    The comparison is made once where the model repeats by its structure, that is at other values of the parameters that
    decide how it repeats in time as well (cos ωt with the period 2π/ω); otherwise (two frequencies that are multiples
    of each other at some values only) once for each set of values of these parameters.
    """

    def __init__(self, model: Model, law: PeriodLaw):
        structure = model.structure
        self.model, self.law = model, law
        self._functions = (*structure.rates, *(impact.surface for impact in structure.impacts))
        self._steps = structure.steps
        self._signals = model.signals
        timing: frozenset[str] = _names_inside_functions_of_time((*self._functions, *(e for _, e in self._steps)))
        if law.expression is not None:
            timing |= {s.name for s in law.expression.free_symbols}
        self._timing = [i for i, name in enumerate(model.names) if name in timing]
        self._wraps = any(model.angles) or law.expression is not None
        self._seen: set[bytes] = set()
        # A structure that repeats does so for every model that shares it, at all values.
        self._proven = _proven.setdefault(structure, set())
        self._kind = model.angles, law.expression
        self._by_structure = not self._signals and self._kind in self._proven

    def check(self, vector: Array) -> None:
        """Refuse a model that does not repeat.

        vector: values of the independent parameters.
        """
        if not self._wraps or self._by_structure:
            return
        key = vector[self._timing].tobytes()
        if key in self._seen:
            return
        message = self._compare(vector)
        if message:
            raise ModelError(message)
        if not self._seen:
            self._by_structure = all(self._repeats_at(vector, factor) for factor in OTHER_VALUES)
            if self._by_structure and not self._signals:
                self._proven.add(self._kind)
        elif len(self._seen) >= REMEMBERED:
            self._seen.clear()
        self._seen.add(key)

    def depends_on(self, places: Sequence[int]) -> bool:
        """Return whether changed parameters need a new comparison.

        places: indices of the parameters that take other values.
        """
        return self._wraps and not self._by_structure and not set(places).isdisjoint(self._timing)

    def _repeats_at(self, vector: Array, factor: float) -> bool:
        """Return whether the model repeats at changed timing parameters.

        Each timing parameter is changed by another factor.
        """
        other = vector.copy()
        # Different factors change the ratios of frequencies too: multiples at these values alone are found.
        factors = factor ** np.linspace(1.0, 2.0, max(len(self._timing), 1))[: len(self._timing)]
        # A factor alone would not move a parameter that is zero.
        other[self._timing] = np.where(other[self._timing] == 0, 1.0, other[self._timing]) * factors
        try:
            return not self._compare(other)
        except ModelError:
            return False

    def _compare(self, vector: Array) -> str:
        """Return why the model does not repeat.

        The text is empty where the model repeats at these values.
        """
        model, random = self.model, np.random.default_rng(0)
        period = self.law(vector)
        start = np.array([model.start.get(name, 0.0) for name in model.states])
        states = start + random.uniform(-1.0, 1.0, (LOOKS, start.size))
        low, high = model.reach
        ends = (0.0, 1.0 if period is None else period) if low == -np.inf else (low, high)
        times = random.uniform(*ends, LOOKS)
        here = self._values(states, times, vector)
        for i in np.flatnonzero(model.angles):
            turn = np.where(np.arange(start.size) == i, 2 * np.pi, 0.0)
            if _differ(here, self._values(states + turn, times, vector)):
                name = model.states[i]
                return (
                    f'Model "{model.name}": {name} is declared an angle, but the equations change when it makes a full '
                    f"turn. Write them with sin({name}) and cos({name}), or take {name} off the angles."
                )
        if period is not None and _differ(here, self._values(states, times + period, vector)):
            values = ", ".join(f"{model.names[i]} = {vector[i]:g}" for i in self._timing)
            return (
                f'Model "{model.name}": its period is {period:.9g}, but the excitation does not repeat after that time'
                f"{' at ' + values if values else ''}. Give the common period of all its terms, such as 2*pi/omega."
            )
        return ""

    def _values(self, states: Array, times: Array, vector: Array) -> Array:
        """Return rates and wall functions, (functions, N).

        Values that are not defined are NaN.
        """
        inputs = np.column_stack([states, times, *(signal(times) for signal in self._signals)])
        names = [*self.model.states, "t", *(signal.name for signal in self._signals)]
        function = compile_expressions(self._functions, names, self.model.names, self._steps)
        return function(np.ascontiguousarray(inputs.T), vector)


def _differ(here: Array, there: Array) -> bool:
    """Return whether any function differs where it is defined.

    Differences count relative to the largest value of the function.
    """
    both = np.isfinite(here) & np.isfinite(there)
    here, there = np.where(both, here, 0.0), np.where(both, there, 0.0)
    size = np.maximum(np.abs(here), np.abs(there)).max(axis=1, keepdims=True)
    return bool((np.abs(here - there) > DIFFERENT * size).any())


@lru_cache(maxsize=256)
def _names_inside_functions_of_time(expressions: tuple[Expression, ...]) -> frozenset[str]:
    """Return the names of parameters that set the timing.

    They are the symbols in cos(ω t + ...) and those beside a bare t, as in d*t: with d = 0 the model repeats.
    """
    found: set[sp.Basic] = set()
    for expression in expressions:
        timed = {f for f in expression.atoms(sp.Function) if f.has(time_symbol)}
        found |= {s for f in timed for s in f.free_symbols}
        bare = expression.xreplace({f: sp.Integer(1) for f in timed})
        found |= {s for term in sp.Add.make_args(bare) if term.has(time_symbol) for s in term.free_symbols}
    return frozenset(s.name for s in found if isinstance(s, sp.Symbol))
