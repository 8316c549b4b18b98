"""Show, edit and run a study in the browser."""

from __future__ import annotations

from pathlib import Path


def run_studio(target: Path, port: int = 0, browser: bool = True) -> None:
    """Serve the page of a target until Ctrl-C.

    The target is a folder, a study or a recording.
    """
    # Imported here: the worker is a module of this package and must start without the web server.
    from kapitza.studio.serve import run

    run(target, port, browser)


__all__ = ["run_studio"]
