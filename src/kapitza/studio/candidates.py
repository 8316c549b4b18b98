"""Copy a candidate, and say where its parameters to find are listed.

These are functions of the study as plain tables, without a page.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kapitza.studio.document import Place, value_at

if TYPE_CHECKING:
    from kapitza.study import StudyResult

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
    file = Path(str(table["file"])).stem if "file" in table else ""
    return str(table.get("name") or table.get("library") or file or f"model {number + 1}")


def value_place(content: Mapping[str, Any], number: int, name: str) -> Place:
    """Return where the value to start from is written."""
    inline = value_at(content, ("model", number, "parameters", name))
    if inline is None:
        return ("model", number, "values", name)
    return ("model", number, "parameters", name, "value") if isinstance(inline, Mapping) else (
        "model", number, "parameters", name
    )  # fmt: skip


def starts_from(result: StudyResult | None, content: Mapping[str, Any], number: int) -> dict[Place, Any]:
    """Return the keys that start a candidate from its fit; {} where it was not fitted, or starts there already."""
    tables = models_of(content)
    if result is None or number >= len(tables):
        return {}
    # Fitted alone it had no name, which a second candidate gave it.
    called = title_of(tables[number], number), f"model {number + 1}"
    fits = [fit for name in called for fit in result.fits if fit.candidate == name and fit.ok]
    if not fits:
        return {}
    found, known = fits[0].answer, fits[0].answer.model.names
    values = {value_place(content, number, n): float(f"{found.values[n]:.6g}") for n in found.names if n in known}
    return {place: value for place, value in values.items() if value_at(content, place) != value}


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


def without_parameter(content: Mapping[str, Any], number: int, name: str) -> dict[Place, Any]:
    """Return the keys that remove a parameter from a candidate.

    It leaves the parameters to find; its bounds and prior in [fit] go where no other candidate has it.
    """
    values: dict[Place, Any] = {("model", number, "parameters", name): None}
    free = names_to_find(content, number)
    if name in free:
        values[free_place(content, number)] = [one for one in free if one != name]
    others = [one for at, one in enumerate(models_of(content)) if at != number]
    if not any(name in (one.get("parameters") or {}) for one in others):
        for key in ("bounds", "priors"):
            if value_at(content, ("fit", key, name)) is not None:
                values["fit", key, name] = None
    return values
