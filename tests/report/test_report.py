"""Figures show what they are given; pages stand alone and escape everything."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import kapitza as kz
from kapitza.data import Record
from kapitza.errors import KapitzaError
from kapitza.estimate import Estimate, Identifiability
from kapitza.orbits import OrbitSet, PeriodicOrbit, Profile
from kapitza.report import Section, plot_attractor, plot_estimate, plot_orbit, plot_orbits, plot_record, write_page
from kapitza.report.style import greek

HOSTILE = "<script>alert('x')</script> & \"q\" $x_{"


@pytest.fixture
def record() -> Record:
    time = np.arange(0, 20, 0.05)
    channels = {"phi": 4 * np.sin(time), "phi'": 4 * np.cos(time)}
    return Record.from_arrays(time, channels, units={"phi": "rad", "phi'": "rad/s"}, angles=["phi"], period=1.0)


@pytest.fixture
def orbits(record) -> OrbitSet:
    times = np.linspace(0, 1, 50, endpoint=False)
    states = np.column_stack([2 * np.pi * times, 2 * np.pi + np.sin(2 * np.pi * times)])
    rotating = PeriodicOrbit(
        ("phi", "phi'"), states[:1], 1.0, 1, (1, 0), np.array([-1.7, -0.4 + 0j]), 1e-12, "D",
        profile=Profile(times, states),
    )  # fmt: skip
    second = PeriodicOrbit(("phi", "phi'"), np.array([[0.1, 1.0], [6.0, -1.0]]), 2.0, 2, (0, 0), code=HOSTILE)
    return OrbitSet((rotating, second), (True, False), source=record)


@pytest.fixture
def estimate(orbits) -> Estimate:
    random = np.random.default_rng(1)
    made = Estimate(
        ("m", "omega"), {"m": 0.0858, "omega": 9.09}, np.array([[1e-8, 5e-7], [5e-7, 1e-4]]), f"OrbitFit {HOSTILE}"
    )
    return made.with_(
        units={"m": "kg", "omega": "rad/s"}, fixed={"g": 9.81}, start={"m": 0.1287}, dof=20, chi2=19.0,
        residuals={"phi": random.standard_normal(300)}, warnings=(HOSTILE,),
            identifiability=Identifiability(("k2", "m"), 1, ("k2/m",), ("",), np.ones((2, 1)), 1.0),
        history=pd.DataFrame({"iteration": [1, 2], "chi2": [40.0, 19.0]}), data=orbits,
    )  # fmt: skip


def test_attractor_draws_every_sample_with_wrapped_angles(record):
    axes = plot_attractor(record).axes[0]
    x, y = axes.lines[0].get_data()
    assert len(x) == len(record)
    assert np.abs(x).max() <= np.pi
    assert np.array_equal(y, record["phi'"])
    assert axes.get_xlabel() == "φ [rad]"


def test_orbit_through_the_seam_is_broken_there(orbits):
    curve = plot_orbit(orbits[0]).axes[0].lines[0]
    x = np.asarray(curve.get_xdata(), float)
    assert np.isnan(x).sum() == 1
    steps = np.diff(x)
    assert np.nanmax(np.abs(steps)) < 1.0


def test_orbits_are_drawn_over_their_record(orbits):
    axes = plot_orbits(orbits).axes[0]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["period 1 (1)", "period 2 (1)"]
    assert len(axes.lines) == 3


def test_other_figures(record, estimate):
    assert len(plot_record(record).axes) == 2
    assert [axes.get_title() for axes in plot_estimate(estimate).axes][:3] == [
        "95 % intervals", "correlation of the errors", "residuals",
    ]  # fmt: skip


def test_intervals_are_drawn_in_per_cent(estimate):
    axes = plot_estimate(estimate).axes[0]
    half = np.ptp(np.asarray(axes.lines[0].get_xdata(), float)) / 2
    low, high = estimate.interval(0.95).loc["m"]
    assert half == pytest.approx(100 * (high - low) / 2 / 0.0858)


def test_report_stands_alone_and_escapes(estimate, tmp_path):
    path = estimate.report(tmp_path / "fit.html")
    text = path.read_text(encoding="utf-8")
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert text.count("data:image/png;base64,") == 2
    assert not re.search(r"""(src|href)\s*=\s*["'](?!data:)""", text)
    assert not re.search(r"https?://", text)
    for words in ("0.0858", "rad/s", "k2/m", "19", "95 % interval"):
        assert words in text


def test_report_of_a_bare_estimate(tmp_path):
    bare = Estimate(("a",), {"a": 0.0}, np.array([[1.0]]), "InvariantFit")
    assert "InvariantFit: converged" in bare.report(tmp_path / "deep" / "fit.html").read_text(encoding="utf-8")


def test_pages_escape_tables_and_captions(tmp_path):
    section = Section(HOSTILE, (HOSTILE,), HOSTILE, pd.DataFrame({HOSTILE: [HOSTILE, None]}), None, HOSTILE, (HOSTILE,))
    text = write_page(HOSTILE, HOSTILE, [section], tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" not in text


def test_what_cannot_be_drawn_is_named(record):
    with pytest.raises(KapitzaError, match="no orbits to draw"):
        plot_orbits(OrbitSet(()))
    with pytest.raises(KapitzaError, match='no "psi" to draw'):
        plot_attractor(record, "psi")
    with pytest.raises(KapitzaError, match="needs two channels"):
        plot_attractor(record.select(["phi"]))


def test_greek_names():
    assert [greek(n) for n in ("phi", "phi1'", "omega", "m", "lambda_", "x2")] == ["φ", "φ1'", "ω", "m", "λ", "x2"]


def test_figures_leave_pyplot_alone():
    """Nothing of the user's session is touched: no figure opened, no setting changed; two threads may draw at once."""
    import matplotlib
    import matplotlib.pyplot as plt

    record = kz.simulate(kz.library.duffing(), periods=5, samples_per_period=20)
    orbit = kz.solve_orbit(kz.library.duffing())
    before, settings = plt.get_fignums(), dict(matplotlib.rcParams)
    with ThreadPoolExecutor(2) as pool:
        drawn = list(pool.map(lambda draw: draw(), [lambda: plot_record(record), orbit.plot] * 4))
    assert all(figure.axes for figure in drawn)
    assert plt.get_fignums() == before
    assert dict(matplotlib.rcParams) == settings
    sources = Path(kz.__file__).parent.rglob("*.py")
    assert [path.name for path in sources if "pyplot as" in path.read_text(encoding="utf-8")] == []
