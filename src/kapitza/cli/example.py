"""`kapitza example`: recordings that come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from kapitza.cli.console import answers, examples, table


def example_command(
    name: Annotated[str | None, typer.Argument(help="Recording to copy; all are listed without it.")] = None,
    folder: Annotated[Path, typer.Option(help="Where to copy it.")] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """List or copy the recordings of the package.

    A copy goes into the working directory.
    """
    from kapitza.recordings import RECORDINGS, copy_recording

    page = answers()
    if name is None:
        listing = table("recording", "what was recorded")
        for one, meaning in RECORDINGS.items():
            listing.add_row(Text(one, style="bold"), Text(meaning))
        page.print(listing)
        return
    path = copy_recording(name, folder, force)
    page.print(Text(f"Written: {path}\nLook at it: kapitza inspect {path}"))


example_command.__doc__ = (example_command.__doc__ or "") + examples("kapitza example", "kapitza example shaker")
