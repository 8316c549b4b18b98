"""The accelerator: kernels compiled and launched.

NVIDIA's Python layer (extra `[cuda]`) does both.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kapitza.base.cures import Give
from kapitza.errors import KapitzaError

THREADS = 64
"""Threads of a block; 32 to 128 make no difference."""

WORK_AT_ONCE = 200_000_000
"""Trajectories times stretches of one launch: a display driver ends kernels that take seconds."""

BYTES_AT_ONCE = 1 << 32
"""Results of one launch."""


class DeviceError(KapitzaError, RuntimeError):
    """The accelerator is not there, or failed."""


@dataclass(frozen=True)
class Work:
    """Arguments of a kernel.

    Arrays by trajectory have that axis last, (..., count).

    starts: (N, count). shared: (P,) parameters; own: (k, count) those that differ. begins, lengths, wholes, rests: (1,)
    or (count,) first time, length of a stretch, number of whole stretches and length of a last one. setup, nets:
    inputs of the job. out, turns: shapes of the results without the last axis.
    """

    starts: NDArray[np.float64]
    shared: NDArray[np.float64]
    own: NDArray[np.float64]
    begins: NDArray[np.float64]
    lengths: NDArray[np.float64]
    wholes: NDArray[np.int32]
    rests: NDArray[np.float64]
    tolerance: float
    max_steps: int
    setup: NDArray[np.int32]
    nets: NDArray[np.float64]
    out: tuple[int, ...]
    turns: tuple[int, ...] = (1,)

    @property
    def count(self) -> int:
        return self.starts.shape[-1]

    @property
    def each(self) -> int:
        """Whether every trajectory has its own times."""
        return int(max(a.size for a in (self.begins, self.lengths, self.wholes, self.rests)) > 1)

    def arrays(self) -> list[NDArray[np.generic]]:
        """Return the inputs in the order of the kernel.

        They are laid out as the kernel reads them.
        """
        times = (self.begins, self.lengths, self.wholes, self.rests)
        if self.each:
            times = tuple(np.broadcast_to(a, (self.count,)) for a in times)
        return [np.ascontiguousarray(a) for a in (self.starts, self.shared, self.own, *times, self.setup, self.nets)]

    def part(self, rows: slice) -> Work:
        chosen = {name: getattr(self, name)[..., rows] for name in ("starts", "own")}
        times = ("begins", "lengths", "wholes", "rests")
        chosen |= {name: a[rows] if (a := getattr(self, name)).size > 1 else a for name in times}
        return replace(self, **chosen)


@dataclass(frozen=True)
class Found:
    """Results of a kernel.

    out: (..., count), marks: (3, count) with status, label and steps, turns: (..., count).
    """

    out: NDArray[np.float64]
    marks: NDArray[np.int32]
    turns: NDArray[np.int32]

    @classmethod
    def room(cls, work: Work) -> Found:
        """Allocate the results of a work."""
        marks, turns = (np.empty((*shape, work.count), np.int32) for shape in ((3,), work.turns))
        return cls(np.empty((*work.out, work.count)), marks, turns)

    def part(self, rows: slice) -> Found:
        """Return views of the results of some trajectories."""
        return Found(self.out[..., rows], self.marks[..., rows], self.turns[..., rows])


class Backend(Protocol):
    """Whatever runs kernels."""

    name: str

    def prepare(self, source: str) -> None:
        """Compile a kernel that will be needed."""
        ...

    def follow(self, source: str, work: Work, found: Found) -> None:
        """Launch a kernel and fill in its results."""
        ...


def rows_per_launch(stretches: int, out: tuple[int, ...]) -> int:
    """Return how many trajectories one launch follows.

    out: shape of their results.
    """
    return max(1, min(WORK_AT_ONCE // (stretches + 1), BYTES_AT_ONCE // (8 * math.prod(out))))


def in_parts(backend: Backend, source: str, work: Work) -> Found:
    """Do the whole work in launches of bounded length."""
    rows = rows_per_launch(int(work.wholes.max(initial=1)), work.out)
    found = Found.room(work)
    for first in range(0, work.count, rows):
        chosen = slice(first, min(first + rows, work.count))
        backend.follow(source, work if rows >= work.count else work.part(chosen), found.part(chosen))
    return found


_opening = threading.Lock()


def cuda() -> Backend:
    """Return the first card of this process, opened once."""
    with _opening:
        return _first_card()


@cache
def _first_card() -> Backend:
    return Card()


class Card:
    """One NVIDIA card through cuda-core; compiled kernels are kept."""

    def __init__(self) -> None:
        try:
            driver, core = import_module("cuda.bindings.driver"), import_module("cuda.core")
        except ImportError as problem:
            raise DeviceError(
                f'{Give(device="cuda")} needs packages of NVIDIA ({problem}): pip install "kapitza[cuda]", or '
                "leave it out."
            ) from problem
        try:
            self._device = core.Device(0)
            self._device.set_current()
            self._stream = self._device.create_stream()
        except Exception as problem:  # the driver's own kinds of errors
            raise DeviceError(
                f"{Give(device='cuda')}: no card of NVIDIA can be used here ({problem}). Leave {Give('device')} out."
            ) from problem
        self.name = str(self._device.name)
        self._driver, self._core = driver, core
        self._kernels: dict[str, Any] = {}
        self._lock = threading.Lock()

    def kernel(self, source: str) -> Any:
        """Return the compiled kernel of a text."""
        if source not in self._kernels:
            arch = "sm_" + "".join(str(n) for n in self._device.compute_capability)
            options = self._core.ProgramOptions(std="c++17", arch=arch)
            try:
                made = self._core.Program(source, code_type="c++", options=options).compile("cubin")
            except Exception as problem:  # NVRTC has its own exceptions
                raise DeviceError(f"The kernel could not be compiled for {self.name}: {problem}") from problem
            self._kernels[source] = made.get_kernel("kz_follow")
        return self._kernels[source]

    def prepare(self, source: str) -> None:
        with self._lock:
            self._device.set_current()
            self.kernel(source)

    def follow(self, source: str, work: Work, found: Found) -> None:
        with self._lock:
            self._device.set_current()
            self._follow(self.kernel(source), work, found)

    def _follow(self, kernel: Any, work: Work, found: Found) -> None:
        count, arrays = work.count, (found.out, found.marks, found.turns)
        buffers = [self._up(a) for a in work.arrays()] + [self._zeros(a.nbytes) for a in arrays]
        starts, shared, own, begins, lengths, wholes, rests, setup, nets, *results = (int(b.handle) for b in buffers)
        self._core.launch(
            self._stream, self._core.LaunchConfig(grid=-(-count // THREADS), block=THREADS), kernel,
            np.int64(count), starts, shared, own, begins, lengths, wholes, rests, np.float64(work.tolerance),
            np.int32(work.max_steps), np.int32(work.each), setup, nets, *results,
        )  # fmt: skip
        self._stream.sync()
        for array, buffer in zip(arrays, buffers[-3:], strict=True):
            self._down(array, int(buffer.handle))
        for buffer in buffers:
            buffer.close(self._stream)

    def _down(self, array: NDArray[np.generic], place: int) -> None:
        """Copy results into an array, row by row.

        The last axis may be part of a longer one; rows avoid a second copy.
        """
        size = array.shape[-1] * array.itemsize
        for k, index in enumerate(np.ndindex(array.shape[:-1])):
            self._check(self._driver.cuMemcpyDtoH(array[index].ctypes.data, place + k * size, size))

    def _zeros(self, size: int) -> Any:
        buffer = self._device.allocate(max(size, 8), stream=self._stream)
        # The allocation is ordered in the stream, the call below is not.
        self._stream.sync()
        self._check(self._driver.cuMemsetD8(int(buffer.handle), 0, max(size, 8)))
        return buffer

    def _up(self, array: NDArray[np.generic]) -> Any:
        buffer = self._device.allocate(max(array.nbytes, 8), stream=self._stream)
        # The allocation is ordered in the stream, the copy is not.
        self._stream.sync()
        if array.nbytes:
            self._check(self._driver.cuMemcpyHtoD(int(buffer.handle), array.ctypes.data, array.nbytes))
        return buffer

    def _check(self, answer: Any) -> None:
        if answer[0] != self._driver.CUresult.CUDA_SUCCESS:
            raise DeviceError(f"{self.name} failed: {answer[0].name}.")
