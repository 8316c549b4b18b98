"""Studies on the command line: from a recording to a report, with exit codes that mean something."""

import json
import signal
import subprocess
import sys

import numpy as np
import pytest

import kapitza as kz
from kapitza.cli import main


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return int(end.value.code or 0), captured.out, captured.err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    model = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.3, "k": 9.0})
    clean = kz.simulate(model, [1.0, 0.0], t=np.linspace(0, 10, 501))
    kz.write(kz.measure(clean.select(["x"]), noise=0.005, seed=1), folder / "cart.csv")
    return folder


def test_workers_and_clusters_that_are_not_there(capsys, folder):
    code, _, err = run(capsys, "identify", folder / "cart.csv", "--workers", 2, "--scheduler", "tcp://127.0.0.1:1")
    assert code
    assert "not both" in err
    for address in ("no address", "tcp://127.0.0.1:1", "tcp://127.0.0.1:99999999"):
        code, _, err = run(capsys, "identify", folder / "cart.csv", "--scheduler", address)
        assert code
        assert f"No dask scheduler answers at {address}" in err


def test_a_report_of_a_foreign_folder_leaves_no_lock_beside_it(capsys, tmp_path, monkeypatch):
    def locked(path):
        raise AssertionError(path)

    monkeypatch.setattr("kapitza.study.folder.locked", locked)
    (tmp_path / "mine").mkdir()
    for place in (tmp_path / "mine", "/dev/null"):
        code, _, err = run(capsys, "report", place)
        assert (code, "is not a results folder of a study" in err) == (2, True)


def test_from_a_recording_to_a_report(capsys, folder):
    study = folder / "cart.toml"
    code, out, _ = run(capsys, "new", folder / "cart.csv")
    assert (code, study.is_file()) == (0, True)
    code, out, _ = run(capsys, "check", study)
    assert code == 0
    assert "No problems" in out
    code, out, _ = run(capsys, "identify", study)
    assert code == 0
    assert out.startswith("c = 0.3")
    assert "report.html" in out
    assert "Nothing is missing" in out
    assert (folder / "cart-results" / "report.html").is_file()
    code, out, _ = run(capsys, "identify", study, "--json")
    answer = json.loads(out)
    values = {row["parameter"]: row["value"] for row in answer["parameters"] if row["method"] == "auto"}
    assert values["k"] == pytest.approx(9.0, rel=0.01)
    code, out, _ = run(capsys, "report", folder / "cart-results", "--out", folder / "again.html")
    assert code == 0
    assert (folder / "again.html").is_file()
    code, out, _ = run(capsys, "predict", study, "--duration", 3, "--interval", 0.1, "--out", folder / "next.csv")
    assert code == 0
    model = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.3, "k": 9.0})
    whole = kz.simulate(model, [1.0, 0.0], t=np.linspace(0, 13, 131))
    table = np.genfromtxt(folder / "next.csv", delimiter=",", skip_header=1)
    assert np.allclose(table[:, 0], whole.time[100:])
    assert np.abs(table[:, 1] - whole["x"][100:]).max() < 0.01
    assert (table[5:, 2] < table[5:, 3]).all()
    fit = next((folder / "cart-results" / "fits").glob("*auto*[0-9a-f].nc"))
    for source in (folder / "cart-results", fit):
        command = ["predict", source, "--duration", 3, "--interval", 0.1, "--start", "x=1", "--out", folder / "own.csv"]
        assert run(capsys, *command)[0] == 0
        own = np.genfromtxt(folder / "own.csv", delimiter=",", skip_header=1)
        assert np.abs(own[:, 1] - whole["x"][:31]).max() < 0.01
    for source in (study, folder / "cart-results", fit):
        code, out, _ = run(capsys, "suggest", source)
        assert (code, "Nothing is missing" in out) == (0, True)
    for source in (study, folder / "cart-results", fit):
        code, out, _ = run(capsys, "validate", source, folder / "cart.csv")
        assert (code, "follows to the noise" in " ".join(out.split())) == (0, True)
    code, _, err = run(capsys, "suggest", study, "--fit", "cartt")
    assert (code, "There is no fit" in err) == (2, True)


def test_check_lists_problems_for_people_and_programs(capsys, folder):
    path = folder / "bad.toml"
    path.write_text('[model]\nlibrary = "dufing"\n[data]\nfile = "gone.csv"\n')
    code, _, err = run(capsys, "check", path)
    assert code == 1
    assert "line 2" in err
    assert "line 4" in err
    code, out, _ = run(capsys, "check", path, "--json")
    assert code == 1
    assert [p["line"] for p in json.loads(out)["problems"]] == [2, 4]
    code, _, err = run(capsys, "identify", path)
    assert code == 2
    assert "2 problems" in err


def test_compare_needs_candidates(capsys, folder):
    path = folder / "one.toml"
    path.write_text('[model]\nequations = ["x\'\' + c*x\' + k*x = 0"]\nparameters = {c = 0.1, k = 8.0}\n'
                    '[data]\nfile = "cart.csv"\n[fit]\nfree = ["c", "k"]\nmethod = "shooting"\n')  # fmt: skip
    code, _, err = run(capsys, "compare", path)
    assert code == 2
    assert "[[model]]" in err
    text = path.read_text().replace("[model]", '[[model]]\nname = "damped"')
    text = '[[model]]\nname = "free"\nequations = ["x\'\' + k*x = 0"]\nparameters = {k = 9.0}\nfree = ["k"]\n' + text
    path.write_text(text)
    code, out, _ = run(capsys, "compare", path)
    assert code == 0
    assert "damped explains the data best" in out
    assert "weight" in out


def test_no_answer_is_exit_code_1(capsys, folder):
    path = folder / "wrong.toml"
    path.write_text('[model]\nequations = ["x\'\' + c*x\' = 0"]\nparameters = {c = 0.1}\n'
                    '[data]\nfile = "cart.csv"\n[fit]\nfree = ["c"]\nmethod = "shooting"\n')  # fmt: skip
    code, out, _ = run(capsys, "identify", path)
    assert code == 1
    assert "No fit succeeded" in out


def test_orbits_of_a_recording(capsys, tmp_path):
    henon = kz.Model.from_map({"x": "1 - a*x**2 + y", "y": "b*x"}, parameters={"a": 1.4, "b": 0.3})
    record = kz.simulate(henon, [0.1, 0.1], periods=4000)
    kz.write(record.with_attributes(period=1.0), tmp_path / "run.csv")
    code, out, _ = run(capsys, "orbits", tmp_path / "run.csv", "--max-period", 2, "--json")
    answer = json.loads(out)
    assert code == 0
    # the map has one fixed point on its attractor, x = (b - 1 + sqrt((1 - b)² + 4a))/(2a), and one orbit of period 2
    assert sorted(row["periods"] for row in answer["orbits"]) == [1, 2]
    fixed = next(row for row in answer["orbits"] if row["periods"] == 1)
    assert float(fixed["first point"].split(",")[0]) == pytest.approx(0.631354, abs=1e-3)


STOPPED = """
import signal, sys
seen = []
def press(event, arguments):
    if seen == ["fit"] and event == "open":
        seen.append("pressed")
        signal.raise_signal(signal.SIGINT)
    elif not seen and event == "os.rename" and "fits" in str(arguments[1]) and str(arguments[1]).endswith(".checks.nc"):
        seen.append("fit")
sys.addaudithook(press)
from kapitza.cli import main
main(sys.argv[1:])
"""
"""The command line; Ctrl-C is pressed at the first file that is opened after the first fit was written."""


def test_ctrl_c_ends_with_130_and_resume_ends_the_run(capsys, folder, tmp_path):
    (tmp_path / "cart.csv").write_bytes((folder / "cart.csv").read_bytes())
    text = '[[model]]\nname = "{0}"\nequations = ["x\'\' + c*x\' + k*x + k{0}*x**{0} = 0"]\n' \
           'parameters = {{c = 0.1, k = 8.0, k{0} = 0.0}}\nfree = ["c", "k", "k{0}"]\n'  # fmt: skip
    models = "".join(text.format(power) for power in (3, 5))
    (tmp_path / "many.toml").write_text(models + '[data]\nfile = "cart.csv"\n[fit]\nmethod = "shooting"\n')
    command = ["identify", str(tmp_path / "many.toml"), "--quiet"]
    started = subprocess.run(
        [sys.executable, "-c", STOPPED, *command],
        capture_output=True,
        text=True,
        timeout=600,
        # A job in the background inherits that Ctrl-C is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    err = started.stderr
    assert started.returncode == 130
    assert "--resume" in err
    assert not (tmp_path / "many-results").exists()
    assert run(capsys, *command, "--resume")[0] == 0
    assert len(kz.read_results(tmp_path / "many-results").succeeded) == 2


@pytest.mark.parametrize("mode", ["--quiet", "--json"])
def test_what_looks_like_another_unit_is_said_in_every_mode(capsys, folder, mode):
    time = np.linspace(0, 10, 501)
    table = np.column_stack([1000 * time, np.exp(-0.15 * time) * np.cos(3 * time)])
    np.savetxt(folder / "fast.csv", table, delimiter=",", header="t,x", comments="")
    text = """
[model]
equations = ["x'' + c*x' + k*x = 0"]
parameters = {c = 0.2, k = 9.0}
[data]
file = "fast.csv"
[fit]
free = ["c", "k"]
method = "harmonic"
"""
    (folder / "fast.toml").write_text(text, encoding="utf-8")
    _, out, err = run(capsys, "identify", folder / "fast.toml", mode)
    assert 'units = {t = "ms"}' in err
    if mode == "--json":
        assert 'units = {t = "ms"}' in json.loads(out)["before"][0]
        code, out, _ = run(capsys, "check", folder / "fast.toml", "--json")
        assert code == 0
        assert 'units = {t = "ms"}' in json.loads(out)["warnings"][0]


def test_verdict_is_said_everywhere_and_a_miss_is_exit_code_3(capsys, folder):
    truth = kz.Model.from_equations("x'' + c*x' + k*x + q*x**3 = 0", parameters={"c": 0.3, "k": 9.0, "q": 8.0})
    clean = kz.simulate(truth, [1.0, 0.0], t=np.linspace(0, 10, 501))
    kz.write(kz.measure(clean.select(["x"]), noise=0.005, seed=1), folder / "hard.csv")
    text = (
        "[model]\nequations = [\"x'' + c*x' + k*x = 0\"]\nparameters = {c = 0.3, k = 9.0}\n"
        '[data]\nfile = "FILE"\n[fit]\nfree = ["c", "k"]\nmethod = "shooting"\n'
    )
    for name, code, words in (("cart", 0, "follows the data to the noise"), ("hard", 3, "misses the data by")):
        (folder / f"verdict-{name}.toml").write_text(text.replace("FILE", f"{name}.csv"))
        ended, out, _ = run(capsys, "identify", folder / f"verdict-{name}.toml", "-q")
        assert ended == code
        assert f"the model {words}" in " ".join(out.split())
        results = folder / f"verdict-{name}-results"
        kept = json.loads((results / "result.json").read_text())
        assert kept["misses"] is (code == 3)
        assert all(words in said for said in kept["follows"].values())
        assert words in (results / "parameters.csv").read_text()
        assert words in (results / "report.html").read_text()
