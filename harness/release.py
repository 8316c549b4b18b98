"""`make release`: build wheel and source distribution, install each into an empty environment, and try it there."""

from __future__ import annotations

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


def built() -> list[Path]:
    """Build both distributions of the working tree."""
    for old in DIST.glob("kapitza-*"):
        old.unlink()
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT)
    made = sorted(DIST.glob("kapitza-*"))
    if len(made) != 2:
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


def main() -> None:
    for path in built():
        check_contents(path)
        print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB, {try_out(path)}", flush=True)


if __name__ == "__main__":
    main()
