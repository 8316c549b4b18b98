"""Nouns in notebooks and papers: what all of them offer; `kapitza.report` draws them when it is asked for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kapitza.base import checks
from kapitza.base.files import replacing
from kapitza.errors import WriteError


class Shown:
    """A noun that a notebook shows as a table, and a paper prints."""

    def _repr_html_(self) -> str:
        from kapitza.report import as_html

        return as_html(self)

    def to_latex(self) -> str:
        """For a paper: the equations of a model, rates with dots; everything else as a booktabs table."""
        from kapitza.report import as_latex

        return as_latex(self)


def drawn(figure: Any, path: str | os.PathLike[str] | None) -> Any:
    """The figure, saved when a path is given."""
    if path is not None:
        kind, known = Path(path).suffix.removeprefix(".").lower(), figure.canvas.get_supported_filetypes()
        if kind not in known:
            raise WriteError(f"{checks.shown(str(path))} is not the name of a figure; end it with .{' .'.join(known)}.")
        with replacing(path) as draft:
            figure.savefig(draft)
    return figure
