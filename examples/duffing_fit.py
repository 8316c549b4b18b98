"""Three parameters of a chaotic oscillator from its noisy displacement, and a report to open in a browser."""

from pathlib import Path

import kapitza as kz

rig = kz.Model.from_equations(
    "x'' + c*x' + k1*x + k3*x**3 = F*cos(omega*t)",
    parameters={"c": 0.25, "k1": -1.0, "k3": 1.0, "F": 0.3, "omega": 1.0},
    period="2*pi/omega",
    start={"x": 1.0, "x'": 0.0},
)
clean = kz.simulate(rig, periods=300, samples_per_period=200)
record = kz.measure(clean.select(["x"]), noise=0.01, seed=3)

guess = rig.with_values(c=1.0, k1=1.0, k3=0.1)
fit = kz.identify(guess, record, free=["c", "k1", "k3"], method=kz.HarmonicFit())
print(fit)
print("report:", fit.report(Path("out") / "duffing_fit.html"))
