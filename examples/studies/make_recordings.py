"""Writes the recordings of these studies into data/: simulated ones, and copies of measured ones where they are.

The measured files are found in the folder named by KAPITZA_DATA (see docs/tutorial.md for where they come from).
"""

import os
import shutil
import sys
from pathlib import Path

import numpy as np

import kapitza as kz
from kapitza.flow import chaotic_record
from kapitza.library import sampled_force

MEASURED = (
    "multiarm_pendulum/SinglePendulumDataForParameterEstimation.mat",
    "multiarm_pendulum/DoublePendulumDataForParameterEstimation.mat",
    "emps/DATA_EMPS.mat",
    "silverbox/SNLS80mV.csv",
)


def make(folder: Path, measured: Path | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pendulum = kz.simulate(kz.library.parametric_pendulum(), periods=50_000)
    noise = {"phi": 5e-4 * 2 * np.pi, "phi'": 5e-4 * float(np.ptp(pendulum["phi'"]))}
    kz.write(kz.measure(pendulum, noise=noise, seed=1), folder / "orbits_pendulum.csv")
    rig = kz.library.base_excited_double_pendulum().with_values(C11=1.02e-3)
    angles = chaotic_record(rig, periods=300, samples_per_period=100, seed=1).select(["phi1", "phi2"])
    kz.write(kz.measure(angles, quantum=2 * np.pi / 1024), folder / "double_pendulum.csv")
    strut = kz.library.oleo_simple()
    time = np.linspace(0, strut.period, 1001)[:-1]
    moved = kz.simulate(strut, t=np.concatenate([time, time + strut.period]))
    deflection = moved["u"] + strut.values["theta7"] + 2e-5 * np.random.default_rng(1).standard_normal(len(moved))
    force = sampled_force()(moved.time)
    kz.write(kz.Record.from_arrays(moved.time, {"y": deflection, "F": force}), folder / "oleo.csv")
    stars = kz.simulate(kz.library.henon_heiles(), t=np.arange(2000) * 0.1)
    kz.write(kz.measure(stars.select(["q1", "q2"]), noise=0.002, seed=1), folder / "henon_heiles.csv")
    for name in MEASURED:
        if measured is not None and (measured / name).is_file():
            shutil.copy(measured / name, folder / Path(name).name)


if __name__ == "__main__":
    place = os.environ.get("KAPITZA_DATA")
    make(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "data"), Path(place) if place else None)
