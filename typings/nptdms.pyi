"""Types of the part of npTDMS that Kapitza calls; npTDMS ships none."""

from collections.abc import Mapping
from types import TracebackType
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

class TdmsChannel:
    name: str
    dtype: np.dtype[Any] | None
    properties: Mapping[str, object]
    def __len__(self) -> int: ...
    def __getitem__(self, key: slice) -> NDArray[Any]: ...

class TdmsGroup:
    name: str
    def channels(self) -> list[TdmsChannel]: ...

class TdmsFile:
    @staticmethod
    def open(file: IO[bytes]) -> TdmsFile: ...
    def groups(self) -> list[TdmsGroup]: ...
    def __enter__(self) -> TdmsFile: ...
    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None: ...
