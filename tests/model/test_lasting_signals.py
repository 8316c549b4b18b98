"""Measured drives without a period: used as far as they are known, refused beyond, and where a period is needed."""

from dataclasses import replace

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import DataError, ModelError
from kapitza.model import harmonic_drive, unknown_excitation

TIME = np.arange(500) * 0.02
RANDOM = np.random.default_rng(3)
DRIVE = np.convolve(RANDOM.normal(size=560), np.hanning(30) / 6, "same")[:500]


def rig(times=TIME, period=None, degree=1, **values):
    return kz.Model.from_equations(
        "x'' + c*x' + k*x = b*F",
        parameters={"c": 0.4, "k": 30.0, "b": 2.0, **values},
        signals=[kz.Signal("F", times, DRIVE, period, degree=degree)],
        name="rig",
    )


def closed_form(times):
    """The linear oscillator from rest under a broken line, interval by interval in closed form."""
    system = np.array([[0.0, 1.0], [-30.0, -0.4]])
    roots, vectors = np.linalg.eig(system)
    step = times[1] - times[0]
    turn = np.real(vectors @ np.diag(np.exp(roots * step)) @ np.linalg.inv(vectors))
    inverse = np.linalg.inv(system)
    state, made = np.zeros(2), [np.zeros(2)]
    for i in range(len(times) - 1):
        slope = np.array([0.0, 2.0 * (DRIVE[i + 1] - DRIVE[i]) / step])
        force = np.array([0.0, 2.0 * DRIVE[i]])
        steady = -inverse @ (force + inverse @ slope)
        state = turn @ (state - steady) + steady - inverse @ slope * step
        made.append(state)
    return np.array(made)


@pytest.mark.parametrize("begin", [0.0, -4.0, 7.5])
def test_motion_under_a_lasting_drive_is_the_closed_form(begin):
    record = kz.simulate(rig(TIME + begin), [0.0, 0.0], t=TIME + begin)
    assert record.period is None
    assert np.allclose(record.values(["x", "x'"]), closed_form(TIME), atol=1e-11)
    flow = kz.Flow(rig(TIME + begin))
    back = flow.propagate(record.values(["x", "x'"])[-1], TIME[-1] + begin, begin).state
    assert np.allclose(back, 0.0, atol=1e-11)


@pytest.mark.parametrize("degree", [0, 1, 3, 5])
def test_lasting_signals_pass_through_their_samples(degree):
    signal = kz.Signal("F", TIME - 3.0, DRIVE, degree=degree)
    assert np.allclose(signal(TIME[:-1] - 3.0), DRIVE[:-1], atol=1e-12)
    assert signal.reach == (-3.0, TIME[-1] - 3.0)
    with pytest.raises(ModelError, match=r'"F" is known from -3 to 6\.98 s, not at 7 s'):
        signal(7.0)


def test_nothing_is_computed_beyond_a_lasting_drive():
    with pytest.raises(ModelError, match="no period: keep to these times"):
        kz.simulate(rig(), [0.0, 0.0], t=np.arange(600) * 0.02)
    with pytest.raises(ModelError, match='"fourier" needs a period'):
        kz.Signal("F", TIME, DRIVE, kind="fourier")
    with pytest.raises(ModelError, match='signal "F" does not repeat'):
        kz.Model.from_equations(
            "x'' + x = F + cos(w*t)", parameters={"w": 1.0}, signals=[kz.Signal("F", TIME, DRIVE)], period="2*pi/w"
        )


@pytest.mark.parametrize("method", [kz.ShootingFit(), kz.HarmonicFit(), "auto"])
def test_fits_find_the_parameters_of_a_rig_with_a_lasting_drive(method):
    clean = kz.simulate(rig(TIME + 7.5), [0.1, 0.0], t=TIME + 7.5).select(["x"])
    record = kz.measure(clean, noise=0.002, seed=1)
    fit = kz.identify(rig(TIME + 7.5, k=28.0, b=1.7, c=0.3), record, ["c", "k", "b"], method)
    for name, truth in {"c": 0.4, "k": 30.0, "b": 2.0}.items():
        assert abs(fit[name] - truth) < 4 * fit.deviations[name]
    assert fit.misfit is None or fit.misfit.to_the_noise


def test_suggest_and_validate_work_under_a_lasting_drive():
    record = kz.measure(kz.simulate(rig(), [0.1, 0.0], t=TIME).select(["x"]), noise=0.002, seed=2)
    fit = kz.identify(rig(k=28.0), record.between(0.0, 6.0), ["c", "k", "b"], kz.ShootingFit())
    assert not kz.suggest(fit).missing
    check = kz.validate(fit, record.between(6.0, 10.0), parts=["terms"])
    assert not check.rejected
    elsewhere = kz.Record.from_arrays(TIME + 20.0, {"x": record["x"]})
    with pytest.raises(DataError, match=r'"F" is known from 0 to 9\.98 s .* lasts from 20 to 29\.98 s'):
        kz.validate(fit, elsewhere)
    with pytest.raises(DataError, match="lasts from 20 to"):
        kz.identify(rig(), elsewhere, ["k"])


def test_validate_drives_the_model_by_the_drive_of_the_record():
    """A second run under another drive, with its own channel F: the right model is not rejected, a wrong one is."""
    record = kz.measure(kz.simulate(rig(), [0.1, 0.0], t=TIME).select(["x"]), noise=0.002, seed=2)
    fit = kz.identify(rig(k=28.0), record, ["c", "k", "b"], kz.ShootingFit())
    other = replace(rig().signals[0], values=DRIVE[::-1] + 0.3)
    moved = kz.simulate(replace(rig(), excitation=kz.Excitation(None, (other,))), [0.1, 0.0], t=TIME).select(["x"])
    second = kz.measure(moved, noise=0.002, seed=4).with_channel("F", DRIVE[::-1] + 0.3, "", False)
    assert kz.validate(fit, second, parts=["terms"]).rejected is False
    softer = kz.identify(rig(k=28.0, b=2.1), record, ["c", "k"], kz.ShootingFit())
    assert kz.validate(softer, second, parts=["terms"]).rejected


@pytest.mark.parametrize(
    "work",
    [
        lambda m: kz.solve_orbit(m, [0.1, 0.0], period=1.0),
        lambda m: kz.find_orbits(m, max_period=2),
        lambda m: kz.follow(m, [0.1, 0.0], "k", bounds=(20.0, 40.0), period=1.0),
        lambda m: kz.follow(m, [0.1, 0.0], "k", bounds=(20.0, 40.0), equilibrium=True),
        lambda m: kz.basins(m, {"x": (-1, 1), "x'": (-1, 1)}, grid=(3, 3)),
        lambda m: kz.exponents(m),
        lambda m: kz.identify(m, kz.simulate(m, [0.1, 0.0], t=TIME), ["k"], kz.OrbitFit()),
        lambda m: unknown_excitation(m, "F"),
        lambda m: kz.with_control(m, "x"),
    ],
)
def test_what_needs_a_period_is_refused_by_the_name_of_the_drive(work):
    with pytest.raises(ModelError, match=r'drive "F" was measured from 0 to 9\.98 s and has no period.*formula in t'):
        work(rig())


def test_lasting_drives_are_kept_in_files(tmp_path):
    kz.write_model(rig(degree=3), tmp_path / "rig.toml")
    assert kz.read_model(tmp_path / "rig.toml") == rig(degree=3)
    kz.save(rig(), tmp_path / "rig.nc")
    assert kz.load(tmp_path / "rig.nc") == rig()
    harmonic = harmonic_drive(rig(), "F")
    assert harmonic.period is not None


def test_a_repeating_signal_beside_a_lasting_one():
    other = kz.Signal("G", [0.0, 0.5, 1.0], [0.0, 1.0, 0.5], 1.5)
    repeated = kz.Signal("G", np.arange(0.0, 12.0, 0.5), np.tile([0.0, 1.0, 0.5], 8))
    parts = {"parameters": {"k": 1.0}, "start": {"x": 0.1, "x'": 0.0}}
    motions = [
        kz.simulate(
            kz.Model.from_equations("x'' + x' + k*x = F + G", signals=[kz.Signal("F", TIME, DRIVE), g], **parts),
            t=TIME,
        )["x"]
        for g in (other, repeated)
    ]
    assert np.allclose(*motions, atol=1e-11)


def test_an_excitation_of_no_signals_is_refused():
    with pytest.raises(kz.errors.ModelError, match="neither a period nor a signal"):
        kz.Excitation.of_signals([])
