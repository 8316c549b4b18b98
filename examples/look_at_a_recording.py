"""A first look at a real recording: the electronic Duffing oscillator "silverbox" (see ../shared/data)."""

import os
from pathlib import Path

import kapitza as kz

folder = Path(os.environ.get("KAPITZA_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
path = folder / "silverbox" / "SNLS80mV.csv"
if not path.exists():
    raise SystemExit(f"{path} is not there: set KAPITZA_DATA to the folder with measured data.")

record = kz.read(path, channels=["V1", "V2"], interval=1 / 610.35, units={"V1": "V", "V2": "V"})
# The first 40000 samples are the growing Gaussian excitation: the louder half of them.
noisy = record.samples(slice(20000, 40000))
found = kz.inspect(noisy, channels=["V2"])
print(found)

out = Path("out")
out.mkdir(exist_ok=True)
found.plot(out / "silverbox_inspection.png")
orbits = kz.find_orbits(noisy.select(["V2"]), max_period=4)
# The input is random, so no motion repeats and none is claimed.
print(len(orbits), "orbits.", orbits.message)
