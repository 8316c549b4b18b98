"""`make test-elsewhere`: run the tests as other processors would, and print time and result of each run.

Each run has other kernels of OpenBLAS, other SIMD instructions in NumPy, another hash seed, and random choices where
LAPACK leaves signs, order and bases open (other_signs.py); the second one also code of heyoka that rounds otherwise.

`python -m tests.elsewhere --core Nehalem --processes 1 tests/estimate`: one of them, a part of the tests.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Run:
    """One processor: kernel of OpenBLAS, marks of NumPy features that it lacks, seed, and whether code is changed."""

    core: str
    lacks: tuple[str, ...]
    seed: int
    other_code: bool

    def environment(self) -> dict[str, str]:
        from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

        # NumPy warns about names that it does not dispatch or the processor does not have.
        off = [n for n in __cpu_dispatch__ if __cpu_features__.get(n) and any(mark in n for mark in self.lacks)]
        kernels = {"OPENBLAS_CORETYPE": self.core} if platform.machine() in ("x86_64", "AMD64") else {}
        threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        return {**kernels, **threads, "NPY_DISABLE_CPU_FEATURES": " ".join(off), "PYTHONHASHSEED": str(self.seed)}

    def options(self) -> list[str]:
        return ["--signs", str(self.seed), *(["--other-code"] if self.other_code else [])]


RUNS = (Run("Haswell", ("512", "V4"), 1, False), Run("Nehalem", ("512", "V4", "V3", "AVX", "FMA"), 2, True))
"""With AVX2 and without AVX-512; with SSE alone."""


def main(arguments: list[str]) -> int:
    """Run the tests on the chosen ones with further arguments for pytest; return 1 where one failed."""
    reader = argparse.ArgumentParser(prog="python -m tests.elsewhere")
    reader.add_argument("--core", choices=[run.core for run in RUNS], default=None, help="this one alone")
    reader.add_argument("--processes", type=int, default=2)
    chosen, further = reader.parse_known_args(arguments)
    endings = []
    for run in RUNS:
        if chosen.core in (None, run.core):
            begin = time.monotonic()
            code = tested(run, chosen.processes, further)
            endings.append((run, code, time.monotonic() - begin))
    for run, code, seconds in endings:
        print(f"{run.core:>10}  seed {run.seed}  {'passed' if code == 0 else 'FAILED'}  in {seconds:.0f} s")
    return int(any(code for _, code, _ in endings))


def tested(run: Run, processes: int, further: list[str]) -> int:
    """Run the tests as one processor, show how, and return the exit code of pytest."""
    environment = run.environment()
    shown = " ".join(f"{name}={value!r}" for name, value in environment.items())
    print(f"{shown} pytest {' '.join(run.options())}", flush=True)
    everything = {**os.environ, **environment}
    return subprocess.run([*command(run, processes), *further], cwd=ROOT, env=everything).returncode


def command(run: Run, processes: int) -> list[str]:
    """Return the command that runs the tests as one processor."""
    parallel = ["-n", str(processes), "--dist", "loadfile", "--no-loadscope-reorder"]
    return [sys.executable, "-m", "pytest", *parallel, *run.options()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
