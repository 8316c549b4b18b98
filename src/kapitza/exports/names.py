"""Make safe identifiers and comments.

Names and texts of users never become code.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

_WORDS = """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while main
    algorithm and annotation block class connect connector constant constrainedby der discrete each elseif elsewhen
    encapsulated end enumeration equation expandable external false final flow function import impure in initial inner
    input loop model not operator or outer output package parameter partial protected public pure record redeclare
    replaceable stream then true type when within reinit pre time sample edge change abs sign sqrt sin cos tan asin
    acos atan atan2 sinh cosh tanh exp log log10 floor ceil mod rem div max min sum product
    abstract baremodule begin catch finally global let local macro module mutable primitive quote struct try using
    where parfor spmd otherwise persistent classdef methods properties events arguments lambda def del pass raise from
    nonlocal yield async await is None True False with as except elif assert
"""

RESERVED = frozenset(_WORDS.split())
"""Keywords of C99, Modelica, Julia, MATLAB and Python, and functions that the generated code calls."""

LONGEST_IDENTIFIER = 60
"""MATLAB cuts names after 63 characters."""


def identifier(text: str) -> str:
    """Return an ASCII identifier valid in every language."""
    text = text.replace("'", "_dot")
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")
    word = re.sub(r"[^A-Za-z0-9]+", "_", plain).strip("_")[:LONGEST_IDENTIFIER]
    if not word or not word[0].isalpha():
        word = f"v_{word}".rstrip("_")
    return f"{word}_" if word in RESERVED else word


def identifiers(names: Iterable[str], taken: Iterable[str] = ()) -> tuple[str, ...]:
    """Return distinct identifiers, one for each name.

    `taken` ones are not used again.
    """
    used, found = {word.lower() for word in taken}, []
    for name in names:
        word = base = identifier(name)
        number = 2
        while word.lower() in used:
            word, number = f"{base}_{number}", number + 1
        used.add(word.lower())
        found.append(word)
    return tuple(found)


def comment(text: str) -> str:
    """Return one line safe in a comment.

    It is printable ASCII that ends no comment and no string: without */, backslash and quotes.
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "replace").decode("ascii")
    line = "".join(c if c.isprintable() else " " for c in plain)
    return " ".join(re.sub(r"[\\*/%#?{}\"`$]{2,}|[\\\"`$]", " ", line).split())


def headline(name: str, description: str) -> str:
    """Return the first line of a file: name and description, which ends with one full stop."""
    words = comment(description) or "exported model"
    return f"{comment(name)}: {words.rstrip('. ')}."


def quoted(text: str) -> str:
    """Return the text as a string literal.

    It has double quotes and is valid in C, Julia, Modelica and Python.
    """
    return f'"{comment(text)}"'
