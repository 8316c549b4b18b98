"""Folders whose content is trusted.

They hold code that runs, or keys that give access. No other user may have written them.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path


def distrust(folder: Path) -> str:
    """Return why a folder is not trusted, or "".

    Its content may be that of another user.
    """
    if os.name != "posix":
        return ""
    real = Path(os.path.realpath(folder))
    for place in (real, *real.parents):
        found, owners = place.stat(), (os.geteuid(),) if place == real else (os.geteuid(), 0)
        if found.st_uid not in owners:
            return f"{place} belongs to user {found.st_uid}."
        # In a folder such as /tmp nobody can replace what belongs to others (sticky).
        shared = place != real and found.st_mode & stat.S_ISVTX
        if _open_to_others(found) and not shared:
            return f"{place} can be written by other users: chmod go-w {place}."
    closed = not real.stat().st_mode & 0o077
    for path in real.iterdir():
        try:
            found = path.lstat()
        except FileNotFoundError:
            # The journal of another process that has just closed the database.
            continue
        if not stat.S_ISREG(found.st_mode):
            return f"{path} is a link, or otherwise not a file: remove it."
        if found.st_uid != os.geteuid():
            return f"{path} belongs to another user (number {found.st_uid}): remove it."
        if _open_to_others(found) and not closed:
            return f"{path} can be written by other users: chmod go-w {path}."
    return ""


def _open_to_others(found: os.stat_result) -> bool:
    """Return whether others than the owner can write.

    A group of the owner's own number is taken for private.
    """
    group = found.st_mode & stat.S_IWGRP and found.st_gid != found.st_uid
    return bool(group or found.st_mode & stat.S_IWOTH)
