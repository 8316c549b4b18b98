"""Writing files: complete or not at all, by one way for the whole project.

with replacing(path) as draft:
    draft.write_text(text, encoding="utf-8")
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kapitza.errors import WriteError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A draft beside the file that takes its place only when it is complete.

    Folders on the way are made. An existing file keeps its mode; a link stays a link, and what it points to is
    replaced. Refused: folders, devices and files that are read-only. Failures are `WriteError`s that name the file.
    """
    path = Path(path)
    with _named(path):
        target = _target(path)
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        target.parent.mkdir(parents=True, exist_ok=True)
        # 60 characters of the stem: the draft's name must not become too long where the file's own is not.
        draft = target.with_name(f".{target.stem[:60]}.{secrets.token_hex(4)}{target.suffix[:20]}")
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        with _named(path):
            yield draft
            if mode is not None:
                draft.chmod(mode)
            draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def _target(path: Path) -> Path:
    """Where the bytes go, links followed; refused where a file cannot or should not be replaced."""
    if "\x00" in str(path):
        raise WriteError(f'"{path}" cannot be written: the name holds a null character.')
    target = path.resolve() if path.is_symlink() else path
    if not target.name or target.is_dir():
        raise WriteError(f'"{path}" cannot be written: it is a folder; add the name of a file.')
    if target.exists():
        if not target.is_file():
            raise WriteError(f'"{path}" cannot be written: it is a device or a pipe, not a file.')
        # The mode is asked too: the superuser may write everything.
        if not target.stat().st_mode & 0o222 or not os.access(target, os.W_OK):
            raise WriteError(f'"{path}" cannot be written: it is read-only; choose another name.')
    return target


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Failures of the system as one error that names the file asked for, not the draft."""
    try:
        yield
    except WriteError:
        raise
    except OSError as problem:
        reason = problem.strerror or str(problem) or type(problem).__name__
        raise WriteError(f'"{path}" cannot be written: {reason}.') from problem
