"""The pendulum that gave its name: fast shaking of the support holds it upright.

Theory for small, fast shaking: upright is stable when a² ω² > 2 g l.
"""

import numpy as np

import kapitza as kz

model = kz.Model.from_equations(
    "phi'' + 2*d*phi' + (g/l - a*omega**2/l*cos(omega*t))*sin(phi) = 0",
    angles=["phi"],
    parameters={"d": 0.5, "g": 9.81, "l": 0.2, "a": 0.02, "omega": 60.0},
    period="2*pi/omega",
)
limit = np.sqrt(2 * 9.81 * 0.2) / 0.02
print(f"theory: upright is stable above omega = {limit:.0f} rad/s")

for omega in (60.0, 90.0, 120.0, 150.0):
    upright = kz.solve_orbit(model.with_values(omega=omega), [np.pi, 0.0])
    growth = np.abs(upright.multipliers).max()
    print(f"omega = {omega:5.1f} rad/s: largest |multiplier| {growth:.4f}, {upright.stability}")
