"""Records read in chunks: the same orbits, in bounded memory."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import DataError
from kapitza.orbits.in_records import section_from_chunks


@pytest.fixture(scope="module")
def points():
    x, y = 0.1, 0.1
    out = np.empty((30000, 2))
    for i in range(len(out)):
        x, y = 1 - 1.4 * x * x + y, 0.3 * x
        out[i] = x, y
    return out[50:]


def pieces(points, size):
    return lambda: (points[i : i + size] for i in range(0, len(points), size))


def test_roomy_cells_keep_every_point_in_order(points):
    section = section_from_chunks(pieces(points, 700), ("x", "y"), (False, False), 1.0, per_cell=10**6)
    assert np.array_equal(section.sample, np.arange(len(points)))
    assert section.unit * section.scale == pytest.approx(points)


def test_orbits_from_chunks_satisfy_the_map(points):
    section = section_from_chunks(pieces(points, 4096), ("x", "y"), (False, False), 1.0, cell=0.02, per_cell=60)
    assert section.size < 0.9 * len(points)
    orbits = kz.SectionSearch().search(section, 4)
    assert [sum(o.repeats == p for o in orbits) for p in range(1, 5)] == [1, 1, 0, 1]
    for orbit in orbits:
        x, y = orbit.points.T
        image = np.column_stack([1 - 1.4 * x * x + y, 0.3 * x])
        assert np.abs(image - np.roll(orbit.points, -1, axis=0)).max() < 1e-4


def test_kept_points_are_bounded_by_the_cells_of_the_attractor(points):
    """At most `per_cell` points of a cell and the image of each."""
    longer = np.tile(points, (5, 1))
    section = section_from_chunks(
        pieces(longer, 5000), ("x", "y"), (False, False), 1.0, cell=0.02, per_cell=20, tolerance=1e-12, max_period=1
    )
    cells = len(np.unique(np.floor(points / np.ptp(points, axis=0) / 0.02), axis=0))
    assert section.size <= 2 * 20 * cells
    assert section.size < 0.1 * len(longer)


def test_wrong_chunks_are_refused(points):
    with pytest.raises(DataError, match="one per state"):
        section_from_chunks(pieces(points, 500), ("x",), (False,), 1.0)
    with pytest.raises(DataError, match="at least ten"):
        section_from_chunks(pieces(points[:4], 2), ("x", "y"), (False, False), 1.0)


def test_slips_with_chunks_are_named(points):
    two = (("x", "y"), (False, False), 1.0)
    with pytest.raises(DataError, match="starts it anew"):
        section_from_chunks([points], *two)
    once = iter([points])
    with pytest.raises(DataError, match="first pass"):
        section_from_chunks(lambda: once, *two)
    with pytest.raises(DataError, match="3 states and 2 angles"):
        section_from_chunks(pieces(points, 500), ("x", "y", "z"), (False, False), 1.0)
    with pytest.raises(DataError, match='"y" does not change'):
        section_from_chunks(pieces(points * [1.0, 0.0], 500), *two)
    with pytest.raises(DataError, match="cell = 0"):
        section_from_chunks(pieces(points, 500), *two, cell=0.0)


def test_empty_chunks_are_passed_over(points):
    parts = [points[:5000], np.empty((0, 2)), points[5000:]]
    plain = section_from_chunks(lambda: iter([points]), ("x", "y"), (False, False), 1.0)
    assert np.array_equal(
        section_from_chunks(lambda: iter(parts), ("x", "y"), (False, False), 1.0).sample, plain.sample
    )
