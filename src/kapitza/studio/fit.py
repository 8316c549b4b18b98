"""Show the fit.

Method, progress, verdict and evidence; runs are kept and compared.
"""

from __future__ import annotations

import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go
from nicegui import ui

from kapitza.errors import KapitzaError
from kapitza.studio.drawings import moving_figure
from kapitza.studio.fields import choice_field, keep_focus, number_field
from kapitza.studio.figures import LIVE, dressed, picture
from kapitza.studio.hints import in_page
from kapitza.studio.loading import state_of
from kapitza.studio.session import Session, hear, window
from kapitza.studio.tables import LinkedTable
from kapitza.studio.terms import with_candidate
from kapitza.studio.threads import in_thread

if TYPE_CHECKING:
    from kapitza.report import Part
    from kapitza.study import Candidate, StudyResult

METHODS = {
    "auto": "auto: a chain that starts cheap and ends efficient",
    "shooting": "shooting: maximum likelihood on the samples",
    "harmonic": "harmonic: equations against test functions",
    "orbits": "orbits: of a chaotic recording",
    "invariant": "invariant: a conserved quantity",
}
COLOURS = {"good": "positive", "fair": "warning", "bad": "negative"}
FIRST = ("Before the fit", "Parameters", "Candidates", "Data that were not fitted", "Fit over the data", "Residuals")
"""Parts that stand open; the others are folded."""


def build(session: Session) -> None:
    """Add the pane to a window."""
    FitPane(session)


def kept_runs(folder: Path) -> list[Path]:
    """Return the folders of finished runs.

    The present one is first, then the others follow from new to old.
    """
    numbered = sorted(
        (int(one.name.removeprefix(f"{folder.name}-")), one)
        for one in folder.parent.glob(f"{folder.name}-*")
        if one.name.removeprefix(f"{folder.name}-").isdigit()
    )
    return [one for one in (folder, *(p for _, p in reversed(numbered))) if (one / "result.json").is_file()]


def comparison_rows(results: Mapping[str, StudyResult]) -> list[dict[str, Any]]:
    """Return one row for each parameter.

    A row holds its value with standard error in every run.
    """
    from kapitza.study import quantity

    rows: dict[str, dict[str, Any]] = {}
    for name, result in results.items():
        best = result.best
        if best is None:
            continue
        for parameter in best.names:
            row = rows.setdefault(parameter, {"parameter": parameter})
            row[name] = quantity(best, parameter)
    return list(rows.values())


def read_run(folder: Path) -> StudyResult | None:
    """Return the result in a folder.

    None where it cannot be read.
    """
    from kapitza.study import read_results

    try:
        return read_results(folder)
    except KapitzaError:
        return None


def share_rule(content: Mapping[str, Any]) -> str:
    """Return where the share held back does not count: spans held back of a recording rule."""
    found = content.get("data", [])
    tables = found if isinstance(found, list) else [found]
    fitted = [(n, one) for n, one in enumerate(tables, 1) if isinstance(one, Mapping) and one.get("use") != "check"]
    ruled = [(n, one["hold_back"]) for n, one in fitted if one.get("hold_back")]
    if not ruled:
        return ""
    spans = ", ".join(f"{span[0]:g} to {span[1]:g} s" for _, held in ruled for span in held if _is_span(span))
    if len(ruled) == len(fitted):
        return f"The share does not count: held back is {spans}, as under Recording."
    numbers = ", ".join(str(n) for n, _ in ruled)
    return f"The share does not count in recording {numbers}: held back is {spans}, as under Recording."


def _is_span(span: Any) -> bool:
    return isinstance(span, list) and len(span) == 2 and all(isinstance(end, int | float) for end in span)


def changed_since(folder: Path, text: str) -> bool:
    """Return whether a study says something else than the one that was fitted.

    Comments do not count. False where the results hold no copy of the study.
    """
    try:
        return tomllib.loads((folder / "study.toml").read_text(encoding="utf-8")) != tomllib.loads(text)
    except (OSError, ValueError):
        return False


def evidence(result: StudyResult) -> list[Part]:
    """Return the report's parts for this page.

    Parts that the page shows elsewhere are left out.
    """
    from kapitza.report import study_parts

    return [part for part in study_parts(result, {}) if part.title not in ("Equations", "How it was made", "Data")]


def failures(result: StudyResult) -> list[str]:
    """Return why no fit succeeded, a sentence for each; nothing where one did."""
    return [] if result.chosen is not None else [f"{fit.label}: {fit.failure}" for fit in result.fits if fit.failure]


def progress_of(levels: Mapping[int, Mapping[str, Any]]) -> tuple[float | None, list[str]]:
    """Return the progress of a fit.

    The share that is done, and a sentence for each level.
    """
    outer = levels[min(levels)] if levels else {}
    total = outer.get("total")
    # Before the first step is done the bar moves without a share: it would look as if nothing happened.
    done = float(outer.get("done") or 0)
    share = None if not total or not done else min(done / float(total), 1.0)
    words = [
        ": ".join(str(one[key]) for key in ("title", "stage", "text") if one.get(key))
        for _, one in sorted(levels.items())
    ]
    return share, words


def starts_of(levels: Mapping[int, Mapping[str, Any]], candidates: Sequence[Candidate]) -> dict[str, float]:
    """Return the values that the candidate which is being fitted starts from.

    The study names it in the text of a level, "NAME by METHOD"; {} where none is named beside others.
    """
    stages = [str(one.get("text") or "") for one in levels.values()]
    found = [one for one in candidates if any(stage.startswith(f"{one.name} by ") for stage in stages)]
    if not found and len(candidates) == 1:
        found = list(candidates)
    # One name may begin another: "a" and "a by hand".
    return dict(max(found, key=lambda one: len(one.name)).model.values) if found else {}


class FitPane:
    """Hold the pane's elements in one window.

    Results come from disk, progress from the run.
    """

    def __init__(self, session: Session):
        self.session, self.own = session, window()
        self.moved: Any = None
        self.asked = False
        """Whether this window has started the fit: a keyboard goes on at its buttons."""
        self.shown: Any = None
        with ui.row().classes("items-start gap-3 w-full"):
            self.start_button = ui.button("Fit", icon="play_arrow", on_click=lambda: self.start(False))
            self.start_button.props("no-caps unelevated")
            self.resume_button = ui.button("Go on", icon="redo", on_click=lambda: self.start(True))
            self.resume_button.props("no-caps outline").tooltip("Take over the fits that a stopped run has finished")
            self.stop_button = ui.button("Stop", icon="stop", on_click=lambda: session.stop("fit"))
            self.stop_button.props("no-caps unelevated color=negative")
            choice_field(session, ("fit", "method"), "method", METHODS, "auto").classes("kz-wider")
            number_field(session, ("fit", "hold_back"), "share held back").classes("kz-short")
            self.rule = ui.label().classes("kz-note kz-rule")
        self.said = ui.label().classes("kz-note").props("aria-live=polite")
        with ui.card().classes("kz-card w-full") as self.progress:
            self.bar = ui.linear_progress(0.0, show_value=False, size="6px")
            self.words = ui.label().classes("kz-note pre")
            with ui.row().classes("kz-columns w-full kz-moving") as self.movement:
                with ui.column().classes("kz-half"):
                    self.estimates = LinkedTable(("parameter", "start", "now"), height=260)
                with ui.column().classes("kz-half"):
                    self.moving = picture(go.Figure(), 260)
        # Its room is kept: what is below would move under the pointer that has just added a term.
        self.older = ui.label().classes("kz-warning kz-kept").props("aria-live=polite")
        self.result = ui.column().classes("w-full gap-3")
        with ui.card().classes("kz-card w-full") as self.runs_card:
            ui.label("Runs").classes("kz-title")
            self.runs = ui.column().classes("w-full gap-1")
        hear(session.ran, self.ran)
        hear(session.checked, self.buttons)
        hear(session.changed, self.buttons)
        ui.timer(LIVE, self.draw_progress)
        self.progress.set_visibility(False)
        self.buttons()
        ui.timer(0.05, self.load, once=True)

    async def start(self, resume: bool) -> None:
        self.asked = True
        await self.session.start("fit", "identify", {"study": str(self.session.path), "resume": resume})
        keep_focus(self.stop_button)

    def buttons(self) -> None:
        work = self.session.runs.get("fit")
        active = work is not None and work.active
        able = not active and not self.session.problems
        self.start_button.set_enabled(able)
        self.resume_button.set_visibility(not active and work is not None and work.state in ("stopped", "killed"))
        self.stop_button.set_visibility(active)
        self.stop_button.set_enabled(work is not None and work.state == "running")
        text = ""
        if self.session.problems:
            text = f"{len(self.session.problems)} to mend before this study can run: {self.session.problems[0]}"
        if work is not None:
            seconds = f"{work.seconds:.1f} s"
            text = {
                "running": "", "stopping": "Stopping.", "failed": in_page(work.message), "killed": work.message,
                "stopped": f"Stopped after {seconds}; finished fits are kept.",
                "done": "This study has been fitted before; nothing has changed since."
                if work.result.get("unchanged") else f"Done in {seconds}.",
            }.get(work.state, "") or text  # fmt: skip
        self.said.text = text
        self.rule.text = share_rule(self.session.document.content)
        self.dim()

    def dim(self) -> None:
        """Dim a result that is not that of the present study.

        While a fit runs, and after the study was changed.
        """
        work, text = self.session.runs.get("fit"), ""
        if self.shown and work is not None and work.active:
            text = "Below: the result of the run before, until this one has ended."
        elif self.shown and changed_since(self.session.results_folder, self.session.document.text):
            text = "Below: the result of the run before. The study has changed since; press Fit."
        self.older.text = text
        self.result.classes(add="kz-stale" if text else "", remove="" if text else "kz-stale")

    async def ran(self, key: str) -> None:
        if key != "fit":
            return
        work = self.session.runs["fit"]
        self.buttons()
        self.progress.set_visibility(work.active)
        if not work.active:
            if self.asked:
                self.asked = False
                keep_focus(self.start_button)
            await self.load()

    def draw_progress(self) -> None:
        """Show the progress and estimates of the fit."""
        work = self.session.runs.get("fit")
        if work is None or not work.active or not work.levels:
            return
        share, words = progress_of(work.levels)
        self.bar.props["indeterminate"] = share is None
        self.bar.value = share or 0.0
        self.words.text = "\n".join(words) or "starting"
        history = work.estimates
        self.movement.set_visibility(bool(history))
        if history and history[-1] is not self.moved:
            self.moved = history[-1]
            study = self.session.study
            start = {} if study is None else starts_of(work.levels, study.candidates)
            self.estimates.fill([{"parameter": n, "start": start.get(n), "now": v} for n, v in history[-1].items()])
            self.moving.update_figure(dressed(moving_figure(history, start), 260))

    async def load(self) -> None:
        """Show the result on disk where it has changed."""
        folder = self.session.results_folder
        folders = kept_runs(folder)
        state = [state_of(one / "result.json") for one in folders]
        if state == self.shown:
            return
        self.shown = state
        result = await self.session.result()
        parts = [] if result is None else await in_thread(evidence, result) or []
        # Only now: the figures take seconds, for which the pane would be empty.
        self.result.clear()
        self.runs_card.set_visibility(bool(folders))
        if result is not None:
            with self.result:
                self._verdict(result)
                self._suggestions(result)
                for part in parts:
                    self._part(part)
        self.dim()
        await self._runs(folders)

    def _verdict(self, result: StudyResult) -> None:
        from kapitza.report import verdict_of

        verdict = verdict_of(result)
        with ui.card().classes("kz-card w-full kz-verdict"):
            with ui.row().classes("items-center gap-3"):
                ui.badge(verdict.word).props(f"color={COLOURS[verdict.grade]}").classes("kz-grade")
                ui.label(verdict.sentence).classes("kz-title")
            ui.label(result.sentence()).classes("kz-answer")
            for text in (result.verdict(), *result.disagreements()):
                if text:
                    ui.label(text).classes("kz-note")
            for text in failures(result):
                ui.label(in_page(text)).classes("kz-problem")
            for text in verdict.steps:
                ui.label(f"→ {in_page(text)}").classes("kz-note")

    def _suggestions(self, result: StudyResult) -> None:
        """Add a button for each suggested term.

        Terms that would explain the residuals.
        """
        chosen = result.chosen
        if chosen is None or chosen.missing is None or not chosen.missing.missing:
            return
        found = chosen.missing
        offered = found.alternatives or tuple(term for term in found.terms if term.physical)[:3]
        with ui.card().classes("kz-card w-full"):
            ui.label("What is missing?").classes("kz-title")
            for term in offered:
                with ui.row().classes("items-center gap-3 no-wrap"):
                    size = f"{term.coefficient:.3g} ± {term.error:.2g}"
                    ui.label(f"{term.name}: {term.notation.format(c='c')}, c = {size}").classes("kz-note")
                    self._term_button(chosen.candidate, term.name, term.notation)

    def _term_button(self, candidate: str, name: str, notation: str) -> None:
        """Add the button that puts a term into the study, as a further candidate beside the one it was found for.

        The keys follow from the study at the click: what was typed since the fit stays.
        """

        def changes() -> dict[Any, Any]:
            number = next((n for n, c in enumerate(self._candidates()) if c == candidate), 0)
            try:
                return with_candidate(tomllib.loads(self.session.document.text), number, name, notation)
            except tomllib.TOMLDecodeError:
                return {}

        def add() -> None:
            try:
                # Of a double click the second finds the term in the study.
                if wanted := changes():
                    self.session.set_all(wanted, self.own)
            except (KapitzaError, OSError) as problem:
                ui.notify(str(problem), type="negative", multi_line=True)

        button = ui.button("Add this term", on_click=add).props("flat dense no-caps")
        other = ui.label("(write it into the model)").classes("kz-note")
        known = bool(changes())
        button.set_visibility(known)
        other.set_visibility(not known)

        def show() -> None:
            # Once it is in the study there is nothing left to add; an undo brings the button back.
            open_ = bool(changes())
            if known and button.enabled != open_:
                button.set_enabled(open_)
                button.text = "Add this term" if open_ else "Added: press Fit"

        hear(self.session.changed, show)

    def _candidates(self) -> list[str]:
        study = self.session.study
        return [] if study is None else [candidate.name for candidate in study.candidates]

    def _part(self, part: Part) -> None:
        """Add a part of the evidence.

        One that is folded is drawn when it is opened: fourteen figures at once keep a browser busy for seconds.
        """
        open_ = part.title.startswith(FIRST)
        with ui.expansion(part.title, value=open_).classes("kz-card w-full kz-part") as box:
            holder = ui.column().classes("w-full gap-2")

        def fill() -> None:
            if box.value and not holder.default_slot.children:
                with holder:
                    _draw_part(part)

        box.on_value_change(fill)
        fill()

    async def _runs(self, folders: Sequence[Path]) -> None:
        results = {}
        for folder in folders[:6]:
            found = await in_thread(read_run, folder)
            if found is not None:
                results[folder.name] = found
        self.runs.clear()
        with self.runs:
            for name, result in results.items():
                made = time.strftime("%Y-%m-%d %H:%M", time.localtime((result.folder / "result.json").stat().st_mtime))
                ui.label(f"{name}, {made}: {result.sentence()}").classes("kz-note")
            rows = comparison_rows(results) if len(results) > 1 else []
            if rows:
                LinkedTable(["parameter", *results], height=300).fill(rows)


def _draw_part(part: Part) -> None:
    """Draw text, table and figure of a part."""
    for text in part.paragraphs:
        ui.label(in_page(text)).classes("kz-note pre")
    for text in part.warnings:
        ui.label(in_page(text)).classes("kz-warning")
    if part.table is not None and len(part.table):
        table = part.table.reset_index() if part.table.index.name else part.table
        rows = [{str(k): v for k, v in row.items()} for row in table.to_dict("records")]
        LinkedTable([str(c) for c in table.columns], height=420).fill(rows)
    if part.figure is not None:
        picture(part.figure, part.figure.to_dict()["layout"].get("height", 340))
    if part.caption:
        ui.label(part.caption).classes("kz-note")
