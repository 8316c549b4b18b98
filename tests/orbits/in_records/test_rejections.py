"""Why a candidate is refused, each reason on a record built to deserve it; deviations against redrawn noise."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.orbits.in_records.find import Ledger, _judge
from kapitza.orbits.in_records.locate import propagate, refine_cycles
from kapitza.orbits.in_records.resample import redrawn_cycles, widen_by_bootstrap
from kapitza.orbits.in_records.section import Section, make_section

A, B = 1.4, 0.3


def image(points: np.ndarray) -> np.ndarray:
    return np.column_stack([1 - A * points[:, 0] ** 2 + points[:, 1], B * points[:, 0]])


def two_cycle() -> np.ndarray:
    """Points of period two of the Hénon map: x solves A² x² - A (1 - B) x + (1 - B)² - A = 0, y = B x of the other."""
    x = np.roots([A**2, -A * (1 - B), (1 - B) ** 2 - A])
    return np.column_stack([x, B * x[::-1]])


@pytest.fixture(scope="module")
def attractor() -> np.ndarray:
    points = np.random.default_rng(0).uniform(-0.1, 0.1, (40, 2))
    runs = []
    for _ in range(600):
        points = image(points)
        runs.append(points)
    return np.stack(runs[100:], axis=1).reshape(-1, 2)


def single_steps(points: np.ndarray, noise: float = 0.0) -> Section:
    """A section of pieces of two points each: every step is known, none is followed by another."""
    pairs = np.stack([points, image(points)], axis=1).reshape(-1, 2)
    pairs += noise * np.ptp(points, axis=0) * np.random.default_rng(1).normal(size=pairs.shape)
    follows = np.arange(len(pairs)) % 2 == 0
    return make_section(pairs, follows, ("x", "y"), (False, False), 1.0, noise=noise * np.ptp(pairs, axis=0))


def judged(section: Section, **settings: float) -> Ledger:
    start = two_cycle()[None] / section.scale
    cycles = refine_cycles(section, start, degree=2, neighbours=64, search=768, noise_widths=2.5)
    assert cycles.settled[0]
    ledger = Ledger()
    _judge(section, cycles, 0, kz.SectionSearch(**settings), ledger, True)
    return ledger


def test_a_cycle_that_no_stretch_of_the_record_follows_is_refused(attractor):
    ledger = judged(single_steps(attractor))
    assert not ledger.kept
    assert "never follows the cycle" in ledger.refused[0][1]


def test_a_cycle_known_worse_than_the_tolerance_is_refused(attractor):
    ledger = judged(single_steps(attractor, noise=0.01), tolerance=1e-4)
    assert not ledger.kept
    assert "is known to" in ledger.refused[0][1]


def test_a_cycle_with_an_unsupported_point_is_refused(attractor):
    """All but ten of the record's points near one point of the cycle are taken out."""
    scale = np.ptp(attractor, axis=0)
    close = np.flatnonzero(np.linalg.norm((attractor - two_cycle()[0]) / scale, axis=1) < 0.03)
    assert len(close) > 100
    thinned = np.delete(attractor, np.random.default_rng(2).choice(close, len(close) - 10, replace=False), axis=0)
    ledger = judged(single_steps(thinned))
    assert not ledger.kept
    assert "record points within 2 %, 32 are needed" in ledger.refused[0][1]


def test_propagated_deviations_agree_with_redrawn_noise(attractor):
    section = single_steps(attractor, noise=0.003)
    start = two_cycle()[None] / section.scale
    cycles = refine_cycles(section, start, degree=3, neighbours=128, search=256, noise_widths=2.5, density=4)
    fits, points, jacobian = cycles.fits_of(0), cycles.points[0], cycles.jacobians[0]
    found = propagate(section, fits, points, jacobian)
    moved, _ = redrawn_cycles(section, fits, points, jacobian, draws=400)
    ratio = moved.reshape(400, -1).std(axis=0) / np.sqrt(np.diag(found.points))
    assert np.all((ratio > 0.75) & (ratio < 1.3))
    assert widen_by_bootstrap(section, fits, points, found).points == pytest.approx(found.points)
