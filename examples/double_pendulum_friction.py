"""Eleven parameters of a shaken double pendulum, dry friction included, from one minute of encoder counts."""

import numpy as np

import kapitza as kz
from kapitza.flow import chaotic_record

rig = kz.library.base_excited_double_pendulum().with_values(C11=1.02e-3)
angles = chaotic_record(rig, periods=300, samples_per_period=100, seed=1).select(["phi1", "phi2"])
record = kz.measure(angles, quantum=2 * np.pi / 1024)

fit = kz.identify(rig, record, free=rig.names, method=kz.HarmonicFit())
print(fit)
for name in rig.names:
    truth = rig.values[name]
    if truth:
        print(f"{name:4s} off by {100 * (fit[name] / truth - 1):+.3f} %")
