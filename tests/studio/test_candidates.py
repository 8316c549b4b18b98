"""Candidates side by side: each has its own parameters to find, and a copy is one of the candidate shown."""

import tomllib
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest

pytest.importorskip("nicegui", reason="the studio is not installed: pip install 'kapitza[studio]'")

from fastapi import FastAPI

import kapitza as kz
from kapitza.recordings import copy_recording
from kapitza.studio import fit as fit_pane
from kapitza.studio import serve
from kapitza.studio.candidates import another_candidate, free_place, names_to_find, starts_from, without_parameter
from kapitza.studio.document import Change, Document
from kapitza.studio.fit import FitPane, failures, starts_of
from kapitza.studio.loading import load
from kapitza.studio.model import _Redraw
from kapitza.studio.motion import Motion
from kapitza.studio.renaming import with_name
from kapitza.studio.session import drafts
from kapitza.studio.sharing import python_of
from kapitza.studio.templates import FIRST_EQUATIONS, begun, coordinates_of
from kapitza.studio.terms import with_candidate
from kapitza.study import StudyResult, write_new_study

EQUATION = "phi'' + c*phi' + k*sin(phi) = 0"


@pytest.fixture
def document(tmp_path):
    return Document(write_new_study(copy_recording("pendulum", tmp_path), equations=[EQUATION]))


def free_of(document):
    """Return what each candidate finds; a study with a problem is refused here."""
    return [list(one.free) for one in kz.read_study(document.path).candidates]


def test_a_parameter_to_find_of_one_candidate_is_not_asked_of_another(document):
    """A force of the second candidate: a name in the list that both share would be unknown to the first."""
    document.set_all(another_candidate(document.content, 0))
    assert free_of(document) == [["c", "k"], ["c", "k"]]
    new = [*names_to_find(document.content, 1), "coulomb_phi_c"]
    document.set_all({("model", 1, "laws"): ["coulomb phi"], free_place(document.content, 1): new})
    assert free_of(document) == [["c", "k"], ["c", "k", "coulomb_phi_c"]]
    # The other way round.
    document.set(free_place(document.content, 0), ["k"])
    assert free_of(document) == [["k"], ["c", "k", "coulomb_phi_c"]]


def test_two_candidates_written_by_hand_with_one_list_get_their_own_when_one_is_changed(document):
    second = 'name = "b"\nequations = ["phi\'\' + k*phi = 0"]\nparameters = {k = 30.0}\n'
    text = document.text.replace("\n[model]\n", '\n[[model]]\nname = "a"\n')
    text = text.replace("\n[data]\n", f"\n[[model]]\n{second}\n[data]\n")
    document.replace(text.replace('free = ["c", "k"]', 'free = ["k"]'))
    document.set(free_place(document.content, 0), ["c", "k"])
    assert free_of(document) == [["c", "k"], ["k"]]
    # A force that was suggested for one of them is not asked of the other either.
    term = with_candidate(document.content, 1, "viscous friction of phi", "{c}*phi'")
    document.set_all(term)
    assert free_of(document) == [["c", "k"], ["k"], ["k", "viscous_phi_c"]]


def test_the_models_of_a_text_with_problems_are_those_of_the_text(document):
    """The formula, the rows of parameters and the forces on offer follow what is typed, whatever else is wrong."""
    study = kz.read_study(document.path)
    document.set_all(another_candidate(document.content, 0))
    document.set_all({("model", 1, "laws"): ["coulomb phi"], ("fit", "free"): ["c", "k", "coulomb_phi_c"]})
    found = drafts(document.path, document.text, study)
    assert [found[number].names for number in (0, 1)] == [("c", "k"), ("c", "k", "coulomb_phi_c")]
    document.set(("model", 0, "equations"), ["phi'' + c*phi' + k*sin(phi = 0"])
    assert list(drafts(document.path, document.text, study)) == [1]
    assert drafts(document.path, document.text + "\n[[[", study) == {}
    # Also of a study that is opened with a problem, and is driven: nothing is known of its drive yet.
    document.set_all({("model", 0, "equations"): ["phi'' + k*phi = u"], ("data", 0, "drive"): ["u"]})
    assert list(drafts(document.path, document.text, None)) == [0, 1]


def test_friction_of_an_equation_to_begin_with_is_not_below_zero(document):
    """Viscous and dry friction would feed energy in; what is known of a parameter stays."""
    kept = {"name": "a", "parameters": {"c": 0.2, "rest": 1.0}, "laws": ["cubic phi"]}
    table = begun(FIRST_EQUATIONS["pendulum with dry friction"], kept, "phi", ["F"])
    document.set_all({("model", 0, key): one for key, one in table.items()} | {("fit", "free"): ["c", "d", "k"]})
    assert table["equations"] == ["phi'' + c*phi' + d*sign(phi') + k*sin(phi - rest) = b*F"]
    assert table["parameters"]["c"] == 0.2
    document.set(("model", 0, "equations"), [table["equations"][0].replace("b*F", "b")])
    model = kz.read_study(document.path).candidates[0].model
    assert {p.name: p.bounds[0] for p in model.parameters}["d"] == 0.0
    fresh = begun(FIRST_EQUATIONS["oscillator"], {}, "x", [])["parameters"]
    assert (fresh["c"]["bounds"][0], fresh["k"]) == (0.0, 1.0)


def test_a_candidate_starts_from_its_own_fit(document):
    def fit(name, **values):
        answer = SimpleNamespace(names=(*values, "phi_offset"), values={**values, "phi_offset": 0.1},
                                 model=SimpleNamespace(names=tuple(values)))  # fmt: skip
        return SimpleNamespace(candidate=name, ok=True, answer=answer)

    result = SimpleNamespace(fits=[fit("model 1", c=0.0812345678, k=36.5), fit("b", k=31.0)])
    document.set(("model", 0, "parameters", "c"), {"value": 1.0, "unit": "1/s"})
    document.set_all(another_candidate(document.content, 0))
    document.set(("model", 1, "name"), "b")
    # The first had no name when it was fitted.
    document.set_all(starts_from(result, document.content, 0))
    assert [table["parameters"]["k"] for table in document.tables("model")] == [36.5, 1.0]
    assert document.get("model", 0, "parameters", "c") == {"value": 0.0812346, "unit": "1/s"}
    assert starts_from(result, document.content, 0) == {}
    assert starts_from(result, document.content, 1) == {("model", 1, "parameters", "k"): 31.0}
    assert starts_from(None, document.content, 1) == {}


def test_each_candidate_has_its_own_motion_over_the_data(document):
    """Two windows show two candidates: the later one drew its motion into both."""
    shown = load(document.tables("data")[0], document.path.parent)
    time = np.array([0.0, 10.0])
    motions = {n: Motion(time, {"phi": np.full(2, float(n))}, {}) for n in (0, 1)}
    session = SimpleNamespace(recordings=[shown], motions=motions)
    api = FastAPI()
    serve.add_routes(api, SimpleNamespace(opened=lambda name: session))
    view = next(route.endpoint for route in api.routes if getattr(route, "path", "") == "/data/view")
    for number in (0, 1, 2):
        packed = np.frombuffer(view("s", 0, 1.0, 2.0, 50, overlay=True, candidate=number).body)
        drawn = packed[4 + 2 * int(packed[0]) :] if packed[3] else []
        assert set(drawn) == ({float(number)} if number in motions else set())


def test_another_candidate_is_a_copy_of_the_one_shown(document):
    document.set_all(another_candidate(document.content, 0))
    document.set(("model", 1, "equations"), ["phi'' + k*phi = 0"])
    document.set_all({("model", 1, "parameters"): {"k": 30.0}, free_place(document.content, 1): ["k"]})
    document.set_all(another_candidate(document.content, 1))
    tables = document.tables("model")
    assert [table["name"] for table in tables] == ["candidate 1", "candidate 2", "candidate 3"]
    assert tables[2] == {**tables[1], "name": "candidate 3"}
    assert free_of(document) == [["c", "k"], ["k"], ["k"]]


def test_a_suggested_term_becomes_a_candidate_beside_the_one_it_was_found_for(document):
    before = document.text
    offered = ("Coulomb friction of phi", "{c}*sign(phi')"), ("quadratic stiffness of phi", "{c}*phi**2")
    for count, (name, notation) in enumerate(offered, start=2):
        document.set_all(with_candidate(document.content, 0, name, notation))
        assert len(free_of(document)) == count
        # It is there: a second click adds nothing.
        assert with_candidate(document.content, 0, name, notation) == {}
    assert [one.name for one in kz.read_study(document.path).candidates] == [
        "candidate 1",
        "candidate 1 + Coulomb friction of phi",
        "candidate 1 + quadratic stiffness of phi",
    ]
    assert free_of(document) == [["c", "k"], ["c", "k", "coulomb_phi_c"], ["c", "k", "quadratic_phi"]]
    first = dict(document.tables("model")[0])
    assert {**first, "name": None} == {**tomllib.loads(before)["model"], "name": None}
    # An error of a sensor belongs to the recording.
    assert with_candidate(document.content, 0, "offset of the sensor phi", "offset {c}") == {
        ("data", 0, "sensors"): {"phi": {"unknown": "offset"}}
    }
    for _ in offered:
        document.undo()
    assert document.text == before


def test_the_python_of_the_page_reads_the_chosen_candidate(tmp_path):
    """A candidate by name would be the rejected one as soon as another explains the data better."""
    session = SimpleNamespace(path=tmp_path / "rig.toml", results_folder=tmp_path / "rig-results", study=None)
    lines = python_of(session).splitlines()
    assert [line for line in lines if line.startswith("fit = ")] == ["fit = result.best"]
    assert isinstance(StudyResult.best, property)


def test_a_parameter_that_has_left_the_equation_is_named_and_removed_by_a_click(document):
    equation = "phi'' + c*phi' + sin(phi) = 0"
    document.set_all({("model", 0, "equations"): [equation], ("fit", "bounds"): {"k": [0.0, 90.0], "c": [0.0, 1.0]}})
    with pytest.raises(kz.StudyError) as caught:
        kz.read_study(document.path)
    (problem,) = caught.value.problems
    assert problem.place == ("model", 0, "parameters", "k")
    assert "k does not stand in the equations" in problem.message
    document.set_all(without_parameter(document.content, 0, "k"))
    assert free_of(document) == [["c"]]
    assert "k" not in document.content["model"]["parameters"]
    assert document.content["fit"]["bounds"] == {"c": [0.0, 1.0]}


def test_a_run_without_an_answer_says_why():
    fits = [
        SimpleNamespace(label="model 1 by auto", failure="k has no influence."),
        SimpleNamespace(label="b", failure=""),
    ]
    assert failures(SimpleNamespace(chosen=None, fits=fits)) == ["model 1 by auto: k has no influence."]
    assert failures(SimpleNamespace(chosen=fits[1], fits=fits)) == []


def test_a_recording_read_in_another_unit_of_time_is_another_page(tmp_path):
    (tmp_path / "run.csv").write_text("ms,x\n" + "\n".join(f"{10 * n},{n % 7}" for n in range(50)))
    table = {"file": "run.csv", "time": "ms"}
    shown = load(table, tmp_path)
    assert shown.clock == ("ms", "ms")
    assert shown.interval == pytest.approx(0.01)
    seconds = load(table | {"units": {"ms": "s"}}, tmp_path)
    assert seconds.clock == ("ms", "s")
    assert seconds.interval == pytest.approx(10.0)
    assert seconds.reading != shown.reading
    assert load(table, tmp_path).reading == shown.reading
    even = load({"file": "run.csv", "interval": 0.1, "channels": ["x"]}, tmp_path)
    assert even.clock == ("", "")


def test_a_renamed_coordinate_is_renamed_in_every_equation(document):
    """Forces, their parameters, angles and sensors follow; a name that is taken changes nothing."""
    document.set_all({
        ("model", 0, "laws"): ["coulomb phi"], ("fit", "free"): ["c", "k", "coulomb_phi_c"],
        ("fit", "bounds"): {"coulomb_phi_c": [0.0, 1.0]}, ("data", 0, "sensors"): {"phi": {"unknown": "offset"}},
    })  # fmt: skip
    document.set_all(another_candidate(document.content, 0))
    assert with_name(document.content, "phi", "k") == with_name(document.content, "c", "sin") == {}
    assert with_name(document.content, "theta", "phi") == with_name(document.content, "phi", "x'") == {}
    document.set_all(with_name(document.content, "phi", "x"))
    study = kz.read_study(document.path)
    assert [one.model.states for one in study.candidates] == [("x", "x'")] * 2
    assert free_of(document) == [["c", "k", "coulomb_x_c"]] * 2
    assert study.recordings[0].record.channels == ("x",)
    assert document.content["model"][1]["equations"] == ["x'' + c*x' + k*sin(x) = 0"]
    assert document.content["fit"]["bounds"] == {"coulomb_x_c": [0.0, 1.0]}
    assert list(study.recordings[0].sensors) == ["x"]
    assert coordinates_of(study.candidates[0].model) == ["x"]


def test_the_progress_shows_the_starts_of_the_candidate_that_is_fitted(document):
    """Two candidates with parameters of the same names and other values."""
    document.set_all(another_candidate(document.content, 0))
    document.set_all({("model", 0, "parameters", "k"): 2220.0, ("model", 1, "parameters", "k"): 4563.0})
    candidates = kz.read_study(document.path).candidates

    def start(text):
        return starts_of({0: {"title": "study", "text": text}, 1: {"title": "fit", "text": "step 3"}}, candidates).get(
            "k"
        )

    first, second = (one.name for one in candidates)
    assert (start(f"{first} by auto"), start(f"{second} by auto"), start("")) == (2220.0, 4563.0, None)
    assert starts_of({}, candidates[:1])["k"] == 2220.0


def test_a_result_stays_until_the_next_one_can_be_drawn(monkeypatch, tmp_path):
    """Its figures take seconds, for which the pane would be empty."""
    steps = []

    async def prepared(function, *arguments):
        steps.append(function.__name__)

    async def result():
        return "result"

    async def done(_):
        steps.append("runs")

    pane = FitPane.__new__(FitPane)
    monkeypatch.setattr(fit_pane, "in_thread", prepared)
    pane.session = SimpleNamespace(results_folder=tmp_path, result=result)
    pane.shown, pane.result, pane.runs_card = None, MagicMock(), MagicMock()
    pane.result.clear = lambda: steps.append("clear")
    pane._verdict, pane._suggestions, pane.dim, pane._runs = MagicMock(), MagicMock(), MagicMock(), done
    # Nothing waits here, and the loop of a browser may be running: one step goes through to the end.
    with pytest.raises(StopIteration):
        pane.load().send(None)
    assert steps == ["evidence", "clear", "runs"]


def test_the_motion_over_the_data_shades_what_is_held_back_now():
    """The pane drew the share of the end after a span had been held back elsewhere."""
    drawn = _Redraw(SimpleNamespace(), 0)
    drawn.view = MagicMock()
    drawn.changed(Change((("model", 0, "equations"),)))
    assert not drawn.view.take.called
    for place in (("data", 0, "hold_back"), ("fit", "hold_back")):
        drawn.changed(Change((place,)))
    assert drawn.view.take.call_count == 2
