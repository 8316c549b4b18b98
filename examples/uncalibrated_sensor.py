"""A rig with an uncalibrated sensor: what can be known, the fit, and a test on data that were not fitted."""

import numpy as np

import kapitza as kz

# The rig: a driven cubic oscillator. The sensor is an amplifier of unknown gain with an offset that drifts.
rig = kz.Model.from_equations(
    "m*x'' + c*x' + k*x + k3*x**3 = F*cos(w*t)",
    parameters={"m": 0.5, "c": 0.05, "k": 0.5, "k3": 0.25, "F": 0.4, "w": 1.3},
    period="2*pi/w",
    start={"x": 1.0, "x'": 0.0},
)
time = np.arange(3000) * 0.05
volt = 2.0 * kz.simulate(rig, t=time)["x"] + 0.3 + 0.002 * time
volt += 0.01 * np.random.default_rng(1).normal(size=time.size)
record = kz.Record.from_arrays(time, {"volt": volt}, period=rig.period, phase=0.0)

# Before the fit: which parameters does this sensor determine, with its gain unknown?
with_gain = kz.Model.from_equations(
    "m*x'' + c*x' + k*x + k3*x**3 = F*cos(w*t)",
    parameters={**{name: rig.values[name] for name in rig.names}, "gain": 1.7},
    period="2*pi/w",
)
print(kz.identifiability(with_gain, free=["m", "c", "k", "k3", "gain"], outputs={"volt": "gain*x"}).message())

# With the mass weighed, all of the others follow. Fit the first two thirds, from values 20 % off.
start = rig.with_values(c=0.06, k=0.4, k3=0.3)
sensor = kz.Sensor("x", "gain offset drift", gain=1.7)
fit = kz.identify(start, record.between(stop=100.0), ["c", "k", "k3"], kz.ShootingFit(outputs={"volt": sensor}))
print(fit)

# The rest was not fitted: parameters are held, only states are found.
print(kz.validate(fit, record.between(start=100.0), parts=["prediction", "frequencies"]))
