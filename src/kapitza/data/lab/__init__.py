"""Files of data acquisition systems, each read by the library made for it."""

from kapitza.data.lab.groups import Group, chosen_columns
from kapitza.data.lab.readers import read_groups
from kapitza.data.lab.uff import write_uff

__all__ = ["Group", "chosen_columns", "read_groups", "write_uff"]
