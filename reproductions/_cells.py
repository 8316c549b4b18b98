"""Work in cells, each kept when it is done, so that a long table can be made in pieces.

KAPITZA_SEEDS: fits per cell; KAPITZA_KEEP: folder for finished cells; KAPITZA_SECONDS: begin no cell after so long.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kapitza.base.files import replacing

BEGUN = time.monotonic()


def seeds(usual: int) -> int:
    return int(os.environ.get("KAPITZA_SEEDS", usual))


def cells(
    table: str, names: Iterable[str], work: Callable[[str, int], list[Any]], usual: int, most: int | None = None
) -> dict[str, list[Any]]:
    """What `work(name, seed)` gives, joined over the seeds, for every name; cells that were not begun are left out.

    most: seeds at most, for work without chance.
    """
    keep, limit = os.environ.get("KAPITZA_KEEP"), float(os.environ.get("KAPITZA_SECONDS", "inf"))
    found: dict[str, list[Any]] = {}
    labels = list(names)
    for seed in range(seeds(usual) if most is None else most):
        for name in labels:
            plain = "".join(c if c.isalnum() else "_" for c in name)
            place = None if keep is None else Path(keep) / f"{table}-{plain}-{seed}.json"
            if place is not None and place.exists():
                found.setdefault(name, []).extend(json.loads(place.read_text()))
                continue
            if time.monotonic() - BEGUN > limit:
                continue
            made = work(name, seed)
            if place is not None:
                with replacing(place) as draft:
                    draft.write_text(json.dumps(made))
            found.setdefault(name, []).extend(made)
    return found
