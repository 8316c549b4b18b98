"""What reproductions and benchmarks share: the runner, comparison tables, timing."""

from harness.kept import NotMeasured, kept
from harness.runner import run
from harness.table import Comparison, comparison_table, markdown_table
from harness.timing import Contender, peak_memory_mb, processor_seconds, ratio_table, time_best

__all__ = [
    "Comparison",
    "Contender",
    "NotMeasured",
    "comparison_table",
    "kept",
    "markdown_table",
    "peak_memory_mb",
    "processor_seconds",
    "ratio_table",
    "run",
    "time_best",
]
