"""A rig of your own in a TOML file: trajectory, tangents, and what an encoder would see of it."""

import tempfile
from pathlib import Path

import numpy as np

import kapitza as kz

RIG = """
name = "cart on a nonlinear spring"
equations = ["m*x'' + c*x' + k*x + k3*x**3 - F*cos(omega*t) = 0"]

[excitation]
period = "2*pi/omega"

[parameters]
m = 1.2
c = 0.3
k = 40.0
k3 = 900.0
F = 5.0
omega = 6.0

[start]
x = 0.05
"x'" = 0.0
"""

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "rig.toml"
    path.write_text(RIG)
    model = kz.read_model(path)

# How the state after one period depends on the start and on two parameters, without writing a derivative
flow = kz.Flow(model, wrt=("k", "c"))
end = flow.propagate([0.05, 0.0], 0.0, model.period)
print("state after one period:", np.round(end.state, 6))
print("∂(x, x')/∂(x0, x0'):\n", np.round(end.jacobian, 4))
print("∂(x, x')/∂(k, c):\n", np.round(end.sensitivity, 6))

# A displacement sensor with 10 µm resolution and 20 µm noise, 1 % of the samples lost
record = kz.simulate(model, periods=50, samples_per_period=200)
measured = kz.measure(record.select(["x"]), noise=2e-5, quantum=1e-5, drop=0.01, seed=1)
print(measured)
