"""Hold the folder, studies and workers of a server."""

from __future__ import annotations

import re
from pathlib import Path

from kapitza.base.suffixes import SUFFIXES
from kapitza.errors import DataError
from kapitza.recordings import copy_recording
from kapitza.studio.runs import Runs
from kapitza.studio.session import Session
from kapitza.study import is_study, write_new_study

MOST_FILES = 500


class Studio:
    """Hold one server.

    Sessions by the name of their study, which is in the folder.
    """

    def __init__(self, folder: Path, first: str = ""):
        self.folder, self.first = folder.resolve(), first
        self.first_run = False
        """Whether nobody has started a studio in this account before, nor closed the offer of the tour."""
        self.workers = Runs()
        self._sessions: dict[Path, Session] = {}

    def session(self, name: str) -> Session:
        """Return the session of a study.

        The study is in the folder; its session is opened when it is first requested.
        """
        path = self.inside(name)
        if path not in self._sessions:
            made = Session(path, self.workers)
            made.begin()
            self._sessions[path] = made
        return self._sessions[path]

    @property
    def sessions(self) -> tuple[Session, ...]:
        """Return the studies that windows have opened."""
        return tuple(self._sessions.values())

    def opened(self, name: str) -> Session | None:
        """Return the session that a window has opened.

        None where there is none.
        """
        return self._sessions.get(self.inside(name))

    def inside(self, name: str) -> Path:
        """Return a file of the folder.

        Names that lead out of it are refused.
        """
        try:
            path = (self.folder / name).resolve()
        except (OSError, ValueError, RuntimeError):  # a name with a NUL, or a link to itself
            path = self.folder
        if not name or not path.is_relative_to(self.folder) or path == self.folder:
            raise DataError(f'"{name}" is not a file in {self.folder.name}.')
        return path

    def studies(self) -> list[str]:
        """Return the studies of the folder, sorted."""
        found = sorted(p for p in self.folder.glob("*.toml") if p.is_file())[:MOST_FILES]
        return [path.name for path in found if is_study(path)]

    def recordings(self) -> list[str]:
        """Return the recordings of the folder, sorted."""
        found = sorted(p for p in self.folder.iterdir() if p.suffix.lower() in SUFFIXES and not p.name.startswith("."))
        return [path.name for path in found[:MOST_FILES]]

    def new_study(self, recording: str, time: str | None = None, interval: float | None = None) -> str:
        """Write a study for a recording.

        The recording is in the folder; an existing study of it is opened instead. time: name of the column of times;
        interval: between samples [s], where there is no such column.
        """
        path = self.inside(recording)
        there = path.with_suffix(".toml")
        if there.exists():
            if is_study(there):
                return there.name
            there = there.with_name(f"{path.stem}-study.toml")
        if not there.exists():
            write_new_study(path, there, time=time, interval=interval)
        return there.relative_to(self.folder).as_posix()

    def free_name(self, wanted: str) -> Path:
        """Return a free place for a dropped file.

        An existing file is not replaced.
        """
        plain = re.sub(r"[\x00-\x1f/\\]", "_", Path(wanted).name).lstrip(".") or "recording.csv"
        path, number = self.folder / plain, 2
        while path.exists():
            path = self.folder / f"{Path(plain).stem}-{number}{Path(plain).suffix}"
            number += 1
        return path

    def example(self, name: str = "pendulum") -> str:
        """Copy a recording of the package.

        It goes into the folder, where it does not exist yet; its name is returned.
        """
        if not (self.folder / f"{name}.csv").exists():
            copy_recording(name, self.folder)
        return f"{name}.csv"
