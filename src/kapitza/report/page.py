"""Write self-contained HTML pages.

Text, tables and figures are in one file; nothing is fetched from a network.
"""

from __future__ import annotations

import base64
import datetime
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from kapitza.data import replacing


@dataclass(frozen=True)
class Section:
    """Hold one part of a page.

    It may have a heading, warnings, paragraphs, fixed-width text, a table, and a figure with its caption.
    """

    title: str
    paragraphs: tuple[str, ...] = ()
    listing: str = ""
    table: pd.DataFrame | None = None
    figure: Figure | None = None
    caption: str = ""
    warnings: tuple[str, ...] = ()


def write_page(title: str, summary: str, sections: Sequence[Section], path: str | Path) -> Path:
    """Write a page.

    Everything printed on it is escaped. The figures are drawn into the file and closed.
    """
    from kapitza import __version__

    path = Path(path)
    environment = Environment(loader=PackageLoader("kapitza.report"), autoescape=True, undefined=StrictUndefined)
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    text = environment.get_template("page.html").render(
        title=title,
        summary=summary,
        sections=[section_values(section) for section in sections],
        footer=f"Kapitza {__version__}, {date}",
    )
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")
    return path


def section_values(section: Section) -> dict[str, Any]:
    return {
        "title": section.title,
        "paragraphs": section.paragraphs,
        "listing": section.listing,
        "warnings": section.warnings,
        "table": None if section.table is None else table_cells(section.table),
        "image": None if section.figure is None else inline_png(section.figure),
        "caption": section.caption,
    }


def table_cells(table: pd.DataFrame) -> dict[str, Any]:
    """Return header and rows of a table as text.

    Flags say whether a column is right-aligned; the index comes first when it has a name.
    """
    shown = table.reset_index() if table.index.name else table
    right = [pd.api.types.is_numeric_dtype(dtype) for dtype in shown.dtypes]
    rows = [
        [(cell_text(value), align) for value, align in zip(row, right, strict=True)] for row in shown.to_numpy(object)
    ]
    header = [(str(name).replace("_", " "), align) for name, align in zip(shown.columns, right, strict=True)]
    return {"header": header, "rows": rows}


def cell_text(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{float(value):.6g}"
    return "" if value is None else str(value)


def inline_png(figure: Figure) -> str:
    """Return the figure as a data address."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=160)
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode("ascii")
