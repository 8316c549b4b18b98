"""Fits that are recorded once and compared after a change that must not move numbers.

    python -m harness.recorded_fits write FILE      # before the change
    python -m harness.recorded_fits compare FILE    # after it; exit code 1 where a fit has moved

Every case is a seeded measurement fitted by one method with one kind of setting. Values, standard errors and the status
are kept; `compare` allows 1e-9 of a standard error. Only public names of the package are used, so that the file of an
older commit can be compared with a newer one.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import kapitza as kz
from harness.runner import commit_name, write_atomically

ALLOWED = 1e-9
"""Largest change of a value or a standard error, in standard errors."""


@dataclass(frozen=True)
class Case:
    """One fit: data are made when it runs, and shared between cases by `cache`."""

    name: str
    model: kz.Model
    data: Callable[[], Any]
    free: Any
    method: Any = None
    own: tuple[str, ...] = ()


OSCILLATOR = kz.Model.from_equations(
    "x'' + c*x' + k*x + k3*x**3 = F*cos(w*t)",
    parameters={"c": 0.1, "k": 1.0, "k3": 0.5, "F": 0.8, "w": 1.3},
    period="2*pi/w",
    start={"x": 1.0, "x'": 0.0},
)
DECAY = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.1, "k": 4.0}, start={"x": 1.0, "x'": 0.0})
FRICTION = kz.Model.from_equations(
    "x'' + c*x' + x + mu*sign(x') = 0", parameters={"c": 0.05, "mu": 0.04}, start={"x": 2.0, "x'": 0.0}
)
BALL = kz.Model.from_equations(
    "h'' + c*h' + g = 0",
    parameters={"g": 9.81, "c": 0.1, "r": 0.8},
    impacts=[kz.Impact("h", {"h'": "-r*h'"})],
    start={"h": 1.0, "h'": 0.0},
)
PENDULUM = kz.Model.from_equations(
    "phi'' + c*phi' + w2*sin(phi) = 0",
    parameters={"c": 0.1, "w2": 9.0},
    angles=["phi"],
    start={"phi": 2.0, "phi'": 0.0},
)
TRACES = kz.library.trace_map()
LORENZ = kz.library.lorenz()
ROSSLER = kz.library.rossler()
HEILES = kz.library.henon_heiles()
DUFFING = kz.library.duffing()
RESPONSE = kz.Model.from_equations(
    "x'' + c*x' + x + k3*x**3 = B*cos(omega*t)",
    parameters={"c": 0.1, "k3": 1.0, "B": 0.3, "omega": 0.8},
    period="2*pi/omega",
    start={"x": 0.3, "x'": 0.0},
)

OFF = OSCILLATOR.with_values(c=0.13, k=0.9, k3=0.6)


@cache
def clean(name: str, count: int, step: float, start: tuple[float, ...] | None = None, **values: float) -> kz.Record:
    model = globals()[name].with_values(**values)
    if model.is_map:
        return kz.simulate(model, None if start is None else list(start), periods=count)
    return kz.simulate(model, None if start is None else list(start), t=np.arange(count) * step)


def measured(name: str, count: int, step: float, noise: Any, seed: int, channels: tuple[str, ...] = (), **more: Any):
    """A function that makes the record when a case runs."""

    def make() -> kz.Record:
        found = clean(name, count, step, **more)
        return kz.measure(found.select(list(channels)) if channels else found, noise=noise, seed=seed)

    return make


def with_channel(channel: str, change: Callable[[Any, Any], Any], seed: int) -> Callable[[], kz.Record]:
    """A record of the oscillator whose channel is a function of position and time."""

    def make() -> kz.Record:
        found = clean("OSCILLATOR", 500, 0.1)
        noise = 0.01 * np.random.default_rng(seed).normal(size=found.size)
        values = change(found["x"], found.time) + noise
        return kz.Record.from_arrays(found.time, {channel: values}, period=OSCILLATOR.period, phase=0.0)

    return make


def altered(make: Callable[[], kz.Record], change: Callable[[kz.Record], Any]) -> Callable[[], Any]:
    return lambda: change(make())


@cache
def duffing_orbits() -> tuple[kz.PeriodicOrbit, ...]:
    starts = ([-0.25, 0.1], [1.0, 0.5])
    return tuple(kz.solve_orbit(DUFFING, start, profile=True) for start in starts)


@cache
def found_orbits(count: int, seed: int) -> kz.OrbitSet:
    model = kz.library.parametric_pendulum()
    record = kz.measure(kz.simulate(model, periods=count), noise={"phi": 3e-3, "phi'": 1.5e-2}, seed=seed)
    return kz.find_orbits(record, max_period=3)


def noisy_orbits(seed: int, deviation: float = 1e-3) -> list[kz.PeriodicOrbit]:
    rng = np.random.default_rng(seed)
    made = []
    for orbit in duffing_orbits():
        points = orbit.points + deviation * rng.normal(size=orbit.points.shape)
        sizes = 1e-3 * np.abs(orbit.multipliers)
        made.append(
            orbit.with_(points=points, profile=None, covariance=deviation**2 * np.eye(2), multiplier_deviation=sizes)
        )
    return made


def noisy_profiles(seed: int) -> kz.OrbitSet:
    rng = np.random.default_rng(seed)
    made = []
    for orbit in duffing_orbits():
        assert orbit.profile is not None
        states = orbit.profile.states + 1e-4 * rng.normal(size=orbit.profile.states.shape)
        made.append(orbit.with_(profile=replace(orbit.profile, states=states), covariance=None))
    return kz.OrbitSet(tuple(made), (False, False))


@cache
def response() -> Any:
    return kz.follow(RESPONSE, None, "omega", (0.8, 2.1), direction=1)


def measured_response(seed: int, count: int = 20) -> kz.MeasuredBranch:
    branch = response()
    chosen = np.linspace(2, len(branch) - 3, count).astype(int)
    rng = np.random.default_rng(seed)
    omega = branch.values[chosen, 0] + 2e-3 * rng.normal(size=count)
    amplitude = branch.amplitude("x", 256)[chosen] + 5e-3 * rng.normal(size=count)
    return kz.MeasuredBranch("response", "omega", omega, amplitude, "x", value_noise=2e-3, amplitude_noise=5e-3)


def measured_folds(seed: int) -> kz.MeasuredBranch:
    places = np.array([1.7797195243, 1.3242362008]) + 1e-3 * np.random.default_rng(seed).normal(size=2)
    return kz.MeasuredBranch("fold", "omega", places, value_noise=1e-3)


def cases() -> Iterator[Case]:
    """All cases, in a fixed order with unique names."""
    for seed in (1, 2, 3):
        yield from shooting_cases(seed)
        yield from sensor_cases(seed)
        yield from several_record_cases(seed)
        yield from automatic_cases(seed)
        yield from harmonic_cases(seed)
        yield from invariant_cases(seed)
        yield from orbit_cases(seed)
    for seed in (1, 2):
        yield from branch_cases(seed)


def shooting_cases(seed: int) -> Iterator[Case]:
    free = ["c", "k", "k3"]
    record = measured("OSCILLATOR", 400, 0.1, 0.01, seed)
    hidden = measured("OSCILLATOR", 400, 0.1, 0.01, seed, ("x",))
    unknown_noise = altered(hidden, lambda r: kz.Record.from_arrays(r.time, {"x": r["x"]}, period=r.period, phase=0.0))
    settings: dict[str, Any] = {
        "plain": {},
        "robust": {"robust": True},
        "process noise": {"process_noise": True},
        "kicks": {"process_noise": {"x'": 1e-4}},
        "held back": {"hold_back": 0.2},
        "spacing": {"spacing": 5},
        "noise": {"noise": 0.02},
        "initial": {"initial": {"x": 1.0, "x'": 0.0}},
        "windows": {"window": 100, "windows": 2},
    }
    for name, own in settings.items():
        yield Case(f"shooting {name} {seed}", OFF, record, free, kz.ShootingFit(**own))
    yield Case(f"shooting hidden {seed}", OFF, hidden, free, kz.ShootingFit())
    yield Case(f"shooting unknown noise {seed}", OFF, unknown_noise, free, kz.ShootingFit())
    yield Case(f"shooting motion alone {seed}", OSCILLATOR, record, [], kz.ShootingFit())
    yield Case(f"shooting combination {seed}", OFF, record, ["c/k", "k3"], kz.ShootingFit())
    spiked = altered(hidden, lambda r: r.with_channel("x", np.where(np.arange(r.size) == 200, 9.0, r["x"])))
    yield Case(f"shooting spike {seed}", OFF, spiked, free, kz.ShootingFit())
    lost = altered(hidden, lambda r: kz.measure(r, drop=0.1, seed=seed))
    yield Case(f"shooting lost samples {seed}", OFF, lost, free, kz.ShootingFit())
    yield Case(f"shooting decay {seed}", DECAY.with_values(c=0.2, k=3.5),
               measured("DECAY", 300, 0.05, 0.01, seed, ("x",)), None, kz.ShootingFit())  # fmt: skip
    yield Case(f"shooting prior {seed}", with_prior(), measured("DECAY", 300, 0.05, 0.01, seed, ("x",)), None,
               kz.ShootingFit())  # fmt: skip
    yield Case(f"shooting friction {seed}", FRICTION.with_values(c=0.08, mu=0.06),
               measured("FRICTION", 300, 0.1, 0.01, seed, ("x",)), None, kz.ShootingFit())  # fmt: skip
    yield Case(f"shooting ball {seed}", BALL.with_values(g=9.6, c=0.12, r=0.78),
               measured("BALL", 300, 0.005, 1e-3, seed, ("h",)), None, kz.ShootingFit())  # fmt: skip
    yield Case(f"shooting pendulum {seed}", PENDULUM.with_values(c=0.15, w2=8.5),
               measured("PENDULUM", 300, 0.05, 0.01, seed, ("phi",)), None, kz.ShootingFit())  # fmt: skip
    yield Case(f"shooting lorenz {seed}", LORENZ.with_values(rho=27.0),
               measured("LORENZ", 400, 0.01, 0.1, seed, start=(1.0, 1.0, 20.0)), None, kz.ShootingFit())  # fmt: skip


def with_prior() -> kz.Model:
    return kz.Model.from_equations(
        "x'' + c*x' + k*x = 0",
        parameters={"c": kz.Parameter("c", 0.2, prior=kz.Prior(0.12, 0.005)), "k": 3.5},
        start={"x": 1.0, "x'": 0.0},
    )


def sensor_cases(seed: int) -> Iterator[Case]:
    free = ["c", "k", "k3"]
    sensors: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
        "gain": (lambda x, t: 2.0 * x, kz.Sensor("x", "gain", gain=1.9)),
        "offset": (lambda x, t: x + 0.3, kz.Sensor("x", "offset")),
        "drift": (lambda x, t: x + 0.01 * t, kz.Sensor("x", "offset drift")),
        "delay": (lambda x, t: x, kz.Sensor("x", "delay")),
        "stated delay": (lambda x, t: x, kz.Sensor("x", delay=(0.0, 0.01))),
        "limits": (lambda x, t: np.clip(x, -1.15, 1.15), kz.Sensor("x", limits=(-1.1, 1.1))),
        "expression": (lambda x, t: 3 * x - 1.0, "3*x - 1"),
    }
    for name, (change, sensor) in sensors.items():
        method = kz.ShootingFit(outputs={"volt": sensor})
        yield Case(f"sensor {name} {seed}", OFF, with_channel("volt", change, seed), free, method)


def several_record_cases(seed: int) -> Iterator[Case]:
    free = ["c", "k", "k3"]
    one, two = (measured("OSCILLATOR", 250, 0.1, 0.01, seed + n, ("x",)) for n in (0, 10))
    other = measured("OSCILLATOR", 250, 0.1, 0.01, seed + 20, ("x",), F=0.5)
    for name, method in (("shooting", kz.ShootingFit()), ("harmonic", kz.HarmonicFit()), ("auto", None)):
        yield Case(f"several records {name} {seed}", OFF, lambda: [one(), two()], free, method)
        yield Case(f"several settings {name} {seed}", OFF, lambda: [(one(), {"F": 0.8}), (other(), {"F": 0.5})], free,
                   method)  # fmt: skip
    yield Case(f"several own {seed}", OFF, lambda: [one(), other()], [*free, "F"], kz.ShootingFit(), own=("F",))


def automatic_cases(seed: int) -> Iterator[Case]:
    record = measured("OSCILLATOR", 400, 0.1, 0.01, seed)
    yield Case(f"auto {seed}", OFF, record, ["c", "k", "k3"])
    unknown = OFF.with_values(c=math.nan, k=math.nan, k3=math.nan)
    yield Case(f"auto no start {seed}", unknown, record, ["c", "k", "k3"])
    yield Case(f"auto decay {seed}", DECAY.with_values(c=0.3), measured("DECAY", 300, 0.05, 0.01, seed, ("x",)), None)
    yield Case(f"auto rossler {seed}", ROSSLER, measured("ROSSLER", 500, 0.05, 0.05, seed), None)


def harmonic_cases(seed: int) -> Iterator[Case]:
    lorenz = measured("LORENZ", 1500, 0.01, 0.05, seed, start=(1.0, 1.0, 20.0))
    record = measured("OSCILLATOR", 1000, 0.1, 0.005, seed)
    for name, own in {
        "plain": {},
        "least squares": {"solver": "least squares"},
        "robust": {"solver": "robust"},
        "total": {"solver": "total"},
        "instruments": {"solver": "instruments"},
        "five-point": {"derivatives": "five-point"},
        "no bias": {"correct_bias": False},
    }.items():
        yield Case(f"harmonic lorenz {name} {seed}", LORENZ, lorenz, None, kz.HarmonicFit(**own))
    yield Case(f"harmonic oscillator {seed}", OFF, record, ["c", "k", "k3"], kz.HarmonicFit())
    yield Case(f"harmonic pendulum {seed}", PENDULUM, measured("PENDULUM", 600, 0.02, 0.005, seed, ("phi",)), None,
               kz.HarmonicFit())  # fmt: skip
    harmonics = kz.HarmonicFit(test="harmonics")
    yield Case(f"harmonic orbits {seed}", DUFFING, lambda: noisy_profiles(seed), None, harmonics)


def invariant_cases(seed: int) -> Iterator[Case]:
    points = measured("HEILES", 150, 0.5, 1e-3, seed)
    for name, own in {
        "variance": {},
        "surface": {"objective": "surface"},
        "first order": {"correction": 1},
        "bootstrap": {"bootstrap": 20, "seed": seed},
    }.items():
        yield Case(f"invariant {name} {seed}", HEILES.with_values(b=0.8, d=-0.4), points, ["b", "d"],
                   kz.InvariantFit(**own))  # fmt: skip
    yield Case(f"invariant map {seed}", TRACES.with_values(a=0.9), measured("TRACES", 200, 1.0, 1e-4, seed), ["a"],
               kz.InvariantFit())  # fmt: skip
    balance = kz.InvariantFit(objective="balance", invariant="x'**2/2 + k*x**2/2")
    yield Case(f"invariant balance {seed}", DECAY, measured("DECAY", 600, 0.02, 0.005, seed), ["c", "k"], balance)


def orbit_cases(seed: int) -> Iterator[Case]:
    start = DUFFING.with_values(k=0.1, B=0.22)
    for name, own in {
        "plain": {},
        "least squares": {"estimator": "least squares"},
        "multipliers": {"multipliers": True},
        "nested": {"formulation": "nested"},
    }.items():
        yield Case(f"orbits {name} {seed}", start, lambda: noisy_orbits(seed), ["k", "B"], kz.OrbitFit(**own))
    pendulum = kz.library.parametric_pendulum().with_values(m=0.1, l=0.3)
    if seed == 1:
        yield Case("orbits found in a record", pendulum, lambda: found_orbits(6000, 1), ["m", "l"], kz.OrbitFit())
        yield Case("orbits found, default", pendulum, lambda: found_orbits(6000, 1), ["m", "l"])


def branch_cases(seed: int) -> Iterator[Case]:
    start = RESPONSE.with_values(c=0.11, k3=0.95)
    method = kz.BranchFit(bounds=(0.75, 2.15))
    yield Case(f"branch folds {seed}", start, lambda: measured_folds(seed), ["c", "k3"], method)
    yield Case(f"branch response {seed}", start, lambda: measured_response(seed, 12), ["c", "k3"], method)


def fitted(case: Case) -> dict[str, Any]:
    """Values, standard errors and status of one case; of a case that fails the name of the error."""
    begin = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            more = {"own": list(case.own)} if case.own else {}
            fit = kz.identify(case.model, case.data(), case.free, case.method, **more)
    except kz.KapitzaError as error:
        return {"failed": type(error).__name__, "seconds": time.process_time() - begin}
    return {
        "status": fit.status.name,
        "values": {name: float(fit.values[name]) for name in fit.names},
        "errors": {name: float(fit.deviations[name]) for name in fit.names},
        "seconds": time.process_time() - begin,
    }


def write(path: Path, only: str = "") -> None:
    """Fit every case and keep what it gave, with the commit."""
    found = {case.name: _said(case.name, fitted(case)) for case in cases() if only in case.name}
    content = {"commit": commit_name(), "fits": found}
    write_atomically(path, json.dumps(content, indent=1) + "\n")
    failed = sum("failed" in fit for fit in found.values())
    print(f"{len(found)} fits, {failed} of them failed, {sum(f['seconds'] for f in found.values()):.0f} s of processor")


def _said(name: str, fit: dict[str, Any]) -> dict[str, Any]:
    print(f"{fit['seconds']:7.2f} s  {name}: {fit.get('failed', fit.get('status'))}", flush=True)
    return fit


def compare(path: Path, only: str = "") -> int:
    """Fit every case again and list those that moved; returns how many."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    moved, largest, count = [], 0.0, 0
    for case in cases():
        if only not in case.name or case.name not in kept["fits"]:
            continue
        count += 1
        change, said = difference(kept["fits"][case.name], fitted(case))
        largest = max(largest, change)
        if change > ALLOWED:
            moved.append(case.name)
            print(f"moved: {case.name}: {said}", flush=True)
    print(f"{count} fits compared with those of {kept['commit']}: {len(moved)} moved by more than {ALLOWED:g} of a ")
    print(f"standard error; largest change {largest:.2g}")
    return len(moved)


def difference(old: dict[str, Any], new: dict[str, Any]) -> tuple[float, str]:
    """Largest change of values and errors in standard errors of the old fit, and where."""
    if old.get("failed") != new.get("failed") or old.get("status") != new.get("status"):
        return math.inf, f"{old.get('failed', old.get('status'))} became {new.get('failed', new.get('status'))}"
    if "failed" in old:
        return 0.0, ""
    if list(old["values"]) != list(new["values"]):
        return math.inf, f"{list(old['values'])} became {list(new['values'])}"
    worst, said = 0.0, ""
    for name, error in old["errors"].items():
        scale = error if math.isfinite(error) and error > 0 else max(abs(old["values"][name]), 1e-300)
        for kind in ("values", "errors"):
            before, after = old[kind][name], new[kind][name]
            same = before == after or (math.isnan(before) and math.isnan(after))
            change = 0.0 if same else abs(after - before) / scale
            change = math.inf if math.isnan(change) else change
            if change > worst:
                worst, said = (
                    change,
                    f"{kind[:-1]} of {name} from {before!r} to {after!r}, {change:.2g} standard errors",
                )
    return worst, said


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m harness.recorded_fits", description=__doc__)
    parser.add_argument("verb", choices=["write", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    options = parser.parse_args(arguments)
    if options.verb == "write":
        write(options.file, options.only)
        return 0
    return 1 if compare(options.file, options.only) else 0


if __name__ == "__main__":
    sys.exit(main())
