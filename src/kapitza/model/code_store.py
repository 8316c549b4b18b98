"""The folder in which compiled code is kept.

Code is loaded only from a folder that no other user can write.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
import warnings
from contextlib import closing, suppress
from pathlib import Path

import heyoka as hy

from kapitza.base.owners import distrust

MOST_KEPT = 2**29
"""Bytes of compiled code on disk, some thousand models; the least recently used code is removed first.

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
    """Choose the folder in which compiled code is kept.

    It is Kapitza's own folder, or HEYOKA_CACHE_DIR. Without a folder no code is kept.

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
        warnings.warn(f"Compiled code is not kept: {problem} HEYOKA_CACHE_DIR names another folder.", stacklevel=2)
        return
    hy.llvm_state.set_diskcache_path(str(folder))
    if not os.environ.get("HEYOKA_CACHE_DIR") and not (folder / "cache.db").exists():
        # The limit is part of the store. Where nothing can be written there is no store, and nothing to limit.
        with suppress(RuntimeError):
            hy.llvm_state.set_diskcache_limit(MOST_KEPT)


def _place() -> Path | None:
    """Return the folder of the store.

    A missing folder is made. None where there is no home directory, or too little free space.
    """
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


def damage(folder: Path) -> str:
    """Return what is wrong with the store, or "".

    The database is tested because damaged entries end a process without a message.
    """
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
