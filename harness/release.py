"""`make release`: build wheel and source distribution, install each into an empty environment, and try it there.

The suite runs against the wheel last. `python -m harness.release --tests-only PATH ...` builds the wheel and runs the
suite, or the paths, alone.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
LARGEST = 5_000_000
"""Bytes: a distribution has no results and no images."""

SMOKE = """
import kapitza as kz
from kapitza.flow.kernel.library import library

model = kz.library.duffing()
record = kz.measure(kz.simulate(model, x0={"x": 0.1, "x'": 0.0}, periods=20, samples_per_period=40), noise=0.01, seed=1)
fit = kz.identify(model, record, free=["k"])
low, high = fit.interval(0.999).loc["k"]
assert low < model.values["k"] < high, (low, high)
print("stepper:", "compiled" if library() is not None else "not compiled")
"""


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Run a command and return what it prints; a failure shows it."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def built(*kinds: str) -> list[Path]:
    """Build distributions of the working tree; without kinds (`--wheel`), the wheel from the source distribution."""
    for old in DIST.glob("kapitza-*"):
        old.unlink()
    run(sys.executable, "-m", "build", *kinds, "--outdir", DIST, ROOT)
    made = sorted(DIST.glob("kapitza-*"))
    if len(made) != (len(kinds) or 2):
        sys.exit(f"Expected a wheel and a source distribution in {DIST}, found {[path.name for path in made]}.")
    return made


def names_in(path: Path) -> list[str]:
    """Files of a distribution."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    with tarfile.open(path) as archive:
        return archive.getnames()


def check_contents(path: Path) -> None:
    """Refuse a distribution that is large, or holds what does not belong to it."""
    names = names_in(path)
    foreign = [name for name in names if name.endswith((".png", ".svg", ".pyc")) or "/docs/" in name]
    missing = [
        name for name in ("kapitza/py.typed", "kapitza/__init__.pyi") if not any(n.endswith(name) for n in names)
    ]
    if foreign or missing or path.stat().st_size > LARGEST:
        sys.exit(f"{path.name}: {path.stat().st_size} bytes; foreign: {foreign[:5]}; missing: {missing}.")


def try_out(path: Path) -> str:
    """Install a distribution into an empty environment; run a fit and the demo there."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        venv.create(home / "venv", with_pip=True)
        python = home / "venv" / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", path)
        version = run(home / "venv" / "bin" / "kapitza", "--version").strip()
        if version.removeprefix("kapitza ") not in path.name:
            sys.exit(f"{path.name} says that it is {version}.")
        stepper = run(python, "-c", SMOKE, cwd=home).strip()
        run(home / "venv" / "bin" / "kapitza", "demo", cwd=home)
        return f"{version}, {stepper}, demo runs"


def copy_without_sources(target: Path) -> None:
    """Copy the files of the working tree that git knows or would add, but not the package."""
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", cwd=ROOT)
    for name in filter(None, listed.split("\0")):
        if not name.startswith("src/") and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def tests_pass(wheel: Path, chosen: list[str]) -> bool:
    """Run the suite in a copy of the tree that has no sources, with the wheel and what tests need installed.

    The package can come from the wheel only: the copy has no src/.
    """
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        venv.create(home / "venv", with_pip=True)
        python = home / "venv" / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{wheel}[dev]")
        copy_without_sources(home / "tree")
        place = run(python, "-c", "import kapitza; print(kapitza.__file__)", cwd=home / "tree").strip()
        if not Path(place).is_relative_to(home / "venv"):
            sys.exit(f"Tests would import {place}, not the wheel.")
        print(f"{wheel.name}: tests import {Path(place).relative_to(home)}", flush=True)
        data = os.environ.get("KAPITZA_DATA") or str(ROOT.parent / "shared" / "data")
        single = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "KAPITZA_DATA": data}
        pytest = [python, "-m", "pytest", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]
        done = subprocess.run(
            [*pytest, "-o", "pythonpath=tests .", *chosen], cwd=home / "tree", env={**os.environ, **single}
        )
        return done.returncode == 0


def main() -> None:
    reader = argparse.ArgumentParser(prog="python -m harness.release")
    reader.add_argument("--tests-only", action="store_true", help="build the wheel and run the suite against it")
    reader.add_argument("paths", nargs="*", help="tests to run in place of the whole suite")
    chosen = reader.parse_args()
    made = built("--wheel") if chosen.tests_only else built()
    for path in () if chosen.tests_only else made:
        check_contents(path)
        print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB, {try_out(path)}", flush=True)
    (wheel,) = (path for path in made if path.suffix == ".whl")
    if not tests_pass(wheel, chosen.paths):
        sys.exit(f"{wheel.name}: tests fail.")


if __name__ == "__main__":
    main()
