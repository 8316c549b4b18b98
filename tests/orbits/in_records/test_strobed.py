"""Orbits in strobed records: a map whose cycles are known in closed form, and records without unstable orbits."""

import numpy as np
import pytest

import kapitza as kz
from henon_map import henon


def strobed(points: np.ndarray, **settings) -> kz.Record:
    names = [f"x{i}" for i in range(points.shape[1])]
    channels = dict(zip(names, points.T, strict=True))
    return kz.Record.from_arrays(np.arange(len(points)) * 1.0, channels, period=1.0, **settings)


@pytest.fixture(scope="module")
def henon_points():
    return henon(20000)


@pytest.fixture(scope="module")
def henon_orbits(henon_points):
    return kz.find_orbits(strobed(henon_points), max_period=7)


def fixed_point(a: float, b: float) -> tuple[float, np.ndarray]:
    """x* of the Hénon map on the attractor and the eigenvalues of its Jacobian."""
    x = ((b - 1) + np.sqrt((1 - b) ** 2 + 4 * a)) / (2 * a)
    return x, np.linalg.eigvals(np.array([[-2 * a * x, 1.0], [b, 0.0]]))


def test_henon_fixed_point_and_multipliers(henon_orbits):
    orbits = [orbit for orbit in henon_orbits if orbit.repeats == 1]
    x, multipliers = fixed_point(1.4, 0.3)
    assert len(orbits) == 1
    assert orbits[0].points[0] == pytest.approx([x, 0.3 * x], abs=1e-6)
    # the attractor is locally a thin curve: the contracting multiplier comes from the determinant it shares
    assert orbits[0].multipliers[0].real == pytest.approx(multipliers[np.argmax(abs(multipliers))], rel=1e-4)


def test_henon_cycle_counts_follow_the_census_of_the_map(henon_orbits):
    """Biham and Wenzel (1989): prime cycles of the Hénon map at 1.4, 0.3 on the attractor: 1, 1, 0, 1, 0, 2, 4."""
    counts = [sum(o.repeats == p for o in henon_orbits) for p in range(1, 8)]
    assert counts == [1, 1, 0, 1, 0, 2, 4]


def test_points_of_a_cycle_satisfy_the_map(henon_orbits):
    assert len(henon_orbits) > 5
    for orbit in henon_orbits:
        x, y = orbit.points.T
        image = np.column_stack([1 - 1.4 * x * x + y, 0.3 * x])
        assert np.abs(image - np.roll(orbit.points, -1, axis=0)).max() < 1e-5


def test_noise_gives_intervals_that_hold_the_truth(henon_points):
    x, multipliers = fixed_point(1.4, 0.3)
    largest = np.max(np.abs(multipliers))
    hits = []
    for seed in range(12):
        noisy = henon_points[:5000] + np.random.default_rng(seed).normal(size=(5000, 2)) * [0.005, 0.0015]
        orbits = kz.find_orbits(strobed(noisy, noise={"x0": 0.005, "x1": 0.0015}), max_period=1)
        assert len(orbits) == 1
        orbit = orbits[0]
        deviation = np.sqrt(np.diag(orbit.covariance))
        hits.append(abs(orbit.points[0, 0] - x) < 1.645 * deviation[0])
        hits.append(abs(abs(orbit.multipliers[0]) - largest) < 1.645 * orbit.multiplier_deviation[0])
    assert 0.8 <= np.mean(hits) <= 0.97


@pytest.mark.parametrize("seed", range(5))
def test_white_noise_holds_no_orbits(seed):
    """Fifty seeds of this and of other records without orbits: reproductions/false_orbits.py."""
    points = np.random.default_rng(seed).normal(size=(2000, 2))
    orbits = kz.find_orbits(strobed(points), max_period=6)
    assert len(orbits) == 0
    assert "noise" in orbits.message


@pytest.mark.parametrize("seed", range(2))
def test_random_walk_holds_no_orbits(seed):
    points = np.random.default_rng(seed).normal(size=(4000, 2)).cumsum(axis=0)
    orbits = kz.find_orbits(strobed(points), max_period=6)
    assert len(orbits) == 0
    assert "random walk" in orbits.message


def test_periodic_record_gives_its_own_orbit_only():
    cycle = np.array([[0.0, 1.0], [2.0, -1.0], [1.0, 0.5]])
    points = np.tile(cycle, (200, 1)) + np.random.default_rng(0).normal(size=(600, 2)) * 1e-3
    orbits = kz.find_orbits(strobed(points), max_period=6)
    assert "periodic" in orbits.message
    assert [o.repeats for o in orbits] == [3]
    assert orbits[0].stability == "stable"
    start = int(np.argmin(np.abs(orbits[0].points[:, 0])))
    assert np.roll(orbits[0].points, -start, axis=0) == pytest.approx(cycle, abs=1e-3)


def test_short_record_says_so():
    orbits = kz.find_orbits(strobed(henon(8)), max_period=3)
    assert len(orbits) == 0
    assert "ten" in orbits.message


def test_segments_are_not_joined(henon_points):
    """Two pieces glued at a segment border: no map may be fitted across it."""
    pieces = np.concatenate([henon_points[:6000], henon_points[9000:15000]])
    label = np.repeat([0, 1], 6000)
    orbits = kz.find_orbits(strobed(pieces, segment=label), max_period=2)
    x, _ = fixed_point(1.4, 0.3)
    assert orbits[0].points[0, 0] == pytest.approx(x, abs=1e-5)


def test_a_strobed_record_is_taken_at_its_own_phase(henon_points):
    """Between strobes nothing is known: no spline goes through them, whatever their phase."""
    plain = kz.find_orbits(strobed(henon_points), max_period=2)
    shifted = kz.find_orbits(strobed(henon_points, phase=0.2), max_period=2)
    late = kz.Record.from_arrays(
        np.arange(len(henon_points)) + 40.2, {"x0": henon_points[:, 0], "x1": henon_points[:, 1]}, period=1.0
    )
    for orbits in (shifted, kz.find_orbits(late, max_period=2)):
        assert [o.repeats for o in orbits] == [1, 2]
        for one, other in zip(orbits, plain, strict=True):
            assert np.abs(one.points - other.points).max() < 1e-12
            assert one.section_phase == pytest.approx(0.2, abs=1e-9)


def test_a_phase_that_was_not_sampled_is_refused(henon_points):
    with pytest.raises(kz.KapitzaError, match=r"strobed once per period, at 0 of it: phase = 0.3"):
        kz.find_orbits(strobed(henon_points), max_period=1, phase=0.3)
    sparse = kz.Record.from_arrays(np.arange(20000) / 3, dict(zip("xy", henon_points.T, strict=True)), period=1.0)
    with pytest.raises(kz.KapitzaError, match="With 3 samples per excitation period"):
        kz.find_orbits(sparse, max_period=1, phase=0.5)
    uneven = kz.Record.from_arrays(np.arange(20000) / 1.3, dict(zip("xy", henon_points.T, strict=True)), period=1.0)
    with pytest.raises(kz.KapitzaError, match=r"1\.3 samples per excitation period"):
        kz.find_orbits(uneven, max_period=1)


@pytest.fixture(scope="module")
def two_masses():
    """4,000 strobed states of a forced system with four of them."""
    model = kz.Model.from_equations(
        ["x'' + c*x' - x + x**3 + s*(x - y) = F*cos(w*t)", "y'' + d*y' + 2*y + s*(y - x) = 0"],
        parameters={"c": 0.25, "s": 0.3, "d": 0.2, "F": 0.35, "w": 1.0},
        period="2*pi/w",
    )
    run = kz.simulate(model, x0=[0.5, 0.1, 0.2, 0.1], periods=4050).samples(slice(50, None))
    return model, kz.measure(run, noise=0.005, seed=2)


def test_four_states_of_a_forced_system_give_orbits_at_the_defaults(two_masses):
    """Within 1 % of the attractor nothing returns: the search goes on with wider returns."""
    model, record = two_masses
    orbits = kz.find_orbits(record, max_period=3)
    assert orbits.message.startswith("No orbit returns within 1 % of the attractor: returns within 3 % were used.")
    assert len(orbits) >= 2
    for orbit in orbits:
        true = kz.solve_orbit(model, orbit).loop(np.arange(orbit.repeats) / orbit.repeats)
        deviation = np.sqrt(np.diag(orbit.covariance)).reshape(orbit.points.shape)
        gaps = [np.roll(true, k, axis=0) - orbit.points for k in range(orbit.repeats)]
        assert min(np.abs(gap / deviation).max() for gap in gaps) < 5


def test_a_tolerance_of_the_user_is_kept(two_masses):
    _, record = two_masses
    assert not len(kz.find_orbits(record, max_period=2, method=kz.SectionSearch(tolerance=0.008)))


def test_random_phases_of_four_states_give_no_orbit(two_masses):
    _, record = two_masses
    rng = np.random.default_rng(3)
    spectrum = np.fft.rfft(record.values(), axis=0)
    phases = np.exp(2j * np.pi * rng.random((len(spectrum), 1)))
    phases[0] = 1.0
    values = np.fft.irfft(spectrum * phases, record.size, axis=0)
    assert not len(kz.find_orbits(strobed(values), max_period=3))
