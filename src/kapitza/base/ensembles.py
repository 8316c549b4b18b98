"""Many independent runs of one function.

They run on this machine or on any executor, with the same answer everywhere.

Every run draws from a separate generator, made from the seed and the number of the run: the worker, and the number of
other runs, change nothing. A run that fails is noted and the others go on; when a worker dies its runs are repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from kapitza.base import checks
from kapitza.base.argument_checks import Anything
from kapitza.base.cures import Give
from kapitza.base.files import replacing
from kapitza.base.fingerprint import fingerprint
from kapitza.base.monitor import Monitor, checkpoint, watch
from kapitza.base.unpacking import npz_arrays
from kapitza.base.workers import (
    LOOK,
    RETRIES,
    Executor,
    Notifying,
    Scattering,
    Shared,
    answer_of,
    failure_of,
    pool_of,
    require_executor,
    submitted,
)
from kapitza.errors import DataError, Status

if TYPE_CHECKING:
    import pandas as pd

MOST_PARTS = 256
"""Parts into which the runs are cut at most: each is sent, kept and repeated as a whole."""

OF_THE_MACHINE = (MemoryError, ImportError, OSError)
"""Errors that do not concern the run: they end the study instead of counting as its failure."""

Row = Mapping[str, float]
Run = Callable[[Any, Any, np.random.Generator], Row]


@dataclass(frozen=True)
class Failure:
    """A run that failed.

    It has its number and the message of the error.
    """

    run: int
    message: str


@dataclass(frozen=True)
class Ensemble:
    """What many runs gave.

    runs: (R,) numbers of those that succeeded, increasing; columns: name -> (R,) values; failures: the others that were
    tried. status: INTERRUPTED when it was stopped before all had been tried.

    Examples
    --------
    >>> import kapitza as kz
    >>> def half(item, shared, generator):
    ...     return {"half": item / 2}
    >>> found = kz.ensemble(half, [1, 2, 3])
    >>> found.table()["half"].tolist()
    [0.5, 1.0, 1.5]
    """

    runs: np.ndarray
    columns: Mapping[str, np.ndarray]
    failures: tuple[Failure, ...]
    status: Status

    def table(self) -> pd.DataFrame:
        """Return one row per run that succeeded."""
        import pandas as pd

        return pd.DataFrame(dict(self.columns), index=pd.Index(self.runs, name="run"))

    def __len__(self) -> int:
        return len(self.runs)


def ensemble(
    function: Run,
    items: Sequence[Anything],
    *,
    shared: Anything = None,
    seed: int = 0,
    workers: int | None = None,
    executor: Executor | None = None,
    keep: str | Path | None = None,
    retries: int = RETRIES,
    monitor: Monitor | None = None,
) -> Ensemble:
    """Evaluate a function for many items.

    It calls function(item, shared, generator) for each; the function returns numbers by name, the same names each time.

    Parameters
    ----------
    function : function
        One that workers can import (with processes no lambda and nothing typed at the prompt).
    items : sequence
        What tells the runs apart; one run per item.
    shared : any
        What all runs need (a model, a record). It is unpacked, and what it needs is compiled, once per worker.
    seed : int
        Run i draws from np.random.default_rng(SeedSequence(seed, spawn_key=(i,))): answers do not depend on who works.
    workers : int, optional
        Processes on this machine; one that dies is replaced and its part repeated.
    executor : Executor, optional
        Instead of workers, anything with `submit`: a pool of yours, a dask Client, mpi4py.futures.
    keep : path, optional
        A folder in which every finished part is written at once; parts that are there already are not run again.
        Parts of another study (another seed, function, item or shared value) are refused.
    retries : int
        How often worker processes may die, or a part on your executor be begun again, before the study is given up.
    monitor : Monitor, optional
        Progress and cancelling; what is finished is returned.

    Returns
    -------
    Ensemble
        Numbers by name, one per run that succeeded, and the failures: runs that raised an error.

    Raises
    ------
    DataError
        When no run succeeded, when runs return different names, or when workers die again and again.

    Examples
    --------
    >>> import kapitza as kz
    >>> def throw(item, shared, generator):
    ...     return {"eyes": float(generator.integers(1, 7))}
    >>> found = kz.ensemble(throw, range(100), seed=1)
    >>> len(found), sorted(set(found.columns["eyes"].tolist()))
    (100, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    """
    seed = checks.whole("seed", seed, least=0)
    if workers is not None and executor is not None:
        raise DataError(f"Give {Give('workers')} (processes here) or {Give('executor')} (your own), not both.")
    workers = None if workers is None else checks.whole("workers", workers, least=1)
    retries = checks.whole("retries", retries, least=0)
    items = list(items)
    study = _Study(function, shared, seed, len(items))
    kept = None if keep is None else _Kept(checks.path("keep", keep), study, items)
    size = max(1, -(-len(items) // MOST_PARTS))
    parts = [(first, items[first : first + size]) for first in range(0, len(items), size)]
    done: dict[int, _Part] = {}
    if kept is not None:
        done = {first: found for first, some in parts if (found := kept.read(first, len(some))) is not None}
    left = [(first, some) for first, some in parts if first not in done]
    with watch(monitor, "ensemble", total=len(items)) as task:
        task.advance(sum(part.tried for part in done.values()))
        for first, part in _finished(study, left, workers, executor, retries):
            done[first] = part
            if kept is not None:
                kept.write(first, part)
            failed = sum(len(p.failures) for p in done.values())
            task.advance(part.tried, f"{failed} failed" if failed else "")
    return _gathered([done[first] for first in sorted(done)], task.status)


@dataclass(frozen=True)
class _Study:
    """What all parts have in common."""

    function: Run
    shared: Any
    seed: int
    total: int


@dataclass(frozen=True)
class _Part:
    """Answers of neighbouring runs."""

    runs: np.ndarray
    columns: dict[str, np.ndarray]
    failures: tuple[Failure, ...]

    @property
    def tried(self) -> int:
        return len(self.runs) + len(self.failures)


def _work(study: _Study, first: int, items: list[Any]) -> _Part:
    """Run one part in a worker."""
    rows, runs, failures = [], [], []
    for offset, item in enumerate(items):
        run = first + offset
        generator = np.random.default_rng(np.random.SeedSequence(study.seed, spawn_key=(run,)))
        try:
            given = study.function(item, study.shared, generator)
        except OF_THE_MACHINE:
            raise
        except Exception as error:
            # A run within which the work was stopped neither succeeded nor failed.
            checkpoint()
            failures.append(Failure(run, f"{type(error).__name__}: {error}"))
            continue
        checkpoint()
        rows.append(_row(run, given))
        runs.append(run)
        if rows[-1].keys() != rows[0].keys():
            raise _other_names(run, rows[-1], runs[0], rows[0])
    columns = {name: np.array([row[name] for row in rows]) for name in (rows[0] if rows else ())}
    return _Part(np.array(runs, int), columns, tuple(failures))


def _row(run: int, given: Any) -> dict[str, float]:
    """Return the answer of a run as named numbers."""
    try:
        return {str(name): float(value) for name, value in given.items()}
    except (AttributeError, TypeError, ValueError):
        raise DataError(f"Run {run} returned {given!r:.200}: return numbers by name, {{'x': 1.5}}.") from None


def _other_names(run: int, row: Mapping[str, Any], other: int, names: Mapping[str, Any]) -> DataError:
    return DataError(f"Run {run} gave {', '.join(row)}, run {other} {', '.join(names)}: return the same names.")


def _finished(
    study: _Study, parts: list[tuple[int, list[Any]]], workers: int | None, executor: Executor | None, retries: int
) -> Iterator[tuple[int, _Part]]:
    """Yield parts as they finish, with their first run."""
    if not parts:
        return
    if workers is not None:
        with pool_of(min(workers, len(parts)), retries, _receive, (study,)) as pool:
            yield from _on(pool, _work_received, (), parts, 0)
    elif executor is not None:
        given = require_executor(executor)
        # A dask Client sends a task's result once to each worker that needs it, and makes it anew when its worker
        # dies; what is scattered is lost with its worker.
        sent = given.submit(_same, study) if isinstance(given, Scattering) else Shared(study)
        yield from _on(given, _work_shared, (sent,), parts, retries)
    else:
        for first, items in parts:
            yield first, _work(study, first, items)


_received: list[_Study] = []
"""In a worker process: the study it works on."""


def _receive(study: _Study) -> None:
    _received[:] = [study]


def _work_received(first: int, items: list[Any]) -> _Part:
    return _work(_received[0], first, items)


def _work_shared(sent: Any, first: int, items: list[Any]) -> _Part:
    return _work(sent.value if isinstance(sent, Shared) else sent, first, items)


def _same(study: _Study) -> _Study:
    return study


def _on(
    executor: Executor,
    work: Callable[..., _Part],
    shared: tuple[Any, ...],
    parts: list[tuple[int, list[Any]]],
    retries: int,
) -> Iterator[tuple[int, _Part]]:
    """Run all parts on an executor.

    They come in the order in which they end; a part that an executor lost is begun again.
    """
    ended: SimpleQueue[Any] = SimpleQueue()
    waiting: dict[Any, int] = {}
    items = dict(parts)

    def begin(first: int) -> None:
        future = submitted(executor, work, *shared, first, items[first])
        waiting[future] = first
        if isinstance(future, Notifying):
            future.add_done_callback(ended.put)
        else:
            ended.put(future)

    try:
        for first in items:
            begin(first)
        while waiting:
            future = _next(ended)
            first = waiting.pop(future)
            try:
                yield first, answer_of(future)
            except DataError:
                raise
            except OF_THE_MACHINE as problem:
                raise failure_of(problem) from problem
            except Exception as problem:
                # Not of a run, whose errors are failures: the executor lost the worker that had it.
                retries -= 1
                if retries < 0:
                    raise failure_of(problem) from problem
                begin(first)
    finally:
        for future in waiting:
            future.cancel()


def _next(ended: SimpleQueue[Any]) -> Any:
    """Return the next future that ended.

    The monitor may end the waiting.
    """
    while True:
        try:
            return ended.get(timeout=LOOK)
        except Empty:
            checkpoint()


def _gathered(parts: list[_Part], status: Status) -> Ensemble:
    filled = [part for part in parts if len(part.runs)]
    failures = tuple(f for part in parts for f in part.failures)
    if failures and not filled and status.ok:
        raise DataError(f"None of {len(failures)} runs succeeded: {failures[0].message}")
    names = list(filled[0].columns) if filled else []
    for part in filled:
        if part.columns.keys() != filled[0].columns.keys():
            raise _other_names(int(part.runs[0]), part.columns, int(filled[0].runs[0]), filled[0].columns)
    runs = np.concatenate([part.runs for part in filled]) if filled else np.array([], int)
    columns = {name: np.concatenate([part.columns[name] for part in filled]) for name in names}
    return Ensemble(runs, columns, failures, status)


class _Kept:
    """A folder of finished parts.

    Each part states to which study it belongs.
    """

    def __init__(self, folder: Path, study: _Study, items: list[Any]):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.meaning = [str(study.seed), str(study.total), fingerprint(study.function, study.shared, items)]

    def place(self, first: int) -> Path:
        return self.folder / f"part-{first:09d}.npz"

    def write(self, first: int, part: _Part) -> None:
        """Write one file per part.

        The file is complete or not there at all.
        """
        with replacing(self.place(first)) as draft, draft.open("wb") as stream:
            np.savez(
                stream,
                meaning=np.array(self.meaning),
                runs=part.runs,
                names=np.array(list(part.columns), str),
                values=np.array(list(part.columns.values())).reshape(len(part.columns), len(part.runs)),
                failed=np.array([f.run for f in part.failures], int),
                messages=np.array([f.message for f in part.failures], str),
            )

    def read(self, first: int, count: int) -> _Part | None:
        """Return a stored part.

        It holds runs first … first + count - 1; None where it is not there.
        """
        path = self.place(first)
        if not path.exists():
            return None
        try:
            content = npz_arrays(path)
            meaning = [str(word) for word in content["meaning"]]
            columns = dict(zip(content["names"].tolist(), content["values"], strict=True))
            pairs = zip(content["failed"].tolist(), content["messages"].tolist(), strict=True)
            part = _Part(content["runs"], columns, tuple(Failure(run, message) for run, message in pairs))
        except (OSError, ValueError, KeyError, DataError) as error:
            raise DataError(f"{path} cannot be read ({error}): remove it, its runs are then repeated.") from None
        if meaning != self.meaning:
            raise DataError(
                f"{path} belongs to another study ({self._difference(meaning)}): keep this one in a folder of its own."
            )
        if sorted([*part.runs.tolist(), *(f.run for f in part.failures)]) != list(range(first, first + count)):
            raise DataError(f"{path} does not hold the runs {first} to {first + count - 1}: remove it.")
        return part

    def _difference(self, meaning: list[str]) -> str:
        if meaning[:2] != self.meaning[:2]:
            return f"seed, runs = {', '.join(meaning[:2])}, here {', '.join(self.meaning[:2])}"
        return "its function, its items or what they share, such as the values of a model, are not those given here"
