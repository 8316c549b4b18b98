"""Rename a coordinate or a drive in the whole study.

This is a function of the study as plain tables, without a page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from kapitza.model import CONSTANTS, FUNCTIONS, LAWS
from kapitza.studio.candidates import models_of
from kapitza.studio.document import Place

NAME = re.compile(r"[^\W\d]\w*")
TEXTS = ("equations", "outputs", "invariants")
"""Keys of [model] whose texts hold coordinates."""


def with_name(content: Mapping[str, Any], old: str, new: str) -> dict[Place, Any]:
    """Return the keys that call a coordinate or a drive otherwise, in every candidate and recording.

    Its rates follow, and the parameters of its forces: coulomb_x_c becomes coulomb_phi_c. {} where no equation holds
    the old name, or the new one stands for something else already.
    """
    tables = models_of(content)
    equations = [text for table in tables for text in _flat(table.get("equations"))]
    words = {word for text in equations for word in NAME.findall(text)}
    known = {name for table in tables for key in ("parameters", "coordinates") for name in table.get(key) or {}}
    taken = {*words, *known, *FUNCTIONS, *CONSTANTS, "t"}
    if not (NAME.fullmatch(old) and NAME.fullmatch(new)) or old not in words or new in taken:
        return {}
    rename = _Rename(old, new)
    values: dict[Place, Any] = {}
    for number, table in enumerate(tables):
        changed = {key: rename.texts(table[key]) for key in TEXTS if key in table}
        changed |= {key: rename.keys(table[key], rename.name) for key in ("coordinates", "start") if key in table}
        changed |= {"laws": [rename.law(law) for law in table["laws"]]} if "laws" in table else {}
        changed |= {"values": rename.keys(table["values"], rename.parameter)} if "values" in table else {}
        changed |= {"free": [rename.parameter(one) for one in table["free"]]} if "free" in table else {}
        values |= {("model", number, key): one for key, one in changed.items() if one != table[key]}
    fit = content.get("fit", {})
    free = {"free": [rename.parameter(one) for one in fit["free"]]} if "free" in fit else {}
    kept = {key: rename.keys(fit[key], rename.parameter) for key in ("bounds", "priors") if key in fit}
    values |= {("fit", key): one for key, one in (free | kept).items() if one != fit[key]}
    found = content.get("data", [])
    for number, table in enumerate(found if isinstance(found, list) else [found]):
        values |= {("data", number, key): one for key, one in rename.data(table).items() if one != table[key]}
    return values


class _Rename:
    """Rename one name in texts, tables and lists."""

    def __init__(self, old: str, new: str):
        self.old, self.new = old, new
        laws = "|".join(sorted(LAWS, key=len, reverse=True))
        self._word = re.compile(rf"(?<![\w.]){re.escape(old)}(?!\w)")
        self._parameter = re.compile(rf"({laws})_{re.escape(old)}_(?=[^_]+$)")

    def texts(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: self.texts(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self.texts(one) for one in value]
        return self._word.sub(self.new, value) if isinstance(value, str) else value

    def name(self, name: str) -> str:
        """Return the new name of a coordinate, a drive or a rate."""
        base = name.rstrip("'")
        return self.new + name[len(base) :] if base == self.old else name

    def parameter(self, name: str) -> str:
        """Return the name of a parameter, or of a combination of them, with that of its force renamed."""
        return self._parameter.sub(lambda m: f"{m[1]}_{self.new}_", name)

    def law(self, law: str) -> str:
        name, _, on = law.strip().partition(" ")
        return f"{name} {self.new}" if on.strip() == self.old else law

    @staticmethod
    def keys(table: Mapping[str, Any], name: Callable[[str], str]) -> dict[str, Any]:
        return {name(key): one for key, one in table.items()}

    def data(self, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keys of a [data] table that hold names of the equations."""
        changed: dict[str, Any] = {}
        if isinstance(table.get("channels"), Mapping):
            changed["channels"] = {
                column: [self.name(n) for n in one] if isinstance(one, list) else self.name(str(one))
                for column, one in table["channels"].items()
            }
            # A list of columns has no names of its own: what follows from it is called like the columns.
            changed |= {key: [self.name(n) for n in table[key]] for key in ("angles", "drive") if key in table}
            changed |= {key: self.keys(table[key], self.name) for key in ("sensors", "measures") if key in table}
        if "measures" in table:
            changed["measures"] = self.texts(changed.get("measures", table["measures"]))
        return changed


def _flat(equations: Any) -> list[str]:
    return [equations] if isinstance(equations, str) else [str(one) for one in equations or ()]
