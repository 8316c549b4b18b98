"""Files of data acquisition systems, each read by the library made for it."""

from kapitza.data.formats.groups import Group, chosen_columns
from kapitza.data.formats.readers import read_groups
from kapitza.data.formats.uff import write_uff

__all__ = ["Group", "chosen_columns", "read_groups", "write_uff"]
