"""Show the pane of the model.

It has equations, library and laws, candidates, and a simulated motion over the data.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from nicegui import ui

from kapitza.errors import KapitzaError
from kapitza.model import CONSTANTS, FUNCTIONS
from kapitza.studio.candidates import another_candidate, free_place, names_to_find, starts_from, title_of
from kapitza.studio.columns import roles
from kapitza.studio.document import Change
from kapitza.studio.fields import bind, keep_focus, text_field
from kapitza.studio.formulas import formula
from kapitza.studio.loading import Shown
from kapitza.studio.motion import simulated
from kapitza.studio.parameters import parameter_table
from kapitza.studio.recording import View
from kapitza.studio.session import Session, hear, window
from kapitza.studio.templates import FIRST_EQUATIONS, coordinate, starting_points
from kapitza.studio.threads import in_thread

SOURCES = ("equations", "library", "file", "map")


def build(session: Session) -> None:
    """Build the pane in one window.

    The row of candidates and the chosen one are rebuilt apart, and only when they are others: a menu that is open, and
    a field that has the cursor, outlive what another window changes.
    """
    bar = ui.row().classes("items-center gap-2 w-full")
    holder = ui.column().classes("w-full gap-3")
    state: dict[str, Any] = {"bar": None, "built": None, "count": 0, "chosen": 0, "focus": ""}

    def refresh() -> None:
        tables = session.document.tables("model")
        chosen = state["chosen"] = min(state["chosen"], max(len(tables) - 1, 0))
        row = [title_of(table, number) for number, table in enumerate(tables)], chosen
        if state["bar"] != row:
            state["bar"] = row
            bar.clear()
            with bar:
                _bar(session, state, row[0], refresh)
        source = next((key for key in SOURCES if key in tables[chosen]), "") if tables else ""
        # Behind a removed candidate the numbers have moved.
        if state["built"] != (chosen, source) or len(tables) < state["count"]:
            state["built"] = chosen, source
            holder.clear()
            with holder:
                _candidate(session, chosen)
        state["count"] = len(tables)

    hear(session.changed, refresh)
    refresh()


def _bar(session: Session, state: dict[str, Any], titles: list[str], refresh: Any) -> None:
    """Add a button per candidate, and those that add and remove one."""
    own = window()

    def choose(number: int) -> None:
        state["chosen"], state["focus"] = number, "chosen"
        refresh()

    def put(values: dict[Any, Any], chosen: int) -> None:
        before, state["chosen"] = state["chosen"], chosen
        try:
            session.set_all(values, own)
        except (KapitzaError, OSError) as problem:
            state["chosen"] = before
            ui.notify(str(problem), type="negative", multi_line=True)

    def add() -> None:
        count = len(session.document.tables("model"))
        state["focus"] = "add"
        put(another_candidate(session.document.content, state["chosen"]), count)

    def remove() -> None:
        state["focus"] = "chosen"
        put({("model", state["chosen"]): None}, max(state["chosen"] - 1, 0))

    for number, title in enumerate(titles):
        button = ui.button(title, on_click=partial(choose, number)).props("dense no-caps unelevated")
        if number != state["chosen"]:
            button.props("outline")
        elif state["focus"] == "chosen":
            keep_focus(button)
    adds = (
        ui.button("Another candidate", icon="add", on_click=add)
        .props("dense no-caps flat")
        .tooltip("A copy of the one shown, with its own parameters to find")
    )
    if state["focus"] == "add":
        keep_focus(adds)
    state["focus"] = ""
    if len(titles) > 1:
        ui.button("Remove this one", icon="delete_outline",
                  on_click=remove).props("dense no-caps flat")  # fmt: skip


def _candidate(session: Session, number: int) -> None:
    whole = ui.label().classes("kz-problem pre")

    def show() -> None:
        whole.text = "\n".join(p.message for p in session.problems if p.place == ())
        whole.set_visibility(bool(whole.text))

    hear(session.checked, show)
    show()
    with ui.row().classes("w-full kz-columns"):
        with ui.card().classes("kz-card kz-wide"):
            _equations(session, number)
        with ui.card().classes("kz-card kz-narrow"):
            starting_points(session, number)
    redraw = _Redraw(session, number)
    with ui.card().classes("kz-card w-full"):
        with ui.row().classes("items-center gap-3"):
            ui.label("Parameters").classes("kz-title")
            _start_button(session, number)
        parameter_table(session, number, lambda: session.model(number), redraw.with_values)
    with ui.card().classes("kz-card w-full"):
        redraw.build()


def _start_button(session: Session, number: int) -> None:
    """Add a button that takes the values of the last fit of this candidate as those to start from."""
    own = window()

    async def take() -> None:
        values = starts_from(await session.result(), session.document.content, number)
        try:
            if values:
                session.set_all(values, own)
        except (KapitzaError, OSError) as problem:
            ui.notify(str(problem), type="negative", multi_line=True)

    async def show() -> None:
        values = starts_from(await session.result(), session.document.content, number)
        if not button.is_deleted:
            button.set_visibility(bool(values))

    button = ui.button("Start from the fit", icon="restart_alt", on_click=take).props("dense no-caps flat")
    button.set_visibility(False)
    hear(session.changed, show)
    hear(session.ran, show)
    ui.timer(0.05, show, once=True)


def _equations(session: Session, number: int) -> None:
    """Add the field of the equations.

    Its problems with their column, and the formula, are shown too.
    """
    given = next((key for key in SOURCES if key in session.document.get("model", number, default={})), "equations")
    with ui.row().classes("items-center w-full"):
        ui.label({"equations": "Equations of motion", "library": "From the library", "file": "From a file",
                  "map": "A map"}[given]).classes("kz-title")  # fmt: skip
        if len(session.document.tables("model")) > 1:
            ui.space()
            text_field(session, ("model", number, "name"), "name of this candidate").classes("kz-medium")
    place = ("model", number, given)
    if given == "equations":
        field = (
            ui.textarea(value=_lines(session.document.get(*place)))
            .props("outlined autogrow dense")
            .classes("w-full kz-mono")
        )
        field.props["aria-label"] = "Equations of motion"
        field.props["spellcheck"] = "false"
        field.props["hide-bottom-space"] = True
        bind(field, session, place, _equation_list, _lines, quiet=True)
        hint = ui.label(_hint(session)).classes("kz-note kz-mono")
        hear(session.changed, lambda: hint.set_text(_hint(session)))
    elif given in ("library", "file"):
        text_field(session, place, given).classes("w-full kz-mono")
    else:
        ui.label("\n".join(f"{k} → {v}" for k, v in (session.document.get(*place) or {}).items())).classes(
            "kz-mono kz-said"
        )
    said = ui.column().classes("w-full gap-1")
    drawn = ui.html("", sanitize=False).classes("kz-formula")
    offers = ui.row().classes("gap-2 items-center")
    offered: list[str] = []

    def show() -> None:
        said.clear()
        with said:
            for key in (given, "values", "name", "free", "laws"):
                for text in session.problems_at("model", number, key):
                    ui.label(text.partition(": ")[2] or text).classes("kz-problem kz-caret")
            for problem in session.problems:
                if problem.place == ("model", number):
                    ui.label(problem.message).classes("kz-problem")
            for text in (text for candidate, text in session.warnings if candidate == number):
                ui.label(text).classes("kz-warning")
        found = session.model(number)
        wrong = bool(session.problems_at("model", number, given))
        drawn.content = formula(found) if found is not None else ""
        drawn.classes("kz-stale") if wrong else drawn.classes(remove="kz-stale")
        # Rebuilt only for other names: a click on a button that is replaced meanwhile would be lost.
        names = unknown_names(session, number)
        if names != offered:
            offered[:] = names
            offers.clear()
            with offers:
                _offers(session, number, names)

    hear(session.checked, show)
    show()


def _hint(session: Session) -> str:
    """Return how equations are written, with the coordinate that the recording has now."""
    return f"One per line, primes are time derivatives: {FIRST_EQUATIONS['pendulum'].format(x=coordinate(session))}"


def _lines(equations: Any) -> str:
    return equations if isinstance(equations, str) else "\n".join(map(str, equations or []))


def _equation_list(text: str) -> list[str]:
    return [line.strip() for line in (text or "").splitlines() if line.strip()]


def unknown_names(session: Session, number: int) -> list[str]:
    """Return unknown names in the equations.

    They are neither moved, nor measured, nor parameters.
    """
    texts = _equation_list(_lines(session.document.get("model", number, "equations")))
    moving = {name for text in texts for name in re.findall(r"([A-Za-z_]\w*)'", text)}
    drives = {d for table in session.document.tables("data") for d in table.get("drive") or []}
    known = {
        *moving,
        *drives,
        *(session.document.get("model", number, "parameters") or {}),
        *FUNCTIONS,
        *CONSTANTS,
        "t",
    }
    words = dict.fromkeys(word for text in texts for word in re.findall(r"(?<![\w.])[A-Za-z_]\w*", text))
    return [word for word in words if word not in known]


def _offers(session: Session, number: int, names: list[str]) -> None:
    """Offer to make new names of the equations parameters."""
    own = window()
    if not names:
        return

    ui.label("New here:").classes("kz-note")
    ui.button(f"make {', '.join(names)} {'a parameter' if len(names) == 1 else 'parameters'}", icon="add",
              on_click=lambda: _make_parameters(session, number, names, own)
              ).props("dense no-caps outline")  # fmt: skip


def _make_parameters(session: Session, number: int, names: list[str], own: str) -> None:
    """Make names of the equations parameters to find.

    They start at 1.
    """
    values: dict[Any, Any] = {("model", number, "parameters", name): 1.0 for name in names}
    free = names_to_find(session.document.content, number)
    values[free_place(session.document.content, number)] = [*free, *(name for name in names if name not in free)]
    session.set_all(values, own)


class _Redraw:
    """Simulate the motion over the data.

    One simulation at a time; the last request counts.
    """

    def __init__(self, session: Session, number: int):
        self.session, self.number = session, number
        self.values: dict[str, float] = {}
        self.busy = self.again = False
        self.view: View | None = None
        self.seen: tuple[float, float] | None = None

    def build(self) -> None:
        """Add the picture of the first fitted recording."""
        with ui.row().classes("items-center w-full"):
            ui.label("Simulated over the data").classes("kz-title")
            self.said = ui.label().classes("kz-note")
        self.holder = ui.column().classes("w-full")
        hear(self.session.loaded, self.show)
        hear(self.session.checked, self.run)
        hear(self.session.changed, self.changed)
        self.show()

    def changed(self, change: Change) -> None:
        """Shade the spans that are held back or cut now."""
        if self.view is not None and (change.touches("data", 0) or change.touches("fit", "hold_back")):
            self.view.take()

    def show(self) -> None:
        """Draw the recording as soon as it is read."""
        ready = self.session.recordings and isinstance(self.session.recordings[0], Shown)
        if not ready:
            return
        if self.view is not None:
            self.view.take()
            return
        with self.holder:
            self.view = View(self.session, 0, self.number)
            self.view.on("seen", self.moved)
        ui.timer(0.05, self.run, once=True)

    def moved(self, event: Any) -> None:
        self.seen = float(event.args["begin"]), float(event.args["end"])
        self.start()

    def with_values(self, values: dict[str, float]) -> None:
        """Take over what the sliders say."""
        self.values = values
        self.start()

    def start(self) -> None:
        ui.timer(0, self.run, once=True)

    async def run(self) -> None:
        """Simulate with the present values.

        Once more where they have changed meanwhile.
        """
        if self.busy:
            self.again = True
            return
        self.busy = True
        try:
            self.again = True
            while self.again:
                self.again = False
                await self.once()
        finally:
            self.busy = False

    async def once(self) -> None:
        study, shown = self.session.study, self.session.recordings[0] if self.session.recordings else None
        if study is None or not study.fitted or self.number >= len(study.candidates) or not isinstance(shown, Shown):
            return
        recording = study.fitted[0]
        names = {name: column for column, (_, name) in roles(self.session, 0, shown.channels).items()}
        begin, end = self.seen or (float(shown.time[0]), float(shown.time[-1]))
        try:
            model = study.candidates[self.number].model.with_values(**{**recording.values, **self.values})
            made = await in_thread(simulated, model, recording.record, names, begin, end)
            text = "" if made is None else str(made)
        except (KapitzaError, ArithmeticError) as problem:
            made, text = None, str(problem)
        # Another candidate, or another tab, may have been chosen meanwhile.
        if self.said.is_deleted:
            return
        self.session.motions[self.number], self.said.text = made, text
        if self.view is not None:
            self.view.run_method("sharpen")
