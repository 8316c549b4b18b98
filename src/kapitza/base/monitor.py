"""Progress, cancelling and Ctrl-C.

One small protocol, which every long verb takes as `monitor=`.

A verb watches its work; a monitor is shown how much is done and how much remains, and may cancel:

    with watch(monitor, "orbits of duffing", total=6) as task:
        for period in range(1, 7):
            found += search(period)
            task.advance(1, f"{len(found)} orbits")
    status = task.status

The block ends early when the monitor is cancelled (at the next `advance`) or when the user presses Ctrl-C (at once);
the verb then returns what is finished, with `Status.INTERRUPTED`. Iterations deep inside a verb report by
`checkpoint`, which finds the task of the verb by itself.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from kapitza.errors import DataError, Status, printable

LINE_EVERY = 15.0
"""Seconds between lines of a log."""

QUIET = 1.0
"""Seconds before a bar appears: work that ends sooner shows none."""


@dataclass(frozen=True)
class Progress:
    """How far a piece of work is.

    title: what is done. done, total: in steps of the work; total is None where it is not known before.
    text: what there is so far, in words. level: 0 for the verb that was called, 1 for work inside it, and so on.
    ended: the work is over, finished or not. stage: part of a fit that is under way, such as "HarmonicFit". estimates:
    parameters of a fit at its last iteration, or of a branch at its last point, by name. cost: what the iteration has
    come down to; it means the same within one stage only.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.Progress("orbits of duffing", done=3, total=6).fraction
    0.5
    """

    title: str
    done: float = 0.0
    total: float | None = None
    text: str = ""
    level: int = 0
    ended: bool = False
    stage: str = ""
    estimates: Mapping[str, float] = field(default_factory=dict)
    cost: float | None = None

    def cost_change(self, before: Progress) -> float | None:
        """Return cost minus an earlier one.

        It is None between stages, whose costs weigh different things.

        Examples
        --------
        >>> import kapitza as kz
        >>> soft = kz.Progress("fit", stage="soft links", cost=3e2)
        >>> softer = kz.Progress("fit", stage="soft links", cost=1e2)
        >>> softer.cost_change(soft), kz.Progress("fit", stage="rigid links", cost=4e4).cost_change(softer)
        (-200.0, None)
        """
        if self.cost is None or before.cost is None or self.stage != before.stage:
            return None
        return self.cost - before.cost

    @property
    def fraction(self) -> float | None:
        """Return the share that is done, 0 … 1.

        None where the total is not known.
        """
        return None if not self.total else min(self.done / self.total, 1.0)


@runtime_checkable
class Monitor(Protocol):
    """Follow or stop long work, from its thread.

    Examples
    --------
    >>> class Printer:
    ...     cancelled = False
    ...     def show(self, progress):
    ...         if progress.ended:
    ...             print(progress.title, "ended")
    >>> import kapitza as kz
    >>> record = kz.simulate(kz.library.duffing(), periods=3, monitor=Printer())
    simulating duffing ended
    """

    @property
    def cancelled(self) -> bool:
        """Return whether the work should stop.

        It is called repeatedly, and stays True.
        """
        ...

    def show(self, progress: Progress) -> None:
        """Show how far the work is; return soon."""
        ...


class Silent:
    """Shows nothing; `cancel()` stops the work from another thread.

    Examples
    --------
    >>> import kapitza as kz
    >>> monitor = kz.Silent()
    >>> monitor.cancel()
    >>> kz.find_orbits(kz.library.duffing(), max_period=1, monitor=monitor).status.name
    'INTERRUPTED'
    """

    def __init__(self) -> None:
        self._stop = threading.Event()

    def cancel(self) -> None:
        """Stop the work; it returns what is finished."""
        self._stop.set()

    @property
    def cancelled(self) -> bool:
        return self._stop.is_set()

    def show(self, progress: Progress) -> None:
        pass


class Lines(Silent):
    """Print a line now and then, for logs and pipes; `cancel()` stops the work from another thread.

    A line is also due where the work reports nothing for long.

    Examples
    --------
    >>> import kapitza as kz
    >>> from kapitza.base.monitor import Lines
    >>> kz.simulate(kz.library.duffing(), periods=3, monitor=Lines()).size  # done before the first line is due
    4
    """

    def __init__(self) -> None:
        super().__init__()
        self._began = self._last = time.monotonic()
        self._words: dict[int, str] = {}
        self._lock = threading.Lock()
        self._over: threading.Event | None = None

    def show(self, progress: Progress) -> None:
        with self._lock:
            self._words = {level: text for level, text in self._words.items() if level < progress.level}
            if progress.ended:
                if progress.level == 0 and self._over is not None:
                    self._over.set()
                    self._over = None
                return
            if self._over is None:
                self._over = threading.Event()
                threading.Thread(target=self._beat, args=(self._over,), daemon=True).start()
            share = "" if progress.fraction is None else f"{100 * progress.fraction:.0f} %"
            said = (progress.title, progress.stage, progress.text, share)
            self._words[progress.level] = ": ".join(filter(None, said))
            self._print_if_due()

    def _beat(self, over: threading.Event) -> None:
        """Print lines until the work is over."""
        while not over.wait(LINE_EVERY / 3):
            with self._lock:
                if not over.is_set():
                    self._print_if_due()

    def _print_if_due(self) -> None:
        now = time.monotonic()
        if now - self._last >= LINE_EVERY:
            self._last = now
            words = printable(" > ".join(self._words[level] for level in sorted(self._words)))
            print(f"{now - self._began:.0f} s: {words}", file=sys.stderr, flush=True)


class Bar:
    """Show progress as a bar.

    The bar is shown on the terminal (standard error) or in a notebook; `cancel()` stops the work from another thread.

    Work inside the verb has a bar of its own below. Nothing is drawn for work that ends within a second.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.simulate(kz.library.duffing(), periods=3, monitor=kz.Bar()).size
    4
    """

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._began = time.monotonic()
        self._drawn: Any = None
        self._rows: dict[int, Any] = {}

    def cancel(self) -> None:
        """Stop the work; it returns what is finished."""
        self._stop.set()

    @property
    def cancelled(self) -> bool:
        return self._stop.is_set()

    def show(self, progress: Progress) -> None:
        if progress.ended:
            self._end(progress.level)
            return
        if self._drawn is None:
            if time.monotonic() - self._began < QUIET:
                return
            self._drawn = _rich_bars()
            self._drawn.start()
        if progress.level not in self._rows:
            self._rows[progress.level] = self._drawn.add_task(progress.title, total=progress.total)
        words = ": ".join(part for part in (progress.title, progress.stage, progress.text) if part)
        self._drawn.update(self._rows[progress.level], completed=progress.done, total=progress.total, description=words)

    def _end(self, level: int) -> None:
        for row in [r for r in self._rows if r >= level]:
            self._drawn.remove_task(self._rows.pop(row))
        if level == 0:
            if self._drawn is not None:
                self._drawn.stop()
                self._drawn = None
            self._began = time.monotonic()


def _rich_bars() -> Any:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Task as Row
    from rich.text import Text

    class Words(ProgressColumn):
        """Titles as they are.

        The name of a model may hold brackets.
        """

        def render(self, task: Row) -> Text:
            return Text.from_markup(escape(task.description))

    columns = Words(), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeElapsedColumn(), TimeRemainingColumn()
    return Progress(*columns, console=Console(stderr=not _in_notebook()), transient=True)


def _in_notebook() -> bool:
    """Return whether a Jupyter kernel runs this process."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    kernel = sys.modules.get("ipykernel.zmqshell")
    return kernel is not None and isinstance(shell, kernel.ZMQInteractiveShell)


_elsewhere: ContextVar[Callable[[], Monitor]] = ContextVar("elsewhere", default=Silent)
"""Monitor where there is neither a terminal nor a notebook."""


@contextmanager
def lines_in_logs() -> Iterator[None]:
    """Print lines, inside the block, where `default_monitor` would be silent: for commands."""
    token = _elsewhere.set(Lines)
    try:
        yield
    finally:
        _elsewhere.reset(token)


def default_monitor() -> Monitor:
    """Return the default monitor.

    It is a bar on a terminal or in a notebook, silent elsewhere, in commands lines.
    """
    seen = sys.stderr is not None and sys.stderr.isatty()
    here = threading.current_thread() is threading.main_thread()
    return Bar() if here and (seen or _in_notebook()) else _elsewhere.get()()


class Interrupted(KeyboardInterrupt):
    """A monitor was cancelled.

    Like Ctrl-C it passes every `except Exception`.
    """


class Task:
    """Work under way, made by `watch`.

    It is itself a monitor, for the verbs that the work calls.
    """

    def __init__(self, monitor: Monitor, progress: Progress, partial: bool = True):
        self._monitor, self._progress = monitor, progress
        self.takes_partial = partial and (not isinstance(monitor, Task) or monitor.takes_partial)
        """Whether a verb inside that is stopped may return what it has."""
        self.interrupted = False
        """True when the work was stopped before its end."""
        self.partial: Any = None
        """What the last checkpoint left to be returned if the work is stopped."""
        self.stages: tuple[str, ...] = ()
        """Names of the stages under way, outermost first."""

    @property
    def status(self) -> Status:
        return Status.INTERRUPTED if self.interrupted else Status.CONVERGED

    @property
    def cancelled(self) -> bool:
        return self.interrupted or self._monitor.cancelled

    def show(self, progress: Progress) -> None:
        self._monitor.show(replace(progress, level=progress.level + 1))

    def check(self) -> None:
        """End the work here when it was cancelled."""
        if self.cancelled:
            raise Interrupted

    def advance(self, steps: float = 1.0, text: str = "") -> None:
        """Add steps that are done.

        Ends the work when it was cancelled.
        """
        self.reach(self._progress.done + steps, text)

    def reach(self, done: float, text: str = "", total: float | None = None) -> None:
        """Set the steps that are done in all.

        total: of the steps, when that has become known.
        """
        now = self._progress
        # `replace` would take three times as long, at every point of a branch.
        now = Progress(
            now.title, done, total or now.total, text or now.text, now.level, now.ended,
            now.stage, now.estimates, now.cost,
        )  # fmt: skip
        self._progress = now
        self._monitor.show(now)
        self.check()

    def note(self, stage: str, estimates: Mapping[str, float] | None, cost: float | None) -> None:
        """Keep the state of a fit for later reports.

        Its stage inside the stages under way, estimates and cost.
        """
        name = ", ".join((*self.stages, stage) if stage else self.stages)
        now = self._progress
        if name != now.stage:
            # What the estimates were at the end of a stage is still true; what the cost was is not.
            now = replace(now, stage=name, cost=None)
        self._progress = replace(now, estimates=estimates or now.estimates, cost=cost if cost is not None else now.cost)

    def end(self) -> None:
        self._monitor.show(replace(self._progress, ended=True))


_under_way: ContextVar[Task | None] = ContextVar("_under_way", default=None)
"""The task of the innermost block of `watch` in this thread."""


def under_way() -> Task | None:
    """Return the task of the innermost running verb.

    The verb runs in this thread.
    """
    return _under_way.get()


def checkpoint(
    partial: Any = None, text: str = "", steps: float = 0.0, stage: str = "", cost: float | None = None
) -> None:
    """Report an iteration, where the verb may be stopped.

    Nothing happens outside of a verb.

    partial: the result if the verb is stopped from here on; estimates by name are shown as well. steps: how many more
    of the total are done. stage, cost: see `Progress`.
    """
    task = _under_way.get()
    if task is None:
        return
    if partial is not None:
        task.partial = partial
        task.note(stage, partial if isinstance(partial, Mapping) else None, cost)
    task.advance(steps, text)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Name a part of the verb under way.

    It has separate costs, such as the search for starting values.
    """
    task = _under_way.get()
    if task is None:
        yield
        return
    outer = task.stages
    task.stages = (*outer, name)
    task.note("", None, None)
    task.advance(0.0)
    try:
        yield
    finally:
        task.stages = outer


@contextmanager
def watch(monitor: Monitor | None, title: str, total: float | None = None, partial: bool = True) -> Iterator[Task]:
    """Watch a block of long work.

    Ctrl-C or a cancelled monitor ends it early; `task.interrupted` states so afterwards.

    monitor: None for that of the verb that called, so that stopping the inner work stops the outer too, or else for
    the default (a bar on a terminal or notebook, silence elsewhere). partial: False where results of verbs inside that
    were stopped have no use: the stop then passes through their blocks and ends this one.
    """
    chosen = monitor if monitor is not None else _under_way.get() or default_monitor()
    if not isinstance(chosen, Monitor):
        raise DataError(
            f"monitor = {monitor!r}: pass an object with show(progress) and cancelled, such as kz.Bar() or kz.Silent()."
        )
    task = Task(chosen, Progress(title, 0.0, total), partial)
    chosen.show(task._progress)
    token = _under_way.set(task)
    try:
        yield task
    except KeyboardInterrupt:
        task.interrupted = True
    finally:
        _under_way.reset(token)
        task.end()
    if task.interrupted and isinstance(chosen, Task):
        chosen.interrupted = True
        if not chosen.takes_partial:
            raise Interrupted
