"""Records: measured or simulated data with units and segments."""

# pyright: reportUnusedImport=false

from kapitza.base.files import replacing
from kapitza.data.columns import COLUMN, RECORDED
from kapitza.data.containers import read_variables
from kapitza.data.drives import drives_by_name, recognised_drives, words_of_name
from kapitza.data.marks import KEEP, KINDS, marks_of, with_marks
from kapitza.data.measure import measure
from kapitza.data.measured_branch import MeasuredBranch
from kapitza.data.noise import Noise, is_number
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
from kapitza.data.sensor_errors import BY_NAME, CLOCK, FITTED, PHASE, PROPOSED, SATURATION, SPIKE, TESTED, SensorError
from kapitza.data.stored import PART, StoredRecord, open_record
from kapitza.data.write import write
