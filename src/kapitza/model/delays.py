"""Past values in the equations.

They are written y(t - tau) and y'(t - tau).
A past value is a symbol of its own whose name is its text, so that equations with delays print and parse like others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import sympy as sp

from kapitza.errors import ModelError
from kapitza.model.symbols import Expression, symbol

_WRITTEN = re.compile(r"([^\W\d]\w*'*)\(t - (.+)\)\Z")


@dataclass(frozen=True)
class Delayed:
    """A past value of a state or its rate.

    It is the `order`-th rate of `state`, `delay` seconds ago. Order 1 makes the equation neutral.
    """

    symbol: sp.Symbol
    state: str
    order: int
    delay: Expression


def delayed_symbol(name: str, delay: Expression) -> sp.Symbol:
    """Return the symbol of a delayed coordinate or rate.

    delay is how long ago.
    """
    text = sp.sstr(delay)
    return symbol(f"{name}(t - {text})" if re.fullmatch(r"[\w.*/]+", text) else f"{name}(t - ({text}))")


def is_delayed(candidate: object) -> bool:
    return isinstance(candidate, sp.Symbol) and _WRITTEN.match(candidate.name) is not None


def delayed_parts(candidate: sp.Symbol, parameters: Iterable[str]) -> tuple[str, Expression]:
    """Return the delayed coordinate or rate, and the delay.

    The delay is an expression in the parameters.
    """
    from kapitza.model.notation import parse_expression

    found = _WRITTEN.match(candidate.name)
    assert found is not None
    return found[1], parse_expression(found[2], parameters)


def delayed_terms(
    expressions: Iterable[Expression],
    states: tuple[str, ...],
    parameters: Iterable[str],
    in_base: Callable[[Expression], Expression],
) -> tuple[Delayed, ...]:
    """Return all past values in the expressions.

    They are in the order of their names. in_base: writes out derived parameters.
    """
    symbols = {s for e in expressions for s in e.free_symbols if is_delayed(s)}
    names = list(parameters)
    found: list[Delayed] = []
    for candidate in sorted(symbols, key=lambda s: s.name):
        name, delay = delayed_parts(candidate, names)
        delay = in_base(delay)
        if name in states:
            found.append(Delayed(candidate, name, 0, delay))
        elif name.endswith("'") and name[:-1] in states:
            found.append(Delayed(candidate, name[:-1], 1, delay))
        else:
            raise ModelError(
                f'"{candidate.name}": {name} is neither a state nor the rate of one ({", ".join(states)}).'
            )
    return tuple(found)
