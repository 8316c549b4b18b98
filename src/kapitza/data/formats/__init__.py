"""Readers of files of data acquisition systems.

Each format is read by the library made for it.
"""

# pyright: reportUnusedImport=false

from kapitza.data.formats.groups import chosen_columns
from kapitza.data.formats.readers import read_groups
from kapitza.data.formats.uff import write_uff
