"""Command lines, and the studies that they read."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

from hypothesis import strategies as st
from tests.cart_study import CART as STUDY
from tests.hostile.damage import damaged_text, numbers, texts
from tests.hostile.family import register

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
    "exponents": ["--set", "--start", "--vary", "--grid", "--length", "--transient", "--out", "--plot"],
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


RIGHT = [
    ["simulate", "duffing", "--out", "a.csv", "--periods", "2"],
    ["simulate", "rig.toml", "--out", "b/a.npz", "--duration", "1", "--interval", "0.1", "--start", "x=1"],
    ["simulate", "lorenz", "--out", "a.h5", "--duration", "1", "--interval", "0.1", "--set", "rho=20", "--seed", "1"],
    ["inspect", "run.csv"],
    ["inspect", "run.csv", "--channel", "x", "--time", "t"],
    ["models"],
    ["models", "duffing"],
    ["models", "rig.toml"],
    ["exponents", "duffing", "--length", "200"],
    ["exponents", "duffing", "--vary", "B=0.1:0.3", "--grid", "2", "--length", "200", "--json"],
    ["check", "study.toml"],
    ["check", "study.toml", "--json"],
    ["new", "run.csv", "--out", "b.toml"],
    ["schema"],
]
"""Command lines that work."""


@st.composite
def light_lines(draw: st.DrawFn) -> list[str]:
    """One that works, with one word changed, left out, doubled, or none."""
    line = list(draw(st.sampled_from(RIGHT)))
    at = draw(st.integers(0, len(line) - 1))
    wound = draw(st.sampled_from(["none", "value", "value", "drop", "double", "swap"]))
    if wound == "value":
        line[at] = draw(option_values).replace("\x00", "0")
    elif wound == "drop":
        del line[at]
    elif wound == "double":
        line.insert(at, line[at])
    elif wound == "swap":
        line[at], line[-1] = line[-1], line[at]
    return line


@st.composite
def lines(draw: st.DrawFn) -> list[str]:
    if draw(st.booleans()):
        return draw(light_lines())
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


register("command lines", lines(), run, 2.0)
register("studies", damaged_text([STUDY]), check_study, 1.0)
