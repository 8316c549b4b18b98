"""Census: known counts, attractors, words and symmetry."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import DataError, KapitzaError
from kapitza.orbits import distance
from kapitza.orbits.of_models.catalogue import Catalogue
from kapitza.orbits.of_models.returns import return_map


@pytest.fixture(scope="module")
def pendulum_orbits():
    return kz.find_orbits(kz.library.parametric_pendulum(), max_period=2, starts=1024, seed=3)


def test_pendulum_period_one_and_two_hold_the_known_orbits(pendulum_orbits):
    """Multipliers of the ORBITS table, computed by an independent Newton shooting."""
    largest = np.array([np.abs(o.multipliers[0]) for o in pendulum_orbits])
    for known in (2.005, 1.709, 18.48, 37.47, 2.496, 94.4):
        assert np.abs(largest / known - 1).min() < 1e-3
    assert sum(o.repeats == 1 for o in pendulum_orbits) == 6


def test_pendulum_census_is_closed_under_the_symmetry(pendulum_orbits):
    """(φ, φ') → (-φ, -φ') maps the set to itself."""
    for orbit in pendulum_orbits:
        image = orbit.with_(points=-orbit.points)
        assert min(distance(image, other, (True, False)) for other in pendulum_orbits) < 1e-8


def test_every_orbit_passes_the_determinant_check(pendulum_orbits):
    assert max(o.certificate.determinant for o in pendulum_orbits) < 1e-10
    assert max(o.closure for o in pendulum_orbits) < 1e-10


@pytest.mark.parametrize("values", [{}, {"k1": 0.002}], ids=["without jumps", "dry friction"])
def test_returns_of_many_states_are_those_of_single_runs(values):
    """The constants of the pendulum stand in columns of the run-time parameters, not in rows."""
    model = kz.library.parametric_pendulum().with_values(**values)
    states = np.random.default_rng(0).uniform(-1.0, 1.0, (20, 2))
    after, slopes = return_map(model)(states, True)
    flow = kz.Flow(model, tolerance=1e-10)
    singles = [flow.propagate(state, 0.0, model.period) for state in states]
    assert np.allclose(after, [one.state for one in singles], rtol=0, atol=1e-8)
    assert np.allclose(slopes, [one.jacobian for one in singles], rtol=1e-6, atol=1e-6)


def test_duffing_has_five_coexisting_attractors():
    """Ueda's equation at k = 0.08, B = 0.20: stable orbits of periods 1, 1, 2, 2, 3; det M = exp(-2πkp)."""
    model = kz.library.duffing().with_values(k=0.08, B=0.2)
    orbits = kz.find_orbits(model, max_period=3, region={"x": (-2, 2), "x'": (-2, 2)}, starts=1024)
    assert [o.repeats for o in orbits if o.stability == "stable"] == [1, 1, 2, 2, 3]
    for orbit in orbits:
        assert np.prod(orbit.multipliers).real == pytest.approx(np.exp(-2 * np.pi * 0.08 * orbit.repeats), rel=1e-9)


def test_lorenz_words_up_to_six():
    """All 21 primitive words exist; periods from D. Viswanath, Nonlinearity 16 (2003) 1035."""
    orbits = kz.find_orbits(kz.library.lorenz(), max_period=6, section="z - 27")
    periods = {o.code: o.period for o in orbits}
    assert [sum(len(word) == n for word in periods) for n in (2, 3, 4, 5, 6)] == [1, 2, 3, 6, 9]
    published = {"LR": 1.5586522107162, "LLR": 2.3059072639398, "LRR": 2.3059072639398, "LLLR": 3.0235837034339}
    published |= {"LLRR": 3.0842767758221, "LLLLR": 3.7256417715558, "LLLRR": 3.8202541634368, "LLRLR": 3.8695391125646}
    for word, period in published.items():
        assert periods[word] == pytest.approx(period, abs=1e-12)
    assert max(o.certificate.trivial for o in orbits) < 1e-8


def test_map_census_finds_the_cycles_of_a_quadratic_map():
    """x → 1 - a x² at a = 1.99, beyond the last window of period 4, has 2, 1, 2, 3 cycles of periods 1 to 4."""
    model = kz.Model.from_map({"x": "1 - a*x**2"}, parameters={"a": 1.99})
    orbits = kz.find_orbits(model, max_period=4, region={"x": (-2.0, 2.0)}, starts=1024)
    counts = [sum(o.repeats == p for o in orbits) for p in (1, 2, 3, 4)]
    assert counts == [2, 1, 2, 3]
    for orbit in orbits:
        assert orbit.multipliers[0].real == pytest.approx(np.prod(-3.98 * orbit.points[:, 0]), rel=1e-9)


def test_catalogue_knows_shifted_cycles_and_the_cut_of_the_circle():
    catalogue = Catalogue(np.array([True, False]), np.array([np.pi, 1.0]))
    assert catalogue.add(np.array([[np.pi - 1e-9, 0.1], [0.3, -0.2]]))
    assert not catalogue.add(np.array([[0.3, -0.2], [-np.pi + 1e-9, 0.1]]))
    assert catalogue.add(np.array([[0.3, -0.2], [-np.pi + 1e-2, 0.1]]))


def test_bad_requests_are_refused():
    model = kz.library.duffing()
    with pytest.raises(KapitzaError, match="max_period = 0"):
        kz.find_orbits(model, max_period=0)
    with pytest.raises(KapitzaError, match="states are"):
        kz.find_orbits(model, max_period=1, region={"y": (0, 1)})
    with pytest.raises(KapitzaError, match="the lower one first"):
        kz.find_orbits(model, max_period=1, region={"x": (1, 0), "x'": (0, 1)})


def test_motions_that_escape_do_not_widen_the_region():
    """The Hénon map has 2, 1, 0 and 1 orbits of periods 1 to 4; most starts around (0.1, 0.1) escape."""
    henon = kz.Model.from_map(
        {"x": "1 - a*x**2 + y", "y": "b*x"}, parameters={"a": 1.4, "b": 0.3}, start={"x": 0.1, "y": 0.1}
    )
    found = kz.find_orbits(henon, max_period=4)
    assert [sum(orbit.repeats == p for orbit in found) for p in (1, 2, 3, 4)] == [2, 1, 0, 1]
    with pytest.raises(DataError, match="escapes or fails: give region"):
        kz.find_orbits(henon.with_values(a=8.0), max_period=2)
