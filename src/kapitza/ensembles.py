"""Many independent runs of one function: on this machine, on any executor, with the same answer everywhere.

Every run draws from a generator of its own, made from the seed and the number of the run: who does it, and with how
many others, changes nothing. A run that fails is noted and the others go on; a worker that dies costs its runs a
repetition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kapitza import gate
from kapitza.errors import DataError, KapitzaError, Status
from kapitza.executor import Executor, require_executor
from kapitza.monitor import Monitor, checkpoint, watch

MOST_PARTS = 256
"""Parts into which the runs are cut at most: each is sent, kept and repeated as a whole."""

Row = Mapping[str, float]
Run = Callable[[Any, Any, np.random.Generator], Row]


@dataclass(frozen=True)
class Failure:
    """A run that gave no answer: its number and what was said."""

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
        """One row per run that succeeded."""
        return pd.DataFrame(dict(self.columns), index=pd.Index(self.runs, name="run"))

    def __len__(self) -> int:
        return len(self.runs)


def ensemble(
    function: Run,
    items: Sequence[Any],
    *,
    shared: Any = None,
    seed: int = 0,
    workers: int | None = None,
    executor: Executor | None = None,
    keep: str | Path | None = None,
    retries: int = 2,
    monitor: Monitor | None = None,
) -> Ensemble:
    """function(item, shared, generator) for every item; it returns numbers by name, the same names each time.

    Parameters
    ----------
    function : function
        One that workers can import (with processes no lambda and nothing typed at the prompt).
    items : sequence
        What tells the runs apart; one run per item.
    shared : any
        What all runs need (a model, a record). It travels once per part, with dask once per worker.
    seed : int
        Run i draws from np.random.default_rng(SeedSequence(seed, spawn_key=(i,))): answers do not depend on who works.
    workers : int, optional
        Processes on this machine; one that dies is replaced and its part repeated.
    executor : Executor, optional
        Instead of workers, anything with `submit`: a pool of yours, a dask Client, mpi4py.futures.
    keep : path, optional
        A folder in which every finished part is written at once; parts that are there already are not run again.
    retries : int
        How often worker processes may die before the study is given up.
    monitor : Monitor, optional
        Progress and cancelling; what is finished is given back.

    Returns
    -------
    Ensemble
        Numbers by name, one per run that succeeded, and the failures.

    Examples
    --------
    >>> import kapitza as kz
    >>> def throw(item, shared, generator):
    ...     return {"eyes": float(generator.integers(1, 7))}
    >>> found = kz.ensemble(throw, range(100), seed=1)
    >>> len(found), sorted(set(found.columns["eyes"].tolist()))
    (100, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    """
    seed = gate.whole("seed", seed, least=0)
    if workers is not None and executor is not None:
        raise DataError("Give workers= (processes here) or executor= (your own), not both.")
    workers = None if workers is None else gate.whole("workers", workers, least=1)
    retries = gate.whole("retries", retries, least=0)
    folder = None if keep is None else Path(keep)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    total = len(items)
    size = max(1, -(-total // MOST_PARTS))
    parts = [(first, list(items[first : first + size])) for first in range(0, total, size)]
    done: dict[int, _Part] = {}
    if folder is not None:
        done = {first: found for first, _ in parts if (found := _read(folder, first, seed, total)) is not None}
    left = [(first, chosen) for first, chosen in parts if first not in done]
    with watch(monitor, "ensemble", total=total) as task:
        task.advance(sum(part.tried for part in done.values()))
        for first, part in _finished(function, shared, seed, left, workers, executor, retries):
            done[first] = part
            if folder is not None:
                _write(folder, first, seed, total, part)
            failed = sum(len(p.failures) for p in done.values())
            task.advance(part.tried, f"{failed} failed" if failed else "")
    return _gathered([done[first] for first in sorted(done)], task.status)


@dataclass(frozen=True)
class _Part:
    """Answers of neighbouring runs."""

    runs: np.ndarray
    columns: dict[str, np.ndarray]
    failures: tuple[Failure, ...]

    @property
    def tried(self) -> int:
        return len(self.runs) + len(self.failures)


def _work(function: Run, shared: Any, seed: int, first: int, items: list[Any]) -> _Part:
    """One part, in a worker."""
    rows, runs, failures = [], [], []
    for offset, item in enumerate(items):
        run = first + offset
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(run,)))
        try:
            row = {name: float(value) for name, value in function(item, shared, generator).items()}
            checkpoint()
            rows.append(row)
            runs.append(run)
        except (KapitzaError, ArithmeticError, np.linalg.LinAlgError) as error:
            # A run within which the work was stopped neither succeeded nor failed.
            checkpoint()
            failures.append(Failure(run, f"{type(error).__name__}: {error}"))
    names = list(rows[0]) if rows else []
    for run, row in zip(runs, rows, strict=True):
        if list(row) != names:
            raise DataError(f"Run {run} gave {', '.join(row)}, others {', '.join(names)}: return the same names.")
    columns = {name: np.array([row[name] for row in rows]) for name in names}
    return _Part(np.array(runs, int), columns, tuple(failures))


def _finished(
    function: Run,
    shared: Any,
    seed: int,
    parts: list[tuple[int, list[Any]]],
    workers: int | None,
    executor: Executor | None,
    retries: int,
) -> Iterator[tuple[int, _Part]]:
    """Parts as they are finished, with their first run."""
    if workers is None and executor is None:
        for first, items in parts:
            yield first, _work(function, shared, seed, first, items)
        return
    if workers is not None:
        yield from _on_processes(function, shared, seed, parts, workers, retries)
        return
    given = require_executor(executor)
    # A dask Client sends a task's result once to each worker that needs it, and makes it anew when its worker dies;
    # what is scattered is lost with its worker.
    once = hasattr(given, "scatter") and shared is not None
    sent = given.submit(_same, shared) if once else shared
    futures = [(first, given.submit(_work, function, sent, seed, first, items)) for first, items in parts]
    try:
        for first, future in futures:
            yield first, future.result()
    finally:
        for _, future in futures:
            future.cancel()


def _same(shared: Any) -> Any:
    return shared


def _on_processes(
    function: Run, shared: Any, seed: int, parts: list[tuple[int, list[Any]]], workers: int, retries: int
) -> Iterator[tuple[int, _Part]]:
    """Worker processes of our own; when one dies the pool is made anew and what was not finished is repeated."""
    waiting = dict(parts)
    attempts = 0
    while waiting:
        with ProcessPoolExecutor(min(workers, len(waiting)), mp_context=get_context("spawn")) as pool:
            futures: dict[Future[_Part], int] = {
                pool.submit(_work, function, shared, seed, first, items): first for first, items in waiting.items()
            }
            try:
                for future in as_completed(futures):
                    part = future.result()
                    del waiting[futures[future]]
                    yield futures[future], part
            except BrokenProcessPool:
                attempts += 1
                if attempts > retries:
                    raise DataError(
                        f"Worker processes died {attempts} times with {len(waiting)} parts left (memory, or killed). "
                        "Use fewer workers; with keep= what is finished is not repeated."
                    ) from None
            finally:
                pool.shutdown(wait=False, cancel_futures=True)


def _gathered(parts: list[_Part], status: Status) -> Ensemble:
    filled = [part for part in parts if len(part.runs)]
    names = list(filled[0].columns) if filled else []
    runs = np.concatenate([part.runs for part in filled]) if filled else np.array([], int)
    columns = {name: np.concatenate([part.columns[name] for part in filled]) for name in names}
    return Ensemble(runs, columns, tuple(f for part in parts for f in part.failures), status)


def _place(folder: Path, first: int) -> Path:
    return folder / f"part-{first:09d}.npz"


def _write(folder: Path, first: int, seed: int, total: int, part: _Part) -> None:
    """One file per part, complete or not there at all."""
    draft = _place(folder, first).with_suffix(".draft.npz")
    np.savez(
        draft,
        meaning=np.array([seed, total]),
        runs=part.runs,
        names=np.array(list(part.columns), str),
        values=np.array(list(part.columns.values())).reshape(len(part.columns), -1),
        failed=np.array([f.run for f in part.failures], int),
        messages=np.array([f.message for f in part.failures], str),
    )
    draft.replace(_place(folder, first))


def _read(folder: Path, first: int, seed: int, total: int) -> _Part | None:
    path = _place(folder, first)
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as content:
            if content["meaning"].tolist() != [seed, total]:
                raise DataError(
                    f"{path} belongs to another study (seed, runs = {content['meaning'].tolist()}, here "
                    f"{[seed, total]}): keep this one in a folder of its own."
                )
            columns = dict(zip(content["names"].tolist(), content["values"], strict=True))
            pairs = zip(content["failed"].tolist(), content["messages"].tolist(), strict=True)
            return _Part(content["runs"], columns, tuple(Failure(run, message) for run, message in pairs))
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path} cannot be read ({error}): remove it, its runs are then repeated.") from None
