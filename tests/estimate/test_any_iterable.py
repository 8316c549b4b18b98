"""Data in any iterable are treated alike: units and sensors hold whatever they are passed in."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import kapitza as kz
from kapitza.data import as_parts
from kapitza.errors import DataError, KapitzaError

CUBIC = kz.Model.from_equations("x'' + 0.2*x' + 40*x + b*x**3 = 0", parameters={"b": 2e5}, start={"x": 0.01, "x'": 0.0})


def runs():
    """Two decays from 10 and 7 mm, in millimetres: the coefficient b of the cubic spring depends on the unit."""
    found = {}
    for number, x0 in enumerate((0.010, 0.007)):
        motion = kz.simulate(CUBIC, x0=[x0, 0.0], t=np.arange(0, 4, 0.01)).select(["x"])
        seen = kz.measure(motion, noise=1e-5, seed=number)
        found[f"run{number}"] = kz.Record.from_arrays(
            seen.time, {"x": 1e3 * seen["x"]}, units={"x": "mm"}, noise={"x": 1e-2}
        )
    return found


RUNS = runs()

ITERABLES = {
    "list": lambda: list(RUNS.values()),
    "tuple": lambda: tuple(RUNS.values()),
    "values of a dictionary": lambda: RUNS.values(),
    "generator": lambda: (run for run in RUNS.values()),
    "map": lambda: map(RUNS.get, RUNS),
    "array of objects": lambda: objects(RUNS.values()),
    "pairs": lambda: ((run, {}) for run in RUNS.values()),
    "nested": lambda: iter([RUNS.values()]),
    "parts": lambda: as_parts(RUNS.values()),
    "tables of pandas": lambda: [frame(run) for run in RUNS.values()],
    "datasets of xarray": lambda: [run.dataset for run in RUNS.values()],
}


def frame(run):
    return pd.DataFrame({"x [mm]": run["x"]}, index=pd.Index(run.time, name="t"))


def objects(items):
    found = np.empty(len(items), object)
    found[:] = list(items)
    return found


@pytest.mark.parametrize("kind", list(ITERABLES))
def test_millimetres_in_any_iterable(kind):
    fit = kz.identify(CUBIC.with_values(b=1.5e5), ITERABLES[kind](), ["b"], method=kz.ShootingFit())
    assert abs(fit["b"] - 2e5) < 5 * fit.deviations["b"]
    assert fit.deviations["b"] < 2e4


def test_sensors_in_any_iterable():
    method = kz.ShootingFit(outputs={"s": kz.Sensor("x", gain=-1.0)})
    seen = {n: r.in_units({"x": "m"}) for n, r in RUNS.items()}
    data = {n: kz.Record.from_arrays(r.time, {"s": -r["x"]}, units={"s": "m"}) for n, r in seen.items()}
    for given in (list(data.values()), data.values(), iter(data.values())):
        fit = kz.identify(CUBIC.with_values(b=1.5e5), given, ["b"], method=method)
        assert abs(fit["b"] - 2e5) < 5 * fit.deviations["b"]


@pytest.mark.parametrize("wrong", [RUNS, {1, 2}, frozenset([3])])
def test_tables_and_sets_are_refused(wrong):
    with pytest.raises(DataError, match="The data are a"):
        kz.identify(CUBIC, wrong, ["b"])
    with pytest.raises(DataError, match="The data are a"):
        kz.validate(CUBIC, wrong)
    with pytest.raises(KapitzaError, match="The data are a"):
        kz.find_orbits(wrong)
    with pytest.raises(KapitzaError, match="The data are a"):
        kz.find_invariant(wrong)


def test_verbs_on_one_record_name_what_they_refuse():
    """Several records, orbits and values that a verb cannot use are refused by name, not dropped."""
    first = RUNS["run0"]
    orbit = kz.solve_orbit(kz.library.duffing(), profile=False)
    for verb in (kz.find_orbits, kz.inspect, lambda data: kz.validate(CUBIC, data)):
        for wrong, words in ((list(RUNS.values()), "one record"), (orbit, "not on an orbit"), ([], "no data")):
            with pytest.raises(DataError, match=words):
                verb(wrong)
    for verb in (kz.find_orbits, kz.inspect, kz.find_invariant):
        with pytest.raises(DataError, match="has no parameters: pass record 0 without values of b"):
            verb((first, {"b": 1.0}))
    with pytest.raises(DataError, match=r"not on (Posix|Windows)Path"):
        kz.identify(CUBIC, Path("run.csv"), ["b"])


def test_a_recording_on_disk_is_fitted_alone_and_with_values(tmp_path):
    model = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.1, "k": 4.0})
    motion = kz.measure(kz.simulate(model, x0=[1.0, 0.0], t=np.arange(4000) * 0.02).select(["x"]), noise=1e-3, seed=4)
    kz.write(motion, tmp_path / "run.zarr")
    stored = kz.open_record(tmp_path / "run.zarr")
    fit = kz.identify(model.with_values(k=9.0), (stored, {"k": 4.0}), ["c"])
    assert abs(fit["c"] - 0.1) < 5 * fit.deviations["c"]
    with pytest.raises(DataError, match="fitted alone"):
        kz.identify(model, [stored, motion], ["c"])


def test_other_verbs_take_millimetres():
    check = kz.validate(CUBIC, iter([RUNS["run0"]]), parts=["prediction"])
    assert np.median(check.prediction.fit_misfit) < 1.5
    full = kz.simulate(CUBIC, x0=[0.01, 0.0], t=np.arange(0, 4, 0.01))
    bound = kz.cramer_rao(CUBIC, full, {"x": 1e-5}, ["b"])
    scaled = {name: 1e3 * full[name] for name in full.channels}
    millimetres = kz.Record.from_arrays(full.time, scaled, units={"x": "mm", "x'": "mm/s"})
    with pytest.raises(DataError, match="in the one or the other"):
        kz.cramer_rao(CUBIC, millimetres, {"x": 1e-2}, ["b"])
    assert 0 < float(bound.loc["b", "b"]) ** 0.5 < 2e4
