"""The section of the ORBITS pendulum: multipliers and codes against shooting, covariance against a bootstrap."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import DataError


@pytest.fixture(scope="module")
def clean():
    return kz.simulate(kz.library.parametric_pendulum(), periods=40000)


@pytest.fixture(scope="module")
def orbits(clean):
    return kz.find_orbits(clean, max_period=2)


# points, multipliers and codes computed by Newton shooting at tolerance 1e-13 (rounded)
KNOWN = [
    ("A", [2.9668, 6.4066], [-1.709, -0.427]),
    ("D", [-2.9668, -6.4066], [-1.709, -0.427]),
    ("AA", [2.9802, 3.3295], [-2.496, -0.213]),
    ("DD", [-2.9802, -3.3295], [-2.496, -0.213]),
]


def test_orbits_of_the_pendulum_have_the_multipliers_of_shooting(orbits):
    for code, point, multipliers in KNOWN:
        orbit = orbits.select(code=code)[0]
        nearest = orbit.points[np.argmin(np.abs(orbit.points - point).sum(axis=1))]
        assert nearest == pytest.approx(point, abs=2e-3)
        assert orbit.multipliers.real == pytest.approx(multipliers, rel=0.01)
        assert orbit.stability == "unstable"


def test_partners_mirror_each_other(orbits):
    for index, orbit in enumerate(orbits):
        partner = orbit.partner
        if partner is not None:
            assert orbits[partner].partner == index
            assert sorted(orbits[partner].points[:, 1]) == pytest.approx(sorted(-orbit.points[:, 1]), abs=0.02)


def test_covariance_agrees_with_a_bootstrap_over_noise(clean):
    """Deviations by propagation against the scatter over fresh noise on the same motion."""
    noise = {"phi": 0.006, "phi'": 0.03}
    places, claimed, sizes, claimed_sizes = [], [], [], []
    for seed in range(14):
        orbits = kz.find_orbits(kz.measure(clean, noise=noise, seed=seed), max_period=1).select(code="A")
        if len(orbits):
            places.append(orbits[0].points[0])
            claimed.append(np.sqrt(np.diag(orbits[0].covariance)))
            sizes.append(abs(orbits[0].multipliers[0]))
            claimed_sizes.append(orbits[0].multiplier_deviation[0])
    assert len(places) >= 10
    ratio = np.mean(claimed, axis=0) / np.std(places, axis=0, ddof=1)
    assert np.all((ratio > 0.6) & (ratio < 1.7))
    assert 0.6 < np.mean(claimed_sizes) / np.std(sizes, ddof=1) < 1.7


def test_plain_least_squares_is_biased_where_the_calibrated_map_is_not():
    """A linear map of a Gaussian cloud as wide as its noise: the plain slope halves, the calibrated one does not."""
    from kapitza.orbits.in_records.local_fit import fit_local
    from kapitza.orbits.in_records.section import make_section

    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(60000, 1)) * 0.1
    pairs = np.empty((120000, 1))
    pairs[0::2], pairs[1::2] = hidden, 5.0 + 2.0 * hidden
    pairs += rng.normal(size=pairs.shape) * 0.1
    follows = np.arange(len(pairs)) % 2 == 0
    section = make_section(pairs, follows, ("x",), (False,), 1.0, scale=np.array([1.0]))
    settings = {"degree": 1, "neighbours": 60000, "search": 60000}
    plain = fit_local(section, np.array([[0.0]]), **settings).jacobian(np.array([[0.0]]), section)[0, 0, 0]
    told = section.with_noise(np.array([0.1]))
    calibrated = fit_local(told, np.array([[0.0]]), **settings).jacobian(np.array([[0.0]]), told)[0, 0, 0]
    assert plain == pytest.approx(1.0, abs=0.1)
    assert calibrated == pytest.approx(2.0, abs=0.15)


def test_wrong_settings_name_the_cure(clean):
    with pytest.raises(DataError, match="share of the attractor"):
        kz.find_orbits(clean, tolerance=3.0)
    with pytest.raises(DataError, match="cubic"):
        kz.find_orbits(clean, degree=7)
    with pytest.raises(DataError, match="at least 1"):
        kz.find_orbits(clean, max_period=0)


def test_a_flat_channel_is_named():
    record = kz.Record.from_arrays(
        np.arange(500.0), {"x": np.random.default_rng(0).normal(size=500), "y": np.ones(500)}, period=1.0
    )
    with pytest.raises(DataError, match='"y" does not change'):
        kz.find_orbits(record)
