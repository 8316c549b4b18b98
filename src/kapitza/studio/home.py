"""Show the first page.

It has the studies and recordings of the folder, a place to drop a file, and the tour.
"""

from __future__ import annotations

from urllib.parse import urlencode

from nicegui import events, ui

from kapitza.errors import KapitzaError
from kapitza.studio.fields import Refused, number_or_none
from kapitza.studio.hints import with_code
from kapitza.studio.studio import Studio
from kapitza.studio.threads import in_thread

LARGEST_UPLOAD = 4 * 2**30

TOUR = (
    ("Recording", "Look first: wheel or drag zooms, gaps and spikes are marked. Say which column moves, which drives."),
    ("Model", "Type the equation of motion as on paper. Sliders move a simulated motion over the data before any fit."),
    ("Orbits", "Periodic orbits in the data or of the model, with multipliers; useful for forced and chaotic motion."),
    ("Fit", "Press Fit. The verdict comes first, then how well held-back data were predicted."),
    ("Diagram", "Follow a motion while a parameter changes: folds and doublings are marked."),
    ("Rig", "The same on an experiment, simulated or served; the stop button leaves it safe."),
    ("Report and files", "The report, the study file, the exported model, and the Python that does the same."),
)  # fmt: skip


def build(studio: Studio) -> None:
    """Build the page of a folder in one window."""
    with ui.column().classes("kz-home w-full"):
        ui.label(studio.folder.name).classes("text-h6")
        with ui.row().classes("w-full kz-columns"):
            with ui.card().classes("kz-card"):
                ui.label("Studies").classes("kz-title")
                _list(studio.studies(), "description", _go)
            with ui.card().classes("kz-card"):
                ui.label("Recordings").classes("kz-title")
                _list(studio.recordings(), "show_chart", lambda name: _open_recording(studio, name))
            with ui.card().classes("kz-card"):
                ui.label("A new recording").classes("kz-title")
                ui.label("Drop a file here, or choose one. It is copied into this folder.").classes("kz-note")
                drop_area(studio)
                ui.separator()
                ui.label("No recording at hand?").classes("kz-title")
                ui.label("A pendulum, released at 70 degrees, comes with the package.").classes("kz-note")
                ui.button(
                    "Try the pendulum", icon="play_arrow", on_click=lambda: _open_recording(studio, studio.example())
                ).props("no-caps unelevated")


def _go(name: str) -> None:
    ui.navigate.to("/?" + urlencode({"study": name}))


async def _open_recording(studio: Studio, name: str) -> bool:
    """Open the study of a recording; return whether it can be used.

    The study is written when there is none.
    """
    try:
        made = await in_thread(studio.new_study, name)
        if made is not None:
            _go(made)
    except (KapitzaError, OSError) as problem:
        if "interval=" in str(problem):
            _ask_for_times(studio, name, str(problem))
            return True
        ui.notify(str(problem), type="negative", multi_line=True, timeout=0, close_button=True)
        return False
    return True


def _ask_for_times(studio: Studio, name: str, problem: str) -> None:
    """Ask for the times of a recording whose columns do not name them."""
    with ui.dialog(value=True) as dialog, ui.card().classes("kz-dialog"):
        ui.label(f"{name}: which column is the time?").classes("text-subtitle1")
        said = ui.label(f"{problem.partition(':')[0]}.").classes("kz-note")
        time = ui.input("name of the column of times").props("dense outlined").classes("w-full")
        interval = ui.input("or seconds between samples").props("dense outlined").classes("w-full")

        async def begin() -> None:
            try:
                step = number_or_none(interval.value)
                made = await in_thread(studio.new_study, name, str(time.value or "").strip() or None, step)
                if made is not None:
                    _go(made)
            except (Refused, KapitzaError, OSError) as wrong:
                said.text = str(wrong)
                said.classes(add="kz-problem", remove="kz-note")

        with ui.row():
            ui.button("Open", on_click=begin).props("unelevated no-caps")
            ui.button("Cancel", on_click=dialog.close).props("flat no-caps")


def _list(names: list[str], icon: str, chosen: object) -> None:
    if not names:
        ui.label("none in this folder").classes("kz-note")
    with ui.list().props("dense").classes("w-full"):
        for name in names:
            with ui.item(on_click=lambda name=name: chosen(name)).classes("kz-item"):  # pyright: ignore[reportCallIssue]
                with ui.item_section().props("avatar"):
                    ui.icon(icon, size="xs")
                with ui.item_section():
                    ui.item_label(name)


def drop_area(studio: Studio) -> ui.upload:
    """Add a place to drop a recording.

    It is copied into the folder and opened.
    """

    async def arrived(event: events.UploadEventArguments) -> None:
        path = studio.free_name(event.file.name)
        try:
            await event.file.save(path)
        except OSError as problem:
            ui.notify(f"{path.name} cannot be written: {problem}", type="negative")
            return
        if not await _open_recording(studio, path.name):
            # A copy that is no recording would stay among those of the folder.
            path.unlink(missing_ok=True)

    area = ui.upload(on_upload=arrived, auto_upload=True, max_file_size=LARGEST_UPLOAD, label="Drop a recording here")
    return area.props("flat bordered").classes("w-full kz-drop")


def welcome(studio: Studio) -> None:
    """Offer the tour to who has started no studio before, beside the page and not over it."""
    if not studio.first_run:
        return
    with ui.row().classes("kz-welcome items-center gap-3 w-full") as bar:
        ui.label("New here? The tour says what each tab is for.").classes("kz-note")

        def done(show: bool) -> None:
            studio.first_run = False
            bar.set_visibility(False)
            if show:
                tour()

        ui.button("Take the tour", icon="help_outline", on_click=lambda: done(True)).props("dense no-caps outline")
        ui.button("Not now", on_click=lambda: done(False)).props("dense no-caps flat")


def tour() -> None:
    """Show what each tab is for."""
    with ui.dialog(value=True) as dialog, ui.card().classes("kz-dialog"):
        ui.label("From a recording to parameters").classes("text-h6")
        for number, (title, text) in enumerate(TOUR, start=1):
            with ui.row().classes("no-wrap items-start gap-3"):
                ui.badge(str(number)).props("rounded")
                with ui.column().classes("gap-0"):
                    ui.label(title).classes("kz-title")
                    ui.label(text).classes("kz-note")
        said = "The study file is all there is: what you click is written into it, and `kapitza identify` on it gives "
        ui.html(with_code(said + "the same numbers. Ctrl Z takes back."), sanitize=False).classes("kz-note")
        ui.button("Begin", on_click=dialog.close).props("unelevated no-caps")
