from collections.abc import Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import IO

from pyarrow import Table

class ColumnSchema:
    name: str
    path: str
    physical_type: str
    length: int | None
    max_repetition_level: int

class ParquetSchema:
    def column(self, place: int) -> ColumnSchema: ...
    def __len__(self) -> int: ...

class ColumnChunkMetaData:
    physical_type: str
    data_page_offset: int
    has_dictionary_page: bool
    dictionary_page_offset: int | None
    total_compressed_size: int

class RowGroupMetaData:
    num_rows: int
    def column(self, place: int) -> ColumnChunkMetaData: ...

class FileMetaData:
    num_columns: int
    num_rows: int
    num_row_groups: int
    schema: ParquetSchema
    metadata: Mapping[bytes, bytes] | None
    def row_group(self, place: int) -> RowGroupMetaData: ...

class ParquetFile:
    def __init__(
        self, source: IO[bytes], metadata: FileMetaData | None = ..., read_dictionary: list[str] | None = ...
    ) -> None: ...
    def read(self, columns: Sequence[str] | None = ...) -> Table: ...
    def read_row_group(self, i: int, columns: Sequence[str] | None = ...) -> Table: ...
    def __enter__(self) -> ParquetFile: ...
    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None: ...

def read_metadata(where: IO[bytes] | str | PathLike[str]) -> FileMetaData: ...
def write_table(table: Table, where: str | PathLike[str]) -> None: ...
