"""The command line against bad options, poor terminals, names that steer them, and Ctrl-C at any time."""

import os
import signal
import subprocess
import sys

import pytest

import kapitza as kz
from kapitza.cli import main
from processes import wait_until_at_work


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    captured = capsys.readouterr()
    return int(end.value.code or 0), captured.out, captured.err


ERRORS = {
    "simulate duffing --periods 5 --noise 0.1 --seed -1 --out a.csv": "seed = -1",
    "simulate duffing --periods 5 --seed -1 --out a.csv": "seed = -1",
    "rig serve duffing --seed -1": "seed = -1",
    "simulate duffing --periods 5 --set self=1 --out a.csv": 'no parameter "self"',
    "simulate duffing --periods 99999999999 --out a.csv": "at most 200000000",
    "simulate lorenz --duration 1e300 --interval 1e-300 --out a.csv": "at most 200000000",
    "simulate duffing --periods 5 --start x=nan --out a.csv": "finite",
}


@pytest.mark.parametrize(("line", "message"), ERRORS.items())
def test_bad_options_are_refused_in_one_line(capsys, tmp_path, monkeypatch, line, message):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(capsys, *line.split())
    assert code == 2
    assert message in err
    assert err.startswith("Error: ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("period", ["1e300", "1e-300", "nan", "-1"])
def test_inspect_with_an_absurd_period(capsys, tmp_path, period):
    path = tmp_path / "run.csv"
    path.write_text("t,x\n" + "".join(f"{i / 100},{(i * i) % 17}\n" for i in range(400)))
    code, out, err = run(capsys, "inspect", str(path), "--period", period)
    assert code in (0, 2)
    assert "Traceback" not in out + err


def test_names_cannot_steer_the_terminal(capsys, tmp_path):
    path = tmp_path / "run.csv"
    path.write_bytes(b"t,x\x1b]0;owned\x07\x1b[2J [m]\n0,1\n1,2\n2,4\n")
    code, out, err = run(capsys, "inspect", str(path), "--channel", "x\x1b]0;owned\x07\x1b[2J")
    assert code == 0
    assert "\x1b]0" not in out + err
    assert "\x07" not in out
    assert "\\x1b" in out
    code, out, err = run(capsys, "models", "\x1b[31mred")
    assert code == 2
    assert "\x1b[31mred" not in err


def started(*arguments: str, program: tuple[str, ...] = ("-m", "kapitza"), **environment: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, *program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
        # A shell's background jobs ignore SIGINT, and so would the command started from a test among them.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def test_ascii_terminals(tmp_path):
    kz.write(
        kz.data.Record.from_arrays([0.0, 1.0, 2.0], {"φ": [0.0, 1.0, 4.0]}, units={"φ": "rad"}), tmp_path / "a.csv"
    )
    with started("inspect", str(tmp_path / "a.csv"), PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C") as command:
        out, err = command.communicate(timeout=600)
    assert command.returncode == 0, err
    assert b"\\u03c6" in out


@pytest.mark.parametrize(
    ("module", "caught"),
    [
        ("kapitza.cli.app", "()"),
        ("kapitza.flow", "()"),
        ("kapitza.cli.console", "()"),
        (
            "heyoka._core heyoka.core",
            "KeyboardInterrupt",
        ),  # pybind11 raises this error from that of a module that it loads
    ],
)
def test_ctrl_c_while_loading_is_no_traceback(module, caught, tmp_path):
    program = f"""
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Stopping:
    def find_spec(self, name, path=None, target=None):
        if name in {module.split()!r}:
            try:
                signal.raise_signal(signal.SIGINT)
            except {caught} as stop:
                raise ImportError("initialization failed") from stop
sys.meta_path.insert(0, Stopping())
from kapitza.cli import main
main(["simulate", "duffing", "--periods", "5", "--out", "a.csv"])
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, cwd=tmp_path, timeout=600, check=False)
    assert ended.returncode == 130
    assert b"Traceback" not in ended.stderr
    assert not list(tmp_path.iterdir())


def test_ctrl_c_while_working(tmp_path):
    program = """
import kapitza.cli.app, kapitza.flow, sys
from kapitza.cli import main
print("loaded", flush=True)
main(sys.argv[1:])
"""
    line = ["simulate", "duffing", "--periods", "100000000", "--out", str(tmp_path / "a.csv")]
    with started(*line, program=("-c", program)) as command:
        assert command.stdout is not None
        assert command.stdout.readline() == b"loaded\n"
        wait_until_at_work(command.pid, 1.0)
        command.send_signal(signal.SIGINT)
        try:
            _, err = command.communicate(timeout=600)
        finally:
            command.kill()
    assert command.returncode == 130, err
    assert b"Traceback" not in err


def test_a_stopped_simulation_keeps_what_is_there_and_says_so(capsys, tmp_path, monkeypatch):
    import kapitza.flow

    real = kapitza.flow.simulate

    def stopped(*arguments, **settings):
        return real(*arguments, **{**settings, "periods": 40}).with_attributes(status="INTERRUPTED")

    monkeypatch.setattr(kapitza.flow, "simulate", stopped)
    path = tmp_path / "run.csv"
    code, _, err = run(capsys, "simulate", "duffing", "--periods", "100", "--out", str(path))
    assert code == 130
    assert "Stopped after 41 samples" in err
    assert len(kz.read(path)) == 41
    # Text of millions of samples took 20 s and more to write after Ctrl-C.
    monkeypatch.setattr("kapitza.cli.simulate.MOST_AT_ONCE_TEXT", 80)
    code, out, err = run(capsys, "simulate", "duffing", "--periods", "100", "--out", str(tmp_path / "long.csv"))
    assert (code, out) == (130, "")
    assert "nothing is kept; .npz or .parquet" in err
    assert not (tmp_path / "long.csv").exists()
