"""The report of a study: everything in one file, names that stay text, all figures drawn without complaint."""

import json
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from kapitza.report import plot_fit, plot_force_surface, plot_forces, plot_intervals, plot_section, write_study_report
from kapitza.study import ForceCurve, ForceSurface, Motion, OrbitSketch, Outcome, SectionSketch, StudyResult

EVIL = "<script>alert('x')</script><img src=x onerror=alert(1)>"
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


def motion(start: float, channels=("x", EVIL)) -> Motion:
    time = start + np.arange(400) * 0.05
    wave = np.exp(-0.05 * time) * np.cos(3 * time)
    random = np.random.default_rng(1)
    measured = {c: wave + 0.01 * random.standard_normal(400) for c in channels}
    piece = (np.arange(400) >= 300).astype(np.int64)
    return Motion(time, piece, measured, dict.fromkeys(channels, wave), {"x": "m"}, (), 15.0)


def outcome(method: str, width: float, **more) -> Outcome:
    names = ("c", "k", EVIL)
    values = {"c": 0.1, "k": 9.0, EVIL: 2.0}
    return Outcome(
        EVIL, method, EVIL, "converged", names=names, values=values,
        deviations=dict.fromkeys(names, width / 4), low={n: v - width for n, v in values.items()},
        high={n: v + width for n, v in values.items()}, units={"k": "1/s²"}, correlation=tuple(map(tuple, np.eye(3))),
        warnings=(EVIL,), notes=(EVIL,), log_likelihood=100.0, readings=400, **more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    at = tuple(np.linspace(-1, 1, 21).tolist())
    curve = ForceCurve("restoring", "x", "x", at, at, tuple(a - 0.1 for a in at), tuple(a + 0.1 for a in at))
    rows = tuple(tuple(a + 0.2 * b for a in at) for b in at)
    surfaces = tuple(ForceSurface(name, at, at, rows, rows) for name in ("x", EVIL))
    first = outcome("shooting", 0.02, motion=motion(0.0), check=motion(20.0), forces=(curve, curve), surfaces=surfaces)
    wide = outcome("harmonic", 5.0)
    other = replace(outcome("shooting", 0.03), candidate="other", log_likelihood=90.0, failure=EVIL)
    return StudyResult(
        EVIL, tmp_path_factory.mktemp("report"), (first, wide, other), 0, 0.95, {"kapitza": "0"}, {EVIL: "00"}, (EVIL,),
        {EVIL: EVIL}, EVIL,
    )  # fmt: skip


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
    figures = re.findall(r'class="figure" data-for="figure\d+">(.*?)</script>', page.read_text(encoding="utf-8"))
    assert len(figures) == 7
    assert all(json.loads(figure)["data"] for figure in figures)


def test_a_wide_interval_does_not_flatten_the_others(result):
    figure = plot_intervals(result.succeeded)
    low, high = figure.axes[0].get_xlim()
    # widths 0.04 and 10 about the same value: the narrow one can be seen
    assert 0.04 < high - low < 0.4
    assert len(figure.axes) == 3


def test_matplotlib_figures_come_back_to_be_changed(result):
    for figure in (plot_fit(result.best), plot_forces(result.best), plot_force_surface(result.best), result.plot()):
        figure.axes[0].set_title("mine")
        assert figure.axes[0].lines


def test_a_section_with_orbits_takes_the_place_of_curves(result, tmp_path):
    orbits = (OrbitSketch(1, EVIL, "-2.1, 0.1", ((0.1, 0.2),)), OrbitSketch(2, "", "", ((0.0, 0.1), (0.2, 0.0))))
    section = SectionSketch(("x", EVIL), ((0.0, 0.0), (0.5, 0.4)), orbits)
    strobed = replace(result, outcomes=(replace(result.outcomes[0], section=section),))
    text = write_study_report(strobed, tmp_path / "report.html", truth={"c": 0.12}).read_text(encoding="utf-8")
    figures = [json.loads(f) for f in re.findall(r'class="figure" data-for="figure\d+">(.*?)</script>', text)]
    hovers = [trace.get("hovertemplate", "") for figure in figures for trace in figure["data"]]
    assert any("multipliers -2.1, 0.1" in hover and "<script>" not in hover for hover in hovers)
    assert "Fit over the data" not in text
    assert ">truth<" in text
    assert len(plot_section(strobed.outcomes[0]).axes[0].lines) == 3


@pytest.mark.skipif(BROWSER is None, reason="no Chromium to draw the page with")
def test_a_browser_draws_all_of_it_without_errors(page, tmp_path):
    command = [
        BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}",
        "--virtual-time-budget=8000", "--enable-logging=stderr", "--dump-dom", page.as_uri(),
    ]  # fmt: skip
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    complaints = [line for line in answer.stderr.splitlines() if "CONSOLE" in line]
    assert complaints == []
    assert 'data-drawn="7"' in answer.stdout
    assert answer.stdout.count('class="main-svg"') >= 7
