"""The first minute with the package: an import and a first fit, each in a process of its own.

KAPITZA_BEFORE: the src folder of an older tree, to be measured beside the present one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from harness import markdown_table, measure

import kapitza

TARGET = 1.8
"""Seconds of processor that an import and a first fit may take, with bytecode present."""

REPEATS = 7

PLAIN = """
import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

times = 2 * np.pi * np.arange(160) / 40

def motion(k, B):
    def rates(t, x):
        return [x[1], B * np.cos(t) - k * x[1] - x[0] ** 3]
    return solve_ivp(rates, (0.0, times[-1]), [0.1, 0.0], t_eval=times, rtol=1e-9, atol=1e-9).y[0]

data = motion(0.1, 12.0) + 0.01 * np.random.default_rng(1).standard_normal(times.size)
found = least_squares(lambda p: motion(*p) - data, [0.1, 12.0])
assert found.success
"""
OURS = """
import kapitza as kz
model = kz.library.duffing()
record = kz.simulate(model, periods=4, samples_per_period=40, noise=0.01, seed=1)
fit = kz.identify(model, record, free=["k", "B"])
assert fit.status.ok
"""


def seconds(code: str, source: Path) -> float:
    """Return the least processor time of a new process that runs this code."""
    path = os.pathsep.join([str(source), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    command = [sys.executable, "-W", "ignore", "-c", code]
    return measure(
        lambda: subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": path}), repeats=REPEATS
    ).seconds


def main() -> str:
    here = Path(kapitza.__file__).parent.parent
    plain = seconds(PLAIN, here)
    rows = [["NumPy and SciPy: import, simulate, fit", f"{plain:.2f}", ""]]
    trees = {"": here} | ({" (before)": Path(os.environ["KAPITZA_BEFORE"])} if "KAPITZA_BEFORE" in os.environ else {})
    spent = {}
    for label, source in trees.items():
        spent[label] = seconds(OURS, source)
        rows.append([f"kapitza: import, simulate, fit{label}", f"{spent[label]:.2f}", f"{plain / spent[label]:.2f}"])
        alone = seconds("import kapitza", source)
        rows.append([f"kapitza: import alone{label}", f"{alone:.2f}", f"{plain / alone:.2f}"])
    verdict = "met" if spent[""] <= TARGET else "**missed**"
    return (
        "# First contact\n\n"
        f"Processor seconds of a new Python process with bytecode present, least of {REPEATS}: a Duffing oscillator of "
        "160 samples is simulated and two parameters are fitted. The plain program has no sensitivities, intervals or "
        "verdict.\n\n"
        + markdown_table(["process", "seconds", "plain program / this"], rows)
        + f"\n\nImport and first fit within {TARGET} s: {verdict}.\n"
    )
