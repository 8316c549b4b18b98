"""Edit the columns of a recording.

What moves, what drives, what is ignored, and in which unit.
"""

from __future__ import annotations

from typing import Any

from nicegui import ui

from kapitza.data import FITTED
from kapitza.errors import KapitzaError
from kapitza.studio.document import Change, shown
from kapitza.studio.fields import choice_field, number_field
from kapitza.studio.hints import in_page
from kapitza.studio.loading import Shown
from kapitza.studio.renaming import with_name
from kapitza.studio.session import Session, hear, window
from kapitza.studio.terms import unknown_errors

ROLES = {"state": "moves", "drive": "drives", "ignore": "ignored"}

UNITS = ("", "m", "mm", "um", "in", "m/s", "mm/s", "m/s**2", "g", "rad", "deg", "rad/s", "deg/s", "rpm", "N", "kN",
         "N*m", "V", "mV", "A", "s", "ms", "Hz", "Pa", "bar", "degC", "count")  # fmt: skip
"""Units of the menu; any other can be typed."""

TIMES = ("", "s", "ms", "us", "ns", "min", "h")
"""Units of the menu for the time."""

LEFT = "(e) => { if (!e.relatedTarget?.closest('.q-menu')) emit(e.target.value); }"
"""Sends what stands in a field that is left, except for its own menu."""

TYPED = "(e) => { if (!document.querySelector('.q-menu .q-manual-focusable--focused')) emit(e.target.value); }"
"""Sends what was typed at Enter, unless an entry of the menu is taken. Tab alone changes nothing."""

ERRORS = [error.name for error in FITTED]
"""Errors of a sensor that can be found along with the parameters."""

BAD = {"leave out": "left out", "keep": "kept"}
GAPS = {"keep": "one motion", "split": "cut there"}


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


def drawn_columns(session: Session, number: int, columns: tuple[str, ...], every: bool = False) -> list[int]:
    """Return the columns that are drawn.

    Ignored ones, such as a second clock, are drawn on request, or where all are ignored.
    """
    used = [at for at, (role, _) in enumerate(roles(session, number, columns).values()) if role != "ignore"]
    return list(range(len(columns))) if every or not used else used


def column_table(session: Session, number: int, recording: Shown) -> None:
    """Add one row per column.

    Role, name in the equations, unit, errors of the sensor to find, and whether it is an angle. The widgets stay while
    the recording does: a menu that is open outlives what another window changes.
    """
    table = _Columns(session, number, recording)
    with ui.grid().classes("kz-grid w-full items-center"):
        for title in ("column", "role", "in the equations", "unit", "sensor errors to find", "angle"):
            ui.label(title).classes("kz-note")
        table.add_clock()
        for column in recording.channels:
            table.add(column)
    with ui.row().classes("gap-3 items-start w-full"):
        choice_field(session, ("data", number, "bad_samples"), "bad samples", BAD, "leave out").classes("kz-short")
        choice_field(session, ("data", number, "gaps"), "gaps", GAPS, "keep").classes("kz-gaps")
        number_field(session, ("data", number, "every"), "use every n-th sample", whole=True, placeholder="1").classes(
            "kz-gaps"
        )
    problems = ui.column().classes("gap-0 w-full")

    def show_problems() -> None:
        problems.clear()
        with problems:
            keys = ("channels", "drive", "units", "angles", "ignore", "time", "segment", "file", "measures", "sensors")
            for key in keys:
                for text in session.problems_at("data", number, key):
                    said = text.removeprefix(f"{shown(('data', number, key))}: ")
                    ui.label(in_page(said)).classes("kz-problem")

    def changed(change: Change) -> None:
        keys = ("channels", "drive", "units", "angles", "ignore", "sensors")
        if any(change.touches("data", number, key) for key in keys):
            table.show()

    hear(session.changed, changed)
    hear(session.checked, show_problems)
    table.show()
    show_problems()


class _Columns:
    """Hold the widgets of the columns of one recording in one window."""

    def __init__(self, session: Session, number: int, recording: Shown):
        self.session, self.number, self.recording, self.own = session, number, recording, window()
        self.roles: dict[str, ui.select] = {}
        self.names: dict[str, ui.input] = {}
        self.units: dict[str, ui.select] = {}
        self.errors: dict[str, ui.select] = {}
        self.angles: dict[str, ui.checkbox] = {}
        self.known: dict[str, str] = {}
        self.known_clock: dict[str, str] = {}

    def get(self, key: str, default: Any) -> Any:
        return self.session.document.get("data", self.number, key, default=default) or default

    def now(self) -> dict[str, tuple[str, str]]:
        return roles(self.session, self.number, self.recording.channels)

    def add_clock(self) -> None:
        """Add the row of the time, whose unit can be chosen; none where the times come from an interval."""
        column, read = self.recording.clock
        if not column:
            return
        ui.label(column).classes("kz-mono ellipsis")
        ui.label("time").classes("kz-note")
        ui.label("t").classes("kz-mono")
        self.units[column] = ui.select({}, on_change=lambda e: self.set_unit(column, e.value)).props(
            'dense outlined options-dense aria-label="Unit of the time"'
        )
        self.known_clock = {u: u or f"{read} (as read)" for u in TIMES}
        for _ in range(2):
            ui.label()

    def add(self, column: str) -> None:
        """Add the widgets of a column; `show` fills them."""
        ui.label(column).classes("kz-mono ellipsis")
        self.roles[column] = ui.select(
            ROLES, value="ignore", on_change=lambda e: self.set_role(column, role=e.value)
        ).props('dense outlined options-dense aria-label="Role of a column"')
        name = ui.input().props('dense outlined aria-label="Name in the equations"').classes("kz-mono")
        name.on("change", lambda: self.set_name(column, str(name.value or "").strip()))
        self.names[column] = name
        self.units[column] = ui.select({}, with_input=True, on_change=lambda e: self.set_unit(column, e.value)).props(
            'dense outlined options-dense aria-label="Unit"'
        )
        # What is typed replaces the unit shown, and is not put into the middle of it.
        for event in ("focusin", "click"):
            self.units[column].on(event, js_handler="(e) => setTimeout(() => e.target.select?.())")
        # Without this a unit that is typed and left without Enter would be gone without a word.
        self.units[column].on("focusout", lambda event: self.left_unit(column, str(event.args)), js_handler=LEFT)
        self.units[column].on("keydown.enter", lambda event: self.left_unit(column, str(event.args)), js_handler=TYPED)
        self.errors[column] = ui.select(
            ERRORS, value=[], multiple=True, on_change=lambda e: self.set_errors(column, e.value)
        ).props('dense outlined options-dense aria-label="Sensor errors to find"')
        self.angles[column] = ui.checkbox(on_change=lambda e: self.set_angle(column, bool(e.value))).props(
            'dense aria-label="Angle"'
        )

    def show(self) -> None:
        """Show what the study says; widgets that say it already are left alone."""
        angles, units, sensors = self.get("angles", []), self.get("units", {}), self.get("sensors", {})
        clock = self.recording.clock[0]
        if clock in self.units:
            unit = units.get(clock, "")
            options = self.known_clock | {unit: unit or self.known_clock[""]}
            if self.units[clock].options != options:
                self.units[clock].set_options(options, value=unit)
            self.units[clock].value = unit
        for column, (role, name) in self.now().items():
            self.roles[column].value = role
            # A name that is being typed is overwritten only by another one of the study.
            if self.known.get(column) != name:
                self.known[column] = self.names[column].value = name
            self.names[column].set_enabled(role != "ignore")
            read, unit = self.recording.record.units.get(column, ""), units.get(column, "")
            options = {u: u or (f"{read} (as read)" if read else "none") for u in dict.fromkeys((*UNITS, unit))}
            if self.units[column].options != options:
                self.units[column].set_options(options, value=unit)
            self.units[column].value = unit
            self.errors[column].set_enabled(role == "state")
            self.errors[column].value = [e for e in unknown_errors(sensors.get(name, {})) if e in ERRORS]
            # An angle must be a channel: the study would be refused.
            self.angles[column].set_enabled(role != "ignore")
            self.angles[column].value = name in angles

    def put(self, values: dict[Any, Any]) -> None:
        try:
            self.session.set_all(values, self.own)
        except (KapitzaError, OSError) as problem:
            ui.notify(str(problem), type="negative", multi_line=True)
            self.show()

    def set_role(self, column: str, role: str | None = None, name: str | None = None) -> None:
        """Give a column another role or name; angles and sensors follow the name."""
        now, at = self.now(), ("data", self.number)
        old_role, old_name = now[column]
        now[column] = (role or old_role, name or old_name)
        if now[column] == (old_role, old_name):
            return
        used = {c: n for c, (r, n) in now.items() if r != "ignore"}
        drives = [n for r, n in now.values() if r == "drive"]
        values: dict[Any, Any] = {(*at, "channels"): used or None, (*at, "drive"): drives or None}
        if self.session.document.get(*at, "ignore") is not None:
            values[*at, "ignore"] = None
        angles, sensors, new = self.get("angles", []), self.get("sensors", {}), now[column][1]
        if old_name in angles and new != old_name:
            values[*at, "angles"] = [new if a == old_name else a for a in angles]
        if old_name in sensors and (new != old_name or now[column][0] != "state"):
            kept = now[column][0] == "state"
            moved = {new if n == old_name else n: one for n, one in sensors.items() if kept or n != old_name}
            values[*at, "sensors"] = moved or None
        if new != old_name:
            # The equations follow, and the other recordings: they would name what nobody measures.
            table = {**(self.session.document.get(*at) or {}), **{place[-1]: one for place, one in values.items()}}
            tables = list(self.session.document.tables("data"))
            tables[self.number] = {key: one for key, one in table.items() if one is not None}
            values |= with_name({**self.session.document.content, "data": tables}, old_name, new)
        self.put(values)

    def set_name(self, column: str, name: str) -> None:
        """Give a column the name that was typed."""
        if name:
            self.set_role(column, name=name)
            return
        self.names[column].value = self.known[column]
        ui.notify(f'"{column}" needs a name in the equations; a column that is not used is "ignored".', type="warning")

    def left_unit(self, column: str, text: str) -> None:
        """Take a unit that was typed, but not confirmed."""
        if text.strip() and text not in dict(self.units[column].options).values():
            self.set_unit(column, text.strip())

    def set_unit(self, column: str, unit: str | None) -> None:
        units = dict(self.get("units", {}))
        before = units.pop(column, None)
        if unit:
            units[column] = unit
        if units.get(column) != before:
            self.put({("data", self.number, "units"): units or None})

    def set_errors(self, column: str, errors: list[str]) -> None:
        """List the errors of a sensor that are to be found; what else is known of it stays."""
        name, sensors = self.now()[column][1], {n: dict(one) for n, one in self.get("sensors", {}).items()}
        given = sensors.setdefault(name, {})
        if sorted(unknown_errors(given)) == sorted(errors):
            return
        given["unknown"] = " ".join(errors)
        if not errors:
            del given["unknown"]
        self.put({("data", self.number, "sensors"): {n: one for n, one in sensors.items() if one} or None})

    def set_angle(self, column: str, is_angle: bool) -> None:
        name, angles = self.now()[column][1], self.get("angles", [])
        if (name in angles) != is_angle:
            rest = [a for a in angles if a != name]
            self.put({("data", self.number, "angles"): [*rest, *([name] if is_angle else [])] or None})
