"""Values as JSON, with separate arrays and models.

The values refer to the arrays and models.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base.cures import Message
from kapitza.errors import DataError, Status
from kapitza.saving.classes import HOMES, LEFT_OUT, version_of


class Writer:
    """Values as JSON, with separate arrays and models.

    The values refer to the arrays and models.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self.models: list[Any] = []
        self._known: dict[str, int] = {}

    def encoded(self, value: Any, place: str) -> Any:
        """Return a value in types of JSON.

        place: where the value is, for names of arrays and messages.
        """
        if isinstance(value, Message) and value.cures:
            return {"$": "message", "text": value.marked}
        if value is None or isinstance(value, (bool, str)) or type(value) is int:
            return value
        if type(value) is float:
            return value if np.isfinite(value) else {"$": "float", "text": repr(value)}
        if isinstance(value, (np.ndarray, np.generic)):
            return self._array(value, place)
        if type(value) is complex:
            return {"$": "complex", "parts": [self.encoded(value.real, place), self.encoded(value.imag, place)]}
        if isinstance(value, Status):
            return {"$": "status", "name": value.name}
        if type(value) is tuple:
            return {"$": "tuple", "items": [self.encoded(v, f"{place}.{i}") for i, v in enumerate(value)]}
        if type(value) is list:
            return [self.encoded(v, f"{place}.{i}") for i, v in enumerate(value)]
        # A Dataset is a Mapping too, but more than that.
        if isinstance(value, Mapping) and type(value).__module__.split(".")[0] != "xarray":
            items = [[self.encoded(k, place), self.encoded(v, f"{place}.{k}")] for k, v in value.items()]
            return {"$": "mapping", "items": items}
        return self._compound(value, place)

    def _compound(self, value: Any, place: str) -> Any:
        kind = type(value)
        name = kind.__name__
        if name == "Model" and kind.__module__.startswith("kapitza."):
            return {"$": "model", "number": self._model(value)}
        if name == "Flow" and kind.__module__.startswith("kapitza."):
            _, *settings = value.core.settings
            return {"$": "flow", "model": self._model(value.model), "settings": self.encoded(tuple(settings), place)}
        if isinstance(value, Enum) and name in HOMES and getattr(import_module(HOMES[name]), name) is kind:
            return {"$": name, "member": value.name}
        if is_dataclass(value) and name in HOMES and getattr(import_module(HOMES[name]), name) is kind:
            skipped = LEFT_OUT.get(name, ())
            kept = {f.name: getattr(value, f.name) for f in fields(value) if f.init and f.name not in skipped}
            parts = {key: self.encoded(part, f"{place}.{key}") for key, part in kept.items()}
            return {"$": name, "version": version_of(name), "fields": parts}
        if name == "Dataset" and kind.__module__.split(".")[0] == "xarray":
            return self._dataset(value, place)
        if name == "DataFrame" and kind.__module__.split(".")[0] == "pandas":
            return self._table(value, place)
        if kind.__module__.split(".")[0] == "sympy":
            return _expression(value, place)
        where = f"Its part {place.lstrip('.')}" if place else "It"
        raise DataError(f"{where} is a {kind.__module__}.{name}, which cannot be saved without loss: leave it out.")

    def _model(self, model: Any) -> int:
        from kapitza.model import model_to_dict

        content = model_to_dict(model)
        text = json.dumps(_plain(content), allow_nan=False, sort_keys=True)
        if text not in self._known:
            self._known[text] = len(self.models)
            self.models.append(self.encoded(content, f"models.{len(self.models)}"))
        return self._known[text]

    def _array(self, value: NDArray[Any] | np.generic, place: str) -> Any:
        values = np.asarray(value)
        facts: dict[str, Any] = {"$": "array", "dtype": values.dtype.name}
        if isinstance(value, np.generic):
            facts["scalar"] = True
        if values.dtype.kind in "OU":
            items = [self.encoded(v, place) for v in values.ravel().tolist()]
            return facts | {"dtype": values.dtype.str, "shape": list(values.shape), "items": items}
        if values.dtype.kind not in "biufc":
            raise DataError(f"Its part {place.lstrip('.')} is an array of {values.dtype}, which cannot be saved.")
        if values.size == 0:
            return facts | {"shape": list(values.shape), "items": []}
        stored = values.astype(values.dtype.newbyteorder("="))
        if values.dtype.kind == "c":
            stored = np.stack([values.real, values.imag], axis=-1)
        elif values.dtype.kind == "b":
            stored = values.astype(np.int8)
        name = re.sub(r"\W+", "_", place.lstrip("."), flags=re.ASCII).strip("_") or "values"
        name = name if name not in self.arrays and name != "facts" else f"{name}_{len(self.arrays)}"
        # Not ascontiguousarray, which makes a single number a row of one.
        self.arrays[name] = np.array(stored, order="C")
        return facts | {"name": name}

    def _dataset(self, value: Any, place: str) -> Any:
        def variables(group: Any) -> list[Any]:
            return [
                [
                    str(name),
                    [str(dim) for dim in one.dims],
                    self.encoded(one.values, f"{place}.{name}"),
                    self._attributes(one.attrs, place),
                ]
                for name, one in group.items()
            ]

        attributes = self._attributes(value.attrs, place)
        return {
            "$": "dataset",
            "coords": variables(value.coords),
            "variables": variables(value.data_vars),
            "attributes": attributes,
        }

    def _attributes(self, attributes: Mapping[Any, Any], place: str) -> Any:
        return self.encoded({str(k): v for k, v in attributes.items()}, place)

    def _table(self, value: Any, place: str) -> Any:
        columns = [
            [self.encoded(c, place), str(value[c].dtype), self._column(value[c], f"{place}.{c}")] for c in value.columns
        ]
        return {"$": "table", "columns": columns, "index": self._column(value.index.to_series(), f"{place}.index"),
                "index_dtype": str(value.index.dtype), "index_name": self.encoded(value.index.name, place)}  # fmt: skip

    def _column(self, column: Any, place: str) -> Any:
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biufc":
            return self._array(column.to_numpy(), place)
        items = [None if item is _missing() else item for item in column.tolist()]
        return [self.encoded(item, place) for item in items]


def _missing() -> Any:
    import pandas as pd

    return pd.NA


def _plain(value: Any) -> Any:
    """Return a model file's content in JSON types.

    It shows whether two models are the same.
    """
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return repr(value)


def _expression(value: Any, place: str) -> Any:
    from kapitza.model import parse_expression, to_text

    names = sorted(s.name for s in value.free_symbols)
    text = to_text(value, names)
    if parse_expression(text, names) != value:
        raise DataError(f"Its part {place.lstrip('.')} changes when it is written: {value}. Simplify it before saving.")
    return {"$": "expression", "text": text, "names": names}
