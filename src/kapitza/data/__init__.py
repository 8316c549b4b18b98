"""Records: measured or simulated data with units and segments."""

from kapitza.data.containers import read_variables
from kapitza.data.frames import with_records
from kapitza.data.marks import KEEP, KINDS, marks_of, with_marks
from kapitza.data.measure import measure
from kapitza.data.noise import Noise, check_noise, is_number, stated_noise
from kapitza.data.read import read
from kapitza.data.record import Record
from kapitza.data.sampling import Gap, Sampling
from kapitza.data.stored import PART, StoredRecord, open_record
from kapitza.data.write import write
from kapitza.files import replacing

__all__ = [
    "KEEP",
    "KINDS",
    "PART",
    "Gap",
    "Noise",
    "Record",
    "Sampling",
    "StoredRecord",
    "check_noise",
    "is_number",
    "marks_of",
    "measure",
    "open_record",
    "read",
    "read_variables",
    "replacing",
    "stated_noise",
    "with_marks",
    "with_records",
    "write",
]
