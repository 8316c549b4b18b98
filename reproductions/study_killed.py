"""`kapitza identify` killed at 20 random moments and resumed: the same result as an uninterrupted run."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import signal
import tempfile
import time
from pathlib import Path

import numpy as np
from harness import markdown_table

import kapitza as kz
from kapitza.cli import main as command
from kapitza.study.folder import MARK

KILLS = 20
LAWS = ("viscous x", "cubic_damping x", "quintic x")
MODEL = """\
[[model]]
name = "{name}"
equations = ["x'' + k*x + k3*x**3 = 0"]
parameters = {{k = 8.0, k3 = 0.5}}
laws = ["{name}"]
free = ["k", "k3", "{parameter}"]

"""
REST = """\
[data]
file = "run.csv"

[fit]
method = ["shooting", "harmonic"]
hold_back = 0.2
"""


def prepare(folder: Path) -> Path:
    """A recording, and a study of three candidates by two methods."""
    model = kz.Model.from_equations("x'' + c*x' + k*x + k3*x**3 = 0", parameters={"c": 0.2, "k": 9.0, "k3": 1.0})
    clean = kz.simulate(model, [1.0, 0.0], t=np.linspace(0, 15, 601))
    kz.write(kz.measure(clean.select(["x"]), noise=0.005, seed=1), folder / "run.csv")
    text = REST
    for law in LAWS:
        parameter = law.replace(" ", "_") + ("_k" if law.startswith("quintic") else "_c")
        text = MODEL.format(name=law, parameter=parameter) + text
    (folder / "study.toml").write_text(text, encoding="utf-8")
    return folder / "study.toml"


def identify(study: Path, resume: bool) -> int:
    """The command in a process of its own, forked: the libraries are loaded once. Returns its id."""
    child = os.fork()
    if child:
        return child
    code = 1
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            command(["identify", str(study), "--quiet", *(["--resume"] if resume else [])])
        except SystemExit as end:
            code = int(end.code or 0)
    os._exit(code)


def finished(child: int) -> int:
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def digest(results: Path) -> dict[str, str]:
    """SHA-256 of every file of the results but the report, which states when it was written, and its digest."""
    files = [p for p in sorted(results.rglob("*")) if p.is_file() and p.name not in ("report.html", MARK)]
    return {p.relative_to(results).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def one(number: int, duration: float, expected: dict[str, str]) -> tuple[object, ...]:
    """Kill a run, and resume it; where it had ended before, another moment is drawn."""
    random = np.random.default_rng(number)
    while True:
        moment = float(random.uniform(0.0, duration))
        row = _killed(moment, expected)
        if row is not None:
            return number + 1, moment, *row


def _killed(moment: float, expected: dict[str, str]) -> tuple[object, ...] | None:
    with tempfile.TemporaryDirectory() as name:
        study = prepare(Path(name))
        results = study.with_name("study-results")
        child = identify(study, resume=False)
        time.sleep(moment)
        os.kill(child, signal.SIGKILL)
        if finished(child) != -signal.SIGKILL:
            return None
        kept = len(list((study.parent / ".study-results.part" / "fits").glob("*.checks.nc")))
        partial = results.exists() and digest(results) != expected
        ended = finished(identify(study, resume=True))
        same = results.exists() and digest(results) == expected
    return kept, "yes" if partial else "no", ended, same


def main() -> str:
    with tempfile.TemporaryDirectory() as name:
        study = prepare(Path(name))
        kz.read_study(study).run(kz.Silent())  # compiles here what every forked process then has
        begin = time.perf_counter()
        assert finished(identify(study, resume=False)) == 0
        duration = time.perf_counter() - begin
        expected = digest(study.with_name("study-results"))
    rows = [one(number, duration, expected) for number in range(KILLS)]
    same, partial = sum(bool(row[-1]) for row in rows), sum(row[3] == "yes" for row in rows)
    head = ("run", "killed after [s]", "fits kept", "half-written results", "exit code of --resume", "same")
    shown = [[*row[:-1], "yes" if row[-1] else "**no**"] for row in rows]
    verdict = "met" if same == KILLS and not partial else "**missed**"
    return (
        "# Killing `kapitza identify`\n\nThree candidates by two methods, "
        f"{duration:.1f} s uninterrupted. SIGKILL at {KILLS} moments drawn uniformly over that time, then "
        "`kapitza identify --resume`. Compared: SHA-256 of every file in the results folder but the report, which "
        f"states when it was written ({len(expected)} files).\n\n" + markdown_table(head, shown)
        + f"\n\nThe same result as uninterrupted: {same} of {KILLS}; half-written results: {partial}: {verdict}."
    )  # fmt: skip
