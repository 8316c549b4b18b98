"""Friction and length of a chaotic pendulum from the unstable orbits in its noisy record, and what to measure next."""

from pathlib import Path

import kapitza as kz

rig = kz.library.parametric_pendulum()
clean = kz.simulate(rig, periods=15000)
record = kz.measure(clean, noise={"phi": 3e-3, "phi'": 1.5e-2}, seed=2)

orbits = kz.find_orbits(record, max_period=4)
print(orbits.message)

guess = rig.with_values(l=0.25, k2=0.0, k3=0.0)
fit = kz.identify(guess, orbits, free=["l", "k2", "k3"], method=kz.OrbitFit(derived={"k2/m": "k2/m"}))
print(fit)
print(kz.advise(fit).head(5).round(1).to_string(index=False))
print("report:", fit.report(Path("out") / "orbits_to_parameters.html"))
