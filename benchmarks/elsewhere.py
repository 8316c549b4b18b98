"""The tests as other processors would run them (`make test-elsewhere`): results and times."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

from harness import kept, load, markdown_table
from harness.runner import ROOT
from tests.elsewhere import RUNS, Run, command

PROCESSES = 2


def main() -> str:
    found = [(run, kept("elsewhere", run.core, lambda run=run: tested(run))) for run in RUNS]
    rows = [
        [run.core, " ".join(run.environment()["NPY_DISABLE_CPU_FEATURES"].split()) or "none", str(run.seed),
         "yes" if run.other_code else "no", *map(str, counts), f"{seconds:.0f}", at]
        for run, (counts, _, seconds, at) in found
    ]  # fmt: skip
    failed = [f"- {run.core}: `{name}`" for run, (_, names, _, _) in found for name in names]
    header = ["OpenBLAS kernels", "SIMD switched off in NumPy", "seed of signs, order, bases", "other code of heyoka",
              "passed", "failed", "skipped", "seconds", "load"]  # fmt: skip
    verdict = "**missed**" if failed else "met"
    lines = [
        "# The suite elsewhere",
        "",
        "All tests under other numerical kernels. Wherever LAPACK leaves a choice (signs and phases of eigenvectors, "
        "singular vectors and QR columns, the basis of equal eigenvalues and null spaces, the order of eigenvalues of "
        "general matrices) a test double chooses at random (`tests/other_signs.py`); other code: compiled so that sums "
        "are taken in another order (`tests/other_code.py`). Programs that tests start are as usual.",
        "",
        markdown_table(header, rows),
        "",
        f"Target, no failure in either: {verdict}.",
        *failed,
    ]
    return "\n".join(lines)


Outcome = tuple[list[int], list[str], float, str]
"""Numbers of tests passed, failed and skipped; names of those that failed; seconds; load of the machine."""


def tested(run: Run) -> Outcome:
    """Run all tests as one processor; the output goes to out/elsewhere-CORE.log."""
    log = ROOT / "out" / f"elsewhere-{run.core}.log"
    log.parent.mkdir(exist_ok=True)
    begin, before = time.monotonic(), load()
    with log.open("w", encoding="utf-8") as file:
        subprocess.run(command(run, PROCESSES), cwd=ROOT, env={**os.environ, **run.environment()}, stdout=file)
    return outcome(log, time.monotonic() - begin, f"{before}, {load()}")


def outcome(log: Path, seconds: float, at: str) -> Outcome:
    """Read the counts and the names of failures out of what pytest printed."""
    lines = log.read_text(encoding="utf-8").splitlines()
    ends = [line for line in lines if re.fullmatch(r"=*\s*(\d+ \w+,? )+in [\d.]+s.*", line)]
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", ends[-1] if ends else "")}
    names = [line.split()[1] for line in lines if line.startswith(("FAILED ", "ERROR "))]
    failed = counts.get("failed", 0) + counts.get("error", 0) + counts.get("errors", 0)
    # A run without a last line ended before its tests did.
    return [counts.get("passed", 0), failed if ends else -1, counts.get("skipped", 0)], names, seconds, at
