"""The commands and how they end: an answer, or one red line that says what to change."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from kapitza import __version__
from kapitza.cli.console import show_error
from kapitza.cli.demo import demo
from kapitza.cli.inspect_file import inspect_file
from kapitza.cli.models import models
from kapitza.cli.simulate import simulate_command
from kapitza.errors import KapitzaError

app = typer.Typer(
    name="kapitza",
    rich_markup_mode="markdown",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help=(
        "Parameters of nonlinear dynamical systems from periodic and chaotic measurements.\n\n"
        "Begin with `kapitza demo`; see which models are there with `kapitza models`; make a recording with "
        "`kapitza simulate duffing --periods 200 --out run.csv` and look at it with `kapitza inspect run.csv`."
    ),
    epilog="Every command explains itself with examples: `kapitza simulate --help`.",
)
app.command("demo")(demo)
app.command("models")(models)
app.command("simulate")(simulate_command)
app.command("inspect")(inspect_file)


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kapitza {__version__}")
        raise typer.Exit


@app.callback()
def settings(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry of the command. Errors made on purpose end with exit code 2 and without a traceback."""
    import matplotlib

    matplotlib.use("Agg")  # figures go to files; no display is needed
    try:
        app(args=None if arguments is None else list(arguments))
    except (KapitzaError, OSError) as problem:
        show_error(str(problem))
        sys.exit(2)
    except KeyboardInterrupt:
        show_error("Stopped.")
        sys.exit(130)
