"""Write and read JSON that any reader takes.

Numbers that are not finite are written as text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kapitza.base.files import replacing
from kapitza.errors import DataError


def write_json(content: Any, path: Path) -> None:
    """Write JSON that any reader takes.

    Numbers that are not finite are written as text.
    """
    with replacing(path) as draft:
        draft.write_text(json.dumps(_strict(content), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    try:
        return _loose(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as JSON: {error}.") from None


UNUSUAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _strict(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {str(key): _strict(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_strict(value) for value in content]
    if isinstance(content, np.generic):
        content = content.item()
    if isinstance(content, float) and not math.isfinite(content):
        return "NaN" if math.isnan(content) else ("Infinity" if content > 0 else "-Infinity")
    return content


def _loose(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _loose(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_loose(value) for value in content]
    return UNUSUAL.get(content, content) if isinstance(content, str) else content
