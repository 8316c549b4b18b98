"""Check of MATLAB v5 files before SciPy reads them.

SciPy looks up types in tables by the codes of the file, unchecked: a flipped bit ends the process. So every element is
visited first: its code must be known, its size must fit into its container, and the memory of the arrays is counted.
"""

from __future__ import annotations

import math
import mmap
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from kapitza.base.unpacking import Unpacking, inflate
from kapitza.errors import DataError

MATRIX, PACKED = 14, 15
NUMBERS = {1, 2, 3, 4, 5, 6, 7, 9, 12, 13}
TEXTS = {16, 17, 18}
CELL, STRUCTURE, OBJECT, TEXT, SPARSE, LAST_CLASS = 1, 2, 3, 4, 5, 17
COMPLEX = 0x0800  # the flag of an array of complex numbers
DEEPEST = 50
OBJECT_BYTES = 200
"""Bytes of a cell or of a field of a structure: an array object of NumPy of its own."""

WIDTHS = {TEXT: 4, 7: 4, 8: 1, 9: 1, 10: 2, 11: 2, 12: 4, 13: 4}
"""Bytes of a number of a class in memory; 8 of the others."""


@dataclass(frozen=True)
class Checked:
    """A file that is checked.

    It has an order of bytes, and a size to which it unpacks.
    """

    path: Path
    order: str
    unpacking: Unpacking

    def damaged(self, why: str) -> DataError:
        return _damaged(self.path, why)


def _damaged(path: Path, why: str) -> DataError:
    return DataError(f"{path.name} cannot be read as .mat: {why}. It is damaged.")


def check_structure(path: Path, unpacking: Unpacking) -> None:
    """Refuse a damaged or too large file.

    Its arrays must not unpack beyond the limit.
    """
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
        if order is None:
            raise _damaged(path, "the mark of the byte order is missing")
        with memoryview(content) as whole:
            top(whole[128:], Checked(path, order, unpacking))


def top(content: memoryview, file: Checked) -> None:
    """Check the variables, one after another.

    Packed variables are unpacked for the check.
    """
    position = 0
    with content:
        while position + 8 <= len(content):
            kind, size = struct.unpack_from(f"{file.order}II", content, position)
            if kind not in (MATRIX, PACKED) or size > len(content) - position - 8:
                raise file.damaged(f"a variable has the type {kind} and {size} bytes")
            with content[position + 8 : position + 8 + size] as inside:
                if kind == MATRIX:
                    matrix(inside, file, 0)
                else:
                    with memoryview(unpack(inside, file)) as view:
                        variable(view, file)
            # Packed elements are not padded.
            position += 8 + (size if kind == PACKED else -(-size // 8) * 8)


def unpack(packed: memoryview, file: Checked) -> bytes:
    try:
        content = inflate(packed, file.unpacking)
    except zlib.error as problem:
        raise file.damaged(str(problem)) from problem
    file.unpacking.add(len(content))
    return content


def variable(content: memoryview, file: Checked) -> None:
    if len(content) < 8:
        raise file.damaged("a packed variable is cut")
    kind, size = struct.unpack_from(f"{file.order}II", content, 0)
    if kind != MATRIX or size > len(content) - 8:
        raise file.damaged(f"a packed variable has the type {kind} and {size} bytes of {len(content) - 8}")
    with content[8 : 8 + size] as inside:
        matrix(inside, file, 0)


def matrix(content: memoryview, file: Checked, depth: int) -> None:
    """Check one array.

    Flags, dimensions and name come first, then the parts that its class requires. An empty element is an empty array.
    """
    if not len(content):
        return
    if depth > DEEPEST:
        raise file.damaged(f"arrays are nested {DEEPEST} times")
    parts = elements(content, file)
    if not parts or parts[0][0] != 6 or parts[0][2] - parts[0][1] != 8:
        raise file.damaged("an array has no flags")
    flags = struct.unpack_from(f"{file.order}I", content, parts[0][1])[0]
    kind, imaginary = flags & 0xFF, bool(flags & COMPLEX)
    if not 1 <= kind <= LAST_CLASS:
        raise file.damaged(f"an array has the class {kind}")
    if kind > 15:  # functions and objects of MATLAB: no data
        return
    if len(parts) < 3 or parts[1][0] != 5 or parts[2][0] not in (1, 2, *TEXTS):
        raise file.damaged("an array has no dimensions or no name")
    wanted = {TEXT: 4, SPARSE: 6 + imaginary}.get(kind, 4 + imaginary)
    if kind not in (CELL, STRUCTURE, OBJECT) and len(parts) < wanted:
        raise file.damaged(f"an array of class {kind} has {len(parts) - 3} of its {wanted - 3} parts")
    count_array(content, parts, flags, file)
    allowed = {CELL: {MATRIX}, STRUCTURE: {1, 2, 5, MATRIX}, OBJECT: {1, 2, 5, MATRIX}, TEXT: NUMBERS | TEXTS}
    for code, begin, end in parts[3:]:
        if code not in allowed.get(kind, NUMBERS):
            raise file.damaged(f"an array of class {kind} holds the type {code}")
        if code == MATRIX:
            with content[begin:end] as inside:
                matrix(inside, file, depth + 1)


def count_array(content: memoryview, parts: list[tuple[int, int, int]], flags: int, file: Checked) -> None:
    """Add the memory of an array by its dimensions.

    The dimensions are those that the file states.
    """
    _, begin, end = parts[1]
    lengths = struct.unpack_from(f"{file.order}{(end - begin) // 4}i", content, begin)
    if any(length < 0 for length in lengths):
        raise file.damaged(f"an array has the dimensions {lengths[:4]}")
    count, kind = math.prod(lengths), flags & 0xFF
    inside = sum(code == MATRIX for code, _, _ in parts[3:])
    if kind in (CELL, STRUCTURE, OBJECT):
        # A structure without fields has no parts, but as many places as its dimensions state.
        file.unpacking.add(OBJECT_BYTES * max(count, inside))
    elif kind != SPARSE:  # the dimensions of a sparse array do not determine its size
        file.unpacking.add((2 if flags & COMPLEX else 1) * WIDTHS.get(kind, 8) * count)


def elements(content: memoryview, file: Checked) -> list[tuple[int, int, int]]:
    """Return type, begin and end of each element.

    The elements are those inside an array.
    """
    found: list[tuple[int, int, int]] = []
    position = 0
    while position + 8 <= len(content):
        word, size = struct.unpack_from(f"{file.order}II", content, position)
        begin = position + 8
        if word >> 16:  # up to four bytes stand in the tag itself
            word, size, begin = word & 0xFFFF, word >> 16, position + 4
            position += 8
        else:
            position = begin + -(-size // 8) * 8
        end = begin + size
        if end > len(content) or (begin % 8 and size > 4):
            raise file.damaged(f"an element of {size} bytes ends beyond its array")
        found.append((word, begin, end))
    return found
