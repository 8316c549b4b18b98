"""Arguments of the public functions: anything at all in place of one that is right."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tests.hostile.damage import numbers, texts, values
from tests.hostile.family import register

anything = st.one_of(numbers, texts, values, st.lists(numbers, max_size=5))

CALLS: dict[str, list[str]] = {
    "Record.from_arrays": ["time", "channels", "units", "angles", "segment", "noise", "period", "phase"],
    "record": ["samples", "between", "resampled", "strobed", "in_units", "select", "renamed", "split_at_gaps"],
    "measure": ["noise", "quantum", "jitter", "drop", "seed", "relative_noise"],
    "simulate": ["x0", "t", "periods", "samples_per_period", "noise", "seed"],
    "Model.from_equations": ["equations", "coordinates", "angles", "parameters", "period", "outputs", "start"],
    "with_values": ["k", "self", "x"],
    "Parameter": ["name", "value", "unit", "bounds", "prior"],
    "Coordinate": ["name", "order", "angle", "unit"],
    "solve_orbit": ["guess", "period"],
    "identify": ["data", "free", "method"],
    "inspect": ["channels", "max_period"],
    "read": ["path", "time", "channels", "interval", "names", "separator", "decimal", "phase"],
    "write": ["path", "matlab"],
}
LIKELY: dict[str, list[Any]] = {
    "time": [[0.0, 1.0], [0, 2], [0.0, 0.5], "t"],
    "channels": [{"x": [1.0, 2.0]}, {"x": [0, 1], "y": [2.0, 3.0]}, ["x"], None],
    "units": [{"x": "mm"}, {"x": "deg"}, {}, None],
    "angles": [["x"], [], None],
    "segment": [[0, 1], [0, 0], None],
    "noise": [0.1, {"x": 0.1}, 0, None],
    "period": [1, 2.0, 0.5, "2*pi", None],
    "phase": [0.0, 0.3, None],
    "samples": [5, 100],
    "between": [0.0, 1.0],
    "resampled": [0.05, 0.2],
    "strobed": [1.0, None],
    "in_units": [{"x": "mm"}, {}],
    "select": [["x"], "x"],
    "renamed": [{"x": "y"}, {}],
    "quantum": [0.01, None],
    "jitter": [0.001, 0.0],
    "drop": [0.1, 0.0],
    "seed": [0, 7, None],
    "relative_noise": [0.01, {"x": 0.1}],
    "x0": [[1.0, 0.0], {"x": 1.0, "x'": 0.0}, None],
    "t": [[0.0, 0.5, 1.0], [0, 1], np.linspace(0, 1, 5).tolist()],
    "periods": [1, 3],
    "samples_per_period": [1, 8],
    "equations": ["x'' + x = 0", ["x' = y", "y' = -x"], "x' = -sqrt(max(x, 0))", "x'' + sign(x') + x = cos(t)"],
    "coordinates": [["x"], None],
    "parameters": [{"a": 1.0}, {}, {"a": 1.0, "b": "2*a"}],
    "outputs": [{"y": "2*x"}, {}, None],
    "start": [{"x": 1.0}, {"x": 1, "x'": 0}, None],
    "k": [1.0, 2, 0.5],
    "value": [1.0, 0, -3],
    "unit": ["m", "kg", "", None],
    "bounds": [(0, 2), (-1.0, 1.0), None],
    "name": ["a", "b1", "omega"],
    "order": [1, 2],
    "angle": [True, False],
    "guess": [[0.1, 0.2], None],
    "free": [["k"], "k", None],
    "max_period": [1, 2],
    "interval": [0.1, None],
    "names": [None, ["t", "x"]],
    "separator": [",", None],
    "decimal": [".", ","],
    "path": ["b.csv", "a.h5", "c.npz", "d.parquet"],
    "matlab": ["5", "7.3"],
}
"""Values that may well be right."""


def argument(key: str) -> st.SearchStrategy[Any]:
    if key not in LIKELY:
        return anything
    # Even shares: `one_of` would count every branch of `anything`.
    return st.booleans().flatmap(lambda near: st.sampled_from(LIKELY[key]) if near else anything)


calls = st.one_of(
    *(
        st.sampled_from(keys).flatmap(lambda key, name=name: st.tuples(st.just(name), st.just(key), argument(key)))
        for name, keys in CALLS.items()
    )
)


@cache
def parts() -> tuple[Any, Any]:
    import kapitza as kz

    model = kz.Model.from_equations("x'' + 0.1*x' + k*x = 0", parameters={"k": 4.0}, start={"x": 1.0, "x'": 0.0})
    return model, kz.simulate(model, t=np.linspace(0, 5, 101)).select(["x"])


def call(case: tuple[str, str, Any], folder: Path) -> object:
    import kapitza as kz

    name, key, value = case
    model, record = parts()
    given = {key: value}
    if name == "Record.from_arrays":
        return kz.Record.from_arrays(**{"time": [0.0, 1.0], "channels": {"x": [0.0, 1.0]}, **given})
    if name == "record":
        return repr(getattr(record.with_attributes(period=1.0), key)(value))
    if name == "measure":
        return repr(kz.measure(record, **given))
    if name == "simulate":
        return repr(kz.simulate(model, **{"t": [0.0, 1.0], **given}))
    if name == "Model.from_equations":
        return repr(kz.Model.from_equations(**{"equations": "x'' + x = 0", **given}))
    if name == "with_values":
        return model.with_values(**given).values
    if name in ("Parameter", "Coordinate"):
        return repr(getattr(kz, name)(**{"name": "a", **given}))
    if name == "solve_orbit":
        return repr(kz.solve_orbit(kz.library.duffing(), **given))
    if name == "identify":
        return repr(kz.identify(model, **{"data": record, "free": ["k"], "method": kz.ShootingFit(), **given}))
    if name == "inspect":
        return repr(kz.inspect(record, **given))
    path = folder / "run.csv"
    path.write_text("t,x\n0,1\n1,2\n2,4\n")
    if name == "read":
        return repr(kz.read(**{"path": path, **given}))
    inside = folder / value if key == "path" and isinstance(value, str) and "/" not in value else folder / "a.mat"
    return repr(kz.write(record, **{"path": inside, **({} if key == "path" else given)}))


register("arguments", calls, call, 2.0)
