"""Offer equations, library models and forces by a click."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nicegui import ui

from kapitza.errors import KapitzaError
from kapitza.library import SYSTEMS, model_named
from kapitza.model import LAWS, Model, model_to_dict
from kapitza.studio.candidates import free_place, models_of, names_to_find
from kapitza.studio.document import Change
from kapitza.studio.session import Session, hear, window

FIRST_EQUATIONS = {
    "oscillator": "{x}'' + c*{x}' + k*{x} = 0",
    "pendulum": "{x}'' + c*{x}' + k*sin({x}) = 0",
    "pendulum, upright at 0": "{x}'' + c*{x}' - k*sin({x}) = 0",
    "pendulum with dry friction": "{x}'' + c*{x}' + d*sign({x}') + k*sin({x}) = 0",
    "oscillator with dry friction": "{x}'' + c*{x}' + d*sign({x}') + k*{x} = 0",
    "hardening spring (Duffing)": "{x}'' + c*{x}' + k*{x} + k3*{x}**3 = 0",
}
"""Equations to begin with, for a coordinate x."""

SHORT_TERMS = {
    "viscous": "viscous friction", "coulomb": "dry friction", "quadratic": "quadratic drag",
    "cubic_damping": "cubic damping", "stribeck": "Stribeck friction", "linear": "linear spring",
    "cubic": "cubic spring", "quintic": "quintic spring", "bilinear": "one-sided spring", "gap": "spring beyond a gap",
}  # fmt: skip
"""What the laws are called in menus."""


def coordinate(session: Session) -> str:
    """Return the name of the first coordinate.

    It is that of the first column that moves.
    """
    named = session.document.get("data", 0, "channels", default=[])
    names = list(named.values()) if isinstance(named, dict) else list(named)
    drives = session.document.get("data", 0, "drive", default=[]) or []
    moving = sorted((str(name) for name in names if name not in drives), key=lambda name: name.endswith("'"))
    # Where only a rate was measured the coordinate is that which has this rate.
    return moving[0].rstrip("'") if moving else "x"


def replace_candidate(session: Session, number: int, table: dict[str, Any], free: list[str]) -> None:
    """Replace a candidate and its parameters to find.

    Beside other candidates it lists them itself: theirs would be held, or unknown, by a list that all share.
    """
    content = session.document.content
    alone = len(models_of(content)) == 1 and free_place(content, number) == ("fit", "free")
    values = other_keys(session, number, table if alone else {**table, "free": free})
    if alone:
        values["fit", "free"] = free
    try:
        session.set_all(values, window())
    except (KapitzaError, OSError) as problem:
        ui.notify(str(problem), type="negative", multi_line=True)


def written_out(model: Model, drives: Sequence[str] = ()) -> dict[str, Any]:
    """Return the keys of [model] that a model of the library stands for.

    drives: columns that drive the model; their samples are those of the recording.
    """
    table = {key: one for key, one in model_to_dict(model).items() if key not in ("name", "description", "source")}
    table["parameters"] = {
        name: one["value"] if list(one) == ["value"] else {key: v for key, v in one.items() if key != "description"}
        for name, one in table["parameters"].items()
    }
    signals = table.get("excitation", {}).pop("signals", {})
    if others := {name: one for name, one in signals.items() if name not in drives}:
        table["excitation"]["signals"] = others
    return table


def other_keys(session: Session, number: int, table: dict[str, Any]) -> dict[Any, Any]:
    """Return the keys that make a candidate this table.

    One by one: the comments between them stay.
    """
    now = session.document.get("model", number, default={})
    return {("model", number, key): table.get(key) for key in (*now, *table) if now.get(key) != table.get(key)}


def about_rest(equation: str) -> str:
    """Return an equation about a rest position.

    >>> about_rest("{x}'' + k*sin({x}) = 0")
    "{x}'' + k*sin({x} - rest) = 0"
    """
    return re.sub(r"\(\{x\}\)|\{x\}(?!')", "({x} - rest)", equation)


FRICTION = ("c", "d")
"""Parameters of the equations to begin with that take energy out: below 0 they would feed it in."""


def begun(equation: str, kept: Mapping[str, Any], name: str, drives: Sequence[str]) -> dict[str, Any]:
    """Return the table of a candidate that begins with an equation.

    kept: the table before; what is known of its parameters stays. name: of the coordinate.
    """
    words = re.findall(r"(?<![\w'])[a-z]\d?(?=\*)", equation)
    given = kept.get("parameters", {})
    if "rest" in given:
        # Where the motion does not swing about 0 the study says so: a pendulum measured from above rests at pi.
        equation, words = about_rest(equation), [*words, "rest"]
    if drives:
        # A recording that is driven stays driven.
        equation, words = equation.replace("= 0", f"= b*{drives[0]}"), [*words, "b"]
    new = {word: {"value": 1.0, "bounds": [0.0, math.inf]} if word in FRICTION else 1.0 for word in words}
    return {
        **{key: kept[key] for key in ("name", "coordinates", "excitation") if key in kept},
        "equations": [equation.format(x=name)],
        "parameters": {word: given.get(word, one) for word, one in new.items()},
    }


def starting_points(session: Session, number: int) -> None:
    """Offer models of the library, and laws to add."""
    own = window()
    ui.label("One click away").classes("kz-title")

    def use(name: str) -> None:
        kept = session.document.get("model", number, "name")
        made = model_named(name)
        table = {**({"name": kept} if kept else {}), "library": name}
        values = {n: float(made.values[n]) for n in made.names if made.values[n] == made.values[n]}
        table["values"] = values
        free = names_to_find(session.document.content, number)
        replace_candidate(session, number, table, [n for n in free if n in made.names] or list(made.names)[:1])

    def write_out() -> None:
        # Of the present text: the last valid study may hold another model under this number.
        now = session.document.get("model", number, default={})
        drives = session.document.get("data", 0, "drive", default=[]) or []
        try:
            found = model_named(str(now["library"])).with_values(**(now.get("values") or {}))
            kept = {key: now[key] for key in ("name", "free", "laws") if key in now}
            session.set_all(other_keys(session, number, {**kept, **written_out(found, drives)}), own)
        except (KapitzaError, OSError) as problem:
            ui.notify(str(problem), type="negative", multi_line=True)

    def begin(equation: str) -> None:
        kept = session.document.get("model", number, default={})
        given = kept.get("parameters", {})
        drives = session.document.get("data", 0, "drive", default=[]) or []
        table = begun(equation, kept, coordinate(session), drives)
        free = names_to_find(session.document.content, number)
        replace_candidate(session, number, table, [n for n in table["parameters"] if n in free or n not in given])

    def once(act: Callable[[str], None]) -> Callable[[Any], None]:
        """Act on what is chosen and forget it: the same entry can be chosen again, after an undo for instance."""

        def chosen(event: Any) -> None:
            if event.value:
                name, event.sender.value = str(event.value), None
                act(name)

        return chosen

    ui.select(
        {text: name for name, text in FIRST_EQUATIONS.items()}, label="Equation to begin with", on_change=once(begin)
    ).props("dense outlined options-dense").classes("w-full")
    meanings = {s.__name__: f"{s.__name__}: {(s.__doc__ or '').partition(chr(10))[0].rstrip('.')}" for s in SYSTEMS}
    ui.select(meanings, label="Model of the library", with_input=True, on_change=once(use)).props(
        "dense outlined options-dense"
    ).classes("w-full")
    if session.document.get("model", number, "library"):
        ui.button("Write out its equations", icon="edit", on_click=write_out).props("dense no-caps flat")
    laws = ui.column().classes("gap-1 w-full")

    def put(wanted: list[str]) -> None:
        try:
            place = free_place(session.document.content, number)
            free = names_to_find(session.document.content, number)
            before = session.document.get("model", number, "laws", default=[]) or []
            gone = {n for law in before if law not in wanted for n in _law_names(law)}
            new = [n for law in wanted if law not in before for n in _law_names(law)]
            session.set_all(
                {("model", number, "laws"): wanted or None, place: [n for n in free if n not in gone] + new}, own
            )
        except (KapitzaError, OSError) as problem:
            ui.notify(str(problem), type="negative", multi_line=True)

    def show() -> None:
        laws.clear()
        given = session.document.get("model", number, "laws", default=[]) or []
        coordinates = coordinates_of(session.model(number))
        with laws:
            for law in given:
                ui.chip(law, removable=True, icon="add").props("outline dense").on(
                    "remove", lambda law=law: put([one for one in given if one != law])
                )
            options = {f"{law} {c}": f"{SHORT_TERMS.get(law, law)} of {c}: {LAWS[law].meaning}"
                       for c in coordinates for law in LAWS if f"{law} {c}" not in given}  # fmt: skip
            ui.select(options, label="Add a force", on_change=lambda e: e.value and put([*given, e.value])).props(
                "dense outlined options-dense"
            ).classes("w-full")

    def changed(change: Change) -> None:
        if change.touches("model", number, "laws"):
            show()

    hear(session.changed, changed)
    known = {"coordinates": coordinates_of(session.model(number))}

    def checked() -> None:
        # The forces of the menu act on coordinates, which may have been renamed.
        now = coordinates_of(session.model(number))
        if now and now != known["coordinates"]:
            known["coordinates"] = now
            show()

    hear(session.checked, checked)
    show()


def coordinates_of(model: Model | None) -> list[str]:
    """Return the names of the coordinates; none where there is no model yet."""
    return [] if model is None else [one.name for one in model.coordinates]


def _law_names(law: str) -> list[str]:
    """Return the parameters that a law brings.

    "coulomb x" has coulomb_x_c.
    """
    name, _, coordinate = law.strip().partition(" ")
    return [f"{name}_{coordinate.strip()}_{p[0]}" for p in LAWS[name].parameters] if name in LAWS else []
