"""Define the commands and how they end.

A command ends with an answer, or with one red line that says what to change.
Exit codes: 0 answered, 1 no answer (no fit succeeded, or problems were found by `check`), 2 the input was refused,
3 answered, but the model misses the data by more than the noise, 4 another process works on the same results folder,
130 stopped.

Libraries are imported by the commands that need them: `kapitza --version` must not wait for them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, cast

import typer

from kapitza import __version__
from kapitza.base.cures import marked
from kapitza.base.monitor import lines_in_logs
from kapitza.cli.certainty import ensemble_command, posterior_command, profile_command
from kapitza.cli.console import show_error, speak_any_alphabet
from kapitza.cli.demo import demo
from kapitza.cli.example import example_command
from kapitza.cli.exponents import exponents_command
from kapitza.cli.export import export_command
from kapitza.cli.families import diagram_command, follow_command, frequency_response_command
from kapitza.cli.inspect_file import inspect_file
from kapitza.cli.models import models
from kapitza.cli.orbits import orbits_command
from kapitza.cli.plan import plan_command
from kapitza.cli.predict import predict_command
from kapitza.cli.rig import rig_app
from kapitza.cli.simulate import simulate_command
from kapitza.cli.studies import check_command, compare_command, identify_command, new_command, report_command, schema
from kapitza.cli.studio import studio_command
from kapitza.cli.suggest import suggest_command
from kapitza.cli.validate import validate_command
from kapitza.errors import KapitzaError, LockedError

# Typer does not name the error of its parser, of which a bad parameter is one.
UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[1])

app = typer.Typer(
    name="kapitza",
    rich_markup_mode="markdown",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help=(
        "Parameters of nonlinear dynamical systems from periodic and chaotic measurements.\n\n"
        "Begin with `kapitza demo`. For a recording of your own: look at it with `kapitza inspect run.csv`, let "
        "`kapitza new run.csv` write a study, say in it what moves and what to find, then `kapitza check run.toml` and "
        "`kapitza identify run.toml`."
    ),
    epilog="Every command explains itself with examples: `kapitza identify --help`.",
)
for name, command in {
    "demo": demo,
    "example": example_command,
    "inspect": inspect_file,
    "new": new_command,
    "check": check_command,
    "identify": identify_command,
    "compare": compare_command,
    "predict": predict_command,
    "validate": validate_command,
    "suggest": suggest_command,
    "plan": plan_command,
    "follow": follow_command,
    "diagram": diagram_command,
    "frequency-response": frequency_response_command,
    "profile": profile_command,
    "posterior": posterior_command,
    "ensemble": ensemble_command,
    "report": report_command,
    "orbits": orbits_command,
    "models": models,
    "exponents": exponents_command,
    "export": export_command,
    "simulate": simulate_command,
    "schema": schema,
    "studio": studio_command,
}.items():
    app.command(name)(command)
app.add_typer(rig_app)


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kapitza {__version__}")
        raise typer.Exit


@app.callback()
def settings(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


READERS = {"inspect", "new", "orbits", "validate"}
"""Commands that read a recording, with options for how."""


def run(arguments: Sequence[str] | None = None) -> None:
    """Run a command line.

    Errors made on purpose end with exit code 2 and without a traceback.
    """
    os.environ["MPLBACKEND"] = "Agg"  # figures go to files; no display is needed
    speak_any_alphabet()
    try:
        words = None if arguments is None else list(arguments)
        with lines_in_logs():
            sys.exit(app(args=words, prog_name="kapitza", standalone_mode=False) or 0)
    except UsageError as problem:
        words = "kapitza" if problem.ctx is None else problem.ctx.command_path
        message = problem.format_message().rstrip(".")
        show_error(f"{message}{'' if message.endswith('?') else '.'} Help: {words} --help")
        sys.exit(problem.exit_code)
    except typer.Abort:
        show_error("Stopped.")
        sys.exit(130)
    except LockedError as problem:
        show_error(marked(problem))
        sys.exit(4)
    except (KapitzaError, OSError) as problem:
        given = sys.argv[1:] if arguments is None else arguments
        show_error(marked(problem), options=bool(set(given[:1]) & READERS))
        sys.exit(2)
    except MemoryError:
        show_error("This does not fit into the memory: ask for fewer samples or periods.")
        sys.exit(2)
