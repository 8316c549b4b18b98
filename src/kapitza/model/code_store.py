"""Where compiled code is kept between processes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import heyoka as hy

MOST_KEPT = 2**29
"""Bytes of compiled code on disk, some thousand models; what was used longest ago goes first.

heyoka reads the whole store when a process first compiles (0.4 s for a gigabyte, more from a slow disk), so one without
a limit makes every start slower than the last."""


def keep_code_apart() -> None:
    """Keep compiled code in a folder of Kapitza's own, unless HEYOKA_CACHE_DIR says where."""
    if os.environ.get("HEYOKA_CACHE_DIR"):
        return
    folder = Path(hy.llvm_state.get_diskcache_path()).with_name("kapitza")
    hy.llvm_state.set_diskcache_path(str(folder))
    if not (folder / "cache.db").exists():
        # The limit is part of the store. Where nothing can be written there is no store, and nothing to limit.
        with suppress(RuntimeError):
            hy.llvm_state.set_diskcache_limit(MOST_KEPT)
