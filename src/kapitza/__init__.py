"""Identify parameters of nonlinear dynamical systems.

The data are periodic and chaotic measurements.
Names are loaded when first used: a simulation should not pay the memory and the time of what only fits need. They are
listed in public.py; __init__.pyi, which type checkers and editors read, is written from that list.
"""

from __future__ import annotations

from importlib import import_module
from inspect import isclass, isfunction
from typing import Any

from kapitza.public import FOLDERS, HOMES, RENAMED, RESULTS

__version__ = "0.2.0"

__all__ = sorted([*HOMES, "library"])  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in HOMES:
        value = _guarded(name, getattr(import_module(HOMES[name]), name))
    elif name in RENAMED:
        from warnings import warn

        warn(f"kapitza.{name} is called {RENAMED[name]} now.", DeprecationWarning, stacklevel=2)
        return __getattr__(RENAMED[name])
    elif name in FOLDERS:
        value = import_module(f"kapitza.{name}")
    else:
        raise AttributeError(f"module 'kapitza' has no attribute {name!r}")
    globals()[name] = value
    return value


def _guarded(name: str, value: Any) -> Any:
    """Return the public object with checked arguments."""
    from kapitza.base.argument_checks import check_methods, checked

    if isclass(value):
        check_methods(value, free=name in RESULTS)
    elif isfunction(value):
        value = checked(value, home=__name__)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
