"""Figures of branches: line styles say the stability, the page holds every orbit, its buttons hide nothing."""

import json
import re

import numpy as np
import pytest
from tests.continuation.systems import duffing

import kapitza as kz


@pytest.fixture(scope="module")
def branch():
    return kz.follow(duffing(1.2), None, "omega", (1.2, 2.0), direction=1)


def test_unstable_stretches_are_dashed(branch):
    (axes,) = branch.plot().axes
    styles = [line.get_linestyle() for line in axes.lines if len(line.get_xdata()) > 2]
    assert styles == ["-", "--", "-"]
    folds = {fold.value for fold in branch.bifurcations}
    assert {float(line.get_xdata()[0]) for line in axes.lines if line.get_marker() == "o"} == folds


def test_a_waterfall_has_one_profile_for_each_orbit_asked_for(branch):
    (axes,) = branch.waterfall(count=9).axes
    assert len(axes.lines) == 9
    rest = kz.follow(kz.library.lorenz().with_values(rho=0.5), {"x": 0, "y": 0, "z": 0}, "rho", equilibrium=True)
    with pytest.raises(kz.KapitzaError, match="no profiles"):
        rest.waterfall()


def test_the_page_holds_every_orbit_with_its_multipliers(branch, tmp_path):
    page = branch.report(tmp_path / "branch.html").read_text(encoding="utf-8")
    content = json.loads(re.search(r"const d = (\{.*?\});\n", page).group(1))
    assert len(content["profiles"]) == len(content["multipliers"]) == len(content["values"]) == len(branch)
    assert content["values"] == branch.values[:, 0].tolist()
    assert [mark["value"] for mark in content["marks"]] == [fold.value for fold in branch.bifurcations]
    # Headings stand above the figures: inside of them Plotly lays its buttons over a title.
    assert re.findall(r"<h3>(.*?)</h3>", page) == ["One period", "Multipliers"]
    assert 'title: {text: "one period"}' not in page
    with pytest.raises(kz.KapitzaError, match="shows branches of orbits"):
        kz.follow(branch.bifurcations[0], ("omega", "B"), (1.7, 1.9)).report(tmp_path / "curve.html")


def test_responses_are_drawn_with_their_backbone():
    model = kz.Model.from_equations(
        "x'' + c*x' + x + x**3 = B*cos(omega*t)", parameters={"c": 0.1, "B": 0.3, "omega": 1.0}, period="2*pi/omega"
    )
    response = kz.frequency_response(model, "omega", (0.9, 1.2), force="B", damping="c", levels=(0.1, 0.2))
    (axes,) = response.plot().axes
    words = [text.get_text() for text in axes.get_legend().get_texts()]
    assert {"B = 0.1", "B = 0.2", "backbone"} <= set(words)


def test_the_line_passes_the_fold_without_a_kink(branch):
    """Drawn densely, the line turns at the located fold and not at the nearest point of the branch."""
    (axes,) = branch.plot().axes
    upper, lower = branch.bifurcations[0].value, branch.bifurcations[1].value
    xs = [line.get_xdata() for line in axes.lines if len(line.get_xdata()) > 2]
    assert max(x.max() for x in xs[:2]) == pytest.approx(upper, abs=1e-4)
    assert min(x.min() for x in xs[1:]) == pytest.approx(lower, abs=1e-4)
    words = [text.get_text() for text in axes.get_legend().get_texts()]
    assert words == ["stable", "unstable", "fold"]


def test_no_name_is_written_over_another():
    """Two curves through the same points: each name once, beside the others."""
    model = kz.Model.from_map({"x": "y", "y": "p - d*x + s*y - x**2"}, parameters={"p": 0.1, "d": 0.3, "s": 0.5})
    points = kz.follow(model, {"x": 0.1, "y": 0.1}, "p", (-1.0, 4.0))
    figure = kz.follow(points.of("fold")[0], ("p", "s"), ((-3.0, 6.0), (-3.0, 3.0))).plot()
    (axes,) = figure.axes
    kz.follow(points.of("Neimark-Sacker")[0], ("p", "s"), ((-3.0, 6.0), (-3.0, 3.0))).plot(ax=axes)
    assert sorted(text.get_text() for text in axes.texts) == ["1:1 resonance", "1:2 resonance", "1:3 resonance",
                                                              "1:4 resonance", "fold-flip"]  # fmt: skip
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in axes.texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    paths = [axes.transData.transform(line.get_xydata()) for line in axes.lines if len(line.get_xdata()) > 1]
    covered = [int(sum(box.count_contains(path) for path in paths)) for box in boxes]
    assert sum(covered) < 0.02 * sum(map(len, paths))


def test_a_line_without_events_is_smooth_whatever_the_model_could_do():
    """Dry friction that never changes its sign bends nothing: the line between two points is not straight."""
    model = kz.Model.from_equations(
        "x' = -k*x + 0.1*sign(x + 5) + cos(t)", parameters={"k": 1.0}, period="2*pi", start={"x": 0.1}
    )
    (axes,) = kz.follow(model, None, "k", (0.3, 3.0)).plot().axes
    x, y = axes.lines[0].get_data()
    # Straight lines would miss it by 1.3e-3.
    assert y == pytest.approx(1 / np.sqrt(1 + x**2), abs=6e-4)


def test_limit_cycles_of_a_diagram_are_drawn_by_their_extent():
    """Cycles of radius √p about the origin: ± √p beside the equilibrium, wherever the section is."""
    model = kz.Model.from_equations(
        ["x' = p*x - y - x*(x**2 + y**2)", "y' = x + p*y - y*(x**2 + y**2)"], parameters={"p": -0.2}, name="Hopf"
    )
    tree = kz.diagram(model, {"x": 0.0, "y": 0.0}, "p", (-0.2, 0.5), depth=1, equilibrium=True)
    (axes,) = tree.plot().axes
    drawn = [line for line in axes.lines if len(line.get_xdata()) > 2 and np.ptp(line.get_ydata()) > 0]
    heights = sorted(float(line.get_ydata()[np.argmax(line.get_xdata())]) for line in drawn)
    assert heights == pytest.approx([-np.sqrt(0.5), np.sqrt(0.5)], rel=1e-4)
    assert str(tree).count("Branch of Hopf") == 2
    assert "1, from 0 at Hopf at p = 0" in str(tree)


def test_a_rig_branch_over_a_model_branch_has_one_legend(branch):
    test = kz.rig.Experiment(kz.rig.duffing_rig(), frequency="omega", modes=4, scales={"x": 1.0}, values={"omega": 1.2})
    on_rig = kz.follow(test, {"x": kz.rig.FourierSeries(1.2, [0.0, 0.9, 0.15])}, "omega", bounds=(1.15, 1.25))
    (axes,) = branch.plot().axes
    on_rig.plot(ax=axes)
    words = [text.get_text() for text in axes.get_legend().get_texts()]
    assert words == ["stable", "unstable", "fold", "measured"]
