"""Edit the columns of a recording.

What moves, what drives, what is ignored, and in which unit.
"""

from __future__ import annotations

from typing import Any

from nicegui import ui

from kapitza.errors import KapitzaError
from kapitza.studio.document import Change, shown
from kapitza.studio.loading import Shown
from kapitza.studio.session import Session, hear, window

ROLES = {"state": "moves", "drive": "drives", "ignore": "ignored"}

UNITS = ("", "m", "mm", "um", "in", "m/s", "mm/s", "m/s**2", "g", "rad", "deg", "rad/s", "deg/s", "rpm", "N", "kN",
         "N*m", "V", "mV", "A", "s", "ms", "Hz", "Pa", "bar", "degC", "count")  # fmt: skip
"""Units of the menu; any other can be typed."""


def roles(session: Session, number: int, columns: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    """Return each column's role and name.

    The name is that in the equations.
    """
    get = session.document.get
    channels, drives = get("data", number, "channels"), get("data", number, "drive", default=[]) or []
    named: dict[str, str] = {}
    if isinstance(channels, dict):
        for column, name in channels.items():
            at = columns[int(column)] if column.isdigit() and int(column) < len(columns) else column
            named[at] = name if isinstance(name, str) else ", ".join(name)
    elif isinstance(channels, list):
        named = {columns[c] if isinstance(c, int) else c: columns[c] if isinstance(c, int) else c for c in channels}
    else:
        named = {column: column for column in columns}
    ignored = get("data", number, "ignore", default=[]) or []
    found = {}
    for column in columns:
        name = named.get(column, column)
        role = "drive" if name in drives else "state" if column in named and name not in ignored else "ignore"
        found[column] = (role, name)
    return found


def column_table(session: Session, number: int, recording: Shown) -> None:
    """Add one row per column.

    Role, name in the equations, unit, and whether it is an angle.
    """
    own = window()
    grid = ui.grid().classes("kz-grid w-full items-center")
    problems = ui.column().classes("gap-0 w-full")

    def put(values: dict[Any, Any]) -> None:
        try:
            session.set_all(values, own)
        except (KapitzaError, OSError) as problem:
            ui.notify(str(problem), type="negative", multi_line=True)

    def set_role(column: str, role: str | None = None, name: str | None = None) -> None:
        now = roles(session, number, recording.channels)
        old_role, old_name = now[column]
        now[column] = (role or old_role, (name or "").strip() or old_name)
        if now[column] == (old_role, old_name):
            return
        used = {c: n for c, (r, n) in now.items() if r != "ignore"}
        drives = [n for r, n in now.values() if r == "drive"]
        values: dict[Any, Any] = {("data", number, "channels"): used or None, ("data", number, "drive"): drives or None}
        if session.document.get("data", number, "ignore") is not None:
            values["data", number, "ignore"] = None
        angles = session.document.get("data", number, "angles", default=[]) or []
        if old_name in angles and now[column][1] != old_name:
            values["data", number, "angles"] = [now[column][1] if a == old_name else a for a in angles]
        put(values)

    def set_unit(column: str, unit: str | None) -> None:
        units = dict(session.document.get("data", number, "units", default={}) or {})
        before = units.get(column)
        units.pop(column, None)
        if unit:
            units[column] = unit
        if units.get(column) != before:
            put({("data", number, "units"): units or None})

    def set_angle(column: str, is_angle: bool) -> None:
        name = roles(session, number, recording.channels)[column][1]
        angles = [a for a in session.document.get("data", number, "angles", default=[]) or [] if a != name]
        put({("data", number, "angles"): [*angles, *([name] if is_angle else [])] or None})

    def show() -> None:
        grid.clear()
        angles = session.document.get("data", number, "angles", default=[]) or []
        given = session.document.get("data", number, "units", default={}) or {}
        with grid:
            for title in ("column", "role", "in the equations", "unit", "angle"):
                ui.label(title).classes("kz-note")
            for column, (role, name) in roles(session, number, recording.channels).items():
                ui.label(column).classes("kz-mono ellipsis")
                ui.select(ROLES, value=role, on_change=lambda e, c=column: set_role(c, role=e.value)).props(
                    'dense outlined options-dense aria-label="Role of a column"'
                )
                field = (
                    ui.input(value=name).props('dense outlined aria-label="Name in the equations"').classes("kz-mono")
                )
                field.set_enabled(role != "ignore")
                field.on("change", lambda e, c=column, f=field: set_role(c, name=f.value))
                read = recording.record.units.get(column, "")
                unit = given.get(column, "")
                options = {u: u or (f"{read or 'none'} (file)") for u in dict.fromkeys((*UNITS, unit))}
                ui.select(
                    options, value=unit, with_input=True, new_value_mode="add-unique",
                    on_change=lambda e, c=column: set_unit(c, e.value),
                ).props('dense outlined options-dense aria-label="Unit"')  # fmt: skip
                ui.checkbox(value=name in angles, on_change=lambda e, c=column: set_angle(c, bool(e.value))).props(
                    'dense aria-label="Angle"'
                )

    def show_problems() -> None:
        problems.clear()
        with problems:
            keys = ("channels", "drive", "units", "angles", "ignore", "time", "segment", "file", "measures")
            for key in keys:
                for text in session.problems_at("data", number, key):
                    ui.label(text.removeprefix(f"{shown(('data', number, key))}: ")).classes("kz-problem")

    def changed(change: Change) -> None:
        if any(change.touches("data", number, key) for key in ("channels", "drive", "units", "angles", "ignore")):
            show()

    hear(session.changed, changed)
    hear(session.checked, show_problems)
    show()
    show_problems()
