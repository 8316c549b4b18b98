"""Edit the study file one key at a time.

Comments are kept, and every former state can be restored.
The file is the only state. A change is applied to the text on disk as it is at that moment, so that an edit made
outside is never overwritten as a whole; what it had at the same key is reported.
"""

from __future__ import annotations

import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, Array, InlineTable

from kapitza.base.files import replacing
from kapitza.errors import DataError

Place = tuple[str | int, ...]

LARGEST_STUDY = 5_000_000
MOST_STATES = 500


@dataclass(frozen=True)
class Change:
    """Describe a change of the document.

    Places (none: anything may have changed), who did it ("" outside), and a message for the other windows.
    """

    places: tuple[Place, ...] = ()
    by: str = ""
    message: str = ""

    def touches(self, *place: str | int) -> bool:
        """Return whether a place may have changed.

        This is so for the value at it, and for anything inside or around it.
        """
        if not self.places:
            return True
        return any(one[: len(place)] == place[: len(one)] for one in self.places)


EMPTY_LOOKS, EMPTY_PAUSE = 5, 0.05
"""Looks, and seconds between them, at a file that is empty: an editor that writes in place empties it first."""


class Document:
    """A study file with its history.

    text: as it is on disk, as far as known. problem: why it cannot be parsed, "" where it can. version: rises by one
    with each change, from here or from outside.
    """

    def __init__(self, path: Path):
        self.path = path
        self.text = self._on_disk()
        self.version = 0
        self._past: list[str] = []
        self._future: list[str] = []
        self.problem = ""
        self._parse()

    # -- reading ---------------------------------------------------------------------------------------------------

    def get(self, *place: str | int, default: Any = None) -> Any:
        """Return the plain value at a place.

        A single table [model] is the first of a list.
        """
        return value_at(self._plain, place, default)

    @property
    def content(self) -> Mapping[str, Any]:
        """The study as plain tables, as it was last readable."""
        return self._plain

    def tables(self, section: str) -> list[dict[str, Any]]:
        """Return the tables of a repeated section."""
        found = self.get(section, default=[])
        return [table for table in (found if isinstance(found, list) else [found]) if isinstance(table, dict)]

    @property
    def can_undo(self) -> bool:
        return bool(self._past)

    @property
    def can_redo(self) -> bool:
        return bool(self._future)

    # -- changing --------------------------------------------------------------------------------------------------

    def set(self, place: Place, value: Any, by: str = "") -> Change:
        """Set one key; None removes it.

        The message for the other windows is returned.
        """
        return self.set_all({place: value}, by)

    def set_all(self, values: Mapping[Place, Any], by: str = "") -> Change:
        """Set several keys as one history step."""
        before = {place: self.get(*place) for place in values}
        outside = self.refresh()
        if self.problem:
            raise DataError(f"{self.path.name} cannot be changed here until it is mended: {self.problem}")
        lost = [f"{shown(p)} = {self.get(*p)!r}" for p in values if outside and self.get(*p) != before[p]]
        for place, value in values.items():
            _put(self._document, place, value)
        text = tomlkit.dumps(self._document)
        if not _says(text, values):
            self._parse()
            raise DataError(f"{self.path.name} cannot take {', '.join(map(shown, values))} by itself: edit the text.")
        self._write(text)
        message = ""
        if lost:
            message = f"{', '.join(lost)} was set outside at the same time and is replaced; undo brings it back."
        return Change(() if outside else tuple(values), by, message)

    def replace(self, text: str, by: str = "") -> Change:
        """Take a new text as a whole."""
        self.refresh()
        self._write(text)
        return Change((), by)

    def undo(self, by: str = "") -> Change:
        """Go back by one change."""
        self.refresh()
        if self._past:
            self._future.append(self.text)
            self._write(self._past.pop(), keep=False)
        return Change((), by)

    def redo(self, by: str = "") -> Change:
        """Take back the last `undo`."""
        if not self.refresh() and self._future:
            self._past.append(self.text)
            self._write(self._future.pop(), keep=False)
        return Change((), by)

    def refresh(self) -> bool:
        """Load changes that others made on disk.

        Whether there were any is returned.
        """
        text = self._on_disk()
        for _ in range(EMPTY_LOOKS):
            if text.strip() or not self.text.strip():
                break
            time.sleep(EMPTY_PAUSE)
            text = self._on_disk()
        if text == self.text:
            return False
        self._remember()
        self.text = text
        self.version += 1
        self._parse()
        return True

    # -- inside ----------------------------------------------------------------------------------------------------

    def _on_disk(self) -> str:
        try:
            if self.path.stat().st_size > LARGEST_STUDY:
                raise DataError(f"{self.path.name} is larger than {LARGEST_STUDY} bytes: this is not a study.")
            return self.path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            raise DataError(f"{self.path.name} is not text in UTF-8: this is not a study.") from None
        except FileNotFoundError:
            raise DataError(f"{self.path.name} is not there any more: it was removed or renamed.") from None

    def _parse(self) -> None:
        try:
            self._document = tomlkit.parse(self.text)
            self._plain: Any = self._document.unwrap()
            self.problem = ""
        except TOMLKitError as problem:
            # The last readable content stays in view; nothing can be set until the file is mended.
            self.problem = str(problem)
            if self.version == 0:
                self._document, self._plain = tomlkit.document(), {}

    def _remember(self) -> None:
        self._past.append(self.text)
        del self._past[:-MOST_STATES]
        self._future.clear()

    def _write(self, text: str, keep: bool = True) -> None:
        if text == self.text:
            return
        # The bytes are written as they are: a file with Windows line ends keeps them.
        with replacing(self.path) as draft:
            draft.write_bytes(text.encode("utf-8"))
        if keep:
            self._remember()
        self.text = text
        self.version += 1
        self._parse()


def _says(text: str, values: Mapping[Place, Any]) -> bool:
    """Return whether a text has these values.

    Python's own parser reads it: an independent check of the writer.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return all(value_at(content, place) == value for place, value in values.items() if not isinstance(place[-1], int))


def value_at(content: Any, place: Place, default: Any = None) -> Any:
    """Return the value at a place of tables.

    A single table [model] is the first of a list.
    """
    found = content
    for part in place:
        if isinstance(part, int):
            if isinstance(found, Mapping) and part == 0:
                continue
            if not isinstance(found, list) or part >= len(found):
                return default
            found = found[part]
        elif isinstance(found, Mapping) and part in found:
            found = found[part]
        else:
            return default
    return found


def shown(place: Place) -> str:
    """Return a place as text: model.1.equations.

    Messages write it in this form.
    """
    return ".".join(str(part + 1) if isinstance(part, int) else part for part in place)


def _put(document: Any, place: Place, value: Any) -> None:
    """Set or remove the value at a place.

    Missing tables are made.
    """
    here: Any = document
    for part in place[:-1]:
        here = _inside(here, part)
    last = place[-1]
    if isinstance(last, int):
        _put_item(document, here, place, last, value)
    elif value is None:
        if last in here:
            del here[last]
    elif isinstance(value, Mapping) and len(place) == 1:
        here[last] = tomlkit.item(dict(value))
    else:
        old = here.get(last)
        new = _item(value)
        if old is not None and _is_array(old) and _is_array(new) and len(old) == len(new) and _flat(value):
            # Item by item: the comments between the lines of an array stay.
            for number, one in enumerate(value):
                if old[number] != one:
                    old[number] = one
        else:
            here[last] = new


def _inside(here: Any, part: str | int) -> Any:
    """Return the container one step further.

    It is made where it is missing.
    """
    if isinstance(part, int):
        if isinstance(here, Mapping):
            if part == 0:
                return here
            raise DataError("There is one table of this kind: add a second one first.")
        return here[part]
    if part not in here:
        here[part] = tomlkit.table() if not isinstance(here, InlineTable) else tomlkit.inline_table()
    return here[part]


def _put_item(document: Any, here: Any, place: Place, number: int, value: Any) -> None:
    """Set, append or remove one repeated table.

    [model] becomes [[model]] when a second one is added.
    """
    if isinstance(here, AoT | list) and not isinstance(here, Mapping):
        if value is None:
            del here[number]
        elif number < len(here):
            here[number] = value
        else:
            here.append(_table(value) if isinstance(here, AoT) else value)
        return
    name = place[-2]
    if value is None:
        del document[name]
    elif number == 0:
        document[name] = _table(value)
    else:
        several = tomlkit.aot()
        first = document[name]
        several.append(first)
        several.append(_table(value))
        document[name] = several


def _table(value: Mapping[str, Any]) -> Any:
    made = tomlkit.table()
    for key, one in value.items():
        made[key] = _item(one)
    return made


def _item(value: Any) -> Any:
    """Return a value as TOML writes it.

    Tables are in one line, long lists of texts have one entry per line.
    """
    if isinstance(value, Mapping):
        made = tomlkit.inline_table()
        for key, one in value.items():
            made[key] = _item(one)
        return made
    item = tomlkit.item(value)
    if isinstance(value, list) and sum(len(str(one)) for one in value) > 70:
        item.multiline(True)
    return item


def _is_array(value: Any) -> bool:
    return isinstance(value, Array)


def _flat(value: Any) -> bool:
    return all(isinstance(one, str | int | float) for one in value)
