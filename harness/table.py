"""Markdown tables in which a document's number stands beside ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Comparison:
    """One row: what is compared, the document's number, ours, and whether the target was met.

    document, ours: numbers or text. target: in words, such as "< 0.8 %"; met: None when there is no target.
    """

    quantity: str
    document: object
    ours: object
    target: str = ""
    met: bool | None = None
    note: str = ""


def show(value: object) -> str:
    """A cell: floats with five significant digits, bars escaped so that |x| does not cut the row."""
    text = f"{value:.5g}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(show(cell) for cell in header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(show(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def comparison_table(rows: Iterable[Comparison], document: str = "document") -> str:
    """Document and Kapitza side by side; a target that was not reached reads **missed**."""
    verdict = {True: "met", False: "**missed**", None: ""}
    header = ["quantity", document, "Kapitza", "target", "verdict", "note"]
    return markdown_table(
        header, [(row.quantity, row.document, row.ours, row.target, verdict[row.met], row.note) for row in rows]
    )
