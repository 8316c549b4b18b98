"""Exports run by the programs they are written for, beside `simulate`."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
from harness import markdown_table
from harness.export_models import CASES, delayed, difference

import kapitza as kz
from kapitza.exports import ExportError
from kapitza.flow import Flow

SAMPLES = 31
TARGET = 1e-8
OCTAVE_SPAN = 0.2
"""Share of the time of a case that Octave runs: its ode45 takes milliseconds a step."""

Run = Callable[[kz.Model, np.ndarray, Path], float]


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def by_scipy(model: kz.Model, times: np.ndarray, folder: Path) -> float:
    kz.export(model, folder / "rig.py")
    return difference(model, times, _module(folder / "rig.py").simulate(times, x0=model.state()))


def by_c(model: kz.Model, times: np.ndarray, folder: Path) -> float:
    kz.export(model, folder / "rig.c")
    call = ["cc", "-std=c99", "-O2", "-ffp-contract=off", "-DRIG_MAIN", "-o", folder / "rig", folder / "rig.c", "-lm"]
    subprocess.run(call, check=True)
    call = [folder / "rig", "0", repr(float(times[-1])), str(times.size)]
    printed = subprocess.run(call, capture_output=True, text=True, check=True).stdout
    rows = np.array([[float(v) for v in line.split(",")] for line in printed.splitlines()])
    return difference(model, rows[:, 0], rows[:, 1 : 1 + len(model.states)])


def by_octave(model: kz.Model, times: np.ndarray, folder: Path) -> float:
    kz.export(model, folder / "rig.m")
    times = times * OCTAVE_SPAN
    code = f"warning('off', 'all'); X = rig({times.tolist()!r}); printf('%.17g ', X.');"
    call = ["octave-cli", "--norc", "--eval", code]
    printed = subprocess.run(call, capture_output=True, text=True, check=True, cwd=folder).stdout
    return difference(model, times, np.array([float(v) for v in printed.split()]).reshape(times.size, -1))


def by_casadi(model: kz.Model, times: np.ndarray, folder: Path) -> float:
    """The rates at states of the motion; `simulate` itself only where there are no events and tables."""
    kz.export(model, folder / "rig.py", kind="casadi")
    kz.export(model, folder / "plain.py")
    rig, plain = _module(folder / "rig.py"), _module(folder / "plain.py")
    states = kz.simulate(model, x0=model.state(), t=times).values()
    worst = 0.0
    for t, x in zip(times, states, strict=True):
        u, modes = plain.drives(t, t)[0], rig.modes(t, x)
        own = plain.rates(t, x, u, plain.VALUES, modes)
        apart = np.array(rig.rates(t, x, u, rig.VALUES, modes)).ravel() - own
        worst = max(worst, float(np.abs(apart / (1.0 + np.abs(own))).max()))
    if not (rig.M or rig.WALLS or rig.U):
        found = rig.integrator(0.0, times[1:], tolerance=1e-13)(x0=model.state())["xf"]
        worst = max(worst, difference(model, times, np.vstack([model.state(), np.array(found).T])))
    return worst


def by_unit(version: str, kind: str) -> Run:
    def run(model: kz.Model, times: np.ndarray, folder: Path) -> float:
        import fmpy
        from fmpy.validation import validate_fmu

        path = str(folder / "rig.fmu")
        kz.export(model, path, fmi=version)
        problems = validate_fmu(path)
        assert not problems, problems
        names = [v.name for v in fmpy.read_model_description(path).modelVariables if v.name != "time"]
        names = names[: len(model.states)]
        settings = {"relative_tolerance": 1e-13, "solver": "CVode"} if kind == "ModelExchange" else {}
        found = fmpy.simulate_fmu(
            path, start_time=0.0, stop_time=times[-1], output_interval=times[1], output=names, fmi_type=kind,
            record_events=False, **settings,
        )  # fmt: skip
        return difference(model, found["time"], np.stack([found[n] for n in names], axis=1))

    return run


def by_rumoca(model: kz.Model, times: np.ndarray, folder: Path) -> float:
    import rumoca

    path = folder / "rig.mo"
    kz.export(model, path)
    # Its BDF method stops at knots of tables, its explicit one locates events less well (6e-5 with two stuck joints).
    solver = "rk-like" if model.signals else "bdf"
    settings = rumoca.SimConfig(solver=solver, rtol=1e-12, atol=1e-13, dt=times[1], max_wall_seconds=60)
    found = rumoca.Session().load(str(path), model="rig").simulate(t=(0.0, float(times[-1])), config=settings)
    names = re.findall(r"^  Real (\w+)\(start", path.read_text(encoding="utf-8"), re.MULTILINE)
    instants = np.asarray(found.time)
    rows = np.array([int(np.argmin(np.abs(instants - t))) for t in times])
    assert np.abs(instants[rows] - times).max() < 1e-9
    return difference(model, times, np.stack([np.asarray(found[n])[rows] for n in names], axis=1))


def by_julia(model: kz.Model, times: np.ndarray, folder: Path) -> float:
    """Parsed only: 0 where the grammar finds no error."""
    import tree_sitter
    import tree_sitter_julia

    kz.export(model, folder / "rig.jl")
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_julia.language()))
    tree = parser.parse((folder / "rig.jl").read_bytes())
    assert not tree.root_node.has_error
    return 0.0


PROGRAMS: dict[str, Run] = {
    "SciPy": by_scipy,
    "C": by_c,
    "Octave": by_octave,
    "CasADi": by_casadi,
    "FMI 2.0, co-simulation": by_unit("2.0", "CoSimulation"),
    "FMI 3.0, co-simulation": by_unit("3.0", "CoSimulation"),
    "FMI 2.0, model exchange": by_unit("2.0", "ModelExchange"),
    "FMI 3.0, model exchange": by_unit("3.0", "ModelExchange"),
    "Modelica (rumoca)": by_rumoca,
    "Julia": by_julia,
}


def compared(name: str, run: Run) -> list[str]:
    cells = []
    for case, (make, span) in CASES.items():
        model, times = make(), np.linspace(0.0, span, SAMPLES)
        with tempfile.TemporaryDirectory() as folder:
            try:
                apart = run(model, times, Path(folder))
            except (ImportError, FileNotFoundError) as problem:
                return [f"not run: {problem}"] * len(CASES)
            except Exception as problem:
                cells.append(f"**{type(problem).__name__}: {str(problem)[:60]}**")
                continue
        shown = "parsed" if name == "Julia" else f"{apart:.1e}"
        cells.append(shown if apart <= TARGET else f"**{shown}**")
        print(f"{name}, {case}: {cells[-1]}", flush=True)
    return cells


CHAOTIC_SPAN = 5.0
"""Seconds of the Lorenz system."""


def chaotic() -> str:
    """What holds for a chaotic motion: the difference grows with it."""
    model = kz.library.lorenz()
    times = np.linspace(0.0, CHAOTIC_SPAN, SAMPLES)
    ends = [Flow(model).propagate(model.state(), 0.0, float(t)).jacobian for t in times[1:]]
    growth = max(float(np.linalg.norm(end, 2)) for end in ends)
    rows = []
    for name, run in PROGRAMS.items():
        if name in ("Octave", "Julia"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                apart = run(model, times, Path(folder))
            except (ImportError, FileNotFoundError) as problem:
                rows.append([name, f"not run: {problem}", ""])
                continue
        rows.append([name, *(f"{x:.1e}" if x <= TARGET else f"**{x:.1e}**" for x in (apart, apart / growth))])
    return "\n\n".join(
        [
            f"## A chaotic motion\n\nThe Lorenz system over {CHAOTIC_SPAN:g} s multiplies a small error by up to "
            f"{growth:.0f} (largest singular value of its tangents). The difference contains the local errors of the "
            "other solver times this factor: differences above 1e-8 are in bold, the quotient says what the solver "
            "itself adds. Over longer times no two solvers agree.",
            markdown_table(("program", "difference", "difference / growth"), rows),
        ]
    )


def refused() -> str:
    texts = set()
    for suffix in (".m", ".c", ".mo", ".jl", ".py", ".fmu"):
        try:
            kz.export(delayed(), Path(tempfile.gettempdir()) / f"delayed{suffix}")
        except ExportError as refusal:
            texts.add(str(refusal))
        else:
            texts.add(f"**{suffix}: not refused**")
    return " ".join(sorted(texts))


def main() -> str:
    """Exports beside `simulate`."""
    rows = [[name, *compared(name, run)] for name, run in PROGRAMS.items()]
    missed = sum("**" in cell for row in rows for cell in row)
    left_out = sum(cell.startswith("not run") for row in rows for cell in row)
    compiler = shutil.which("cc") is not None
    return "\n\n".join(
        [
            "# Exported models beside `simulate`",
            f"Largest difference from `simulate` over {SAMPLES} samples (Octave: the first {OCTAVE_SPAN:.0%} of the "
            "time; CasADi: rates at these samples relative to their size, and the motion by CVODES where there are no "
            "events; "
            "model exchange: CVode at 1e-13). Target: 1e-8.",
            markdown_table(("program", *CASES), rows),
            f"Cells that miss the target or failed: {missed}; not run: {left_out}. A C compiler was "
            f"{'there' if compiler else 'not there'}.",
            "Modelica is run by rumoca 0.10 with its BDF method; with measured drives that method stops by a check of "
            "its own, and its explicit one is used.",
            "Julia files are parsed by a grammar (tree-sitter) and were not run: no Julia was at hand.",
            f"A delay in each format: {refused()}",
            chaotic(),
        ]
    )
