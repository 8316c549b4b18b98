"""All families; importing this fills the registry. A new file of families gets a line here."""

from tests.hostile import (
    arguments,
    bombs,
    calls,
    commands,
    formats,
    killed,
    models,
    recordings,
    rigs,
    saved,
    verbs,
)
from tests.hostile.family import FAMILIES

__all__ = [
    "FAMILIES",
    "arguments",
    "bombs",
    "calls",
    "commands",
    "formats",
    "killed",
    "models",
    "recordings",
    "rigs",
    "saved",
    "verbs",
]
