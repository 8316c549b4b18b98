"""A rig as a user would write it, which checks nothing but records whether anything beyond its limits is sent to it.

And an attack on it with random demands, parameters, ramps and walks.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.errors import KapitzaError, RigLimitError
from kapitza.rig import (
    Experiment,
    FloquetSettings,
    FourierSeries,
    LimitedRig,
    PeriodicInput,
    RigParameter,
    RigStepping,
    Samples,
    advise_gains,
    measure_multipliers,
    measure_orbit,
    settle_and_measure,
)

Array = NDArray[Any]

CLOSE = 1e-9
"""Relative excess that counts as none: rounding in the sums of both sides."""


class RecordingRig:
    """x follows its demand but for a force: reading = d - (d + d³ - p cos φ)/5, so that d + d³ = p cos φ on a branch.

    ramp: seconds from one demand to the next, by half a cosine (0: a jump). pace: seconds of sleep per second of rig.
    beyond: everything that exceeded a limit, which should stay empty. log: a file that `set` and `stop` are written to.
    """

    outputs = ("x",)

    def __init__(self, ramp: float | None = 0.1, pace: float = 0.0, log: str | None = None, rate_limit: float = 40.0):
        self.inputs = (PeriodicInput("x", "mm", limit=1.5, rate_limit=rate_limit, feedback="x", ramp=ramp),)
        self.parameters = (
            RigParameter("p", 0.1, "N", (0.0, 5.0)), RigParameter("omega", 5.0, "rad/s", (2.0, 9.0)),
        )  # fmt: skip
        self.sample_time, self.pace = 0.01, pace
        self.beyond: list[str] = []
        self.counts: Counter[str] = Counter()
        self._file = None if log is None else os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._index = 0
        self._values = {p.name: p.value for p in self.parameters}
        self._rest()

    def _rest(self) -> None:
        self._series: FourierSeries | None = None
        self._before: FourierSeries | None = None
        self._left, self._time, self._last = 0, 0.0, 0.0

    def _note(self, event: str) -> None:
        if self._file is not None:
            os.write(self._file, (json.dumps([event, time.monotonic(), len(self.beyond)]) + "\n").encode())

    def _judge(self, what: str, size: float, limit: float) -> None:
        if not size <= limit * (1 + CLOSE):
            self.beyond.append(f"{what} {size!r}, limit {limit!r}")

    def set(self, demands: Mapping[str, FourierSeries], **parameters: float) -> None:
        self.counts["set"] += 1
        self._note("set")
        for part in self.parameters:
            value, (low, high) = parameters.get(part.name, self._values[part.name]), part.bounds
            if not low <= value <= high:
                self.beyond.append(f"{part.name} {value!r}, bounds {part.bounds}")
            self._values[part.name] = value
        for series in demands.values():
            phases = 2 * np.pi * np.arange(4096) / 4096
            for order, limit in ((0, self.inputs[0].limit), (1, self.inputs[0].rate_limit)):
                self._judge(f"demand of order {order}", float(np.abs(_values(series, phases, order)).max()), limit)
            if self._series is not None and not _share_period(self._series.frequency, series.frequency):
                # The phase goes on at the new frequency.
                self._time *= self._series.frequency / series.frequency
                self._series = FourierSeries(series.frequency, self._series.coefficients)
            rest = FourierSeries(series.frequency, [0.0])
            self._before, self._series = self._series if self._series is not None else rest, series
            self._left = max(round((self.inputs[0].ramp or 0.0) / self.sample_time), 0)

    def run(self, samples: int) -> Samples:
        if self._series is None or self._before is None:
            raise RuntimeError("run without a demand")
        self.counts["samples"] += samples
        times = self._time + self.sample_time * np.arange(samples)
        demand = self._signal(times, self._left - np.arange(samples, dtype=float))
        self._judge("a sample", float(np.abs(demand).max()), self.inputs[0].limit)
        steps = np.diff(np.concatenate([[self._last], demand]))
        self._last = float(demand[-1])
        if self.inputs[0].ramp is not None:
            self._judge("a rate", float(np.abs(steps).max()) / self.sample_time, self.inputs[0].rate_limit)
        phases = self._series.frequency * times
        force = self._values["p"] * np.cos(phases)
        control = demand + demand**3 - force
        first, self._index = self._index, self._index + samples
        self._time, self._left = float(times[-1] + self.sample_time), max(self._left - samples, 0)
        if self.pace:
            time.sleep(self.pace * samples * self.sample_time)
        nothing = np.zeros(samples, bool)
        return Samples(
            first, phases, (demand - control / 5)[:, None], control[:, None], nothing, nothing, self._left > 0
        )

    def _signal(self, times: Array, left: Array) -> Array:
        """The demand at these times, `left` samples before the ramp has ended."""
        assert self._series is not None
        assert self._before is not None
        new = _values(self._series, self._series.frequency * times)
        total = max(round((self.inputs[0].ramp or 0.0) / self.sample_time), 0)
        if not total:
            return new
        share = np.clip(1 - left / total, 0.0, 1.0)
        weight = 0.5 * (1 - np.cos(np.pi * share))
        return (1 - weight) * _values(self._before, self._before.frequency * times) + weight * new

    def stop(self) -> None:
        self.counts["stop"] += 1
        self._rest()
        self._note("stop")

    def __enter__(self) -> RecordingRig:
        return self

    def __exit__(self, *problem: Any) -> None:
        self.stop()


def _values(series: FourierSeries, phases: Array, order: int = 0) -> Array:
    """By the definition of the series, one mode after the other."""
    a = series.coefficients
    result = np.zeros(phases.shape) if order else np.full(phases.shape, a[0])
    for k in range(1, a.size // 2 + 1):
        cosine, sine = (a[2 * k - 1], a[2 * k]) if not order else (a[2 * k], -a[2 * k - 1])
        result = result + (k * series.frequency) ** order * (cosine * np.cos(k * phases) + sine * np.sin(k * phases))
    return result


def _share_period(first: float, second: float) -> bool:
    ratio = max(first, second) / min(first, second)
    return abs(ratio - round(ratio)) < 1e-9 * ratio


def attack(seed: int, most: int = 11) -> RecordingRig:
    """Up to `most` random uses of a rig; nothing beyond its limits may be sent, refusals are normal."""
    random = np.random.default_rng(seed)
    rig = RecordingRig(random.choice([None, 0.0, 0.05, 0.3]), rate_limit=float(random.choice([12.0, 40.0, np.inf])))
    limited = LimitedRig(rig)
    uses = (_demand, _demand, _demand, _demand, _measurement, _walk, _gains, _multisine, _orbit)
    for _ in range(int(random.integers(2, most + 1))):
        use = uses[int(random.integers(len(uses)))]
        try:
            use(random, limited)
        except RigLimitError:
            rig.counts["refused"] += 1
        except KapitzaError:
            rig.counts["other"] += 1
        if random.random() < 0.1:
            limited.stop()
    return rig


def _series(random: np.random.Generator, frequency: float | None = None) -> FourierSeries:
    """A random demand, often next to a limit of its value or rate, now and then far beyond or not finite."""
    modes = int(random.integers(0, 13))
    values = random.standard_normal(2 * modes + 1) * np.exp(-random.uniform(0, 2) * np.arange(2 * modes + 1) / 2)
    series = FourierSeries(frequency or float(random.choice([2, 3, 4, 8, random.uniform(2, 9)])), values)
    kind = random.random()
    if kind < 0.05:
        return FourierSeries(series.frequency, values * 10.0 ** random.uniform(-300, 307))
    if kind < 0.07:
        return FourierSeries(series.frequency, np.append(values, [np.nan, np.inf]))
    phases = 2 * np.pi * np.arange(2048) / 2048
    order = int(random.integers(2))
    peak = float(np.abs(_values(series, phases, order)).max()) or 1.0
    size = (1.5, 12.0, 40.0)[order + int(order and random.random() < 0.5)]
    near = 1 + random.choice([-1, 1]) * 10.0 ** random.uniform(-8, -0.3)
    return FourierSeries(series.frequency, values * size / peak * (near if random.random() < 0.7 else random.random()))


def _values_of_parameters(random: np.random.Generator) -> dict[str, float]:
    choices: list[float] = [0.0, 5.0, 5.0000001, -1e-12, np.nan, np.inf, float(random.uniform(0, 5))]
    found = {} if random.random() < 0.5 else {"p": choices[int(random.choice(7, p=[0.1] * 4 + [0.05] * 2 + [0.5]))]}
    return found | ({"omega": float(random.uniform(1.5, 9.5))} if random.random() < 0.3 else {})


def _demand(random: np.random.Generator, rig: LimitedRig) -> None:
    rig.set({"x": _series(random)}, **_values_of_parameters(random))
    rig.run(int(random.integers(1, 200)))


def _measurement(random: np.random.Generator, rig: LimitedRig) -> None:
    settle_and_measure(rig, {"x": _series(random)}, _values_of_parameters(random), longest=4)


def _experiment(random: np.random.Generator, rig: LimitedRig) -> Experiment:
    values = {"p": float(random.uniform(0, 5)), "omega": float(random.uniform(2, 9))}
    return Experiment(rig, frequency="omega", modes=int(random.integers(1, 4)), extra=2, values=values, longest=6)


def _walk(random: np.random.Generator, rig: LimitedRig) -> None:
    test = _experiment(random, rig)
    name = str(random.choice(["p", "omega"]))
    low, high = np.sort(test.values[name] + np.array([-1.0, 1.0]) * random.uniform(0.1, 6, 2))
    sent = len(test.rig.rig.beyond)
    start = {"x": FourierSeries(test.values["omega"], [0.0, random.uniform(0, 1.2), 0.0])}
    branch = test.follow(
        start, name, (float(low), float(high)), direction=int(random.choice([-1, 1])),
        stepping=RigStepping(max_points=int(random.integers(3, 25)), largest=float(random.uniform(0.1, 0.5))),
    )  # fmt: skip
    for point in branch:
        if not low <= point.value <= high:
            test.rig.rig.beyond.append(f"{name} = {point.value} followed beyond ({low}, {high})")
    assert len(test.rig.rig.beyond) == sent, test.rig.rig.beyond


def _gains(random: np.random.Generator, rig: LimitedRig) -> None:
    test = _experiment(random, rig)
    advise_gains(test, {"x": _series(random, test.values["omega"])}, step=float(random.uniform(0, 3)), periods=5)


def _point(random: np.random.Generator, rig: LimitedRig) -> tuple[Experiment, Any]:
    test = _experiment(random, rig)
    bounds = (test.values["p"] - 0.5, test.values["p"] + 0.5)
    branch = test.follow(None, "p", bounds, stepping=RigStepping(max_points=3))
    return test, branch[-1]


def _multisine(random: np.random.Generator, rig: LimitedRig) -> None:
    test, point = _point(random, rig)
    measure_multipliers(test, point, FloquetSettings(periods=4, angle=float(random.uniform(0.01, 1)), modes=1))


def _orbit(random: np.random.Generator, rig: LimitedRig) -> None:
    measure_orbit(*_point(random, rig), "p")
