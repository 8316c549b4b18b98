"""The studies of examples/studies by the command line alone: known values beside ours."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from harness import markdown_table

import kapitza as kz
from kapitza.cli import main as command
from reproductions.shooting_real_pendulums import lumped_double, lumped_single

ROOT = Path(__file__).resolve().parents[1]
MEASURED = Path(os.environ.get("KAPITZA_DATA", ROOT.parent / "shared" / "data"))

PENDULUM = kz.library.parametric_pendulum().values
DOUBLE = {**kz.library.base_excited_double_pendulum().values, "C11": 1.02e-3}
OLEO = kz.library.oleo_simple().values
STUDIES = {
    "orbits_pendulum": ("true", {n: PENDULUM[n] for n in ("l", "k2", "k3")}),
    "double_pendulum": ("true", {n: DOUBLE[n] for n in ("B11", "B12", "B13", "B21", "B22", "B23", "C11", "C12", "C2")}),
    "oleo": ("true", {n: OLEO[n] for n in ("theta2", "theta3", "theta9")}),
    "henon_heiles": ("true", {"b": 1.0, "d": -1 / 3}),
    "single_pendulum": ("published", {"w2": lumped_single()["w2"], "viscous_phi_c": lumped_single()["d"]}),
    "double_pendulum_measured": ("published", lumped_double()),
    "emps": ("quoted", {"M": 95.1, "Fv": 203.5, "Fc": 20.4, "offset": -3.16}),
    "silverbox": ("none published", {}),
}


def answer(path: Path) -> tuple[dict, float]:
    """What `kapitza identify PATH --json` prints, and its seconds of computing; a refusal has no fit."""
    printed, refused, begin = io.StringIO(), io.StringIO(), time.process_time()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(refused), contextlib.suppress(SystemExit):
        command(["identify", str(path), "--json"])
    seconds = time.process_time() - begin
    if not printed.getvalue():
        return {"best": None, "sentence": refused.getvalue().strip(), "parameters": []}, seconds
    return json.loads(printed.getvalue()), seconds


def rows_of(name: str, folder: Path) -> list[list[str]]:
    kind, known = STUDIES[name]
    found, seconds = answer(folder / f"{name}.toml")
    best = found["best"]
    print(name, f"{seconds:.1f} s", found["sentence"], file=sys.stderr)
    if best is None:
        return [[name, "-", "-", f"**missed**: {found['sentence']}", "-", f"{seconds:.1f}"]]
    rows = []
    for row in found["parameters"]:
        if (row["model"], row["method"]) != (best["model"], best["method"]):
            continue
        value = known.get(row["parameter"])
        stated = "-" if value is None else f"{value:.5g} ({kind})"
        low, high = row["low"], row["high"]
        interval = "at its bound" if low is None else f"{low:.5g} … {high:.5g}"
        rows.append([f"{name} ({best['model']}, {best['method']})", row["parameter"], stated, f"{row['value']:.5g}",
                     interval, f"{seconds:.1f}"])  # fmt: skip
    return rows


def main() -> str:
    place = ROOT / "examples" / "studies"
    spec = importlib.util.spec_from_file_location("make_recordings", place / "make_recordings.py")
    assert spec is not None
    assert spec.loader is not None
    recordings = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recordings)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in place.glob("*.toml"):
            shutil.copy(path, folder)
        recordings.make(folder / "data", MEASURED if MEASURED.is_dir() else None)
        for study in STUDIES:
            measured = STUDIES[study][0] != "true"
            if measured and not MEASURED.is_dir():
                rows.append([study, "-", "-", "not run: no measured data (set KAPITZA_DATA)", "-", "-"])
                continue
            rows += rows_of(study, folder)
    head = ["study (model, method)", "parameter", "known", "ours", "95 % interval", "seconds of computing"]
    return (
        "# Studies by the command line alone\n\nEach line is `kapitza identify` on a file of `examples/studies`; the "
        "recordings are made by `make_recordings.py` there, or measured by others. The friction of the single pendulum "
        "is the candidate that AIC chose; its published value belongs to viscous friction alone.\n\n"
        + markdown_table(head, rows)
    )
