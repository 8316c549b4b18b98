"""Values from JSON and arrays: the reverse of `writer`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base.cures import Message
from kapitza.base.unpacking import Unpacking
from kapitza.errors import DataError, Status
from kapitza.saving.classes import CHANGES, HOMES, RENAMED, Change, version_of


class Reader:
    """The reverse of `Writer`."""

    def __init__(self, models: list[Any], arrays: Mapping[str, NDArray[Any]], unpacking: Unpacking):
        self.contents, self.arrays, self.unpacking = models, arrays, unpacking
        self._models: dict[int, Any] = {}
        self._flows: dict[str, Any] = {}

    def decoded(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.decoded(v) for v in value]
        if not isinstance(value, dict):
            return value
        kind = str(RENAMED.get(value["$"], value["$"]))
        if kind in HOMES and "member" in value:
            return getattr(import_module(HOMES[kind]), kind)[value["member"]]
        if kind in HOMES:
            return self._object(kind, value)
        plain = {
            "float": lambda: {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}[value["text"]],
            "complex": lambda: complex(*self.decoded(value["parts"])),
            "status": lambda: Status[value["name"]],
            "message": lambda: Message(value["text"]),
            "tuple": lambda: tuple(self.decoded(value["items"])),
            "mapping": lambda: {self.decoded(k): self.decoded(v) for k, v in value["items"]},
            "array": lambda: self._array(value),
            "model": lambda: self._model(value["number"]),
            "flow": lambda: self._flow(value),
            "dataset": lambda: self._dataset(value),
            "table": lambda: self._table(value),
            "expression": lambda: _parsed(value),
        }
        if kind not in plain:
            raise DataError(f'It holds a "{kind}", which this version does not know.')
        return plain[kind]()

    def _object(self, kind: str, value: dict[str, Any]) -> Any:
        """Return an object of a listed class.

        Fields of earlier versions are converted to the present one.
        """
        version, latest = int(value.get("version", 1)), version_of(kind)
        if not 1 <= version <= latest:
            raise DataError(
                f'It holds a "{kind}" of version {version}, this version of Kapitza reads up to {latest}: update it.'
            )
        parts = {str(key): self.decoded(part) for key, part in value["fields"].items()}
        for number in range(version, latest):
            parts = CHANGES.get((kind, number), Change())(parts)
        made = getattr(import_module(HOMES[kind]), kind)
        unknown = sorted(set(parts) - {f.name for f in fields(made) if f.init})
        if unknown:
            raise DataError(
                f'Its "{kind}" has the field "{unknown[0]}", which this version of Kapitza does not know: it was '
                "written by a newer one. Update it."
            )
        return made(**parts)

    def _array(self, value: dict[str, Any]) -> Any:
        dtype = np.dtype(value["dtype"])
        if dtype.kind not in "biufcOU" or (dtype.kind == "U" and "items" not in value):
            raise DataError(f'It holds an array of the type "{value["dtype"]}", which kz.save does not write.')
        if "items" in value:
            # The type is a word of the file: texts of 10^9 characters would be 4 GB for each of the items.
            self.unpacking.add(dtype.itemsize * len(value["items"]))
            made = np.empty(len(value["items"]), dtype)
            made[:] = self.decoded(value["items"])
            made = made.reshape([int(n) for n in value["shape"]])
        else:
            stored = self.arrays[value["name"]]
            made = stored.astype(dtype) if dtype.kind != "c" else np.empty(stored.shape[:-1], dtype)
            if dtype.kind == "c":
                # a + 1j b would turn an infinite part of one into a NaN of the other.
                made.real, made.imag = stored[..., 0], stored[..., 1]
        return made.reshape(())[()] if value.get("scalar") else made

    def _model(self, number: int) -> Any:
        from kapitza.model import model_from_dict

        if number not in self._models:
            content = self.decoded(self.contents[number])
            self._models[number] = model_from_dict(content, default_name=str(content.get("name", "")))
        return self._models[number]

    def _flow(self, value: dict[str, Any]) -> Any:
        from kapitza.flow import Flow

        key = json.dumps(value)
        if key not in self._flows:
            self._flows[key] = Flow(self._model(value["model"]), *self.decoded(value["settings"]))
        return self._flows[key]

    def _dataset(self, value: dict[str, Any]) -> Any:
        import xarray as xr

        def variables(group: list[Any]) -> dict[str, Any]:
            return {n: (tuple(dims), self.decoded(data), self.decoded(attrs)) for n, dims, data, attrs in group}

        attributes = self.decoded(value["attributes"])
        return xr.Dataset(variables(value["variables"]), coords=variables(value["coords"]), attrs=attributes)

    def _table(self, value: dict[str, Any]) -> Any:
        import pandas as pd

        name = self.decoded(value["index_name"])
        index = pd.Index(self.decoded(value["index"]), dtype=value["index_dtype"], name=name)
        columns = {self.decoded(c): pd.Series(self.decoded(data), index, dtype) for c, dtype, data in value["columns"]}
        return pd.DataFrame(columns, index=index)


def _parsed(value: dict[str, Any]) -> Any:
    from kapitza.model import parse_expression

    return parse_expression(str(value["text"]), [str(n) for n in value["names"]])
