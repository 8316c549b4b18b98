"""The report of a study: everything in one file, names that stay text, all figures drawn without complaint."""

import json
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

import kapitza as kz
from kapitza.report import plot_fit, plot_force_surface, plot_forces, plot_intervals, study_report, write_study_report
from kapitza.report.interactive import interval_figure
from kapitza.report.motions import extremes, motions_of
from kapitza.study import StudyFit, StudyResult

EVIL = "<script>alert('x')</script><img src=x onerror=alert(1)>"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FIGURES = 10
MODEL = kz.Model.from_equations(
    "m*x'' + c*x' + k*x = 0",
    parameters=[kz.Parameter("m", 1.0), kz.Parameter("c", 0.1), kz.Parameter("k", 9.0, "1/s²")],
    start={"x": 1.0, "x'": 0.0},
)


@pytest.fixture(scope="module")
def record():
    clean = kz.simulate(MODEL, t=np.arange(8000) * 0.01).select(["x"])
    noisy = kz.measure(clean, noise=0.01, seed=1)
    return noisy.with_channel("x", np.where(np.arange(8000) == 2500, 3.0, noisy["x"]), "m")


@pytest.fixture(scope="module")
def fit(record):
    found = kz.identify(MODEL, record.samples(slice(0, 6000)), ["c", "k"], kz.ShootingFit())
    return found.with_(warnings=(EVIL,), method=EVIL, fixed={EVIL: 2.0}, workings=None)


@pytest.fixture(scope="module")
def result(fit, record, tmp_path_factory):
    check = kz.validate(fit, record.samples(slice(6000, None)), parts=["prediction"], stretches=2)
    first = StudyFit(EVIL, "shooting", fit, validation=replace(check, notes=(EVIL,)), notes=(EVIL,))
    wide = StudyFit(EVIL, "harmonic", fit.with_(covariance=1e4 * fit.covariance, likelihood=None, motion=None))
    worse = replace(fit.likelihood, log_likelihood=fit.likelihood.log_likelihood - 10)
    other = StudyFit("other", "shooting", replace(fit, likelihood=worse), failure=EVIL)
    return StudyResult(
        EVIL, tmp_path_factory.mktemp("report"), (first, wide, other), 0, 0.95, {"kapitza": "0"}, {EVIL: "00"}, (EVIL,),
        {EVIL: EVIL}, EVIL,
    )  # fmt: skip


def figures_of(text: str) -> list[dict]:
    return [json.loads(f) for f in re.findall(r'class="figure" data-for="figure\d+">(.*?)</script>', text)]


def figure_titled(text: str, title: str) -> dict:
    section = text[text.index(f"<h2>{title}</h2>") :]
    return figures_of(section)[0]


@pytest.fixture(scope="module")
def page(result):
    return write_study_report(result, result.folder / "report.html")


def test_names_stay_text_and_nothing_is_fetched(page):
    text = page.read_text(encoding="utf-8")
    own = re.sub(r"<script>(?:/\*\*|!function|\(function).*?</script>", "", text, flags=re.DOTALL)
    assert "<script>alert" not in own
    assert "<img" not in own
    assert "&lt;script&gt;alert" in own
    assert "default-src 'none'" in own
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", own)


def test_every_figure_is_there(page):
    figures = figures_of(page.read_text(encoding="utf-8"))
    assert len(figures) == FIGURES
    assert all(figure["data"] for figure in figures)


def test_the_residuals_are_those_of_the_fit_over_all_of_the_record(page, fit):
    text = page.read_text(encoding="utf-8")
    shown = figure_titled(text, "Residuals")
    trace = next(t for t in shown["data"] if t["name"] == "residuals")
    assert max(trace["x"]) == pytest.approx(59.99, abs=0.1)
    assert len(trace["x"]) <= 3000
    own = np.abs(fit.residuals["x"]) * fit.noise["x"]
    at = np.rint(np.array(trace["x"]) / 0.01).astype(int)
    drawn = np.array([np.nan if v is None else abs(v) for v in trace["y"]])
    assert drawn[np.isfinite(drawn)] == pytest.approx(own[at][np.isfinite(drawn)], rel=1e-5, abs=1e-12)
    # thinned by extremes: the largest of all 6000 is among those shown
    assert np.nanmax(drawn) == pytest.approx(own.max(), rel=1e-6)


def test_a_spike_is_marked_where_it_was_left_out(page):
    shown = figure_titled(page.read_text(encoding="utf-8"), "Fit over the data")
    marked = next(t for t in shown["data"] if t["name"] == "left out")
    assert marked["x"] == pytest.approx([25.0])
    data = next(t for t in shown["data"] if t["name"] == "data")
    assert max(data["x"]) > 59.9
    held_back = next(t for t in shown["data"] if t["name"] == "prediction of held-back data")
    assert max(v for v in held_back["x"] if v is not None) > 79.9


def test_outliers_that_were_fitted_are_marked(fit):
    motion = motions_of(fit)[0]
    assert not motion.outlying("x").any()
    moved = dict(motion.measured) | {"x": motion.measured["x"] + 0.1 * (np.arange(6000) == 77)}
    assert np.flatnonzero(replace(motion, measured=moved).outlying("x")).tolist() == [77]


@pytest.mark.parametrize("count", [10, 100, 999, 5000])
def test_extremes_keep_the_least_and_the_largest(count):
    values = np.random.default_rng(count).standard_normal(2500)
    values[700:900] = np.nan
    at = extremes(values, count)
    assert len(at) <= max(count, 2)
    assert (np.diff(at) > 0).all()
    assert np.nanmin(values[at]) == np.nanmin(values)
    assert np.nanmax(values[at]) == np.nanmax(values)


def test_a_wide_interval_does_not_flatten_the_others(result):
    fits = {one.label: one.answer for one in result.succeeded}
    figure = plot_intervals(fits)
    low, high = figure.axes[0].get_xlim()
    ends = fits[f"{EVIL}, shooting"].interval().loc["c"]
    # widths of 1 and 100 about the same value: the narrow one can be seen
    assert 1 < (high - low) / (ends["high"] - ends["low"]) < 10
    assert len(figure.axes) == 2


def test_every_candidate_has_its_estimates_as_numbers(result, fit):
    """Also one that loses, or did not end well; weights beyond what they can mean have no digits."""
    far = replace(fit.likelihood, log_likelihood=fit.likelihood.log_likelihood - 700)
    third = StudyFit("third", "shooting", replace(fit, likelihood=far))
    parts = {p.title: p for p in study_report.study_parts(replace(result, fits=(*result.fits, third)), {})}
    table = parts["Parameters of every candidate"].table
    assert list(table["model"]) == [EVIL, EVIL, "other", "third"]
    low, high = (fit.interval(0.95)[end]["c"] for end in ("low", "high"))
    written = [float(number) for number in re.findall(r"[-\d.]+", table["c"].iloc[2])]
    assert written == pytest.approx([fit.values["c"], low, high], abs=0.06 * (high - low))
    assert "k [1/s²]" in table
    weights = parts["Candidates"].table["weight"]
    assert [weights[EVIL], weights["other"], weights["third"]] == ["1", f"{np.exp(-10):.3g}", "< 1e-6"]


def test_an_unknown_interval_is_not_drawn_as_a_point(fit):
    values, covariance = {**fit.values}, fit.covariance.copy()
    covariance[fit.names.index("c")] = covariance[:, fit.names.index("c")] = np.inf
    unknown = fit.with_(covariance=covariance)
    assert not np.isfinite(unknown.interval().loc["c"]).any()
    fits = {"known": fit, "unknown": unknown}
    drawn = interval_figure(fits, 0.95)
    trace = next(t for t in drawn.data if t.marker.symbol == "x")
    first, last = next(a.range for a in (drawn.layout.xaxis, drawn.layout.xaxis2) if a.title.text.startswith("c"))
    assert values["c"] - trace.error_x.arrayminus[0] < first
    assert values["c"] + trace.error_x.array[0] > last
    axes = plot_intervals(fits).axes[fit.names.index("c")]
    low, high = axes.get_xlim()
    bars = [line.get_xdata() for line in axes.lines if len(line.get_xdata()) == 2]
    assert any(bar[0] < low and bar[1] > high for bar in bars)


def test_matplotlib_figures_come_back_to_be_changed(result, fit):
    for figure in (plot_fit(fit), plot_forces(fit), plot_force_surface(fit), result.plot()):
        figure.axes[0].set_title("mine")
        assert figure.axes[0].lines


def test_a_section_with_orbits_takes_the_place_of_curves(result, fit, tmp_path):
    orbits = [
        kz.PeriodicOrbit(points=np.array([[0.1, 0.2]]), period=1.0, states=("x", EVIL), code=EVIL,
                         multipliers=np.array([-2.1, 0.1])),
        kz.PeriodicOrbit(points=np.array([[0.0, 0.1], [0.2, 0.0]]), period=2.0, states=("x", EVIL)),
    ]  # fmt: skip
    found = kz.OrbitSet(tuple(orbits), (False, False), section_points=np.array([[0.0, 0.0], [0.5, 0.4]]))
    strobed = replace(result, fits=(replace(result.fits[0], estimate=fit.with_(data=found)),))
    text = write_study_report(strobed, tmp_path / "report.html", truth={"c": 0.12}).read_text(encoding="utf-8")
    hovers = [trace.get("hovertemplate", "") for figure in figures_of(text) for trace in figure["data"]]
    assert any("multipliers -2.1, 0.1" in hover and "<script>" not in hover for hover in hovers)
    assert "Fit over the data" not in text
    assert ">truth<" in text


@pytest.mark.skipif(
    BROWSER is None, reason="no Chromium to draw the report with: install it, `apt-get install chromium` on Debian"
)
def test_a_browser_draws_all_of_it_without_errors(page, tmp_path):
    command = [
        BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}",
        "--virtual-time-budget=8000", "--enable-logging=stderr", "--dump-dom", page.as_uri(),
    ]  # fmt: skip
    answer = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    complaints = [line for line in answer.stderr.splitlines() if "CONSOLE" in line]
    assert complaints == []
    assert f'data-drawn="{FIGURES}"' in answer.stdout
    assert answer.stdout.count('class="main-svg"') >= FIGURES
