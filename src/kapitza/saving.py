"""save and load: every noun in one file, without loss, without pickle.

A file is NetCDF-4: arrays are its variables, facts (names, numbers, texts, how parts belong together) are JSON in its
attribute "facts". Other programs can read both. The last line holds a SHA-256 of all before it: a damaged file is
refused, not half believed. What cannot be written without loss is refused when it is saved.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.errors import DataError, KapitzaError, Status
from kapitza.files import replacing

FORMAT = 1
"""Version of the file format; files of a newer one are refused."""

SEAL = b"\nkapitza sha256 "
SEALED = len(SEAL) + 64
BLOCK = 1 << 20

CLASSES = {
    "kapitza.orbit": (
        "PeriodicOrbit", "OrbitSet", "Profile", "Certificate", "Stretch", "Crossings", "Sensitivity", "SolverReport",
    ),
    "kapitza.orbits_in_data.influence": ("Influence",),
    "kapitza.orbits_in_data": ("Inspection", "ReturnSearch", "SectionSearch"),
    "kapitza.orbits_in_data.character": ("Character",),
    "kapitza.signal": ("DelayCurve", "DimensionCurve", "Lyapunov", "Spectrum"),
    "kapitza.orbits_of_models": (
        "CensusReport", "FlowLoop", "FourierSeries", "PiecewiseLoop", "SampledLoop", "Collocation", "Differences",
        "FixedState", "HarmonicBalance", "Homotopy", "IntegralPhase", "MultipleShooting", "OrthogonalPhase", "Shooting",
    ),
    "kapitza.orbits_of_models.census_sections": ("SectionReport",),
    "kapitza.solve.newton": ("NewtonRow",),
    "kapitza.flow.engine": ("Event",),
    "kapitza.data": ("Record",),
    "kapitza.estimate": (
        "Estimate", "Automatic", "Differenced", "HarmonicFit", "InvariantFit", "OrbitFit", "ShootingFit",
    ),
    "kapitza.estimate.identifiability": ("Identifiability",),
    "kapitza.estimate.parts": (
        "Likelihood", "OrbitMatches", "Prediction", "FittedMotion", "WeakRows", "Exclusion", "HarmonicRows",
        "LevelSets",
    ),
    "kapitza.model": ("Prior",),
}  # fmt: skip
"""What a file may hold besides plain values: a name that is not listed is never looked up."""

HOMES = {name: home for home, names in CLASSES.items() for name in names}

LEFT_OUT = {"Estimate": ("workings",)}
"""Fields that are made again when they are needed."""


def save(noun: Any, path: str | os.PathLike[str]) -> Path:
    """Write a PeriodicOrbit, OrbitSet, Estimate, Record, Inspection or Model to a file; `load` gives it back equal.

    Parameters
    ----------
    noun : PeriodicOrbit, OrbitSet, Estimate, Record, Inspection or Model
        With all that belongs to it: an estimate with its model and data, orbits with the record they come from.
    path : path
        Of the file, such as "fit.nc". An existing file is replaced in one step.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    DataError
        Where a part cannot be written without loss, such as a Python function among the settings.

    Examples
    --------
    >>> import kapitza as kz, tempfile, pathlib
    >>> orbit = kz.solve_orbit(kz.library.duffing())
    >>> path = kz.save(orbit, pathlib.Path(tempfile.mkdtemp()) / "orbit.nc")
    >>> (kz.load(path).points == orbit.points).all().item()
    True
    """
    writer = _Writer()
    facts = {"format": FORMAT, "noun": writer.encoded(noun, ""), "models": writer.models}
    text = json.dumps(facts, allow_nan=False)
    path = Path(path)
    with replacing(path) as draft:
        _write(draft, text, writer.arrays, type(noun).__name__)
        seal = SEAL + _digest(draft, draft.stat().st_size).encode()
        with draft.open("ab") as stream:
            stream.write(seal)
    return path


def load(path: str | os.PathLike[str]) -> Any:
    """What `save` wrote.

    Parameters
    ----------
    path : path
        Of a file that `save` wrote.

    Returns
    -------
    PeriodicOrbit, OrbitSet, Estimate, Record, Inspection or Model
        Equal to what was saved, to the last digit.

    Raises
    ------
    DataError
        For a file that is damaged, is no file of `save`, or was written by a newer version.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f'There is no file "{path}": pass one that kz.save wrote.')
    size = path.stat().st_size - SEALED
    with path.open("rb") as stream:
        stream.seek(max(size, 0))
        seal = stream.read(SEALED)
    if size <= 0 or not seal.startswith(SEAL):
        raise DataError(f'"{path}" does not end as kz.save ends a file: it was cut short, or is another file.')
    if seal[len(SEAL) :] != _digest(path, size).encode():
        raise DataError(f'"{path}" is damaged: its content does not match its checksum. Take a copy, or save again.')
    try:
        facts, arrays = _read(path, size)
        if int(facts["format"]) > FORMAT:
            raise DataError(
                f'"{path}" has the format {facts["format"]}, this version of Kapitza reads up to {FORMAT}: update it.'
            )
        return _Reader(facts["models"], arrays).decoded(facts["noun"])
    except KapitzaError as problem:
        raise DataError(f"{problem}" if str(path) in str(problem) else f'"{path}": {problem}') from None
    except Exception as problem:
        # A file is data from anywhere: whatever is wrong with it is the file's fault, and said as such.
        raise DataError(f'"{path}" is not what kz.save writes ({type(problem).__name__}: {problem}).') from None


def _digest(path: Path, size: int) -> str:
    """SHA-256 of the first `size` bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while size > 0:
            block = stream.read(min(BLOCK, size))
            if not block:
                break
            digest.update(block)
            size -= len(block)
    return digest.hexdigest()


def _write(path: Path, facts: str, arrays: Mapping[str, NDArray[Any]], noun: str) -> None:
    import h5netcdf

    with h5netcdf.File(path, "w") as file:
        file.attrs["title"] = f"Kapitza {noun}"
        # A dataset, not an attribute: those are limited to 64 kB.
        text = np.frombuffer(facts.encode("utf-8"), np.uint8)
        for name, values in {"facts": text, **arrays}.items():
            for size in values.shape:
                if f"n{size}" not in file.dimensions:
                    file.dimensions[f"n{size}"] = size
            file.create_variable(name, tuple(f"n{size}" for size in values.shape), values.dtype, data=values)


def _read(path: Path, size: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    import h5netcdf

    with h5netcdf.File(path, "r") as file:
        declared = sum(int(np.prod(v.shape)) * v.dtype.itemsize for v in file.variables.values())
        if declared > size:
            raise DataError(f"{declared} bytes of arrays are declared in a file of {size} bytes.")
        arrays = {name: np.asarray(v[...]) for name, v in file.variables.items()}
    return json.loads(arrays.pop("facts").tobytes().decode("utf-8")), arrays


class _Writer:
    """Values as JSON, with the arrays and models that they refer to on the side."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self.models: list[Any] = []
        self._known: dict[str, int] = {}

    def encoded(self, value: Any, place: str) -> Any:
        """`place`: where the value stands, for names of arrays and messages."""
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
        if isinstance(value, Mapping):
            items = [[self.encoded(k, place), self.encoded(v, f"{place}.{k}")] for k, v in value.items()]
            return {"$": "mapping", "items": items}
        return self._compound(value, place)

    def _compound(self, value: Any, place: str) -> Any:
        kind = type(value)
        name = kind.__name__
        if name == "Model" and kind.__module__.startswith("kapitza."):
            return {"$": "model", "number": self._model(value)}
        if name == "Flow" and kind.__module__.startswith("kapitza."):
            model, *settings = value.core.settings
            return {"$": "flow", "model": self._model(model), "settings": self.encoded(tuple(settings), place)}
        if is_dataclass(value) and name in HOMES and getattr(import_module(HOMES[name]), name) is kind:
            skipped = LEFT_OUT.get(name, ())
            kept = {f.name: getattr(value, f.name) for f in fields(value) if f.init and f.name not in skipped}
            parts = {key: self.encoded(part, f"{place}.{key}") for key, part in kept.items()}
            return {"$": name, "fields": parts}
        if name == "Dataset" and kind.__module__.startswith("xarray."):
            return self._dataset(value, place)
        if name == "DataFrame" and kind.__module__.startswith("pandas."):
            return self._table(value, place)
        if kind.__module__.startswith("sympy."):
            return _expression(value, place)
        where = f"Its part {place.lstrip('.')}" if place else "It"
        raise DataError(f"{where} is a {kind.__module__}.{name}, which cannot be saved without loss: leave it out.")

    def _model(self, model: Any) -> int:
        from kapitza.model.files import model_to_dict

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
        self.arrays[name] = np.ascontiguousarray(stored)
        return facts | {"name": name}

    def _dataset(self, value: Any, place: str) -> Any:
        def variables(group: Any) -> list[Any]:
            return [
                [str(n), list(map(str, v.dims)), self.encoded(v.values, f"{place}.{n}"), self._attributes(v.attrs, place)]
                for n, v in group.items()
            ]  # fmt: skip

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
    """Content of a model file in the types of JSON, to see whether two models are the same."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return repr(value)


def _expression(value: Any, place: str) -> Any:
    from kapitza.model import parse_expression
    from kapitza.model.text import to_text

    names = sorted(s.name for s in value.free_symbols)
    text = to_text(value, names)
    if parse_expression(text, names) != value:
        raise DataError(f"Its part {place.lstrip('.')} changes when it is written: {value}. Simplify it before saving.")
    return {"$": "expression", "text": text, "names": names}


class _Reader:
    """The reverse of `_Writer`."""

    def __init__(self, models: list[Any], arrays: Mapping[str, NDArray[Any]]):
        self.contents, self.arrays = models, arrays
        self._models: dict[int, Any] = {}
        self._flows: dict[str, Any] = {}

    def decoded(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.decoded(v) for v in value]
        if not isinstance(value, dict):
            return value
        kind = value["$"]
        if kind in HOMES:
            parts = {str(key): self.decoded(part) for key, part in value["fields"].items()}
            return getattr(import_module(HOMES[kind]), kind)(**parts)
        plain = {
            "float": lambda: {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}[value["text"]],
            "complex": lambda: complex(*self.decoded(value["parts"])),
            "status": lambda: Status[value["name"]],
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

    def _array(self, value: dict[str, Any]) -> Any:
        dtype = np.dtype(value["dtype"])
        if "items" in value:
            made = np.empty(len(value["items"]), dtype)
            made[:] = self.decoded(value["items"])
            made = made.reshape([int(n) for n in value["shape"]])
        else:
            stored = self.arrays[value["name"]]
            made = stored[..., 0] + 1j * stored[..., 1] if dtype.kind == "c" else stored
            if dtype.kind == "c":
                # a + 1j b would turn an infinite or signed-zero part of one into a NaN or zero of the other
                made = np.empty(stored.shape[:-1], dtype)
                made.real, made.imag = stored[..., 0], stored[..., 1]
            made = made.astype(dtype)
        return made[()] if value.get("scalar") else made

    def _model(self, number: int) -> Any:
        from kapitza.model.files import model_from_dict

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

        index = pd.Index(self.decoded(value["index"]), dtype=value["index_dtype"], name=self.decoded(value["index_name"]))
        columns = {self.decoded(c): pd.Series(self.decoded(data), index, dtype) for c, dtype, data in value["columns"]}
        return pd.DataFrame(columns, index=index)


def _parsed(value: dict[str, Any]) -> Any:
    from kapitza.model import parse_expression

    return parse_expression(str(value["text"]), [str(n) for n in value["names"]])
