"""Free vibrations as a family: the backbone of Duffing's oscillator has a closed form."""

import numpy as np
import pytest
from scipy.special import ellipk

import kapitza as kz


def oscillator():
    return kz.Model.from_equations(
        "x'' + c*x' + x + x**3 = B*cos(omega*t)",
        parameters={"c": 0.1, "B": 0.3, "omega": 0.8},
        period="2*pi/omega",
        start={"x": 0.3, "x'": 0.0},
        name="duffing",
    )


def exact(amplitude):
    """ω(a) of x'' + x + x³ = 0: a quarter of the period is K(m)/√(1 + a²), m = a²/2(1 + a²)."""
    return np.pi / 2 * np.sqrt(1 + amplitude**2) / ellipk(amplitude**2 / (2 * (1 + amplitude**2)))


def test_the_backbone_is_the_elliptic_integral():
    curve = kz.backbone(oscillator(), "omega", force="B", damping="c", bounds=(0.9, 2.2))
    amplitude = curve.points[:, 0]
    assert amplitude[-1] > 2
    assert curve.values[:, 0] == pytest.approx(exact(amplitude), abs=1e-10)
    assert "of zero" in curve.notes[0]


def test_responses_peak_on_the_backbone():
    response = kz.frequency_response(oscillator(), "omega", (0.8, 2.2), force="B", damping="c", levels=(0.1, 0.3))
    for branch in response.branches:
        amplitude = branch.amplitude("x")
        peak = int(np.argmax(amplitude))
        assert branch.values[peak, 0] == pytest.approx(exact(amplitude[peak]), rel=0.02)


@pytest.mark.parametrize(
    ("mode", "stiffness", "hardening"), [(0, 1.0, 1.0), (1, 2.0, 1.8)], ids=["in phase", "against"]
)
def test_normal_modes_of_two_masses_are_elliptic_integrals(mode, stiffness, hardening):
    """Equal masses move alike or against each other: u'' + s u + h u³ = 0, s = h = 1 or s = 1 + 2k, h = 1 + 8 k3."""
    model = kz.Model.from_equations(
        [
            "x'' + c*x' + x + x**3 + 0.5*(x - y) + 0.1*(x - y)**3 = B*cos(omega*t)",
            "y'' + c*y' + y + y**3 + 0.5*(y - x) + 0.1*(y - x)**3 = 0",
        ],
        parameters={"c": 0.1, "B": 0.3, "omega": 0.8},
        period="2*pi/omega",
        name="two masses",
    )
    curve = kz.backbone(model, "omega", force="B", damping="c", bounds=(0.9, 2.2), mode=mode)
    u, sign = curve.points[:, 0], 1 - 2 * mode
    assert curve.points[:, 1] == pytest.approx(sign * u, abs=1e-8)
    total = stiffness + hardening * u**2
    frequency = np.pi / 2 * np.sqrt(total) / ellipk(hardening * u**2 / (2 * total))
    assert u[-1] > 1
    assert curve.values[:, 0] == pytest.approx(frequency, abs=1e-9)


def test_what_has_no_backbone_is_refused():
    with pytest.raises(kz.KapitzaError, match="modes"):
        kz.backbone(oscillator(), "omega", force="B", damping="c", mode=1)
    with pytest.raises(kz.KapitzaError, match="no excitation"):
        kz.backbone(kz.library.lorenz(), "rho", force="sigma", damping="beta")
    with pytest.raises(kz.KapitzaError, match="no parameter"):
        kz.backbone(oscillator(), "omega", force="F", damping="c")
