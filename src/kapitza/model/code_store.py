"""Where compiled code is kept between processes: loaded only where nobody else can have written it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import time
import warnings
from contextlib import closing, suppress
from pathlib import Path

import heyoka as hy

MOST_KEPT = 2**29
"""Bytes of compiled code on disk, some thousand models; what was used longest ago goes first.

heyoka reads the whole store when a process first compiles (0.4 s for a gigabyte, more from a slow disk), so one without
a limit makes every start slower than the last."""

ROOM = 2**26
"""Free bytes below which nothing is kept: code of one model takes up to some megabytes."""

DAY = 86400.0
"""Seconds between two checks of all entries: one takes 0.2 s where the store is full."""

WITHOUT = "KAPITZA_WITHOUT_STORE"
"""Set in the environment of processes that should keep no code; also by a process that refuses the store, so that its
workers do not warn again."""


def keep_code_apart() -> None:
    """Keep compiled code in a folder of Kapitza's own, or in HEYOKA_CACHE_DIR; without one, work without it.

    A store that another user can write is refused with a warning: code from it would run as this user.
    """
    # heyoka reports a store that it cannot write on standard output, where answers go.
    hy.set_logger_level_error()
    folder = None if os.environ.get(WITHOUT) else _place()
    if folder is None:
        hy.llvm_state.set_diskcache_enabled(False)
        return
    problem = distrust(folder) or damage(folder)
    if problem:
        hy.llvm_state.set_diskcache_enabled(False)
        os.environ[WITHOUT] = "1"
        warnings.warn(f"Compiled code is not kept: {problem}", stacklevel=2)
        return
    hy.llvm_state.set_diskcache_path(str(folder))
    if not os.environ.get("HEYOKA_CACHE_DIR") and not (folder / "cache.db").exists():
        # The limit is part of the store. Where nothing can be written there is no store, and nothing to limit.
        with suppress(RuntimeError):
            hy.llvm_state.set_diskcache_limit(MOST_KEPT)


def _place() -> Path | None:
    """Return the folder of the store, made where it is missing; None where there is no home, or no room in it."""
    given = os.environ.get("HEYOKA_CACHE_DIR")
    # Without HOME and XDG_CACHE_HOME heyoka has no folder.
    folder = Path(given) if given else Path("", hy.llvm_state.get_diskcache_path(), "..", "kapitza")
    folder = Path(os.path.normpath(folder))
    if not folder.is_absolute() or not (folder.parent.is_dir() or folder.parent.parent.is_dir()):
        return None
    try:
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        enough = shutil.disk_usage(folder).free > ROOM
    except OSError:
        return None
    return folder if enough and os.access(folder, os.R_OK | os.W_OK | os.X_OK) else None


def distrust(folder: Path) -> str:
    """Return why code in this folder may be somebody else's, or ""."""
    if os.name != "posix":
        return ""
    real = Path(os.path.realpath(folder))
    for place in (real, *real.parents):
        found, owners = place.stat(), (os.geteuid(),) if place == real else (os.geteuid(), 0)
        if found.st_uid not in owners:
            return f"{place} belongs to user {found.st_uid}; let HEYOKA_CACHE_DIR name a folder of your own."
        # In a folder such as /tmp nobody can replace what belongs to others (sticky).
        shared = place != real and found.st_mode & stat.S_ISVTX
        if _open_to_others(found) and not shared:
            return f"{place} can be written by other users: chmod go-w {place}"
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
            return f"{path} can be written by other users: chmod go-w {path}"
    return ""


def _open_to_others(found: os.stat_result) -> bool:
    """Return whether others than the owner can write; a group of the owner's own number is taken for private."""
    group = found.st_mode & stat.S_IWGRP and found.st_gid != found.st_uid
    return bool(group or found.st_mode & stat.S_IWOTH)


def damage(folder: Path) -> str:
    """Return what is wrong with the database of the store, or "": damaged entries end a process without a message."""
    path, checked = folder / "cache.db", folder / "checked"
    if not path.exists() or not path.stat().st_size:
        return ""
    cure = f"{path} is damaged; remove the folder {folder}."
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=5.0)) as store:
            pages, size = (store.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
            # Pages that are still in the journal are not yet in the file.
            if pages * size > path.stat().st_size and not (folder / "cache.db-wal").exists():
                return cure
            store.execute("SELECT value FROM config WHERE key = 'schema_version'").fetchone()
            if checked.exists() and abs(time.time() - checked.stat().st_mtime) < DAY:
                return ""
            parts = "length(bitcode) + length(opt_bc) + length(opt_ir) + length(obj)"
            if store.execute(f"SELECT count(*) FROM cache WHERE {parts} != size").fetchone()[0]:
                return cure
    except sqlite3.OperationalError:
        # Locked, or of another layout: heyoka decides.
        return ""
    except (sqlite3.DatabaseError, OSError):
        return cure
    with suppress(OSError):
        checked.touch()
    return ""
