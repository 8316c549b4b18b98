"""The list of suffixes of files.

It states which files are read and written.

A new binary kind of file needs a line in `READERS` and a function in `data/formats` that returns its groups of
channels; a suffix of text goes into `TEXT`, one of files with named arrays into `CONTAINERS` (read by
data/containers.py), one that is written into `WRITABLE` (by data/write.py).
Nothing is imported here: the command line shows these lists before it needs a library.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reader:
    """The reader of a kind of file.

    It names module and function in data/formats, the library ("": none is needed), and the extra that installs it.
    """

    what: str
    module: str
    function: str
    library: str
    extra: str


_WORKBOOK = Reader("an Excel workbook", "workbook", "read_workbook", "python_calamine", "formats")
_UFF = Reader("a universal file (data set 58)", "uff", "read_uff", "pyuff", "formats")
_MDF = Reader("an MDF file", "mdf", "read_mdf", "asammdf", "mdf")
_BAG = Reader("a ROS bag", "bags", "read_bag", "rosbags", "formats")

READERS = {
    ".xlsx": _WORKBOOK,
    ".xlsm": _WORKBOOK,
    ".tdms": Reader("a TDMS file (LabVIEW)", "tdms", "read_tdms", "nptdms", "formats"),
    ".uff": _UFF,
    ".unv": _UFF,
    ".wav": Reader("a WAV file", "sound", "read_wav", "scipy", ""),
    ".mf4": _MDF,
    ".mdf": _MDF,
    ".bag": _BAG,
    ".db3": _BAG,
    ".mcap": _BAG,
}
"""Suffix → reader."""

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
"""Text that is written → its separator."""

TEXT = (*SEPARATORS, ".dat", ".asc")
CONTAINERS = (".mat", ".h5", ".hdf5", ".nc", ".npz")
FOLDERS = (".zarr", ".parquet")
"""Recordings that may be folders, and larger than the memory."""

LAB = tuple(READERS)
"""Files of acquisition systems: groups of channels with clocks."""

SUFFIXES = (*TEXT, *FOLDERS, *CONTAINERS, *LAB)
"""Files that `read` takes."""

WRITABLE = (*SEPARATORS, *FOLDERS, ".h5", ".hdf5", ".mat", ".npz", ".uff")
"""Files that `write` makes."""

ADVICE = {
    ".xls": "save it as .xlsx or .csv",
    ".ods": "save it as .xlsx or .csv",
    ".lvm": "rename it to .txt",
    ".blf": "convert it to .mf4",
    ".dxd": "export it as .uff or .csv",
    ".pkl": "pickles are code: save it as .npz",
    ".pickle": "pickles are code: save it as .npz",
    ".npy": "save it with its times as .npz",
    ".json": "save it as .csv",
    ".feather": "save it as .parquet",
    ".gz": "unpack it first",
    ".zip": "unpack it first",
}
"""Suffixes of files that are not read → what to do instead."""

SIGNATURES = {
    b"PAR1": (".parquet",),
    b"TDSm": (".tdms",),
    b"RIFF": (".wav",),
    b"MDF ": (".mf4", ".mdf"),
    b"#ROSBAG": (".bag",),
    b"SQLite format 3": (".db3",),
    b"\x89MCAP": (".mcap",),
    b"\x89HDF": (".h5", ".hdf5", ".mat", ".nc"),
    b"MATLAB 5.0": (".mat",),
    b"PK\x03\x04": (".xlsx", ".xlsm", ".npz"),
}
"""First bytes of files → their suffixes, the usual one first."""

LETTERS = frozenset(range(32, 127)) | set(b"\t\r\n")


def suffixes_by_content(head: bytes) -> tuple[str, ...]:
    """Return the suffixes that the first bytes of a file belong to; () where they do not show it."""
    known = next((suffixes for sign, suffixes in SIGNATURES.items() if head.startswith(sign)), ())
    # Text has lines; data set 58 is text too.
    return known or ((*TEXT, ".uff", ".unv") if b"\n" in head and LETTERS.issuperset(head) else ())
