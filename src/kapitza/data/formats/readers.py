"""Which library reads which file."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from kapitza.base.suffixes import READERS
from kapitza.data.formats.groups import Group
from kapitza.errors import DataError


def read_groups(path: Path) -> list[Group]:
    """Return the groups of channels in a file.

    The file is that of an acquisition system.
    """
    reader = READERS[path.suffix.lower()]
    if reader.library and find_spec(reader.library) is None:
        raise DataError(
            f"{path.name} is {reader.what}: to read it install {reader.library.replace('_', '-')}, "
            f"pip install 'kapitza[{reader.extra}]'."
        )
    return getattr(import_module(f"kapitza.data.formats.{reader.module}"), reader.function)(path)
