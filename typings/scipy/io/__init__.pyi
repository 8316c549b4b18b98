"""Types of the file readers of SciPy that Kapitza calls; SciPy ships none."""

from collections.abc import Mapping
from os import PathLike
from types import TracebackType
from typing import Any

from numpy.typing import NDArray
from scipy.io import matlab as matlab
from scipy.io import wavfile as wavfile

_Path = str | PathLike[str]

class netcdf_variable:
    @property
    def data(self) -> NDArray[Any]: ...
    @data.setter
    def data(self, value: NDArray[Any] | None) -> None: ...
    units: Any

class netcdf_file:
    variables: Mapping[str, netcdf_variable]
    def __init__(self, filename: _Path, mode: str = ..., mmap: bool | None = ...) -> None: ...
    def __enter__(self) -> netcdf_file: ...
    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None: ...

def whosmat(file_name: _Path) -> list[tuple[str, tuple[int, ...], str]]: ...
def loadmat(file_name: _Path) -> dict[str, object]: ...
def savemat(file_name: _Path, mdict: Mapping[str, NDArray[Any] | str], *, long_field_names: bool = ...) -> None: ...
