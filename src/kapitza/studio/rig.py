"""Show a rig.

Live points, and a visible stop button that leaves it safe.
"""

from __future__ import annotations

import contextlib
from typing import Any

import plotly.graph_objects as go
from nicegui import ui

from kapitza.studio.drawings import rig_figure
from kapitza.studio.figures import LIVE, dressed, picture
from kapitza.studio.hints import with_code
from kapitza.studio.session import Session, hear
from kapitza.studio.tables import LinkedTable
from kapitza.studio.work import OWN_RIGS, rig_points, work_folder

RANGES = {"duffing": ("omega", 0.5, 2.0, 1.0), "beam": ("Omega", 50.0, 80.0, 55.0)}
"""Parameter, ends and start that a rig is tried with."""

COLUMNS = ("point", "parameter", "largest output", "residual [σ]", "effort", "runs")


def build(session: Session) -> None:
    """Add the pane to a window."""
    RigPane(session)


def wrong_fields(values: dict[str, Any]) -> dict[str, str]:
    """Return problems of a request, by field."""
    wrong: dict[str, str] = {}
    numbers: dict[str, float] = {}
    for name in ("low", "high", "start", "noise", "speed"):
        try:
            numbers[name] = float(str(values[name]).replace(",", "."))
        except ValueError:
            wrong[name] = f'"{values[name]}" is not a number.'
    if not wrong and not numbers["low"] < numbers["high"]:
        wrong["high"] = f"{numbers['high']:g} is not above {numbers['low']:g}."
    if not wrong and not numbers["low"] <= numbers["start"] <= numbers["high"]:
        wrong["start"] = f"{numbers['start']:g} is not between {numbers['low']:g} and {numbers['high']:g}."
    for name, least in (("noise", 0.0), ("speed", 0.0)):
        if name not in wrong and numbers.get(name, 0.0) < least:
            wrong[name] = f"{numbers[name]:g} is negative."
    asked = str(values["rig"])
    if asked not in OWN_RIGS and not asked.startswith("tcp://") and not asked.endswith(".toml"):
        wrong["rig"] = "Choose duffing or beam, a rig file (.toml) of this folder, or an address tcp://..."
    if not str(values["parameter"]).strip():
        wrong["parameter"] = "Name the parameter to follow."
    return wrong


class RigPane:
    """Hold the pane's elements in one window.

    Points come from the run, or from disk.
    """

    def __init__(self, session: Session):
        self.session = session
        self.fields: dict[str, ui.input] = {}
        with ui.row().classes("kz-stopbar items-center gap-3 w-full"):
            self.follow = ui.button("Follow", icon="play_arrow", on_click=self.start).props("no-caps unelevated")
            self.stop = ui.button("Stop the rig and leave it safe", icon="dangerous", on_click=self.halt)
            self.stop.props("no-caps unelevated color=negative size=md")
            self.said = ui.label().classes("kz-note").props("aria-live=polite")
        with ui.card().classes("kz-card w-full"):
            ui.label("Rig").classes("kz-title")
            with ui.row().classes("gap-3 items-start w-full"):
                known = rig_points(work_folder(session.path)).get("request", {})
                first = RANGES["duffing"]
                for name, label, value in (
                    ("rig", "rig: duffing, beam, file.toml or tcp://", known.get("rig", "duffing")),
                    ("token", "token of a served rig", ""),
                    ("parameter", "parameter", known.get("parameter", first[0])),
                    ("low", "from", known.get("low", first[1])),
                    ("high", "to", known.get("high", first[2])),
                    ("start", "start at", known.get("start", first[3])),
                    ("noise", "noise of the sensor", known.get("noise", 0.005)),
                    ("speed", "times real time (0: as fast as it goes)", known.get("speed", 0)),
                ):
                    field = ui.input(label, value=str(value)).props("dense outlined hide-bottom-space")
                    field.classes("kz-medium" if name in ("rig", "token", "speed") else "kz-short")
                    self.fields[name] = field
                self.fields["rig"].on_value_change(self.suggest)
            said = (
                "Motions are followed by control that vanishes on them, stable or not, without a model. "
                "Simulated rigs come with Kapitza; a real one is served at an address by `kapitza rig serve` on its "
                "computer."
            )
            ui.html(with_code(said), sanitize=False).classes("kz-note")
        with ui.row().classes("kz-columns w-full"):
            with ui.card().classes("kz-card"):
                ui.label("Points").classes("kz-title")
                self.figure = picture(go.Figure(), 400)
            with ui.card().classes("kz-card"):
                self.table = LinkedTable(COLUMNS, height=400)
        self.drawn: Any = None
        hear(session.ran, self.ran)
        ui.timer(LIVE, self.show)
        self.show()

    def suggest(self) -> None:
        """Suggest a range for a built-in rig."""
        known = RANGES.get(str(self.fields["rig"].value))
        if known is not None:
            for name, value in zip(("parameter", "low", "high", "start"), known, strict=True):
                self.fields[name].value = str(value)

    async def start(self) -> None:
        values = {name: (field.value or "").strip() for name, field in self.fields.items()}
        wrong = wrong_fields(values)
        for name, field in self.fields.items():
            field.props["error"], field.props["error-message"] = name in wrong, wrong.get(name, "")
            field.update()
        if wrong:
            return
        numbers = {n: float(values[n].replace(",", ".")) for n in ("low", "high", "start", "noise", "speed")}
        asked = {"study": str(self.session.path), **values, **numbers, "scales": {"x": 1.0}}
        if values["rig"] not in OWN_RIGS:
            asked |= {"frequency": values["parameter"], "scales": {}}
        await self.session.start("rig", "rig", asked)

    async def halt(self) -> None:
        await self.session.stop("rig")

    def ran(self, key: str) -> None:
        # Points are drawn by the timer; what the buttons may do is shown at once.
        work = self.session.runs.get("rig")
        if key == "rig" and work is not None:
            self.follow.set_enabled(not work.active)
            self.stop.set_enabled(work.state == "running")

    def show(self) -> None:
        work = self.session.runs.get("rig")
        lines = [] if work is None else work.lines
        points = [line for line in lines if line.get("event") == "point"]
        kept = rig_points(work_folder(self.session.path)) if work is None else {}
        request = kept.get("request", {}) if work is None else work.arguments
        points = points or (kept.get("points", []) if work is None else [])
        active = work is not None and work.active
        self.follow.set_enabled(not active)
        self.stop.set_enabled(active and work is not None and work.state == "running")
        now = (len(points), None if work is None else (work.state, id(work)), len(lines))
        if now == self.drawn:
            return
        self.drawn = now
        safe = next((line for line in reversed(lines) if line.get("event") == "safe"), None)
        self.said.text = sentence(work, len(points), safe, kept.get("state", ""))
        output = next(iter(points[0]["peaks"])) if points else "x"
        with contextlib.suppress(KeyError):
            self.figure.update_figure(dressed(rig_figure(points, str(request.get("parameter", "")), output), 400))
        self.table.fill(
            [
                {"point": n, "parameter": p["value"], "largest output": p["peaks"].get(output),
                 "residual [σ]": short(p["residual"]), "effort": short(p["effort"]),
                 "runs": p["measurements"]}
                for n, p in enumerate(points, start=1)
            ],
            len(points) - 1 if points else None,
        )  # fmt: skip


def short(value: float | None) -> str | None:
    """Return a number with two digits.

    None where it is not known.
    """
    return None if value is None else f"{value:.2g}"


def sentence(work: Any, points: int, safe: Any, kept: str) -> str:
    """Return the state of the rig as text."""
    count = f"{points} points"
    if work is None:
        return f"{count} kept from the last run ({kept})." if points else "Not running."
    if work.state == "running":
        return f"Running: {count} so far."
    if work.state == "stopping":
        return f"Stopping: {count} so far."
    ended = {"done": "Done", "stopped": "Stopped", "failed": "Failed", "killed": "Killed"}[work.state]
    left = "the rig is in its safe state" if safe else "the watchdog of a served rig leaves it safe"
    more = f" {work.message}" if work.message else ""
    return f"{ended}: {count} kept, {left}.{more}"
