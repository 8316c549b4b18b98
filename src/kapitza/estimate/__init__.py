"""Identification of parameters from data, with intervals."""

from kapitza.estimate.automatic import Automatic
from kapitza.estimate.branch_fit import BranchFit
from kapitza.estimate.channel_units import record_in_model_units
from kapitza.estimate.combinations import combinations_of
from kapitza.estimate.comparison import TIE, compare_fits
from kapitza.estimate.coverage import Coverage, coverage
from kapitza.estimate.drive_noise import EXPLAINS, drive_effect, with_drive_noise
from kapitza.estimate.drives import best_degree
from kapitza.estimate.energy import negative_frictions
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.harmonic_fit import HarmonicFit
from kapitza.estimate.identifiability import Identifiability
from kapitza.estimate.identify import identify
from kapitza.estimate.intervals import truncated_gaussian
from kapitza.estimate.invariant_fit import InvariantFit
from kapitza.estimate.last_state import LastState, last_state
from kapitza.estimate.method import Accepts
from kapitza.estimate.misfit import Misfit
from kapitza.estimate.missing import Suggestion, suggest
from kapitza.estimate.observation import DifferenceQuotient, Observation, observe_channels
from kapitza.estimate.orbit_fit import OrbitFit, advise, missing_orbits
from kapitza.estimate.outputs import read_output
from kapitza.estimate.parts import FittedMotion, LevelSets, Likelihood, OrbitMatches, Prediction, WeakRows
from kapitza.estimate.posterior import posterior
from kapitza.estimate.priors import bounds_of, priors_of
from kapitza.estimate.profile import ProfileCurve, profile_curve, profile_interval
from kapitza.estimate.redundancy import identifiability
from kapitza.estimate.sensor_readings import sensor_readings
from kapitza.estimate.sensors import Sensor
from kapitza.estimate.shooting_fit import ShootingFit, cramer_rao
from kapitza.estimate.validation import PredictionTest, SectionTest, Validation, validate
