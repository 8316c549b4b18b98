"""Runs of a rig on disk: numbered, never overwritten, gone on from."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("nicegui", reason="the studio is not installed: pip install 'kapitza[studio]'")

import kapitza as kz
from kapitza.errors import DataError
from kapitza.studio.page import ended_rigs
from kapitza.studio.rig import fields_of, kept_sentence, request_of, sentence, since, wrong_fields
from kapitza.studio.rig_files import can_go_on, journal_file, last_along, new_run, points_file, rig_points, rig_runs
from kapitza.studio.runs import Run
from kapitza.studio.work import follow_rig, work_folder

FIELDS = {"rig": "duffing", "token": "", "parameter": "omega", "low": "0.5", "high": "2.0", "start": "1.0",
          "noise": "0.005", "speed": "0"}  # fmt: skip


def run_rig(study, lines=None, **changes):
    """Follow the rig of FIELDS; return the run as the page holds it."""
    run = Run("rig", request_of(FIELDS, str(study)) | {"points": 4} | changes)
    try:
        run.hear({"event": "done", "result": follow_rig(run.arguments, run.hear, kz.Silent())})
    except kz.KapitzaError as problem:
        run.hear({"event": "failed", "message": str(problem)})
    return run


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    study = tmp_path_factory.mktemp("rig") / "shaken.toml"
    return study, [run_rig(study), run_rig(study, direction=-1)]


def test_a_second_run_leaves_the_points_and_measurements_of_the_first(followed):
    study, runs = followed
    folder = work_folder(study)
    assert rig_runs(folder) == [2, 1]
    for number, run in enumerate(runs, start=1):
        points = [{n: v for n, v in line.items() if n != "event"} for line in run.lines if line["event"] == "point"]
        assert rig_points(folder, number)["points"] == json.loads(json.dumps(points))
        assert len(points) == 4
        assert "Done: 4 points kept in" in sentence(run)
        assert f"shaken-studio/rig-{number}.json, the rig is in its safe state." in sentence(run)
        kinds = [json.loads(line).get("kind") for line in journal_file(folder, number).read_text().splitlines()]
        assert kinds.count("point") == 4
    assert "Run 1: 4 points kept in shaken-studio/rig-1.json (done)" in kept_sentence(folder, 1, rig_points(folder, 1))


def test_a_range_from_above_to_below_is_followed_downwards(followed):
    up, down = ([line["value"] for line in run.lines if line["event"] == "point"] for run in followed[1])
    assert np.all(np.diff(up) > 0)
    assert np.all(np.diff(down) < 0)
    asked = request_of(FIELDS | {"low": "2", "high": "0.5"}, "s")
    assert (asked["low"], asked["high"], asked["direction"]) == (0.5, 2.0, -1)
    assert wrong_fields(FIELDS | {"low": "2", "high": "0.5"}) == {}
    assert "high" in wrong_fields(FIELDS | {"low": "2", "high": "2"})
    assert (fields_of(asked)["low"], fields_of(asked)["high"]) == ("2.0", "0.5")


def test_a_run_goes_on_from_its_last_point_in_its_own_file(followed, tmp_path):
    study = tmp_path / "shaken.toml"
    first = run_rig(study)
    folder = work_folder(study)
    before = rig_points(folder, 1)["points"]
    assert can_go_on(folder, 1)
    # The rig, the parameter and the start of the fields do not matter: they are those of the run.
    more = run_rig(study, resume=1, rig="beam", start=1.7)
    after = rig_points(folder, 1)
    assert rig_runs(folder) == [1]
    assert first.state == more.state == "done"
    assert after["points"][: len(before)] == before
    assert len(after["points"]) == len(before) + 4
    assert after["request"]["rig"] == "duffing"
    assert "8 points kept" in sentence(more)
    with pytest.raises(DataError, match="no two points"):
        follow_rig(request_of(FIELDS, str(study)) | {"resume": 7}, lambda line: None, kz.Silent())


def test_a_run_that_measures_nothing_leaves_no_file_and_no_gap(tmp_path):
    study = tmp_path / "shaken.toml"
    run = run_rig(study, parameter="omeg")
    folder = work_folder(study)
    assert run.state == "failed"
    assert "no point was measured" in sentence(run)
    assert rig_runs(folder) == []
    # The file of earlier versions is run 0 and is not written over.
    folder.joinpath("rig.json").write_text(json.dumps({"request": {"parameter": "omega"}, "points": [{"value": 1.0}]}))
    assert rig_runs(folder) == [0]
    assert new_run(folder) == 1
    assert points_file(folder, 1).is_file()
    assert last_along(folder, "omega")["points"] == [{"value": 1.0}]
    assert last_along(folder, "B") == {}


def test_every_tab_and_the_first_page_say_how_a_rig_was_left(followed):
    run, idle = followed[1][0], Run("rig", {})
    assert ended_rigs([run, idle], []) == [sentence(run)]
    other = SimpleNamespace(path=followed[0], runs={"rig": run})
    assert ended_rigs([run], [other]) == [f"shaken.toml: {sentence(run)}"]


def test_a_long_measurement_shows_how_long_it_lasts():
    assert since(1.0) == ""
    assert since(12.4) == "Measuring the next point for 12 s."
