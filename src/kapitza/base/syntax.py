"""Syntax trees of texts, from any thread.

CPython 3.11 and 3.12 count the depth of the tree they build once for all threads, and raise SystemError where two of
them build one at the same time: here one thread builds at a time.
"""

from __future__ import annotations

import ast
import threading

_LOCK = threading.Lock()


def expression_tree(text: str) -> ast.Expression:
    """Return the syntax tree of an expression."""
    with _LOCK:
        return ast.parse(text, mode="eval")


def module_tree(text: str) -> ast.Module:
    """Return the syntax tree of a module."""
    with _LOCK:
        return ast.parse(text)
