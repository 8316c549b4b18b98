"""Fits of many states: shared columns of tangents and a short first window leave the answer as it is."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.estimate.shooting_fit import search
from kapitza.flow.sharing import SharedColumns

FREE = ["a", "F"]


@pytest.fixture(scope="module")
def ring():
    """Lorenz's chaotic ring of 66 (E. N. Lorenz 1996), all of it seen with 2 % noise, over some five e-foldings."""
    size = 66
    x = [f"x{i}" for i in range(size)]
    model = kz.Model.from_equations(
        [f"{x[i]}' = a*({x[(i + 1) % size]} - {x[i - 2]})*{x[i - 1]} - {x[i]} + F" for i in range(size)],
        coordinates=x,
        parameters={"a": 1.0, "F": 8.0},
    )
    start = kz.simulate(model, x0=8 + np.random.default_rng(3).normal(size=size), t=np.array([0.0, 5.0])).values()[-1]
    record = kz.simulate(model, x0=start, t=0.01 * np.arange(300))
    return model, record, kz.measure(record, noise=0.08, seed=4)


def noting(kept: list, function):
    """The function, its results written down."""

    def noted(*arguments):
        kept.append(function(*arguments))
        return kept[-1]

    return noted


def test_the_answer_does_not_depend_on_what_is_saved(ring, monkeypatch):
    """Equal to a thousandth of the standard errors; these are the Cramér-Rao bound."""
    model, clean, record = ring
    start = model.with_values(a=1.1, F=7.5)
    monkeypatch.setattr(search, "FIRST_READINGS", 0)
    monkeypatch.setattr(search, "FIRST_TANGENTS", 140 * 66 * 68)
    method = kz.ShootingFit(noise=0.08)
    shared, windows = [], []
    monkeypatch.setattr(SharedColumns, "take_apart", noting(shared, SharedColumns.take_apart))
    monkeypatch.setattr(search, "best_window", noting(windows, search.best_window))
    saving = kz.identify(start, record, FREE, method)
    assert sum(shared) > 100
    assert len(windows) == 1
    print(sum(shared), len(shared))
    shared.clear()
    monkeypatch.setattr("kapitza.flow.columns.Columns.share_some", lambda self, blocks: False)
    monkeypatch.setattr(search, "FIRST_TANGENTS", 10**12)
    plain = kz.identify(start, record, FREE, method)
    assert len(shared) == 0
    assert len(windows) == 1
    bound = np.sqrt(np.diag(kz.cramer_rao(model, clean, dict.fromkeys(clean.channels, 0.08), FREE)))
    for i, name in enumerate(FREE):
        assert abs(saving.values[name] - plain.values[name]) < 1e-3 * plain.deviations[name]
        assert saving.deviations[name] == pytest.approx(plain.deviations[name], rel=1e-3)
        assert abs(saving.values[name] - model.values[name]) < 4 * saving.deviations[name]
        assert saving.deviations[name] == pytest.approx(bound[i], rel=0.1)


def test_nodes_that_start_apart_are_thinned_as_others_are(monkeypatch):
    """Two samples apart because of the memory, more in the end, at states that belong to them: the same answer."""
    model = kz.library.lorenz()
    record = kz.measure(kz.simulate(model, x0=[1, 1, 20], t=0.005 * np.arange(1201)), noise=0.1, seed=2)
    start, free = model.with_values(sigma=11.0, rho=26.0, beta=2.9), ["sigma", "rho", "beta"]
    usual = kz.identify(start, record, free, kz.ShootingFit())
    monkeypatch.setattr("kapitza.estimate.shooting_fit.solver.LARGEST_CHAIN", 20 * 9 * 1201 // 2 + 1)
    apart = kz.identify(start, record, free, kz.ShootingFit())
    assert len(apart.motion.times) == pytest.approx(len(usual.motion.times), rel=0.3)
    assert 2 * len(apart.motion.times) < 1201 / 2
    for name in free:
        assert abs(apart.values[name] - usual.values[name]) < 2e-3 * usual.deviations[name]
        assert apart.deviations[name] == pytest.approx(usual.deviations[name], rel=1e-3)
