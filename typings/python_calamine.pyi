"""Types of the part of python-calamine that Kapitza calls; its own leave the kind of a path open."""

from types import TracebackType

_Cell = object

class CalamineSheet:
    def to_python(self, skip_empty_area: bool = ..., nrows: int | None = ...) -> list[list[_Cell]]: ...

class CalamineWorkbook:
    sheet_names: list[str]
    @classmethod
    def from_path(cls, path: str) -> CalamineWorkbook: ...
    def get_sheet_by_name(self, name: str) -> CalamineSheet: ...
    def __enter__(self) -> CalamineWorkbook: ...
    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None: ...
