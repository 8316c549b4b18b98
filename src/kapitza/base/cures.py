"""Cures of errors as data.

A cure says what to change; it is printed for Python, and for study files and commands.

Messages name their cures by `Give`, `Set`, `Fit`, `By` and `Do`, inside of the text that an error or a `Message` is
made of: ``KapitzaError(f"Several look like the time: choose it with {Give(time='...')}.")``. These write the cure as
data between two marks that do not occur in texts; the error or `Message` reads it back, so that texts can be joined and
nested before. It prints in the notation of Python (`str`) or of study files and commands (`in_study`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

OPEN, CLOSE = "\ue0c0", "\ue0c1"
"""Marks around a cure in a text; characters for private use, which no keyboard writes."""

MARKED = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")

METHODS = {
    "shooting": "ShootingFit",
    "harmonic": "HarmonicFit",
    "orbits": "OrbitFit",
    "invariant": "InvariantFit",
    "branch": "BranchFit",
    "auto": "Automatic",
}
"""Names of the methods in a study, and the classes of their settings."""

TABLES = {
    "values": ("model.with_values", "values = {{{}}} in [model]"),
    "data": ("record.with_attributes", "{} in [data]"),
    "orbit": ("orbit.with_", "{} (in Python)"),
}
"""What `Set` sets: the call in Python, and the lines of a study."""

OPTIONS = {"periods": "--periods", "t": "--duration"}
"""Settings of verbs that are options of commands."""

READING = {
    "time": "--time",
    "interval": "--interval",
    "group": "--group",
    "segment": "--segment",
    "missing": "--missing",
}
"""Settings of the reader that are options of commands which read a recording."""

OTHERWISE = {"outputs": "measures"}
"""Settings that a study calls by another name."""


@dataclass(frozen=True)
class Cure:
    """Something to change.

    kind: "give", "set", "fit", "method" or "do"; name: of the table, the method or the call; settings: by name, None
    where the value is left to the reader. Values are texts as Python has them, or cures.
    """

    kind: str
    name: str = ""
    settings: Mapping[str, str | Cure | None] = field(default_factory=dict)
    study: str = ""

    def __str__(self) -> str:
        written = ", ".join(f"{name}={'' if value is None else value}" for name, value in self.settings.items())
        if self.kind == "give":
            return written
        if self.kind == "set":
            return f"{TABLES[self.name][0]}({written or '...'})"
        return f"{METHODS[self.name]}({written})" if self.kind == "fit" else METHODS.get(self.name, self.name)

    @property
    def in_study(self) -> str:
        """Return the cure for a study or command."""
        lines = ", ".join(_line(name, value) for name, value in self.settings.items())
        if self.kind == "give":
            return lines
        if self.kind == "set":
            return TABLES[self.name][1].format(lines or "...")
        if self.kind == "method":
            return f'method "{self.name}"'
        if self.kind == "do":
            return self.study
        if "then" in self.settings:
            then = self.settings["then"]
            return then.in_study if isinstance(then, Cure) else "another method"
        return f"[fit.{self.name}] {lines}" if lines else f'method = "{self.name}"'


class Message(str):
    """A text that keeps its cures.

    >>> message = Message(f"No value for k: give it by {Set('values', k=...)}, or make it free.")
    >>> message
    'No value for k: give it by model.with_values(k=...), or make it free.'
    >>> in_study(message)
    'No value for k: give it by values = {k = ...} in [model], or make it free.'
    >>> message.cures
    (Cure(kind='set', name='values', settings={'k': '...'}, study=''),)
    """

    marked: str

    def __new__(cls, text: str) -> Message:
        text = text.marked if isinstance(text, Message) else text
        made = super().__new__(cls, "".join(str(part) for part in _parts(text)))
        made.marked = text
        return made

    def __getnewargs__(self) -> tuple[str]:
        return (self.marked,)

    @property
    def cures(self) -> tuple[Cure, ...]:
        """Return what the message proposes to change."""
        return tuple(part for part in _parts(self.marked) if isinstance(part, Cure))


def in_command(text: object) -> str:
    """Return a text or an error with settings of the reader as options, other cures as study files have them."""

    def shown(part: str | Cure) -> str:
        if isinstance(part, str):
            return part
        if part.kind != "give" or not part.settings or not set(part.settings) <= {*READING, "units"}:
            return part.in_study
        return " ".join(_option(name, value) for name, value in part.settings.items())

    return "".join(map(shown, _parts(marked(text))))


def _option(name: str, value: str | Cure | None) -> str:
    """Return a setting of the reader as an option: ``--time NAME``, ``--unit "x=mm"``."""
    text = "..." if value is None else str(value)
    if name == "units":
        pairs = re.findall(r'"([^"]*)": "([^"]*)"', text)
        return " ".join(f'--unit "{column}={unit}"' for column, unit in pairs) or "--unit NAME=UNIT"
    return f"{READING[name]} {'NAME' if text == chr(34) + '...' + chr(34) else text}"


def in_study(text: object) -> str:
    """Return a text with cures for a study.

    The text or error gets its cures in the notation of study files and commands.
    """
    parts = _parts(marked(text))
    return "".join(part.in_study if isinstance(part, Cure) else part for part in parts)


def marked(text: object) -> str:
    """Return a text with its cures as data.

    It can be put into another text.
    """
    said = text.args[0] if isinstance(text, Exception) and len(text.args) == 1 else text
    return said.marked if isinstance(said, Message) else str(text)


def keep_cures(noun: object, *names: str) -> None:
    """Read the cures in texts of a noun.

    It is called while the noun is constructed.
    """
    for name in names:
        given = getattr(noun, name)
        object.__setattr__(noun, name, Message(given) if isinstance(given, str) else tuple(map(Message, given)))


def Give(*names: str, **settings: Any) -> str:
    """Return the cure that gives arguments.

    ``a=1``, ``a = 1`` in a study; names alone where no value is proposed.
    """
    return _mark("give", "", dict.fromkeys(names) | settings)


def Set(table: str, **settings: Any) -> str:
    """Return the cure that sets values.

    They are values of the model, attributes of the data or of an orbit (TABLES).
    """
    return _mark("set", table, settings)


def Fit(method: str, **settings: Any) -> str:
    """Return the cure that fits by a method.

    It reads ``HarmonicFit(width=...)`` in Python and ``[fit.harmonic] width = ...`` in a study.
    """
    return _mark("fit", method, settings)


def By(name: str) -> str:
    """Name a method: ``ShootingFit``, ``method "shooting"`` in a study."""
    return _mark("method", name, {})


def Do(python: str, study: str) -> str:
    """Return a cure with separate texts.

    One is for Python, one for study files.
    """
    return _mark("do", python, {}, study)


class Code(str):
    """A value that is code, not text.

    `Give(t=Code("times"))` is ``t=times``.
    """


def _mark(kind: str, name: str, settings: Mapping[str, Any], study: str = "") -> str:
    values = {key: None if value is None else _python(value) for key, value in settings.items()}
    # ASCII only, so that the marks of cures inside of this one are escaped.
    data = json.dumps([kind, name, values, study])
    return f"{OPEN}{data}{CLOSE}"


def _python(value: Any) -> str:
    """Return a value as Python writes it.

    Texts are in double quotes as in messages; a cure stays a cure.
    """
    if value is ... or isinstance(value, Code):
        return "..." if value is ... else str(value)
    if isinstance(value, str):
        return value if MARKED.fullmatch(value) else json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_python(key)}: {_python(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        inside = ", ".join(map(_python, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    return repr(value)


def _parts(text: str) -> Iterator[str | Cure]:
    """Return the pieces of a text and its cures."""
    last = 0
    for found in MARKED.finditer(text):
        yield text[last : found.start()]
        yield _read(found[1])
        last = found.end()
    yield text[last:]


def _read(data: str) -> str | Cure:
    """Return a cure from its data.

    It is the text itself where something else wrote the marks.
    """
    try:
        kind, name, settings, study = json.loads(data)
        made = {key: _inner(value) for key, value in settings.items()}
        cure = Cure(kind, name, made, study)
        _ = str(cure), cure.in_study
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return data
    return cure


def _inner(value: str | None) -> str | Cure | None:
    found = None if value is None else MARKED.fullmatch(value)
    return value if found is None else _read(found[1])


def _line(name: str, value: str | Cure | None) -> str:
    """Return a setting for a study or command.

    It is a line of a study or an option of a command.
    """
    here = OTHERWISE.get(name, name)
    if value is None:
        return OPTIONS.get(name, here)
    if isinstance(value, Cure):
        # A method in a study is a name, its settings a section.
        return value.in_study
    if value.startswith("{"):
        value = re.sub(r": *", " = ", value)
    joint = f"{OPTIONS[name]} " if name in OPTIONS else f"{here} = "
    return joint + (value.lower() if value in ("True", "False") else value)


SPLIT = Do("record.split_at_gaps()", 'gaps = "split" in [data]')
RESAMPLE = Do("record.resampled(interval)", "resampling before it is read")
PRIOR = Do("Parameter(..., prior=Prior(mean, deviation))", "[fit.priors] NAME = {mean = ..., deviation = ...}")
IDENTIFY = Do("kz.identify(model, record, free=[...])", "`kapitza new FILE`, then `kapitza identify STUDY`")
FIND_ORBITS = Do("kz.find_orbits(record)", "`kapitza orbits FILE`")
RECORD = Do("kz.read(...) or kz.Record.from_arrays(...)", "a file")
SELECT = Do("record.select([...])", "ignore = [...]")
SUGGEST = Do("kz.suggest", "`kapitza suggest`")
