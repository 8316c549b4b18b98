"""How times grow with orbits, parameters and workers; samples and degrees of freedom have pages of their own."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from harness import kept, markdown_table, measure
from reproductions.orbit_fit_coverage import shaken

import kapitza as kz

ORBITS = (2, 4, 8, 16, 32, 64)
PARAMETERS = (1, 2, 4, 8, 16)
WORKERS = (1, 2, 4)
FITS = int(os.environ.get("KAPITZA_SCALING_FITS", "400"))
"""Fits of the study that the workers share."""


def slope(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Exponent of the growth over the larger half of the sizes, where what is constant no longer counts."""
    half = len(sizes) // 2 - (len(sizes) % 2 == 0)
    return float(np.polyfit(np.log(sizes[half:]), np.log(seconds[half:]), 1)[0])


def over_orbits() -> list[float]:
    """OrbitFit of m and l of the ORBITS pendulum from section points with errors."""
    model = kz.library.parametric_pendulum()
    found = kz.find_orbits(model, max_period=4, region={"phi'": (-15.0, 15.0)}, starts=512, rounds=2, seed=1)
    orbits = shaken(sorted(found, key=lambda o: o.period), np.array([1e-5, 5e-5]), 1)
    assert len(orbits) >= ORBITS[-1], len(orbits)
    start = model.with_values(m=1.1 * model.values["m"], l=0.95 * model.values["l"])
    # Of every size the same mixture of periods.
    chosen = [[orbits[i] for i in np.linspace(0, len(orbits) - 1, n).astype(int)] for n in ORBITS]
    return [measure(lambda own=own: kz.identify(start, own, ["m", "l"])).seconds for own in chosen]


def own_springs(masses: int) -> kz.Model:
    """A chain in which every mass has a stiffness of its own to the ground."""
    names = [f"x{i}" for i in range(1, masses + 1)]
    equations = []
    for i, x in enumerate(names):
        sides = [names[j] for j in (i - 1, i + 1) if 0 <= j < masses]
        springs = " + ".join(f"0.5*({x} - {other})" for other in sides)
        equations.append(f"{x}'' + 0.1*{x}' + k{i + 1}*{x} + 0.2*{x}**3 + {springs} = {'cos(1.3*t)' if not i else '0'}")
    return kz.Model.from_equations(
        equations, coordinates=names, parameters={f"k{i + 1}": 1.0 + 0.1 * i for i in range(masses)},
        period="2*pi/1.3", start=dict.fromkeys(names, 0.0) | {n + "'": 0.0 for n in names}, name="own springs",
    )  # fmt: skip


def over_parameters(method: kz.HarmonicFit | kz.ShootingFit) -> list[float]:
    """The same record of 16 masses, more and more of their stiffnesses free."""
    model = own_springs(PARAMETERS[-1])
    names = [f"x{i}" for i in range(1, PARAMETERS[-1] + 1)]
    record = kz.simulate(model, periods=20, samples_per_period=50, noise=1e-3, seed=1).select(names)
    seconds = []
    for count in PARAMETERS:
        free = [f"k{i + 1}" for i in range(count)]
        start = model.with_values(**{n: 1.05 * model.values[n] for n in free})
        seconds.append(measure(lambda start=start, free=free: kz.identify(start, record, free, method), 2).seconds)
    return seconds


def over_workers() -> list[float]:
    """Seconds on the clock of one coverage study, start of the workers and compilation included."""
    model = kz.library.duffing()
    record = kz.simulate(model, periods=60, samples_per_period=60).select(["x"])
    seconds = []
    for workers in WORKERS:
        settings = {"fits": FITS, "seed": 1, "workers": workers}
        work = measure(
            lambda settings=settings: kz.coverage(model, record, 0.01, ["k", "B"], kz.HarmonicFit(), **settings),
            repeats=1, warm_up=False,
        )  # fmt: skip
        seconds.append(work.wall)
    return seconds


def main() -> str:
    series = [
        ("orbits", "OrbitFit of 2 parameters", ORBITS, kept("scaling", "orbits", over_orbits)),
        ("parameters", "HarmonicFit, 16 masses, 1000 samples", PARAMETERS,
         kept("scaling", "weak", lambda: over_parameters(kz.HarmonicFit()))),
        ("parameters", "ShootingFit, 16 masses, 1000 samples", PARAMETERS,
         kept("scaling", "shooting", lambda: over_parameters(kz.ShootingFit()))),
        ("workers", f"coverage study of {FITS} fits", WORKERS, kept("scaling", f"{FITS} fits", over_workers)),
    ]  # fmt: skip
    rows = [
        (over, job, size, f"{seconds:.3g}")
        for over, job, sizes, found in series
        for size, seconds in zip(sizes, found, strict=True)
    ]
    said = "\n".join(
        f"- {job}: time grows as {over}^{slope(sizes, found):.2f}."
        for over, job, sizes, found in series
        if over != "workers"
    )
    workers = series[-1][3]
    return (
        "# Growth with orbits, parameters and workers\n\nProcessor seconds of one thread without compilation; over "
        f"workers, seconds on the clock of a machine with {os.cpu_count()} cores, start of the workers and compilation "
        f"included.\n\n{said}\n- two workers: {workers[0] / workers[1]:.2f} times as fast as one.\n\n"
        + markdown_table(["over", "job", "size", "seconds"], rows)
    )
