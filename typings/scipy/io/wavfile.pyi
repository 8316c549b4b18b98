from os import PathLike
from typing import Any

from numpy.typing import NDArray

class WavFileWarning(UserWarning): ...

def read(filename: str | PathLike[str]) -> tuple[int, NDArray[Any]]: ...
