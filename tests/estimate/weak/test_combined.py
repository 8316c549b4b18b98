"""Physical parameters, which enter in products and powers, from weak rows."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import IdentifiabilityError, ModelError
from linkages import linked_pendulum

FREE = ("m2", "m3", "l1", "l2", "l3", "c")


@pytest.fixture(scope="module")
def triple():
    return linked_pendulum(3, damping=0.004)


@pytest.fixture(scope="module")
def swinging(triple):
    times = np.arange(0.0, 20.0, 0.005)
    record = kz.simulate(triple, x0=[1.2, 0.8, -0.5, 0, 0, 0], t=times, noise=0.002, seed=1)
    return record.select(["q1", "q2", "q3"])


@pytest.mark.parametrize("off", [1.0, 2.5, 0.4])
def test_triple_pendulum_in_masses_and_lengths(triple, swinging, off):
    start = triple.with_values(m2=0.3 * off, m3=1.5, l1=0.6 / off, l2=0.2, l3=0.6, c=0.01)
    fit = kz.identify(start, swinging, free=FREE, method=kz.HarmonicFit())
    errors = np.array([fit.values[n] - triple.values[n] for n in FREE])
    assert (np.abs(errors) < 4 * np.sqrt(np.diag(fit.covariance))).all()
    assert (np.abs(errors[:5]) < 1e-3 * np.array([triple.values[n] for n in FREE[:5]])).all()


def test_no_values_are_needed(triple, swinging):
    blank = kz.Model.from_equations(
        triple.equations,
        coordinates=triple.coordinates,
        parameters=[kz.Parameter(p.name) if p.name in FREE else p for p in triple.parameters],
    )
    fit = kz.identify(blank, swinging, free=FREE, method=kz.HarmonicFit())
    assert fit.values == pytest.approx({n: triple.values[n] for n in FREE}, rel=5e-3)


def test_intervals_hold_the_truth():
    model = kz.Model.from_equations(
        "m*l**2*phi'' + c*phi' + m*g*l*sin(phi) = T*cos(w*t)",
        angles=["phi"],
        parameters={"m": 0.5, "l": 0.3, "c": 0.01, "g": 9.81, "T": 0.3, "w": 4.0},
        period="2*pi/w",
    )
    clean = kz.simulate(model, x0=[0.3, 0.0], periods=40, samples_per_period=80).select(["phi"])
    inside = np.zeros(3)
    for seed in range(12):
        noisy = kz.measure(clean, noise=0.005, seed=seed)
        fit = kz.identify(model, noisy, free=["m", "l", "c"], method=kz.HarmonicFit())
        low, high = fit.interval(0.9).loc[["m", "l", "c"], ["low", "high"]].to_numpy().T
        truth = np.array([0.5, 0.3, 0.01])
        inside += (low <= truth) & (truth <= high)
        # Rows divided by the size of their own terms would ask for larger terms, and every fit for a missing one.
        assert fit.misfit.to_the_noise
    # Binomial: below 9 of 12 with probability 3 % at 90 %, of three parameters from the same data.
    assert (inside >= 9).all()


def test_steady_stretches_do_not_widen_what_the_start_of_a_record_tells():
    """The start-up tells m from l; noise pulls the stretches after it, which say little, all to the same side."""
    model = kz.Model.from_equations(
        "m*l**2*phi'' + c*phi' + m*g*l*sin(phi) = T*cos(w*t)",
        angles=["phi"],
        parameters={"m": 0.5, "l": 0.3, "c": 0.01, "g": 9.81, "T": 0.3, "w": 4.0},
        period="2*pi/w",
    )
    clean = kz.simulate(model, x0=[0.3, 0.0], periods=150, samples_per_period=80).select(["phi"])
    fit = kz.identify(model, kz.measure(clean, noise=0.003, seed=2), free=["m", "l", "c"], method=kz.HarmonicFit())
    wide, alone = fit.interval(0.9), fit.noise_interval(0.9)
    assert (wide.high - wide.low).to_numpy() == pytest.approx((alone.high - alone.low).to_numpy(), rel=0.6)
    assert abs(fit["l"] - 0.3) < 4 * fit.deviations["l"]


def test_a_frequency_inside_a_sine_is_not_biased():
    """Parameters that do not separate (b in sin(b x)): with 5 % noise h was off by its standard error on average."""
    model = kz.Model.from_equations(
        "x'' + c*x' + k*x + h*sin(b*x) = F*cos(t)",
        parameters={"c": 0.2, "k": 0.3, "h": 1.0, "b": 1.5, "F": 1.2},
        period="2*pi",
    )
    clean = kz.simulate(model, x0=[0.1, 0.0], periods=120, samples_per_period=80).select(["x"])
    free, off = ["c", "k", "h", "b", "F"], []
    for seed in range(6):
        fit = kz.identify(model, kz.measure(clean, noise=0.05 * clean["x"].std(), seed=seed), free, kz.HarmonicFit())
        off.append([(fit[n] - model.values[n]) / fit.deviations[n] for n in free])
    assert (np.abs(np.mean(off, axis=0)) < 1.0).all()


def test_a_scale_that_no_data_can_tell_is_named():
    model = kz.Model.from_equations(
        "m*l**2*phi'' + c*phi' + m*g*l*sin(phi) = 0",
        angles=["phi"],
        parameters={"m": 0.5, "l": 0.3, "c": 0.01, "g": 9.81},
    )
    record = kz.simulate(model, x0=[1.5, 0.0], t=np.arange(0, 20, 0.01), noise=0.001, seed=1).select(["phi"])
    with pytest.raises(IdentifiabilityError, match="m"):
        kz.identify(model, record, free=["m", "l", "c"], method=kz.HarmonicFit())
    fit = kz.identify(model, record, free=["l", "c"], method=kz.HarmonicFit())
    assert fit.values["l"] == pytest.approx(0.3, rel=1e-3)


def test_refusal_is_still_there(triple, swinging):
    with pytest.raises(ModelError, match="is not linear in"):
        kz.identify(triple, swinging, free=FREE, method=kz.HarmonicFit(nonlinear="refuse"))


def test_automatic_starts_a_chain_in_physical_parameters(triple, swinging):
    start = triple.with_values(m2=0.3, m3=1.5, l1=0.6, l2=0.2, l3=0.6, c=0.01)
    fit = kz.identify(start, swinging.between(0.0, 4.0), free=FREE, method="auto")
    assert fit.status.ok
    assert fit.values == pytest.approx({n: triple.values[n] for n in FREE}, rel=0.02)
