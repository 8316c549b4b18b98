"""Halves and runs for `OrbitFit` and `BranchFit`: measured where recordings allow it, else of models that lack a term.

Systems, terms, frequencies and numbers of pairs were listed before anything was fitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat
from scipy.signal import resample

import kapitza as kz
from kapitza.signal.decay import half_cycles
from kapitza.solve import ByEffort

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Rig:
    """A model, its free parameters, and the two halves of what was measured; one model for both, or one for each."""

    label: str
    model: kz.Model | tuple[kz.Model, kz.Model]
    free: tuple[str, ...]
    halves: tuple[Any, Any]
    methods: tuple[str, ...] = ("HarmonicFit", "auto")
    measured: bool = True
    settings: dict[str, Any] = field(default_factory=dict)


# Silverbox: ten multisine realisations. Each is one period of 8192 samples after 393 samples that repeat its end; the
# output repeats to its noise after 150 of them.
BOX_STARTS = (40592, 49283, 57977, 66672, 75361, 84053, 92742, 101439, 110129, 118821)
BOX_PERIOD, BOX_SETTLED, BOX_RATE, BOX_FINER = 8192, 200, 610.35, 2


def box_runs(folder: Path) -> Iterator[Rig]:
    """Periodic responses of the electronic Duffing oscillator, one realisation of its drive against the next."""
    table = np.genfromtxt(folder / "silverbox" / "SNLS80mV.csv", delimiter=",", skip_header=1)[:, :2]
    period, times = BOX_PERIOD / BOX_RATE, np.arange(BOX_PERIOD) / BOX_RATE
    made = []
    for start in BOX_STARTS:
        part = table[start + BOX_SETTLED : start + BOX_SETTLED + BOX_PERIOD]
        # The drive reaches a third of the sampling rate: its interpolation within the band, not a polynomial's.
        drive = np.asarray(resample(part[:, 0], BOX_FINER * BOX_PERIOD), float)
        finer = np.arange(drive.size) / (BOX_FINER * BOX_RATE)
        model = kz.Model.from_equations(
            "m*y'' + d*y' + k1*y + k3*y**3 + o = u",
            parameters={"m": 5.4e-6, "d": 2.2e-4, "k1": 1.0, "k3": 4.0, "o": 0.0},
            signals=[kz.Signal("u", finer, drive, period, degree=5)],
        )
        made.append((model, kz.Record.from_arrays(times, {"y": part[:, 1]}, period=period, phase=0.0)))
    # The mean of the drive is 6 mV, that of the output 0.8 mV with k1 = 1: an offset that the first rows leave out.
    for title, free in (("silverbox", ("m", "d", "k1", "k3")), ("silverbox, offset", ("m", "d", "k1", "k3", "o"))):
        for i in range(0, len(made), 2):
            (one, first), (other, second) = made[i], made[i + 1]
            yield Rig(f"{title}, multisines {i + 1} and {i + 2}", (one, other), free, (first, second), ("OrbitFit",))


def pendulum_backbones(folder: Path) -> Iterator[Rig]:
    """Amplitude and frequency of the cycles of the decaying pendulum: pieces against each other, halves of each."""
    content = loadmat(folder / "multiarm_pendulum" / "SinglePendulumDataForParameterEstimation.mat")
    model = kz.Model.from_equations(
        "phi'' + d*phi' + w2*sin(phi) = B*cos(omega*t)",
        parameters={"w2": 64.0, "d": 0.05, "B": 0.05, "omega": 7.0},
        period="2*pi/omega",
    )
    # Angles are from the top. The six pieces follow each other in one decay.
    pieces = [np.asarray(y[0], float) - np.pi for key in ("Y_id", "Y_vad") for y in content[key].ravel()]
    curves = [_backbone(np.arange(one.size) * 1e-3, one) for one in pieces]
    settings = {"bounds": (5.5, 8.3)}
    every = [curve.measured() for curve in curves]
    yield Rig("pendulum, backbones of the two halves of the decay", model, ("w2",), (every[:3], every[3:]),
              ("BranchFit",), True, settings)  # fmt: skip
    for i in range(0, len(curves), 2):
        yield Rig(f"pendulum, backbones {i + 1} and {i + 2}", model, ("w2",), (every[i], every[i + 1]), ("BranchFit",),
                  True, settings)  # fmt: skip
    for i, curve in enumerate(curves):
        middle = curve.frequency.size // 2
        pair = tuple(curve.measured(s) for s in (slice(0, middle), slice(middle, None)))
        yield Rig(f"pendulum, halves of backbone {i + 1}", model, ("w2",), (pair[0], pair[1]), ("BranchFit",), True,
                  settings)  # fmt: skip


@dataclass(frozen=True)
class Backbone:
    """Angular frequency and half peak-to-peak amplitude of successive cycles, and the noise of their record [rad]."""

    frequency: Array
    amplitude: Array
    noise: float

    def measured(self, part: slice = slice(None)) -> kz.MeasuredBranch:
        frequency, amplitude = self.frequency[part], self.amplitude[part]
        # A period is the mean of two between crossings of either direction, each off by √2 noise/(A ω); an amplitude
        # is that of three half cycles with weights 1/4, 1/2 and 1/4.
        crossing = frequency * self.noise / (2 * np.pi * amplitude)
        return kz.MeasuredBranch("backbone", "omega", frequency, amplitude, "phi", crossing,
                                 self.noise * np.sqrt(0.375), "B", "d")  # fmt: skip


def _backbone(time: Array, values: Array) -> Backbone:
    noise = kz.inspect(kz.Record.from_arrays(time, {"phi": values})).noise["phi"]
    decay = half_cycles(time, values, 0.0, noise)
    assert decay is not None
    amplitude = decay.amplitude[1:-1] / 2 + (decay.amplitude[:-2] + decay.amplitude[2:]) / 4
    # Cycles around every second half cycle do not overlap.
    return Backbone(2 * np.pi * decay.frequency[1:-1][::2], amplitude[::2], noise)


@dataclass(frozen=True)
class Lacking:
    """A driven system whose model lacks the term with q; pairs: frequencies of two runs; levels: of the force."""

    label: str
    equation: str
    values: dict[str, float]
    free: tuple[str, ...]
    pairs: tuple[tuple[float, float], ...] = ()
    bounds: tuple[float, float] = (0.0, 0.0)

    @property
    def state(self) -> str:
        return self.equation.partition("'")[0]

    def model(self, **values: float) -> kz.Model:
        return kz.Model.from_equations(
            self.equation, parameters={**self.values, **values}, period="2*pi/omega",
            start={self.state: 0.1, f"{self.state}'": 0.0}, name=self.label,
        )  # fmt: skip


PERIODIC = (
    Lacking("hardening spring without its drag", "x'' + c*x' + x + k*x**3 + q*x'*abs(x') = F*cos(omega*t)",
            {"c": 0.1, "k": 0.5, "q": 0.03, "F": 0.4, "omega": 1.0}, ("c", "k"),
            ((0.7, 0.8), (0.9, 1.0), (1.1, 1.2), (1.9, 2.0))),
    Lacking("pendulum without its cubic damping", "p'' + c*p' + g*sin(p) + q*p'**3 = F*cos(omega*t)",
            {"c": 0.1, "g": 1.0, "q": 0.02, "F": 0.3, "omega": 1.0}, ("c", "g"),
            ((0.5, 0.55), (0.6, 0.65), (1.2, 1.25), (1.4, 1.5))),
    Lacking("uneven spring without its fifth power", "x'' + c*x' + k*x + s*x**2 + q*x**5 = F*cos(omega*t)",
            {"c": 0.12, "k": 1.0, "s": 0.3, "q": 0.05, "F": 0.3, "omega": 1.0}, ("c", "k", "s"),
            ((0.5, 0.55), (0.65, 0.7), (1.2, 1.3), (1.5, 1.6))),
)  # fmt: skip
PERIOD_SAMPLES, PERIOD_NOISE = 120, 0.01

CHAOTIC = Lacking("Ueda without its drag", "x'' + c*x' + x**3 + q*x'*abs(x') = F*cos(omega*t)",
                  {"c": 0.05, "q": 0.002, "F": 7.5, "omega": 1.0}, ("c", "F"))  # fmt: skip
STROBES, STROBE_NOISE, CHAOTIC_SEEDS = 20_000, 5e-4, 3


def periodic_runs() -> Iterator[Rig]:
    """Periodic responses at two frequencies of the drive."""
    for number, system in enumerate(PERIODIC):
        for i, pair in enumerate(system.pairs):
            halves = []
            for k, omega in enumerate(pair):
                truth = system.model(omega=omega)
                states = kz.solve_orbit(truth).loop(np.arange(PERIOD_SAMPLES) / PERIOD_SAMPLES)[:, 0]
                rng = np.random.default_rng([11, number, i, k])
                noisy = states + PERIOD_NOISE * states.std() * rng.standard_normal(states.size)
                times = np.arange(PERIOD_SAMPLES) * truth.period / PERIOD_SAMPLES
                halves.append(kz.Record.from_arrays(times, {system.state: noisy}, period=truth.period, phase=0.0))
            models = tuple(system.model(omega=omega, q=0.0) for omega in pair)
            label = f"{system.label}, ω = {pair[0]:g} and {pair[1]:g}"
            yield Rig(label, (models[0], models[1]), system.free, (halves[0], halves[1]), ("OrbitFit",), False)


def chaotic_halves() -> Iterator[Rig]:
    """Orbits found in the two halves of a strobed chaotic record."""
    truth = CHAOTIC.model()
    clean = kz.simulate(truth, periods=STROBES)
    for seed in range(CHAOTIC_SEEDS):
        noise = {c: STROBE_NOISE * float(np.ptp(clean[c])) for c in clean.channels}
        record = kz.measure(clean, noise=noise, seed=seed)
        middle = record.size // 2
        parts = [record.samples(s) for s in (slice(0, middle), slice(middle, None))]
        found = [kz.find_orbits(part, max_period=4) for part in parts]
        yield Rig(f"{CHAOTIC.label}, seed {seed}", CHAOTIC.model(q=0.0), CHAOTIC.free, (found[0], found[1]),
                  ("OrbitFit",), False)  # fmt: skip


RESPONSES = (
    Lacking("hardening spring without its drag", "x'' + c*x' + x + k*x**3 + q*x'*abs(x') = F*cos(omega*t)",
            {"c": 0.08, "k": 0.6, "q": 0.04, "F": 0.25, "omega": 0.6}, ("c", "k"), bounds=(0.6, 2.2)),
    Lacking("pendulum without its cubic damping", "p'' + c*p' + g*sin(p) + q*p'**3 = F*cos(omega*t)",
            {"c": 0.08, "g": 1.0, "q": 0.05, "F": 0.1, "omega": 0.5}, ("c", "g"), bounds=(0.5, 1.3)),
    Lacking("uneven spring without its fifth power", "x'' + c*x' + x + s*x**2 + k*x**3 + q*x**5 = F*cos(omega*t)",
            {"c": 0.1, "s": 0.2, "k": 0.4, "q": 0.04, "F": 0.25, "omega": 0.6}, ("c", "k"), bounds=(0.6, 2.2)),
)  # fmt: skip
POINTS, STRONGER, BRANCH_SEEDS = 32, 1.4, 3
VALUE_NOISE, AMPLITUDE_NOISE = 1.5e-3, 4e-3


def responses() -> Iterator[Rig]:
    """Frequency responses: halves along the frequency, and two levels of the force."""
    stepping = kz.Stepping(rule=ByEffort(0.02, 1e-7, 0.05, wanted=6))
    for number, system in enumerate(RESPONSES):
        low, high = system.bounds
        settings = {"bounds": (low - 0.05, high + 0.1)}
        curves = []
        for force in (system.values["F"], STRONGER * system.values["F"]):
            branch = kz.follow(system.model(F=force), None, "omega", system.bounds, direction=1, stepping=stepping)
            curves.append((branch.values[:, 0], branch.amplitude(system.state, 256)))
        lacks = system.model(q=0.0)
        for seed in range(BRANCH_SEEDS):
            data = [_points(system.state, *curve, [12, number, seed, k]) for k, curve in enumerate(curves)]
            first, second = (
                kz.MeasuredBranch("response", "omega", data[0].values[s], _amplitudes(data[0])[s], system.state,
                                  VALUE_NOISE, AMPLITUDE_NOISE)
                for s in (slice(0, POINTS // 2), slice(POINTS // 2, POINTS))
            )  # fmt: skip
            yield Rig(f"{system.label}, halves, seed {seed}", lacks, system.free, (first, second), ("BranchFit",),
                      False, settings)  # fmt: skip
            levels = (lacks, lacks.with_values(F=STRONGER * system.values["F"]))
            yield Rig(f"{system.label}, two forces, seed {seed}", levels, system.free, (data[0], data[1]),
                      ("BranchFit",), False, settings)  # fmt: skip


def _points(state: str, values: Array, amplitude: Array, key: list[int]) -> kz.MeasuredBranch:
    """Points of a response, in the order of the branch, with noise in both directions."""
    rng = np.random.default_rng(key)
    chosen = np.sort(rng.choice(np.arange(2, values.size - 2), POINTS, replace=False))
    return kz.MeasuredBranch(
        "response", "omega", values[chosen] + VALUE_NOISE * rng.standard_normal(POINTS),
        amplitude[chosen] + AMPLITUDE_NOISE * rng.standard_normal(POINTS), state, VALUE_NOISE, AMPLITUDE_NOISE,
    )  # fmt: skip


def _amplitudes(data: kz.MeasuredBranch) -> Array:
    assert data.amplitudes is not None
    return data.amplitudes
