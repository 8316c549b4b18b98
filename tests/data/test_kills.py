"""A few kills of writers and readings beside them; `python -m benchmarks kills` makes many."""

from tests.hostile.kills import TARGETS, campaign


def test_nothing_is_lost_when_a_writer_is_killed_or_writes_beside_a_reader():
    found = campaign(kills=len(TARGETS), readings=4 * len(TARGETS), seed=3)
    assert not found.lost, "\n".join(found.lost)
    assert found.kills == len(TARGETS)
    assert found.readings == 4 * len(TARGETS)
