"""What a new study makes of the words of its equations and of its columns."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

from kapitza.model import primed_names
from kapitza.study.plausibility import misspelt_coordinates


def new_study_notes(path: Path) -> Iterator[str]:
    """Yield what was recognised in a study that has just been written.

    The parameters to find, names that look misspelt, and accelerometers.
    """
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    model, data, free = content["model"], content["data"], content["fit"]["free"]
    yield f"To find: {', '.join(free)}"
    moving = [name for text in model.get("equations", ()) for name in primed_names(text)]
    for text in misspelt_coordinates(free, [*moving, *data.get("drive", ())]):
        yield f"Warning: {text}"
    columns = {name: column for column, name in data.get("channels", {}).items()}
    for channel, output in data.get("measures", {}).items():
        yield f'"{columns.get(channel, channel)}" is an accelerometer: it measures {output}'
