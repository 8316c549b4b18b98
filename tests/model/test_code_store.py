"""The store of compiled code: refused where others can write it or it is damaged; the work goes on without it."""

import os
import sqlite3
import subprocess
import sys

import pytest

from kapitza.model.code_store import damage, distrust

WORK = "import kapitza as kz; print(kz.simulate(kz.library.duffing(), periods=2).size)"


def worked(**environment: str | None) -> str:
    """What a fresh process reports on standard error; its answer must be right."""
    gone = ("HEYOKA_CACHE_DIR", "XDG_CACHE_HOME", "KAPITZA_WITHOUT_STORE")
    known = {k: v for k, v in os.environ.items() if k not in gone} | {"PYTHONPATH": os.pathsep.join(sys.path)}
    known = {k: v for k, v in (known | environment).items() if v is not None}
    done = subprocess.run([sys.executable, "-c", WORK], env=known, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "3"
    return done.stderr


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    place = tmp_path_factory.mktemp("cache")
    assert worked(XDG_CACHE_HOME=str(place)) == ""
    return place / "kapitza"


@pytest.fixture
def copy(store, tmp_path):
    folder = tmp_path / "kapitza"
    folder.mkdir(mode=0o755)
    folder.joinpath("cache.db").write_bytes(store.joinpath("cache.db").read_bytes())
    assert distrust(folder) == damage(folder) == ""
    folder.joinpath("checked").unlink()
    return folder


def test_without_a_home_there_is_no_store(tmp_path):
    assert worked(HOME=None) == ""
    assert worked(HOME=str(tmp_path / "a" / "b")) == ""
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_others_can_write_is_refused(copy):
    copy.chmod(0o777)
    assert "can be written by other users: chmod go-w" in distrust(copy)
    said = worked(XDG_CACHE_HOME=str(copy.parent))
    assert said.count("Compiled code is not kept") == 1
    copy.chmod(0o755)
    (copy / "cache.db").chmod(0o666)
    assert "cache.db can be written by other users" in distrust(copy)
    # Nobody else comes to files in a folder that is closed.
    copy.chmod(0o700)
    assert distrust(copy) == ""
    copy.parent.chmod(0o777)
    assert f"{copy.parent} can be written" in distrust(copy)
    copy.parent.chmod(0o1777)
    assert distrust(copy) == ""


def test_a_journal_that_ends_while_it_is_looked_at_does_no_harm(copy, monkeypatch):
    entries = [copy / "cache.db-wal", *copy.iterdir()]
    monkeypatch.setattr(type(copy), "iterdir", lambda folder: iter(entries))
    assert distrust(copy) == ""


def test_links_in_the_store_are_refused(copy):
    target = copy.parent / "theirs.db"
    (copy / "cache.db").rename(target)
    (copy / "cache.db").symlink_to(target)
    assert "is a link" in distrust(copy)
    link = copy.parent / "link"
    link.symlink_to(copy)
    (copy / "cache.db").unlink()
    assert distrust(link) == ""
    copy.chmod(0o777)
    assert "can be written" in distrust(link)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only the superuser can give files away")
def test_a_store_of_another_user_is_refused(copy):
    os.chown(copy / "cache.db", 1234, 1234)
    assert "belongs to another user" in distrust(copy)
    os.chown(copy, 1234, 1234)
    assert "belongs to user 1234" in distrust(copy)


@pytest.mark.parametrize("kind", ["garbage", "cut", "short"])
def test_a_damaged_store_is_refused(copy, kind):
    """A short entry ended the process by a segmentation fault."""
    path = copy / "cache.db"
    if kind == "garbage":
        path.write_bytes(b"no database" * 1000)
    elif kind == "cut":
        path.write_bytes(path.read_bytes()[:20000])
    else:
        with sqlite3.connect(path) as entries:
            entries.execute("UPDATE cache SET obj = substr(obj, 1, 200)")
        entries.close()
    assert "is damaged; remove the folder" in damage(copy)
    if kind == "short":
        assert worked(XDG_CACHE_HOME=str(copy.parent)).count("is damaged") == 1
