"""Periodic orbits of a model, by every solver, with multipliers one can trust."""

from kapitza.periodic.census import CensusReport
from kapitza.periodic.collocation import Collocation
from kapitza.periodic.differences import Differences
from kapitza.periodic.harmonic import HarmonicBalance
from kapitza.periodic.homotopy import Homotopy
from kapitza.periodic.loop import FlowLoop, FourierSeries, Loop, PiecewiseLoop, SampledLoop
from kapitza.periodic.phase import FixedState, IntegralPhase, OrthogonalPhase
from kapitza.periodic.sensitivity import Sensitivity
from kapitza.periodic.shooting import MultipleShooting, Shooting
from kapitza.periodic.solve_orbit import solve_orbit

__all__ = [
    "CensusReport",
    "Collocation",
    "Differences",
    "FixedState",
    "FlowLoop",
    "FourierSeries",
    "HarmonicBalance",
    "Homotopy",
    "IntegralPhase",
    "Loop",
    "MultipleShooting",
    "OrthogonalPhase",
    "PiecewiseLoop",
    "SampledLoop",
    "Sensitivity",
    "Shooting",
    "solve_orbit",
]
