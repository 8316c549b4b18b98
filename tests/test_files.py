"""Writing: complete or not at all, through links, never over what is read-only or no file."""

import os
import stat

import pytest

import kapitza as kz
from kapitza.errors import KapitzaError, WriteError
from kapitza.files import replacing


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
