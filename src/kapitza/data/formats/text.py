"""Columns from text: csv, tsv, and whatever loggers write.

The layout (comment lines, header, units, separator, decimal comma) is read off the first lines; the numbers are then
parsed by the C engine of pandas.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kapitza.base.csv_tables import original
from kapitza.base.cures import Give
from kapitza.base.units import AMBIGUOUS, is_unit
from kapitza.base.unpacking import Unpacking
from kapitza.data.columns import (
    CLOCK,
    DATE,
    METADATA,
    OTHER_TIME_NAMES,
    TIME_NAMES,
    Columns,
    Facts,
    Metadata,
    listed,
    parse_metadata,
)
from kapitza.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

COMMENTS = ("%", "#", "//", ";")
MARK = f"{METADATA}:"
SEPARATORS = (",", ";", "\t")
LOCAL_DATE = re.compile(r'"?\d{1,4}[./-]\d{1,2}[./-]\d{1,4}"?(?=[\s,;]|$)')
"""A date as people write it, 01.02.2024: which number is the month is not known."""

SPACES = r"\s+"
LONGEST_LINE = 2_000_000
"""Characters of a line; a binary file without line ends would be read as one line."""

BLOCK = 1 << 20
"""Bytes that are read at once while lines are counted."""

MOST_COLUMNS = 10_000
"""Columns of a table."""


@dataclass(frozen=True)
class Layout:
    """How a text file is laid out.

    skip: lines before the numbers. separator: one character, or `\\s+`. fields: columns of the rows.
    trailing: every row ends with a separator. comment: the sign that starts comment lines.
    """

    skip: int
    separator: str
    decimal: str
    thousands: str | None
    names: tuple[str, ...]
    units: tuple[str, ...]
    fields: int
    trailing: bool
    comment: str | None
    encoding: str
    metadata: Metadata


def read_text(
    path: Path, names: Sequence[str] | None = None, separator: str | None = None, decimal: str | None = None
) -> Columns:
    """Return all columns of a text file.

    names: given by the caller, they replace those of the file.
    """
    layout = read_layout(path, separator, decimal)
    if names is not None:
        if len(names) != layout.fields:
            raise DataError(f"{path.name} has {layout.fields} columns, names has {len(names)}: give one per column.")
        columns, units = tuple(names), ("",) * layout.fields
    else:
        columns, units = layout.names, layout.units
    repeated = sorted(name for name, count in Counter(columns).items() if count > 1)
    if repeated:
        raise DataError(
            f"{path.name} has several columns called {listed(repeated)}: tell them apart with {Give(names=[...])}, "
            f"one for each of the {layout.fields} columns."
        )
    table = parse(path, layout)
    facts: dict[str, Facts] = {name: {"unit": unit} for name, unit in zip(columns, units, strict=True) if unit}
    about = layout.metadata
    for name, own in about.facts.items():
        facts[name] = {**facts.get(name, {}), **own}
    values = tuple(table.iloc[:, i].to_numpy() for i in range(layout.fields))
    return Columns(columns, values, facts=facts, attributes=about.attributes, own=about.found)


def parse(path: Path, layout: Layout) -> pd.DataFrame:
    """Return the rows of a text file by pandas.

    Too many fields in a row are an error, too few become missing numbers.
    """
    import pandas as pd

    width = layout.fields + layout.trailing
    count_fields(path, width)
    # pandas below 3.1 loses the last bit of numbers by default; the option is deprecated since.
    new = tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1)
    exact: dict[str, Any] = {} if new else {"float_precision": "round_trip"}
    read = cast("Callable[..., pd.DataFrame]", pd.read_csv)
    try:
        table = read(
            path,
            sep=layout.separator,
            decimal=layout.decimal,
            thousands=layout.thousands,
            **exact,
            header=None,
            names=list(range(width)),
            index_col=False,
            skiprows=layout.skip,
            comment=layout.comment,
            encoding=layout.encoding,
            encoding_errors="replace",  # a stray byte in a late comment or text column must not stop the numbers
            skipinitialspace=True,
            low_memory=False,
            compression=None,  # pandas would unpack by the suffix
        )
    except (pd.errors.EmptyDataError, OverflowError) as problem:
        raise DataError(f"{path.name} cannot be read as a table: {problem}. Repair the file.") from problem
    except pd.errors.ParserError as problem:
        wrong = ragged_line(path, layout)
        detail = f"line {wrong[0]} has {wrong[1]} fields, the first row {layout.fields}" if wrong else str(problem)
        raise DataError(f"{path.name} has ragged rows: {detail}. Repair that line.") from problem
    if layout.trailing and table[width - 1].notna().any():
        row = int(np.flatnonzero(table[width - 1].notna())[0])
        raise DataError(
            f"{path.name} has ragged rows: {line_of(path, layout, row)} has more than {layout.fields} fields. "
            "Repair that line."
        )
    return table


def count_fields(path: Path, width: int) -> None:
    """Refuse a table much larger than its text.

    Such a table has short rows below a first row of thousands of fields.
    """
    unpacking = Unpacking(path)
    with path.open("rb") as stream:
        for block in iter(lambda: stream.read(BLOCK), b""):
            # A row ends with either sign, or with both: then it is counted twice, which the limit allows.
            unpacking.add(8 * width * (block.count(b"\n") + block.count(b"\r")))


def read_layout(path: Path, separator: str | None = None, decimal: str | None = None) -> Layout:
    lines, encoding = first_lines(path)
    comments: list[tuple[str, str]] = []
    header: list[str] = []
    rows: list[str] = []
    skip = 0
    for number, line in enumerate(lines):
        text = line.strip()
        if not text:
            continue
        mark = next((c for c in COMMENTS if text.startswith(c)), None)
        if mark and not rows:
            comments.append((mark, text[len(mark) :].strip()))
        elif rows or row_of_numbers(text):
            if not rows:
                skip = number
            rows.append(text)
        else:
            header.append(line.strip(" \r\n"))  # an empty first or last field may stand before or behind a tab
    if not rows:
        dated = next((m[0] for text in header if (m := LOCAL_DATE.match(text))), None)
        if dated:
            raise DataError(
                f'{path.name} has the date "{dated.strip(chr(34))}": whether day or month comes first is not guessed. '
                "Write dates as 2024-02-01 10:00:00 (ISO 8601), or give the time in seconds."
            )
        raise DataError(f"{path.name} holds no rows of numbers: the file is empty, or not a table of numbers.")
    if len(header) > 2:
        comments += [("", text) for text in header[:-2]]
        header = header[-2:]
    separator = separator or sniff_separator(rows[0])
    if separator != SPACES and (len(separator) != 1 or not separator.isascii()):
        raise DataError(f'The separator is one ASCII character, not "{separator}"; blanks are found by themselves.')
    if decimal is not None and decimal not in (".", ","):
        raise DataError(f'The decimal sign is "." or ",", not "{decimal}".')
    decimal, thousands = number_signs(rows, separator, decimal)
    trailing = separator != SPACES and rows[0].endswith(separator.strip() or "\t")
    fields = len(split(rows[0], separator)) - trailing
    if fields > MOST_COLUMNS:
        raise DataError(f"{path.name} has {fields} columns, more than a recording has ({MOST_COLUMNS}).")
    mark = next((mark for mark, _ in comments if len(mark) == 1 and mark != separator), None)
    metadata = file_metadata(text for _, text in comments)
    if metadata.found and len(metadata.names) + 2 == fields:
        names, units = ("time", "segment", *metadata.names), ("",) * fields
    else:
        # ";t;x" above rows with semicolons is a header whose first column has no name, not a comment.
        texts = [mark + text if mark == separator else text for mark, text in comments]
        names, units = header_names(texts, header, separator, fields)
    return Layout(skip, separator, decimal, thousands, names, units, fields, trailing, mark, encoding, metadata)


GROUPED = {",": re.compile(r"[-+]?\d{1,3}(\.\d{3})+,\d+"), ".": re.compile(r"[-+]?\d{1,3}(,\d{3})+\.\d+")}
"""Decimal sign → numbers whose thousands are set apart by the other sign: 1.234,5 and 1,234.5."""


DECIMAL = {sign: re.compile(rf"[-+]?\d*{re.escape(sign)}\d*([eE][-+]?\d+)?") for sign in ",."}
"""Decimal sign → numbers with it."""


def number_signs(rows: Sequence[str], separator: str, decimal: str | None) -> tuple[str, str | None]:
    """Return the decimal sign and the thousands separator.

    The separator is None where there is none.
    """
    fields = [field for row in rows for field in split(row, separator)]
    for sign, grouped in GROUPED.items():
        if decimal in (None, sign) and any(map(grouped.fullmatch, fields)):
            return sign, "." if sign == "," else ","
    for sign, other in ((".", ","), (",", ".")):
        if separator not in (sign, other) and decimal in (None, sign) and whole_thousands(rows, separator, other):
            return sign, other
    # "1,5;2,5": a comma that does not separate is a decimal comma
    written = {sign: any(map(DECIMAL[sign].fullmatch, fields)) for sign in DECIMAL}
    comma = separator != "," and written[","] and not written["."]
    return decimal or ("," if comma else "."), None


SURE = {",": 5, ".": 20}
"""Numbers with three digits after a sign, beside numbers without it, that show that it groups thousands. Trailing zeros
of decimals are left out in one of ten, and a point is far more often a decimal sign."""


LOST = frozenset(("0", "-1", "99", "-99", "999", "-999"))
"""Whole numbers that loggers write for a lost sample, beside decimals too."""


def whole_thousands(rows: Sequence[str], separator: str, sign: str) -> bool:
    """Return whether a sign groups whole numbers.

    It does in "1,234,567", and in a column where "12,345" stands beside "955": decimals would be written in both.
    """
    grouped = re.compile(rf"[-+]?[1-9]\d{{0,2}}({re.escape(sign)}\d{{3}})+")
    for column in itertools.zip_longest(*(split(row, separator) for row in rows), fillvalue=""):
        signed = [field for field in column if sign in field]
        if signed and all(map(grouped.fullmatch, signed)):
            plain = {field for field in column if re.fullmatch(r"[-+]?\d{1,3}", field)}
            # Decimals that cross zero would show 0,123 beside a lost sample of 0.
            crosses = len({field.startswith("-") for field in signed}) == 2
            if (plain and (crosses or not plain <= LOST) and len(signed) >= SURE[sign]) or any(
                field.count(sign) > 1 for field in signed
            ):
                return True
    return False


def first_lines(path: Path, count: int = 200) -> tuple[list[str], str]:
    """Return the first lines and the encoding.

    It is UTF-8, else Latin-1 (loggers write ° in it).
    """
    for encoding in ("utf-8-sig", "latin-1"):
        try:
            with path.open(encoding=encoding, newline=None) as stream:
                lines = list(itertools.islice(iter(lambda: stream.readline(LONGEST_LINE + 1), ""), count))
        except UnicodeDecodeError:
            continue
        if any("\x00" in line for line in lines):
            raise DataError(f"{path.name} is not text: give the right suffix (.parquet, .h5, .mat, .npz).")
        if any(len(line) > LONGEST_LINE for line in lines):
            raise DataError(
                f"{path.name} has a line of more than {LONGEST_LINE} characters: it is not a table of rows."
            )
        return [line.rstrip("\n") for line in lines], encoding
    raise DataError(f"{path.name} is not text.")


def row_of_numbers(text: str) -> bool:
    """Return whether a line is a row.

    It begins with a number, and at least half of its fields are numbers.
    """
    fields = [field for field in re.split(r"[,;\s]+", text.replace('"', "")) if field]
    are_numbers = [is_number(field) for field in fields]
    return bool(fields) and are_numbers[0] and 2 * sum(are_numbers) >= len(fields)


def is_number(field: str) -> bool:
    """Return whether a field can be in a row.

    It is a number, a date or a clock time.
    """
    try:
        float(field)
    except ValueError:
        return bool(DATE.fullmatch(field) or CLOCK.fullmatch(field))
    return True


def sniff_separator(row: str) -> str:
    """Return the separator of a row.

    Tab, semicolon and comma are tried in this order of certainty; blanks otherwise.
    """
    for separator in ("\t", ";", ","):
        if separator in row.strip():
            return separator
    return SPACES


def split(line: str, separator: str) -> list[str]:
    if separator == SPACES:
        return line.split()
    try:
        return [field.strip() for field in next(csv.reader([line], delimiter=separator), list[str]())]
    except csv.Error:  # a quoted field that never ends
        return [field.strip() for field in line.split(separator)]


def header_names(
    comments: Sequence[str], header: Sequence[str], separator: str, fields: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return names and units of the columns.

    They come from the header line(s), from a comment line that fits, or are column0, column1, …
    """
    lines = [text for text in (*header[::-1], *comments[::-1]) if not text.startswith(MARK)]
    # A line has one meaning: 'time [s],N' is not a line of names above one of units.
    ways = (
        (
            fitted(split(each, sep), fields)
            for sep in dict.fromkeys((separator, SPACES))
            for each in (text, text.strip())
        )
        for text in lines
    )
    fitting = [names for way in ways if (names := next(filter(None, way), list[str]()))]
    if not fitting:
        return tuple(f"column{i}" for i in range(fields)), ("",) * fields
    # two lines: names, then units
    if len(fitting) > 1 and is_unit_row(fitting[0]) and not is_unit_row(fitting[1]):
        return tuple(map(original, fitting[1])), tuple(unit.strip("[]() ") for unit in fitting[0])
    parted = [name_and_unit(original(name)) for name in fitting[0]]
    return tuple(n for n, _ in parted), tuple(u for _, u in parted)


def fitted(words: list[str], fields: int) -> list[str]:
    """Return the words when they fit the columns.

    There must be as many words as columns, without empty ones at the end; [] otherwise.
    """
    words = words[: max(fields, len(trimmed(words)))]
    return words if len(words) == fields and any(words) else []


def is_unit_row(fields: Sequence[str]) -> bool:
    """Return whether a line below the names holds units.

    At least half of its words are units, and none is a usual name of a column.
    """
    words = [field.strip("[]() ") for field in fields]
    stated = [word for word in words if word]
    known = [word for word in stated if is_unit(word)]
    usual = {w.lower() for w in words} & {*TIME_NAMES, *OTHER_TIME_NAMES}
    return bool(stated) and 2 * len(known) >= len(stated) and not usual


def trimmed(names: list[str]) -> list[str]:
    while names and not names[-1]:
        names = names[:-1]
    return names


def name_and_unit(text: str) -> tuple[str, str]:
    """Return name and unit of a header.

    'phi [rad]' and 'phi (rad)' are split. Text in round brackets that is not a unit belongs to the name.
    """
    text = text.strip()
    for opening, closing in ("[]", "()"):
        name, found, unit = text[:-1].rpartition(opening)
        if found and text.endswith(closing) and name.strip() and closing not in unit:
            unit = unit.strip()
            if opening == "[" or (unit and (is_unit(unit) or unit in AMBIGUOUS)):
                return name.strip(), unit
    return text, ""


def file_metadata(comments: Iterable[str]) -> Metadata:
    """Return the metadata that `write` left.

    They are in a comment line: units, angles, noise, period.
    """
    own = (text for text in comments if text.startswith(MARK))
    return parse_metadata(next(own, MARK)[len(MARK) :])


def numbered_rows(path: Path, layout: Layout) -> Iterator[tuple[int, str]]:
    """Return line number and text of every row.

    Lines count from 1; only rows of numbers are returned.
    """
    with path.open(encoding=layout.encoding, errors="replace") as stream:
        for number, line in enumerate(stream, start=1):
            text = line.strip()
            if number > layout.skip and text and not (layout.comment and text.startswith(layout.comment)):
                yield number, text


def ragged_line(path: Path, layout: Layout) -> tuple[int, int] | None:
    """Return the first line with another number of fields.

    It differs from the first row. Its number of fields is returned too.
    """
    for number, text in numbered_rows(path, layout):
        count = len(split(text, layout.separator)) - (layout.separator != SPACES and text.endswith(layout.separator))
        if count != layout.fields:
            return number, count
    return None


def line_of(path: Path, layout: Layout, row: int) -> str:
    """Return the line of a row for messages.

    It is such as 'line 17'; it also states when that line has another number of fields.
    """
    number, text = next(itertools.islice(numbered_rows(path, layout), row, None), (None, ""))
    if number is None:
        return f"row {row}"
    count = len(trimmed(split(text, layout.separator)))
    ragged = f" (it has {count} fields, the first row {layout.fields})" if count != layout.fields else ""
    return f"line {number}{ragged}"
