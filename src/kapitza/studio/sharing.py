"""Share a study.

The pane has the report, the study file, the exported model, and the same in Python.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from kapitza.errors import KapitzaError
from kapitza.exports import export
from kapitza.model import Model
from kapitza.studio.document import Change
from kapitza.studio.session import Session, hear, window
from kapitza.studio.threads import in_thread
from kapitza.study import read_results, rewriting

FORMATS = {".py": "Python (SciPy)", ".m": "MATLAB", ".c": "C", ".mo": "Modelica", ".jl": "Julia", ".fmu": "FMI unit",
           ".casadi": "Python (CasADi)"}  # fmt: skip


def build(session: Session) -> None:
    """Build the pane in one window."""
    with ui.row().classes("w-full kz-columns"):
        with ui.card().classes("kz-card kz-wide"):
            _report(session)
        with ui.card().classes("kz-card kz-wide"):
            _export(session)
    with ui.row().classes("w-full kz-columns"):
        with ui.card().classes("kz-card kz-wide"):
            _text(session)
        with ui.card().classes("kz-card kz-wide"):
            _python(session)


def _report(session: Session) -> None:
    ui.label("Report").classes("kz-title")
    said = ui.label().classes("kz-note")
    with ui.row().classes("gap-2"):
        look = ui.button("Open the report", icon="article").props("dense no-caps unelevated")
        again = ui.button("Write it again", icon="refresh").props("dense no-caps flat")
        save = ui.button("Save a copy", icon="download").props("dense no-caps flat")

    def place() -> Path:
        return session.results_folder / "report.html"

    def show() -> None:
        there = place().is_file()
        for button in (look, save):
            button.set_enabled(there)
        again.set_enabled((session.results_folder / "result.json").is_file())
        said.text = (
            f"{session.results_folder.name}/report.html" if there else "Press Fit first: the report comes with it."
        )

    def write() -> None:
        from kapitza.report import write_study_report

        with rewriting(session.results_folder, "report.html") as wanted:
            write_study_report(read_results(session.results_folder), wanted)

    async def write_again() -> None:
        try:
            await in_thread(write)
        except (KapitzaError, OSError) as problem:
            ui.notify(str(problem), type="negative", multi_line=True)
        show()

    query = urlencode({"study": session.path.name})
    look.on_click(lambda: ui.navigate.to(f"/files/report?{query}", new_tab=True))
    save.on_click(lambda: ui.download.file(place(), f"{session.path.stem}-report.html"))
    again.on_click(write_again)
    hear(session.ran, show)
    show()


def _export(session: Session) -> None:
    ui.label("The model for another program").classes("kz-title")
    with ui.row().classes("gap-2 items-center w-full"):
        kind = (
            ui.select(FORMATS, value=".py", label="Format").props("dense outlined options-dense").classes("kz-narrow")
        )
        write = ui.button("Export", icon="download").props("dense no-caps unelevated")
    said = ui.label("With the fitted values where there is a fit, else with those to start from.").classes("kz-note")

    async def save() -> None:
        result = await session.result()
        chosen = result.chosen if result is not None else None
        source: Any = chosen.answer if chosen is not None else None
        if source is None and session.study is not None:
            source = session.study.candidates[0].model
        if source is None:
            said.text = "There is no model yet: repair what the list of problems names."
            return
        try:
            files = await in_thread(_exported, source, str(kind.value), session.path.stem)
        except (KapitzaError, OSError) as problem:
            said.text = str(problem)
            return
        for name, content in (files or {}).items():
            ui.download.content(content, name)
        said.text = (
            f"Saved: {', '.join(files or {})}; {'the fit' if chosen is not None else 'the values to start from'}."
        )

    write.on_click(save)


def _exported(source: Model, suffix: str, stem: str) -> dict[str, bytes]:
    """Return the files that an export writes."""
    kind = "casadi" if suffix == ".casadi" else None
    with tempfile.TemporaryDirectory() as folder:
        written = export(source, Path(folder) / f"{stem}{'.py' if kind else suffix}", kind=kind)
        return {path.name: path.read_bytes() for path in (written.path, *written.beside) if path.is_file()}


def _text(session: Session) -> None:
    """Show and edit the study file as text.

    A file that cannot be parsed is repaired here.
    """
    own = window()
    with ui.row().classes("items-center w-full"):
        ui.label(f"Study file {session.path.name}").classes("kz-title")
        ui.space()
        take = ui.button("Take over", icon="check").props("dense no-caps unelevated")
        ui.button("Save a copy", icon="download",
                  on_click=lambda: ui.download.content(session.document.text.encode(), session.path.name)).props(
                      "dense no-caps flat")  # fmt: skip
    said = ui.label().classes("kz-problem kz-caret")
    field = (
        ui.textarea(value=session.document.text)
        .props("outlined dense spellcheck=false")
        .classes("w-full kz-mono kz-text")
    )
    field.props["aria-label"] = "Text of the study"
    kept = {"text": session.document.text}

    def show() -> None:
        said.text = session.document.problem
        take.set_enabled(field.value != session.document.text)

    def changed(change: Change) -> None:
        # An unfinished edit of the text stays; what it was made from is remembered.
        if field.value == kept["text"]:
            field.value = session.document.text
            kept["text"] = session.document.text
        elif change.by != own:
            ui.notify("The study has changed meanwhile; your text is kept here until you take it over.", type="warning")
        show()

    def take_over() -> None:
        try:
            session.replace_text(str(field.value), own)
            kept["text"] = str(field.value)
        except (KapitzaError, OSError) as problem:
            ui.notify(str(problem), type="negative", multi_line=True)
        show()

    take.on_click(take_over)
    field.on_value_change(show)
    hear(session.changed, changed)
    show()


def python_of(session: Session) -> str:
    """Return Python that does the same as the page."""
    return f"""\
import kapitza as kz

# What the button Fit does; the results go to {session.results_folder.name}.
study = kz.read_study({session.path.name!r})
result = study.run()
print(result)

# The answer, of the candidate with the most evidence: values, intervals, warnings.
fit = result.best
print(fit.table())
fit.report("fit.html")

# The recording as it is fitted, the first model with the values to start from.
record = study.fitted[0].record
model = study.candidates[0].model
print(kz.inspect(record))

# Later, without fitting again.
result = kz.read_results({session.results_folder.name!r})
"""


def _python(session: Session) -> None:
    with ui.row().classes("items-center w-full"):
        ui.label("The same in Python").classes("kz-title")
        ui.space()
        ui.button("Copy", icon="content_copy", on_click=lambda: _copy(python_of(session))).props("dense no-caps flat")
    shown = ui.label(python_of(session)).classes("kz-mono kz-code")
    line = f"kapitza identify {session.path.name}"
    with ui.row().classes("items-center w-full"):
        ui.label("On the command line:").classes("kz-note")
        ui.label(line).classes("kz-mono kz-code-line")
        ui.button(icon="content_copy", on_click=lambda: _copy(line)).props(
            'flat dense round aria-label="Copy the command"'
        )

    def show() -> None:
        shown.text = python_of(session)

    hear(session.checked, show)


def _copy(text: str) -> None:
    ui.clipboard.write(text)
    ui.notify("Copied", position="bottom-right", timeout=1500)
