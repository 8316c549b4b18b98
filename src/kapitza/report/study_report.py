"""write_study_report: what a study found, as one HTML file."""

from __future__ import annotations

from pathlib import Path

from kapitza.report.page import Section, write_page
from kapitza.study import StudyResult


def write_study_report(result: StudyResult, path: str | Path) -> Path:
    """The answer first, then tables, warnings and provenance, on one self-contained page. Returns the path."""
    best = result.best
    sections = [Section("Parameters", table=result.table(), warnings=() if best is None else best.warnings)]
    comparison = result.comparison()
    if len(comparison):
        sections.append(Section("Candidates", (result.verdict(),), table=comparison))
    failures = tuple(f"{o.label}: {o.failure}" for o in result.outcomes if o.failure)
    if failures or result.disagreements():
        sections.append(Section("What does not fit together", warnings=(*result.disagreements(), *failures)))
    sections.append(Section("The study", result.data, listing=result.study))
    return write_page(result.title, result.sentence(), sections, path)
