"""Kapitza and its peers on the same work in one run, printed as ratios.

A script is one module with `main() -> str` that returns Markdown, best made with `harness.ratio_table`. Peers come
from the extra `[bench]`.
"""
