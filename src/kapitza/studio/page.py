"""The page: header, tabs, messages; one window each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from nicegui import app, ui

from kapitza.errors import KapitzaError
from kapitza.studio import diagram, fit, home, model, orbits, recording, rig, sharing
from kapitza.studio.runs import Run
from kapitza.studio.session import Session, hear, window
from kapitza.studio.studio import Studio

PANES: dict[str, tuple[str, str, Any]] = {
    "recording": ("Recording", "show_chart", recording.build),
    "model": ("Model", "functions", model.build),
    "orbits": ("Orbits", "all_inclusive", orbits.build),
    "fit": ("Fit", "straighten", fit.build),
    "diagram": ("Diagram", "timeline", diagram.build),
    "rig": ("Rig", "precision_manufacturing", rig.build),
    "share": ("Report and files", "ios_share", sharing.build),
}
"""Tabs by their name in the address: title, icon, how they are built."""

STATIC = Path(__file__).parent / "static"
HEAD = (
    '<script src="/static/quiet.js"></script><link rel="stylesheet" href="/static/uplot/uplot.css">'
    '<link rel="stylesheet" href="/static/studio.css">'
)
FIGURES = '<script type="module">import "nicegui-plotly";</script>'
"""Load the library of figures before the page: the browser does nothing else while it starts, for half a second."""

THEME = "kapitza-theme"
"""Cookie that keeps dark or light; the server reads it before the first picture."""

OTHERS = 0.5
"""Seconds between two looks at the work of other studies."""


def add(studio: Studio) -> None:
    """Add the page of a studio to the application."""
    app.add_static_files("/static", STATIC)

    @ui.page("/", response_timeout=20)
    def main(request: Request, study: str = "", tab: str = "recording") -> None:  # pyright: ignore[reportUnusedFunction]
        ui.add_head_html(HEAD)
        ui.colors(primary="#0072b2", positive="#00805a", negative="#c62828", warning="#b26a00")
        dark = ui.dark_mode({"dark": True, "light": False}.get(request.cookies.get(THEME, "")))
        try:
            session = studio.session(study) if study else None
        except (KapitzaError, OSError) as problem:
            ui.notify(str(problem), type="negative", timeout=0, close_button=True)
            session = None
        _header(studio, session, dark)
        home.welcome(studio)
        if session is None:
            home.build(studio)
        else:
            ui.add_head_html(FIGURES)
            _tabs(session, tab if tab in PANES else "recording")


def _header(studio: Studio, session: Session | None, dark: ui.dark_mode) -> None:
    with ui.header().classes("kz-header items-center q-px-md q-py-xs no-wrap"):
        home_button = ui.button("Kapitza", on_click=lambda: ui.navigate.to("/")).props("flat dense no-caps")
        home_button.classes("kz-brand").tooltip("Studies and recordings of this folder")
        if session is not None:
            ui.label(session.path.name).classes("kz-file ellipsis")
            _history(session)
            _problem_button(session)
        ui.space()
        _work(studio, session)
        _theme(dark)
        ui.button(icon="help_outline", on_click=home.tour).props('flat dense round aria-label="Tour"').tooltip("Tour")


def _history(session: Session) -> None:
    """Add undo and redo.

    They are buttons, and Ctrl-Z and Ctrl-Shift-Z outside of fields.
    """
    own = window()

    def guarded(change: Any) -> None:
        try:
            change(own)
        except (KapitzaError, OSError) as problem:
            ui.notify(str(problem), type="negative")

    undo = ui.button(icon="undo", on_click=lambda: guarded(session.undo))
    undo.props('flat dense round aria-label="Undo"').tooltip("Undo (Ctrl Z)")
    redo = ui.button(icon="redo", on_click=lambda: guarded(session.redo))
    redo.props('flat dense round aria-label="Redo"').tooltip("Redo (Ctrl Shift Z)")

    def show() -> None:
        undo.set_enabled(session.document.can_undo)
        redo.set_enabled(session.document.can_redo)

    def pressed(event: Any) -> None:
        if event.action.keydown and event.modifiers.ctrl and str(event.key).lower() == "z":
            guarded(session.redo if event.modifiers.shift else session.undo)

    ui.keyboard(on_key=pressed, ignore=["input", "textarea", "select"])
    hear(session.changed, show)
    show()


def _problem_button(session: Session) -> None:
    """Add a button that counts and lists problems."""
    with ui.dialog() as dialog, ui.card().classes("kz-dialog"):
        ui.label("What has to change before this study can run").classes("text-subtitle1")
        listing = ui.column().classes("gap-1")
        ui.button("Close", on_click=dialog.close).props("flat")
    button = ui.button(on_click=dialog.open).props("flat dense no-caps").classes("kz-problems")

    def show() -> None:
        count = len(session.problems)
        button.text = "checking" if session.checked_version < 0 else f"{count} to mend" if count else "ready to run"
        button.props["icon"] = "hourglass_empty" if session.checked_version < 0 else "error" if count else "check"
        button.props["color"] = "negative" if count else "positive"
        button.update()
        listing.clear()
        with listing:
            for problem in session.problems:
                ui.label(str(problem)).classes("kz-problem")
            for _, text in session.warnings:
                ui.label(text).classes("kz-warning")
            if not session.problems:
                ui.label("Nothing: the study can run.")

    hear(session.checked, show)
    show()


def _work(studio: Studio, session: Session | None) -> None:
    """Show what runs now, in any study of this server.

    The stop button is visible on every tab and on the first page: a rig may run behind it.
    """
    with ui.row().classes("kz-work items-center gap-2 no-wrap") as row:
        ui.spinner(size="sm")
        said = ui.label().classes("ellipsis")
        stop = ui.button("Stop", icon="stop").props("dense no-caps color=negative unelevated")

    def running() -> list[tuple[Session, str]]:
        found = [(one, key) for one in studio.sessions for key, run in one.runs.items() if run.active]
        # Shown is what a stop matters for most: a rig, then the work of this study.
        return sorted(found, key=lambda one: (one[1] != "rig", one[0] is not session))

    async def stop_all() -> None:
        await asyncio.gather(*(one.stop(key) for one, key in running()))

    stop.on_click(stop_all)

    def show() -> None:
        found = running()
        row.set_visibility(bool(found))
        if found:
            one, key = found[0]
            run = one.runs[key]
            inner = run.levels[max(run.levels)] if run.levels else {}
            words = "stopping" if run.state == "stopping" else inner.get("text") or inner.get("title") or "starting"
            said.text = f"{'' if one is session else f'{one.path.name}: '}{key}: {words}"
            stop.set_enabled(any(one.runs[key].state == "running" for one, key in found))

    rigs = [one.runs["rig"] for one in studio.sessions if "rig" in one.runs and one.runs["rig"].active]

    def end_of_rigs() -> None:
        for text in ended_rigs(rigs, [one for one in studio.sessions if one is not session]):
            ui.notify(text, position="bottom-right", multi_line=True, timeout=20_000, close_button=True)

    def look() -> None:
        show()
        end_of_rigs()
        rigs[:] = [one.runs["rig"] for one in studio.sessions if "rig" in one.runs and one.runs["rig"].active]

    if session is not None:
        hear(session.ran, look)
    ui.timer(OTHERS, look)
    show()


def ended_rigs(before: Sequence[Run], others: Sequence[Session]) -> list[str]:
    """Return a sentence for each rig that has ended since the last look, with the file of a study that is not shown."""
    foreign = {id(one.runs["rig"]): f"{one.path.name}: " for one in others if "rig" in one.runs}
    return [foreign.get(id(run), "") + rig.sentence(run) for run in before if not run.active]


def _theme(dark: ui.dark_mode) -> None:
    def turn() -> None:
        dark.value = not dark.value
        name = "dark" if dark.value else "light"
        ui.run_javascript(f'document.cookie = "{THEME}={name}; path=/; max-age=31536000; samesite=strict"')

    ui.button(icon="contrast", on_click=turn).props('flat dense round aria-label="Dark or light"').tooltip(
        "Dark or light"
    )


def _tabs(session: Session, chosen: str) -> None:
    def moved(event: Any) -> None:
        place = urlencode({"study": session.path.name, "tab": str(event.value)})
        ui.navigate.history.replace(f"/?{place}")

    with ui.tabs(on_change=moved).props("align=left dense no-caps inline-label").classes("kz-tabs") as tabs:
        for name, (title, icon, _) in PANES.items():
            ui.tab(name, label=title, icon=icon)
    with ui.tab_panels(tabs, value=chosen, animated=False, keep_alive=False).classes("kz-panels w-full"):
        for name, (_, _, build) in PANES.items():
            with ui.tab_panel(name).classes("q-pa-none"), ui.column().classes("kz-pane w-full"):
                build(session)
    own = window()

    def show(text: str, by: str) -> None:
        if by != own:
            ui.notify(text, position="bottom-right", multi_line=True, timeout=8000)

    hear(session.notice, show)
