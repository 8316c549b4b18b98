import sys

from harness import run

sys.exit(run("benchmarks"))
