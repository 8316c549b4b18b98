"""Run studies from one file.

A study holds a recording, candidate models and what to find.
"""

from kapitza.study.candidates import Candidate, build_model, idle_parameters
from kapitza.study.draws import parameter_draws
from kapitza.study.exclusions import orbit_labels, without_excluded
from kapitza.study.fits import StudyFit, fitted_orbits, fitted_settings
from kapitza.study.folder import finished_before, keeping_copy, rewriting
from kapitza.study.keys import json_schema
from kapitza.study.motions_of_fit import Family, cycle_of, follow_fit, model_to_follow, repeated_fits
from kapitza.study.new_notes import new_study_notes
from kapitza.study.prediction import drive_of, last_data, predicted_table
from kapitza.study.problems import Problem, StudyError
from kapitza.study.reading import columns_of, is_study, read_alike, read_study, study_of, unread_signals
from kapitza.study.recordings import KeptRecords, spans_beyond
from kapitza.study.result import StudyResult, as_plain, quantity, read_results
from kapitza.study.running import equations_text
from kapitza.study.sensor_columns import recorded_range, state_units
from kapitza.study.study import Study
from kapitza.study.writing import main_frequency, write_new_study
