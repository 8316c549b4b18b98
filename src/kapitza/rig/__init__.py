"""Experiments as objects.

The package holds rigs, measurements on them, and stability of hybrid tests with delay.
"""

from kapitza.base.argument_checks import check_names
from kapitza.rig.branch import RigBifurcation, RigBranch, RigPoint
from kapitza.rig.continuation import follow_rig
from kapitza.rig.corrector import RigStepping, TooFewModesError
from kapitza.rig.curves import RigCurve, doubling_curve, fold_curve
from kapitza.rig.delay_stability import Compensation, DelayStability, delay_stability, essential_radius
from kapitza.rig.doubling import doubling_at_amplitude, find_doubling
from kapitza.rig.experiment import Experiment, RigUnsettledError
from kapitza.rig.files import read_rig
from kapitza.rig.floquet import FloquetSettings, MeasuredMultipliers, measure_multipliers
from kapitza.rig.fold_measurement import FoldSettings, measure_fold
from kapitza.rig.fourier import FourierSeries
from kapitza.rig.gains import GainAdvice, advise_gains
from kapitza.rig.journal import Journal
from kapitza.rig.limits import LimitedRig, RigBeyondError
from kapitza.rig.live import GrowingPlot, LiveTable, watching
from kapitza.rig.measure import Measurement, NoiseLevel, settle_and_measure
from kapitza.rig.network import Keys, RemoteRig, RigServer, serve_rig
from kapitza.rig.orbits import OrbitSettings, measure_orbit
from kapitza.rig.parts import Driven, Feedback, PureDelay, SecondOrder, Sensors
from kapitza.rig.protocol import PeriodicInput, Rig, RigParameter, Samples, sound_samples
from kapitza.rig.simulated import SimulatedRig
from kapitza.rig.systems import beam_rig, duffing_rig, pendulum_rig, pendulum_test, spring_part
from kapitza.rig.unit_rig import Shaking, UnitFeedback, UnitRig

__all__ = [
    "Compensation",
    "DelayStability",
    "Driven",
    "Experiment",
    "Feedback",
    "FloquetSettings",
    "FoldSettings",
    "FourierSeries",
    "GainAdvice",
    "GrowingPlot",
    "Journal",
    "Keys",
    "LimitedRig",
    "LiveTable",
    "MeasuredMultipliers",
    "Measurement",
    "NoiseLevel",
    "OrbitSettings",
    "PeriodicInput",
    "PureDelay",
    "RemoteRig",
    "Rig",
    "RigBeyondError",
    "RigBifurcation",
    "RigBranch",
    "RigCurve",
    "RigParameter",
    "RigPoint",
    "RigServer",
    "RigStepping",
    "RigUnsettledError",
    "Samples",
    "SecondOrder",
    "Sensors",
    "Shaking",
    "SimulatedRig",
    "TooFewModesError",
    "UnitFeedback",
    "UnitRig",
    "advise_gains",
    "beam_rig",
    "delay_stability",
    "doubling_at_amplitude",
    "doubling_curve",
    "duffing_rig",
    "essential_radius",
    "find_doubling",
    "fold_curve",
    "follow_rig",
    "measure_fold",
    "measure_multipliers",
    "measure_orbit",
    "pendulum_rig",
    "pendulum_test",
    "read_rig",
    "serve_rig",
    "settle_and_measure",
    "sound_samples",
    "spring_part",
    "watching",
]

RESULTS = (
    "Compensation",
    "DelayStability",
    "GainAdvice",
    "MeasuredMultipliers",
    "Measurement",
    "RigBifurcation",
    "RigBranch",
    "RigCurve",
    "RigPoint",
    "Samples",
)
"""Classes that measurements and searches return: their numbers may be missing (NaN) or infinite."""

check_names(globals(), RESULTS)
