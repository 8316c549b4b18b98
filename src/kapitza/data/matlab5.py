"""The structure of MATLAB v5 files, checked before SciPy reads them.

SciPy looks up types in tables by the codes of the file, unchecked: a flipped bit ends the process. So every element is
visited first: known codes, sizes that fit into what holds them, no packed element that fills the memory.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from pathlib import Path

from kapitza.errors import DataError

MATRIX, PACKED = 14, 15
NUMBERS = {1, 2, 3, 4, 5, 6, 7, 9, 12, 13}
TEXTS = {16, 17, 18}
CELL, STRUCTURE, OBJECT, TEXT, SPARSE, LAST_CLASS = 1, 2, 3, 4, 5, 17
COMPLEX = 0x0800  # the flag of an array of complex numbers
DEEPEST = 50


def check_structure(path: Path, most: int) -> None:
    """Refuse a damaged file. most: bytes to which its packed elements may unpack together."""
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
        if order is None:
            raise damaged(path, "the mark of the byte order is missing")
        with memoryview(content) as whole:
            top(whole[128:], order, path, most)


def damaged(path: Path, why: str) -> DataError:
    return DataError(f"{path.name} cannot be read as .mat: {why}. It is damaged.")


def top(content: memoryview, order: str, path: Path, most: int) -> None:
    """The variables, one after another; packed ones are unpacked to be visited."""
    position, left = 0, most
    with content:
        while position + 8 <= len(content):
            kind, size = struct.unpack_from(f"{order}II", content, position)
            if kind not in (MATRIX, PACKED) or size > len(content) - position - 8:
                raise damaged(path, f"a variable has the type {kind} and {size} bytes")
            with content[position + 8 : position + 8 + size] as inside:
                if kind == MATRIX:
                    matrix(inside, order, path, 0)
                else:
                    unpacked = unpack(inside, left, path)
                    left -= len(unpacked)
                    with memoryview(unpacked) as view:
                        variable(view, order, path)
            # Packed elements are not padded.
            position += 8 + (size if kind == PACKED else -(-size // 8) * 8)


def unpack(packed: memoryview, most: int, path: Path) -> bytes:
    machine = zlib.decompressobj()
    try:
        content = machine.decompress(packed, max(most, 1) + 1)
    except zlib.error as problem:
        raise damaged(path, str(problem)) from problem
    if len(content) > most:
        raise DataError(
            f"{path.name} declares more than {most / 8:.3g} numbers for its size: it is damaged, or made to fill the "
            "memory."
        )
    return content


def variable(content: memoryview, order: str, path: Path) -> None:
    if len(content) < 8:
        raise damaged(path, "a packed variable is cut")
    kind, size = struct.unpack_from(f"{order}II", content, 0)
    if kind != MATRIX or size > len(content) - 8:
        raise damaged(path, f"a packed variable has the type {kind} and {size} bytes of {len(content) - 8}")
    with content[8 : 8 + size] as inside:
        matrix(inside, order, path, 0)


def matrix(content: memoryview, order: str, path: Path, depth: int) -> None:
    """Flags, dimensions and name, then what the class asks for; an empty one is an empty array."""
    if not len(content):
        return
    if depth > DEEPEST:
        raise damaged(path, f"arrays are nested {DEEPEST} times")
    parts = elements(content, order, path)
    if not parts or parts[0][0] != 6 or parts[0][2] - parts[0][1] != 8:
        raise damaged(path, "an array has no flags")
    flags = struct.unpack_from(f"{order}I", content, parts[0][1])[0]
    kind, imaginary = flags & 0xFF, bool(flags & COMPLEX)
    if not 1 <= kind <= LAST_CLASS:
        raise damaged(path, f"an array has the class {kind}")
    if kind > 15:  # functions and objects of MATLAB: no data
        return
    if len(parts) < 3 or parts[1][0] != 5 or parts[2][0] not in (1, 2, *TEXTS):
        raise damaged(path, "an array has no dimensions or no name")
    wanted = {TEXT: 4, SPARSE: 6 + imaginary}.get(kind, 4 + imaginary)
    if kind not in (CELL, STRUCTURE, OBJECT) and len(parts) < wanted:
        raise damaged(path, f"an array of class {kind} has {len(parts) - 3} of its {wanted - 3} parts")
    allowed = {CELL: {MATRIX}, STRUCTURE: {1, 2, 5, MATRIX}, OBJECT: {1, 2, 5, MATRIX}, TEXT: NUMBERS | TEXTS}
    for code, begin, end in parts[3:]:
        if code not in allowed.get(kind, NUMBERS):
            raise damaged(path, f"an array of class {kind} holds the type {code}")
        if code == MATRIX:
            with content[begin:end] as inside:
                matrix(inside, order, path, depth + 1)


def elements(content: memoryview, order: str, path: Path) -> list[tuple[int, int, int]]:
    """Type, begin and end of the data of each element inside an array."""
    found, position = [], 0
    while position + 8 <= len(content):
        word, size = struct.unpack_from(f"{order}II", content, position)
        begin = position + 8
        if word >> 16:  # up to four bytes stand in the tag itself
            word, size, begin = word & 0xFFFF, word >> 16, position + 4
            position += 8
        else:
            position = begin + -(-size // 8) * 8
        end = begin + size
        if end > len(content) or (begin % 8 and size > 4):
            raise damaged(path, f"an element of {size} bytes ends beyond its array")
        found.append((word, begin, end))
    return found
