"""Model files in TOML.

They hold plain notation, are read as data and are written without loss.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import tomli_w

from kapitza.base import checks
from kapitza.base.arrays import Array
from kapitza.base.files import replacing
from kapitza.errors import ModelError, nearest_name
from kapitza.model.build import from_equations, from_map
from kapitza.model.measured import Signal
from kapitza.model.model import Model
from kapitza.model.notation import parse_expression
from kapitza.model.parts import Coordinate, Parameter, Prior
from kapitza.model.symbols import Expression, rate
from kapitza.model.text import to_text

LARGEST_FILE = 20_000_000
"""Bytes of a model file, with the samples of its measured signals."""

END = ("invariants", "impacts", "symmetries", "partition", "start")
TOP = ("name", "description", "source", "equations", "coordinates", "map", "parameters", "excitation", "outputs", *END)

KINDS = {str: "text", dict: "a table", list: "a list", int: "a whole number", float: "a number", bool: "true or false"}


def read_model(path: str | os.PathLike[str]) -> Model:
    """Read a model from TOML (keys: docs/models.md).

    Parameters
    ----------
    path : path
        The file. It is data: its formulas are parsed, never run.

    Returns
    -------
    Model
        The equations with their parameters.

    Examples
    --------
    >>> import kapitza as kz, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "rig.toml"
    >>> kz.write_model(kz.library.duffing(), path)
    >>> kz.read_model(path) == kz.library.duffing()
    True
    """
    path = _path(path)
    shown = checks.printable(str(path))
    content = checks.toml("model file", path, LARGEST_FILE, error=ModelError)
    try:
        return model_from_dict(content, default_name=path.stem)
    except ModelError as error:
        raise error.within(f'In "{shown}"') from None


def _path(given: object) -> Path:
    if isinstance(given, str):
        return Path(given)
    if isinstance(given, os.PathLike):
        return Path(cast("os.PathLike[str]", given))
    raise ModelError(f"{checks.shown(given)} is not a path of a model file; give text.")


def write_model(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a model as TOML.

    `read_model` gives an equal model back. An existing file is replaced in one step.

    Parameters
    ----------
    model : Model
        What to write.
    path : path
        Where.

    Returns
    -------
    None

    Examples
    --------
    >>> import kapitza as kz, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "rig.toml"
    >>> kz.write_model(kz.library.duffing(), path)
    >>> path.read_text().splitlines()[0]
    'name = "duffing"'
    """
    path = Path(path)
    content = tomli_w.dumps(model_to_dict(model))
    with replacing(path) as draft:
        draft.write_text(content, encoding="utf-8")


def model_to_dict(model: Model) -> dict[str, Any]:
    """Return the content of a model file.

    It consists of plain dictionaries, lists, numbers and text.
    """
    signals = model.signals
    tops = [] if model.is_map else [rate(c.name, c.order).name for c in model.coordinates]
    names = [*model.states, *tops, *(p.name for p in model.parameters), *(s.name for s in signals)]

    def text(expression: Expression) -> str:
        return to_text(expression, names)

    def texts(expressions: Mapping[str, Expression]) -> dict[str, str]:
        return {key: text(value) for key, value in expressions.items()}

    content: dict[str, Any] = {
        "name": model.name,
        "description": model.description,
        "source": model.source,
        "coordinates": {c.name: _coordinate_to_dict(c) for c in model.coordinates},
    }
    if model.is_map:
        content["map"] = {c.name: text(e) for c, e in zip(model.coordinates, model.equations, strict=True)}
    else:
        content["equations"] = [f"{text(e)} = 0" for e in model.equations]
    content["parameters"] = {p.name: _parameter_to_dict(p, text) for p in model.parameters}
    if model.excitation:
        measured = {s.name: _signal_to_dict(s) for s in signals}
        law = None if model.excitation.period is None else text(model.excitation.period)
        content["excitation"] = _without_empty({"period": law, "signals": measured})
    content["outputs"] = texts(model.outputs)
    content["invariants"] = texts(model.invariants)
    content["impacts"] = [{"name": i.name, "surface": text(i.surface), "reset": texts(i.reset)} for i in model.impacts]
    content["symmetries"] = [{"map": texts(s.map), "shift": s.shift} for s in model.symmetries]
    if model.partition:
        content["partition"] = {"expressions": [text(e) for e in model.partition], "letters": model.letters}
    content["start"] = dict(model.start)
    return _without_empty(content)


def _without_empty(content: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if value not in ("", {}, [], None)}


def _coordinate_to_dict(coordinate: Coordinate) -> dict[str, Any]:
    rest = _without_empty({"unit": coordinate.unit, "description": coordinate.description})
    return {"order": coordinate.order, "angle": coordinate.angle, **rest}


def _parameter_to_dict(parameter: Parameter, text: Callable[[Expression], str]) -> dict[str, Any]:
    low, high = parameter.bounds
    prior = parameter.prior
    return _without_empty(
        {
            "value": None if math.isnan(parameter.value) else parameter.value,
            "expression": None if parameter.expression is None else text(parameter.expression),
            "unit": parameter.unit,
            "bounds": None if (low, high) == (-math.inf, math.inf) else [low, high],
            "prior": None if prior is None else {"mean": prior.mean, "deviation": prior.deviation},
            "description": parameter.description,
        }
    )


def _signal_to_dict(signal: Signal) -> dict[str, Any]:
    fields = {"period": signal.period, "kind": signal.kind, "degree": signal.degree, "harmonics": signal.harmonics}
    arrays = {"times": signal.times.tolist(), "values": signal.values.tolist()}
    return _without_empty({**fields, "unit": signal.unit, **arrays})


class _Table:
    """A table of a model file with its place.

    The place is for messages. Unknown keys are refused.
    """

    def __init__(self, content: object, place: str, known: Sequence[str] | None = None):
        if not isinstance(content, dict):
            raise ModelError(f"{place} must be a table of keys, not {checks.shown(content)}.")
        self.content, self.place = cast("dict[str, Any]", content), place
        for key in self.content if known is not None else ():
            if key not in (known or ()):
                raise ModelError(
                    f'{place} has an unknown key "{checks.printable(key)}".{nearest_name(key, known or ())} '
                    f"Known keys: {', '.join(known or ())}."
                )

    def get(self, key: str, kind: type | tuple[type, ...], default: Any) -> Any:
        value = self.content.get(key, default)
        wrong = isinstance(value, bool) and kind is not bool
        if value is not default and (wrong or not isinstance(value, kind)):
            wanted = " or ".join(KINDS[k] for k in (kind if isinstance(kind, tuple) else (kind,)))
            place = () if self.place == "The file" else tuple(self.place.split("."))
            raise ModelError(f'{self.place}: "{key}" must be {wanted}, not {checks.shown(value)}.', place=(*place, key))
        return value

    def number(self, key: str, default: float) -> float:
        """Return a number of the table.

        Whole numbers of TOML have any size; numbers beyond 1.8e308 are refused.
        """
        value = self.get(key, (int, float), default)
        return checks.number(f"{self.place}: {key}", value, finite=False, error=ModelError)


def model_from_dict(content: Mapping[str, Any], default_name: str = "model") -> Model:
    """Return the model that a model file describes."""
    table = _Table(content, "The file", TOP)
    coordinates = _coordinates(table.get("coordinates", dict, None))
    parameters = _parameters(table.get("parameters", dict, {}))
    parts: dict[str, Any] = {
        "parameters": parameters,
        "name": table.get("name", str, default_name),
        "description": table.get("description", str, ""),
        "source": table.get("source", str, ""),
        "outputs": _texts(table.get("outputs", dict, {}), "outputs"),
        "invariants": _texts(table.get("invariants", dict, {}), "invariants"),
        "impacts": [_impact(i, n) for n, i in enumerate(table.get("impacts", list, []), start=1)],
        "symmetries": [_symmetry(s, n) for n, s in enumerate(table.get("symmetries", list, []), start=1)],
        "start": _numbers(table.get("start", dict, {}), "start"),
        **_excitation(table.get("excitation", dict, None)),
        **_partition(table.get("partition", dict, None)),
    }
    has_map, has_equations = "map" in content, "equations" in content
    if has_map == has_equations:
        raise ModelError('Give either "equations" (a list of text) or "map" (a table: state = new value).')
    if has_map:
        images = _texts(table.get("map", dict, {}), "map")
        described = {c.name: c for c in coordinates or ()}
        angles = [name for name, c in described.items() if c.angle]
        return _with_coordinates(from_map(images, angles=angles, **parts), described)
    equations = table.get("equations", (list, str), [])
    listed = [equations] if isinstance(equations, str) else equations
    if not all(isinstance(e, str) for e in listed):
        raise ModelError('"equations" must be text, or a list of text.')
    return from_equations(listed, coordinates=coordinates, **parts)


def _with_coordinates(model: Model, described: Mapping[str, Coordinate]) -> Model:
    unknown = next((name for name in described if name not in model.states), None)
    if unknown is not None:
        raise ModelError(f'Coordinate "{unknown}" does not occur in the map.{nearest_name(unknown, model.states)}')
    kept = tuple(replace(described.get(c.name, c), order=1) for c in model.coordinates)
    return replace(model, coordinates=kept)


def _coordinates(given: dict[str, object] | None) -> list[Coordinate] | None:
    if given is None:
        return None
    made: list[Coordinate] = []
    for name, content in given.items():
        with _at("coordinates", name):
            table = _Table(content, f"coordinates.{name}", ("order", "angle", "unit", "description"))
            made.append(
                Coordinate(
                    name,
                    table.get("order", int, 2),
                    table.get("angle", bool, False),
                    table.get("unit", str, ""),
                    table.get("description", str, ""),
                )
            )
    return made


def _parameters(given: dict[str, object]) -> list[Parameter]:
    made: list[Parameter] = []
    for name, content in given.items():
        with _at("parameters", name):
            made.append(_parameter(name, content, given.keys()))
    return made


@contextmanager
def _at(*place: str) -> Generator[None]:
    """Give errors inside that have no place this one."""
    try:
        yield
    except ModelError as error:
        error.place = error.place or place
        raise


def _parameter(name: str, content: object, names: Iterable[str]) -> Parameter:
    place = f"parameters.{name}"
    if isinstance(content, str):
        content = {"expression": content}
    elif isinstance(content, (int, float)) and not isinstance(content, bool):
        content = {"value": content}
    table = _Table(content, place, ("value", "expression", "unit", "bounds", "prior", "description"))
    expression = table.get("expression", str, None)
    bounds = table.get("bounds", list, [-math.inf, math.inf])
    if len(bounds) != 2:
        raise ModelError(f"{place}: bounds are two numbers [low, high], not {checks.shown(bounds)}.")
    low, high = _numbers({"lower": bounds[0], "upper": bounds[1]}, f"{place}.bounds").values()
    prior = table.get("prior", dict, None)
    if prior is not None:
        knowledge = _Table(prior, f"{place}.prior", ("mean", "deviation"))
        prior = Prior(knowledge.number("mean", math.nan), knowledge.number("deviation", math.nan))
    try:
        parsed = None if expression is None else parse_expression(expression, names)
    except ModelError as error:
        # A parameter may be written as text alone: then its own place is that of the text.
        raise error.within(place, "parameters", name) from None
    return Parameter(
        name,
        table.number("value", math.nan),
        table.get("unit", str, ""),
        (low, high),
        prior,
        parsed,
        table.get("description", str, ""),
    )


def _excitation(given: dict[str, object] | None) -> dict[str, Any]:
    if given is None:
        return {}
    table = _Table(given, "excitation", ("period", "signals"))
    signals = [_signal(name, content) for name, content in table.get("signals", dict, {}).items()]
    period = table.get("period", (str, int, float), None)
    if period is None and not signals:
        raise ModelError('excitation: give "period", e.g. period = "2*pi/omega", or measured signals.')
    return {"period": period, "signals": signals}


def _signal(name: str, content: Mapping[str, object]) -> Signal:
    place = f"excitation.signals.{name}"
    table = _Table(content, place, ("times", "values", "period", "kind", "degree", "harmonics", "unit"))
    values = _array(table.get("values", list, []), f"{place}.values")
    period = table.number("period", math.nan) if "period" in content else None
    if "times" in content:
        times = _array(table.get("times", list, []), f"{place}.times")
    elif period is None:
        raise ModelError(f'{place}: give "times", or "period" for even samples of one period.')
    else:
        times = period * np.arange(values.size) / max(values.size, 1)
    kind, degree = table.get("kind", str, "polynomial"), table.get("degree", int, 1)
    return Signal(
        name, times, values, period, kind, degree, table.get("harmonics", int, None), table.get("unit", str, "")
    )


def _array(given: list[object], place: str) -> Array:
    if not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in given):
        raise ModelError(f"{place} must be a list of numbers.")
    return checks.array(place, given, shape=(None,), error=ModelError)


def _partition(given: dict[str, object] | None) -> dict[str, Any]:
    if given is None:
        return {}
    table = _Table(given, "partition", ("expressions", "letters"))
    expressions = checks.texts("partition: expressions", table.get("expressions", list, []), error=ModelError)
    return {"partition": expressions, "letters": table.get("letters", str, "")}


def _impact(given: object, number: int) -> dict[str, Any]:
    place = f"impacts number {number}"
    table = _Table(given, place, ("name", "surface", "reset"))
    surface = table.get("surface", str, None)
    if surface is None:
        raise ModelError(f'{place}: give "surface", an expression that is positive where the motion takes place.')
    reset = _texts(table.get("reset", dict, {}), f"{place}: reset")
    return {"name": table.get("name", str, ""), "surface": surface, "reset": reset}


def _symmetry(given: object, number: int) -> dict[str, Any]:
    table = _Table(given, f"symmetries number {number}", ("map", "shift"))
    return {"map": _texts(table.get("map", dict, {}), "symmetry"), "shift": table.number("shift", 0.0)}


def _texts(given: Mapping[str, object], place: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in given.items():
        if not isinstance(value, str):
            raise ModelError(
                f'{place}: "{checks.printable(key)}" must be an expression as text, not {checks.shown(value)}.'
            )
        found[key] = value
    return found


def _numbers(given: Mapping[str, object], place: str) -> dict[str, float]:
    for key, value in given.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ModelError(f'{place}: "{checks.printable(key)}" must be a number, not {checks.shown(value)}.')
    return {
        key: checks.number(f"{place}: {checks.printable(key)}", value, finite=False, error=ModelError)
        for key, value in given.items()
    }
