"""Long records: blocks of samples, weights from a part of the rows, and the same answer."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.data import as_parts
from kapitza.estimate.harmonic_fit import problem as weak_problem
from kapitza.estimate.harmonic_fit import weak, windows
from kapitza.estimate.harmonic_fit.problem import pose, spread_part, weigh
from kapitza.estimate.harmonic_fit.second_order import KnownWeights
from kapitza.estimate.harmonic_fit.windows import Windows
from kapitza.estimate.request import make_request

MODEL = kz.Model.from_equations(
    "x'' + c*x' + d*sign(x') + k*x + k3*x**3 = F*cos(1.2*t)",
    parameters={"c": 0.1, "d": 0.05, "k": 1.0, "k3": 0.4, "F": 0.9}, period="2*pi/1.2", start={"x": 1.0, "x'": 0.0},
)  # fmt: skip
FREE = ["c", "d", "k", "k3", "F"]


@pytest.fixture(scope="module")
def record():
    """Two segments with noise of 1 %."""
    run = kz.simulate(MODEL, periods=250, samples_per_period=60)
    cut = np.delete(np.arange(run.size), [7000])
    whole = kz.Record.from_arrays(
        run.time[cut], {"x": run["x"][cut]}, segment=(cut > 7000).astype(int), period=run.period
    )
    return kz.measure(whole, noise={"x": 0.01}, seed=3)


def posed(record):
    settings = kz.HarmonicFit()
    return pose(settings, make_request(MODEL, as_parts(record), FREE, settings))


@pytest.mark.parametrize("order", [0, 1, 2])
def test_integrals_in_blocks_match_direct_sums(order, monkeypatch):
    monkeypatch.setattr(windows, "BLOCK", 20)
    monkeypatch.setattr(windows, "FEW_PRODUCTS", 200)
    here = Windows(7, 3, 1, 0.1)
    series = np.random.default_rng(0).normal(size=(2, 550))
    runs = list(here.blocks(550))
    assert len(runs) > 3
    assert [one.stop for one, _ in runs[:-1]] == [other.start for other, _ in runs[1:]]
    assert runs[-1][0].stop == here.count(550)
    assert all(samples.stop - samples.start == (one.stop - one.start + 2) * 7 for one, samples in runs)
    cut = np.lib.stride_tricks.sliding_window_view(series, here.width, axis=-1)[:, :: here.stride]
    expected = (-1.0) ** order * np.einsum("ewk,fk->ewf", cut, here.values[order]) * 0.1
    np.testing.assert_allclose(here.integrate(series, order), expected, atol=1e-12 * np.abs(expected).max())


def test_slopes_of_a_series_are_exact_for_polynomials():
    t = np.arange(-6, 7) * 0.5
    found = weak._time_derivative(np.array([t**4, t**2]), 0.5)
    np.testing.assert_allclose(found[0, 2:-2], 4 * t[2:-2] ** 3, atol=1e-12)
    # Differences of second order near the ends, of first order at them.
    np.testing.assert_allclose(found[1, 1:-1], 2 * t[1:-1], atol=1e-12)
    np.testing.assert_allclose(found[1, [0, -1]], [2 * t[0] + 0.5, 2 * t[-1] - 0.5], atol=1e-12)


def test_rows_in_blocks_are_the_same(record, monkeypatch):
    once = posed(record)
    values = once.values.copy()
    plain, factors = once.rows(), weigh(once, values)
    monkeypatch.setattr(windows, "BLOCK", 300)
    monkeypatch.setattr(weak, "FEW_PRODUCTS", 10_000)
    again = posed(record)
    for one, other in zip(plain, again.rows(), strict=True):
        np.testing.assert_allclose(one.matrix, other.matrix, atol=1e-10 * np.abs(one.matrix).max())
        np.testing.assert_allclose(one.rest, other.rest, atol=1e-10 * np.abs(one.rest).max())
    for one, other in zip(factors, weigh(again, values), strict=True):
        np.testing.assert_allclose(one.factor, other.factor, atol=1e-10 * np.abs(one.factor).max())


def test_weights_of_a_long_record_start_from_a_spread_part_it(record, monkeypatch):
    method = kz.HarmonicFit()
    short = kz.identify(MODEL, record, FREE, method)
    monkeypatch.setattr(weak_problem, "LONG", 100)
    made = []
    monkeypatch.setattr(weak_problem, "whitener", lambda c, made=made: made.append(c.band.shape[1]) or weak.whitener(c))
    long = kz.identify(MODEL, record, FREE, method)
    for name in FREE:
        assert abs(long[name] - short[name]) < 0.01 * short.deviations[name]
        assert long.deviations[name] == pytest.approx(short.deviations[name], rel=0.01)
    assert long.misfit.chance == pytest.approx(short.misfit.chance, rel=0.05, abs=1e-6)
    assert long.warnings == short.warnings
    # Two weightings of eight short stretches of each segment come before those of all rows.
    assert max(made[:32]) < 0.05 * max(made)
    assert min(made[32:34]) > 0.5 * max(made)


@pytest.mark.parametrize("loud", ["(1 + tanh((t - 300)/40))/2", "exp(-(t - 250)**2/300)"])
def test_long_records_that_begin_at_rest_or_hold_one_burst(loud, monkeypatch):
    model = kz.Model.from_equations(
        f"x'' + c*x' + d*x'**3 + k*x + k3*x**3 = F*cos(1.2*t)*{loud}",
        parameters={"c": 0.1, "d": 0.05, "k": 1.0, "k3": 0.4, "F": 1.5}, start={"x": 0.0, "x'": 0.0},
    )  # fmt: skip
    run = kz.simulate(model, t=np.arange(10_000) * 0.05)
    quiet = kz.measure(run.select(["x"]), noise={"x": 0.01}, seed=4)
    started = model.with_values(c=0.05, d=0.0, k=1.3, k3=0.0, F=1.0)
    short = kz.identify(started, quiet, ["c", "d", "k", "k3", "F"], kz.HarmonicFit())
    monkeypatch.setattr(weak_problem, "LONG", 100)
    long = kz.identify(started, quiet, ["c", "d", "k", "k3", "F"], kz.HarmonicFit())
    for name in long.names:
        assert abs(long[name] - short[name]) < 0.01 * short.deviations[name]
        assert long.deviations[name] == pytest.approx(short.deviations[name], rel=0.01)
        assert abs(long[name] - model.values[name]) < 4 * long.deviations[name]
    assert long.misfit.chance == pytest.approx(short.misfit.chance, rel=0.05, abs=1e-6)


def test_known_weights_serve_only_near_their_values(record, monkeypatch):
    monkeypatch.setattr(weak_problem, "LONG", 100)
    problem = posed(record)
    values = problem.values.copy()
    part = spread_part(problem, problem.rows())
    assert part is not None
    assert part.change_of_weights(values, values) == 0.0
    factors = weigh(problem, values)
    known = KnownWeights(factors, values, part)
    assert known.at(values) is factors
    assert known.at(values * (1 + 1e-6)) is factors
    assert known.at(values * 1.2) is None
