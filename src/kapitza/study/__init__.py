"""Studies: a recording, candidate models and what to find, in one file."""

from kapitza.study.keys import json_schema
from kapitza.study.outcome import ForceCurve, Motion, OrbitSketch, Outcome, SectionSketch
from kapitza.study.problems import Problem, StudyError
from kapitza.study.reading import read_study
from kapitza.study.result import StudyResult, read_results
from kapitza.study.study import Study

__all__ = [
    "ForceCurve",
    "Motion",
    "OrbitSketch",
    "Outcome",
    "Problem",
    "SectionSketch",
    "Study",
    "StudyError",
    "StudyResult",
    "json_schema",
    "read_results",
    "read_study",
]
