"""Predicting maps: exact where the map is polynomial, errors that grow with the Lyapunov exponent."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import DataError

HENON_EXPONENT = 0.4192  # per step, at a = 1.4, b = 0.3


def henon_record(count: int, start=(0.1, 0.1)) -> kz.Record:
    x, y = start
    points = np.empty((count + 50, 2))
    for i in range(count + 50):
        x, y = 1 - 1.4 * x * x + y, 0.3 * x
        points[i] = x, y
    points = points[50:]
    return kz.Record.from_arrays(np.arange(count) * 1.0, {"x": points[:, 0], "y": points[:, 1]}, period=1.0)


@pytest.fixture(scope="module")
def records():
    return henon_record(6000), henon_record(1500, (0.2, -0.1))


def test_global_polynomials_find_a_quadratic_map_exactly(records):
    fitted = kz.GlobalMap(largest=5).fit(records[0])
    assert fitted.error(records[1]) < 1e-9


def test_local_quadratic_maps_are_exact_for_a_quadratic_map(records):
    """The weak ridge that keeps thin clouds solvable is all that is left."""
    assert kz.LocalMap(degree=2, neighbours=40).fit(records[0]).error(records[1]) < 1e-5


def test_higher_degree_predicts_better_locally(records):
    linear = kz.LocalMap(degree=1, neighbours=20).fit(records[0]).error(records[1])
    assert kz.LocalMap(degree=2, neighbours=40).fit(records[0]).error(records[1]) < 0.1 * linear


def test_errors_of_forecasts_grow_with_the_exponent(records):
    growth = kz.LocalMap(degree=1, neighbours=20).fit(records[0]).error_growth(records[1], 9)
    rate = np.polyfit(np.arange(2, 9), np.log(growth[2:]), 1)[0]
    assert rate == pytest.approx(HENON_EXPONENT, abs=0.15)


def test_radial_functions_predict_a_smooth_map(records):
    assert kz.GlobalMap(basis="rbf", centres=150).fit(records[0]).error(records[1]) < 1e-3


def test_forecast_follows_the_record(records):
    fitted = kz.GlobalMap(largest=4).fit(records[0])
    start = records[1].values()[100]
    assert fitted.forecast(start, 5) == pytest.approx(records[1].values()[101:106], abs=1e-6)


def test_angles_are_predicted_on_the_circle():
    """A rigid rotation: the image of an angle is the angle plus a constant."""
    angle = np.mod(0.7 * np.arange(2000) + np.pi, 2 * np.pi) - np.pi
    rng = np.random.default_rng(0)
    record = kz.Record.from_arrays(
        np.arange(2000.0),
        {"phi": angle, "w": np.cos(3 * angle) + 1e-3 * rng.normal(size=2000)},
        angles=["phi"],
        period=1.0,
    )
    fitted = kz.GlobalMap(largest=4).fit(record)
    image = fitted.predict(np.array([[3.0, np.cos(9.0)]]))[0, 0]
    assert np.angle(np.exp(1j * (image - 3.7))) == pytest.approx(0.0, abs=1e-3)


def test_delay_coordinates_are_cut_alike_when_tested(records):
    """The Hénon map in two delays of x is x' = 1 - a x² + b x₋: quadratic, so quadratic maps are exact there too."""
    data, test = (record.select(["x"]) for record in records)
    fitted = kz.LocalMap(degree=2, neighbours=40).fit(data, dimension=2, delay=1)
    assert fitted.error(test) < 1e-4


def test_growth_stands_beside_the_lyapunov_exponent(records):
    table = kz.LocalMap(degree=1, neighbours=20).fit(records[0]).growth_table(records[1], 6)
    expected = table["by the Lyapunov exponent"].to_numpy()
    assert np.log(expected[1:] / expected[:-1]) == pytest.approx(HENON_EXPONENT, abs=0.1)


def test_points_and_records_of_another_shape_are_named(records):
    fitted = kz.GlobalMap(largest=3).fit(records[0])
    with pytest.raises(DataError, match="2 coordinates: x, y"):
        fitted.predict(np.array([0.1]))
    with pytest.raises(DataError, match='no channel "y"'):
        fitted.error(records[1].select(["x"]))


@pytest.mark.parametrize(
    ("method", "settings", "words"),
    [
        (kz.LocalMap, {"degree": 0}, "degree 1 to 4"),
        (kz.LocalMap, {"neighbours": 0}, "at least three"),
        (kz.GlobalMap, {"largest": 0}, "at least 1"),
        (kz.GlobalMap, {"hold_back": 1.5}, "between 0 and 1"),
    ],
)
def test_wrong_settings_of_maps_are_named(method, settings, words):
    with pytest.raises(DataError, match=words):
        method(**settings)


def test_too_few_neighbours_for_the_degree_are_refused(records):
    with pytest.raises(DataError, match="6 terms"):
        kz.LocalMap(degree=2, neighbours=5).fit(records[0])


def test_unknown_basis_is_refused(records):
    with pytest.raises(DataError, match='"rbf"'):
        kz.GlobalMap(basis="wavelet").fit(records[0])
