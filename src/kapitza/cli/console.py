"""Print answers, progress and errors.

Answers go to standard output, progress and errors to standard error.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderHook
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from kapitza.base.cures import in_command, in_study
from kapitza.errors import printable

if TYPE_CHECKING:
    from kapitza.data import Record

MISSES = 3
"""Exit code where the model misses the data by more than the noise."""


class Harmless:
    """Write control characters out.

    Names from files must not control the terminal.
    """

    def __init__(self, content: Any):
        self.content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self.content, options):
            harmless = segment.control or segment.text.isprintable()
            yield segment if harmless else Segment(clean(segment.text), segment.style)


def clean(text: str) -> str:
    return "\n".join(printable(line) for line in text.split("\n"))


class _Cleaning(RenderHook):
    def process_renderables(self, renderables: list[Any]) -> list[Any]:
        return [Harmless(content) for content in renderables]


def console(stderr: bool = False) -> Console:
    made = Console(stderr=stderr, highlight=False, soft_wrap=True)
    made.push_render_hook(_Cleaning())
    return made


def answers() -> Console:
    """Return the console for answers.

    Made anew each time, so that redirected output is respected.
    """
    return console()


def show_error(message: str, options: bool = False) -> None:
    """Print an error as one red line.

    options: cures are options of the command, else lines of a study. The text is never taken as markup: file names may
    hold brackets.
    """
    console(stderr=True).print(
        Text(f"Error: {in_command(message) if options else in_study(message)}", style="bold red")
    )


def show_json(content: Any) -> None:
    """Print content as JSON.

    Control characters are escaped (JSON itself lets those above 0x7f pass).
    """
    written = json.dumps(content, ensure_ascii=False, indent=1)
    typer.echo(re.sub("[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]", lambda c: f"\\u{ord(c[0]):04x}", written))


def speak_any_alphabet() -> None:
    """Write unknown letters out on ASCII terminals.

    They would end the command otherwise.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def examples(*commands: str) -> str:
    r"""Return commands as a list below a help text.

    The mark \b keeps Typer from joining the lines.
    """
    return "\n\n**Examples**\n\n\b\n" + "\n".join(f"* `{command}`" for command in commands)


def table(*columns: str, title: str = "", right: tuple[str, ...] = ()) -> Table:
    """Return a table for the terminal.

    The columns named in `right` are aligned to the right, and numbers are never broken over two lines.
    """
    made = Table(
        title=Text(title) if title else None, title_justify="left", header_style="bold", box=None, pad_edge=False
    )
    for position, name in enumerate(columns):
        made.add_column(
            name, justify="right" if name in right else "left", no_wrap=position == 0 or name in right, overflow="fold"
        )
    return made


def channel_table(record: Record) -> Table:
    """Return the channels of a record with their ranges."""
    listing = table("channel", "unit", "smallest", "mean", "largest", right=("smallest", "mean", "largest"))
    for name in record.channels:
        values = record[name]
        numbers = (f"{float(value):.6g}" for value in (values.min(), values.mean(), values.max()))
        listing.add_row(Text(name), Text(record.units[name]), *numbers)
    return listing


UnitOption = Annotated[
    list[str] | None,
    typer.Option(help='Unit of a column, `phi=deg`, or sensitivity of its sensor, `"Laser=4 mm/V"`; repeatable.'),
]
GroupOption = Annotated[str | None, typer.Option(help="Group, sheet or topic of a file that holds several.")]


def units_given(pairs: list[str] | None) -> dict[str, str] | None:
    """Return units of columns from options such as "phi=deg"."""
    return pairs_given("--unit", pairs, "phi=deg")


def pairs_given(option: str, pairs: list[str] | None, example: str) -> dict[str, str] | None:
    """Return pairs of an option that is given as NAME=VALUE, several times."""
    if not pairs:
        return None
    parted = [pair.rpartition("=") for pair in pairs]
    wrong = next((pair for pair, (name, _, value) in zip(pairs, parted, strict=True) if not name or not value), None)
    if wrong is not None:
        raise typer.BadParameter(f'{option} {wrong}: give name and value, such as {option} "{example}".')
    return {name.strip(): value.strip() for name, _, value in parted}
