"""Printing: answers to standard output, progress and errors to standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text


def answers() -> Console:
    """Where answers go; made anew each time, so that redirected output is respected."""
    return Console(highlight=False, soft_wrap=True)


def show_error(message: str) -> None:
    """One red line. The text is never taken as markup: file names may hold brackets."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(Text(f"Error: {message}", style="bold red"))


def examples(*commands: str) -> str:
    """Commands as a list below a help text (the mark \\b keeps Typer from joining the lines)."""
    return "\n\n**Examples**\n\n\b\n" + "\n".join(f"* `{command}`" for command in commands)


def table(*columns: str, title: str = "", right: tuple[str, ...] = ()) -> Table:
    """A table; the columns named in `right` are aligned to the right."""
    made = Table(title=title or None, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for position, name in enumerate(columns):
        made.add_column(name, justify="right" if name in right else "left", no_wrap=position == 0, overflow="fold")
    return made


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A bar with counts and times on standard error, gone when the work is done."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield progress
