"""What a channel measures, in plain notation."""

from __future__ import annotations

from collections.abc import Iterable

from kapitza.model import Expression, Model, parse_expression


def output_names(model: Model) -> set[str]:
    """Return the names that an output may hold.

    States, highest derivatives, parameters, signals and t.
    """
    tops = (s.name for s in model.structure.accelerations)
    return {*model.states, *tops, *(p.name for p in model.parameters), *(s.name for s in model.signals), "t"}


def read_output(text: str, model: Model, channels: Iterable[str] = ()) -> Expression:
    """Return an output in states, parameters, signals, t and other channels.

    A highest derivative, x'' of an accelerometer, is replaced by what the equations give.
    """
    known = output_names(model)
    return in_states(parse_expression(text, {*known, *(c for c in channels if c not in known)}), model)


def in_states(expression: Expression, model: Model) -> Expression:
    """Return an expression with its highest derivatives replaced by the equations."""
    return expression.xreplace(dict(model.structure.accelerations))
