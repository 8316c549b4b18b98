"""Nouns in notebooks and papers: what all of them offer; `kapitza.report` draws them when it is asked for."""

from __future__ import annotations

import os
from typing import Any

from kapitza.files import replacing


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
        with replacing(path) as draft:
            figure.savefig(draft)
    return figure
