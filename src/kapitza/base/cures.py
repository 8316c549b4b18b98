"""Cures in messages: read as data, and printed for Python, study files and commands.

A message names what to change as Python code: ``model.with_values(k=...)``, ``HarmonicFit(width=...)``, ``time="..."``.
`cures_of` reads these as `Cure`s (which call, which settings, with their values), and `spoken` prints the message with
each of them as a study file or a command has it: ``values = {k = ...} in [model]``, ``[fit.harmonic] width = ...``,
``time = "..."``. STUDY lists the calls.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

NEW = "`kapitza new FILE`, then `kapitza identify STUDY`"

TOKEN = re.compile(
    r'--[a-z-]+(?: [^\s=]+=[^\s,;]+)?|"[^"]*"|(?<![\w.-])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?P<opens>\(|=(?!=)|(?=\W)|$)'
)
"""An option with its value, a text in quotes, or a name that may begin a call or a setting."""

CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class Cure:
    """Something to change, as a message writes it in Python.

    name: of what is called, "" for a setting alone; arguments: the first ones, without names; settings: by name. Values
    are as written: "..." is one for the reader to choose. bare: a name without brackets.
    """

    name: str
    arguments: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    bare: bool = False

    @property
    def in_study(self) -> str:
        """What to write into a study or a command instead."""
        if self.bare:
            return BARE[self.name]
        if self.name in STUDY:
            made = STUDY[self.name]
            return made if isinstance(made, str) else made(self)
        inside = ", ".join([*map(_value, self.arguments), *_written(self.settings)])
        return f"{self.name}({inside})" if self.name else inside


def cures_of(message: str) -> tuple[Cure, ...]:
    """What a message proposes to change.

    >>> cures_of('No value for k: give it by model.with_values(k=...), or make it free.')
    (Cure(name='model.with_values', arguments=(), settings=(('k', '...'),), bare=False),)
    """
    return tuple(cure for _, _, cure in _found(message))


def spoken(message: str) -> str:
    """A message with its cures in the notation of study files and commands.

    >>> spoken('The filter has no value: give it by model.with_values(k=...), or pass HarmonicFit(width=...).')
    'The filter has no value: give it by values = {k = ...} in [model], or pass [fit.harmonic] width = ....'
    >>> spoken('Write --set m=0.09, not "k=fast".')
    'Write --set m=0.09, not "k=fast".'
    """
    made, last = [], 0
    for begin, end, cure in _found(message):
        made += [message[last:begin], cure.in_study]
        last = end
    return "".join([*made, message[last:]]).replace("method method", "method")


def _found(message: str) -> Iterator[tuple[int, int, Cure]]:
    """Begin, end and content of every cure in a message."""
    place = 0
    while (token := TOKEN.search(message, place)) is not None:
        place, opens = token.end(), token["opens"]
        if opens is None:
            continue
        name = token[0].removesuffix(opens)
        if opens == "(" and (name in STUDY or _has_setting(message, place)):
            end = _closed(message, place - 1)
            # kz.read(...).split_at_gaps(): the last call is the one that matters.
            if message.startswith(".split_at_gaps()", end):
                name, end = "record.split_at_gaps", end + len(".split_at_gaps()")
            yield token.start(), end, _call(name, message[place : end - 1])
            place = end
        elif opens == "=" and "." not in name and name.islower():
            end = _value_end(message, place)
            yield token.start(), end, Cure("", (), ((name, message[place:end]),))
            place = end
        elif opens == "" and name in BARE:
            yield token.start(), token.end(), Cure(name, bare=True)


def _has_setting(message: str, place: int) -> bool:
    """Whether the call whose bracket opened before `place` holds a setting."""
    return re.match(r"[^()]*?\b[a-z_]+=(?!=)", message[place:]) is not None


def _closed(message: str, place: int) -> int:
    """The place after the bracket that closes the one at `place`."""
    waiting, quote = [], ""
    for at in range(place, len(message)):
        letter = message[at]
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in CLOSING:
            waiting.append(CLOSING[letter])
        elif waiting and letter == waiting[-1]:
            waiting.pop()
            if not waiting:
                return at + 1
    return len(message)


def _value_end(message: str, place: int) -> int:
    """The place after the value of a setting that begins at `place`, which may be left out."""
    if place < len(message) and message[place] in CLOSING:
        return _closed(message, place)
    if place < len(message) and message[place] in "\"'":
        end = message.find(message[place], place + 1)
        return len(message) if end < 0 else end + 1
    word = re.compile(r"\.\.\.|-?[\w.]*\w(?:\(\))?|").match(message, place)
    return place if word is None else word.end()


def _call(name: str, inside: str) -> Cure:
    """A call from the text between its brackets."""
    parts, start, depth = [], 0, 0
    for at, letter in enumerate(inside + ","):
        depth += (letter in CLOSING) - (letter in CLOSING.values())
        if letter == "," and depth == 0:
            parts.append(inside[start:at].strip())
            start = at + 1
    named = [re.fullmatch(r"([A-Za-z_]\w*)=(.*)", part, re.DOTALL) for part in parts]
    given = tuple(part for part, found in zip(parts, named, strict=True) if part and found is None)
    return Cure(name, given, tuple((found[1], found[2]) for found in named if found is not None))


def _value(text: str) -> str:
    """A value as TOML writes it; calls inside of it as studies have them."""
    if text in ("True", "False"):
        return text.lower()
    if text.startswith("{"):
        return re.sub(r": *", " = ", text)
    return text if text.startswith(('"', "'")) else spoken(text)


OPTIONS = {"periods": "--periods", "t": "--duration"}
"""Settings of verbs that are options of commands."""

OTHERWISE = {"outputs": "measures"}
"""Settings that a study calls by another name."""

FIRST = {"harmonic": "test", "invariant": "objective", "orbits": "estimator", "shooting": "outputs", "auto": "shooting"}
"""What the first argument of a method is."""


def _written(settings: Iterable[tuple[str, str]]) -> list[str]:
    """Settings as lines of a study; a name alone where the value is left out."""
    lines = []
    for name, value in settings:
        if name in ("method", "then") and "(" in value:
            # A method in a study is a name, its settings a section.
            lines.append(spoken(value))
        elif name in OPTIONS:
            lines.append(f"{OPTIONS[name]} {value}".rstrip())
        else:
            here = OTHERWISE.get(name, name)
            lines.append(f"{here} = {_value(value)}" if value else here)
    return lines


def _method(name: str) -> Callable[[Cure], str]:
    def made(cure: Cure) -> str:
        settings = dict(zip([FIRST[name]], cure.arguments, strict=False)) | dict(cure.settings)
        if "then" in settings:
            return spoken(settings["then"]) if "(" in settings["then"] else "another method"
        return f"[fit.{name}] {', '.join(_written(settings.items()))}" if settings else f'method = "{name}"'

    return made


def _table(end: str) -> Callable[[Cure], str]:
    """Settings as a table of a study, with its key and section."""
    return lambda cure: f"values = {{{', '.join(_written(cure.settings)) or '...'}}} {end}"


def _lines(end: str) -> Callable[[Cure], str]:
    return lambda cure: f"{', '.join(_written(cure.settings)) or '...'} {end}"


def _study_of(cure: Cure) -> str:
    """`kz.identify(...)` as the commands that do it, with the method where it has settings."""
    method = dict(cure.settings).get("method", "")
    return f"a study with {spoken(method)}: {NEW}" if "=" in method else NEW


def _signal(cure: Cure) -> str:
    quoted = [a if a.startswith('"') else f'"{a}"' for a in cure.arguments[:1]]
    return f"drive = [{quoted[0]}]" if quoted else ", ".join(_written(cure.settings))


METHODS = {
    "ShootingFit": "shooting",
    "HarmonicFit": "harmonic",
    "OrbitFit": "orbits",
    "InvariantFit": "invariant",
    "Automatic": "auto",
}
"""Classes of settings, and the names of these methods in a study."""

STUDY: Mapping[str, str | Callable[[Cure], str]] = {
    **{name: _method(method) for name, method in METHODS.items()},
    **{f"kz.{name}": _method(method) for name, method in METHODS.items()},
    "model.with_values": _table("in [model]"),
    "record.with_attributes": _lines("in [data]"),
    "with_attributes": _lines("in [data]"),
    "orbit.with_": _lines("(in Python)"),
    "with_": _lines("(in Python)"),
    "read": _lines("in [data]"),
    "record.split_at_gaps": 'gaps = "split" in [data]',
    "record.resampled": "resampling before it is read",
    "record.select": "ignore = [...]",
    "record.in_units": "the unit of the model (coordinates.NAME.unit in [model])",
    "Prior": "{mean = ..., deviation = ...}",
    "Parameter": "[fit.priors] NAME = {mean = ..., deviation = ...}",
    "Signal": _signal,
    "kz.Signal": _signal,
    "OrbitSet": "into one set (in Python)",
    "model.linearise": "a start nearer to its equilibrium",
    "kz.find_orbits": "`kapitza orbits FILE`",
    "kz.identify": _study_of,
    "kz.validate": "`kapitza validate`",
    "kz.read": "a file",
    "kz.Record.from_arrays": "a file",
    "kz.SectionSearch": "SectionSearch (in Python)",
    "kz.ReturnSearch": "ReturnSearch (in Python)",
    "kz.with_control": "with_control (in Python)",
    "kz.Bar": "Bar",
    "kz.Silent": "Silent",
}
"""Calls in messages, and what a study or a command has instead."""

BARE = {
    **{name: f'method "{method}"' for name, method in METHODS.items()},
    "kz.suggest": "`kapitza suggest`",
    "kz.identify": "`kapitza identify`",
    "kapitza.read": "a file",
    "kapitza.simulate": "`kapitza simulate`",
    "kapitza.model.symbol": "text",
    "Record.from_arrays": "[data]",
    "Record.from_frame": "a file",
    "Model.from_equations": "equations",
    "Model.from_lagrangian": "a Lagrangian",
    "Model.from_hamiltonian": "invariants = {...}",
    "model.with_values": "values in [model]",
    "flow.section": "a section (in Python)",
    "flow.trajectory": "--duration",
}
"""The same for names without brackets."""
