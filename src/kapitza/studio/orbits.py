"""Show orbits in the recording.

Attractor and table are linked both ways; profile, multipliers and exclusion belong to the chosen orbit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go
from nicegui import ui

from kapitza.errors import KapitzaError
from kapitza.studio.drawings import attractor_figure, multiplier_figure, time_figure
from kapitza.studio.fields import number_field
from kapitza.studio.figures import LIVE, dressed, picture
from kapitza.studio.loading import state_of
from kapitza.studio.session import Session, hear, window
from kapitza.studio.tables import LinkedTable
from kapitza.studio.threads import in_thread
from kapitza.studio.work import ORBITS, work_folder
from kapitza.study import orbit_labels

if TYPE_CHECKING:
    from kapitza.orbits import OrbitSet

COLUMNS = ("orbit", "period", "time [s]", "code", "largest multiplier", "stability", "visits", "fitted")


def build(session: Session) -> None:
    """Add the pane to a window."""
    OrbitsPane(session)


def rows_of(orbits: OrbitSet, excluded: list[str]) -> list[dict[str, Any]]:
    """Return the table of orbits: one row each."""
    rows = []
    for orbit, label in zip(orbits, orbit_labels(orbits), strict=True):
        sizes = [] if orbit.multipliers is None else [abs(m) for m in orbit.multipliers]
        rows.append(
            {
                "orbit": label,
                "period": len(orbit.points),
                "time [s]": float(orbit.period),
                "code": orbit.code,
                "largest multiplier": float(max(sizes)) if sizes else None,
                "stability": orbit.stability,
                "visits": orbit.visits,
                "fitted": label not in excluded,
            }
        )
    return rows


def read_orbits(path: Any) -> OrbitSet | None:
    """Return the orbits in a file.

    None where it does not exist or cannot be read.
    """
    from kapitza import load

    try:
        return load(path)
    except (KapitzaError, OSError):
        return None


class OrbitsPane:
    """Hold the pane's elements in one window.

    What they show is on disk and in the study.
    """

    def __init__(self, session: Session):
        self.session, self.own = session, window()
        self.orbits: OrbitSet | None = None
        self.chosen: int | None = None
        self.state: tuple[int, ...] = (-1,)
        with ui.row().classes("items-center gap-3 w-full"):
            self.button = ui.button("Find orbits", icon="search", on_click=self.start).props("no-caps unelevated")
            number_field(session, ("fit", "max_period"), "longest period", whole=True).classes("kz-short")
            self.said = ui.label().classes("kz-note")
        with ui.row().classes("kz-columns w-full") as self.body:
            with ui.card().classes("kz-card"):
                ui.label("Attractor: click or hover an orbit").classes("kz-title")
                self.attractor = picture(go.Figure(), 420)
                self.attractor.on("plotly_click", lambda event: self.clicked(event.args, True))
                self.attractor.on("plotly_hover", lambda event: self.clicked(event.args, False), throttle=0.15)
            with ui.card().classes("kz-card"):
                ui.label("Orbits").classes("kz-title")
                self.table = LinkedTable(COLUMNS, self.choose, self.over, 360)
                self.exclude = ui.button("Leave out of the fit", icon="block", on_click=self.turn)
                self.exclude.props("no-caps flat dense").set_enabled(False)
        with ui.row().classes("kz-columns w-full") as self.below:
            with ui.card().classes("kz-card"):
                self.title = ui.label("Profile").classes("kz-title")
                self.profile = picture(go.Figure(), 280)
            with ui.card().classes("kz-card"):
                ui.label("Multipliers and the unit circle").classes("kz-title")
                self.circle = picture(go.Figure(), 280)
        for part in (self.body, self.below):
            part.set_visibility(False)
        hear(session.ran, self.ran)
        hear(session.changed, self.redraw)
        ui.timer(LIVE, self.status)
        ui.timer(0.05, self.load, once=True)

    async def start(self) -> None:
        """Look for orbits in a worker."""
        await self.session.start("orbits", "orbits", {"study": str(self.session.path)})

    async def ran(self, key: str) -> None:
        if key == "orbits":
            self.button.set_enabled(not self.session.runs["orbits"].active)
            if not self.session.runs["orbits"].active:
                await self.load()

    def status(self) -> None:
        work = self.session.runs.get("orbits")
        self.button.set_enabled(work is None or not work.active)
        text = ""
        if work is not None and work.active:
            inner = work.levels[max(work.levels)] if work.levels else {}
            text = " ".join(str(inner.get(key) or "") for key in ("title", "text")).strip() or "starting"
        elif work is not None and work.state in ("failed", "killed"):
            text = work.message
        elif self.orbits is not None:
            text = self.orbits.message or f"{len(self.orbits)} orbits."
        else:
            text = "Periodic orbits of a chaotic recording; they can be fitted with the method orbits."
        self.said.text = text

    async def load(self) -> None:
        """Read the orbits on disk where they have changed."""
        path = work_folder(self.session.path) / ORBITS
        if state_of(path) != self.state:
            self.state = state_of(path)
            self.orbits = await in_thread(read_orbits, path) if self.state else None
            self.chosen = 0 if self.orbits is not None and len(self.orbits) else None
        self.redraw()

    @property
    def excluded(self) -> list[str]:
        return [str(name) for name in self.session.document.get("fit", "exclude", default=[]) or []]

    def redraw(self) -> None:
        self.status()
        shown = self.orbits is not None and len(self.orbits) > 0
        for part in (self.body, self.below):
            part.set_visibility(shown)
        if not shown or self.orbits is None:
            return
        out = self.excluded
        labels = orbit_labels(self.orbits)
        self.attractor.update_figure(dressed(attractor_figure(self.orbits, labels, self.chosen, out), 420))
        self.table.fill(rows_of(self.orbits, out), self.chosen, [n for n, name in enumerate(labels) if name in out])
        if self.chosen is not None:
            orbit = self.orbits[self.chosen]
            self.title.text = f"Profile of orbit {labels[self.chosen]}"
            self.profile.update_figure(dressed(time_figure(orbit), 280))
            self.circle.update_figure(dressed(multiplier_figure(orbit), 280))
            self.exclude.text = "Take into the fit" if labels[self.chosen] in out else "Leave out of the fit"
        self.exclude.set_enabled(self.chosen is not None)

    def clicked(self, event: Any, pick: bool) -> None:
        points = [p for p in event.get("points", []) if p.get("customdata") is not None]
        if points:
            (self.choose if pick else self.table.choose)(int(points[0]["customdata"]))

    def over(self, number: int) -> None:
        """Mark the hovered row's orbit in the attractor."""
        if self.orbits is not None:
            figure = attractor_figure(self.orbits, orbit_labels(self.orbits), number, self.excluded)
            self.attractor.update_figure(dressed(figure, 420))

    def choose(self, number: int) -> None:
        self.chosen = number
        self.redraw()

    def turn(self) -> None:
        """Exclude or include the chosen orbit.

        Both change the study.
        """
        if self.orbits is None or self.chosen is None:
            return
        label = orbit_labels(self.orbits)[self.chosen]
        out = self.excluded
        new = [name for name in out if name != label] if label in out else sorted([*out, label])
        self.session.set(("fit", "exclude"), new or None, self.own)
        self.redraw()
