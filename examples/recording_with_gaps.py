"""A logger's file: comment header, lost samples. What is in it, and how to cut it."""

import tempfile
from pathlib import Path

import numpy as np

import kapitza as kz
from kapitza.report import plot_record

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "run7.txt"
    time = np.delete(np.arange(0, 10, 0.01), [200, 201, 202, 640])
    rows = np.column_stack([time, np.cos(2 * time), -2 * np.sin(2 * time)])
    np.savetxt(path, rows, header="t phi omega", comments="% ")

    record = kz.read(path, angles=["phi"], units={"phi": "rad", "omega": "rad/s"})
    print(record)
    print(record.sampling())

    pieces = record.split_at_gaps()
    print(f"{len(pieces.segments())} segments, each regular: {pieces.sampling().regular}")

    kz.write(pieces, Path(folder) / "run7.parquet")
    print("read back:", kz.read(Path(folder) / "run7.parquet"))
    plot_record(pieces).savefig(Path(folder) / "run7.png")
