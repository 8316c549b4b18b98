"""save and load: every noun in one file.

A file is NetCDF-4: arrays are its variables; facts (names, numbers, texts, how parts belong together) are JSON in its
variable "facts". Other programs can read both. What cannot be written without loss is refused when it is saved.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from kapitza.base.argument_checks import Anything
from kapitza.base.cures import marked
from kapitza.base.files import reading
from kapitza.base.unpacking import Unpacking
from kapitza.errors import DataError, KapitzaError
from kapitza.saving.reader import Reader
from kapitza.saving.sealed import read_sealed, write_sealed
from kapitza.saving.writer import Writer

FORMAT = 1
"""Version of the file format; files of a newer one are refused."""


def save(noun: Anything, path: str | os.PathLike[str]) -> Path:
    """Write a result, record or model for `load`.

    Parameters
    ----------
    noun : Model, Record, Inspection, PeriodicOrbit, OrbitSet, Estimate, Validation, Branch, Diagram, ...
        What a verb gave, or settings of a method. With all that belongs to it: an estimate with its model and data,
        orbits with the record they come from.
    path : path
        Of the file, such as "fit.nc". An existing file is replaced in one step.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    DataError
        Where a part cannot be written without loss, such as a Python function among the settings.

    Examples
    --------
    >>> import kapitza as kz, tempfile, pathlib
    >>> orbit = kz.solve_orbit(kz.library.duffing())
    >>> path = kz.save(orbit, pathlib.Path(tempfile.mkdtemp()) / "orbit.nc")
    >>> (kz.load(path).points == orbit.points).all().item()
    True
    """
    writer = Writer()
    facts = {"format": FORMAT, "noun": writer.encoded(noun, ""), "models": writer.models}
    text = json.dumps(facts, allow_nan=False)
    path = Path(path)
    write_sealed(path, text, writer.arrays, type(noun).__name__)
    return path


def load(path: str | os.PathLike[str]) -> Any:
    """Return what `save` wrote.

    Parameters
    ----------
    path : path
        Of a file that `save` wrote.

    Returns
    -------
    object
        Of the type that was saved, equal to the last digit.

    Raises
    ------
    DataError
        For a file that is damaged, is not a file of `save`, or was written by a newer version.

    Examples
    --------
    >>> import kapitza as kz, pathlib, tempfile
    >>> path = kz.save(kz.library.duffing(), pathlib.Path(tempfile.mkdtemp()) / "model.nc")
    >>> kz.load(path) == kz.library.duffing()
    True
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f'There is no file "{path}": pass one that kz.save wrote.')
    try:
        facts, arrays = reading(path, lambda: read_sealed(path))
        if int(facts["format"]) > FORMAT:
            raise DataError(
                f'"{path}" has the format {facts["format"]}, this version of Kapitza reads up to {FORMAT}: update it.'
            )
        return Reader(facts["models"], arrays, Unpacking(path)).decoded(facts["noun"])
    except KapitzaError as problem:
        raise DataError(f"{marked(problem)}" if str(path) in str(problem) else f'"{path}": {marked(problem)}') from None
    except Exception as problem:
        # A file is data from anywhere: whatever is wrong with it is the file's fault, and said as such.
        raise DataError(f'"{path}" is not what kz.save writes ({type(problem).__name__}: {marked(problem)}).') from None
