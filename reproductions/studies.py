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

import numpy as np
from harness import markdown_table

import kapitza as kz
from kapitza.cli import main as command
from kapitza.flow import chaotic_record
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
        return [[name, "-", "-", f"**missed**: {found['sentence']}", "-", "-", f"{seconds:.1f}"]]
    rows = []
    for row in found["parameters"]:
        if (row["model"], row["method"]) != (best["model"], best["method"]):
            continue
        value = known.get(row["parameter"])
        stated = "-" if value is None else f"{value:.5g} ({kind})"
        low, high = row["low"], row["high"]
        interval = "at its bound" if low is None else f"{low:.5g} … {high:.5g}"
        inside = "-" if value is None or low is None else "yes" if low <= value <= high else "**no**"
        rows.append([f"{name} ({best['model']}, {best['method']})", row["parameter"], stated, f"{row['value']:.5g}",
                     interval, inside, f"{seconds:.1f}"])  # fmt: skip
    held = found["held_back"].get(f"{best['model']}, {best['method']}")
    if held is not None:
        error = f"{100 * held['share']:.2g} % of the spread"
        rows.append([f"{name}, held back", "RMS prediction error", "-", error, "-", "-", ""])
    return rows


def truth_in_intervals(seeds: range) -> tuple[int, int]:
    """Of how many 95 % intervals of the double pendulum's parameters, over other recordings, the truth lies inside."""
    rig = kz.library.base_excited_double_pendulum().with_values(C11=1.02e-3)
    free = list(STUDIES["double_pendulum"][1])
    inside = 0
    for seed in seeds:
        angles = chaotic_record(rig, periods=300, samples_per_period=100, seed=seed).select(["phi1", "phi2"])
        fit = kz.identify(rig, kz.measure(angles, quantum=2 * np.pi / 1024), free, kz.HarmonicFit())
        interval = fit.interval(0.95)
        inside += sum(bool(interval["low"][n] <= rig.values[n] <= interval["high"][n]) for n in free)
    return inside, len(seeds) * len(free)


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
                rows.append([study, "-", "-", "not run: no measured data (set KAPITZA_DATA)", "-", "-", "-"])
                continue
            rows += rows_of(study, folder)
    head = ["study (model, method)", "parameter", "known", "ours", "95 % interval", "inside", "seconds of computing"]
    held, count = truth_in_intervals(range(2, 14))
    return (
        "# Studies by the command line alone\n\nEach line is `kapitza identify` on a file of `examples/studies`; the "
        "recordings are made by `make_recordings.py` there, or measured by others. The friction of the single pendulum "
        "is the candidate that AIC chose; its published value belongs to viscous friction alone. Seconds are those of "
        "one core for the whole command: reading, checks, fits of all candidates and methods, motions, report.\n\n"
        + markdown_table(head, rows)
        + "\n\n## Known values outside our intervals\n\n"
        "- **Shaken double pendulum** (simulated): 12 other recordings of the same rig, fitted the same way, hold the "
        f"truth in {held} of {count} 95 % intervals, so they are not too narrow; at 5 % each, one or more of nine lie "
        "outside in 37 % of such studies.\n"
        "- **Real pendulums**: the published values have another law of friction than the single pendulum here, and "
        "no offset of the encoder. With viscous friction alone and every piece followed from its best initial state "
        "([all laws](shooting_real_pendulums.md)), they miss the training angles of the single pendulum by 0.0270 rad "
        "root mean square, our values by 0.0039 rad; of the double pendulum by 0.0038 and 0.0035 rad. On the "
        "validation pieces of the single pendulum the published values do better than our viscous ones (0.0103 "
        "against 0.0124 rad), and the three terms chosen here better than both (0.0058 rad, above). What is left is "
        "not noise: the fits themselves warn that a term is missing, and intervals of such models count the "
        "disagreement of pieces, not an error that all of them share. Why the published w2 and G2 differ is not "
        "known.\n"
        "- **Silverbox**: no parameters are published; the held-back multisine says how well it predicts.\n"
    )
