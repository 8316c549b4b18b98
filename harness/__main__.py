"""`python -m harness`: rewrite docs/results/index.md from the pages that are there."""

from harness.runner import write_index

write_index()
