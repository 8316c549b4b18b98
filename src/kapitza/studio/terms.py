"""Add a suggested term to a study."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from kapitza.studio.candidates import appended, copied, free_place, models_of, names_to_find, title_of
from kapitza.studio.document import Place

LAWS = {
    "viscous friction": ("viscous", "c"),
    "Coulomb friction": ("coulomb", "c"),
    "quadratic drag": ("quadratic", "c"),
    "cubic damping": ("cubic_damping", "c"),
    "linear stiffness": ("linear", "k"),
    "cubic stiffness": ("cubic", "k"),
    "quintic stiffness": ("quintic", "k"),
}
"""Laws of a study by what `suggest` calls them, with the letter of their parameter."""

SENSOR = re.compile(r"(offset|drift|gain|delay) of the sensor (.+)")
HELD = re.compile(r"other value of (\w+), which was held")


def with_term(content: Mapping[str, Any], number: int, name: str, notation: str) -> dict[Place, Any]:
    """Return the keys that add a term.

    The term goes to candidate `number` of a study; {} where it cannot be added by a click.
    content: the study as plain tables. name, notation: of the `MissingTerm`. A law becomes an entry of `laws`; any
    other force is written into the equation of its coordinate, where the study has equations. Its coefficient is free.
    An error of a sensor becomes unknown in [data]; a parameter that was held becomes free.
    """
    if (sensor := SENSOR.fullmatch(name)) is not None:
        return with_sensor_error(content, sensor[2], sensor[1])
    table = (models_of(content)[number : number + 1] or [{}])[0]
    if (held := HELD.fullmatch(name)) is not None:
        return _freed(content, number, held[1])
    coordinate = re.search(r"(?:of|on|equation of) ([^\W\d]\w*)'*$", name)
    if coordinate is None or "{c}" not in notation:
        return {}
    on = coordinate[1]
    title = name.removesuffix(f" of {on}")
    place: Place = ("model", number)
    if title in LAWS:
        law, letter = LAWS[title]
        entry, parameter = f"{law} {on}", f"{law}_{on}_{letter}"
        laws = list(table.get("laws", []))
        if entry in laws:
            return {}
        changes: dict[Place, Any] = {(*place, "laws"): [*laws, entry]}
    else:
        found = _in_equations(table, on, notation, title)
        if found is None:
            return {}
        equations, parameter = found
        parameters = {**table.get("parameters", {}), parameter: 0.0}
        changes = {(*place, "equations"): equations, (*place, "parameters"): parameters}
    return changes | _freed(content, number, parameter)


def _freed(content: Mapping[str, Any], number: int, parameter: str) -> dict[Place, Any]:
    """Return the key that lists a parameter among those to find."""
    free = names_to_find(content, number)
    return {} if parameter in free else {free_place(content, number): [*free, parameter]}


def with_candidate(content: Mapping[str, Any], number: int, name: str, notation: str) -> dict[Place, Any]:
    """Return the keys that add a term as a further candidate.

    It is a copy of candidate `number` with the term, so that both are compared by the next fit; {} where the term
    cannot be added, or a candidate has it already. An error of a sensor belongs to the recording, not to a candidate:
    it becomes unknown in [data].
    """
    changes = with_term(content, number, name, notation)
    if not changes or SENSOR.fullmatch(name) is not None:
        return changes
    made = copied(content, number)
    for place, value in changes.items():
        made[str(place[-1])] = value
    tables = models_of(content)
    if any(_same_forces(made, copied(content, at)) for at in range(len(tables))):
        return {}
    before = title_of(tables[number], number)
    if len(tables) == 1 and "name" not in tables[0]:
        before = "candidate 1"  # as `appended` calls it
    return appended(content, made, f"{before} + {name}")


def _same_forces(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two candidates have the same equations, forces and parameters to find."""
    keys = ("equations", "library", "file", "map", "laws")
    same = all((one.get(key) or []) == (other.get(key) or []) for key in keys)
    return same and set(one.get("free", ())) == set(other.get("free", ()))


def with_sensor_error(content: Mapping[str, Any], channel: str, error: str) -> dict[Place, Any]:
    """Return the keys that make an error of a sensor unknown.

    In every recording that is fitted and has this channel; {} where it is unknown already.
    """
    tables = content.get("data", [])
    changes: dict[Place, Any] = {}
    for number, table in enumerate([tables] if isinstance(tables, Mapping) else tables):
        if table.get("use", "fit") != "fit" or not _has_channel(table, channel):
            continue
        sensors = {name: dict(one) for name, one in (table.get("sensors") or {}).items()}
        given = sensors.setdefault(channel, {})
        known = unknown_errors(given)
        if error not in known:
            given["unknown"] = " ".join([*known, error])
            changes["data", number, "sensors"] = sensors
    return changes


def unknown_errors(sensor: Mapping[str, Any]) -> list[str]:
    """Return the unknown errors of a sensor; a study lists them as text or as a list."""
    given = sensor.get("unknown") or []
    return given.split() if isinstance(given, str) else [str(one) for one in given]


def _has_channel(table: Mapping[str, Any], channel: str) -> bool:
    """Return whether a recording has a channel under this name."""
    channels = table.get("channels")
    if channels is None:
        return True
    if not isinstance(channels, Mapping):
        return channel in channels
    names = [[name] if isinstance(name, str) else name for name in channels.values()]
    return any(channel in one for one in names if isinstance(one, list))


def _parameter_name(title: str, on: str, taken: Collection[str]) -> str:
    """Return a name for the coefficient of a term: "quadratic stiffness" on x is quadratic_x."""
    first = title.partition(" ")[0].lower()
    # A product such as x*x' has no name of its own.
    first = first.replace("-", "_") if re.fullmatch("[a-z-]{2,}", first) else "force"
    word = {"constant": "offset"}.get(first, first)
    name, count = f"{word}_{on}", 1
    while name in taken:
        count += 1
        name = f"{word}_{on}_{count}"
    return name


def _in_equations(table: Mapping[str, Any], on: str, notation: str, title: str) -> tuple[str | list[str], str] | None:
    """Return the equations with the term added.

    The term is on the left side of the one with the highest derivative; its parameter is returned too.
    """
    given = table.get("equations")
    if given is None:
        return None
    equations = [given] if isinstance(given, str) else list(given)
    primes = max((len(m[1]) for text in equations for m in re.finditer(rf"\b{re.escape(on)}('+)", text)), default=0)
    owner = [n for n, text in enumerate(equations) if re.search(rf"\b{re.escape(on)}'{{{primes}}}(?!')", text)]
    if not primes or len(owner) != 1:
        return None
    written = re.escape(notation).replace(re.escape("{c}"), r"\w+")
    if re.search(rf"(?<![\w*]){written}(?!\s*\*)", equations[owner[0]]):
        return None
    parameter = _parameter_name(title, on, {*table.get("parameters", {}), *re.findall(r"\w+", " ".join(equations))})
    left, equals, right = equations[owner[0]].partition("=")
    equations[owner[0]] = f"{left.rstrip()} + {notation.format(c=parameter)} {equals}{right}".rstrip()
    return (equations[0] if isinstance(given, str) else equations), parameter
