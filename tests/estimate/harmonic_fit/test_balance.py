"""Inverse harmonic balance on orbits of models and on close returns of records."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import DataError
from kapitza.estimate.harmonic_fit.solvers import exclude_by_residue
from kapitza.orbits import Profile
from same_motion import same_motion


def sampled(model, orbit, count):
    """The orbit with a profile of `count` even samples."""
    times = np.arange(count) * orbit.period / count
    states = kz.Flow(model).trajectory(orbit.points[0], np.append(times, orbit.period))[:-1]
    return orbit.with_(profile=Profile(times, states))


def test_fourier_series_of_exact_orbits_give_the_parameters_back():
    """Two stable orbits of the Duffing oscillator, by series: nothing but rounding and truncation is left."""
    model = kz.library.duffing()
    orbits = [kz.solve_orbit(model, start, period=1) for start in ([-0.25, 0.1], [1.0, 0.5])]
    data = kz.OrbitSet(tuple(sampled(model, o, 256) for o in orbits), (False, False))
    method = kz.HarmonicFit(test="harmonics", derivatives="series", solver="least squares", harmonics=7, low_pass=None)
    fit = kz.identify(model.with_values(k=1.0, B=1.0), data, free=["k", "B"], method=method)
    assert fit["k"] == pytest.approx(0.08, rel=1e-7)
    assert fit["B"] == pytest.approx(0.2, rel=1e-7)


@pytest.fixture(scope="module")
def close_returns(long_record):
    return kz.find_orbits(long_record, max_period=12, method=kz.ReturnSearch(tolerance=0.02))


@pytest.mark.parametrize(
    ("settings", "conservative", "friction"),
    [
        (kz.HarmonicFit(), 2e-4, 1e-3),
        (kz.HarmonicFit(test="harmonics", derivatives="local polynomial"), 2e-3, 1e-2),
        (kz.HarmonicFit(test="harmonics", derivatives="five-point", solver="exclusion"), 2e-3, 1e-2),
    ],
)
def test_close_returns_alone(pendulum, close_returns, settings, conservative, friction):
    """Noise-free stretches that close within 2 %: their imperfect closure does not enter."""
    assert len(close_returns) >= 3
    fit = kz.identify(pendulum, close_returns, free=pendulum.names, method=settings)
    for name in ("B11", "B12", "B13", "B21", "B22", "B23"):
        assert fit[name] == pytest.approx(pendulum.values[name], rel=conservative)
    for name in ("C12", "C2"):
        assert fit[name] == pytest.approx(pendulum.values[name], rel=friction)


def test_returns_close_and_wind(long_record, close_returns):
    assert len(close_returns) >= 3
    for orbit in close_returns:
        start, n = orbit.stretch.first, len(orbit.profile.times)
        ahead = long_record.unwrapped().values()[[start, start + n]]
        gap = ahead[1] - ahead[0] - 2 * np.pi * np.array(orbit.winding)
        assert np.abs(gap).max() <= 0.02 * 2 * np.pi + 1e-12
        assert orbit.closure < 0.02


@pytest.fixture(scope="module")
def duffing_record():
    model = kz.library.duffing().with_values(k=0.05, B=7.5)
    period = float(model.period)
    clean = same_motion(model, 96001, period / 64, stretch=256, period=period)
    return model, kz.measure(clean, noise={"x": 1e-3, "x'": 1e-3}, seed=1)


@pytest.mark.parametrize("search", [{}, {"phase": 0.3}, {"method": kz.ReturnSearch(tolerance=0.03)}])
def test_orbits_that_a_search_found_in_a_record(duffing_record, search):
    """Whatever the phase at which an orbit was cut, and wherever its profile hides the gap, the raw stretch is used."""
    model, record = duffing_record
    orbits = kz.find_orbits(record, max_period=4, **search)
    for test in ("windows", "harmonics"):
        fit = kz.identify(model.with_values(k=1.0, B=1.0), orbits, ["k", "B"], kz.HarmonicFit(test=test))
        for name in ("k", "B"):
            assert fit[name] == pytest.approx(model.values[name], rel=0.03, abs=4 * fit.deviations[name])


def test_exclusion_drops_the_bad_sub_harmonic():
    random = np.random.default_rng(4)
    matrix, truth = random.normal(size=(40, 3)), np.array([1.0, -2.0, 0.5])
    rest = -matrix @ truth
    rest[10:12] += 3.0
    theta, report = exclude_by_residue(matrix, rest, np.arange(40) // 2)
    np.testing.assert_allclose(theta, truth, atol=1e-10)
    assert report.dropped >= 1
    assert report.after < 0.1 <= report.before
    assert not report.used[10:12].any()


def test_harmonics_need_orbits(pendulum, pendulum_record):
    with pytest.raises(DataError, match="needs an OrbitSet"):
        kz.identify(pendulum, pendulum_record, free=["B11"], method=kz.HarmonicFit(test="harmonics"))


@pytest.fixture(scope="module")
def swinging():
    return kz.Model.from_equations(
        "x'' + c*x' - x + b*x**3 + q*x'*abs(x') = F*cos(t)",
        parameters={"c": 0.15, "b": 1.0, "F": 0.3, "q": 0.05},
        period="2*pi",
        start={"x": 1.0, "x'": 0.0},
    )


@pytest.mark.parametrize("derivatives", ["local polynomial", "series"])
def test_misfit_is_judged_by_the_noise_and_the_closure_of_the_orbits(swinging, derivatives):
    run = same_motion(swinging, 260 * 80, swinging.period / 80, 800, period=swinging.period).select(["x"])
    record = kz.measure(run.samples(slice(1600, run.size)), noise=0.001, seed=1)
    orbits = kz.find_orbits(record, max_period=6, method=kz.ReturnSearch(tolerance=0.03))
    assert len(orbits) == 4
    method = kz.HarmonicFit(test="harmonics", derivatives=derivatives)
    right = kz.identify(swinging, orbits, ["c", "b", "F", "q"], method)
    assert right.misfit is not None
    assert right.misfit.to_the_noise
    wrong = kz.identify(swinging.with_values(q=0.0), orbits, ["c", "b", "F"], method)
    assert not wrong.misfit.to_the_noise
    assert [text for text in wrong.warnings if text.startswith("the equations miss the data by")]
    assert "times the frequency of the drive" in wrong.misfit.where
