"""Types of the part of pyarrow that Kapitza calls; pyarrow ships none."""

from collections.abc import Iterator, Mapping
from typing import Any

from numpy.typing import NDArray
from pyarrow import types as types

class DataType:
    value_type: DataType

class Field:
    name: str
    metadata: Mapping[bytes, bytes] | None

class Schema:
    metadata: Mapping[bytes, bytes] | None
    def __iter__(self) -> Iterator[Field]: ...

class Array:
    def __len__(self) -> int: ...
    def to_pylist(self) -> list[Any]: ...
    def to_numpy(self, zero_copy_only: bool = ...) -> NDArray[Any]: ...
    def fill_null(self, value: object) -> Array: ...

class DictionaryArray(Array):
    dictionary: Array
    indices: Array

class ChunkedArray:
    type: DataType
    chunks: list[DictionaryArray]
    def cast(self, kind: DataType) -> ChunkedArray: ...
    def to_numpy(self) -> NDArray[Any]: ...

class Table:
    schema: Schema
    column_names: list[str]
    columns: list[ChunkedArray]
    num_rows: int
    def column(self, place: int | str) -> ChunkedArray: ...
    def replace_schema_metadata(self, metadata: Mapping[str, str]) -> Table: ...

def table(columns: Mapping[str, NDArray[Any]]) -> Table: ...
def float64() -> DataType: ...
