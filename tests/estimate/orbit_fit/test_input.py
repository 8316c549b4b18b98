"""Data and settings that cannot be right are refused before iterating, with the thing, the numbers and the cure."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import DataError, KapitzaError, ModelError
from kapitza.orbits import Profile

NAN = float("nan")


def altered(orbit, what):
    """The orbit with one thing wrong."""
    size = orbit.points.size
    points, covariance = orbit.points.copy(), np.array(orbit.covariance)
    times = np.arange(20) * orbit.period / 20
    states = np.ones((20, 2))
    states[7, 1] = NAN
    if what == "nan point":
        points[0, 1] = NAN
    if what == "nan variance":
        covariance[0, 0] = NAN
    changes = {
        "zero covariance": {"covariance": np.zeros((size, size))},
        "negative variance": {"covariance": -covariance},
        "wrong shape": {"covariance": np.eye(3)},
        "asymmetric": {"covariance": covariance + np.triu(np.full((size, size), 0.9e-3), 1)},
        "nan profile": {"covariance": None, "profile": Profile(times, states)},
        "lengths": {"covariance": None, "profile": Profile(times[:-1], np.ones((20, 2)))},
        "beyond": {"covariance": None, "profile": Profile(3 * times, np.ones((20, 2)))},
        "order": {"covariance": None, "profile": Profile(times[::-1], np.ones((20, 2)))},
        "nan period": {"period": NAN},
    }
    return orbit.with_(**{"points": points, "covariance": covariance, **changes.get(what, {})})


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("nan point", 'orbit 1: period 1 D has no number at point 0 of "phi\'"'),
        ("nan variance", "covariance of orbit 1: period 1 D is not one"),
        ("zero covariance", "covariance of orbit 1: period 1 D is not one"),
        ("negative variance", "covariance of orbit 1: period 1 D is not one"),
        ("wrong shape", r"has the shape \(3, 3\).*\(2, 2\) is expected"),
        ("asymmetric", "not symmetric with correlations within"),
        ("nan profile", 'has no number at sample 7 of "phi\'"'),
        ("lengths", "19 times for 20 samples"),
        ("beyond", "from 0 up to the period"),
        ("order", "must increase"),
        ("nan period", "has the period nan"),
    ],
)
def test_one_bad_orbit_is_named(pendulum, exact, what, message):
    with pytest.raises(DataError, match=f"(?i){message}"):
        kz.identify(pendulum, [exact[0], altered(exact[1], what), *exact[2:]], ["m", "l"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noise": {"phi": 1e-3, "psi": 1e-3}}, 'noise names "psi"'),
        ({"noise": {"phi": -1e-3}}, "finite number, 0 or above"),
        ({"noise": {"phi": NAN}}, "give a finite number"),
        ({"noise": 1e-3}, "every orbit carries its own covariance"),
        ({"method": "rubbish"}, "only the nested form"),
        ({"method": "rubbish", "formulation": "nested"}, "not a periodic solver"),
        ({"period": 7}, "is for records"),
        ({"period": 0}, "in excitation periods, = 0"),
        ({"nodes": 0}, "nodes = 0; give a whole number, 1 or more"),
        ({"restarts": -1}, "restarts = -1; give a whole number, 0 or more"),
        ({"multipliers": True}, "no orbit carries the uncertainty"),
        ({"derived": {"q": "m/nothing"}}, "nothing"),
        ({"profiles": True}, "has no profile"),
    ],
)
def test_settings_that_would_be_ignored_or_fail_later_are_refused(pendulum, exact, settings, message):
    with pytest.raises(KapitzaError, match=message):
        kz.identify(pendulum, list(exact), ["m", "l"], kz.OrbitFit(**settings))


def test_a_derived_quantity_without_a_value_is_no_number(pendulum, exact):
    fit = kz.identify(pendulum, list(exact), ["m", "l"], kz.OrbitFit(derived={"q": "m/k1"}))
    assert pendulum.values["k1"] == 0
    assert np.isnan(fit["q"])


@pytest.mark.parametrize("data", ["orbits.json", 3.0, b"abc", [["orbits.json"]]])
def test_what_is_no_data_is_refused_in_words(pendulum, data):
    with pytest.raises(DataError, match="identify works on records, orbits"):
        kz.identify(pendulum, data, ["m"], kz.OrbitFit())


def test_no_data_and_one_name(pendulum, exact):
    with pytest.raises(DataError, match="no data to fit"):
        kz.identify(pendulum, [], ["m"])
    fit = kz.identify(pendulum.with_values(k2=4e-4), list(exact), "k2", kz.OrbitFit())
    assert fit.names == ("k2",)


@pytest.fixture(scope="module")
def duffing():
    return kz.library.duffing().with_values(k=0.08, B=0.2)


def positions(model, samples=60, **attributes):
    """x over one period of the steady state."""
    orbit = kz.solve_orbit(model)
    share = np.arange(samples) / samples
    values = {"x": orbit.loop(share)[:, 0]}
    return kz.Record.from_arrays(share * orbit.period, values, **{"period": model.period, "phase": 0.0, **attributes})


def test_a_record_with_another_period_than_the_model_is_refused(duffing):
    record = positions(duffing, period=1.02 * duffing.period)
    with pytest.raises(DataError, match="give this record its own excitation"):
        kz.identify(duffing, record, ["k"], kz.OrbitFit())


def test_noise_cannot_be_estimated_without_degrees_of_freedom(duffing):
    """One reading and one parameter: any k that fits it fits exactly, so there is no error to speak of."""
    for samples, free in ((1, ["k"]), (2, ["k", "B"])):
        record = positions(duffing, samples=samples)
        with pytest.raises(DataError, match=f"{samples} samples are to determine {samples} unknowns"):
            kz.identify(duffing, record, free, kz.OrbitFit())


def test_a_free_parameter_cannot_be_given_with_a_record_too(duffing):
    data = [(positions(duffing), {"B": 0.2}), (positions(duffing), {"B": 0.25})]
    with pytest.raises(ModelError, match=r"B is free and also given as 0.2 with record 0"):
        kz.identify(duffing, data, ["k", "B"], kz.OrbitFit())


def test_values_of_single_records_are_not_printed_as_common_ones(duffing):
    data = [(positions(duffing.with_values(B=force)), {"B": force}) for force in (0.2, 0.25)]
    fit = kz.identify(duffing.with_values(k=0.09, B=0.22), data, ["k"], kz.OrbitFit(noise=1e-3))
    assert "B" not in fit.fixed
