"""Reader of HDF5.

MATLAB v7.3 and NetCDF-4 are HDF5 inside.

Nothing is followed out of the file. The structure is visited and sizes are added up before an array is read.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kapitza.base.arrays import Numbers
from kapitza.base.unpacking import INFLATION, Unpacking, inflate
from kapitza.data.columns import METADATA, parse_metadata
from kapitza.data.contents import Contents, stored_text, unit_text, units_among
from kapitza.errors import DataError

if TYPE_CHECKING:
    from h5py import ChunkInfo, Dataset, File, Link
    from h5py.h5o import ObjInfo

DEEPEST = 32
"""Levels of groups: names grow with each, and a search over thousands of levels takes minutes."""

MOST_LINKS = 100_000
"""Names in all groups together; MATLAB keeps the cells of its cell arrays as one dataset each."""

REFERENCE = 200
"""Bytes that a reference takes as an object of Python."""

DEFLATE, PACKING = 1, {1, 4, 32000}
"""Filters that pack: deflate, szip, LZF."""


def hdf5_contents(path: Path) -> Contents:
    """Return the datasets of a file by path.

    MATLAB v7.3 stores arrays transposed, and cells as references into "#refs#".
    """
    import h5py
    from h5py import h5o

    found, unpacking = Contents(), Unpacking(path)
    texts: dict[str, str] = {}
    with h5py.File(path, "r") as file:
        from_matlab = path.suffix.lower() == ".mat"

        def array(item: h5py.Dataset) -> Numbers:
            count_dataset(item, unpacking)
            value = np.asarray(item[()])
            return value.T if "MATLAB_class" in item.attrs or from_matlab else value

        def collect(encoded: bytes, about: ObjInfo) -> None:
            # Groups are not opened: that takes ten times as long as passing them.
            name = encoded.decode("utf-8", "surrogateescape")
            if about.type != h5o.TYPE_DATASET or name.split("/")[0] in ("#refs#", METADATA):
                return
            item: h5py.Dataset = file[encoded]
            if item.shape is None:
                return
            if h5py.check_ref_dtype(item.dtype) is h5py.Reference:
                count = int(item.size or 0)
                unpacking.add(REFERENCE * count, pieces=count)
                pieces = [file[reference] for reference in np.asarray(array(item)).ravel(order="F") if reference]
                arrays = [array(p) for p in pieces if isinstance(p, h5py.Dataset) and p.dtype.kind in "fiub"]
                if arrays:
                    found.add(name, arrays, path)
            elif item.dtype.kind in "fiub" and attribute(item, "MATLAB_class") == "char":
                texts[name.replace("/", ".")] = "".join(chr(c) for c in array(item).ravel(order="F")[:200])
            elif item.dtype.kind in "fiub":
                found.add(name, array(item), path)
                found.units[name] = unit_text(attribute(item, "units") or attribute(item, "unit"))

        check_links(file, path)
        h5o.visit(file.id, collect, info=True)
        about = file.get(METADATA)
        text = array(about) if isinstance(about, h5py.Dataset) else attribute(file, METADATA)
        found.metadata = parse_metadata(stored_text(text))
    dotted = {name.replace("/", "."): name for name in found.arrays}
    found.units |= {dotted[name]: unit for name, unit in units_among(texts, dotted).items()}
    return found


def attribute(item: Dataset | File, name: str) -> str:
    """Return the text of an attribute.

    "" where there is none or it is not one text.

    An array of texts may point to one long text a thousand times: it is not read.
    """
    if name not in item.attrs or math.prod(item.attrs.get_id(name).shape or ()) != 1:
        return ""
    value = np.asarray(item.attrs[name]).ravel()[0]
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return str(text) if isinstance(text, str) else ""


def count_dataset(item: Dataset, unpacking: Unpacking) -> None:
    """Add the size to which a dataset unpacks.

    It counts its numbers, and whole chunks where it has some.
    """
    refuse_other_files(item, unpacking.path)
    size, width = int(item.size or 0), item.dtype.itemsize
    if item.chunks is None:
        unpacking.add(size * width)
        return
    pieces = math.prod(-(-length // chunk) for length, chunk in zip(item.shape or (), item.chunks, strict=True))
    # A chunk is unpacked as a whole, even where the array ends inside it.
    unpacking.add(max(size, math.prod(item.chunks)) * width, pieces)
    check_packed_chunks(item, unpacking)


def check_packed_chunks(item: Dataset, unpacking: Unpacking) -> None:
    """Refuse chunks that inflate beyond the limit.

    HDF5 unpacks them to the end, whatever their shape is.
    """
    plist = item.id.get_create_plist()
    filters = [plist.get_filter(k)[0] for k in range(plist.get_nfilters())]
    if sum(f in PACKING for f in filters) > 1:
        raise DataError(f'{unpacking.path.name}: "{item.name}" is packed twice, which is not unpacked: pack it once.')
    # Short chunks cannot reach the limit.
    suspicious = unpacking.left // INFLATION
    if DEFLATE not in filters or unpacking.stored <= suspicious:
        return
    found: list[tuple[int, ...]] = []

    def note(chunk: ChunkInfo) -> None:
        if chunk.size > suspicious:
            found.append(chunk.chunk_offset)

    item.id.chunk_iter(note)
    for offset in found:
        inflate(item.id.read_direct_chunk(offset)[1], unpacking)


def refuse_other_files(item: Dataset, path: Path) -> None:
    """Refuse a dataset whose numbers are in other files.

    It may name any file of the computer; such a link is not followed.
    """
    if item.external or item.is_virtual:
        kind = "in another file (external storage)" if item.external else "in other files (a virtual dataset)"
        raise DataError(f'{path.name}: the numbers of "{item.name}" lie {kind}, which is not followed: copy them in.')


def check_links(file: File, path: Path) -> None:
    """Refuse links that cannot be followed safely.

    These are names of other files, groups nested without end, and more names than can be visited.
    """
    from h5py import h5l

    seen = 0

    def wrong(encoded: bytes, link: Link) -> str | None:
        nonlocal seen
        seen += 1
        if link.type == h5l.TYPE_EXTERNAL:
            name = encoded.decode("utf-8", "replace")
            return f'"{name}" is a link to another file, which is not followed: copy the numbers in'
        if encoded.count(b"/") >= DEEPEST:
            return f"its groups are nested more than {DEEPEST} times: it is damaged, or made to keep the reader busy"
        if seen > MOST_LINKS:
            return f"it holds more than {MOST_LINKS} names: it is not a recording"
        return None

    # An exception does not pass the visit: it ends at the first text that comes back.
    found = file.id.links.visit(wrong, info=True)
    if found is not None:
        raise DataError(f"{path.name}: {found}.")
