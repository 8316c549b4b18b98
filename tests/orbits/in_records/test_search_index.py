"""Searches near few of many points give what a search tree of all points gives."""

import numpy as np
import pytest
from scipy.spatial import KDTree

from kapitza.orbits.in_records import search_index
from kapitza.orbits.in_records.search_index import SearchIndex

CASES = {"line": [False], "plane": [False, False], "cylinder": [True, False], "space": [False, True, False]}


@pytest.fixture
def many(monkeypatch):
    monkeypatch.setattr(search_index, "MANY_POINTS", 1000)


def cloud(angles, size=6000):
    """Points that fill their space, angles in [0, 1), the others below and above zero."""
    random = np.random.default_rng(len(angles))
    unit = random.uniform(0.0, 1.0, (size, len(angles)))
    unit[:, ~np.array(angles)] -= 0.3
    follows = random.random(size) < 0.9
    return unit, follows, random


def brute(unit, follows, angles, centre):
    """Distances to all starts, and their rows."""
    rows = np.flatnonzero(follows)
    gap = unit[rows] - centre
    gap[:, angles] -= np.round(gap[:, angles])
    return np.linalg.norm(gap, axis=1), rows


@pytest.mark.parametrize("name", CASES)
def test_nearest_points_are_those_of_all_points(name, many):
    angles = np.array(CASES[name])
    unit, follows, random = cloud(angles)
    index = SearchIndex(unit, follows, angles)
    # Places on the borders of cells and of a turn, and one far outside; many neighbours reach beyond the cells.
    places = np.concatenate([random.uniform(0.0, 0.7, (3, len(angles))), np.zeros((1, len(angles)))])
    far = np.where(angles, 0.5, 7.3)[None]
    for centres, count in ((places, 1), (places, 3), (places, 40), (far, 3), (places, 2000)):
        distance, rows = index.nearest(centres, count)
        assert distance.shape == rows.shape == (len(centres), count)
        for k, centre in enumerate(centres):
            expected, starts = brute(unit, follows, angles, centre)
            order = np.argsort(expected)[:count]
            assert np.allclose(distance[k], expected[order], rtol=0, atol=1e-12)
            assert set(rows[k]) == set(starts[order])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("radius", [0.0, 1e-3, 0.01, 0.05, 0.3, 0.9])
def test_counts_are_those_of_all_points(name, radius, many):
    angles = np.array(CASES[name])
    unit, follows, _ = cloud(angles)
    index = SearchIndex(unit, follows, angles)
    centres = np.concatenate([unit[:2], np.zeros((1, len(angles)))])
    counts, starts = index.count_within(centres, radius), []
    for centre in centres:
        distance, rows = brute(unit, follows, angles, centre)
        starts.append(rows[distance <= radius])
        assert sorted(index.within(centre, radius)) == starts[-1].tolist()
    assert counts.tolist() == [len(rows) for rows in starts]


def test_many_places_are_counted_with_a_tree(many):
    unit, follows, _ = cloud([False, False])
    index = SearchIndex(unit, follows, np.array([False, False]))
    expected = KDTree(unit[follows]).query_ball_point(unit[:50], 0.02, return_length=True)
    assert index.count_within(unit[:50], 0.02).tolist() == expected.tolist()


def test_few_places_need_no_tree_of_all_points(many, monkeypatch):
    sizes, made = [], search_index._tree_of

    def counted(points, circle):
        sizes.append(len(points))
        return made(points, circle)

    monkeypatch.setattr(search_index, "_tree_of", counted)
    unit, follows, _ = cloud([False, False])
    index = SearchIndex(unit, follows, np.array([False, False]))
    for place in unit[:3]:
        index.nearest(place[None], 1)
    index.within(unit[0], 0.01)
    assert sizes
    assert max(sizes) < 100


def test_a_draw_of_starts_is_made_once():
    unit, follows, _ = cloud([False, False])
    index = SearchIndex(unit, follows, np.array([False, False]))
    flags, part = index.thinned(100, 0)
    assert flags.sum() == 100
    assert follows[flags].all()
    assert index.thinned(100, 0)[1] is part
    assert (index.thinned(100, 1)[0] != flags).any()


def test_rows_count_the_images_that_follow():
    follows = np.array([True, True, False, False, True, False])
    index = SearchIndex(np.zeros((6, 1)), follows, np.array([False]))
    assert index.run.tolist() == [2, 1, 0, 0, 1, 0]
