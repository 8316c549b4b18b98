"""What all windows of one study share.

A pane is a module with `build(session: Session) -> None`, called once per window inside its tab. It keeps no state of
its own: it reads the session, subscribes to its events, and changes the study through it.

What a pane reads
    session.document      the study as it is on disk: `get(*place)`, `tables("model")`, `text`, `version`
    session.study         the last `Study` that was read without problems, None before; of `session.study_version`
    session.problems      what is wrong with the text now; `session.problems_at(*place)` those of one field
    session.recordings    what is drawn of each [data] table: `Shown` (record, pyramid, marks), None while it is read
    session.runs[key]     the last `Run` of each kind of work ("fit", "orbits", "branch", "rig", ...)
    await session.result()    the `StudyResult` of the results folder, None where there is none; read again when the
                              folder has changed. Results come from disk, never from a run.

What a pane calls
    session.set(place, value, by)     one key of the study; None removes it. `by` is `window()`, so that a window knows
                                      its own changes. `set_all({place: value, ...}, by)` is one step of the history.
    session.undo(by), session.redo(by)
    await session.start(key, job, arguments)    a job of jobs.py in a worker; one of each key at a time
    await session.stop(key)                     seen at once in `run.state`; killed after 5 s
    session.tell(text, by)            a message to all windows (but `by`)

Events (`hear(session.changed, callback)` inside `build`; it ends with the element or the window it was called in)
    session.changed(change)    the study has another text: `change.touches("model", 0, "equations")`, `change.by`
    session.checked()          problems, study and warnings are those of the present text
    session.loaded()           recordings have been read
    session.ran(key)           a line of a run has arrived, or it has ended: look at `session.runs[key]`
    session.notice(text, by)     something to show for a moment

Places are tuples as in `Problem.place`: ("model", 0, "equations"), ("fit", "free"). A pane puts the problems of a
place beside its field (`fields.py` does so by itself); the page lists all of them.
"""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nicegui import Event, context, helpers

from kapitza.errors import DataError, KapitzaError
from kapitza.model import Model, dimension_problems
from kapitza.studio.candidates import models_of, title_of
from kapitza.studio.document import Change, Document, Place
from kapitza.studio.loading import Shown, key_of, load, state_of, with_spikes
from kapitza.studio.motion import Motion
from kapitza.studio.runs import Run, Runs
from kapitza.studio.threads import in_thread, return_memory
from kapitza.study import (
    KeptRecords,
    Problem,
    Study,
    StudyError,
    StudyResult,
    build_model,
    read_results,
    study_of,
    unread_signals,
)

WATCH = 0.4
"""Seconds between two looks at the file on disk: a change outside is seen within a second."""

Unread = tuple[str, str]
"""Why a recording is not shown: file and message."""


def window() -> str:
    """Return the name of the present window.

    The one that is being built or has sent the event.
    """
    return context.client.id


def hear(event: Event[...], callback: Callable[..., Any]) -> None:
    """Subscribe to an event during an element's life.

    The subscription ends with the element built last.
    Panes rebuild parts of themselves; NiceGUI itself unsubscribes with the window only.
    """
    # The last element so far: it goes when what surrounds it is cleared.
    owner = context.slot.children[-1] if context.slot.children else context.slot.parent
    wants = helpers.expects_arguments(callback)

    def heard(*arguments: Any) -> Any:
        if owner.is_deleted:
            event.unsubscribe(heard)
            return None
        return callback(*arguments) if wants else callback()

    event.subscribe(heard, expect_args=True)


class Session:
    """One study file, open in any number of windows."""

    def __init__(self, path: Path, workers: Runs):
        self.path = path.resolve()
        self.document = Document(self.path)
        self.study: Study | None = None
        self.study_version = -1
        self.problems: tuple[Problem, ...] = ()
        self.drafts: dict[int, Model] = {}
        """Models of candidates that can be built while the study as a whole has problems."""
        self.warnings: tuple[tuple[int, str], ...] = ()
        """Number of a candidate, and what looks wrong in it without being refused."""
        self.checked_version = -1
        self.recordings: list[Shown | Unread | None] = []
        self.runs: dict[str, Run] = {}
        self.motions: dict[int, Motion | None] = {}
        """What the sliders of the model pane simulate, drawn over the data; by candidate."""
        self.changed: Event[Change] = Event()
        self.checked: Event[[]] = Event()
        self.loaded: Event[[]] = Event()
        self.ran: Event[str] = Event()
        self.notice: Event[str, str] = Event()
        self._workers = workers
        self._records = KeptRecords()
        self._result: tuple[Any, StudyResult | None] = (None, None)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._checking = False
        self._loading = False
        self._read = asyncio.Event()
        """Set when the recordings are read: one after the other, two reads of a long file take memory once."""
        self._checked_once = asyncio.Event()
        """Set after the first check: the search for spikes in long recordings takes as much memory as the check."""

    # -- changing --------------------------------------------------------------------------------------------------

    def set(self, place: Place, value: Any, by: str = "") -> None:
        """Set one key of the study; None removes it."""
        self.set_all({place: value}, by)

    def set_all(self, values: Mapping[Place, Any], by: str = "") -> None:
        """Set several keys as one step of the history."""
        self._take(self.document.version, self.document.set_all(values, by))

    def replace_text(self, text: str, by: str = "") -> None:
        """Take another text of the study as a whole."""
        self._take(self.document.version, self.document.replace(text, by))

    def undo(self, by: str = "") -> None:
        self._take(self.document.version, self.document.undo(by))

    def redo(self, by: str = "") -> None:
        self._take(self.document.version, self.document.redo(by))

    def _take(self, before: int, change: Change) -> None:
        if self.document.version == before:
            return
        self.changed.emit(change)
        if change.message:
            self.tell(change.message)
        self.check_soon()

    def tell(self, text: str, by: str = "") -> None:
        """Show a message in all windows but one."""
        self.notice.emit(text, by)

    def problems_at(self, *place: str | int) -> list[str]:
        """Return the messages inside a place."""
        return [p.message for p in self.problems if p.place[: len(place)] == place]

    def model(self, number: int) -> Model | None:
        """Return the model of a candidate.

        It is that of the present text where it can be built, else the one that was last read without problems.
        """
        if number in self.drafts:
            return self.drafts[number]
        study = self.study
        return None if study is None or number >= len(study.candidates) else study.candidates[number].model

    # -- watching, checking, loading -------------------------------------------------------------------------------

    def begin(self) -> None:
        """Check the study and watch its file.

        Its recordings are loaded. It is called once, in the loop of the server.
        """
        self.check_soon()
        self._keep(self._watch())

    def check_soon(self) -> None:
        """Check the present text in a thread.

        One check at a time; the last text counts.
        """
        if not self._checking:
            self._checking = True
            self._keep(self._check())
        if not self._loading:
            self._loading = True
            self._keep(self._load())

    async def _check(self) -> None:
        try:
            await self._read.wait()
            while self.checked_version != self.document.version:
                version = self.document.version
                read = await in_thread(_read, self.path, self.document.text, self._records, self.study)
                if read is None:
                    return
                study, problems, warnings, self.drafts = read
                if study is not None:
                    self.study, self.study_version = study, version
                self.problems, self.warnings, self.checked_version = problems, warnings, version
                self.checked.emit()
        finally:
            self._checking = False
            self._checked_once.set()

    async def _load(self) -> None:
        folder = self.path.parent
        try:
            while True:
                tables = self.document.tables("data")
                self.recordings[len(tables) :] = []
                wanted = [(n, t) for n, t in enumerate(tables) if self._stale(n, key_of(t, folder))]
                late = [(n, s) for n, s in enumerate(self.recordings) if isinstance(s, Shown) and not s.searched]
                if not wanted:
                    self._records.others = [one.record for one in self.recordings if isinstance(one, Shown)]
                    self._read.set()
                if not wanted and not late:
                    return
                if not wanted:
                    # Drawn first, searched for spikes after: 10^7 samples take many seconds.
                    await self._checked_once.wait()
                    number, shown = late[0]
                    found = await in_thread(_searched, shown)
                    if found is not None and number < len(self.recordings) and self.recordings[number] is shown:
                        self.recordings[number] = found
                        self.loaded.emit()
                    continue
                number, table = wanted[0]
                self.recordings += [None] * (number + 1 - len(self.recordings))
                self.recordings[number] = await in_thread(_loaded, table, folder)
                self.loaded.emit()
        finally:
            self._loading = False
            # Whatever happened to the recordings, the study is checked.
            self._read.set()

    def _stale(self, number: int, key: tuple[Any, ...]) -> bool:
        if number >= len(self.recordings):
            return True
        found = self.recordings[number]
        if isinstance(found, Shown):
            return found.key != key
        return found is None or found[0] != repr(key)

    async def _watch(self) -> None:
        seen = ""
        while True:
            await asyncio.sleep(WATCH)
            try:
                before = self.document.version
                if self.document.refresh():
                    self._take(before, Change(message=seen_outside(self.document)))
                if seen:
                    seen = ""
                    self.tell(f"{self.path.name} is readable again.")
            except (DataError, OSError) as problem:
                if str(problem) != seen:
                    seen = str(problem)
                    self.tell(seen)

    # -- work ------------------------------------------------------------------------------------------------------

    async def start(self, key: str, job: str, arguments: Mapping[str, Any]) -> Run | None:
        """Start a job in a worker.

        None where one of this key is still running.
        """
        running = self.runs.get(key)
        if running is not None and running.active:
            return None
        made = await self._workers.start(job, arguments, lambda _: self.ran.emit(key))
        self.runs[key] = made
        self.ran.emit(key)
        return made

    async def stop(self, key: str) -> None:
        """Stop the job of a key.

        It is killed where it does not stop in time.
        """
        running = self.runs.get(key)
        if running is not None:
            await self._workers.stop(running, lambda _: self.ran.emit(key))

    async def result(self) -> StudyResult | None:
        """Return what the results folder holds.

        None where nothing can be read.
        """
        folder = self.results_folder
        state = (str(folder), state_of(folder / "result.json"))
        if self._result[0] != state:
            self._result = (state, await in_thread(_results, folder))
        return self._result[1]

    @property
    def results_folder(self) -> Path:
        """Return the folder that the study writes.

        Whether it exists or not.
        """
        name = self.document.get("output", "folder", default=f"{self.path.stem}-results")
        return self.path.parent / str(name)

    def _keep(self, work: Any) -> None:
        # The loop holds tasks weakly: one that nobody holds may vanish.
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


Checked = tuple[Study | None, tuple[Problem, ...], tuple[tuple[int, str], ...], dict[int, Model]]
"""A study, its problems, its warnings by candidate, and models that can be built in spite of problems."""


def _read(path: Path, text: str, kept: KeptRecords, before: Study | None) -> Checked:
    """Return a study, its problems and its warnings.

    Warnings are sums of unlike quantities by candidate; those that need fits come with a run. before: the last study
    without problems.
    """
    try:
        study = study_of(path, text, kept)
        return_memory(sum(one.size for one in kept.others))
        warnings = tuple((n, t) for n, c in enumerate(study.candidates) for t in dimension_problems(c.model))
        return study, (), warnings, {}
    except StudyError as error:
        return None, error.problems, (), drafts(path, text, before)
    except (KapitzaError, OSError) as error:
        return None, (Problem((), 0, str(error)),), (), {}
    except Exception as error:
        # A defect of the check must not end it: the page would say "ready" of a text that nobody has read.
        return None, (Problem((), 0, f"The study could not be checked: {type(error).__name__}: {error}"),), (), {}


def drafts(path: Path, text: str, before: Study | None) -> dict[int, Model]:
    """Return the models of a text with problems, by candidate; those that cannot be built are left out.

    before: the last study without problems, for the drives that were measured.
    """
    try:
        content = tomllib.loads(text)
        tables, data = models_of(content), content.get("data", [])
    except tomllib.TOMLDecodeError:
        return {}
    signals = before.candidates[0].model.signals if before is not None else ()
    if not signals:
        # A study that was never without problems has drives too.
        given = data if isinstance(data, list) else [data]
        signals = unread_signals([one for one in given if isinstance(one, Mapping)], ())
    found = {}
    for number, table in enumerate(tables):
        try:
            found[number] = build_model(table, path.parent, signals, title_of(table, number))
        except Exception:
            # Whatever is wrong with it, the problems of the study say so.
            continue
    return found


def seen_outside(document: Document) -> str:
    """Return what is said of a file that was changed outside: one that cannot be parsed is not shown."""
    if document.problem:
        return (
            f"{document.path.name} was changed outside and cannot be read: {document.problem}. Shown is what it held "
            "before, until it is mended."
        )
    return f"{document.path.name} was changed outside and is shown anew."


def _loaded(table: Mapping[str, Any], folder: Path) -> Shown | Unread:
    try:
        found = load(table, folder)
        return_memory(found.record.size)
        return found
    except Exception as error:
        # Whatever a reader does with a foreign file, the page says it.
        return (repr(key_of(table, folder)), str(error) or type(error).__name__)


def _searched(shown: Shown) -> Shown:
    try:
        found = with_spikes(shown)
        return_memory(shown.record.size)
        return found
    except Exception:
        # Marks are a help to the eye: without them the recording is still shown.
        return replace(shown, searched=True)


def _results(folder: Path) -> StudyResult | None:
    try:
        return read_results(folder)
    except KapitzaError:
        return None
