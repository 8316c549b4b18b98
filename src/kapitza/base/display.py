"""Display of nouns in notebooks and papers.

All nouns offer it; `kapitza.report` draws them on request.
"""

from __future__ import annotations

import os
from math import isfinite
from pathlib import Path
from typing import Any

from kapitza.base import checks
from kapitza.base.files import replacing
from kapitza.errors import WriteError


class Shown:
    """A noun with a table for notebooks and papers."""

    def _repr_html_(self) -> str:
        from kapitza.report import as_html

        return as_html(self)

    def to_latex(self) -> str:
        """Return LaTeX for a paper.

        The equations of a model have rates with dots; everything else is a booktabs table.
        """
        from kapitza.report import as_latex

        return as_latex(self)


def drawn(figure: Any, path: str | os.PathLike[str] | None) -> Any:
    """Return the figure, saved when a path is given."""
    if path is not None:
        kind, known = Path(path).suffix.removeprefix(".").lower(), figure.canvas.get_supported_filetypes()
        if kind not in known:
            raise WriteError(f"{checks.shown(str(path))} is not the name of a figure; end it with .{' .'.join(known)}.")
        with replacing(path) as draft:
            figure.savefig(draft)
    return figure


def percent(value: float) -> str:
    """Return a relative width [%] as text.

    Two digits, whole numbers from 100 on; "unknown" where it is infinite.
    """
    if not isfinite(value):
        return "unknown"
    return f"{value:.2g} %" if abs(value) < 99.5 else f"{value:.0f} %"
