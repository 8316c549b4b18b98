"""Texts in csv files that are not formulas.

A spreadsheet runs a cell that begins with =, +, - or @. Names come from files of any origin: such a cell gets an
apostrophe in front, which `original` removes again.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from kapitza.base.files import replacing

if TYPE_CHECKING:
    import pandas as pd

FORMULA = re.compile(r"'*\s*[=+\-@＝＋－＠]|'*[\t\r\n]")
"""Begin of a formula, also in the wide letters of Japanese; apostrophes that stand before it are escaped too."""

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"')
SEPARATORS = re.compile(r"[,;=+@\-]")


def harmless(text: str) -> str:
    """Return a cell that is not a formula.

    A number and a dash alone stay as they are.
    """
    if not FORMULA.match(text) or text == "-" or _is_number(text):
        return text
    return f"'{text}"


def original(text: str) -> str:
    """Return the text of a cell that `harmless` wrote."""
    return text[1:] if text.startswith("'") and FORMULA.match(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def harmless_json(text: str) -> str:
    """Return JSON for a line of a csv file.

    No cell begins inside its texts, whatever separates the cells.
    """

    def escaped(token: re.Match[str]) -> str:
        return SEPARATORS.sub(lambda sign: f"\\u{ord(sign[0]):04x}", token[0])

    return TOKEN.sub(escaped, text)


def write_table(table: pd.DataFrame, path: str | os.PathLike[str], index: bool = False) -> None:
    """Write a table as csv in full precision.

    The file appears complete or not at all; texts in it are not formulas.
    """

    def cell(value: Any) -> Any:
        return harmless(value) if isinstance(value, str) else value

    shown = table.rename(columns=cell, index=cell if index else None)
    shown.index.names = [cell(name) for name in shown.index.names]
    for place, (_, column) in enumerate(table.items()):
        if column.dtype.kind not in "biufcmM":
            shown.isetitem(place, column.map(cell).to_numpy(object))
    with replacing(path) as draft:
        shown.to_csv(draft, index=index)
