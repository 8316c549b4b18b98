"""Journal of measurements on disk.

Written as they are made: one JSON object per line, so that a crash loses one line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kapitza.base.argument_checks import Anything
from kapitza.errors import DataError

FORMAT = "kapitza rig journal 1"


class Journal:
    """An append-only file of measurements and accepted points.

    path: None keeps everything in memory only. An existing file is read first: `entries` are what it holds. A line cut
    short by a crash is dropped.
    """

    def __init__(self, path: str | Path | None = None, fresh: bool = False):
        self.path = None if path is None else Path(path)
        self.entries: list[dict[str, Any]] = []
        if self.path is None:
            return
        if not self.path.parent.is_dir():
            raise DataError(f"There is no folder {self.path.parent} for the record of the rig: make it first.")
        if fresh and self.path.exists():
            self.path.replace(self.path.with_name(self.path.name + ".old"))
        kept = self._read() if self.path.exists() else []
        if not kept:
            self._write({"format": FORMAT})
        self.entries = kept[1:] if kept else []

    def _read(self) -> list[dict[str, Any]]:
        assert self.path is not None
        text = self.path.read_bytes()
        whole, _, rest = text.rpartition(b"\n")
        if rest:
            # The last line was cut short: the next entry must begin on a separate line.
            with self.path.open("r+b") as file:
                file.truncate(len(whole) + 1 if whole else 0)
        found = []
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                found.append(json.loads(line))
            except (json.JSONDecodeError, UnicodeDecodeError) as problem:
                raise DataError(f"{self.path} is damaged in line {number} ({problem}); start a new record.") from None
        if found and found[0].get("format") != FORMAT:
            raise DataError(f'{self.path} is not a record of a rig ("{FORMAT}"); choose another file.')
        return found

    def add(self, kind: str, content: Mapping[str, Anything]) -> None:
        entry = {"kind": kind, **content}
        self.entries.append(entry)
        if self.path is not None:
            self._write(entry)

    def _write(self, entry: Mapping[str, Any]) -> None:
        assert self.path is not None
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry, default=_plain) + "\n")
            file.flush()
            # Every measurement costs rig time: it must survive a crash.
            os.fsync(file.fileno())

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [e for e in self.entries if e.get("kind") == kind]


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (np.floating, np.integer, np.bool_)):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be written to the record of a rig")
