"""Reading a large text file: Kapitza beside NumPy and pandas on the same file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from harness import Contender, measure, peak_memory_mb, ratio_table

import kapitza as kz

ROWS = 1_000_000


def main() -> str:
    random = np.random.default_rng(1)
    table = np.column_stack([np.arange(ROWS) * 1e-3, random.standard_normal((ROWS, 2))])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.csv"
        pd.DataFrame(table, columns=["t", "phi", "omega"]).to_csv(path, index=False, float_format="%.9g")
        size = path.stat().st_size / 1e6
        ours = measure(lambda: kz.read(path))
        seconds, record, memory = ours.seconds, ours.answer, peak_memory_mb()
        error = float(np.abs(record.values() - table[:, 1:]).max())
        pandas_seconds = measure(lambda: pd.read_csv(path)).seconds
        numpy_seconds = measure(lambda: np.loadtxt(path, delimiter=",", skiprows=1)).seconds
    peers = [
        Contender("numpy.loadtxt", numpy_seconds, target_ratio=1.0),
        Contender("pandas.read_csv", pandas_seconds, note="the limit: the same parser without checks"),
    ]
    ours = Contender("kapitza.read", seconds, error, note=f"checked record; peak memory {memory:.0f} MB")
    return (
        "# Reading a large csv file\n\n"
        f"{ROWS} rows, 3 columns, {size:.0f} MB; processor time, best of three after a first run. "
        "Ours includes layout, checks and the record.\n\n" + ratio_table(ours, peers)
    )
