"""Experiments as objects: rigs, measurements on them, stability of hybrid tests with delay."""

from kapitza.rig.delay_stability import Compensation, DelayStability, delay_stability, essential_radius
from kapitza.rig.fourier import FourierSeries
from kapitza.rig.measure import Measurement, NoiseLevel, settle_and_measure
from kapitza.rig.parts import Driven, Feedback, PureDelay, SecondOrder, Sensors
from kapitza.rig.protocol import PeriodicInput, Rig, RigParameter, Samples
from kapitza.rig.simulated import SimulatedRig
from kapitza.rig.systems import beam_rig, duffing_rig, pendulum_rig

__all__ = [
    "Compensation",
    "DelayStability",
    "Driven",
    "Feedback",
    "FourierSeries",
    "Measurement",
    "NoiseLevel",
    "PeriodicInput",
    "PureDelay",
    "Rig",
    "RigParameter",
    "Samples",
    "SecondOrder",
    "Sensors",
    "SimulatedRig",
    "beam_rig",
    "delay_stability",
    "duffing_rig",
    "essential_radius",
    "pendulum_rig",
    "settle_and_measure",
]
