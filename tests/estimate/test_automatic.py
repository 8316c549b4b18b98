import numpy as np
import pytest

import kapitza as kz

TRUTH = {"sigma": 10.0, "rho": 28.0, "beta": 8 / 3}


@pytest.fixture(scope="module")
def record():
    run = kz.simulate(kz.library.lorenz(), x0=[1, 1, 1], t=np.arange(3000) * 0.01)
    rng = np.random.default_rng(2)
    return kz.Record.from_arrays(
        run.time, {c: run[c] + 0.02 * run[c].std() * rng.normal(size=run.size) for c in run.channels}
    )


def test_no_starting_values_are_needed(record):
    unknown = kz.library.lorenz().with_values(**dict.fromkeys(TRUTH, float("nan")))
    fit = kz.identify(unknown, record, list(TRUTH), "auto")
    for name, value in TRUTH.items():
        assert abs(fit.values[name] - value) < 4 * fit.deviations[name]
    assert fit.chain[0].startswith("HarmonicFit: sigma = ")
    assert "HarmonicFit" in fit.method


def test_a_start_that_does_not_apply_is_told_and_passed_over(record):
    hidden = kz.Record.from_arrays(record.time, {"x": record["x"]})
    fit = kz.identify(kz.library.lorenz(), hidden, list(TRUTH))
    assert "the given values" in fit.method
    assert any(line.startswith("HarmonicFit") for line in fit.chain[:-1])


def test_progressive_horizons_lead_to_the_whole_record(record):
    """Each horizon starts from the last one's parameters; the story lists them."""
    far = kz.library.lorenz().with_values(sigma=16.0, rho=14.0, beta=4.5)
    fit = kz.identify(far, record, list(TRUTH), kz.Automatic(start_from=("horizons",)))
    for name, value in TRUTH.items():
        assert abs(fit.values[name] - value) < 4 * fit.deviations[name]
    assert "progressive horizons → ShootingFit" in fit.method
    assert "horizons of 20, 40, 80" in fit.chain[0]


def test_encoders_of_relative_angles_start_from_harmonics():
    """Channels that combine the coordinates are turned into coordinates for the start, and fitted as they are."""
    model = kz.library.base_excited_double_pendulum()
    free = ["B11", "B12", "B13", "B21", "B22", "B23", "C12", "C2"]
    clean = kz.simulate(model, periods=60, samples_per_period=100)
    angles = {"theta1": clean["phi1"], "theta2": clean["phi2"] - clean["phi1"]}
    count = 2 * np.pi / 1024
    readings = {name: count * np.round(angle / count) for name, angle in angles.items()}
    encoders = kz.Record.from_arrays(clean.time, readings, angles=list(angles), period=clean.period, phase=0.0)
    method = kz.Automatic(kz.ShootingFit(outputs={"theta1": "phi1", "theta2": "phi2 - phi1"}))
    unknown = model.with_values(**dict.fromkeys(free, float("nan")))
    fit = kz.identify(unknown, encoders, free, method)
    assert fit.method == "auto (HarmonicFit → ShootingFit)"
    for name in free:
        assert abs(fit.values[name] - model.values[name]) < 4 * fit.deviations[name]


def test_starts_that_do_not_exist_are_refused(record):
    with pytest.raises(kz.KapitzaError, match='names "luck"; choose from accelerations, harmonic'):
        kz.identify(kz.library.lorenz(), record, ["rho"], kz.Automatic(start_from=("luck",)))
    unknown = kz.library.lorenz().with_values(rho=float("nan"))
    with pytest.raises(kz.KapitzaError, match="rho has no starting value"):
        kz.identify(unknown, record, ["rho"], kz.Automatic(start_from=("horizons",)))


def test_an_unknown_method_is_refused(record):
    with pytest.raises(kz.KapitzaError, match='"auto", not "best"'):
        kz.identify(kz.library.lorenz(), record, ["rho"], "best")
    with pytest.raises(kz.KapitzaError, match="give an Estimator"):
        kz.identify(kz.library.lorenz(), record, ["rho"], 3)


def test_without_throw_the_next_start_is_tried(record):
    """Too few iterations for the given values: the chain goes on, as it does when a failed fit raises."""
    far = kz.library.lorenz().with_values(sigma=16.0, rho=14.0, beta=4.5)
    hurried = kz.ShootingFit(throw=False, max_iterations=6)
    assert not kz.identify(far, record, list(TRUTH), kz.Automatic(hurried, start_from=("given",))).status.ok
    fit = kz.identify(far, record, list(TRUTH), kz.Automatic(hurried, start_from=("given", "harmonic")))
    assert fit.status.ok
    assert fit.method == "auto (HarmonicFit → ShootingFit)"


@pytest.mark.parametrize("settings", [{"start_from": "nowhere"}, {"shooting": "given"}, {"start_from": ()}])
def test_settings_of_the_chain_are_checked(settings):
    with pytest.raises(kz.KapitzaError, match=r"Automatic\(|give a ShootingFit"):
        kz.Automatic(**settings)
