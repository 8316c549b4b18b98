"""Locks between processes.

A lock names its holder and ends with it.

with locked(folder):
    ...  # no other process is inside such a block for this folder

The lock of `results` is the file `.results.kapitza-lock` beside it, with one line of JSON about its holder. The kernel
holds the lock (flock) and frees it when the holder ends, however it ends; the file alone locks nothing. Where a file
system has no such locks, the file counts for as long as the process it names is alive.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import re
import secrets
import shlex
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from kapitza.errors import LockedError, WriteError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

SUFFIX = ".kapitza-lock"
"""End of the name of every lock."""

POLL = 0.02
"""Seconds between two attempts while waiting for a lock."""

FAR = 2**30
"""Byte that is locked on Windows, where a locked byte cannot be read: far behind the text."""

NO_LOCKS = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOLCK, errno.EINVAL}
"""Answers of file systems without flock."""

_held: set[int] = set()
"""Descriptors of the locks that this process holds."""


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock.

    begun: its start in clock ticks, which distinguishes processes of one number.
    """

    pid: int = 0
    host: str = ""
    command: str = ""
    since: str = ""
    begun: str = ""

    def __str__(self) -> str:
        if not self.pid:
            return "another process"
        return f"process {self.pid} on {self.host} ({self.command}, since {self.since})"

    @property
    def alive(self) -> bool:
        """Return whether the process may still run.

        A process of another host cannot be tested and counts as running.
        """
        if self.host != platform.node():
            return True
        if not self.begun:
            with suppress(PermissionError):
                try:
                    os.kill(self.pid, 0)
                except ProcessLookupError:
                    return False
            return True
        return _begun(self.pid) == self.begun


def this_process() -> Holder:
    """Return this process as a holder of locks."""
    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]] if sys.argv else ["python"])
    since = time.strftime("%Y-%m-%d %H:%M:%S%z")
    return Holder(os.getpid(), platform.node(), command[:200], since, _begun(os.getpid()))


def _begun(pid: int) -> str:
    """Return the start time of a process.

    It is in clock ticks (Linux), "" where the process does not run or its start is not known.
    """
    with suppress(OSError):
        # The name of the program may hold spaces and brackets; the fields behind it do not.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    return ""


@contextmanager
def locked(path: str | os.PathLike[str], wait: float = 0.0) -> Iterator[None]:
    """Hold the lock of a file or folder.

    The file or folder need not exist; its parent must.

    Links are followed, so all names of a folder share one lock. LockedError names the holder where another process,
    or another block of this one, has the lock and keeps it for `wait` seconds more.
    """
    place = Path(os.path.realpath(path))
    file = lock_file(place)
    until = time.monotonic() + wait
    try:
        taken = take(file)
        while isinstance(taken, Holder):
            if time.monotonic() >= until:
                raise LockedError(f'"{path}" is in use by {taken}: wait until it ends, or stop it.')
            time.sleep(POLL)
            taken = take(file)
    except OSError as problem:
        if isinstance(problem, WriteError):
            raise
        raise WriteError(f'"{path}" cannot be locked by {file}: {problem.strerror or problem}.') from problem
    try:
        yield
    finally:
        release(taken, file)


def lock_file(place: Path) -> Path:
    """Return the lock of a file or folder.

    200 bytes of its name keep the name of the lock short enough.
    """
    name = place.name.encode()[:200].decode(errors="ignore")
    return place.with_name(f".{name}{SUFFIX}")


def take(file: Path) -> int | Holder:
    """Take a lock.

    Returns the descriptor of the lock, or the holder that has it.
    """
    if not _kernel_locks(file.parent):
        return _take_by_name(file)
    while True:
        descriptor = _opened(file)
        try:
            free = _try_lock(descriptor)
            holder = _read(descriptor, file)
            if not free:
                return holder or Holder()
            # A file that its last holder has removed in the meantime locks nothing any more.
            if _is_at(descriptor, file):
                if _sign(descriptor, file):
                    _held.add(descriptor)
                    return descriptor
                file.unlink()
        finally:
            if descriptor not in _held:
                os.close(descriptor)


def release(descriptor: int, file: Path) -> None:
    """Release a lock and remove its file.

    Nothing happens in a child process that inherited it.
    """
    if descriptor not in _held:
        return
    _held.discard(descriptor)
    if fcntl is not None:
        # Removed before it is free, so that nobody's new lock is removed.
        with suppress(OSError):
            if _is_at(descriptor, file):
                file.unlink()
        os.close(descriptor)
        return
    os.close(descriptor)
    with suppress(OSError):
        file.unlink()


def _kernel_locks(folder: Path) -> bool:
    """Return whether the kernel locks files in this folder."""
    if fcntl is None:
        return True
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as problem:
        if problem.errno in NO_LOCKS:
            return False
        raise
    finally:
        os.close(descriptor)
    return True


def _try_lock(descriptor: int) -> bool:
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
    import msvcrt  # Windows

    try:
        os.lseek(descriptor, FAR, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # pyright: ignore[reportAttributeAccessIssue]
    except OSError:
        return False
    return True


def _opened(file: Path) -> int:
    """Open a lock; make it where it is missing.

    A link or anything else that is not a file is refused.
    """
    # O_NONBLOCK: a pipe in its place must not keep this process waiting.
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(file, flags, 0o666)
    except PermissionError:
        # The lock of another user: it can be tested, and removed where it is left over.
        descriptor = os.open(file, flags & ~(os.O_RDWR | os.O_CREAT))
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise WriteError(f"{file} is not a lock of Kapitza: move it away.")


def _is_at(descriptor: int, file: Path) -> bool:
    """Return whether an open file still has its name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(file))
    except FileNotFoundError:
        return False


def _read(descriptor: int, file: Path) -> Holder | None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    return parsed(os.read(descriptor, 4096), file)


def parsed(text: bytes, file: Path) -> Holder | None:
    """Return the holder written in a lock.

    None where there is none yet, WriteError where it is another file.
    """
    # A crash of the machine may leave zeros.
    if not text.strip(b"\0 \n"):
        return None
    try:
        content = json.loads(text)["kapitza lock"]
        return Holder(int(content["pid"]), *(str(content[n]) for n in ("host", "command", "since", "begun")))
    except (ValueError, KeyError, TypeError):
        raise WriteError(f"{file} is not a lock of Kapitza: move it away.") from None


def _line() -> bytes:
    return json.dumps({"kapitza lock": asdict(this_process())}).encode() + b"\n"


def _sign(descriptor: int, file: Path) -> bool:
    """Write this process into a lock it holds.

    False where a file of another user is left over.
    """
    try:
        os.ftruncate(descriptor, 0)
    except OSError as problem:
        if problem.errno in (errno.EINVAL, errno.EBADF, errno.EACCES, errno.EPERM):
            return False
        raise
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, _line())
    except OSError:
        # A full disk: no file is left behind.
        file.unlink()
        raise
    return True


def _take_by_name(file: Path) -> int | Holder:
    """Take a lock where the kernel has none.

    The lock is a file that counts as long as the process it names is alive.
    """
    own = _aside(file)
    _sweep(file)
    try:
        own.write_bytes(_line())
        while True:
            try:
                os.link(own, file)
            except FileExistsError:
                with suppress(FileNotFoundError):
                    text = file.read_bytes()
                    holder = parsed(text, file)
                    if holder is not None and holder.alive:
                        return holder
                    _remove_stale(file, text)
                continue
            descriptor = os.open(file, os.O_RDONLY)
            _held.add(descriptor)
            return descriptor
    finally:
        own.unlink(missing_ok=True)


def _remove_stale(file: Path, text: bytes) -> None:
    """Remove a lock whose holder is gone.

    A lock that replaced it since it was read stays.
    """
    aside = _aside(file)
    file.rename(aside)
    if aside.read_bytes() != text:
        with suppress(FileExistsError):
            os.link(aside, file)
    aside.unlink()


def _aside(file: Path) -> Path:
    """Return a name beside a lock.

    It states which process uses it.
    """
    return file.with_name(f"{file.name}.{_host()}-{os.getpid()}-{_begun(os.getpid())}-{secrets.token_hex(4)}")


def _sweep(file: Path) -> None:
    """Remove leftovers beside a lock.

    They are of processes of this host that have ended.
    """
    pattern = re.compile(rf"{re.escape(file.name)}\.{_host()}-(\d+)-(\d*)-[0-9a-f]{{8}}")
    for found in file.parent.iterdir():
        match = pattern.fullmatch(found.name)
        if match and not Holder(int(match[1]), platform.node(), begun=match[2]).alive:
            found.unlink(missing_ok=True)


def _host() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def _forget() -> None:
    """Close the inherited locks in a forked child.

    They then end with the process that took them.
    """
    for descriptor in _held:
        with suppress(OSError):
            os.close(descriptor)
    _held.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget)
