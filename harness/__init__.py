"""What reproductions and benchmarks share: the runner, comparison tables, timing."""

from harness.kept import NotMeasured, kept
from harness.runner import run
from harness.table import Comparison, comparison_table, markdown_table
from harness.timing import Contender, Timing, load, measure, peak_memory_mb, processor_time, ratio_table

__all__ = [
    "Comparison",
    "Contender",
    "NotMeasured",
    "Timing",
    "comparison_table",
    "kept",
    "load",
    "markdown_table",
    "measure",
    "peak_memory_mb",
    "processor_time",
    "ratio_table",
    "run",
]
