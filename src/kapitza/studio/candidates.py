"""Copy a candidate, and say where its parameters to find are listed.

These are functions of the study as plain tables, without a page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kapitza.studio.document import Place, value_at

Tables = list[dict[str, Any]]


def models_of(content: Mapping[str, Any]) -> Tables:
    """Return the tables of the candidates; a single [model] is the first of a list."""
    found = content.get("model", [])
    return [dict(table) for table in (found if isinstance(found, list) else [found]) if isinstance(table, Mapping)]


def names_to_find(content: Mapping[str, Any], number: int) -> list[str]:
    """Return the parameters to find of a candidate: its own list, else that of [fit]."""
    own = value_at(content, ("model", number, "free"))
    return list((value_at(content, ("fit", "free")) if own is None else own) or [])


def free_place(content: Mapping[str, Any], number: int) -> Place:
    """Return where the parameters to find of a candidate are written.

    It is its own list where it has one, and where another candidate reads that of [fit]: a name of this one would be
    unknown there.
    """
    tables = models_of(content)
    own = number < len(tables) and "free" in tables[number]
    shared = any("free" not in table for at, table in enumerate(tables) if at != number)
    return ("model", number, "free") if own or shared else ("fit", "free")


def title_of(table: Mapping[str, Any], number: int) -> str:
    """Return what a candidate is called."""
    return str(table.get("name") or table.get("library") or f"model {number + 1}")


def appended(content: Mapping[str, Any], table: Mapping[str, Any], name: str) -> dict[Place, Any]:
    """Return the keys that append a candidate, as one step of the history.

    name: what it is called; a number is added where another one is called so.
    """
    tables = models_of(content)
    values: dict[Place, Any] = {}
    if len(tables) == 1 and tables[0].get("name") is None:
        # Before the second table makes a list of the first.
        values["model", 0, "name"] = "candidate 1"
    taken = {title_of(one, at) for at, one in enumerate(tables)} | set(values.values())
    wanted, count = name, 1
    while wanted in taken:
        count += 1
        wanted = f"{name} {count}"
    return {**values, ("model", len(tables)): {"name": wanted, **{k: v for k, v in table.items() if k != "name"}}}


def copied(content: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return a copy of a candidate that lists its parameters to find itself."""
    free = names_to_find(content, number)
    return {**dict(value_at(content, ("model", number), {})), **({"free": free} if free else {})}


def another_candidate(content: Mapping[str, Any], number: int) -> dict[Place, Any]:
    """Return the keys that append a copy of candidate `number`."""
    count = len(models_of(content)) + 1
    taken = {title_of(one, at) for at, one in enumerate(models_of(content))}
    while f"candidate {count}" in taken:
        count += 1
    return appended(content, copied(content, number), f"candidate {count}")
