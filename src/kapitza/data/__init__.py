"""Records: measured or simulated data with units and segments."""

from kapitza.base.files import replacing
from kapitza.data.columns import RECORDED
from kapitza.data.containers import read_variables
from kapitza.data.marks import KEEP, KINDS, marks_of, with_marks
from kapitza.data.measure import measure
from kapitza.data.measured_branch import MeasuredBranch
from kapitza.data.noise import Noise, check_noise, is_number, stated_noise
from kapitza.data.parts import (
    Part,
    as_parts,
    described,
    noise_by_channel,
    one_part,
    one_record,
    plain_data,
    records_of,
)
from kapitza.data.read import read
from kapitza.data.record import Record
from kapitza.data.sampling import Gap, Sampling
from kapitza.data.sensor_errors import BY_NAME, FITTED, PROPOSED, TESTED, SensorError
from kapitza.data.stored import PART, StoredRecord, open_record
from kapitza.data.write import write

__all__ = [
    "BY_NAME",
    "FITTED",
    "KEEP",
    "KINDS",
    "PART",
    "PROPOSED",
    "RECORDED",
    "TESTED",
    "Gap",
    "MeasuredBranch",
    "Noise",
    "Part",
    "Record",
    "Sampling",
    "SensorError",
    "StoredRecord",
    "as_parts",
    "check_noise",
    "described",
    "is_number",
    "marks_of",
    "measure",
    "noise_by_channel",
    "one_part",
    "one_record",
    "open_record",
    "plain_data",
    "read",
    "read_variables",
    "records_of",
    "replacing",
    "stated_noise",
    "with_marks",
    "write",
]
