"""Periodic orbits of a model, by every solver, with multipliers one can trust."""

from kapitza.periodic.census import CensusReport
from kapitza.periodic.certify import certify
from kapitza.periodic.collocation import Collocation
from kapitza.periodic.differences import Differences
from kapitza.periodic.harmonic import HarmonicBalance
from kapitza.periodic.homotopy import Homotopy
from kapitza.periodic.loop import FlowLoop, FourierSeries, Loop, PiecewiseLoop, SampledLoop
from kapitza.periodic.phase import FixedState, IntegralPhase, OrthogonalPhase
from kapitza.periodic.sensitivity import Sensitivity
from kapitza.periodic.shooting import MultipleShooting, Shooting
from kapitza.periodic.solve_orbit import solve_orbit
from kapitza.periodic.solver import ClosedOrbit, OrbitSolver

__all__ = [
    "CensusReport",
    "ClosedOrbit",
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
    "OrbitSolver",
    "OrthogonalPhase",
    "PiecewiseLoop",
    "SampledLoop",
    "Sensitivity",
    "Shooting",
    "certify",
    "solve_orbit",
]
