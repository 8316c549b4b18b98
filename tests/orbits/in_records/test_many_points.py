"""Errors of orbits in long noisy records: windows as wide as the noise asks, and what more points do not better."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.orbits.in_records.character import describe_section
from kapitza.orbits.in_records.find import SectionSearch, filled_windows
from kapitza.orbits.in_records.from_record import strobe_record
from kapitza.orbits.in_records.local_fit import fit_local
from kapitza.orbits.in_records.section import make_section
from kapitza.orbits.in_records.stored_orbits import Seen, _joined

FIXED = (-0.7 + np.sqrt(0.49 + 5.6)) / 2.8
NOISE = 1e-3


def henon_record(size: int, seed: int, noise: float = NOISE) -> kz.Record:
    """100 motions of the Hénon map, each a segment."""
    random = np.random.default_rng(seed)
    state = random.uniform(-0.1, 0.1, (2, 100))
    points = np.empty((size // 100 + 100, 2, 100))
    for k in range(len(points)):
        points[k] = state
        state = np.array([1 - 1.4 * state[0] ** 2 + state[1], 0.3 * state[0]])
    values = points[100:].transpose(1, 2, 0).reshape(2, -1)
    steps = len(points) - 100
    times = np.arange(steps)[None] + (steps + 1.0) * np.arange(100)[:, None]
    noisy = values + noise * random.standard_normal(values.shape)
    return kz.Record.from_arrays(
        times.ravel(), dict(zip("xy", noisy, strict=True)), segment=np.repeat(np.arange(100), steps), period=1.0,
        noise=dict.fromkeys("xy", noise),
    )  # fmt: skip


@pytest.fixture(scope="module")
def record():
    return henon_record(300_000, 5)


def test_windows_stay_as_wide_as_the_noise_asks(record):
    """The nearest 768 of all points would fill a window of one noise deviation, within which all is noise."""
    section, settings = strobe_record(record), SectionSearch()
    asked = settings.noise_widths * section.noise.max()
    centre = np.array([[FIXED, 0.3 * FIXED]]) / section.scale
    for most in (768, 1500):
        (around,) = filled_windows(section, settings, centre[None], 128, most)
        assert 0.5 * most <= around.search <= most
        assert len(around.offered.starts) < len(section.starts)
        fits = fit_local(
            around.offered, centre, neighbours=128, search=around.search, noise_widths=settings.noise_widths
        )
        assert fits.width[0] > 0.8 * asked
    narrow = fit_local(section, centre, neighbours=128, search=768, noise_widths=settings.noise_widths)
    assert narrow.width[0] < 0.7 * asked


def test_a_record_that_ends_at_rest_keeps_the_orbits_of_its_motion():
    """Most points lie at one place: what is dense there says nothing about the rest of the attractor."""
    motion = henon_record(20_000, 6)
    random, rest = np.random.default_rng(7), 60_000
    values = {name: np.concatenate([motion[name], 0.9 + NOISE * random.standard_normal(rest)]) for name in "xy"}
    times = np.concatenate([motion.time, motion.time[-1] + 2.0 + np.arange(rest)])
    both = kz.Record.from_arrays(
        times, values, segment=np.repeat([0, 1], [motion.size, rest]), period=1.0, noise=dict.fromkeys("xy", NOISE)
    )
    section = strobe_record(both)
    centres = np.array([[[FIXED, 0.3 * FIXED]], [[0.9, 0.9]]]) / section.scale
    moving, resting = filled_windows(section, SectionSearch(), centres, 128)
    assert (moving.cycles.tolist(), resting.cycles.tolist()) == ([0], [1])
    assert moving.offered is section
    assert len(resting.offered.starts) < 0.05 * len(section.starts)
    alone = kz.find_orbits(motion, max_period=4)
    assert [o.repeats for o in alone] == [1, 2, 4]
    found = kz.find_orbits(both, max_period=4)
    for orbit in alone:
        same = [np.sort(o.points, axis=0) for o in found if o.repeats == orbit.repeats]
        assert any(np.abs(points - np.sort(orbit.points, axis=0)).max() < 1e-3 for points in same)


def test_starts_far_from_their_cycle_arrive_where_the_windows_are_narrow():
    """A step is at most two windows long: among 400,000 exact points that is a thousandth of the tolerance."""
    found = kz.find_orbits(henon_record(400_000, 5, noise=0.0), max_period=4)
    assert [o.repeats for o in found] == [1, 2, 4]
    assert np.abs(found[0].points[0] - [FIXED, 0.3 * FIXED]).max() < 1e-11
    reasons = [reason for _, reason in found.rejected]
    assert reasons
    assert not [reason for reason in reasons if "left the neighbourhood" in reason]


def test_a_part_of_the_points_tells_the_kind_of_a_long_record(monkeypatch):
    """What a part predicts all points predict; what it does not is tested with all points."""
    random = np.random.default_rng(3)
    chaos, driven = henon_record(8000, 4), np.zeros(8001)
    for k in range(2, 8001):
        driven[k] = 2 * 0.98 * np.cos(0.8) * driven[k - 1] - 0.98**2 * driven[k - 2] + random.standard_normal()
    records = {
        "deterministic": (np.column_stack([chaos["x"], chaos["y"]]), 80),
        "noise": (random.standard_normal((8000, 2)), 8000),
        "resonance": (np.column_stack([driven[1:], driven[:-1]]), 8000),
    }
    for kind, (points, length) in records.items():
        section = make_section(points, np.arange(8000) % length < length - 1, ("x", "y"), (False, False), 1.0)
        whole = describe_section(section, 4, 0.01)
        with monkeypatch.context() as few:
            few.setattr("kapitza.orbits.in_records.character.ENOUGH_FOR_NEIGHBOURS", 1000)
            part = describe_section(section, 4, 0.01)
        assert (whole.kind, part.kind) == (kind, kind)


def test_the_fixed_point_lies_where_its_errors_say(record):
    orbit = kz.find_orbits(record, max_period=1)[0]
    deviation = np.sqrt(np.diag(orbit.covariance))
    assert (np.abs(orbit.points[0] - [FIXED, 0.3 * FIXED]) < 3 * deviation).all()
    # Some hundred points of noise 1e-3 around it: neither nothing nor more than the noise.
    assert (deviation > 2e-5).all()
    assert (deviation < 3e-4).all()
    common = np.diag(orbit.influence.physical_common())
    assert (common > 0).all()
    assert (common < np.diag(orbit.covariance)).all()


def test_parts_do_not_average_away_what_they_have_in_common():
    """Scatter of the parts shrinks with their number, what all have in common stays."""
    common, scatter = np.diag([4e-8, 1e-8]), np.diag([1e-6, 2e-6])
    random = np.random.default_rng(0)
    seen = [
        Seen(
            kz.PeriodicOrbit(
                ("x", "y"), np.array([[0.6, 0.2]]) + 1e-3 * random.standard_normal(2), 1.0,
                covariance=scatter + common, visits=10, multipliers=np.array([-1.9, 0.16]),
                multiplier_deviation=np.array([0.1, 0.02]),
            ),
            common,
            np.array([0.06**2, 0.0]),
        )
        for _ in range(100)
    ]  # fmt: skip
    joined = _joined(seen, (False, False))
    assert np.diag(joined.covariance) == pytest.approx(np.diag(scatter) / 100 + np.diag(common), rel=0.3)
    assert joined.multiplier_deviation == pytest.approx([np.hypot(0.08 / 10, 0.06), 0.02 / 10], rel=1e-9)
    alone = _joined([Seen(s.orbit, None) for s in seen], (False, False))
    assert np.diag(alone.covariance) == pytest.approx(np.diag(scatter + common) / 100, rel=0.3)
    assert alone.multiplier_deviation == pytest.approx([0.1 / 10, 0.02 / 10], rel=1e-9)
