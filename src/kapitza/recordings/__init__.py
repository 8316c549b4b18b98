"""Provide recordings for the first hour.

They come with the package: `kapitza example NAME` copies one.
Simulated by harness/make_recordings.py, so that the true values are known.
"""

from __future__ import annotations

import shutil
from importlib.resources import as_file, files
from pathlib import Path

from kapitza.base.files import replacing
from kapitza.errors import DataError, nearest_name

RECORDINGS = {
    "shaker": "mass on a hardening spring, swept by a shaker for 12 s: force F [N] of a load cell, displacement x [mm]",
    "pendulum": "pendulum released at 70 degrees, decaying for 20 s by viscous and dry friction: angle phi [deg]",
}
"""Name → what was recorded."""


def copy_recording(name: str, folder: Path, force: bool = False) -> Path:
    """Copy a recording of the package.

    Into a folder as NAME.csv; the path is returned.
    """
    if name not in RECORDINGS:
        raise DataError(f'There is no recording "{name}"; {", ".join(RECORDINGS)} are.{nearest_name(name, RECORDINGS)}')
    target = Path(folder) / f"{name}.csv"
    if target.exists() and not force:
        raise DataError(f"{target} is there already: go to another folder, or replace it by --force.")
    with as_file(files(__name__) / f"{name}.csv") as source, replacing(target) as draft:
        shutil.copyfile(source, draft)
    return target
