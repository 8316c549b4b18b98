"""The command line: answers, files, help with examples, errors in one line."""

import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import kapitza as kz
from kapitza.cli import main
from kapitza.library import SYSTEMS


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    captured = capsys.readouterr()
    return int(end.value.code or 0), captured.out, captured.err


def test_demo_recovers_the_parameters_it_was_made_with(capsys, tmp_path):
    code, out, _ = run(capsys, "demo", "--periods", "5000", "--out", str(tmp_path))
    assert code == 0
    assert (tmp_path / "demo.png").read_bytes()[1:4] == b"PNG"
    assert "truth" in (tmp_path / "demo.html").read_text(encoding="utf-8")
    assert (tmp_path / "pendulum-results" / "result.json").is_file()
    rows = {line.split()[0]: re.findall(r"[-+]?[0-9.]+(?:e-[0-9]+)?", line.split(")")[1]) for line in out.splitlines()
            if line.startswith(("l (", "k2 (", "k3 ("))}  # fmt: skip
    truth = kz.library.parametric_pendulum()
    for name, (true, _, estimate, low, high, _) in rows.items():
        assert float(true) == truth.values[name]
        # twice the 95 % interval: four standard errors
        assert abs(float(estimate) - truth.values[name]) < float(high) - float(low)
    assert abs(float(rows["l"][2]) / truth.values["l"] - 1) < 1e-3


def test_the_recording_of_the_demo_does_not_depend_on_the_processor(monkeypatch):
    """Errors of rounding grow by e in every period: 1e-14 added after every stretch must not reach the recording."""
    from kapitza.cli.demo import noisy_record
    from kapitza.flow import Flow

    truth, rng, plain = kz.library.parametric_pendulum(), np.random.default_rng(1), Flow.strobe_many
    expected = noisy_record(truth, 5000)

    def other(*arguments):
        found = plain(*arguments)
        return replace(found, states=found.states + 1e-14 * rng.standard_normal(found.states.shape))

    monkeypatch.setattr(Flow, "strobe_many", other)
    assert expected.size == 5050
    assert np.abs(noisy_record(truth, 5000).values() - expected.values()).max() < 1e-10


def test_simulate_writes_what_the_library_computes(capsys, tmp_path):
    path = tmp_path / "run.csv"
    code, out, _ = run(
        capsys, "simulate", "duffing", "--periods", "3", "--samples-per-period", "10", "--set", "k=0.1",
        "--start", "x=0.5", "--out", str(path),
    )  # fmt: skip
    assert code == 0
    assert "31 samples" in out
    model = kz.library.duffing().with_values(k=0.1)
    start = [0.5, model.start["x'"]]
    expected = kz.simulate(model, start, periods=3, samples_per_period=10)
    assert np.array_equal(kz.read(path).values(), expected.values())


def test_simulate_over_time_with_seeded_noise(capsys, tmp_path):
    files = []
    for name in ("a.npz", "b.npz"):
        files.append(tmp_path / name)
        arguments = ("--duration", "1", "--interval", "0.1", "--noise", "0.1", "--seed", "4", "--out", str(files[-1]))
        assert run(capsys, "simulate", "lorenz", *arguments)[0] == 0
    one, two = (kz.read(path) for path in files)
    assert len(one) == 11
    assert np.array_equal(one.values(), two.values())
    assert one.noise == {"x": 0.1, "y": 0.1, "z": 0.1}


def test_model_files_are_simulated(capsys, tmp_path):
    path = tmp_path / "rig.toml"
    kz.write_model(kz.library.duffing(), path)
    code, _, _ = run(capsys, "simulate", str(path), "--periods", "2", "--out", str(tmp_path / "a.csv"))
    assert code == 0
    assert run(capsys, "models", str(path))[0] == 0


def test_models_are_listed_and_shown(capsys):
    code, out, _ = run(capsys, "models")
    assert code == 0
    for make in SYSTEMS:
        assert make.__name__ in out
    for make in SYSTEMS:
        code, out, _ = run(capsys, "models", make.__name__)
        assert code == 0
        for parameter in make().parameters:
            assert parameter.name in out
    assert "Source:" in out


def test_inspect_reports_gaps(capsys, tmp_path):
    path = tmp_path / "run.csv"
    path.write_text("t,x\n0,1\n1,2\n2,3\n5,4\n6,5\n")
    code, out, _ = run(capsys, "inspect", str(path), "--plot", str(tmp_path / "run.png"))
    assert code == 0
    assert "1 gaps, 2 samples missing" in out
    assert (tmp_path / "run.png").exists()


ERRORS = {
    "simulate dufing --periods 5 --out a.csv": 'Did you mean "duffing"',
    "simulate duffing --out a.csv": "--periods 1000",
    "simulate lorenz --out a.csv": "--duration 100",
    "simulate duffing --periods 5 --duration 3 --out a.csv": "not both",
    "simulate duffing --periods 5 --set kk=1 --out a.csv": 'no parameter "kk"',
    "simulate duffing --periods 5 --set k --out a.csv": "NAME=VALUE",
    "simulate duffing --periods 5 --set k=[red]fast --out a.csv": "k=[red]fast",
    "simulate duffing --periods 5 --start y=1 --out a.csv": 'no state "y"',
    "simulate duffing --periods 5 --out a.xlsx": "suffix",
    "simulate duffing --periods -5 --out a.csv": "periods",
    "simulate lorenz --duration -1 --out a.csv": "positive",
    "simulate no_such.toml --periods 5 --out a.csv": "no_such.toml",
    "models pendulm": 'has no model "pendulm"',
    "inspect missing.csv": "There is no file missing.csv",
}


@pytest.mark.parametrize(("line", "message"), ERRORS.items())
def test_errors_are_one_line_without_traceback(capsys, tmp_path, monkeypatch, line, message):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(capsys, *line.split())
    assert code == 2
    assert err.startswith("Error: ")
    assert message in err
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


COMMANDS = (
    "demo", "example", "inspect", "new", "check", "identify", "compare", "predict", "report", "orbits", "models",
    "simulate", "schema", "suggest", "validate", "follow", "diagram", "frequency-response", "profile", "posterior",
    "ensemble",
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches_with_examples(capsys, command):
    code, out, _ = run(capsys, command, "--help")
    assert code == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", out)
    assert "Examples" in plain
    assert f"kapitza {command}" in plain


def test_python_dash_m(tmp_path):
    answer = subprocess.run(
        [sys.executable, "-m", "kapitza", "--version"], capture_output=True, text=True, check=True, timeout=600
    )
    assert answer.stdout.strip() == f"kapitza {kz.__version__}"


def test_the_version_does_not_wait_for_libraries():
    code = (
        "import sys; from kapitza.cli import main\n"
        "try: main(['--version'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'numpy', 'scipy', 'sympy', 'pandas', 'heyoka', 'matplotlib', 'xarray'} & set(sys.modules)))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600)
    assert answer.stdout.splitlines() == [f"kapitza {kz.__version__}", "[]"]


def test_validate_tells_how_far_a_model_predicts(capsys, tmp_path):
    model = kz.Model.from_equations("x'' + c*x' + x = 0", parameters={"c": 0.01}, start={"x": 1.0, "x'": 0.0})
    kz.write_model(model, tmp_path / "rig.toml")
    record = kz.measure(kz.simulate(model, t=np.arange(600) * 0.1).select(["x"]), noise=0.01, seed=1)
    kz.write(record, tmp_path / "run.csv")
    files = [str(tmp_path / name) for name in ("rig.toml", "run.csv", "a.png")]
    code, out, _ = run(capsys, "validate", *files[:2], "--plot", files[2])
    assert code == 0
    assert "follows to the noise" in " ".join(out.split())
    assert (tmp_path / "a.png").stat().st_size > 1000
    kz.write_model(model.with_values(c=0.05), tmp_path / "rig.toml")
    code, out, _ = run(capsys, "validate", *files[:2])
    assert code == 3
    assert "rejected" in out
