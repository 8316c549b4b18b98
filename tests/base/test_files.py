"""Writing: complete or not at all, through links, never over what is read-only or no file."""

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import kapitza as kz
from kapitza.base import files, locks
from kapitza.base.files import locked, replacing, replacing_folder
from kapitza.errors import KapitzaError, LockedError, WriteError


def put(path, text: str) -> None:
    with replacing(path) as draft:
        draft.write_text(text)


def put_half(path, problem: BaseException) -> None:
    with replacing(path) as draft:
        draft.write_text("half")
        raise problem


def test_folders_are_made_and_modes_kept(tmp_path):
    path = tmp_path / "a" / "b" / "c.toml"
    kz.write_model(kz.library.duffing(), path)
    mask = os.umask(0o022)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    path.chmod(0o640)
    kz.write_model(kz.library.lorenz(), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert kz.read_model(path).name == "lorenz"
    assert [p.name for p in path.parent.iterdir()] == ["c.toml"]


def test_links_stay_links(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "real" / "run.csv")
    for text in ("first", "second"):  # the first time it points to nothing
        put(link, text)
        assert link.is_symlink()
        assert (tmp_path / "real" / "run.csv").read_text() == text


def test_read_only_files_devices_and_folders_are_refused(tmp_path):
    path = tmp_path / "kept.csv"
    path.write_text("old")
    path.chmod(0o444)
    with pytest.raises(WriteError, match=r"kept\.csv.*read-only"):
        put(path, "new")
    assert path.read_text() == "old"
    with pytest.raises(WriteError, match="it is a folder"):
        put(tmp_path, "new")
    with pytest.raises(WriteError, match=r"/dev/null.*device"):
        put("/dev/null", "new")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(WriteError, match="device or a pipe"):
        put(tmp_path / "pipe", "new")
    with pytest.raises(WriteError, match="null character"):
        put(tmp_path / "a\0b", "new")


def test_failures_name_the_file_asked_for_and_leave_nothing(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(WriteError, match=r"file/run\.csv"):
        put(tmp_path / "file" / "run.csv", "new")
    path = tmp_path / "run.csv"
    with pytest.raises(WriteError, match=r'run\.csv" cannot be written: No space left'):
        put_half(path, OSError(28, "No space left on device", "draft"))
    with pytest.raises(KeyboardInterrupt):
        put_half(path, KeyboardInterrupt())
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    long = "x" * 250 + ".csv"
    put(tmp_path / long, "fits")
    assert (tmp_path / long).read_text() == "fits"


def test_messages_cannot_steer_a_terminal():
    text = str(KapitzaError("There is no \x1b[31mfile\x9b2J\u202e\nsecond line"))
    assert text == "There is no \\x1b[31mfile\\x9b2J\\u202e\nsecond line"


def put_folder(path, text: str, may_replace=lambda folder: None) -> None:
    with replacing_folder(path, may_replace) as draft:
        (draft / "text").write_text(text)


def test_a_folder_is_replaced_as_a_whole_through_links(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real" / "results")
    for text in ("first", "second"):  # the first time it points to nothing
        put_folder(link, text)
        assert link.is_symlink()
        assert (tmp_path / "real" / "results" / "text").read_text() == text
    (tmp_path / "real" / "results").chmod(0o750)
    put_folder(link, "third")
    assert stat.S_IMODE((tmp_path / "real" / "results").stat().st_mode) == 0o750
    assert [p.name for p in (tmp_path / "real").iterdir()] == ["results"]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_folder_that_may_not_be_replaced_stays(tmp_path, monkeypatch, at_once):
    if not at_once:
        monkeypatch.setattr(files, "_exchanged_at_once", lambda one, other: False)
    put_folder(tmp_path / "kept", "old")

    def refuse(folder):
        raise WriteError(f"{folder.name} is not ours")

    with pytest.raises(WriteError, match="kept is not ours"):
        put_folder(tmp_path / "kept", "new", refuse)
    with pytest.raises(KeyboardInterrupt), replacing_folder(tmp_path / "kept", lambda folder: None):
        raise KeyboardInterrupt
    with pytest.raises(WriteError, match="it is a file"):
        put_folder(tmp_path / "kept" / "text", "new")
    with pytest.raises(WriteError, match="null character"):
        put_folder(tmp_path / "a\0b", "new")
    assert (tmp_path / "kept" / "text").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]


def test_a_failed_exchange_leaves_the_old_folder(tmp_path, monkeypatch):
    put_folder(tmp_path / "kept", "old")
    monkeypatch.setattr(files, "_exchanged_at_once", lambda one, other: False)
    renamed = Path.rename

    def rename(self, target):
        if self.name == "kept" and Path(target).name == "kept":
            raise OSError(28, "No space left on device")
        return renamed(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(WriteError, match="No space left"):
        put_folder(tmp_path / "kept", "new")
    assert (tmp_path / "kept" / "text").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]


def test_drafts_of_live_writers_and_of_others_are_left_alone(tmp_path):
    foreign = tmp_path / f"{files.DRAFT}{'a' * 16}"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("mine")
    (tmp_path / f"{files.DRAFT}{'b' * 16}").symlink_to(foreign)
    with replacing(tmp_path / "one") as first:
        put(tmp_path / "two", "second")
        assert first.is_file()
        first.write_text("first")
    assert (tmp_path / "one").read_text() == "first"
    assert (foreign / "thesis.txt").read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 4


def test_killed_writers_lose_nothing():
    program = [sys.executable, str(Path(__file__).parent.parent / "killed_writers.py")]
    ran = subprocess.run(program, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert len(found) == 5
    # Every write has moments before and after its exchange.
    assert all(case["kills"] >= 20 and case["old"] >= 5 and case["new"] >= 2 for case in found.values()), found


EXCLUSIVE = """
import sys, time
from pathlib import Path
from kapitza.base import locks
if sys.argv[2] == "names":
    locks._kernel_locks = lambda folder: False
for _ in range(40):
    with locks.locked(sys.argv[1], wait=60.0):
        number = int(Path(sys.argv[1]).read_text())
        Path(sys.argv[1]).write_text(str(number + 1))
"""


@pytest.mark.parametrize("kind", ["kernel", "names"])
def test_one_holder_at_a_time(tmp_path, kind):
    counter = tmp_path / "counter"
    counter.write_text("0")
    link = tmp_path / "elsewhere"
    link.symlink_to(counter)
    program = [sys.executable, "-c", EXCLUSIVE]
    counting = [subprocess.Popen([*program, str(place), kind]) for place in (counter, link, counter)]
    assert [process.wait(120) for process in counting] == [0, 0, 0]
    assert counter.read_text() == "120"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["counter", "elsewhere"]


HOLDING = """
import os, sys, time
from kapitza.base import locks
if sys.argv[2] == "names":
    locks._kernel_locks = lambda folder: False
with locks.locked(sys.argv[1]):
    heard, said = os.pipe()
    child = os.fork()  # a worker that lives on when the holder is killed
    if child == 0:
        os.write(said, b"x")  # what a fork inherits is closed by now
        time.sleep(600)
    os.read(heard, 1)
    print(child, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("kind", ["kernel", "names"])
def test_a_lock_names_its_holder_and_ends_with_it(tmp_path, monkeypatch, kind):
    if kind == "names":
        monkeypatch.setattr(locks, "_kernel_locks", lambda folder: False)
    place = tmp_path / "results"
    holder = subprocess.Popen([sys.executable, "-c", HOLDING, str(place), kind], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    with holder.stdout:
        child = int(holder.stdout.readline())
    try:
        with (
            pytest.raises(LockedError, match=rf'results" is in use by process {holder.pid} on .*since 2'),
            locked(place),
        ):
            pass
        holder.kill()
        holder.wait()
        with locked(place), pytest.raises(LockedError, match=f"process {os.getpid()} on"), locked(place):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_a_lock_is_not_touched(tmp_path):
    file = locks.lock_file(tmp_path / "run")
    file.write_text("my own text")
    with pytest.raises(WriteError, match="is not a lock of Kapitza"), locked(tmp_path / "run"):
        pass
    assert file.read_text() == "my own text"
    file.unlink()
    (tmp_path / "thesis").write_text("mine")
    file.symlink_to(tmp_path / "thesis")
    with pytest.raises(WriteError, match="cannot be locked"), locked(tmp_path / "run"):
        pass
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(WriteError, match="is not a lock"), locked(tmp_path / "run"):
        pass
    assert (tmp_path / "thesis").read_text() == "mine"
    with pytest.raises(WriteError, match="cannot be locked"), locked(tmp_path / "no" / "folder"):
        pass


def test_without_the_calls_of_linux(tmp_path):
    """Windows and macOS: neither fcntl nor renameat2, the program runs by its own means."""
    text = """
import sys
sys.modules["fcntl"] = None
import ctypes
ctypes.CDLL = None
from kapitza.base import files, locks
assert locks.fcntl is None
assert not files._exchanged_at_once("a", "b")
"""
    subprocess.run([sys.executable, "-c", text], check=True, cwd=tmp_path, timeout=600)


def test_a_working_directory_that_changes_while_a_draft_is_written(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    with replacing("a.txt") as draft:
        draft.write_text("new")
        os.chdir("sub")
    assert (tmp_path / "a.txt").read_text() == "new"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.txt", "sub"]


def test_a_link_to_itself_is_refused(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(WriteError, match="leads to itself"), replacing(tmp_path / "loop"):
        pass
