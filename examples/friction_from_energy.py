"""Friction and natural frequency of a decaying pendulum from its encoder angle, by the balance of its energy."""

import numpy as np

import kapitza as kz

pendulum = kz.Model.from_equations(
    "phi'' + c*phi' + omega0**2*sin(phi) = 0", angles=["phi"], parameters={"c": 0.05, "omega0": 3.0}
)
clean = kz.simulate(pendulum, x0=[2.5, 0.0], t=np.arange(0, 40, 0.01))
record = kz.measure(clean.select(["phi"]), quantum=2 * np.pi / 4096, seed=1)  # 4096 counts a turn

guess = pendulum.with_values(c=0.5, omega0=1.0)
method = kz.InvariantFit("balance", invariant="phi'**2/2 - omega0**2*cos(phi)")
print(kz.identify(guess, record, method=method))
