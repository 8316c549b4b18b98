"""Panes as functions of results: figures hold the numbers of the nouns, tables and clicks name the same point."""

import importlib.util
import json
import math
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest

pytest.importorskip("nicegui", reason="the studio is not installed: pip install 'kapitza[studio]'")

import kapitza as kz
from kapitza import studio
from kapitza.base.cures import Set
from kapitza.library import SYSTEMS
from kapitza.model import model_from_dict
from kapitza.rig import FourierSeries
from kapitza.studio import threads, work
from kapitza.studio.diagram import point_of, point_rows, row_of
from kapitza.studio.document import value_at
from kapitza.studio.drawings import (
    attractor_figure,
    branch_figure,
    growing_figure,
    moving_figure,
    multiplier_figure,
    portrait_figure,
)
from kapitza.studio.fit import changed_since, comparison_rows, kept_runs, progress_of, share_rule
from kapitza.studio.formulas import formula
from kapitza.studio.hints import in_page, with_code
from kapitza.studio.loading import Shown
from kapitza.studio.orbits import rows_of
from kapitza.studio.recording import findings, shaded
from kapitza.studio.rig import wrong_fields
from kapitza.studio.runs import Run
from kapitza.studio.templates import FIRST_EQUATIONS, about_rest, written_out
from kapitza.studio.terms import with_term
from kapitza.studio.work import follow_branch, follow_rig, half_range, rig_points, work_folder
from kapitza.studio.worker import Lines
from kapitza.study import orbit_labels

STYLE = Path(studio.__file__).parent / "static" / "studio.css"
SHAKEN = "x'' + d*x' + x + x**3 = B*cos(omega*t)"


@pytest.fixture(scope="module")
def branch():
    model = kz.Model.from_equations(SHAKEN, parameters={"d": 0.1, "B": 0.3, "omega": 1.2}, period="2*pi/omega")
    return kz.follow(model, None, "omega", bounds=(1.2, 1.9))


def test_a_clicked_point_and_its_row_are_the_same_point(branch):
    """Every marker carries branch and index; the row of the table leads to the same one; the orbit is that of it."""
    height = branch.amplitude("x")
    branches = [(branch, height), (branch, height)]
    figure = branch_figure(branches, (1, 3)).to_dict()
    seen = {}
    for trace in figure["data"]:
        for x, y, data in zip(trace["x"], trace["y"], trace.get("customdata") or (), strict=False):
            if data[1] >= 0:
                seen[tuple(data)] = (x, y)
    assert len(seen) == 2 * len(branch)
    rows = point_rows(branches)
    for (number, index), (x, y) in seen.items():
        row = row_of(branches, (number, index))
        assert point_of(branches, row) == (number, index)
        assert (x, y) == (branch.values[index, 0], height[index])
        assert (rows[row]["value"], rows[row]["height"]) == (x, y)
    orbit = branch.orbit(3)
    drawn = portrait_figure(orbit).to_dict()["data"][0]
    assert np.array_equal(drawn["x"], orbit.profile.states[:, 0])
    assert np.array_equal(drawn["y"], orbit.profile.states[:, 1])
    # The two folds of this equation, known from its averaged form to two digits, are marked.
    marks = [t for t in figure["data"] if t["name"] == "fold"][:2]
    assert sorted(t["x"][0] for t in marks) == sorted(b.value for b in branch.of("fold"))


def test_the_attractor_names_each_orbit_and_strikes_those_left_out():
    logistic = kz.Model.from_map({"x": "1 - a*x**2"}, parameters={"a": 1.99})
    orbits = kz.find_orbits(logistic, max_period=3, region={"x": (-2, 2)}, starts=256)
    traces = attractor_figure(orbits, orbit_labels(orbits), 1, ["3b"]).to_dict()["data"]
    assert [t["customdata"][0] for t in traces] == list(range(5))
    assert [t["marker"]["symbol"] for t in traces] == ["circle"] * 4 + ["x-thin-open"]
    assert [row["fitted"] for row in rows_of(orbits, ["3b"])] == [True] * 4 + [False]
    # 1 - a x² has multipliers (-2a)^p Π x.
    for orbit, row in zip(orbits, rows_of(orbits, []), strict=True):
        exact = abs(np.prod(-2 * 1.99 * orbit.points[:, 0]))
        assert row["largest multiplier"] == pytest.approx(exact, rel=1e-8)
        circle = multiplier_figure(orbit).to_dict()["data"]
        assert circle[-1]["name"] == ("outside" if exact > 1 else "inside")


def test_progress_shows_share_stage_and_estimates_with_their_start():
    levels = {
        0: {"title": "study", "done": 1, "total": 4, "text": "auto"},
        2: {"title": "fitting", "stage": "rigid links", "text": "iteration 3", "estimates": {"k": 2.0, "d": None}},
    }
    share, words = progress_of(levels)
    assert share == 0.25
    assert words == ["study: auto", "fitting: rigid links: iteration 3"]
    figure = moving_figure([{"k": 2.0}, {"k": 3.0}], {"k": 4.0}).to_dict()["data"]
    assert figure[0]["y"] == [0.5, 0.75]
    assert (figure[1]["x"], figure[1]["y"]) == ([0], [1.0])


@pytest.mark.parametrize("several", [False, True])
def test_a_suggested_term_is_added_and_the_study_still_reads(tmp_path, several):
    """A law goes into `laws`, any other force into the equation of its coordinate; its coefficient is free."""
    clean = kz.simulate(
        kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.3, "k": 4.0}), [1, 0], t=np.arange(50) * 0.1
    )
    kz.write(kz.measure(clean, noise=0.01, seed=1).select(["x"]), tmp_path / "run.csv")
    model = {"equations": "x'' + c*x' + k*x = 0", "parameters": {"c": 0.2, "k": 3.0}}
    content = {"model": [model] if several else model, "data": {"file": "run.csv"}, "fit": {"free": ["c", "k"]}}
    changes = with_term(content, 0, "cubic stiffness of x", "{c}*x**3")
    assert changes == {("model", 0, "laws"): ["cubic x"], ("fit", "free"): ["c", "k", "cubic_x_k"]}
    changes = with_term(content, 0, "quadratic stiffness of x", "{c}*x**2")
    assert changes[("model", 0, "equations")] == "x'' + c*x' + k*x + quadratic_x*x**2 = 0"
    added = {**content, "model": {**model, "equations": "x'' + c*x' + k*x + quadratic_x*x**2 = 0"}}
    assert with_term(added, 0, "quadratic stiffness of x", "{c}*x**2") == {}
    for name, notation, parameter in (
        ("constant force of x", "{c}*1", "offset_x"),
        ("second-harmonic torque of x", "{c}*sin(2*x)", "second_harmonic_x"),
        ("x*x' in the equation of x'", "{c}*x*x'", "force_x"),
        ("stop above 0.5 (about) of x", "{c}*Max(x, 0)", "stop_x"),
        ("quadratic law of x", "{c}*x*abs(x)", "quadratic_x"),
    ):
        assert list(with_term(content, 0, name, notation)["model", 0, "parameters"])[-1] == parameter
    assert with_term(added, 0, "quadratic law of x", "{c}*x*abs(x)")["fit", "free"][-1] == "quadratic_x_2"
    assert with_term(content, 0, "delay of the drive", "delay {c}") == {}
    for places in (changes, with_term(content, 0, "Coulomb friction of x", "{c}*sign(x')")):
        table = {**model}
        fit = {"free": ["c", "k"]}
        for place, value in places.items():
            (table if place[0] == "model" else fit)[place[-1]] = value
        lines = ["[[model]]" if several else "[model]"]
        lines += [f"{k} = {json.dumps(v) if k != 'parameters' else _inline(v)}" for k, v in table.items()]
        lines += ['[data]\nfile = "run.csv"', f"[fit]\nfree = {json.dumps(fit['free'])}"]
        study = kz.read_study(tmp_path / "run.toml", text="\n".join(lines))
        assert len(study.candidates[0].free) == 3


def test_an_error_of_a_sensor_and_a_held_parameter_are_added_too():
    """Both are in other tables than the equations: [data], for every recording that has the channel, and `free`."""
    seen = {"file": "a.csv", "channels": {"left": "x", "right": "x'"}, "sensors": {"x'": {"unknown": "offset"}}}
    content = {
        "model": {"equations": "x'' + k*x = 0", "parameters": {"k": 1.0}},
        "data": [seen, {"file": "b.csv", "channels": ["y"]}, {"file": "c.csv", "use": "check"}],
        "fit": {"free": []},
    }
    changes = with_term(content, 0, "delay of the sensor x'", "delay {c}")
    assert changes == {("data", 0, "sensors"): {"x'": {"unknown": "offset delay"}}}
    assert with_term(content, 0, "offset of the sensor x'", "offset {c}") == {}
    freed = with_term(content, 0, "other value of k, which was held", "k by {c}")
    assert freed == {("fit", "free"): ["k"]}


def test_hints_name_buttons_of_the_page():
    for text, words in (
        ("a free decay: `kapitza new FILE`, then `kapitza identify STUDY`.", "press Fit"),
        ('If they are real, keep them by bad_samples = "keep" in [data].', 'choose "kept" for bad samples'),
        (kz.errors.KapitzaError(f"No value: give it by {Set('values', k=...)}."), "the start of k under Model"),
        ("add the term to the equations as a second candidate ([[model]]) and run kapitza compare.", "Add this term"),
    ):
        said = in_page(text)
        assert words in said
        assert "kapitza" not in said
        assert "[" not in said
    # What has no field is said to stand in the text of the study.
    assert in_page("Try [fit.shooting] robust = true.").endswith("robust = true (in the text under Report and files).")
    assert in_page("Nothing to change [m].") == "Nothing to change [m]."


def test_commands_in_texts_of_the_page_are_code_and_nothing_else_is():
    assert with_code("`kapitza identify` on <b> it") == "<code>kapitza identify</code> on &lt;b&gt; it"


def test_formulas_put_dots_over_letters_and_the_rest_of_a_name_below():
    model = kz.Model.from_equations("Y_id_0'' + seq*Y_id_0' + k2*sin(Y_id_0 - rest) = 0",
                                    parameters={"seq": 1.0, "k2": 1.0, "rest": 1.0})  # fmt: skip
    drawn = formula(model)
    assert "<msub><mover><mi>Y</mi><mo>··</mo></mover><mtext>id,0</mtext></msub>" in drawn
    assert "<mi>seq</mi>" in drawn
    assert "<msub><mi>k</mi><mtext>2</mtext></msub>" in drawn
    assert "'" not in drawn.replace("display='block'", "")


@pytest.mark.parametrize("font", ["math", "serif", "sans-serif"])
def test_dots_stand_clear_of_the_letter_in_any_font(chromium, tmp_path, font):
    model = kz.Model.from_equations("phi'' + x = 0", parameters={"x": 1.0})
    letter = re.search("<mover.*?</mover>", formula(model))
    page = chromium.new_page()
    page.set_content(f"<math style='font: 90px {font}'>{letter[0]}</math>")
    page.locator("mover").screenshot(path=tmp_path / "letter.png")
    page.close()
    inked = plt.imread(tmp_path / "letter.png")[..., :3].min(axis=(1, 2)) < 0.5
    assert np.count_nonzero(np.diff(inked.astype(int)) == 1) + inked[0] == 2


def test_dots_of_an_equation_are_higher_than_one_pixel(chromium, tmp_path):
    """Wherever the text begins between two pixels: half of a dot looks cut."""
    drawn = formula(kz.Model.from_equations("angle'' + x = 0", parameters={"x": 1.0}))
    page = chromium.new_page()
    for shift in (0.0, 0.3, 0.6):
        page.set_content(f"<style>{STYLE.read_text()}</style><body style='padding-top: {shift}px'>"
                         f"<div class='kz-formula'>{drawn}</div>")  # fmt: skip
        page.locator("mover").screenshot(path=tmp_path / "letter.png")
        ink = 1 - plt.imread(tmp_path / "letter.png")[..., :3].mean(axis=2)
        upper = ink[: ink.shape[0] // 4].max(axis=1)
        assert np.count_nonzero(upper > 0.6) >= 2
    page.close()


def test_what_is_being_typed_is_not_replaced(chromium):
    """Another value that arrives between two keys would take the text away; later, and elsewhere, it is shown."""
    page = chromium.new_page()
    script = (STYLE.parent / "quiet.js").read_text(encoding="utf-8")
    page.set_content(
        f"<input id='a'><input id='b' role='combobox'><textarea id='c'></textarea><script>{script}</script>"
    )
    page.evaluate("window.told = []; a.addEventListener('input', () => told.push(a.value))")
    given = "name => { const e = document.getElementById(name); e.value = '35.9'; return e.value; }"
    page.locator("#a").press_sequentially("3.")
    assert page.evaluate(given, "a") == "3."
    page.keyboard.type("5")
    # The page is told what stands there, so that it does not hold the other value.
    page.wait_for_function("told.at(-1) === '3.5' && told.includes('3.')")
    page.locator("#c").press_sequentially("x'' = 0")
    assert page.evaluate(given, "c") == "x'' = 0"
    assert page.evaluate(given, "a") == "35.9"  # not the field with the cursor any more
    page.locator("#b").press_sequentially("m")
    assert page.evaluate(given, "b") == "35.9"  # a menu writes into its own field
    page.locator("#a").press_sequentially("1")
    page.wait_for_function("performance.now() - a.typedAt > 700")
    page.evaluate("a.value = 'later'")
    assert page.locator("#a").input_value() == "later"
    page.close()


DARK = """<style>{style}</style><body class='body--dark'><div class='kz-figure'><div class='plot-container'><svg>
<g class='heatmaplayer'><rect id='area' width='30' height='30' fill='#bdd7ee'/></g>
<g class='scatterlayer'><rect id='line' y='40' width='30' height='30' fill='#0072b2'/></g></svg></div></div>
<div class='kz-stale' style='background: var(--kz-card)'><p class='kz-note' id='old'>old</p></div>"""


def test_areas_keep_their_colours_in_the_dark_and_an_older_result_is_readable(chromium, tmp_path):
    page = chromium.new_page()
    page.set_content(DARK.format(style=STYLE.read_text()))
    shades = {}
    for name in ("area", "line"):
        page.locator(f"#{name}").screenshot(path=tmp_path / f"{name}.png")
        shades[name] = np.round(255 * plt.imread(tmp_path / f"{name}.png")[15, 15, :3]).tolist()
    assert shades["area"] == [0xBD, 0xD7, 0xEE]
    assert shades["line"][2] > 0xB2
    # What is seen of the words through the opacity: a contrast of at least 3 to the card they stand on.
    page.locator("#old").screenshot(path=tmp_path / "old.png")
    page.close()
    parts = plt.imread(tmp_path / "old.png")[..., :3]
    linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]
    assert (linear.max() + 0.05) / (linear.min() + 0.05) > 3


def test_equations_to_begin_with_keep_the_position_of_rest():
    for equation in FIRST_EQUATIONS.values():
        about = about_rest(equation)
        model = kz.Model.from_equations(
            about.format(x="x"), parameters=dict.fromkeys("cdk", 1.0) | {"k3": 1, "rest": 2}
        )
        rates = kz.Flow(model).rates(np.array([[2.0, 0.0]]), np.zeros(1))
        assert np.allclose(rates, 0.0)


def test_a_branch_grows_in_the_plane_of_parameter_and_state():
    points = [{"omega": 1.0, "x": 0.2}, {"omega": 1.1, "x": 0.3}]
    drawn = growing_figure(points, "omega").to_dict()["data"]
    assert (drawn[0]["x"], drawn[0]["y"]) == ([1.0, 1.1], [0.2, 0.3])
    assert (drawn[1]["x"], drawn[1]["y"]) == ([1.1], [0.3])
    run = Run("branch", {})
    monitor = Lines(SimpleNamespace(emit=run.hear))
    # Points that come faster than lines are written.
    for point in points:
        monitor.show(kz.Progress("following", level=0, estimates=point))
    monitor.flush()
    assert run.estimates == points


def test_findings_that_answer_come_first():
    first, rest = findings(["Sampling: 1 Hz", "Free decay of x: 1 Hz", "Noise of x: 1", "Next: fit a model"])
    assert first == ["Free decay of x: 1 Hz", "Next: fit a model"]
    assert rest == ["Sampling: 1 Hz", "Noise of x: 1"]


def test_a_result_belongs_to_the_study_that_was_fitted(tmp_path):
    (tmp_path / "study.toml").write_text("seed = 1\n")
    assert not changed_since(tmp_path, "# the same\nseed = 1")
    assert changed_since(tmp_path, "seed = 2")
    assert not changed_since(tmp_path / "nothing", "seed = 2")


def _inline(table):
    return "{" + ", ".join(f"{key} = {value}" for key, value in table.items()) + "}"


def test_ten_wrong_numbers_of_a_rig_each_have_a_message():
    right = {
        "rig": "duffing",
        "parameter": "omega",
        "low": "0.5",
        "high": "2",
        "start": "1",
        "noise": "0",
        "speed": "0",
    }
    assert wrong_fields(right) == {}
    wrong = [("rig", "engine"), ("parameter", " "), ("low", "a"), ("high", "0.5"), ("start", "7"), ("start", "x"),
             ("noise", "-1"), ("speed", "-2"), ("speed", "fast"), ("high", "")]  # fmt: skip
    for field, value in wrong:
        assert list(wrong_fields({**right, field: value})) == [field], (field, value)


def test_a_rig_stopped_in_a_measurement_keeps_its_points_and_is_safe(tmp_path, monkeypatch):
    """The stop comes inside a measurement of the third point; by the clock of the rig it is safe 0.05 s later.

    The clock is that of the rig, so that the test does not depend on the load of the machine.
    """
    monitor, lines, clock = kz.Silent(), [], SimpleNamespace(now=0.0, stopped=math.inf, inside=0)

    def sleep(seconds):
        clock.now += seconds
        clock.inside += 1
        points = sum(line["event"] == "point" for line in lines)
        if points == 2 and clock.inside > 3 and not monitor.cancelled:
            clock.stopped = clock.now
            monitor.cancel()

    def emit(line):
        lines.append(line)
        clock.inside = 0

    monkeypatch.setattr(work, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep))
    request = {"study": str(tmp_path / "run.toml"), "rig": "duffing", "parameter": "omega", "low": 0.5, "high": 2.0,
               "start": 1.0, "noise": 0.005, "speed": 300.0, "scales": {"x": 1.0}}  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        follow_rig(request, emit, monitor)
    points = [line for line in lines if line["event"] == "point"]
    assert lines[-1]["event"] == "safe"
    assert clock.now - clock.stopped <= 0.05
    kept = rig_points(work_folder(tmp_path / "run.toml"))
    assert kept["state"] == "stopped"
    assert [p["value"] for p in kept["points"]] == [p["value"] for p in points]
    assert len(points) == 2
    # A branch is drawn by half its peak-to-peak value; the largest value holds the mean too.
    assert all(0 < p["amplitudes"]["x"] <= p["peaks"]["x"] for p in points)
    assert half_range(FourierSeries(2.0, [5.0, 0.3, 0.4])) == pytest.approx(0.5, rel=1e-3)
    assert "token" not in kept["request"]


def test_branches_are_followed_switched_and_kept_on_disk(tmp_path):
    """A pendulum shaken vertically doubles its period: the new branch has twice the period of the old one."""
    (tmp_path / "run.csv").write_text("t,x\n" + "\n".join(f"{0.1 * i},{np.cos(0.1 * i)}" for i in range(40)))
    (tmp_path / "run.toml").write_text(
        "[model]\nequations = [\"x'' + 0.1*x' + (1 + a*cos(2*t))*x + x**3 = 0\"]\nparameters = {a = 0.1}\n"
        'excitation = {period = "pi"}\n[data]\nfile = "run.csv"\n[fit]\nfree = ["a"]\n'
    )
    request = {"study": str(tmp_path / "run.toml"), "parameter": "a", "low": 0.05, "high": 0.6}
    done = follow_branch(request, lambda line: None, kz.Silent())
    folder = work_folder(tmp_path / "run.toml")
    first = kz.load(folder / done["file"])
    number = next(n for n, b in enumerate(first.bifurcations) if b.kind.value == "period doubling")
    switched = follow_branch({**request, "branch": 0, "bifurcation": number}, lambda line: None, kz.Silent())
    second = kz.load(folder / switched["file"])
    assert second.periods[0] == pytest.approx(2 * first.periods[0])
    assert len(json.loads((folder / "branches.json").read_text())) == 2


def test_kept_runs_come_newest_first(tmp_path):
    for name in ("r-results", "r-results-1", "r-results-2", "r-results-10", "r-results-x"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text("{}")
    names = [folder.name for folder in kept_runs(tmp_path / "r-results")]
    assert names == ["r-results", "r-results-10", "r-results-2", "r-results-1"]
    assert comparison_rows({}) == []


def test_runs_show_no_error_where_there_is_none():
    """A parameter at its bound has a value, and no standard error."""
    model = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.0, "k": 9.0})
    best = SimpleNamespace(names=("c", "k"), values={"c": 0.0, "k": 9.0}, deviations={"c": math.nan, "k": 0.02},
                           units=model.units)  # fmt: skip
    rows = comparison_rows({"one": SimpleNamespace(best=best), "two": SimpleNamespace(best=None)})
    assert rows == [{"parameter": "c", "one": "0"}, {"parameter": "k", "one": "9.000 ± 0.020"}]


def test_a_span_held_back_rules_over_the_share_and_both_are_named_in_the_picture():
    spans = {"hold_back": [[4.0, 6.5]]}
    assert share_rule({"data": {"file": "a.csv"}, "fit": {"hold_back": 0.2}}) == ""
    one = share_rule({"data": spans, "fit": {"hold_back": 0.2}})
    assert one == "The share does not count: held back is 4 to 6.5 s, as under Recording."
    several = share_rule({"data": [{"file": "a.csv"}, spans, {"use": "check", "hold_back": [[0, 1]]}]})
    assert several.startswith("The share does not count in recording 2:")
    assert [span["text"] for span in shaded(_drawn({"data": spans, "fit": {"hold_back": 0.2}}), 0)] == ["held back"]
    share = shaded(_drawn({"data": {"from": 1.0}, "fit": {"hold_back": 0.2}}), 0)
    assert [span["text"] for span in share] == ["not used", "held back, share 0.2"]
    assert share[1]["begin"] == pytest.approx(1.0 + 0.8 * 9.0)


def _drawn(content):
    """What `shaded` reads of a session: the study, and times from 0 to 10 s."""
    shown = Shown.__new__(Shown)
    object.__setattr__(shown, "time", np.arange(1001) * 0.01)
    get = SimpleNamespace(get=lambda *place, default=None: value_at(content, place, default))
    return SimpleNamespace(document=get, recordings=[shown])


def test_work_in_a_thread_begins_after_the_shared_imports():
    """Two threads that imported xarray and dask at once got a partially initialized module, and no check."""
    installed = [name for name in threads.SHARED if importlib.util.find_spec(name.partition(".")[0])]
    missing = threads._after_imports(lambda: [name for name in installed if name not in sys.modules])
    assert missing == []
    assert "xarray" in installed


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_library_model_written_out_is_the_same_model(system):
    """Its angles, excitation, impacts and units too: the equations alone would be another model."""
    model = system()
    table = written_out(model)
    again = model_from_dict({"name": model.name, **table}, default_name="")
    assert again.equations == model.equations
    assert again.coordinates == model.coordinates
    assert again.values == model.values
    assert (again.excitation is None) == (model.excitation is None)
    assert again.period == model.period
    assert again.impacts == model.impacts
    assert "signals" not in written_out(model, [s.name for s in model.signals]).get("excitation", {})
