"""Systems that judge intervals and misfit: none is in the library, and no default was tuned on them.

Chosen before the rules they judge were written. Every one has a right model and, in `missing`, a term that may be put
into the truth and left out of the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

import kapitza as kz

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Judge:
    """A system as text. equations hold {0}, {1}, … where a term may be missing; missing: those terms, with size.

    drive: name of the drive's frequency, None where nothing drives it. step [s] between samples; settle: samples
    left out at the start. seen: the channels that are measured (all coordinates). period: of the drive, as text.
    """

    label: str
    equations: tuple[str, ...]
    values: Mapping[str, float]
    free: tuple[str, ...]
    start: tuple[float, ...]
    step: float
    missing: tuple[str, ...]
    seen: tuple[str, ...]
    drive: str | None = None
    settle: int = 1000
    angles: tuple[str, ...] = ()
    invariant: str | None = None

    def model(self, complete: bool = False, lag: float = 0.0) -> kz.Model:
        """The right model, or (complete) with the missing term; lag [rad]: of the drive behind what is believed."""
        terms = self.missing if complete else ("",) * len(self.missing)
        values = dict(self.values)
        texts = [e.format(*terms) for e in self.equations]
        further: dict[str, object] = {}
        if self.drive:
            texts = (
                [t.replace(f"cos({self.drive}*t)", f"cos({self.drive}*t - {lag!r})") for t in texts] if lag else texts
            )
            further["period"] = f"2*pi/{self.drive}"
        if self.angles:
            further["angles"] = list(self.angles)
        if self.invariant and not complete:
            further["invariants"] = {"H": self.invariant}
        return kz.Model.from_equations(texts, parameters=values, name=self.label, **further)

    def clean(self, samples: int, complete: bool = False, lag: float = 0.0) -> kz.Record:
        return _clean(self.label, samples, complete, lag)


@lru_cache(maxsize=256)
def _clean(label: str, samples: int, complete: bool, lag: float) -> kz.Record:
    judge = next(j for j in JUDGES if j.label == label)
    times = np.arange(judge.settle + samples) * judge.step
    run = kz.simulate(judge.model(complete, lag), x0=list(judge.start), t=times)
    angle = dict(zip(run.channels, run.angles, strict=True))
    return kz.Record.from_arrays(
        times[judge.settle :] if judge.drive else times[:samples],
        {c: run[c][judge.settle :] for c in judge.seen},
        angles=[c for c in judge.seen if angle[c]],
        **({"period": run.period, "phase": float(times[judge.settle] % run.period)} if run.period else {}),
    )


JUDGES: tuple[Judge, ...] = (
    Judge("van der Pol, driven", ("x'' - mu*(1 - x**2)*x' + k*x {0} = F*cos(omega*t)",),
          {"mu": 1.2, "k": 1.0, "F": 1.1, "omega": 1.9}, ("mu", "k", "F"), (1.0, 0.0), 0.05,
          ("+ 0.04*x**3",), ("x",), "omega"),
    Judge("Helmholtz", ("x'' + c*x' + k*x + b*x**2 {0} = F*cos(omega*t)",),
          {"c": 0.12, "k": 1.0, "b": 1.0, "F": 0.07, "omega": 0.87}, ("c", "k", "b", "F"), (0.0, 0.0), 0.08,
          ("+ 0.1*x'*abs(x')",), ("x",), "omega"),
    Judge("pendulum with torque", ("phi'' + c*phi' + w*sin(phi) {0} = T*cos(omega*t)",),
          {"c": 0.5, "w": 1.0, "T": 1.15, "omega": 0.667}, ("c", "w", "T"), (0.3, 0.0), 0.08,
          ("+ 0.03*phi'*abs(phi')",), ("phi",), "omega", angles=("phi",)),
    Judge("FitzHugh-Nagumo, driven", ("v' = v - v**3/3 - w + A*cos(omega*t) {0}", "w' = e*(v + a - b*w)"),
          {"e": 0.1, "a": 0.7, "b": 0.8, "A": 0.74, "omega": 0.6}, ("e", "a", "b", "A"), (0.1, 0.1), 0.1,
          ("+ 0.02*v*w",), ("v", "w"), "omega"),
    Judge("two masses, hardening link", (
              "x'' + c*x' + k*x + h*(x - y)**3 + l*(x - y) {0} = F*cos(omega*t)",
              "y'' + c*y' + k*y - h*(x - y)**3 - l*(x - y) = 0"),
          {"c": 0.15, "k": 1.0, "h": 0.6, "l": 0.4, "F": 1.6, "omega": 1.3}, ("c", "k", "h", "l", "F"),
          (0.5, 0.0, -0.2, 0.0), 0.08, ("+ 0.05*x**3",), ("x", "y"), "omega"),
    Judge("quintic oscillator", ("x'' + c*x' + q*x**5 {0} = F*cos(omega*t)",),
          {"c": 0.1, "q": 1.0, "F": 4.0, "omega": 1.0}, ("c", "q", "F"), (1.0, 0.0), 0.03,
          ("+ 0.1*x",), ("x",), "omega"),
    Judge("Chen", ("x' = a*(y - x)", "y' = (c - a)*x - x*z + c*y {0}", "z' = x*y - b*z"),
          {"a": 35.0, "b": 3.0, "c": 28.0}, ("a", "b", "c"), (-3.0, 2.0, 20.0), 0.004,
          ("- 0.02*y**2",), ("x", "y", "z")),
    Judge("Sprott B", ("x' = a*y*z", "y' = x - b*y {0}", "z' = c - x*y"),
          {"a": 1.0, "b": 1.0, "c": 1.0}, ("a", "b", "c"), (0.5, 0.3, 0.2), 0.06,
          ("- 0.02*y**3",), ("x", "y", "z")),
    Judge("Halvorsen", ("x' = -a*x - b*y - b*z - y**2 {0}", "y' = -a*y - b*z - b*x - z**2",
                        "z' = -a*z - b*x - b*y - x**2"),
          {"a": 1.4, "b": 4.0}, ("a", "b"), (-5.0, 0.0, 0.0), 0.01,
          ("- 0.02*x**2",), ("x", "y", "z")),
    Judge("Rikitake", ("x' = -m*x + z*y", "y' = -m*y + (z - a)*x {0}", "z' = s - x*y"),
          {"m": 1.0, "a": 3.75, "s": 1.0}, ("m", "a", "s"), (1.0, 0.5, 2.0), 0.03,
          ("- 0.02*y*abs(y)",), ("x", "y", "z")),
    Judge("quartic well", ("x'' + k*x + d*x**3 {0} = 0",),
          {"k": 1.0, "d": 0.8}, ("k", "d"), (1.2, 0.0), 0.06,
          ("+ 0.002*x'",), ("x",), settle=0, invariant="x'**2/2 + k*x**2/2 + d*x**4/4"),
    Judge("Lotka-Volterra", ("x' = a*x - b*x*y", "y' = -c*y + d*x*y {0}"),
          {"a": 1.0, "b": 0.6, "c": 0.8, "d": 0.4}, ("a", "b", "c", "d"), (1.0, 0.8), 0.06,
          ("- 0.01*y**2",), ("x", "y"), settle=0, invariant="d*x - c*log(x) + b*y - a*log(y)"),
)  # fmt: skip

FAULTY: tuple[Judge, ...] = JUDGES[:10]
"""The ten that are put on records with faults."""

FAULTS = ("none", "term left out", "drive 1 % off", "phase 0.1 rad off", "gain 1.05", "clock 1.001", "outliers",
          "coloured noise")  # fmt: skip


def noisy(clean: kz.Record, level: float, seed: int, coloured: float = 0.0, outliers: float = 0.0) -> kz.Record:
    """Gaussian noise of `level` times the spread of each channel, first-order autoregressive with `coloured`, and a
    share of outliers fifteen times as large. The noise is not told to the record."""
    rng = np.random.default_rng(seed)
    made = {}
    for channel, angle in zip(clean.channels, clean.angles, strict=True):
        values = clean[channel]
        size = level * (1.0 if angle else float(values.std()))
        noise = rng.standard_normal(clean.size)
        if coloured:
            from scipy.signal import lfilter

            noise = lfilter([np.sqrt(1 - coloured**2)], [1.0, -coloured], noise)
        if outliers:
            noise = np.where(rng.random(clean.size) < outliers, 15 * noise, noise)
        made[channel] = values + size * noise
    angles = [c for c, angle in zip(clean.channels, clean.angles, strict=True) if angle]
    kept = {"period": clean.period, "phase": clean.dataset.attrs.get("phase")} if clean.period else {}
    return kz.Record.from_arrays(clean.time, made, angles=angles, **kept)


def faulty(judge: Judge, fault: str, samples: int, level: float, seed: int) -> tuple[kz.Model, kz.Record] | None:
    """The model that is believed, and a record of what there really is; None where a fault needs a drive."""
    believed = judge.model()
    if fault == "drive 1 % off":
        if judge.drive is None:
            return None
        omega = 1.01 * believed.values[judge.drive]
        wrong = believed.with_values(**{judge.drive: omega})
        record = noisy(judge.clean(samples), level, seed)
        times = record.time - record.excitation_start
        # The record believes the wrong period too: that is the fault.
        return wrong, kz.Record.from_arrays(
            times, {c: record[c] for c in record.channels},
            angles=[c for c, angle in zip(record.channels, record.angles, strict=True) if angle],
        )  # fmt: skip
    if fault == "phase 0.1 rad off":
        return None if judge.drive is None else (believed, noisy(judge.clean(samples, lag=0.1), level, seed))
    record = noisy(
        judge.clean(samples, complete=fault == "term left out"), level, seed,
        coloured=0.8 if fault == "coloured noise" else 0.0, outliers=0.01 if fault == "outliers" else 0.0,
    )  # fmt: skip
    if fault == "gain 1.05":
        first = record.channels[0]
        changed = {c: record[c] * (1.05 if c == first else 1.0) for c in record.channels}
        record = _with(record, record.time, changed)
    if fault == "clock 1.001":
        record = _with(record, record.time * 1.001, {c: record[c] for c in record.channels})
    return believed, record


def _with(record: kz.Record, time: Array, values: Mapping[str, Array]) -> kz.Record:
    angles = [c for c, angle in zip(record.channels, record.angles, strict=True) if angle]
    start = record.excitation_start
    return kz.Record.from_arrays(time - start * time[0] / record.time[0] if start else time, values, angles=angles)
