"""Run as a program: writers are killed (SIGKILL) before each of their system calls; what is found is printed as JSON.

A child is forked for every call of a write that Python reports (open, rename, mkdir, remove, ...) and kills itself
there. Afterwards the target must be the old or the new one, complete, and the next write must leave nothing else.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from kapitza.base import files, locks
from kapitza.base.files import is_own, locked, replacing, replacing_folder, settle

PARTS = ("one", "two", "three")


def write_file(path: Path, text: str) -> None:
    with replacing(path) as draft:
        draft.write_text(text * 1000)


def read_file(path: Path) -> str:
    text = path.read_text()
    assert text == text[:3] * 1000, "a file that is not complete"
    return text[:3]


def write_folder(path: Path, text: str) -> None:
    with replacing_folder(path, lambda folder: None) as draft:
        (draft / "deeper").mkdir()
        for part in PARTS:
            (draft / "deeper" / part).write_text(text)


def read_folder(path: Path) -> str:
    found = {(settle(path) / "deeper" / part).read_text() for part in PARTS}
    assert len(found) == 1, f"parts of different folders: {found}"
    assert sorted(p.name for p in (path / "deeper").iterdir()) == sorted(PARTS)
    return found.pop()


def write_under_lock(path: Path, text: str) -> None:
    with locked(path):
        write_file(path, text)


def by_two_renamings() -> None:
    files._exchanged_at_once = lambda one, other: False


def without_kernel_locks() -> None:
    locks._kernel_locks = lambda folder: False


CASES: dict[str, tuple[Callable, Callable, Callable]] = {
    "file": (write_file, read_file, lambda: None),
    "folder": (write_folder, read_folder, lambda: None),
    "folder by two renamings": (write_folder, read_folder, by_two_renamings),
    "lock": (write_under_lock, read_file, lambda: None),
    "lock without the kernel": (write_under_lock, read_file, without_kernel_locks),
}


def killed_at(number: int, work: Callable[[], None]) -> bool:
    """Return whether a child that does the work reached its n-th system call, and died there."""
    child = os.fork()
    if child == 0:
        left = number

        def hook(event: str, arguments: tuple) -> None:
            nonlocal left
            if event == "open" or event.startswith(("os.", "shutil.", "fcntl.", "ctypes.")):
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0, "a writer failed"
    return False


def attacked(name: str) -> dict:
    write, read, prepare = CASES[name]
    prepare()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        target = folder / "kept.txt"
        # A user's folder that only looks like a draft stays.
        strange = folder / f"{files.DRAFT}{'0' * 16}"
        strange.mkdir()
        (strange / "notes.txt").write_text("mine")
        write(target, "old")
        kills, found = 0, []
        while killed_at(kills + 1, lambda: write(target, "new")):
            kills += 1
            left = [p.name for p in folder.iterdir() if p not in (target, strange)]
            assert all(is_own(n) for n in left), left
            found.append(read(target))
            write(target, "old")
            assert read(target) == "old"
            assert {p.name for p in folder.iterdir()} == {target.name, strange.name}, list(folder.iterdir())
            assert (strange / "notes.txt").read_text() == "mine"
        assert read(target) == "new"
    return {"kills": kills, "old": found.count("old"), "new": found.count("new")}


if __name__ == "__main__":
    print(json.dumps({name: attacked(name) for name in sys.argv[1:] or CASES}))
