"""Repeated work on any executor.

An executor has the interface of concurrent.futures. The answers do not depend on it.

The work is cut into the same parts for any executor, and the results are returned in the order of the parts: one
worker, many, or none give the same numbers.
"""

from __future__ import annotations

import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from multiprocessing import get_context
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable
from weakref import WeakSet

from kapitza.base.cures import Give
from kapitza.base.monitor import checkpoint
from kapitza.errors import DataError, KapitzaError, shown

T = TypeVar("T")

MOST_UNPACKED = 4
"""Shared values that a worker process holds at a time; the one used longest ago goes first."""

RETRIES = 2
"""How often worker processes of ours may die before the work is given up."""


LOOK = 0.5
"""Seconds between looks at the monitor while an executor is awaited: one that never answers can be stopped."""


@runtime_checkable
class Executor(Protocol):
    """The interface of an executor.

    concurrent.futures pools, a dask Client, mpi4py.futures and others have it.

    Processes must be able to import kapitza and the module that defines the model's functions.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Start fn(*args) and return a future.

        It has `result()` and `cancel()`.
        """
        ...


def in_order(
    executor: Executor | None, function: Callable[..., Any], parts: Sequence[tuple[Any, ...]]
) -> Iterator[Any]:
    """Return function(*part) for every part, in order.

    On the executor all of them run at once.

    While workers are busy this process does parts that have not begun; while processes are still starting, which takes
    a second or more, also those that already wait for them: the first to finish counts. Parts that have not begun are
    cancelled when the caller stops (an error, Ctrl-C, a break).
    """
    if executor is None:
        for part in parts:
            yield function(*part)
        return
    futures = [submitted(require_executor(executor), function, *part) for part in parts]
    own: dict[int, Any] = {}
    following = 0
    starting = isinstance(executor, (ProcessPoolExecutor, Processes)) and executor not in _at_work
    try:
        for number, future in enumerate(futures):
            # Futures of other libraries may be cancelled while they run: their executors do all the parts.
            while isinstance(future, Future) and number not in own and not future.done():
                if starting and any(one.done() and not one.cancelled() for one in futures):
                    starting = False
                    _at_work.add(executor)
                if following < len(futures):
                    if futures[following].cancel():
                        own[following] = function(*parts[following])
                    following += 1
                elif starting:
                    own[number] = function(*parts[number])
                else:
                    break
            yield own.pop(number) if number in own else _certain(future)
    finally:
        for future in futures:
            future.cancel()


_at_work: WeakSet[Any] = WeakSet()
"""Pools whose processes have started: something came from them."""


class Shared(Generic[T]):
    """An object that all parts of some work need.

    It is packed once, and unpacked once in every process that works on a part.

    A worker that has unpacked it goes on with the same object, including compiled code.
    """

    def __init__(self, value: T):
        self.value = value
        self._packed: tuple[bytes, bytes] | None = None

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[bytes, bytes]]:
        if self._packed is None:
            packed = pickle.dumps(self.value)
            self._packed = sha256(packed).digest(), packed
        return _unpacked, self._packed


_values: OrderedDict[bytes, Shared[Any]] = OrderedDict()
_unpacking = threading.Lock()


def _unpacked(key: bytes, packed: bytes) -> Shared[Any]:
    with _unpacking:
        if key not in _values:
            # Bytes that the process which gives the work has just made, on the pipe that brings the work itself.
            _values[key] = Shared(pickle.loads(packed))  # noqa: S301
        _values.move_to_end(key)
        while len(_values) > MOST_UNPACKED:
            _values.popitem(last=False)
        return _values[key]


def require_executor(executor: Any) -> Executor:
    """Return the executor, or refuse it.

    The error says what an executor is.
    """
    if not isinstance(executor, Executor):
        raise DataError(
            f"executor = {executor!r}: pass an object with submit(function, *arguments), such as "
            "concurrent.futures.ProcessPoolExecutor(2), or None to work in this process."
        )
    return executor


@dataclass(frozen=True)
class _Answered:
    """The answer of work.

    An executor that returns anything else is detected.
    """

    value: Any


@dataclass(frozen=True)
class _Answering:
    """A function whose answer carries that mark."""

    function: Callable[..., Any]

    def __call__(self, *arguments: Any) -> _Answered:
        return _Answered(self.function(*arguments))


@runtime_checkable
class FutureLike(Protocol):
    """What an executor must return for a task."""

    def result(self) -> Any: ...

    def cancel(self) -> Any: ...


@runtime_checkable
class Notifying(Protocol):
    """A future that reports when it has ended."""

    def add_done_callback(self, fn: Callable[[Any], object]) -> Any: ...


@runtime_checkable
class Scattering(Protocol):
    """An executor that distributes data to its workers.

    A dask Client is one.
    """

    def scatter(self, data: Any) -> Any: ...


def submitted(executor: Executor, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the future of the work.

    The error says what is wrong with the executor.
    """
    try:
        future = executor.submit(_Answering(function), *arguments)
    except KapitzaError:
        raise
    except (AttributeError, TypeError, pickle.PicklingError) as problem:
        raise DataError(
            f"The work cannot be sent to workers ({problem}): the function must stand in a module that they can "
            "import, and what it needs must be data."
        ) from None
    except Exception as problem:  # an executor of the caller's may raise anything
        raise failure_of(problem) from problem
    if not isinstance(future, FutureLike):
        raise DataError(
            f"submit of the executor returned {shown(future)}; it must return a future with result() and cancel()."
        )
    return future


def failure_of(problem: Exception) -> DataError:
    """Return the error of a failed executor.

    It raised something else than the work does.
    """
    return DataError(
        f"The executor failed ({type(problem).__name__}: {shown(str(problem))}): make a new one, or pass "
        f"{Give(executor=None)} to work in this process."
    )


def _certain(future: Any) -> Any:
    """Return the result of a future.

    An exception of the executor is reported as its failure.
    """
    try:
        return answer_of(future)
    except (KapitzaError, MemoryError):
        raise
    except Exception as problem:
        raise failure_of(problem) from problem


def _awaited(future: Any) -> Any:
    """Return the result of a future.

    The monitor of the work may end the waiting.
    """
    while isinstance(future, Future):
        try:
            return future.result(timeout=LOOK)
        except TimeoutError:
            if future.done():
                break
            checkpoint()
    return future.result()


def answer_of(future: Any) -> Any:
    """Return the result of a submitted future.

    Where workers of an executor died, the error names them and what can be done.
    """
    try:
        found = _awaited(future)
    except BrokenExecutor as problem:
        raise DataError(
            f"Workers of the executor died: {problem} Memory, or killed? Make a new executor; {Give('processes')} or "
            f"{Give('workers')}, where a verb has them, replace dead workers by themselves."
        ) from None
    except SystemExit as problem:
        # Raised here it would end this process in place of the worker.
        raise DataError(
            f"Work of the executor ended by SystemExit({problem.code!r}): the function must return, not exit."
        ) from None
    if isinstance(found, _Answered):
        return found.value
    raise DataError(
        f"A future of the executor gave {shown(found)}, which is not what its function returned: result() must "
        f"return that, or pass {Give(executor=None)} to work in this process."
    )


class _Answer(Future[Any]):
    """The future of work that may be begun again.

    It can be cancelled as long as no worker has it.
    """

    inner: Future[Any] | None = None

    def cancel(self) -> bool:
        return self.inner is not None and self.inner.cancel() and super().cancel()


class Processes:
    """Worker processes of this machine.

    When one dies all are started again, and unfinished work begins again.

    initializer(*initargs) runs once in every process before its first work.
    """

    def __init__(
        self,
        count: int,
        retries: int = RETRIES,
        initializer: Callable[..., None] | None = None,
        initargs: tuple[Any, ...] = (),
    ):
        self._settings = (count, get_context("spawn"), initializer, initargs)
        self._retries, self._deaths = retries, 0
        self._renewing = threading.Lock()
        # Forked copies of a process that runs threads may deadlock: fresh ones are spawned.
        self._pool = ProcessPoolExecutor(*self._settings)

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Future[Any]:
        """Start fn(*args) in one of the processes."""
        answer = _Answer()
        self._begin(answer, fn, args)
        return answer

    def _begin(self, answer: _Answer, fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
        pool = self._pool
        try:
            answer.inner = pool.submit(fn, *args)
        except BrokenProcessPool:
            self._again(answer, fn, args, pool)
            return
        answer.inner.add_done_callback(lambda inner: self._settle(answer, inner, fn, args, pool))

    def _settle(self, answer: _Answer, inner: Future[Any], fn: Any, args: tuple[Any, ...], pool: Any) -> None:
        if inner.cancelled():
            return
        problem = inner.exception()
        if problem is None:
            answer.set_result(inner.result())
        elif isinstance(problem, BrokenProcessPool):
            self._again(answer, fn, args, pool)
        else:
            answer.set_exception(problem)

    def _again(self, answer: _Answer, fn: Callable[..., Any], args: tuple[Any, ...], broken: Any) -> None:
        with self._renewing:
            if self._pool is broken:
                self._deaths += 1
                if self._deaths <= self._retries:
                    self._pool = ProcessPoolExecutor(*self._settings)
        if self._pool is not broken:
            self._begin(answer, fn, args)
            return
        answer.set_exception(
            DataError(
                f"Worker processes died {self._deaths} times: memory, or killed? Use fewer. (A script that starts "
                'workers needs its calls under `if __name__ == "__main__":`.)'
            )
        )

    def shutdown(self) -> None:
        """End the processes; what has not begun is cancelled."""
        self._pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def pool_of(
    processes: int,
    retries: int = RETRIES,
    initializer: Callable[..., None] | None = None,
    initargs: tuple[Any, ...] = (),
) -> Iterator[Executor]:
    """Provide fresh worker processes for one call.

    See `Processes`.
    """
    pool = Processes(processes, retries, initializer, initargs)
    try:
        yield pool
    finally:
        pool.shutdown()
