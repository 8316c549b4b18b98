"""Checks of an identified model against closed forms and measured data."""

import numpy as np
import pytest
from scipy.io import loadmat

import kapitza as kz
from kapitza.report import plot_residues

DRIVE = 5.0
"""Hz: time of the double pendulum counts 2π per shake."""


def test_natural_frequencies_of_the_linearised_double_pendulum():
    """HARMONIC 33 with the values of its Table 3: 1.348 and 2.912 Hz, from the characteristic equation by hand."""
    model = kz.library.base_excited_double_pendulum()
    found = model.with_values(C12=0.0, C2=0.0).linearise().frequencies * DRIVE
    b11, b12, b21, b22 = (model.values[n] for n in ("B11", "B12", "B21", "B22"))
    # (1 - b11 b21) λ² - (b12 + b22) λ + b12 b22 = 0 for λ = ω².
    squares = np.sort(np.roots([1 - b11 * b21, -(b12 + b22), b12 * b22]))
    np.testing.assert_allclose(found, np.sqrt(squares) * DRIVE, rtol=1e-9)
    np.testing.assert_allclose(found, [1.348, 2.912], rtol=1e-3)


def test_noise_for_a_channel_that_is_not_there_is_refused(pendulum, pendulum_record):
    with pytest.raises(kz.KapitzaError, match=r'noise names "theta3".*theta1, theta2'):
        kz.identify(pendulum, pendulum_record, free=["B11"], method=kz.HarmonicFit(noise={"theta3": 1e-3}))


def test_noise_given_for_one_channel_leaves_the_other_to_the_spectrum(pendulum, pendulum_record):
    noisy = kz.measure(pendulum_record, noise={"theta1": 2e-3, "theta2": 4e-3}, seed=5)
    angles = {name: np.unwrap(noisy[name]) for name in noisy.channels}
    bare = kz.Record.from_arrays(noisy.time, angles)
    fit = kz.identify(pendulum, bare, free=["B11"], method=kz.HarmonicFit(noise={"theta1": 2e-3}))
    assert fit.noise["theta1"] == 2e-3
    assert fit.noise["theta2"] == pytest.approx(4e-3, rel=0.1)


def test_residues_are_drawn(pendulum, long_record):
    orbits = kz.find_orbits(long_record, max_period=8, method=kz.ReturnSearch(tolerance=0.02))
    method = kz.HarmonicFit(test="harmonics", derivatives="series", solver="exclusion")
    fit = kz.identify(pendulum, orbits, free=pendulum.names, method=method)
    axes = plot_residues(fit, equation=2)
    drawn = sum(len(line.get_xdata()) for line in axes.get_lines()[1:])
    assert drawn == len(fit.rows.residues["equation 2"])


def test_positioning_axis(data_folder):
    """EMPS: M, Fv, Fc, offset within 2 % of the values quoted by Janot, Gautier and Brunot (2019)."""
    data = loadmat(data_folder / "emps" / "DATA_EMPS.mat")
    time, position = data["t"].ravel(), data["qm"].ravel()
    force = 35.1507 * data["vir"].ravel()
    model = kz.Model.from_equations(
        "M*q'' + Fv*q' + Fc*sign(q') + offset = F",
        parameters={"M": 50.0, "Fv": 100.0, "Fc": 10.0, "offset": 0.0},
        signals=[kz.Signal("F", time, force, time[-1] + time[1])],
    )
    record = kz.Record.from_arrays(time, {"q": position, "F": force})
    fit = kz.identify(model, record, method=kz.HarmonicFit(width=0.2))
    quoted = {"M": 95.1, "Fv": 203.5, "Fc": 20.4, "offset": -3.16}
    for name, value in quoted.items():
        assert fit[name] == pytest.approx(value, rel=0.02)
        low, high = fit.interval(0.95).loc[name]
        assert low <= value <= high
