"""Studies: a recording, candidate models and what to find, in one file."""

from kapitza.study.keys import json_schema
from kapitza.study.outcome import (
    AskedTerm,
    ForceCurve,
    ForceSurface,
    Motion,
    OrbitSketch,
    Outcome,
    ProfileSketch,
    SectionSketch,
)
from kapitza.study.prediction import predicted_table
from kapitza.study.problems import Problem, StudyError
from kapitza.study.reading import read_study
from kapitza.study.result import StudyResult, read_results
from kapitza.study.study import Study
from kapitza.study.writing import write_new_study

__all__ = [
    "AskedTerm",
    "ForceCurve",
    "ForceSurface",
    "Motion",
    "OrbitSketch",
    "Outcome",
    "Problem",
    "ProfileSketch",
    "SectionSketch",
    "Study",
    "StudyError",
    "StudyResult",
    "json_schema",
    "predicted_table",
    "read_results",
    "read_study",
    "write_new_study",
]
