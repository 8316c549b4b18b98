"""Physical parameters, which enter in products and powers, from weak rows."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import IdentifiabilityError, ModelError
from kapitza.estimate.harmonic_fit.squares import Squares
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


SQUARED = kz.Model.from_equations(
    "x'' + c*x' + w**2*x + h*x**3 = 2.0*cos(1.3*t)", parameters={"c": 0.2, "w": 1.5, "h": 0.5}, period="2*pi/1.3"
)


def squared_record(stiffness):
    """A motion whose linear stiffness may be negative, which no w**2 is."""
    truth = kz.Model.from_equations(
        f"x'' + 0.2*x' + {stiffness!r}*x + 0.5*x**3 = 2.0*cos(1.3*t)", coordinates=["x"], period="2*pi/1.3"
    )
    return kz.simulate(truth, x0=[1.0, 0.0], t=np.arange(2000) * 0.05, noise=0.01, seed=0).select(["x"])


@pytest.mark.parametrize("start", [0.0, -20.0])
def test_the_root_of_a_square_has_the_sign_of_its_start(start):
    """From w = 0, where w**2 has no slope, the fit ended at -3e12; from -20 at the other root."""
    fit = kz.identify(SQUARED.with_values(w=start), squared_record(2.25), ["c", "w", "h"], kz.HarmonicFit())
    assert fit["w"] == pytest.approx(-1.5 if start < 0 else 1.5, rel=0.01)
    assert not fit.warnings


def test_a_negative_square_is_told():
    """w went to 7e7 with a standard error of 1 %."""
    fit = kz.identify(SQUARED, squared_record(-0.3), ["c", "w", "h"], kz.HarmonicFit())
    (text,) = [text for text in fit.warnings if "negative square" in text]
    assert "w**2 = -0." in text
    assert fit["w"] == 0
    assert np.isfinite(fit.covariance).all()


def test_a_square_near_zero_keeps_zero_in_its_interval():
    fit = kz.identify(SQUARED, squared_record(0.0), ["c", "w", "h"], kz.HarmonicFit())
    low, high = fit.interval(0.9).loc["w"]
    assert low <= 0 <= high < 0.5
    assert any("w**2" in text and "not distinct from zero" in text for text in fit.warnings)


def test_errors_of_roots_hold_the_intervals_of_squares():
    squares = Squares(("p",), np.array([True]), np.ones(1), ())
    for q in (0.0, 0.2, 1.0, 1.8, 3.0, 10.0, 1e4):
        (error,), root = squares.errors(np.array([q]), np.ones(1)), np.sqrt(q)
        for z in (1.0, 1.645, 1.96):
            assert root + z * error >= np.sqrt(q + z) - 1e-9
            assert root - z * error <= np.sqrt(max(q - z, 0.0)) + 1e-9
    assert error == pytest.approx(0.5 / root, rel=1e-3)


def test_another_solution_that_fits_as_well_is_reported():
    """Two distances swing alike (Kater's reversible pendulum): their product is J/m."""
    parameters = {"J": 0.004, "m": 0.5, "a": 0.15, "c": 0.001, "g": 9.81}
    equation = "(J + m*a**2)*phi'' + c*phi' + m*g*a*sin(phi) = 0"
    model = kz.Model.from_equations(equation, angles=["phi"], parameters=parameters)
    record = kz.simulate(model, x0=[2.0, 0.0], t=np.arange(2000) * 0.005, noise=0.002, seed=1).select(["phi"])
    fit = kz.identify(model, record, ["a", "c"], kz.HarmonicFit())
    (text,) = [text for text in fit.warnings if "another solution" in text]
    assert "a = 0.0533" in text
    longer = kz.Parameter("a", 0.15, bounds=(0.1, np.inf))
    bounded = kz.Model.from_equations(equation, angles=["phi"], parameters={**parameters, "a": longer})
    assert not kz.identify(bounded, record, ["a", "c"], kz.HarmonicFit()).warnings


def test_a_square_of_which_only_noise_is_seen_is_told():
    """y moves less than its noise; w was 25 standard errors off, and a gain was blamed."""
    model = kz.Model.from_equations(
        ["x'' + c*x' + x + x**3 = 2.0*cos(1.3*t)", "y'' + d*y' + w**2*y = e*x"],
        coordinates=["x", "y"], parameters={"c": 0.2, "d": 0.3, "w": 1.6, "e": 0.01}, period="2*pi/1.3",
    )  # fmt: skip
    run = kz.simulate(model, x0=[1.0, 0.0, 0.0, 0.0], t=np.arange(3000) * 0.05).select(["x", "y"])
    fit = kz.identify(model, kz.measure(run, noise=0.05, seed=0), ["c", "d", "w", "e"], kz.HarmonicFit())
    assert any("Noise makes up" in text for text in fit.warnings)
    assert not any("gain" in text for text in fit.warnings)
