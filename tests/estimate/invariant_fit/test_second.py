"""A second conserved quantity: the parameters of the first are not determined, and the fit says so."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import IdentifiabilityError

BODY = kz.Model.from_equations(
    ["p' = (B - C)/A*q*r", "q' = (C - A)/B*r*p", "r' = (A - B)/C*p*q"],
    parameters={"A": 1.3, "B": 2.1, "C": 3.2},
    invariants={"H": "A*p**2 + B*q**2 + C*r**2"},
)
"""Free rotation of a rigid body: A² p² + B² q² + C² r² is conserved beside the energy (Euler)."""


@pytest.fixture(scope="module")
def turning():
    return kz.simulate(BODY, x0=[0.7, 0.9, 0.4], t=np.arange(600) * 0.05)


@pytest.mark.parametrize("noise", [0.002, 0.02])
@pytest.mark.parametrize("seed", range(3))
def test_two_moments_of_a_rigid_body_are_refused(turning, noise, seed):
    record = kz.measure(turning, noise=noise, seed=seed)
    with pytest.raises(IdentifiabilityError, match="second quantity is conserved"):
        kz.identify(BODY, record, ["B", "C"], kz.InvariantFit())


def test_one_moment_is_determined(turning):
    fit = kz.identify(BODY, kz.measure(turning, noise=0.01, seed=1), ["C"], kz.InvariantFit())
    assert abs(fit["C"] - 3.2) < 4 * fit.deviations["C"]
    assert fit.deviations["C"] < 0.1
