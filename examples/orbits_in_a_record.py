"""The unstable periodic orbits behind a chaotic pendulum, from 20000 noisy readings of its section."""

from pathlib import Path

import kapitza as kz

model = kz.library.parametric_pendulum()
clean = kz.simulate(model, periods=20000)
record = kz.measure(clean, noise={"phi": 0.003, "phi'": 0.015}, seed=1)

print(kz.inspect(record))
orbits = kz.find_orbits(record, max_period=5)
print(orbits.message)
print(orbits.table()[["period", "code", "phi", "sd phi", "multiplier 1", "sd |multiplier 1|", "visits"]].to_string())

out = Path("out")
out.mkdir(exist_ok=True)
kz.save(orbits, out / "pendulum_orbits.nc")
orbits.plot().savefig(out / "pendulum_orbits.png")
print("saved in", out)
