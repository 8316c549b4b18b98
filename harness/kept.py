"""Answers of long benchmarks, kept until the commit changes: a run that was interrupted goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from harness.runner import ROOT, commit_name, write_atomically


class NotMeasured(Exception):
    """Nothing is kept under a key, and nothing is to be measured now."""


def kept(name: str, key: str, work: Callable[[], Any]) -> Any:
    """What `work` gave under this key at this commit, or gives now; numbers, texts and lists of them.

    With KAPITZA_KEPT_ONLY in the environment nothing is measured: what is not there raises NotMeasured.
    """
    place = ROOT / "out" / f"{name}-{commit_name().replace(' ', '-')}.json"
    known = json.loads(place.read_text(encoding="utf-8")) if place.is_file() else {}
    if key not in known:
        if os.environ.get("KAPITZA_KEPT_ONLY"):
            raise NotMeasured(key)
        known[key] = work()
        place.parent.mkdir(exist_ok=True)
        write_atomically(place, json.dumps(known, indent=1))
    return json.loads(json.dumps(known[key]))
