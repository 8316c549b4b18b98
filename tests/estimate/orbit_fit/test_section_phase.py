"""Orbits taken at another instant of the excitation period say so themselves: in a set, in a list, from a file."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.orbits import Profile


@pytest.fixture(scope="module")
def quarter(pendulum, exact):
    """The orbits of the fixture a quarter of an excitation period later."""
    flow, wait = kz.Flow(pendulum), 0.25 * pendulum.period
    later = []
    for orbit in exact:
        points = flow.propagate_many(orbit.points, 0.0, wait).state
        points[:, 0] = (points[:, 0] + np.pi) % (2 * np.pi) - np.pi
        later.append(orbit.with_(points=points, section_phase=wait))
    return kz.OrbitSet(tuple(later), pendulum.angles)


def test_the_phase_stays_with_the_orbits(pendulum, quarter, tmp_path):
    kz.save(quarter, tmp_path / "orbits.nc")
    start = pendulum.with_values(m=0.09, l=0.31)
    for data in (quarter, list(quarter), kz.load(tmp_path / "orbits.nc")):
        fit = kz.identify(start, data, ["m", "l"])
        assert not fit.matches.unmatched
        assert fit["m"] == pytest.approx(pendulum.values["m"], rel=1e-7)
        assert fit["l"] == pytest.approx(pendulum.values["l"], rel=1e-8)


def test_a_profile_starts_at_the_section(pendulum, exact):
    """Samples from T/4 on, over one period, counted from the section."""
    wait = 0.25 * pendulum.period
    times = np.arange(60) / 60 * exact[0].period
    states = kz.Flow(pendulum).trajectory(exact[0].points[0], np.concatenate([[0.0], wait + times]))[1:]
    orbit = exact[0].with_(points=states[:1], covariance=None, profile=Profile(times, states), section_phase=wait)
    fit = kz.identify(pendulum.with_values(m=0.088, l=0.315), [orbit], ["m", "l"], kz.OrbitFit(noise=1e-3))
    assert fit["m"] == pytest.approx(pendulum.values["m"], rel=1e-5)
    assert fit["l"] == pytest.approx(pendulum.values["l"], rel=1e-6)


def test_the_census_is_compared_at_the_phase_of_the_data(pendulum, quarter):
    fit = kz.identify(pendulum.with_values(m=0.09), quarter, ["m", "l"])
    assert all(o.section_phase == pytest.approx(0.25 * pendulum.period) for o in fit.matches.orbits)
    table = kz.missing_orbits(fit, 1, starts=128, rounds=2)
    assert (table["found"] == "matched").sum() == sum(len(o.points) == 1 for o in quarter)


def test_the_census_of_several_excitations_is_refused(pendulum, exact):
    fit = kz.identify(pendulum.with_values(m=0.09), [(list(exact), {"k1": 0.0})], ["m", "l"])
    with pytest.raises(kz.KapitzaError, match="one excitation"):
        kz.missing_orbits(fit, 1)
