"""Show families of motions.

The pane shows a branch that grows, its points, orbits and bifurcations.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go
from nicegui import ui

from kapitza.errors import KapitzaError
from kapitza.studio.drawings import (
    branch_figure,
    growing_figure,
    heights,
    multiplier_figure,
    portrait_figure,
    time_figure,
)
from kapitza.studio.figures import LIVE, dressed, picture
from kapitza.studio.followed import (
    Source,
    ends_of,
    model_of,
    old_branch,
    sources,
    suggested_range,
    usual,
    wrong_range,
)
from kapitza.studio.loading import state_of
from kapitza.studio.rig_files import last_along
from kapitza.studio.session import Session, hear
from kapitza.studio.tables import LinkedTable
from kapitza.studio.threads import in_thread
from kapitza.studio.work import BRANCHES, branch_list, work_folder

if TYPE_CHECKING:
    from pathlib import Path

    from kapitza.base.arrays import Array
    from kapitza.continuation import Branch
    from kapitza.model import Model
    from kapitza.orbits import PeriodicOrbit
    from kapitza.study import StudyResult

POINTS = ("branch", "point", "value", "height", "period [s]", "stability")
LEAVES = ("period doubling", "pitchfork", "branch point", "Hopf")
"""Bifurcations at which another branch can be followed."""

MEASURES = {"amplitude": "amplitude", "point": "value on the section, with bands"}


def build(session: Session) -> None:
    """Add the pane to a window."""
    DiagramPane(session)


def read_branches(folder: Path) -> list[Branch]:
    """Return a folder's branches in the order followed."""
    from kapitza import load

    found = []
    for one in branch_list(folder):
        try:
            found.append(load(folder / str(one["file"])))
        except (KapitzaError, OSError):
            break
    return found


def point_rows(branches: list[tuple[Branch, Array]]) -> list[dict[str, Any]]:
    """Return one row for each point of all branches."""
    return [
        {"branch": number, "point": index, "value": float(branch.values[index, 0]), "height": float(height[index]),
         "period [s]": float(branch.periods[index]), "stability": state}
        for number, (branch, height) in enumerate(branches)
        for index, state in enumerate(branch.stability)
    ]  # fmt: skip


def row_of(branches: list[tuple[Branch, Array]], chosen: tuple[int, int] | None) -> int | None:
    """Return a point's row among all points."""
    if chosen is None:
        return None
    return sum(len(branch) for branch, _ in branches[: chosen[0]]) + chosen[1]


def point_of(branches: list[tuple[Branch, Array]], row: int) -> tuple[int, int]:
    """Return branch and index of a table row.

    The table holds all points.
    """
    for number, (branch, _) in enumerate(branches):
        if row < len(branch):
            return number, row
        row -= len(branch)
    return len(branches) - 1, len(branches[-1][0]) - 1


class DiagramPane:
    """Hold the pane's elements in one window.

    Branches are read from disk.
    """

    def __init__(self, session: Session):
        self.session = session
        self.folder = work_folder(session.path)
        self.branches: list[tuple[Branch, Array]] = []
        self.chosen: tuple[int, int] | None = None
        self.state: Any = None
        self.listed: Any = None
        self.grown = 0
        self.measured_on_rig: Any = None
        self.result: StudyResult | None = None
        self.sources: list[Source] = []
        self.touched = self.suggesting = False
        """Whether the range was typed in this window; whether it is being filled."""
        listed = branch_list(self.folder)
        self.request: dict[str, Any] = listed[0]["request"] if listed else {}
        self._controls()
        # Its room is kept: what is below would move under the pointer.
        self.older = ui.label().classes("kz-warning kz-kept").props("aria-live=polite")
        with ui.row().classes("kz-columns w-full") as self.body:
            with ui.card().classes("kz-card"):
                with ui.row().classes("items-center w-full"):
                    ui.label("Branch: click a point to see its orbit").classes("kz-title")
                    ui.space()
                    self.measure = ui.select(MEASURES, value="amplitude", on_change=self.measured)
                    self.measure.props("dense borderless options-dense")
                self.figure = picture(go.Figure(), 440)
                self.figure.on("plotly_click", lambda event: self.clicked(event.args))
            with ui.card().classes("kz-card"):
                ui.label("Bifurcations").classes("kz-title")
                self.marks = ui.column().classes("gap-1 w-full")
                ui.label("Points").classes("kz-title")
                self.table = LinkedTable(POINTS, self.picked, height=372)
        with ui.row().classes("kz-columns w-full") as self.below:
            self.portrait_title, self.portrait = _card("Orbit", "portrait")
            _, self.time = _card("Over its period", "time")
            _, self.multipliers = _card("Multipliers and the unit circle", "multipliers")
        for part in (self.body, self.below):
            part.set_visibility(False)
        self.offer()
        hear(session.ran, self.ran)
        hear(session.checked, self.offer)
        hear(session.changed, self.offer)
        ui.timer(LIVE, self.grow)
        ui.timer(0.05, self.load, once=True)

    def _controls(self) -> None:
        with ui.row().classes("items-start gap-3 w-full"):
            self.follow = ui.button("Follow", icon="timeline", on_click=self.start).props("no-caps unelevated")
            self.candidate = ui.select({}, label="model", on_change=self.offer).props("dense outlined")
            self.candidate.props("hide-bottom-space").classes("kz-wider")
            self.parameter = ui.select([], label="along").props("dense outlined hide-bottom-space")
            self.parameter.classes("kz-medium").on_value_change(self.suggest)
            ends = sorted(float(self.request[key]) for key in ("low", "high") if key in self.request)
            texts = [f"{end:g}" for end in ends] if len(ends) == 2 else ["", ""]
            self.low, self.high = ui.input("from", value=texts[0]), ui.input("to", value=texts[1])
            for field in (self.low, self.high):
                field.props("dense outlined hide-bottom-space").classes("kz-short").on_value_change(self.typed)
            self.rest = ui.switch("rest state", value=bool(self.request.get("rest")))
        self.said = ui.label().classes("kz-note").props("aria-live=polite")

    def model(self) -> Model | None:
        """Return the model that is followed, with the values that it begins at."""
        number = self.candidate.value
        if number is None or number >= len(self.sources):
            return None
        return model_of(self.sources[number], self.session.model(number), self.result)

    def offer(self) -> None:
        """Offer the candidates, and the parameters of the one chosen.

        The excitation frequency comes first.
        """
        self.sources = sources(self.session.document.content, self.result)
        options = {number: one.label for number, one in enumerate(self.sources)}
        if options != self.candidate.options:
            names = [one.name for one in self.sources]
            asked = self.request.get("candidate")
            first = names.index(asked) if asked in names else usual(self.sources, self.result)
            kept = self.candidate.value if self.candidate.value in options else first
            self.candidate.set_options(options, value=kept if options else None)
        model = self.model()
        names = [] if model is None else list(model.names)
        if names != self.parameter.options:
            self.parameter.set_options(names, value=self.parameter.value if self.parameter.value in names else None)
            usually = [name for name in names if name.lower().startswith("omega")] or names
            asked = self.request.get("parameter")
            if usually and self.parameter.value is None:
                self.parameter.value = asked if asked in names else usually[0]
        self.follow_value()
        self.dim()

    def suggest(self) -> None:
        """Suggest a range about the value of another parameter."""
        self.touched = False
        self.follow_value()

    def typed(self) -> None:
        self.touched = self.touched or not self.suggesting

    def follow_value(self) -> None:
        """Keep the range about the parameter's value, unless it was typed.

        That of the last branch stays as long as the value is in it.
        """
        model, name = self.model(), self.parameter.value
        if self.touched or model is None or name not in model.names:
            return
        value = model.values[name]
        known = self.request if name == self.request.get("parameter") else {}
        if known and not wrong_range(name, float(known["low"]), float(known["high"]), value):
            texts = f"{float(known['low']):g}", f"{float(known['high']):g}"
        else:
            texts = suggested_range(value)
        if texts is not None:
            self.suggesting = True
            self.low.value, self.high.value = texts
            self.suggesting = False

    def dim(self) -> None:
        """Dim branches that are not those of the present study."""
        work = self.session.runs.get("branch")
        running = work is not None and work.active
        text = old_branch(self.request, self.sources) if self.branches and not running else ""
        self.older.text = text
        for part in (self.body, self.below):
            part.classes(add="kz-stale" if text else "", remove="" if text else "kz-stale")

    async def start(self) -> None:
        """Follow the requested branch.

        Problems are shown beside the fields.
        """
        numbers, model, name = {}, self.model(), str(self.parameter.value)
        for key, field in (("low", self.low), ("high", self.high)):
            problem = ""
            try:
                numbers[key] = float(str(field.value).replace(",", "."))
            except ValueError:
                problem = f'"{field.value}" is not a number.'
            if key == "high" and len(numbers) == 2:
                value = float("nan") if model is None else model.values.get(name, float("nan"))
                problem = wrong_range(name, numbers["low"], numbers["high"], value)
            field.props["error"], field.props["error-message"] = bool(problem), problem
            field.update()
            if problem:
                return
        if self.candidate.value is None:
            return
        # A branch is followed both ways from the present value: the order of the ends does not matter.
        numbers["low"], numbers["high"] = sorted((numbers["low"], numbers["high"]))
        source = self.sources[self.candidate.value]
        self.grown = 0
        await self.session.start(
            "branch", "branch",
            {"study": str(self.session.path), "parameter": name, "rest": bool(self.rest.value),
             "candidate": source.name, "mark": source.mark,
             "results": str(self.session.results_folder) if source.fitted else "", **numbers},
        )  # fmt: skip

    async def switch(self, branch: int, number: int) -> None:
        """Leave a branch at a bifurcation."""
        self.grown = 0
        asked = {"study": str(self.session.path), "branch": branch, "bifurcation": number}
        parent = branch_list(self.folder)[branch]["request"]
        bounds = {key: parent[key] for key in ("low", "high", "parameter")}
        await self.session.start("branch", "branch", asked | bounds)

    async def ran(self, key: str) -> None:
        if key == "fit" and not self.session.runs["fit"].active:
            self.result = await self.session.result()
            self.offer()
        if key != "branch":
            return
        self.dim()
        work = self.session.runs["branch"]
        self.follow.set_enabled(not work.active)
        if not work.active:
            await self.load()

    def grow(self) -> None:
        """Draw the points of a growing branch, and those that a rig has measured since."""
        work = self.session.runs.get("branch")
        rig = self.session.runs.get("rig")
        measured = None if rig is None else (id(rig), len(rig.lines), rig.state)
        if measured != self.measured_on_rig and not (work is not None and work.active):
            self.measured_on_rig = measured
            if self.branches:
                self.draw_branches()
        if work is None or not work.active:
            return
        self.status()
        if len(work.estimates) != self.grown and work.estimates:
            self.grown = len(work.estimates)
            self.body.set_visibility(True)
            name = str(work.arguments.get("parameter"))
            self.figure.update_figure(dressed(growing_figure(work.estimates, name), 440))

    def status(self) -> None:
        work = self.session.runs.get("branch")
        active = work is not None and work.active
        self.follow.set_enabled(not active)
        text = "Periodic motions of the model along a parameter, both ways from its value, and where they change."
        if work is not None and active:
            inner = work.levels[max(work.levels)] if work.levels else {}
            text = f"{inner.get('title', 'starting')}: {inner.get('done') or 0:.0f} points, {inner.get('text', '')}"
        elif work is not None and work.state in ("failed", "killed"):
            text = work.message
        elif self.branches:
            branches = "1 branch" if len(self.branches) == 1 else f"{len(self.branches)} branches"
            ends = [str(branch).splitlines()[0] for branch, _ in self.branches[:1]]
            text = f"{sum(len(b) for b, _ in self.branches)} points on {branches}. {ends[0]}. "
            text += ends_of(self.branches[0][0])
        self.said.text = text

    async def load(self) -> None:
        """Read the branches on disk where they have changed."""
        state = state_of(self.folder / BRANCHES)
        if state != self.state:
            self.state = state
            found = await in_thread(read_branches, self.folder) or []
            self.branches = await in_thread(measured_heights, found, str(self.measure.value)) or []
            self.chosen = (len(self.branches) - 1, 0) if self.branches else None
            listed = branch_list(self.folder)
            self.request = listed[0]["request"] if listed else {}
        self.result = await self.session.result()
        self.offer()
        self.redraw()

    async def measured(self) -> None:
        branches = [branch for branch, _ in self.branches]
        self.branches = await in_thread(measured_heights, branches, str(self.measure.value)) or []
        self.redraw()

    def on_rig(self) -> list[tuple[float, float]]:
        """Return rig points along the same parameter.

        None beside values on a section: a rig measures amplitudes.
        """
        if not self.branches or self.measure.value != "amplitude":
            return []
        kept = last_along(self.folder, self.branches[0][0].parameter)
        name = self.branches[0][0].model.states[0]
        return [(p["value"], p["amplitudes"][name]) for p in kept.get("points", ()) if name in p.get("amplitudes", ())]

    def redraw(self) -> None:
        self.status()
        work = self.session.runs.get("branch")
        shown = bool(self.branches) and not (work is not None and work.active and self.grown)
        self.body.set_visibility(bool(self.branches) or bool(self.grown))
        self.below.set_visibility(bool(self.branches))
        if not shown:
            return
        self.draw_branches()
        self.table.fill(point_rows(self.branches), row_of(self.branches, self.chosen))
        # Only for other branches: a click on "Switch here" must not meet a button that is being replaced.
        if self.listed is not self.state:
            self.listed = self.state
            self.marks.clear()
            with self.marks:
                self._bifurcations()
        if self.chosen is not None:
            branch, index = self.branches[self.chosen[0]][0], self.chosen[1]
            ui.timer(0.01, lambda: self.draw_orbit(branch, index), once=True)

    def draw_branches(self) -> None:
        figure = branch_figure(self.branches, self.chosen, self.on_rig(), str(self.measure.value))
        self.figure.update_figure(dressed(figure, 440))

    def _bifurcations(self) -> None:
        count = 0
        for number, (branch, _) in enumerate(self.branches):
            for place, mark in enumerate(branch.bifurcations):
                count += 1
                with ui.row().classes("items-center gap-2 w-full no-wrap"):
                    low_high = "" if mark.interval is None else f" [{mark.interval[0]:.5g}, {mark.interval[1]:.5g}]"
                    text = f"{mark.kind.value} at {branch.parameter} = {mark.value:.6g}{low_high}"
                    ui.label(text).classes("kz-note")
                    if mark.kind.value in LEAVES:
                        button = ui.button("Switch here", on_click=partial(self.switch, number, place))
                        button.props("flat dense no-caps")
        if not count:
            ui.label("None was found on this range.").classes("kz-note")

    async def draw_orbit(self, branch: Branch, index: int) -> None:
        """Draw the orbit of a point.

        It is computed from the branch.
        """
        name = f"{branch.parameter} = {branch.values[index, 0]:.6g}"
        self.portrait_title.text = f"Orbit at {name}"
        orbit = await in_thread(orbit_at, branch, index)
        # Another point may have been chosen meanwhile: its orbit must not be drawn over.
        if orbit is None or self.chosen is None or self.branches[self.chosen[0]][0] is not branch:
            return
        if self.chosen[1] != index:
            return
        self.portrait.update_figure(dressed(portrait_figure(orbit), 280))
        self.time.update_figure(dressed(time_figure(orbit), 280))
        self.multipliers.update_figure(dressed(multiplier_figure(orbit), 280))

    def clicked(self, event: Any) -> None:
        points = [p for p in event.get("points", []) if p.get("customdata") is not None]
        if not points:
            return
        number, index = (int(v) for v in points[0]["customdata"])
        if index < 0:
            index = max(self.branches[number][0].bifurcations[-1 - index].position, 0)
        self.choose((number, index))

    def picked(self, row: int) -> None:
        self.choose(point_of(self.branches, row))

    def choose(self, chosen: tuple[int, int]) -> None:
        self.chosen = chosen
        self.redraw()


def _card(title: str, name: str) -> tuple[ui.label, ui.plotly]:
    with ui.card().classes("kz-card"):
        label = ui.label(title).classes("kz-title")
        return label, picture(go.Figure(), 280).classes(f"kz-{name}")


def measured_heights(branches: list[Branch], measure: str) -> list[tuple[Branch, Array]]:
    """Return branches with the quantity drawn."""
    return [(branch, heights(branch, measure)) for branch in branches]


def orbit_at(branch: Branch, index: int) -> PeriodicOrbit | None:
    """Return the orbit of a point.

    The result is None where it cannot be computed, such as at rest.
    """
    try:
        return branch.orbit(index)
    except KapitzaError:
        return None
