"""A few kills of writers and readings beside them; `python -m benchmarks kills` makes many."""

import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.hostile.kills import TARGETS, campaign, found_version, write_once

from kapitza.data import appending
from kapitza.errors import KapitzaError


def test_nothing_is_lost_when_a_writer_is_killed_or_writes_beside_a_reader():
    found = campaign(kills=len(TARGETS), readings=4 * len(TARGETS), seed=3)
    assert not found.lost, "\n".join(found.lost)
    assert found.kills == len(TARGETS)
    assert found.readings == 4 * len(TARGETS)


def test_every_moment_of_an_append_shows_a_complete_recording(tmp_path, monkeypatch):
    """Zarr writes the length of an array before its samples: a reader in between found times that were not there."""
    path, names, moments = tmp_path / "log.zarr", [], []
    plain = appending.replacing

    @contextmanager
    def kept(target):
        with plain(target) as draft:
            yield draft
        names.append(Path(target).name)
        # Read later: Zarr works in a thread that cannot wait for itself.
        moments.append(shutil.copytree(path, tmp_path / str(len(moments)) / path.name))

    write_once(path, 0)
    monkeypatch.setattr(appending, "replacing", kept)
    write_once(path, 1)
    assert names == ["0"] * 4 + ["zarr.json"] * 4  # chunks and descriptions of time, segment, x and v
    assert [found_version(moment) for moment in moments] == [0] * 7 + [1]


@pytest.mark.parametrize("last", range(8))
def test_an_append_stopped_after_any_file_is_repeated(tmp_path, monkeypatch, last):
    path, done = tmp_path / "log.zarr", []
    plain = appending.replacing

    @contextmanager
    def stopping(target):
        if len(done) == last:
            raise OSError(5, "gone")
        done.append(target)
        with plain(target) as draft:
            yield draft

    write_once(path, 0)
    monkeypatch.setattr(appending, "replacing", stopping)
    with pytest.raises((OSError, KapitzaError)):
        write_once(path, 1)
    monkeypatch.undo()
    assert found_version(path) == 0
    write_once(path, 1)
    assert found_version(path) == 1
