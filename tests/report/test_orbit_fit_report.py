"""The page of an orbit fit says which orbits matched, how likely the model is, and what to measure next."""

import html
import re
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest

import kapitza as kz


@pytest.fixture(scope="module")
def duffing():
    return kz.library.duffing().with_values(k=0.08, B=0.2)


def page_text(fit, tmp_path):
    """The words of the page, without its figures."""
    raw = fit.report(tmp_path / "fit.html").read_text(encoding="utf-8")
    return html.unescape(re.sub(r"<[^>]+>", " ", re.sub(r"data:image[^\"]*", "", raw)))


def positions(model, force):
    orbit = kz.solve_orbit(model.with_values(B=force))
    share = np.arange(40) / 40
    values = {"x": orbit.loop(share)[:, 0]}
    record = kz.Record.from_arrays(share * orbit.period, values, period=model.period, phase=0.0)
    return kz.measure(record, noise=1e-3, seed=int(100 * force))


def test_records_with_values_of_their_own_are_shown(duffing, tmp_path):
    data = [(positions(duffing, force), {"B": force}) for force in (0.2, 0.25)]
    fit = kz.identify(duffing.with_values(k=0.1), data, ["k"], kz.OrbitFit(derived={"half": "k/2"}))
    text = page_text(fit, tmp_path)
    assert "Its own values: B = 0.2." in text
    assert "Its own values: B = 0.25." in text
    assert "2 of 2 orbits of the data are orbits of the fitted model" in text
    assert f"Akaike's criterion (AIC) {fit.likelihood.aic:.6g}" in text
    assert "What to measure next" in text
    assert re.search(r"half\s+0\.0\d+\s+\d", text), "a derived parameter has its error"


def test_a_list_of_orbits_is_data_too(duffing, tmp_path):
    orbit = kz.solve_orbit(duffing, profile=False)
    orbit = orbit.with_(covariance=1e-6 * np.eye(2), code="Q", profile=None)
    fit = kz.identify(duffing.with_values(k=0.085), [orbit, orbit], ["k"])
    text = page_text(fit, tmp_path)
    assert "2 periodic orbits." in text
    assert "0: period 1 Q" in text


def test_an_infinite_interval_is_drawn_in_words(duffing):
    fit = kz.identify(duffing.with_values(k=0.1), positions(duffing, 0.2), ["k", "B"], kz.OrbitFit())
    endless = replace(fit, covariance=np.diag([np.inf, 1e-6]))
    figure = endless.plot()
    assert [text.get_text() for text in figure.axes[0].texts] == ["not determined"]
    plt.close(figure)
