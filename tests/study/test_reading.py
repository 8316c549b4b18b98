"""Study files: everything that is wrong is named at once, with its line."""

import json
import os
from importlib.resources import files

import numpy as np
import pytest

import kapitza as kz
from cart_study import CART as GOOD
from kapitza.study import StudyError, json_schema, read_study
from kapitza.study.problems import line_of


@pytest.fixture
def folder(tmp_path):
    model = kz.Model.from_equations(
        "x'' + c*x' + k*x = 0", parameters={"c": 0.3, "k": 4.0}, start={"x": 1.0, "x'": 0.0}
    )
    clean = kz.simulate(model, t=np.linspace(0, 20, 401))
    kz.write(kz.measure(clean, noise=0.01, seed=1), tmp_path / "run.csv")
    return tmp_path


def write(folder, text, name="cart.toml"):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def problems(folder, text):
    with pytest.raises(StudyError) as caught:
        read_study(write(folder, text))
    return caught.value.problems


def test_a_good_study_is_read_relative_to_itself(folder, monkeypatch):
    path = write(folder, GOOD)
    monkeypatch.chdir("/")
    study = read_study(path)
    assert study.title == "A cart"
    assert study.candidates[0].free == ("c", "k")
    assert study.recordings[0].record.channels == ("x",)
    assert study.folder == folder / "cart-results"
    assert study.hold_back == 0.25


def test_all_problems_come_at_once_with_their_lines(folder):
    text = GOOD.replace("hold_back = 0.25", 'hold_back = 2.5\nmethod = "shoting"').replace('"k"]', '"kk"]')
    text = text.replace('["x"]', '["y"]').replace('title = "A cart"', 'titel = "A cart"\nseed = "one"')
    found = problems(folder, text)
    lines = {problem.line: problem.message for problem in found}
    assert len(found) == 6
    assert 'no key "titel". Did you mean "title"?' in lines[1]
    assert "must be a whole number, not 'one'" in lines[2]
    assert 'no column "y"' in lines[10]
    assert 'no parameter "kk"' in lines[13]
    assert "not a share of a recording" in lines[14]
    assert 'Did you mean "shooting"?' in lines[15]


WRONG = {
    "no model": (GOOD[GOOD.index("[data]") :], 0, "there is no [model]"),
    "two sources": (GOOD.replace("[model]", '[model]\nlibrary = "duffing"'), 3, "library, equations"),
    "unknown library": (
        GOOD.replace("""equations = ["x'' + c*x' + k*x = 0"]\nparameters = {c = 0.2, k = 3.0}""", 'library = "dufing"'),
        4,
        'Did you mean "duffing"?',
    ),
    "equation": (GOOD.replace("k*x = 0", "k*y = 0"), 4, "y"),
    "no file": (GOOD.replace("run.csv", "walk.csv"), 8, "There is no file"),
    "not toml": (GOOD.replace("free = [", "free = "), 12, "not valid TOML"),
    "many digits": ("seed = 1" + "0" * 5000 + "\n" + GOOD, 0, "too many digits"),
    "nested": ("seed = " + "[" * 5000 + "]" * 5000 + "\n" + GOOD, 0, "nested too deeply"),
    "bounds": (GOOD + "[fit.bounds]\nc = [1.0, 0.0]\n", 15, "bounds"),
    "start outside": (GOOD + "[fit.bounds]\nk = [5.0, 9.0]\n", 15, "outside its bounds"),
    "start outside its own": (GOOD.replace("c = 0.2", "c = {value = -3.0, bounds = [0.0, inf]}"), 5, "-3, outside"),
    "start outside the library": (
        GOOD.replace("""equations = ["x'' + c*x' + k*x = 0"]\nparameters = {c = 0.2, k = 3.0}""",
                     'library = "henon_heiles"\nvalues = {m1 = -1.0}').replace('"c", "k"', '"m1"'), 5,
        "m1 starts at -1, outside"),
    "free in no equation": (
        GOOD.replace("k = 3.0", "k = 3.0, b = 2.0").replace('"k"]', '"k", "b"]'), 5,
        "b does not stand in the equations of model 1"),
    "prior of nothing": (GOOD + "[fit.priors]\nm = {mean = 1.0, deviation = 0.1}\n", 15, 'has a parameter "m"'),
    "settings": (GOOD + "[fit.shooting]\nsoftnes = 0.1\n", 15, 'Did you mean "softness"?'),
    "setting out of range": (GOOD + "[fit.harmonic]\noverlap = 1\n", 14, "= 1; give a whole number, 2 or more"),
    "level": (GOOD + "[output]\nlevel = 95\n", 15, "between 0 and 1"),
    "folder": (GOOD + '[output]\nfolder = "."\n', 15, "holds the study itself"),
    "foreign folder": (GOOD + '[output]\nfolder = "taken"\n', 15, "not results of a study"),
    "free and set": (GOOD.replace("[fit]", "values = {k = 2.0}\n[fit]"), 11, "k is free"),
    "measure": (GOOD.replace("[fit]", 'measures = {x = "2*z"}\n[fit]'), 11, "z"),
    "only checks": (GOOD.replace("[fit]", 'use = "check"\n[fit]'), 11, "every recording is there to check"),
    "no free": (GOOD.replace('free = ["c", "k"]\n', ""), 11, "name the parameters to find"),
    "no value": (GOOD.replace('"c", "k"', '"c"').replace(", k = 3.0", ", k = {unit = \"N/m\"}"), 3, "k has no value"),
}  # fmt: skip


@pytest.mark.parametrize("case", list(WRONG))
def test_each_problem_names_its_line_and_a_cure(folder, case):
    text, line, said = WRONG[case]
    (folder / "taken").mkdir()
    (folder / "taken" / "thesis.txt").write_text("precious")
    found = problems(folder, text)
    assert [problem.line for problem in found if said in problem.message] == [line]


DRIVEN = """\
[[model]]
name = "driven"
equations = ["x'' + c*x' + k*x = u"]
parameters = {c = 0.2, k = 3.0}
[[model]]
name = "driven and stiff"
equations = ["x'' + c*x' + k*x + k3*x**3 = u"]
parameters = {c = 0.2, k = 3.0, k3 = 1.0}
free = ["c", "k", "k3"]
[data]
file = "driven.csv"
channels = ["x"]
drive = ["u"]
[fit]
free = ["c", "k"]
[fit.bounds]
k3 = [0.0, 9.0]
"""


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("k3*x**3 = u", "k3*(x**3 = u", '"(" is not closed before "="'),
        ('"driven.csv"', '"gone.csv"', "There is no file"),
        ("[fit]", "to = -5.0\n[fit]", "No samples from"),
        ('channels = ["x"]', 'channels = ["z"]', 'no column "z"'),
    ],
)
def test_one_mistake_is_one_problem(folder, right, wrong, said):
    """The drive of a recording that cannot be read is not an unknown name; bounds may be those of a wrong candidate."""
    time = np.linspace(0, 20, 401)
    record = kz.Record.from_arrays(time, {"x": np.sin(time), "u": np.cos(time)})
    kz.write(record, folder / "driven.csv")
    assert len(read_study(write(folder, DRIVEN)).candidates) == 2
    (problem,) = problems(folder, DRIVEN.replace(right, wrong, 1))
    assert said in problem.message


def test_files_of_windows_are_read_and_bytes_of_another_encoding_named_with_their_line(folder):
    path = folder / "rig.toml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert kz.read_study(path).candidates[0].free == ("c", "k")
    path.write_bytes(GOOD.encode().replace(b"[data]", b"# gr\xf6sse\n[data]"))
    with pytest.raises(kz.StudyError, match=r"line 7: .*not UTF-8"):
        kz.read_study(path)


def test_lines_of_values_over_several_lines_and_of_tables_in_lists():
    text = 'a = 1\n\n[[model]]\nname = "one"\n[[model]]\nequations = [\n  "x",\n  "y",\n]\nvalues = {p = 1, q = 2}\n'
    assert line_of(text, ("a",)) == 1
    assert line_of(text, ("model", 0, "name")) == 4
    assert line_of(text, ("model", 1)) == 5
    assert line_of(text, ("model", 1, "equations")) == 6
    assert line_of(text, ("model", 1, "values", "q")) == 10
    assert line_of(text, ("model", 1, "free")) == 5  # a missing key: its table
    assert line_of(text, ("fit", "free")) == 0


def test_the_schema_that_is_shipped_is_the_one_that_is_checked():
    shipped = json.loads(files("kapitza.study").joinpath("study.schema.json").read_text(encoding="utf-8"))
    assert shipped == json_schema()
    fit = shipped["properties"]["fit"]["properties"]
    assert "softness" in fit["shooting"]["properties"]
    assert shipped["additionalProperties"] is False


def test_a_phase_channel_gives_period_and_phase(tmp_path):
    time = np.arange(0, 50, 0.01)
    start, period = 0.37, 0.83
    drive = np.sin(2 * np.pi * (time - start) / period)
    record = kz.Record.from_arrays(time, {"x": np.cos(time), "drive": drive})
    kz.write(record, tmp_path / "run.csv")
    text = GOOD.replace("[fit]", 'phase_channel = "drive"\n[fit]')
    found = read_study(write(tmp_path, text)).recordings[0].record
    assert found.channels == ("x",)
    assert found.period == pytest.approx(period, rel=1e-5)
    assert found.phase == pytest.approx((0 - start) % period, abs=1e-3)


def test_a_phase_channel_that_marks_nothing_is_refused(tmp_path):
    time = np.arange(0, 50, 0.01)
    edge = np.where(np.random.default_rng(1).standard_normal(time.size) > 0, 1.0, 0.0)
    kz.write(kz.Record.from_arrays(time, {"x": np.cos(time), "edge": edge, "once": time}), tmp_path / "run.csv")
    found = problems(tmp_path, GOOD.replace("[fit]", 'phase_channel = "edge"\n[fit]'))
    assert "does not mark a steady excitation" in found[0].message
    assert found[0].line == 11
    found = problems(tmp_path, GOOD.replace("[fit]", 'phase_channel = "once"\n[fit]'))
    assert "at least 3 rising edges" in found[0].message


def test_thinning_keeps_segments_and_the_clock(tmp_path):
    time = np.concatenate([np.arange(100) * 0.1, 50 + np.arange(100) * 0.1])
    segment = np.repeat([0, 1], 100)
    record = kz.Record.from_arrays(time, {"x": np.sin(time)}, segment=segment, phase=0.05, period=2.0)
    kz.write(record, tmp_path / "run.csv")
    found = read_study(write(tmp_path, GOOD.replace("[fit]", "every = 10\nfrom = 1.0\n[fit]"))).recordings[0].record
    assert len(found.segments()) == 2
    assert found.time[0] == pytest.approx(1.0)
    assert np.allclose(np.diff(found.time[found.segments()[1]]), 1.0)
    assert found.excitation_start == pytest.approx(-0.05)


def test_example_studies_say_their_units():
    """Wherever a state of an example has a unit, its recording states one too."""
    import tomllib

    from conftest import ROOT

    found = 0
    for path in sorted((ROOT / "examples" / "studies").glob("*.toml")):
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        tables = content["model"] if isinstance(content["model"], list) else [content["model"]]
        data = content["data"] if isinstance(content["data"], list) else [content["data"]]
        wanted = {n: c.get("unit") for t in tables for n, c in t.get("coordinates", {}).items() if not c.get("angle")}
        for table in data:
            stated = table.get("units", {})
            missing = [name for name, unit in wanted.items() if unit and name not in stated]
            assert missing == [], path.name
            found += len(wanted)
    assert found


def test_gaps_are_cut_where_asked_and_a_drive_is_not_invented_in_them(folder):
    time = np.delete(np.arange(400) * 0.05, slice(150, 180))
    table = np.column_stack([time, np.cos(2 * time), np.sin(time)])
    np.savetxt(folder / "run.csv", table, delimiter=",", header="t,x,F", comments="")
    one = read_study(write(folder, GOOD)).recordings[0].record
    assert len(one.segments()) == 1
    text = GOOD.replace("[fit]", 'gaps = "split"\n[fit]')
    two = read_study(write(folder, text)).recordings[0].record
    assert [piece.stop - piece.start for piece in two.segments()] == [150, 220]
    driven = GOOD.replace("k*x = 0", "k*x = F").replace("[fit]", 'drive = ["F"]\n[fit]')
    driven = driven.replace('channels = ["x"]', 'channels = ["x", "F"]')
    said = "\n".join(p.message for p in problems(folder, driven))
    assert 'what "F" did there is not known' in said
    kept = read_study(write(folder, driven.replace("[fit]", 'gaps = "split"\n[fit]'))).recordings[0].record
    assert len(kept.segments()) == 2


def test_a_study_is_checked_from_text_without_its_file(folder):
    study = read_study(folder / "new.toml", text=GOOD)
    assert study.text == GOOD
    assert not (folder / "new.toml").exists()
    with pytest.raises(StudyError) as caught:
        read_study(folder / "new.toml", text=GOOD + "\nfree = [")
    assert caught.value.problems[0].line == GOOD.count("\n") + 2
    with pytest.raises(StudyError, match="valid TOML") as caught:
        read_study(folder / "new.toml", text="seed = 3 4")
    assert (caught.value.problems[0].line, caught.value.problems[0].column) == (1, 10)


def test_problems_have_the_place_of_their_field(folder):
    """Each wrong value leads to the keys of its own field, and equations to the column in their text."""
    model = '[model]\nequations = ["x\' = v", "v\' + c*v + k x = 0"]\nparameters = {c = 0.1, k = "2*+"}\n'
    text = model + '[data]\nfile = "run.csv"\nchannels = ["x"]\n[fit]\nfree = ["c"]\nbounds = {c = [1, 2]}\n'
    (found,) = problems(folder, text)
    assert (found.table, found.key, found.place) == ("model", "k", ("model", 0, "parameters", "k"))
    assert found.line == 3
    (found,) = problems(folder, text.replace('"2*+"', "2.0"))
    assert found.place == ("model", 0, "equations", 1)
    assert found.column == "v' + c*v + k x = 0".index("k x") + 1 + 2
    (found,) = problems(folder, text.replace('"2*+"', "2.0").replace("k x", "k*x"))
    assert (found.place, found.line) == (("fit", "bounds", "c"), 9)


def test_records_are_kept_between_checks_until_their_file_changes(folder, monkeypatch):
    from kapitza.study import KeptRecords, recordings, study_of

    kept, read = KeptRecords(), []
    plain = recordings.read
    monkeypatch.setattr(recordings, "read", lambda path, **more: read.append(path) or plain(path, **more))
    first = study_of(folder / "cart.toml", GOOD, kept)
    again = study_of(folder / "cart.toml", GOOD.replace("0.25", "0.5"), kept)
    assert len(read) == 1
    assert np.array_equal(first.recordings[0].record["x"], again.recordings[0].record["x"])
    content = (folder / "run.csv").read_text().splitlines()
    (folder / "run.csv").write_text("\n".join(content[:-5]))
    assert study_of(folder / "cart.toml", GOOD, kept).recordings[0].record.size == first.recordings[0].record.size - 5


def test_folders_of_recordings_are_read_again(folder):
    """A store that grows inside has the same folder as before."""
    from kapitza.study import KeptRecords

    grid, kept = np.arange(20) * 0.1, KeptRecords()
    kz.write(kz.Record.from_arrays(grid, {"x": np.zeros(20)}), folder / "log.zarr")
    assert kept.read(folder / "log.zarr").size == 20
    status = (folder / "log.zarr").stat()
    kz.write(kz.Record.from_arrays(grid, {"x": np.ones(20)}), folder / "log.zarr")
    os.utime(folder / "log.zarr", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert kept.read(folder / "log.zarr")["x"][0] == 1.0


def test_orbits_are_left_out_by_period_and_letter(folder):
    from kapitza.errors import DataError
    from kapitza.study import orbit_labels, without_excluded

    study = read_study(write(folder, GOOD.replace("hold_back = 0.25", 'exclude = ["1a", "3b"]')))
    assert study.exclude == ("1a", "3b")
    (found,) = problems(folder, GOOD.replace("hold_back = 0.25", 'exclude = ["b3"]'))
    assert found.place == ("fit", "exclude")
    logistic = kz.Model.from_map({"x": "1 - a*x**2"}, parameters={"a": 1.99})
    orbits = kz.find_orbits(logistic, max_period=3, region={"x": (-2, 2)}, starts=256)
    assert orbit_labels(orbits) == ["1a", "1b", "2a", "3a", "3b"]
    assert orbit_labels(without_excluded(orbits, study.exclude)) == ["1a", "2a", "3a"]
    assert without_excluded(orbits, study.exclude)[0] is orbits[1]
    with pytest.raises(DataError, match="1a, 1b, 2a, 3a, 3b"):
        without_excluded(orbits, ["4a"])


def test_an_accelerometer_is_measured_by_the_name_of_the_acceleration(folder):
    text = GOOD.replace('["x"]', '{x = "acc"}').replace("[fit]", "measures = {acc = \"x''\"}\n\n[fit]")
    assert read_study(write(folder, text)).recordings[0].outputs == {"acc": "x''"}
    third = problems(folder, text.replace("x''\"}", "x'''\"}"))
    assert "x'''" in third[0].message


def test_a_parameter_of_a_sensor_or_of_the_excitation_is_not_idle(folder):
    """What stands in a measured expression or an output is found from the data, outside of the equations."""
    text = GOOD.replace("k = 3.0", "k = 3.0, b = 2.0").replace('"k"]', '"k", "b"]')
    assert (
        read_study(write(folder, text.replace("[fit]", 'measures = {x = "b*x"}\n[fit]'))).candidates[0].free[-1] == "b"
    )
    driven = text.replace("[data]", 'excitation = {period = "2*pi/b"}\n[data]')
    assert read_study(write(folder, driven)).candidates[0].free[-1] == "b"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("to = 90.0", "to = 90 "),
        ("from = -3.0", "from = -3 "),
        ("hold_back = [[15.0, 60.0]]", "hold_back = [[15, 60]] "),
    ],
)
def test_a_span_that_reaches_beyond_the_recording_is_said(folder, given, said):
    found = read_study(write(folder, GOOD.replace("[fit]", f"{given}\n[fit]"))).warnings()
    assert [text for text in found if said in text and "spans 0 to 20 s" in text] == [
        f"run.csv: {said}reaches beyond the recording, which spans 0 to 20 s: give times inside of it."
    ]


def test_a_span_that_ends_with_the_recording_is_not_beyond_it(folder):
    inside = "from = 0\nto = 20.05\nhold_back = [[15.0, 20.1]]"
    found = read_study(write(folder, GOOD.replace("[fit]", f"{inside}\n[fit]"))).warnings()
    assert not any("beyond" in text for text in found)


def test_a_span_wholly_outside_is_refused_with_that_of_the_recording(folder):
    (problem,) = problems(folder, GOOD.replace("[fit]", "to = -1.0\n[fit]"))
    assert problem.place == ("data", 0, "to")
    assert "the record spans 0 to 20 s. Give times inside of it." in problem.message
