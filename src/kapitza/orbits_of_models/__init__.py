"""Periodic orbits of a model, by every solver, with multipliers one can trust."""

from kapitza.orbit import Loop, Sensitivity
from kapitza.orbits_of_models.census import CensusReport
from kapitza.orbits_of_models.certify import certify
from kapitza.orbits_of_models.collocation import Collocation
from kapitza.orbits_of_models.differences import Differences
from kapitza.orbits_of_models.harmonic import HarmonicBalance
from kapitza.orbits_of_models.homotopy import Homotopy
from kapitza.orbits_of_models.loop import FlowLoop, FourierSeries, PiecewiseLoop, SampledLoop
from kapitza.orbits_of_models.phase import FixedState, IntegralPhase, OrthogonalPhase
from kapitza.orbits_of_models.shooting import MultipleShooting, Shooting
from kapitza.orbits_of_models.solve_orbit import solve_orbit
from kapitza.orbits_of_models.solver import ClosedOrbit, OrbitSolver

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
