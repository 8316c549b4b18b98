"""Show a rig.

Live points, and a visible stop button that leaves it safe.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go
from nicegui import ui

from kapitza.studio.drawings import rig_figure
from kapitza.studio.figures import LIVE, dressed, picture
from kapitza.studio.hints import with_code
from kapitza.studio.loading import state_of
from kapitza.studio.rig_files import can_go_on, points_file, rig_points, rig_runs, run_label
from kapitza.studio.session import Session, hear
from kapitza.studio.tables import LinkedTable
from kapitza.studio.work import OWN_RIGS, work_folder

if TYPE_CHECKING:
    from pathlib import Path

    from kapitza.studio.runs import Run

RANGES = {"duffing": ("omega", 0.5, 2.0, 1.0), "beam": ("Omega", 50.0, 80.0, 55.0)}
"""Parameter, ends and start that a rig is tried with."""

LONG = 3.0
"""Seconds without a new point after which the page says how long the measurement has lasted."""

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
    if not wrong and numbers["low"] == numbers["high"]:
        wrong["high"] = f"{numbers['high']:g} leaves no range: give two different numbers."
    low, high = sorted((numbers.get("low", 0.0), numbers.get("high", 0.0)))
    if not wrong and not low <= numbers["start"] <= high:
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


def request_of(values: dict[str, str], study: str) -> dict[str, Any]:
    """Return the request of a new run from the texts of the fields, which are not wrong.

    A range from above to below begins in the direction of falling values.
    """
    numbers = {n: float(values[n].replace(",", ".")) for n in ("low", "high", "start", "noise", "speed")}
    direction = 1 if numbers["low"] < numbers["high"] else -1
    numbers["low"], numbers["high"] = sorted((numbers["low"], numbers["high"]))
    asked = {"study": study, **values, **numbers, "direction": direction, "scales": {"x": 1.0}}
    return asked if values["rig"] in OWN_RIGS else asked | {"frequency": values["parameter"], "scales": {}}


def fields_of(request: dict[str, Any]) -> dict[str, str]:
    """Return the texts of the fields that gave a request."""
    first = RANGES["duffing"]
    usual = {"rig": "duffing", "parameter": first[0], "low": first[1], "high": first[2], "start": first[3],
             "noise": 0.005, "speed": 0}  # fmt: skip
    found = {name: request.get(name, value) for name, value in usual.items()}
    if request.get("direction") == -1:
        found["low"], found["high"] = found["high"], found["low"]
    return {name: str(value) for name, value in found.items()}


class RigPane:
    """Hold the pane's elements in one window.

    Points come from the run, or from disk.
    """

    def __init__(self, session: Session):
        self.session, self.folder = session, work_folder(session.path)
        self.fields: dict[str, ui.input] = {}
        self.labels: dict[int, tuple[Any, str]] = {}
        """Runs on disk as the menu shows them, with the state of their files."""
        self.picked = self.listing = False
        """Whether an earlier run was picked in this window; whether the menu is being filled."""
        with ui.row().classes("kz-stopbar items-center gap-3 w-full"):
            self.follow = ui.button("Follow", icon="play_arrow", on_click=self.start).props("no-caps unelevated")
            self.stop = ui.button("Stop the rig and leave it safe", icon="dangerous", on_click=self.halt)
            self.stop.props("no-caps unelevated color=negative size=md")
            self.alive = ui.spinner(size="sm")
            self.said = ui.label().classes("kz-note").props("aria-live=polite")
            # Apart from the sentence: a reader of the screen is not told of each second.
            self.since = ui.label().classes("kz-note")
        with ui.row().classes("items-center gap-3 w-full"):
            self.run = ui.select({}, label="points of", on_change=self.chosen).props("dense outlined")
            self.run.props("hide-bottom-space").classes("kz-wider")
            self.resume = ui.button("Go on from its last point", icon="redo", on_click=lambda: self.start(on=True))
            self.resume.props("no-caps outline")
            self.resume.tooltip("The rig, parameter and noise of that run; the range and the speed of the fields below")
        with ui.card().classes("kz-card w-full"):
            ui.label("Rig").classes("kz-title")
            with ui.row().classes("gap-3 items-start w-full"):
                known = fields_of(rig_points(self.folder).get("request", {}))
                for name, label in (
                    ("rig", "rig: duffing, beam, file.toml or tcp://"),
                    ("token", "token of a served rig"),
                    ("parameter", "parameter"),
                    ("low", "from"),
                    ("high", "to"),
                    ("start", "start at"),
                    ("noise", "noise of the sensor"),
                    ("speed", "times real time (0: as fast as it goes)"),
                ):
                    field = ui.input(label, value=known.get(name, "")).props("dense outlined hide-bottom-space")
                    field.classes("kz-medium" if name in ("rig", "token", "speed") else "kz-short")
                    self.fields[name] = field
                self.fields["rig"].on_value_change(self.suggest)
            said = (
                "Motions are followed by control that vanishes on them, stable or not, without a model, from the start "
                'in one direction: towards "to", until an end of the range. '
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
        self.counted: tuple[Any, float] = (None, 0.0)
        hear(session.ran, self.ran)
        ui.timer(LIVE, self.show)
        self.list_runs()
        self.show()

    def suggest(self) -> None:
        """Suggest a range for a built-in rig."""
        known = RANGES.get(str(self.fields["rig"].value))
        if known is not None:
            for name, value in zip(("parameter", "low", "high", "start"), known, strict=True):
                self.fields[name].value = str(value)

    async def start(self, on: bool = False) -> None:
        """Begin a new run, or go on from the last point of the one that is shown."""
        values = {name: (field.value or "").strip() for name, field in self.fields.items()}
        wrong = wrong_fields(values)
        if on:
            # The rig, the parameter and the start are those of the run.
            wrong = {name: text for name, text in wrong.items() if name in ("low", "high", "speed")}
        for name, field in self.fields.items():
            field.props["error"], field.props["error-message"] = name in wrong, wrong.get(name, "")
            field.update()
        if wrong:
            return
        asked = request_of(values, str(self.session.path))
        await self.session.start("rig", "rig", asked | ({"resume": self.run.value} if on else {}))

    async def halt(self) -> None:
        await self.session.stop("rig")

    def list_runs(self) -> None:
        """List the runs on disk; the newest is shown where none was chosen."""
        runs, options = rig_runs(self.folder), {}
        for number in runs:
            state = state_of(points_file(self.folder, number))
            if self.labels.get(number, (None, ""))[0] != state:
                self.labels[number] = (state, run_label(number, rig_points(self.folder, number)))
            options[number] = self.labels[number][1]
        work = self.session.runs.get("rig")
        now = number_of(work)
        if work is not None and work.active and now is not None:
            options[now] = f"run {now}: running"
        shown = now if now in options else self.run.value if self.run.value in options else next(iter(options), None)
        if options != self.run.options or shown != self.run.value:
            self.listing = True
            self.run.set_options(options, value=shown)
            self.listing = False
        self.run.set_visibility(bool(options))

    def chosen(self) -> None:
        """Show the points of another run, and what it was asked."""
        if self.listing or self.run.value is None:
            return
        self.picked = True
        for name, text in fields_of(rig_points(self.folder, self.run.value).get("request", {})).items():
            self.fields[name].value = text
        self.show()

    def ran(self, key: str) -> None:
        # Points are drawn by the timer; what the buttons may do is shown at once.
        work = self.session.runs.get("rig")
        if key == "rig" and work is not None:
            self.follow.set_enabled(not work.active)
            self.stop.set_enabled(work.state == "running")
            self.picked = self.picked and not work.active
            if not work.active or number_of(work) != self.run.value:
                self.list_runs()

    def show(self) -> None:
        work = self.session.runs.get("rig")
        active = work is not None and work.active
        lines = [] if work is None else work.lines
        self.alive.set_visibility(active)
        self.follow.set_enabled(not active)
        self.stop.set_enabled(active and work is not None and work.state == "running")
        self.run.set_enabled(not active)
        if (id(work), len(lines)) != self.counted[0]:
            self.counted = ((id(work), len(lines)), time.monotonic())
        self.since.text = since(time.monotonic() - self.counted[1]) if active else ""
        now = (self.run.value, None if work is None else (work.state, id(work)), len(lines))
        if now == self.drawn:
            return
        self.drawn = now
        # The points of the work of this server, or those of an earlier run on disk.
        own = work is not None and (active or number_of(work) == self.run.value)
        kept = {} if own or self.run.value is None else rig_points(self.folder, self.run.value)
        points = points_of(work) if own and work is not None else kept.get("points", [])
        request = work.arguments if own and work is not None else kept.get("request", {})
        self.resume.set_visibility(not active and self.run.value is not None and can_go_on(self.folder, self.run.value))
        # A run that has measured nothing leaves no file: what ended it is said over the points of the run before.
        said = work is not None and (own or not self.picked)
        self.said.text = sentence(work) if said else kept_sentence(self.folder, self.run.value, kept)
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


def points_of(work: Run) -> list[dict[str, Any]]:
    """Return the points that a rig has sent so far."""
    return [line for line in work.lines if line.get("event") == "point"]


def number_of(work: Run | None) -> int | None:
    """Return the number of the run that work writes; None before it is known."""
    lines = [] if work is None else work.lines
    return next((int(line["number"]) for line in lines if line.get("event") == "run"), None)


def since(seconds: float) -> str:
    """Return how long a measurement has lasted; nothing where it is short."""
    return "" if seconds < LONG else f"Measuring the next point for {seconds:.0f} s."


def short(value: float | None) -> str | None:
    """Return a number with two digits.

    None where it is not known.
    """
    return None if value is None else f"{value:.2g}"


def sentence(work: Run | None) -> str:
    """Return the state of a rig as text."""
    if work is None:
        return "Not running."
    number = len(points_of(work))
    count = "1 point" if number == 1 else f"{number} points"
    if work.state == "running":
        return f"Running: {count} so far."
    if work.state == "stopping":
        return f"Stopping: {count} so far."
    ended = {"done": "Done", "stopped": "Stopped", "failed": "Failed", "killed": "Killed"}[work.state]
    safe = any(line.get("event") == "safe" for line in work.lines)
    left = "the rig is in its safe state" if safe else "the watchdog of a served rig leaves it safe"
    file = next((line["file"] for line in work.lines if line.get("event") == "run"), "")
    kept = f"{count} kept in {file}" if number and file else "no point was measured"
    more = work.message or str(work.result.get("message", ""))
    return f"{ended}: {kept}, {left}. {more}".rstrip()


def kept_sentence(folder: Path, number: int | None, run: dict[str, Any]) -> str:
    """Return where the points of an earlier run are, and how it ended."""
    if number is None or not run:
        return "Not running."
    count = len(run.get("points", ()))
    points = "1 point" if count == 1 else f"{count} points"
    state = {"running": "interrupted"}.get(str(run.get("state")), run.get("state"))
    message = f" {run['message']}" if run.get("message") else ""
    file = f"{folder.name}/{points_file(folder, number).name}"
    return f"Not running. Run {number}: {points} kept in {file} ({state}).{message}"
