"""Repeated work on any executor with the interface of concurrent.futures, with answers that do not depend on it.

The work is cut into the same parts whoever does them, and the results come back in the order of the parts: one worker,
many, or none give the same numbers.
"""

from __future__ import annotations

import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from multiprocessing import get_context
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from kapitza.errors import DataError

T = TypeVar("T")

MOST_UNPACKED = 4
"""Shared values that a worker process holds at a time; the one used longest ago goes first."""


@runtime_checkable
class Executor(Protocol):
    """What is asked of an executor: concurrent.futures pools, a dask Client, mpi4py.futures and others have it.

    Processes must be able to import kapitza and the module that defines the model's functions.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Start fn(*args) and return a future with `result()` and `cancel()`."""
        ...


def in_order(
    executor: Executor | None, function: Callable[..., Any], parts: Sequence[tuple[Any, ...]]
) -> Iterator[Any]:
    """function(*part) for every part, in order; on the executor all of them run at once.

    While workers are busy, or still starting, this process does parts that have not begun. What has not begun is
    cancelled when the caller stops asking (an error, Ctrl-C, a break).
    """
    if executor is None:
        for part in parts:
            yield function(*part)
        return
    futures = [require_executor(executor).submit(function, *part) for part in parts]
    own: dict[int, Any] = {}
    following = 0
    try:
        for number, future in enumerate(futures):
            # Futures of other libraries may be cancelled while they run: their executors do all the parts.
            while isinstance(future, Future) and number not in own and following < len(futures) and not future.done():
                if futures[following].cancel():
                    own[following] = function(*parts[following])
                following += 1
            yield own.pop(number) if number in own else future.result()
    finally:
        for future in futures:
            future.cancel()


class Shared(Generic[T]):
    """What all parts of some work need: packed once, and unpacked once in every process that works on a part.

    A worker that has seen it goes on with the same object, compiled code and all.
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
    """The executor, or an error that says what one is."""
    if not isinstance(executor, Executor):
        raise DataError(
            f"executor = {executor!r}: pass an object with submit(function, *arguments), such as "
            "concurrent.futures.ProcessPoolExecutor(2), or None to work in this process."
        )
    return executor


@contextmanager
def pool_of(processes: int) -> Iterator[Executor]:
    """Fresh worker processes for one call; forked copies of a process that runs threads may deadlock."""
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield pool
