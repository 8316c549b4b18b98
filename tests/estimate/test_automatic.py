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
    assert fit.details["chain"][0].startswith("HarmonicFit: sigma = ")
    assert "HarmonicFit" in fit.method


def test_a_start_that_does_not_apply_is_told_and_passed_over(record):
    hidden = kz.Record.from_arrays(record.time, {"x": record["x"]})
    fit = kz.identify(kz.library.lorenz(), hidden, list(TRUTH))
    assert "the given values" in fit.method
    assert any(line.startswith("HarmonicFit") for line in fit.details["chain"][:-1])


def test_an_unknown_method_is_refused(record):
    with pytest.raises(kz.KapitzaError, match='"auto", not "best"'):
        kz.identify(kz.library.lorenz(), record, ["rho"], "best")
    with pytest.raises(kz.KapitzaError, match="not a method"):
        kz.identify(kz.library.lorenz(), record, ["rho"], 3)
