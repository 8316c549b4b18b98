"""What chance, noise and control explain is not claimed; what is not a state by itself is embedded."""

import numpy as np
import pytest
from scipy.signal import lfilter

import kapitza as kz
from kapitza.errors import DataError
from kapitza.orbits.in_records.bookkeeping import cycle_gaps
from kapitza.orbits.in_records.character import describe_section
from kapitza.orbits.in_records.credible import credible
from kapitza.orbits.in_records.linear import nonlinear_gain
from kapitza.orbits.in_records.section import make_section
from kapitza.signal import line_spectrum, phase_randomised


def resonance(radius: float, turn: float, count: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return lfilter([1.0], [1.0, -2 * radius * np.cos(turn), radius**2], random.normal(size=count + 1000))[1000:]


@pytest.mark.parametrize("radius", [0.98, 0.995])
@pytest.mark.parametrize("turn", [0.4, 1.9])
def test_a_resonance_driven_by_noise_has_no_orbits(radius, turn):
    """Strobed, with the sample before as second channel: neighbours agree, yet a linear recursion says as much."""
    x = resonance(radius, turn, 4001, 3)
    record = kz.Record.from_arrays(np.arange(4000.0), {"x": x[1:], "before": x[:-1]}, period=1.0)
    orbits = kz.find_orbits(record, max_period=4)
    assert len(orbits) == 0
    found = kz.inspect(record)
    assert found.character.kind == "resonance"
    assert "process_noise" in found.suggestion


def test_neighbours_beat_a_linear_recursion_on_chaos_only():
    x, logistic = 0.3, np.empty(3000)
    for i in range(logistic.size):
        x = 3.9 * x * (1 - x)
        logistic[i] = x
    follows = np.ones(3000, bool)
    random = np.random.default_rng(0)
    noisy = logistic + 0.05 * np.std(logistic) * random.normal(size=3000)
    chaos = make_section(noisy[:, None], follows, ("x",), (False,), 1.0)
    assert nonlinear_gain(chaos, 24) < 0.3
    linear = lfilter([1.0], [1.0, -0.99], random.normal(size=3000))
    assert nonlinear_gain(make_section(linear[:, None], follows, ("x",), (False,), 1.0), 24) > 0.85


def test_lines_hold_for_several_frequencies_and_not_for_noise_or_chaos():
    n = np.arange(6000.0)
    random = np.random.default_rng(1)
    three = np.sin(0.2 * n) + 0.6 * np.sin(0.2 * 2**0.5 * n + 1) + 0.4 * np.sin(0.2 * 3**0.5 * n + 2)
    found = line_spectrum(three + 0.02 * random.normal(size=n.size), 0.02)
    assert found.hold
    assert np.sort(2 * np.pi * found.turns) == pytest.approx(0.2 * np.sqrt([1, 2, 3]), abs=1e-5)
    assert found.size == pytest.approx([1.0, 0.6, 0.4], abs=2e-3)
    assert not line_spectrum(resonance(0.995, 0.3, 6000, 2)).hold
    assert not line_spectrum(random.normal(size=6000), 1.0).hold


def test_surrogates_keep_the_spectra_and_lose_the_order():
    n = np.arange(1000)
    pair = np.column_stack([np.sin(0.3 * n) ** 3, np.cos(0.3 * n)])
    other = phase_randomised(pair, [slice(0, 600), slice(600, 1000)], np.random.default_rng(0))
    for piece in (slice(0, 600), slice(600, 1000)):
        before, after = np.fft.rfft(pair[piece], axis=0), np.fft.rfft(other[piece], axis=0)
        assert np.abs(after) == pytest.approx(np.abs(before), abs=1e-9)
        assert after[:, 0] * after[:, 1].conj() == pytest.approx(before[:, 0] * before[:, 1].conj(), abs=1e-8)
    assert np.abs(other - pair).max() > 0.1


def test_returns_of_a_resonance_at_the_drive_are_chance():
    """Noise through a sharp resonance at the frequency of the drive returns in phase with it; so do its surrogates."""
    claims = 0
    for seed in range(6):
        x = resonance(0.99, 2 * np.pi / 20, 12000, seed)
        record = kz.Record.from_arrays(np.arange(12000.0), {"x": x}, period=20.0)
        claims += len(kz.find_orbits(record, max_period=3, method=kz.ReturnSearch(tolerance=0.05))) > 0
    assert claims == 0


def test_stable_cycles_copies_and_rest_are_refused_with_a_reason():
    points = np.random.default_rng(0).uniform(size=(50, 1))
    section = make_section(points, np.ones(50, bool), ("x",), (False,), 1.0, scale=np.ones(1))

    def orbit(at: list[float], multiplier: float, deviation: float = 1e-3) -> tuple[np.ndarray, kz.PeriodicOrbit]:
        place = np.array(at)[:, None]
        stability = "stable" if abs(multiplier) < 1 else "unstable"
        noun = kz.PeriodicOrbit(
            ("x",), place, float(len(at)), repeats=len(at), multipliers=np.array([multiplier + 0j]),
            stability=stability, covariance=deviation**2 * np.eye(len(at)),
        )  # fmt: skip
        return place, noun

    kept = [orbit([0.2, 0.201], -3.0), orbit([0.2], -2.0), orbit([0.5], 0.4), orbit([0.2, 0.6], -2.0)]
    good, refused = credible(section, kept)
    assert [len(p) for p, _ in good] == [1, 2]
    reasons = " ".join(reason for _, reason in refused)
    assert "2 turns of an orbit of period 1" in reasons
    assert "would stay" in reasons


def test_orbits_held_by_control_are_not_called_stable():
    t = np.arange(8000) * 0.01
    record = kz.Record.from_arrays(t, {"x": np.sin(2 * np.pi * t)}, period=1.0)
    assert kz.find_orbits(record)[0].stability == "stable"
    held = kz.find_orbits(record, controlled=True)[0]
    assert held.stability == "unknown"
    assert "control" in held.notes[0]


def test_a_recorded_control_signal_tells_that_it_holds_the_motion():
    t = np.arange(8000) * 0.01
    x, force = np.sin(2 * np.pi * t), np.cos(2 * np.pi * t)

    def found(size, name="control", **settings):
        # The acceleration of x is (2π)² = 39.5.
        record = kz.Record.from_arrays(t, {"x": x, name: size * force}, period=1.0)
        return kz.find_orbits(record, **settings)

    held = found(0.4)
    assert held[0].stability == "unknown"
    assert held[0].states == ("x",)
    assert 'control signal "control" is 0.01 of the acceleration of "x"' in held.message
    free = found(0.01)
    assert free[0].stability == "stable"
    assert "free motion" in free.message
    assert found(0.4, "u")[0].stability == "stable"
    assert found(0.4, "u", controlled="u")[0].stability == "unknown"
    assert found(0.4, controlled=False)[0].stability == "stable"
    with pytest.raises(DataError, match='controlled = "v" is not a channel'):
        found(0.4, controlled="v")


def test_a_velocity_alone_is_embedded_and_its_orbits_have_profiles():
    model = kz.Model.from_equations(
        "x'' + c*x' + x**3 = F*cos(t)", parameters={"c": 0.05, "F": 7.5}, period="2*pi"
    )  # Ueda's oscillator
    record = kz.simulate(model, x0=[2.5, 0.0], periods=2050, samples_per_period=16).samples(slice(800, None))
    orbits = kz.find_orbits(record.select(["x'"]), max_period=1)
    assert "delay coordinates were added" in orbits.message
    assert len(orbits) > 0
    for orbit in orbits:
        assert orbit.profile is not None
        assert orbit.profile.states.shape == (16, len(orbit.states))
        assert abs(orbit.profile.states[0, 0] - orbit.points[0, 0]) < 0.05 * np.ptp(record["x'"])


def test_words_for_several_frequencies_on_a_section():
    turn = 2 * np.pi * 0.381966 * np.arange(2000) + 0.3
    points = np.column_stack([np.cos(turn) + 0.3 * np.cos(2 * turn), np.sin(turn)])
    section = make_section(points, np.ones(2000, bool), ("x", "y"), (False, False), 1.0)
    assert describe_section(section, 4, 0.01).kind == "quasi-periodic"


def test_gaps_between_cycles_are_those_of_the_best_shift():
    rng = np.random.default_rng(1)
    section = make_section(rng.uniform(size=(50, 2)), np.arange(50) < 49, ("a", "b"), (True, False), 1.0)
    cycles = [rng.uniform(size=(p, 2)) for p in (3, 4, 3, 1)]
    points = np.roll(cycles[2], 2, axis=0) + np.array([1.0, 0.25])
    apart = [np.roll(points, k, axis=0) - cycles[0] for k in range(3)]
    for difference in apart:
        difference[:, 0] -= np.round(difference[:, 0])
    expected = min(np.hypot(d[:, 0], d[:, 1]).max() for d in apart)
    assert np.allclose(cycle_gaps(section, cycles, points), [expected, np.inf, 0.25, np.inf], rtol=1e-12)


def test_the_linear_recursion_of_a_long_record_is_fitted_to_a_part_of_it(monkeypatch):
    """Driven by noise, neighbours leave as much as the recursion; a chaotic map is followed by no recursion."""
    x = resonance(0.9, 0.8, 6001, 2)
    chaos = np.empty((6000, 1))
    chaos[0] = 0.3
    for k in range(5999):
        chaos[k + 1] = 3.9 * chaos[k] * (1 - chaos[k])
    for points, low, high in ((np.column_stack([x[1:], x[:-1]])[:6000], 0.8, 1.2), (chaos, 0.0, 0.1)):
        names = ("x", "before")[: points.shape[1]]
        section = make_section(points, np.arange(6000) < 5999, names, (False,) * len(names), 1.0)
        whole = nonlinear_gain(section, 24)
        with monkeypatch.context() as few:
            few.setattr("kapitza.orbits.in_records.linear.MOST_ROWS", 1000)
            part = nonlinear_gain(section, 24)
        assert low <= whole <= high
        assert part != whole
        assert abs(part / whole - 1) < 0.05
