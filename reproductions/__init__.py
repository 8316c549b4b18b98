"""Tables and figures of the source documents, printed beside what Kapitza computes.

A script is one module with `main() -> str` that returns Markdown, best made with `harness.comparison_table`.
"""
