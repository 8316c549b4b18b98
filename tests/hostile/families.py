"""All families; importing this fills the registry. A new file of families is named here."""

from tests.hostile import arguments, commands, models, recordings, saved, verbs
from tests.hostile.family import FAMILIES

__all__ = ["FAMILIES", "arguments", "commands", "models", "recordings", "saved", "verbs"]
