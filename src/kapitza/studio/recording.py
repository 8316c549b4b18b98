"""Show the pane of the recording.

Columns and units, zoom over all channels, spans, what is in it.
"""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
from nicegui import ui
from nicegui.element import Element

from kapitza.errors import KapitzaError
from kapitza.studio.columns import column_table, drawn_columns, roles
from kapitza.studio.document import Change
from kapitza.studio.fields import keep_focus
from kapitza.studio.figures import dressed, picture
from kapitza.studio.hints import in_page
from kapitza.studio.loading import Mark, Shown
from kapitza.studio.session import Session, hear, window
from kapitza.studio.spans import portrait_figure, response_figure, spectrum_figure
from kapitza.studio.threads import in_thread
from kapitza.study import spans_beyond

STATIC = Path(__file__).parent / "static"

KEYS = "Wheel or + and - zoom, arrows move, Home shows all, Shift and drag takes a span, S takes the visible span."


class View(Element, component=STATIC / "recording.js", esm={"uplot": str(STATIC / "uplot")}):
    """Draw a recording by channels.

    candidate: whose simulated motion is drawn over it. See static/recording.js for its events.
    """

    def __init__(self, session: Session, number: int, candidate: int | None = None, tall: int = 0):
        super().__init__()
        self.session, self.number, self.every = session, number, False
        query: dict[str, Any] = {"study": session.path.name, "number": number, "overlay": int(candidate is not None)}
        # Two windows may show two candidates.
        query |= {} if candidate is None else {"candidate": candidate}
        self.props["url"] = f"/data/view?{urlencode(query)}"
        self.props["label"] = f"Recording {number + 1}"
        self.props["store"] = f"kapitza {session.path} {number}"
        self.props["mode"] = "zoom"
        self.props["tall"] = tall
        self.classes("w-full")
        self.take()

    @property
    def shown(self) -> Shown | None:
        found = self.session.recordings[self.number] if self.number < len(self.session.recordings) else None
        return found if isinstance(found, Shown) else None

    @property
    def rows(self) -> list[int]:
        """Return the numbers of the channels that are drawn."""
        shown = self.shown
        return [] if shown is None else drawn_columns(self.session, self.number, shown.channels, self.every)

    def take(self) -> None:
        """Take over what the session has: channels, marks, spans."""
        shown = self.shown
        if shown is None:
            return
        units, rows = shown.record.units, self.rows
        self.props["channels"] = [{"name": shown.channels[at], "unit": units[shown.channels[at]]} for at in rows]
        self.props["whole"] = [float(shown.time[0]), float(shown.time[-1])]
        self.props["marks"] = [{"kind": m.kind, "begin": m.begin, "end": m.end} for m in shown.marks]
        self.props["spans"] = shaded(self.session, self.number)
        # Changed data of the same shape are fetched anew.
        fresh = f"&state={abs(hash(shown.key))}&rows={'-'.join(map(str, rows))}"
        self.props["url"] = self.props["url"].split("&state=")[0] + fresh
        self.update()


def shaded(session: Session, number: int) -> list[dict[str, Any]]:
    """Return the spans that are not fitted, with what is written into them."""
    get, spans = session.document.get, []
    begin, end = get("data", number, "from"), get("data", number, "to")
    if isinstance(begin, int | float):
        spans.append({"kind": "outside", "text": "not used", "begin": None, "end": begin})
    if isinstance(end, int | float):
        spans.append({"kind": "outside", "text": "not used", "begin": end, "end": None})
    held = get("data", number, "hold_back", default=[])
    spans += [{"kind": "held", "text": "held back", "begin": a, "end": b} for a, b in _pairs(held)]
    share = get("fit", "hold_back", default=0.0)
    shown = session.recordings[number] if number < len(session.recordings) else None
    if not held and isinstance(share, int | float) and share > 0 and isinstance(shown, Shown):
        edges = -math.inf if begin is None else begin, math.inf if end is None else end
        inside = shown.time[slice(*np.searchsorted(shown.time, edges))]
        if inside.size:
            spans.append(
                {
                    "kind": "held",
                    "text": f"held back, share {share:g}",
                    "begin": float(inside[round((1 - share) * (inside.size - 1))]),
                    "end": float(inside[-1]),
                }
            )
    return spans


def _pairs(spans: Any) -> list[tuple[float, float]]:
    right = isinstance(spans, list) and all(isinstance(s, list) and len(s) == 2 for s in spans)
    return [(float(a), float(b)) for a, b in spans] if right else []


def build(session: Session) -> None:
    """Build the pane in one window."""
    holder = ui.column().classes("w-full gap-3")
    state: dict[str, Any] = {"built": None, "number": 0}

    def refresh() -> None:
        # With another unit of the time the description, the spans and what is seen are others too.
        shapes = [s.reading if isinstance(s, Shown) else s for s in session.recordings]
        tables = [(t.get("file"), t.get("files")) for t in session.document.tables("data")]
        wanted = json.dumps([shapes, tables], default=str)
        if state["built"] == wanted:
            return
        state["built"] = wanted
        holder.clear()
        with holder:
            _recordings(session, state, refresh)

    hear(session.loaded, refresh)
    hear(session.changed, refresh)
    refresh()


def _recordings(session: Session, state: dict[str, Any], refresh: Any) -> None:
    tables = session.document.tables("data")
    if not tables:
        ui.label(
            'The study names no recording: add file = "run.csv" under [data] to its text, under Report and files.'
        ).classes("kz-problem")
        return
    number = state["number"] = min(state["number"], len(tables) - 1)
    if len(tables) > 1:
        names = {n: f"{n + 1}: {t.get('file', t.get('files'))}" for n, t in enumerate(tables)}

        def other(event: Any) -> None:
            state["number"], state["built"] = event.value, None
            refresh()

        ui.select(names, value=number, label="Recording", on_change=other).props("dense outlined")
    found = session.recordings[number] if number < len(session.recordings) else None
    if isinstance(found, Shown):
        _one(session, number, found)
    elif found is None:
        with ui.row().classes("items-center"):
            ui.spinner()
            ui.label("Reading the recording …")
    else:
        ui.label(found[1]).classes("kz-problem")


def _one(session: Session, number: int, shown: Shown) -> None:
    """Build the picture and its tools.

    The findings on the visible span belong to it.
    """
    seen = {"begin": float(shown.time[0]), "end": float(shown.time[-1])}
    with ui.card().classes("kz-card w-full"):
        with ui.row().classes("w-full items-center gap-2 kz-tools"):
            mode = ui.toggle({"zoom": "Drag zooms", "span": "Drag takes a span"}, value="zoom").props(
                "dense no-caps unelevated"
            )
            buttons = ui.row().classes("gap-0 no-wrap")
            every = ui.checkbox("ignored columns too").props("dense").classes("kz-note")
            ui.space()
            ui.label(_described(shown)).classes("kz-note")
        view = View(session, number)
        view.on("seen", lambda event: seen.update(event.args))
        mode.on_value_change(lambda event: view.props.__setitem__("mode", event.value) or view.update())
        with buttons:
            for icon, name, call in (("remove", "Zoom out", ("zoom", 1.6)), ("add", "Zoom in", ("zoom", 0.6)),
                                     ("chevron_left", "Left", ("pan", -0.3)), ("chevron_right", "Right", ("pan", 0.3)),
                                     ("fit_screen", "Show all", ("reset",))):  # fmt: skip
                ui.button(icon=icon, on_click=partial(view.run_method, *call)).props(
                    f'flat dense round aria-label="{name}"'
                ).tooltip(name)
        ui.label(KEYS).classes("kz-note")
        _marks(session, view)
        _spans(session, number, shown, view)
    with ui.card().classes("kz-card w-full"):
        _inspection(session, number, view)
    with ui.row().classes("w-full kz-columns"):
        with ui.card().classes("kz-card kz-most"):
            ui.label("Columns").classes("kz-title")
            column_table(session, number, shown)
        _findings(session, number, shown, view, seen)

    def turn(event: Any) -> None:
        view.every = bool(event.value)
        view.take()

    def again(change: Change) -> None:
        if change.touches("data", number) or change.touches("fit", "hold_back"):
            view.take()
            every.set_visibility(len(drawn_columns(session, number, shown.channels)) < len(shown.channels))

    every.on_value_change(turn)
    again(Change())
    hear(session.changed, again)
    hear(session.loaded, view.take)


def _described(shown: Shown) -> str:
    text = f"{shown.record.size:,} samples".replace(",", " ") + f", {shown.interval:.4g} s apart"
    pieces = shown.pieces
    return (
        text
        + (f", {pieces} segments" if pieces > 1 else "")
        + (", laid one behind the other" if shown.laid_out else "")
    )


def _marks(session: Session, view: View) -> None:
    """List gaps, segments and bad samples.

    Each entry leads to its place; those of long recordings come later.
    """

    def mark_at(index: int) -> Mark | None:
        marks = view.shown.marks if view.shown is not None else ()
        return marks[index] if index < len(marks) else None

    def go(mark: Mark) -> None:
        whole = view.props["whole"][1] - view.props["whole"][0]
        room = max(mark.end - mark.begin, 0.004 * whole)
        view.run_method("show", mark.begin - 2 * room, mark.end + 2 * room)

    def clicked(event: Any) -> None:
        mark = mark_at(int(event.args["index"]))
        if mark is not None:
            ui.notify(mark.text, position="bottom")

    view.on("mark", clicked)
    row = ui.row().classes("gap-1 items-center kz-marks")
    built: list[Any] = []

    def show() -> None:
        shown = view.shown
        wanted = [None] if shown is None else [shown.marks, shown.searched]
        if built == wanted:
            return
        built[:] = wanted
        row.clear()
        if shown is None:
            return
        with row:
            if shown.marks:
                ui.label("Look at:").classes("kz-note")
            for mark in shown.marks[:12]:
                icon = {"gap": "space_bar", "segment": "vertical_split"}.get(mark.kind, "priority_high")
                ui.button(mark.text, icon=icon, on_click=partial(go, mark)).props("flat dense no-caps size=sm")
            if len(shown.marks) > 12:
                ui.label(f"and {len(shown.marks) - 12} more").classes("kz-note")
            if not shown.searched:
                ui.label("Looking for spikes …").classes("kz-note")

    hear(session.loaded, show)
    show()


def _spans(session: Session, number: int, shown: Shown, view: View) -> None:
    """Add tools for spans.

    What is done with a selected span, and the spans that the study holds.
    """
    own, taken = window(), {"begin": 0.0, "end": 0.0}
    with ui.row().classes("items-center gap-2 kz-span") as bar:
        said = ui.label().classes("kz-title")
        fit = ui.button("Fit only this", icon="crop").props("dense no-caps unelevated")
        hold = ui.button("Hold back", icon="lock_clock").props("dense no-caps outline")
        zoom = ui.button("Zoom to it", icon="zoom_in").props("dense no-caps flat")
        ui.button(icon="close", on_click=lambda: bar.set_visibility(False)).props(
            'flat dense round aria-label="Forget"'
        )
    bar.set_visibility(False)
    listing = ui.row().classes("items-center gap-2")

    def take(event: Any) -> None:
        whole = float(shown.time[0]), float(shown.time[-1])
        begin, end = (min(max(float(event.args[k]), whole[0]), whole[1] + shown.interval) for k in ("begin", "end"))
        taken.update(begin=_rounded(begin, end), end=_rounded(end, begin))
        said.text = f"{taken['begin']:.6g} to {taken['end']:.6g} s"
        bar.set_visibility(True)
        fit.set_enabled(not shown.laid_out)
        hold.set_enabled(not shown.laid_out)

    def put(values: dict[Any, Any]) -> None:
        try:
            session.set_all(values, own)
        except (KapitzaError, OSError) as problem:
            ui.notify(str(problem), type="negative", multi_line=True)
        bar.set_visibility(False)
        keep_focus(view)

    def hold_back() -> None:
        spans = [list(s) for s in _pairs(session.document.get("data", number, "hold_back", default=[]))]
        put({("data", number, "hold_back"): sorted([*spans, [taken["begin"], taken["end"]]])})

    fit.on_click(lambda: put({("data", number, "from"): taken["begin"], ("data", number, "to"): taken["end"]}))
    hold.on_click(hold_back)
    zoom.on_click(lambda: view.run_method("show", taken["begin"], taken["end"]))
    view.on("span", take)
    built: list[Any] = []

    def show() -> None:
        get = session.document.get
        begin, end = get("data", number, "from"), get("data", number, "to")
        wrong = [text for key in ("hold_back", "from", "to") for text in session.problems_at("data", number, key)]
        doubts = [] if wrong else beyond(get("data", number, default={}), view.shown or shown)
        wanted = [begin, end, get("data", number, "hold_back"), wrong, doubts]
        # Every check ends here: a chip that is replaced meanwhile would lose a click.
        if built == wanted:
            return
        built[:] = wanted
        listing.clear()
        with listing:
            if begin is not None or end is not None:
                text = f"fitted: {'start' if begin is None else begin} to {'end' if end is None else f'{end} s'}"
                ui.chip(text, icon="crop", removable=True, color="grey").props("outline dense").on(
                    "remove", lambda: put({("data", number, "from"): None, ("data", number, "to"): None})
                )
            held = _pairs(get("data", number, "hold_back", default=[]))
            for at, (a, b) in enumerate(held):
                rest = [list(s) for n, s in enumerate(held) if n != at] or None
                ui.chip(f"held back: {a:.6g} to {b:.6g} s", icon="lock_clock", removable=True, color="orange").props(
                    "outline dense"
                ).on("remove", lambda rest=rest: put({("data", number, "hold_back"): rest}))
            for text in wrong:
                ui.label(text).classes("kz-problem")
            for text in doubts:
                ui.label(text).classes("kz-warning")

    hear(session.changed, show)
    hear(session.checked, show)
    show()


def beyond(table: dict[str, Any], shown: Shown) -> list[str]:
    """Return a sentence for each span that reaches beyond the recording; none for keys of a wrong kind."""
    try:
        return list(spans_beyond(table, float(shown.time[0]), float(shown.time[-1]), shown.interval))
    except (TypeError, ValueError):
        return []


def _rounded(value: float, other: float) -> float:
    """Round a span's end to 1/1000 of its length.

    Nobody drags more precisely.
    """
    digits = 3 - math.floor(math.log10(abs(value - other) or 1.0))
    return round(value, digits)


def _findings(session: Session, number: int, shown: Shown, view: View, seen: dict[str, float]) -> None:
    """Draw spectrum, response or portrait.

    They are those of the visible span.
    """
    with ui.card().classes("kz-card kz-less"):
        with ui.row().classes("items-center w-full"):
            ui.label("Of the span seen").classes("kz-title")
            kind = ui.toggle({"spectrum": "Spectrum"}, value="spectrum").props("dense no-caps unelevated")
        said = ui.label().classes("kz-note")
        drawn = picture(_empty(), 280)

    def columns() -> tuple[list[str], list[str]]:
        """Return the columns that move and those that drive, of those drawn."""
        seen_now = [shown.channels[at] for at in view.rows]
        driving = [c for c, (role, _) in roles(session, number, shown.channels).items() if role == "drive"]
        return [c for c in seen_now if c not in driving], [c for c in seen_now if c in driving]

    async def draw() -> None:
        # Read in another unit the recording is another one.
        now = view.shown or shown
        span, (moving, drives) = (seen["begin"], seen["end"]), columns()
        first = moving[0] if moving else now.channels[0]
        work: dict[str, tuple[Any, ...]] = {
            "spectrum": (spectrum_figure, (*moving, *drives)),
            "portrait": (portrait_figure, first),
            "response": (response_figure, drives[0] if drives else "", moving),
        }
        draws, *more = work[kind.value]
        try:
            figure = await in_thread(draws, now, *span, *more)
        except KapitzaError as problem:
            said.text = in_page(problem)
            return
        said.text = ""
        if figure is not None:
            drawn.update_figure(dressed(figure, 280))

    async def offer() -> None:
        """Offer the frequency response where a column drives; draw anew for other columns."""
        now = columns()
        if now == offered.get("columns"):
            return
        offered["columns"] = now
        kinds = {"spectrum": "Spectrum", "portrait": "Portrait"} | (
            {"response": "Frequency response"} if now[1] else {}
        )
        kind.set_options(kinds, value=kind.value if kind.value in kinds else "spectrum")
        await draw()

    async def again() -> None:
        """Draw a recording that was read anew; the search for spikes changes no sample."""
        now = view.shown
        if now is not None and drawn_of["key"] != now.key:
            drawn_of["key"] = now.key
            await draw()

    offered: dict[str, Any] = {}
    drawn_of: dict[str, Any] = {"key": shown.key}
    kind.on_value_change(draw)
    view.on("seen", draw)
    hear(session.changed, offer)
    hear(session.loaded, again)
    ui.timer(0.05, offer, once=True)


def _inspection(session: Session, number: int, view: View) -> None:
    """Show the findings of `inspect`, those that say what to do first."""
    with ui.row().classes("items-center w-full gap-3"):
        ui.label("What is in it").classes("kz-title")
        ask = ui.button("Inspect", icon="search").props("dense no-caps outline")
        ui.label("Free, forced or chaotic motion, noise, frequencies, damping.").classes("kz-note")
    text = ui.column().classes("gap-1 w-full")

    def show(key: str = "inspect") -> None:
        if key != "inspect":
            return
        done = session.runs.get("inspect")
        text.clear()
        with text:
            if done is None:
                return
            if done.active:
                inner = done.levels[max(done.levels)] if done.levels else {}
                ui.label(inner.get("text") or inner.get("title") or "starting …").classes("kz-note")
            elif done.state == "done":
                first, rest = findings(done.result.get("lines", []))
                for line in first:
                    ui.label(in_page(line)).classes("kz-answer")
                for line in rest:
                    ui.label(in_page(line)).classes("kz-said")
            else:
                ui.label(in_page(done.message or done.state)).classes("kz-problem")

    async def inspect() -> None:
        table, shown = session.document.tables("data")[number], view.shown
        columns = [] if shown is None else [shown.channels[at] for at in view.rows]
        arguments = {"data": table, "folder": str(session.path.parent), "columns": columns}
        await session.start("inspect", "inspect", arguments)

    ask.on_click(inspect)
    hear(session.ran, show)
    show()


ANSWERS = ("Free decay", "Lyapunov exponent of", "Orbits", "Next")
"""Beginnings of the findings that say what the motion is, and what to do with it."""


def findings(lines: list[str]) -> tuple[list[str], list[str]]:
    """Return the findings that answer, and the rest."""
    first = [line for line in lines if line.startswith(ANSWERS)]
    return first, [line for line in lines if line not in first]


def _empty() -> Any:
    import plotly.graph_objects as go

    return go.Figure()
