"""read: a record from a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kapitza.base import checks
from kapitza.base.argument_checks import Anything
from kapitza.base.cures import Give
from kapitza.base.files import reading
from kapitza.base.suffixes import ADVICE, FOLDERS, LAB, SUFFIXES, TEXT, suffixes_by_content
from kapitza.data.channels import is_table
from kapitza.data.columns import Key, Wanted, make_record
from kapitza.data.containers import guarded, read_container
from kapitza.data.formats import chosen_columns, read_groups
from kapitza.data.formats.parquet import read_parquet
from kapitza.data.formats.text import line_of, read_layout, read_text
from kapitza.data.record import Record
from kapitza.data.stored import open_record
from kapitza.errors import DataError


def read(
    path: str | Path,
    time: Key | None = None,
    channels: Key | Sequence[Key] | Mapping[Anything, Anything] | None = None,
    *,
    segment: Key | None = None,
    interval: float | None = None,
    names: Sequence[str] | None = None,
    units: Mapping[str, str] | None = None,
    angles: Iterable[str] | None = None,
    period: float | None = None,
    phase: float | None = None,
    missing: str = "refuse",
    separator: str | None = None,
    decimal: str | None = None,
    group: str | None = None,
) -> Record:
    r"""Read a record from a file, by its suffix.

    It reads text (csv, tsv, txt, dat, asc), parquet, zarr, HDF5, NetCDF, MATLAB (v5, v7.3), npz and wav; with the extra
    `kapitza[formats]` Excel (xlsx), TDMS, UFF/UNV and ROS bags, with `kapitza[mdf]` MDF.

    Parameters
    ----------
    path : path
        The file; or a .zarr or .parquet folder that `write` made and that fits into memory (else `open_record`).
    time : str or int, optional
        Name or position of the time column; t, time, … are found by themselves. Numbers in the unit that the file
        states (s without one), durations, dates (ISO 8601) and clock times all become seconds. Without a time column
        give `interval` [s].
    channels : list or mapping, optional
        Names or positions, in order; a mapping renames, {"o1": "phi1"}; default: every other numeric column. An array
        of several columns takes a list, {"Y_id": ["phi", "phi'"]}.
    segment : str or int, optional
        Column of labels that change where the recording was interrupted ("segment" and "trial" are found); MATLAB cell
        arrays become one segment per cell.
    interval : float, optional
        Time between samples [s].
    names : list of str, optional
        Names of all columns of a text file that has none, or wrong ones.
    units : mapping, optional
        Of columns, {"t": "ms", "phi": "deg"}, before those of the file (headers like "phi [deg]", a line of units
        below the names, attributes "unit" or "units"). Channels come in SI: mm → m, deg → rad, rpm → rad/s. A unit that
        is not known is asked for. A number before it is the sensitivity of a sensor: {"Laser": "4 mm/V"}, or
        {"Accel": "100 mV/gravity"}.
    angles : list of str, optional
        Channels that live on a circle, under their new names.
    period, phase : float, optional
        Of the excitation [s].
    missing : str
        "refuse" rows with missing numbers, or "drop" them and cut the record there.
    separator, decimal : str, optional
        Of text files, when they are guessed wrongly.
    group : str, optional
        Group, sheet or topic to read, where a file holds several with separate clocks.

    Returns
    -------
    Record
        Channels in SI units along the time [s].

    Examples
    --------
    >>> import kapitza as kz, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run7.csv"
    >>> _ = path.write_text("t [ms],phi [deg]\n0,0\n10,90\n20,180\n")
    >>> record = kz.read(path, time="t", channels=["phi"], angles=["phi"])
    >>> record.units["phi"], float(record.time[-1])
    ('rad', 0.02)
    """
    path = checks.path("The recording", path, error=DataError)
    if channels is not None and not isinstance(channels, Mapping | str):
        channels = checks.items("channels", channels, error=DataError)
    names = None if names is None else checks.texts("names", names, error=DataError)
    angles = None if angles is None else checks.texts("angles", angles, error=DataError)
    if units is not None and not is_table(units):
        raise DataError(f"units is {checks.shown(units)}; give a table such as {Give(units={'t': 'ms'})}.")
    for what, given, longest in (("separator", separator, 10), ("decimal", decimal, 10), ("group", group, 1000)):
        if given is not None:
            checks.text(what, given, longest=longest, error=DataError)
    wanted = Wanted(time, channels, segment, interval, units, angles, period, phase, missing)
    return reading(path, lambda: _read(path, wanted, names, separator, decimal, group))


def _read(
    path: Path,
    wanted: Wanted,
    names: Sequence[str] | None,
    separator: str | None,
    decimal: str | None,
    group: str | None,
) -> Record:
    path = bag_inside(path)
    suffix = path.suffix.lower()
    if group is not None and suffix not in LAB:
        raise DataError(f"group belongs to files of {', '.join(LAB)}; {path.name} has none: leave it out.")
    folder = path.is_dir() and suffix in FOLDERS
    if not folder:
        check_readable(path, suffix)
    if suffix in TEXT:
        columns = read_text(path, names, separator, decimal)
        return make_record(
            columns, wanted, path.name, lambda number: line_of(path, read_layout(path, separator, decimal), number)
        )
    if folder:
        stored = open_record(path)
        return make_record(guarded(path, suffix, lambda: stored.columns(0, stored.size)), wanted, path.name)
    if suffix == ".parquet":
        return make_record(guarded(path, suffix, lambda: read_parquet(path)), wanted, path.name)
    if suffix in LAB:
        return make_record(
            chosen_columns(guarded(path, suffix, lambda: read_groups(path)), group, path), wanted, path.name
        )
    columns, asked = read_container(path, wanted)
    return make_record(columns, asked, path.name)


def bag_inside(path: Path) -> Path:
    """Return the file inside a ROS 2 bag.

    A bag is a folder with metadata.yaml. Other paths are returned as they are.
    """
    if not (path.is_dir() and (path / "metadata.yaml").is_file()):
        return path
    files = sorted(each for each in path.iterdir() if each.suffix.lower() in (".db3", ".mcap"))
    if len(files) != 1:
        shown = ", ".join(each.name for each in files[:5]) or "no .db3 or .mcap file"
        raise DataError(f"The bag {path.name} holds {shown}: name the file to read, one at a time.")
    return files[0]


def check_readable(path: Path, suffix: str) -> None:
    if path.is_dir():
        near = sorted(p.name for p in path.iterdir() if p.suffix.lower() in SUFFIXES)[:5]
        raise DataError(f"{path} is a folder" + (f" with {', '.join(near)}: name one of these." if near else "."))
    if suffix not in SUFFIXES:
        advice = f" For such a file: {ADVICE[suffix]}." if suffix in ADVICE else ""
        raise DataError(f'{path.name}: the suffix "{suffix}" is not known; it is one of {", ".join(SUFFIXES)}.{advice}')
    if not path.is_file():
        near = sorted(p.name for p in path.parent.glob(f"*{suffix}"))[:5] if path.parent.is_dir() else []
        raise DataError(f"There is no file {path}." + (f" In that folder: {', '.join(near)}." if near else ""))
    if path.stat().st_size == 0:
        raise DataError(f"{path.name} is empty (0 bytes): the recording was not saved.")
    with path.open("rb") as stream:
        likely = suffixes_by_content(stream.read(256))
    if likely and suffix not in (*TEXT, *likely):
        raise DataError(
            f"{path.name} is not a {suffix} file: its content is that of {' or '.join(likely[:2])}. Rename it to end "
            f'in "{likely[0]}", or save it anew as {suffix}.'
        )
