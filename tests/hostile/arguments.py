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
calls = st.one_of(*(st.tuples(st.just(name), st.sampled_from(keys), anything) for name, keys in CALLS.items()))


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
