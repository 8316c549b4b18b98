"""Equations of a rig from a model.

The equations contain driven coordinates, controllers and held values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import sympy as sp

from kapitza.errors import RigError, nearest_name
from kapitza.model import (
    Coordinate,
    Expression,
    Model,
    Parameter,
    derived_in_base,
    parse_expression,
    rate,
    symbol,
    time,
)
from kapitza.rig.parts import Driven, Feedback, PureDelay, SecondOrder

DEGREE = 8
"""Degree of the polynomial by which a demand is passed to the integrator over one sample."""


@dataclass(frozen=True)
class Plant:
    """Model of the experiment with held parameters.

    They change from sample to sample.
    held: names, first the control of each feedback, then the time of the sample, then DEGREE + 1 coefficients of each
    demand. outputs: what the sensors measure, expressions are in `model.outputs`.
    """

    model: Model
    held: tuple[str, ...]
    outputs: tuple[str, ...]


def coefficient_names(coordinate: str) -> tuple[str, ...]:
    return tuple(f"demand_{coordinate}_{k}" for k in range(DEGREE + 1))


def control_name(coordinate: str) -> str:
    return f"control_{coordinate}"


def build_plant(
    model: Model,
    driven: Sequence[Driven],
    feedback: Sequence[Feedback],
    outputs: Mapping[str, str | Expression],
) -> Plant:
    """Build the equations of the rig from a model."""
    names = [c.name for c in model.coordinates]
    _check_coordinates(model, [d.coordinate for d in driven], [f.coordinate for f in feedback])
    derived = derived_in_base(model)
    equations = [e.xreplace(derived) for e in model.equations]
    known = [
        *model.states,
        *(rate(c.name, c.order).name for c in model.coordinates),
        *(p.name for p in model.parameters),
    ]
    readings: dict[str, Expression] = {c.name: symbol(c.name) for c in model.coordinates}
    for name, written in {**model.outputs, **outputs}.items():
        expression = parse_expression(written, known) if isinstance(written, str) else written
        readings[name] = expression.xreplace(derived)
    knot = symbol("sample_time_now")
    imposed: dict[sp.Basic, Expression] = {}
    for part in driven:
        place = names.index(part.coordinate)
        demand = _polynomial(part.coordinate, knot)
        if isinstance(part.actuator, PureDelay):
            for order in range(3):
                # The motion of the actuator is known: the coordinate and its rates become functions of time.
                imposed[rate(part.coordinate, order)] = _polynomial(part.coordinate, knot, order)
        else:
            equations[place] = _actuator_equation(part.coordinate, part.actuator, demand, readings)
    for part in feedback:
        equations[names.index(part.coordinate)] -= symbol(control_name(part.coordinate))
    kept = [i for i, c in enumerate(model.coordinates) if symbol(c.name) not in imposed]
    if not kept:
        raise RigError(f'Every coordinate of "{model.name}" is imposed; nothing is left to be measured.')
    held = [control_name(f.coordinate) for f in feedback]
    held += ["sample_time_now"] if driven else []
    held += [name for d in driven for name in coefficient_names(d.coordinate)]
    coordinates: tuple[Coordinate, ...] = tuple(model.coordinates[i] for i in kept)
    constants = [p for p in model.parameters if p.expression is None]
    for part in driven:
        if isinstance(part.actuator, SecondOrder):
            constants.append(Parameter(f"actuator_{part.coordinate}_frequency", part.actuator.frequency, "rad/s"))
            if math.isfinite(part.actuator.mass):
                constants.append(Parameter(f"actuator_{part.coordinate}_mass", part.actuator.mass, "kg"))
    plant = replace(
        model,
        name=f"rig of {model.name}",
        coordinates=coordinates,
        equations=tuple(equations[i].xreplace(imposed) for i in kept),
        parameters=(*constants, *(Parameter(h, 0.0) for h in held)),
        outputs={name: expression.xreplace(imposed) for name, expression in readings.items()},
        invariants={},
        symmetries=(),
        partition=(),
        letters="",
        start={s: v for s, v in model.start.items() if symbol(s.rstrip("'")) not in imposed},
    )
    return Plant(plant, tuple(held), tuple(readings))


def _check_coordinates(model: Model, driven: list[str], fed: list[str]) -> None:
    names = [c.name for c in model.coordinates]
    if model.is_map:
        raise RigError(f'Model "{model.name}" is a map; a rig needs equations in time.')
    for name in (*driven, *fed):
        if name not in names:
            raise RigError(
                f'"{name}" is not a coordinate of "{model.name}".{nearest_name(name, names)} '
                f"It has: {', '.join(names)}."
            )
        if next(c for c in model.coordinates if c.name == name).order != 2:
            raise RigError(f'"{name}" has an equation of first order; a rig drives or controls those of second order.')
    both = [name for name in (*driven, *fed) if [*driven, *fed].count(name) > 1]
    if both:
        raise RigError(f'"{both[0]}" is driven or controlled twice; choose one.')


def _polynomial(coordinate: str, knot: sp.Symbol, order: int = 0) -> Expression:
    """Return the demand over the present sample.

    It may be differentiated; Horner's form takes one product per power.
    """
    names = coefficient_names(coordinate)
    terms = [math.perm(k, order) * symbol(names[k]) for k in range(order, len(names))]
    result: Expression = terms[-1]
    for term in reversed(terms[:-1]):
        result = term + (time - knot) * result
    return result


def _actuator_equation(
    name: str, actuator: SecondOrder, demand: Expression, readings: Mapping[str, Expression]
) -> Expression:
    omega = symbol(f"actuator_{name}_frequency")
    position, velocity, acceleration = symbol(name), rate(name), rate(name, 2)
    equation = acceleration + 2 * omega * velocity + omega**2 * (position - demand)
    if math.isfinite(actuator.mass):
        if actuator.force not in readings:
            raise RigError(
                f'The actuator of "{name}" is loaded by "{actuator.force}", which is not an output.'
                f"{nearest_name(actuator.force, readings)} Outputs: {', '.join(readings)}."
            )
        equation -= readings[actuator.force] / symbol(f"actuator_{name}_mass")
    return equation
