"""Writers of files and folders.

A file or folder appears complete or not at all. The whole project writes by this code.

with replacing(path) as draft:
    draft.write_text(text, encoding="utf-8")

with replacing_folder(path, may_replace) as draft:
    (draft / "part.txt").write_text(text, encoding="utf-8")

A draft is written inside a hidden folder `.kapitza-draft-…` beside its target, brought to the disk (fsync), and put in
its place by one renaming. The writer holds a lock on its draft folder; those that a killed writer left behind are
free, and the next write beside them removes them.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from kapitza.base.locks import POLL, SUFFIX, Holder, locked, release, take
from kapitza.errors import WriteError

Result = TypeVar("Result")

DRAFT = ".kapitza-draft-"
"""Begin of the name of every draft folder."""

OWNER = "owner"
"""The lock of a draft folder, beside the folder `new` that holds the draft."""

AT_CWD, EXCHANGE = -100, 2
"""AT_FDCWD and RENAME_EXCHANGE of renameat2(2)."""

SETTLING = 30.0
"""Seconds that `settle` waits for a writer that is between its two renamings."""

ATTEMPTS = 50
"""Attempts to read a file or folder that a writer replaces repeatedly; the last attempt counts as it is."""

__all__ = ["identity", "is_own", "locked", "reading", "replacing", "replacing_folder", "settle"]


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a draft that replaces a file when complete.

    The draft has the name of the file. Missing folders are made. An existing file keeps its mode; a link stays a link,
    and its target is replaced. Folders, devices and read-only files are refused. Failures are `WriteError`s that name
    the file; the old one is then as it was.
    """
    path = Path(path)
    with _named(path):
        target = _target(path)
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        target.parent.mkdir(parents=True, exist_ok=True)
    with _named(path), _draft(target) as draft:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield draft
        if mode is not None:
            draft.chmod(mode)
        _to_disk(draft)
        draft.replace(target)
        _to_disk(target.parent)


@contextmanager
def replacing_folder(path: str | os.PathLike[str], may_replace: Callable[[Path], None]) -> Iterator[Path]:
    """Yield a draft folder that replaces a folder.

    The draft is empty; it replaces the folder when it is complete.

    may_replace: called with the existing folder before anything is written and again before it is replaced; it raises
    where something there is not ours to remove. A link stays a link, and its target is replaced.

    On Linux the two folders are exchanged in one step. Elsewhere the old one is moved into the draft folder first: a
    kill between the two renamings is finished by `settle`, or by the next write.
    """
    path = Path(path)
    with _named(path):
        target = _folder_target(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        settle(target)
        if target.exists():
            may_replace(target)
    with _named(path), _draft(target) as draft:
        draft.mkdir()
        yield draft
        _all_to_disk(draft)
        if target.exists():
            may_replace(target)
            draft.chmod(stat.S_IMODE(target.stat().st_mode))
            _exchange(draft, target)
        else:
            draft.rename(target)
        _to_disk(target.parent)


def settle(path: str | os.PathLike[str]) -> Path:
    """Return the path; finish a stopped replacement.

    The replacement of this folder was stopped between its two renamings.

    Readers call this before they open a folder that `replacing_folder` writes: where it is missing only for the moment
    between the two renamings of a live writer, that writer is waited for.
    """
    path = Path(path)
    target = Path(os.path.realpath(path))
    if target.exists() or not target.parent.is_dir():
        return path
    for folder in _drafts(target.parent):
        if _committed(folder) == target.name:
            _await_writer(folder)
    _remove_leftovers(target.parent)
    return path


def _await_writer(folder: Path) -> None:
    until = time.monotonic() + SETTLING
    # Not there any more: the writer is done.
    with suppress(OSError):
        while isinstance(taken := take(folder / OWNER), Holder):
            if time.monotonic() > until:
                return
            time.sleep(POLL)
        release(taken, folder / OWNER)


def identity(path: str | os.PathLike[str]) -> tuple[int, ...]:
    """Return numbers that identify a file or folder.

    They change when it is replaced, not when a file grows; () where there is none.
    """
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return ()
    return (found.st_dev, found.st_ino, found.st_mtime_ns if stat.S_ISDIR(found.st_mode) else 0)


def reading(path: Path, work: Callable[[], Result]) -> Result:
    """Return the result of an undisturbed reading.

    The reading is repeated when the file or folder was replaced during it.

    A reader opens a file more than once, and many files of a folder: half of them could be those of the old one.
    """
    for _ in range(ATTEMPTS):
        before = identity(settle(path))
        try:
            found = work()
        except Exception:
            if identity(path) == before:
                raise
        else:
            if identity(path) == before:
                return found
    return work()


def is_own(name: str) -> bool:
    """Return whether a name is Kapitza's own.

    A draft folder or a lock is never data.
    """
    return name.startswith(DRAFT) or (name.startswith(".") and SUFFIX in name)


@contextmanager
def _draft(target: Path) -> Iterator[Path]:
    """Yield the place of a draft beside its target.

    Everything there is removed in the end.
    """
    _remove_leftovers(target.parent)
    folder, descriptor = _draft_folder(target.parent)
    try:
        (folder / "new").mkdir()
        yield folder / "new" / target.name
    finally:
        _discard(folder, descriptor)


def _draft_folder(parent: Path) -> tuple[Path, int]:
    """Make a draft folder that this process has locked.

    It is returned with the descriptor of its lock.
    """
    while True:
        folder = parent / f"{DRAFT}{secrets.token_hex(8)}"
        folder.mkdir(mode=0o700)
        try:
            taken = take(folder / OWNER)
        except FileNotFoundError:
            # Another writer took the empty folder for a leftover.
            continue
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        if not isinstance(taken, Holder):
            return folder, taken


def _drafts(parent: Path) -> list[Path]:
    """Return this user's draft folders beside a target."""
    with suppress(OSError), os.scandir(parent) as entries:
        return [
            parent / entry.name
            for entry in entries
            if re.fullmatch(rf"{re.escape(DRAFT)}[0-9a-f]{{16}}", entry.name)
            and entry.is_dir(follow_symlinks=False)
            and (sys.platform == "win32" or entry.stat(follow_symlinks=False).st_uid == os.geteuid())
        ]
    return []


def _remove_leftovers(parent: Path) -> None:
    """Remove the drafts of killed writers.

    These are draft folders of this user whose lock is free.
    """
    for folder in _drafts(parent):
        # A folder with anything else in it than a draft is not ours, whatever its name.
        with suppress(OSError):
            if not {entry.name.partition(".")[0] for entry in os.scandir(folder)} <= {OWNER, "new", "old", "commit"}:
                continue
            taken = take(folder / OWNER)
            if not isinstance(taken, Holder):
                _discard(folder, taken)


def _discard(folder: Path, descriptor: int) -> None:
    """Remove a draft folder locked by this process.

    A replacement that was begun is finished first.
    """
    try:
        _restore(folder)
        shutil.rmtree(folder / "new", ignore_errors=True)
        shutil.rmtree(folder / "old", ignore_errors=True)
        (folder / "commit").unlink(missing_ok=True)
    finally:
        release(descriptor, folder / OWNER)
        with suppress(OSError):
            folder.rmdir()


def _exchange(draft: Path, target: Path) -> None:
    """Exchange two folders.

    It is done in one step, or by two renamings that can be finished after a kill.
    """
    if _exchanged_at_once(draft, target):
        return
    folder = draft.parent.parent
    (folder / "commit").write_text(json.dumps({"target": target.name}), encoding="utf-8")
    _to_disk(folder / "commit")
    _to_disk(folder)
    target.rename(folder / "old")
    draft.rename(target)


def _exchanged_at_once(one: Path, other: Path) -> bool:
    """Exchange two names by renameat2.

    False where the system or the file system has no such step.
    """
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    if call(AT_CWD, os.fsencode(one), AT_CWD, os.fsencode(other), EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP):
        return False
    raise OSError(number, os.strerror(number), str(other))


def _committed(folder: Path) -> str:
    """Return the target of a replacement under way.

    It is the name of the target whose replacement was begun in a draft folder, or "".
    """
    with suppress(OSError, ValueError, KeyError, TypeError):
        name = json.loads((folder / "commit").read_text(encoding="utf-8"))["target"]
        if isinstance(name, str) and name == Path(name).name:
            return name
    return ""


def _restore(folder: Path) -> None:
    """Restore a folder after a stopped replacement.

    It is the complete new folder, or else the old one.
    """
    name = _committed(folder)
    target = folder.parent / name
    if not name or target.exists():
        return
    try:
        (folder / "new" / name).rename(target)
    except OSError:
        # Without either of the two there is nothing to restore, and nothing may be removed.
        (folder / "old").rename(target)
    _to_disk(target.parent)


def _all_to_disk(folder: Path) -> None:
    for place, _, names in os.walk(folder):
        for name in names:
            if not os.path.islink(os.path.join(place, name)):
                _to_disk(Path(place, name))
        _to_disk(Path(place))


def _to_disk(path: Path) -> None:
    """Write a file or folder through to disk.

    The entries of a folder are written; fsync does it as far as the system can.
    """
    is_folder = path.is_dir()
    if is_folder and os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY if is_folder or os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    except OSError as problem:
        # Some network file systems have no fsync of folders.
        if problem.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF):
            raise
    finally:
        os.close(descriptor)


def _target(path: Path) -> Path:
    """Return the file that is replaced, links followed.

    A target that cannot or should not be replaced is refused.
    """
    _require_name(path)
    # Absolute: the working directory may change before the draft is put in its place.
    target = Path(os.path.realpath(path)) if path.is_symlink() else path.absolute()
    if target.is_symlink():
        raise WriteError(f'"{path}" cannot be written: it is a link that leads to itself.')
    if not target.name or target.is_dir():
        raise WriteError(f'"{path}" cannot be written: it is a folder; add the name of a file.')
    if target.exists():
        if not target.is_file():
            raise WriteError(f'"{path}" cannot be written: it is a device or a pipe, not a file.')
        # The mode is tested too: the superuser may write everything.
        if not target.stat().st_mode & 0o222 or not os.access(target, os.W_OK):
            raise WriteError(f'"{path}" cannot be written: it is read-only; choose another name.')
    return target


def _folder_target(path: Path) -> Path:
    _require_name(path)
    target = Path(os.path.realpath(path))
    if not target.name:
        raise WriteError(f'"{path}" cannot be written: it is the root of a file system.')
    if target.exists() and not target.is_dir():
        raise WriteError(f'"{path}" cannot be written: it is a file, not a folder.')
    if target.exists() and not os.access(target, os.W_OK):
        raise WriteError(f'"{path}" cannot be written: it is read-only; choose another name.')
    return target


def _require_name(path: Path) -> None:
    if "\x00" in str(path):
        raise WriteError(f'"{path}" cannot be written: the name holds a null character.')


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Turn failures of the system into one error.

    It names the requested file, not the draft.
    """
    try:
        yield
    except WriteError:
        raise
    except OSError as problem:
        reason = problem.strerror or str(problem) or type(problem).__name__
        raise WriteError(f'"{path}" cannot be written: {reason}.') from problem
