"""Hook of MkDocs: formulas between double dollar signs become MathML, which browsers draw by themselves, offline."""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert

FENCED = re.compile(r"(```.*?```)", re.DOTALL)
FORMULA = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)


def with_mathml(text: str) -> str:
    """Markdown with its formulas as MathML; code stays as it is.

    >>> with_mathml("$$a^2$$")[:25]
    '<math xmlns="http://www.w'
    """

    def drawn(match: re.Match[str]) -> str:
        return convert(match[1].strip(), display="block")

    parts = FENCED.split(text)
    return "".join(part if part.startswith("```") else FORMULA.sub(drawn, part) for part in parts)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs for every page."""
    return with_mathml(markdown)
