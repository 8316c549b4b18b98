"""Reader of Excel workbooks by python-calamine.

The formats are .xlsx and .xlsm. Their size is checked first.

A sheet is laid out as a text file is: title lines, names, units, numbers. It is read by the reader of text.
"""

from __future__ import annotations

import datetime
import re
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from kapitza.base.unpacking import Unpacking
from kapitza.data.formats.groups import Group
from kapitza.data.formats.text import read_text
from kapitza.errors import DataError

CELL = re.compile(rb'<c\b[^>]*?\br="([A-Z]{1,3})(\d{1,7})"')
SHEET = re.compile(r"xl/worksheets/[^/]+\.xml")
BLOCK = 1 << 20
TAIL = 200
"""Bytes of a block that are looked at again with the next one: longer than the mark of a cell."""

PER_CELL = 32
"""Bytes that calamine takes for each cell of the rectangle that a sheet spans."""


def read_workbook(path: Path) -> list[Group]:
    """Return one group per sheet with a table."""
    from python_calamine import CalamineWorkbook

    check_size(path)
    with CalamineWorkbook.from_path(str(path)) as book:
        sheets = [(name, book.get_sheet_by_name(name).to_python(skip_empty_area=True)) for name in book.sheet_names]
    tables = [(name, rows) for name, rows in sheets if sum(map(_has_number, rows)) > 1]
    return [_group(name, rows, path) for name, rows in tables]


def check_size(path: Path) -> None:
    """Refuse a workbook that would fill the memory.

    One cell in the last corner of a sheet makes the library reserve the whole rectangle, and end the process.
    """
    unpacking = Unpacking(path)
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        unpacking.add(sum(member.file_size for member in members), pieces=len(members))
        for member in members:
            if SHEET.fullmatch(member.filename):
                with archive.open(member) as stream:
                    unpacking.add(PER_CELL * _spanned(stream))


def _spanned(stream: IO[bytes]) -> int:
    """Return the number of cells that a sheet spans.

    The rectangle is from A1 to the last row and column that are used.
    """
    rows = columns = 0
    rest = b""
    while block := stream.read(BLOCK):
        text = rest + block
        for letters, digits in set(CELL.findall(text)):
            rows, columns = max(rows, int(digits)), max(columns, _column(letters))
        rest = text[-TAIL:]
    return rows * columns


def _column(letters: bytes) -> int:
    """Return the number of a column, A = 1."""
    number = 0
    for letter in letters:
        number = 26 * number + letter - 64
    return number


def _has_number(row: Sequence[object]) -> bool:
    return any(isinstance(cell, float | int) and not isinstance(cell, bool) for cell in row)


def _group(name: str, rows: list[list[object]], path: Path) -> Group:
    used = [k for k in range(max(map(len, rows))) if any(k < len(row) and row[k] != "" for row in rows)]
    with tempfile.TemporaryDirectory() as folder:
        # Under the name of the workbook, so that messages name it; their line numbers are rows of the sheet.
        draft = Path(folder) / path.name
        lines = ("\t".join(_text(row[k] if k < len(row) else "") for k in used) for row in rows)
        draft.write_text("\n".join(lines) + "\n", encoding="utf-8")
        try:
            columns = read_text(draft, separator="\t")
        except DataError as problem:
            raise DataError(f'Sheet "{name}" of {problem}') from problem
    found = Group(name)
    for label, values in zip(columns.names, columns.values, strict=True):
        found.add(label, values, str(columns.facts.get(label, {}).get("unit", "")))
    return found


def _text(cell: object) -> str:
    """Return a cell as text.

    Numbers are in full, dates in ISO 8601.
    """
    if isinstance(cell, bool):
        return str(int(cell))
    if isinstance(cell, float | int):
        return repr(cell)
    if isinstance(cell, datetime.timedelta):
        return repr(cell.total_seconds())
    if isinstance(cell, datetime.date | datetime.time):
        return cell.isoformat()
    return " ".join(str(cell).split()).replace('"', "")
