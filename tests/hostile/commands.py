"""Command lines, and the studies and saved results that they read."""

from __future__ import annotations

import contextlib
import io
from functools import cache
from pathlib import Path

from hypothesis import strategies as st
from tests.hostile.damage import damaged_bytes, damaged_text, numbers, texts
from tests.hostile.family import register

STUDY = """\
title = "A cart"

[model]
equations = ["x'' + c*x' + k*x = 0"]
parameters = {c = 0.2, k = 3.0}

[data]
file = "run.csv"
channels = ["x"]

[fit]
free = ["c", "k"]
hold_back = 0.25
"""
RECORDING = "t,x\n" + "".join(f"{i / 10},{(i * i) % 17}\n" for i in range(40))
OPTIONS = {
    "simulate": [
        "--periods",
        "--samples-per-period",
        "--duration",
        "--interval",
        "--set",
        "--start",
        "--noise",
        "--seed",
    ],
    "inspect": ["--time", "--interval", "--channel", "--period", "--angle", "--segment", "--missing"],
    "orbits": ["--max-period", "--period", "--channel"],
    "models": [],
    "check": ["--json"],
    "new": ["--out"],
    "schema": [],
    "predict": [],
    "report": [],
}
SUBJECTS = ["duffing", "lorenz", "trace_map", "run.csv", "study.toml", "rig.toml", "missing.csv", ".", "/dev/null"]
option_values = st.one_of(
    numbers.map(str), texts, st.sampled_from(["k=1", "self=1", "x=nan", "0", "1", "-1", "1e300", "3", "x"])
)


@st.composite
def lines(draw: st.DrawFn) -> list[str]:
    command = draw(st.sampled_from(list(OPTIONS)))
    line = [command]
    if draw(st.integers(0, 9)):
        line.append(draw(st.one_of(st.sampled_from(SUBJECTS), st.sampled_from(SUBJECTS), texts)))
    if command == "simulate":
        line += ["--out", draw(st.sampled_from(["a.csv", "a.h5", "b/a.npz", "a.xlsx", "\x1b[31m.csv"]))]
        line += draw(st.sampled_from([[], ["--periods", "2"], ["--duration", "1"]]))
    for _ in range(draw(st.integers(0, 3))):
        known = OPTIONS[command]
        line.append(draw(st.sampled_from(known)) if known and draw(st.integers(0, 5)) else draw(texts))
        line.append(draw(option_values))
    # A null character cannot stand on a command line.
    return [word.replace("\x00", "0") for word in line]


def run(line: list[str], folder: Path) -> object:
    from kapitza.cli import main
    from kapitza.errors import KapitzaError

    (folder / "run.csv").write_text(RECORDING)
    if not (folder / "study.toml").exists():
        (folder / "study.toml").write_text(STUDY)
    (folder / "rig.toml").write_text("equations = [\"x'' + x = 0\"]\n")
    said, complained = io.StringIO(), io.StringIO()
    code: object = 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
        try:
            main(line)
        except SystemExit as end:
            code = end.code
    printed = said.getvalue() + complained.getvalue()
    if any(sign in printed for sign in ("\x1b]", "\x1b[2J", "\x9b", "\u202e")):
        raise AssertionError("a name steers the terminal")
    if code not in (0, 1, 2, 130, None):
        raise AssertionError(f"exit code {code!r}")
    if code:
        raise KapitzaError(complained.getvalue()[-300:])
    return printed


def check_study(content: str, folder: Path) -> object:
    import kapitza.study

    (folder / "run.csv").write_text(RECORDING)
    (folder / "study.toml").write_text(content, encoding="utf-8", errors="replace", newline="")
    return repr(kapitza.study.read_study(folder / "study.toml"))[:1000]


@cache
def saved_orbits() -> list[bytes]:
    import tempfile

    import numpy as np

    from kapitza.orbit import OrbitSet, PeriodicOrbit
    from kapitza.saving import save

    points = np.array([[0.1, 0.2], [0.3, -0.4]])
    orbit = PeriodicOrbit(points=points, period=2.0, states=("x", "x'"))
    with tempfile.TemporaryDirectory() as name:
        return [save(OrbitSet((orbit,), angles=(False, False)), Path(name) / "a.nc").read_bytes()]


def load_orbits(content: bytes, folder: Path) -> object:
    from kapitza.saving import load, save

    (folder / "a.nc").write_bytes(content)
    orbits = load(folder / "a.nc")
    save(orbits, folder / "b.nc")
    return [repr(orbits)[:500], str(orbits.table())]


register("command lines", lines(), run, 2.0)
register("studies", damaged_text([STUDY]), check_study, 1.0)
register("saved orbits", st.deferred(lambda: damaged_bytes(saved_orbits())), load_orbits, 1.0)
