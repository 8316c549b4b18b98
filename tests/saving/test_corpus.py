"""Files of every release are read: classes may move, get other names and other fields."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
from tests.saving.write_corpus import CORPUS, facts_of, recorded_fields

import kapitza as kz
from kapitza.errors import DataError
from kapitza.saving import classes, reader, writer
from kapitza.saving.classes import CHANGES, RENAMED, Change, version_of

RELEASES = sorted(folder for folder in CORPUS.iterdir() if folder.is_dir())
FILES = [pytest.param(path, id=f"{path.parent.name}/{path.stem}") for f in RELEASES for path in sorted(f.glob("*.nc"))]


def assert_near(one, other, place=""):
    if isinstance(one, dict):
        assert list(one) == list(other), place
        for key in one:
            assert_near(one[key], other[key], f"{place}.{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), place
        for number, pair in enumerate(zip(one, other, strict=True)):
            assert_near(*pair, f"{place}.{number}")
    elif isinstance(one, float):
        np.testing.assert_allclose(one, other, rtol=1e-12, err_msg=place)
    else:
        assert one == other, place


@pytest.mark.parametrize("path", FILES)
def test_a_file_of_a_release_is_read(path, tmp_path):
    expected = json.loads((path.parent / "expected.json").read_text(encoding="utf-8"))[path.name]
    noun = kz.load(path)
    assert_near(facts_of(noun), expected)
    again = kz.load(kz.save(noun, tmp_path / "again.nc"))
    assert_near(facts_of(again), expected)


@pytest.mark.parametrize("folder", RELEASES, ids=lambda folder: folder.name)
def test_fields_of_a_release_are_still_understood(folder):
    """A field that was renamed or removed needs a version and a change; a new one needs a default."""
    now = recorded_fields()
    for name, then in json.loads((folder / "fields.json").read_text(encoding="utf-8")).items():
        here = RENAMED.get(name, name)
        assert here in now, f"{name} is gone: enter its new name in RENAMED of saving/classes.py"
        changes = [CHANGES.get((here, v), Change()) for v in range(then["version"], version_of(here))]
        if any(change.convert for change in changes):
            continue  # only the files above can tell
        kept = dict.fromkeys(then["fields"])
        for change in changes:
            kept = change(kept)
        lost = set(kept) - set(now[here]["fields"])
        assert not lost, f"{here} has no field {lost} any more: one more in VERSIONS, and the change in CHANGES"
        missing = set(now[here]["needed"]) - set(kept)
        assert not missing, f"{missing} of {here} is new and has no default: files without it cannot be read"


@dataclass(frozen=True)
class Old:
    """As an earlier release had it."""

    size: float
    colour: str


@dataclass(frozen=True)
class New:
    """The same under another name, with one field renamed, one dropped and one new."""

    length: float
    weight: float = 2.0


def test_a_renamed_class_with_renamed_fields_is_read(tmp_path, monkeypatch):
    for module in (classes, reader, writer):
        monkeypatch.setattr(module, "HOMES", {"Old": __name__})
    path = kz.save(Old(1.5, "red"), tmp_path / "old.nc")
    for module in (classes, reader, writer):
        monkeypatch.setattr(module, "HOMES", {"New": __name__})
    with pytest.raises(DataError, match='a "Old", which this version does not know'):
        kz.load(path)
    monkeypatch.setitem(classes.RENAMED, "Old", "New")
    with pytest.raises(DataError, match=r'field "colour".*newer'):
        kz.load(path)
    monkeypatch.setitem(classes.VERSIONS, "New", 2)
    monkeypatch.setitem(classes.CHANGES, ("New", 1), Change({"size": "length"}, ("colour",)))
    assert kz.load(path) == New(1.5)
    newer = kz.save(New(3.0, 4.0), tmp_path / "new.nc")
    assert kz.load(newer) == New(3.0, 4.0)
    monkeypatch.setitem(classes.VERSIONS, "New", 1)
    with pytest.raises(DataError, match='"New" of version 2, this version of Kapitza reads up to 1: update it'):
        kz.load(newer)
