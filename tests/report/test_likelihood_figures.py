"""Profile likelihoods, convergence and free decays: numbers that theory gives, figures that come back to be changed."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import kapitza as kz
from kapitza.report import plot_convergence, plot_decay, plot_likelihood


@pytest.fixture(scope="module")
def fit():
    model = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.2, "k": 3.0})
    clean = kz.simulate(model.with_values(c=0.3, k=4.0), [1.0, 0.0], t=np.arange(400) * 0.05)
    record = kz.measure(clean.select(["x"]), noise=0.01, seed=1)
    return kz.identify(model, record, free=["c", "k"], method=kz.ShootingFit())


def test_a_profile_of_a_nearly_linear_fit_is_the_parabola(fit):
    curve = kz.profile_curve(fit, "k", points=7, reach=2.0)
    away = (curve.values - fit.values["k"]) / fit.deviations["k"]
    assert away == pytest.approx(np.linspace(-2, 2, 7), abs=1e-9)
    assert curve.rise == pytest.approx(away**2, abs=0.15)
    # it crosses the threshold where the interval ends
    low, high = kz.profile_interval(fit, "k")
    assert np.interp([low, high], fit.interval().loc["k"].to_numpy(), [0, 1]) == pytest.approx([0, 1], abs=0.05)


def test_figures_of_a_fit(fit):
    figure = plot_likelihood(fit, points=5)
    assert len(figure.axes) == 2
    assert all(len(axes.lines) == 3 for axes in figure.axes)
    figure = plot_convergence(fit)
    assert len(figure.axes[0].lines) == 3
    assert set(fit.path) == {"c", "k"}
    ends = {name: values[-1] for name, values in fit.path.items()}
    assert ends == pytest.approx(dict(fit.values), rel=1e-4)
    harmonic = kz.identify(fit.model, fit.data, free=["c", "k"], method=kz.HarmonicFit())
    with pytest.raises(kz.KapitzaError, match="ShootingFit or OrbitFit"):
        plot_likelihood(harmonic)
    plt.close("all")


def test_a_decay_shows_the_damping_it_has(fit):
    figure = plot_decay(fit.data)
    envelope, backbone, damping = figure.axes
    # x'' + 0.3 x' + 4 x = 0: 7.5 % of critical damping at 0.3174 Hz, whatever the amplitude
    large = slice(0, 6)
    assert np.median(backbone.lines[0].get_ydata()[large]) == pytest.approx(
        2 / (2 * np.pi) * np.sqrt(1 - 0.075**2), rel=0.02
    )
    assert np.median(damping.lines[0].get_ydata()[large]) == pytest.approx(7.5, rel=0.1)
    assert envelope.get_yscale() == "log"
    plt.close("all")
    with pytest.raises(kz.KapitzaError, match="half cycles"):
        plot_decay(kz.Record.from_arrays(np.arange(5.0), {"x": np.arange(5.0)}))
