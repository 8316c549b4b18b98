"""`kapitza studio`: a study in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kapitza.cli.console import examples
from kapitza.errors import KapitzaError


def studio_command(
    target: Annotated[Path, typer.Argument(help="Recording, study (.toml) or folder.")] = Path(),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine; a free one by default.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
) -> None:
    """Open a recording or study in the browser.

    Look at a recording, type a model, fit and follow it.
    The page is served on this machine alone, by a link with a token. The study file holds everything that is set in
    it: `kapitza identify` on it gives the same numbers.
    """
    from kapitza.studio import run_studio

    try:
        run_studio(target, port, browser)
    except ModuleNotFoundError as problem:
        if (problem.name or "").split(".")[0] in ("nicegui", "tomlkit", "fastapi", "uvicorn"):
            raise KapitzaError("The studio needs more packages: pip install 'kapitza[studio]'.") from None
        raise


studio_command.__doc__ = (studio_command.__doc__ or "") + examples(
    "kapitza studio", "kapitza studio run.csv", "kapitza studio run.toml", "kapitza studio run.toml --no-browser"
)
