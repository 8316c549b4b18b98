"""Orbits of flows: dense forced records at any phase, autonomous records from one channel, returns without maps."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import DataError
from same_motion import same_motion

# Viswanath (2003), Nonlinearity 16: periods of Lorenz orbits at sigma = 10, rho = 28, beta = 8/3
LORENZ = {"AB": 1.5586522107, "AAB": 2.3059072639, "ABB": 2.3059072639}


@pytest.fixture(scope="module")
def lorenz_x():
    record = kz.simulate(kz.library.lorenz(), t=np.arange(70000) * 0.01)
    return record.samples(slice(1000, None)).select(["x"])


def test_lorenz_periods_from_one_channel(lorenz_x):
    noisy = kz.measure(lorenz_x, noise=0.01 * float(np.std(lorenz_x["x"])), seed=2)
    orbits = kz.find_orbits(noisy, max_period=3)
    found = {orbit.code: orbit.period for orbit in orbits}
    for code, period in LORENZ.items():
        assert found[code] == pytest.approx(period, rel=2e-3)


def test_lorenz_multiplier_follows_its_exponent(lorenz_x):
    """AB has the Floquet exponent 0.9946 per time unit (its multiplier is 4.71)."""
    orbit = kz.find_orbits(lorenz_x, max_period=2).select(code="AB")[0]
    assert abs(orbit.multipliers[0]) == pytest.approx(np.exp(0.9946 * orbit.period), rel=0.1)


def test_coordinates_that_are_functions_of_others_do_not_spoil_multipliers():
    """x, y, z of the Lorenz system: at a turn of x, y and the curvature of x follow from x and z."""
    record = same_motion(kz.library.lorenz(), 60000, 0.01, stretch=200).samples(slice(1000, None))
    orbits = kz.find_orbits(record, max_period=2)
    orbit = orbits.select(code="AB")[0]
    assert len(orbit.states) == 2
    assert abs(orbit.multipliers[0]) == pytest.approx(np.exp(0.9946 * LORENZ["AB"]), rel=0.1)


def test_deviation_of_the_period_holds_the_error(lorenz_x):
    for seed in range(3):
        noisy = kz.measure(lorenz_x, noise=0.01 * float(np.std(lorenz_x["x"])), seed=seed)
        for orbit in kz.find_orbits(noisy, max_period=3):
            assert orbit.code in LORENZ
            assert abs(orbit.period - LORENZ[orbit.code]) < 3.0 * orbit.period_deviation


def test_dense_forced_record_gives_the_same_orbits_at_every_phase():
    """Multipliers of an orbit do not depend on where in the period the section lies."""
    record = kz.simulate(kz.library.parametric_pendulum(), periods=30000, samples_per_period=8)
    moduli = []
    for phase in (0.0, 0.375):
        orbits = kz.find_orbits(record, max_period=1, phase=phase)
        moving = [o for o in orbits if abs(o.winding[0]) == 1]
        assert len(moving) >= 2
        assert all(o.profile is not None and len(o.profile.times) == 8 for o in moving)
        moduli.append(sorted(abs(o.multipliers[0]) for o in moving)[0])
    assert moduli[0] == pytest.approx(1.709, rel=0.02)
    assert moduli[0] == pytest.approx(moduli[1], rel=0.02)


def test_strobing_between_samples_agrees_with_strobing_on_them():
    """A sampling rate that is not a multiple of the drive: points come from splines."""
    model = kz.library.parametric_pendulum()
    period = model.period
    record = kz.simulate(model, t=np.arange(0, 30000 * period, period / 20.3))
    orbits = kz.find_orbits(record, max_period=1)
    rotating = [o for o in orbits if abs(o.winding[0]) == 1]
    assert rotating
    for orbit in rotating:
        assert np.abs(orbit.points[0]) == pytest.approx([2.9668, 6.4066], abs=2e-3)
        assert abs(orbit.multipliers[0]) == pytest.approx(1.709, rel=0.02)


def test_returns_of_a_periodic_signal_are_found_at_its_period():
    time = np.arange(6000) * 0.01
    signal = np.sin(2 * np.pi * time / 3) + 0.3 * np.sin(2 * np.pi * time)
    record = kz.Record.from_arrays(time, {"x": signal}, period=1.0)
    orbits = kz.find_orbits(record, max_period=4, method=kz.ReturnSearch(tolerance=0.02))
    assert [o.repeats for o in orbits] == [3]
    assert orbits[0].closure < 1e-6
    assert len(orbits[0].profile.times) == 300


def test_returns_carry_the_turns_of_an_angle():
    time = np.arange(4000) * 0.02
    angle = np.mod(2 * np.pi * time + 0.4 * np.sin(np.pi * time) + np.pi, 2 * np.pi) - np.pi
    record = kz.Record.from_arrays(time, {"phi": angle}, angles=["phi"], period=1.0)
    orbits = kz.find_orbits(record, max_period=2, method=kz.ReturnSearch(tolerance=0.01))
    assert [(o.repeats, o.winding) for o in orbits] == [(2, (2,))]


def test_returns_need_a_tolerance_for_every_channel():
    time = np.arange(4000) * 0.02
    record = kz.Record.from_arrays(time, {"x": np.sin(time), "y": np.cos(time)}, period=1.0)
    with pytest.raises(DataError, match='No tolerance for channel "y"'):
        kz.find_orbits(record, method=kz.ReturnSearch(tolerance={"x": 0.1}))


def test_strobed_record_is_refused_for_returns():
    record = kz.Record.from_arrays(np.arange(100.0), {"x": np.random.default_rng(0).normal(size=100)}, period=1.0)
    with pytest.raises(DataError, match="SectionSearch"):
        kz.find_orbits(record, method=kz.ReturnSearch())


def test_unknown_section_names_the_known_ones(lorenz_x):
    with pytest.raises(DataError, match='"maxima"'):
        kz.find_orbits(lorenz_x, kind="sideways")


def test_values_between_samples_are_exact_for_polynomials_of_degree_five():
    from kapitza.orbits.in_records.crossings import between_samples

    time = np.arange(12.0)
    curve = np.polynomial.Polynomial([1.0, -2.0, 0.5, 0.3, -0.02, 0.01])
    at = np.array([2.0, 2.25, 5.5, 7.999])
    states, slopes = between_samples(curve(time)[:, None], at.astype(int), at % 1)
    assert np.allclose(states[:, 0], curve(at), rtol=1e-12)
    assert np.allclose(slopes[:, 0], curve.deriv()(at), rtol=1e-10)
