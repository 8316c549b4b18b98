"""Records: measured or simulated data with units and segments."""

from kapitza.data.containers import read_variables
from kapitza.data.measure import measure
from kapitza.data.read import read
from kapitza.data.record import Record
from kapitza.data.sampling import Gap, Sampling
from kapitza.data.write import replacing, write

__all__ = [
    "Gap",
    "Record",
    "Sampling",
    "measure",
    "read",
    "read_variables",
    "replacing",
    "write",
]
