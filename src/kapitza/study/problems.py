"""Collect all problems of a study.

They are reported all at once, each with its line and a cure.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kapitza.base.cures import Cure, Message, in_study, marked
from kapitza.errors import KapitzaError

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    """Hold one thing to change in a study.

    It says where it is, what to do, and holds its cures as data.
    place: keys that lead to the value, such as ("model", 0, "equations", 1), for a page that shows it beside its
    field. line: of the file, 0 where there is none. column: inside the text at that place, counted from 1, for
    equations; where the file itself cannot be read, inside the line; 0 where it is not known.
    """

    place: Path
    line: int
    message: str
    cures: tuple[Cure, ...] = ()
    column: int = 0

    @property
    def table(self) -> str:
        """Return the section, such as "fit".

        It is "" for the top of the file.
        """
        return str(self.place[0]) if len(self.place) > 1 else ""

    @property
    def key(self) -> str:
        """Return the last key of the place.

        An example is "bounds"; "" where the whole file is meant.
        """
        return next((part for part in reversed(self.place) if isinstance(part, str)), "")

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}" if self.line else self.message


class StudyError(KapitzaError, ValueError):
    """A study file cannot be run as it is.

    `problems` lists everything found, `name` is the file.

    Examples
    --------
    >>> import kapitza as kz, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "rig.toml"
    >>> _ = path.write_text("titel = 3")
    >>> try:
    ...     kz.read_study(path)
    ... except kz.StudyError as error:
    ...     print(len(error.problems) > 1)
    True
    """

    def __init__(self, name: str, problems: Sequence[Problem]):
        self.name = name
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line))
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        lines = [f"{name}: {count} found before any work.", *(f"  {problem}" for problem in self.problems)]
        super().__init__("\n".join(lines))


@dataclass
class Notebook:
    """Collects problems of one file while it is checked."""

    name: str
    text: str
    problems: list[Problem] = field(default_factory=list)

    def add(self, place: Path, message: object, column: int = 0) -> None:
        """Note a problem.

        message: a text, or the error that was raised.
        """
        shown = ".".join(str(part + 1) if isinstance(part, int) else part for part in place)
        head = f"{shown}: " if shown else ""
        cures = Message(marked(message)).cures
        problem = Problem(place, line_of(self.text, place), head + in_study(message), cures, column)
        if problem not in self.problems:
            self.problems.append(problem)

    def raise_if_any(self) -> None:
        if self.problems:
            raise StudyError(self.name, self.problems)


def line_of(text: str, place: Path) -> int:
    """Return the line where a value begins.

    The value at `place`, 0 where there is none; for a missing key, the line of its table.
    The shortest beginning of the file that parses and holds the place ends with the value's last line; the value
    begins after the beginning before it that parses.
    """
    lines = text.split("\n")
    while place:
        if _holds(_beginning(lines, len(lines))[0], place):
            break
        place = place[:-1]
    if not place:
        return 0
    low, high = 0, len(lines)
    while high - low > 1:
        middle = (low + high) // 2
        content, used = _beginning(lines, middle)
        if _holds(content, place):
            high = min(high, max(used, low + 1))
        else:
            low = middle
    _, before = _beginning(lines, high - 1)
    return before + 1


def _beginning(lines: Sequence[str], count: int) -> tuple[dict[str, Any], int]:
    """Return the longest beginning that parses.

    It has at most `count` lines; their number is returned too.
    """
    for used in range(count, -1, -1):
        try:
            return tomllib.loads("\n".join(lines[:used])), used
        except tomllib.TOMLDecodeError:
            continue
    return {}, 0


def _holds(content: Any, place: Path) -> bool:
    for part in place:
        if isinstance(part, int):
            if not isinstance(content, list) or part >= len(content):
                # A single table [model] stands for a list of one.
                if part == 0 and isinstance(content, dict):
                    continue
                return False
            content = content[part]
        elif not isinstance(content, dict) or part not in content:
            return False
        else:
            content = content[part]
    return True
