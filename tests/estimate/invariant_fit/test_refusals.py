"""What an invariant fit or search cannot answer is refused in words, and what only looks conserved is not reported."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import DataError, IdentifiabilityError, KapitzaError, ModelError


@pytest.fixture(scope="module")
def model():
    return kz.library.henon_heiles()


@pytest.fixture(scope="module")
def record(model):
    return kz.measure(kz.simulate(model, t=np.arange(100.0)), relative_noise=0.02, seed=1)


def oscillator(samples=300, **more):
    t = np.arange(samples) * 0.1
    return kz.Record.from_arrays(t, {"x": np.sin(t), "v": np.cos(t), **more})


@pytest.mark.parametrize("objective", ["variance", "balance"])
def test_no_free_parameter_is_refused(model, record, objective):
    with pytest.raises(ModelError, match="No parameter is free"):
        kz.identify(model, record, free=[], method=kz.InvariantFit(objective))


def test_factor_alone_is_refused(model, record):
    with pytest.raises(IdentifiabilityError, match="nothing to estimate"):
        kz.identify(model, record, method=kz.InvariantFit(invariant="m2*q1"))


def test_maps_are_not_handed_over_to_fits_of_flows():
    series = kz.Record.from_arrays(np.arange(40), {"x": np.cos(np.arange(40.0))})
    with pytest.raises(ModelError, match="is a map, and ShootingFit fits flows"):
        kz.identify(kz.library.trace_map(), series, method=kz.InvariantFit(then=kz.ShootingFit()))


def test_noise_and_invariant_must_make_sense(model, record):
    with pytest.raises(KapitzaError, match="finite"):
        kz.identify(model, record, method=kz.InvariantFit(noise=float("nan")))
    with pytest.raises(KapitzaError, match="invariant = 3; give text or an Expr"):
        kz.identify(model, record, method=kz.InvariantFit(invariant=3))


def test_momenta_alone_do_not_give_positions(model, record):
    # p' is quadratic in the positions: several solutions, none of which can be preferred
    with pytest.raises(DataError, match="do not follow"):
        kz.identify(model, record.select(["p1", "p2"]), method=kz.InvariantFit())


def test_balance_of_a_conservative_motion_and_its_hand_over(model):
    """Nothing drains H: the balance says that H is conserved, and hands over like the other objectives."""
    free = ["m2", "omega1", "omega2", "a", "b", "c", "d"]
    clean = kz.simulate(model, t=np.arange(0, 100.0, 0.05))
    truth = np.array([model.values[n] for n in free])
    fit = kz.identify(model.with_values(m2=1.3, b=0.8), clean, free=free, method=kz.InvariantFit("balance"))
    assert [fit.values[n] for n in free] == pytest.approx(truth, abs=1e-3)
    then = kz.InvariantFit("surface")
    handed = kz.identify(model, clean, free=free, method=kz.InvariantFit("balance", then=then))
    assert np.isfinite(handed.level_sets.distance)


def test_orbits_of_different_energy_taken_for_one_are_doubted(model):
    """Three energies in one level set: the fit ends without a numerical failure, and says what to do."""
    starts = ([0, 0, 0.4, -0.4], [0.1, 0.1, 0.3, 0], [0, 0.2, 0.2, 0.2])
    values = np.vstack([kz.simulate(model, x0=x, t=np.arange(50.0)).values() for x in starts])
    channels = dict(zip(model.states, values.T, strict=True))
    record = kz.Record.from_arrays(np.tile(np.arange(50.0), 3), channels, segment=np.repeat([0, 1, 2], 50))
    start = model.with_values(b=-1.0, m2=2.0)
    assert kz.identify(start, record, method=kz.InvariantFit(levels="segment"))["b"] == pytest.approx(1.0, abs=1e-9)
    wrong = kz.identify(start, record, method=kz.InvariantFit())
    assert any('levels="segment"' in w for w in wrong.warnings)


def test_degrees_are_converted():
    pendulum = kz.library.planar_double_pendulum()
    seen = kz.simulate(pendulum, t=np.arange(0, 5, 0.1))
    channels = {c: seen[c] for c in seen.channels}
    radians = kz.Record.from_arrays(seen.time, channels, angles=["phi1", "phi2"])
    degrees = kz.Record.from_arrays(
        seen.time, channels | {"phi1": np.degrees(seen["phi1"])}, units={"phi1": "deg"}, angles=["phi1", "phi2"]
    )
    plain, converted = (kz.identify(pendulum, data, method=kz.InvariantFit()) for data in (radians, degrees))
    assert converted.values == pytest.approx(plain.values, rel=1e-9)


def test_white_noise_conserves_nothing():
    rng = np.random.default_rng(0)
    noise = kz.Record.from_arrays(np.arange(300.0), {"x": 1 + 0.3 * rng.normal(size=300), "y": rng.normal(size=300)})
    assert not kz.find_invariant(noise)
    assert not kz.find_invariant(noise, noise={"x": 0.3, "y": 1.0})
    assert "unrelated combinations" in kz.find_invariant(noise, noise={"x": 0.3, "y": 1.0}).verdict


def test_constant_channels_are_named():
    with pytest.raises(DataError, match='"c" is constant'):
        kz.find_invariant(oscillator(c=np.full(300, 2.0)))
    shaken = oscillator(c=2 + 0.01 * np.random.default_rng(0).normal(size=300))
    with pytest.raises(DataError, match='"c" varies no more'):
        kz.find_invariant(shaken, noise=0.01)


def test_what_fails_on_held_back_data_is_no_invariant():
    """19 terms bend along any short smooth curve; the last third of it tells."""
    lorenz = kz.Model.from_equations(
        ["x' = s*(y - x)", "y' = x*(r - z) - y", "z' = x*y - b*z"], parameters={"s": 10.0, "r": 28.0, "b": 8 / 3}
    )
    short = kz.find_invariant(kz.simulate(lorenz, x0=[1, 1, 20], t=np.arange(0, 1, 0.005)), degree=3)
    assert not short
    assert "where it was fitted" in short.verdict


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tolerance": 0.0}, "positive"),
        ({"tolerance": -1.0}, "positive"),
        ({"tolerance": "small"}, "give a number or a table"),
        ({"noise": "small"}, "give a number or a table"),
        ({"hold_back": "all"}, "give a number"),
        ({"terms": ["x", None]}, "entry 1, = None; give text or an Expr"),
        ({"tolerance": {"x": 0.1}}, "no value for channel v"),
        ({"tolerance": {"x": 0.1, "v": 0.1, "w": 0.1}}, 'tolerance was given for "w"; the channels are x, v'),
        ({"noise": {"x": 0.1, "v": 0.1, "w": 0.1}}, 'noise names "w"; the channels in use are x, v'),
        ({"degree": 2.5}, "whole number"),
        ({"terms": "x**2 + v**2"}, "give a list"),
        ({"terms": ["3", "4"]}, "constant"),
        ({"terms": ["__import__('os')", "x"]}, "not understood"),
    ],
)
def test_search_settings_are_checked(settings, message):
    with pytest.raises(KapitzaError, match=message):
        kz.find_invariant(oscillator(), **settings)


@pytest.mark.parametrize("window", [0.0, -1.0, float("nan"), float("inf")])
def test_window_of_no_length_is_refused(window):
    with pytest.raises(KapitzaError, match=r"window(, in seconds,)? = .*; give a (finite )?number"):
        kz.InvariantFit("balance", window=window)


def test_what_is_not_conserved_is_doubted_though_the_noise_is_unknown():
    pendulum = kz.Model.from_equations(
        "phi'' + c*phi' + omega0**2*sin(phi) = 0", angles=["phi"], parameters={"c": 0.05, "omega0": 3.0}
    )
    decay = kz.simulate(pendulum, x0=[2.5, 0.0], t=np.arange(0, 30, 0.02))
    energy = "phi'**2/2 - omega0**2*cos(phi)"
    fit = kz.identify(pendulum, decay, method=kz.InvariantFit(invariant=energy))
    assert any("conservation is in doubt" in w for w in fit.warnings)
    with pytest.raises(DataError, match="fewer than 4 samples"):
        kz.identify(pendulum, decay, method=kz.InvariantFit("balance", invariant=energy, window=1e-6))
