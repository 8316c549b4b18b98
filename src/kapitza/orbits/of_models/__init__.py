"""Periodic orbits of a model, by every solver.

Multipliers come with a certificate.
"""

from kapitza.orbits.of_models.basins import Basins, basins
from kapitza.orbits.of_models.census import CensusReport, find_orbits_of_model
from kapitza.orbits.of_models.certify import certify
from kapitza.orbits.of_models.codes import spelled, symbolic_code
from kapitza.orbits.of_models.collocation import Collocation, element_defects, mesh_density
from kapitza.orbits.of_models.coordinates import CoordinateForm, tangent_segments
from kapitza.orbits.of_models.differences import DifferenceEquations, Differences
from kapitza.orbits.of_models.elements import CollocationEquations, Layout, LinearisedElements, Unknowns
from kapitza.orbits.of_models.exponents import exponents
from kapitza.orbits.of_models.field import VectorField
from kapitza.orbits.of_models.floquet import Monodromy, certificate, log_determinant, monodromy
from kapitza.orbits.of_models.gauss import gauss_rule, integrated_basis
from kapitza.orbits.of_models.guesses import Guess
from kapitza.orbits.of_models.harmonic import (
    HarmonicBalance,
    HarmonicEquations,
    LinearisedHarmonics,
    telling_harmonics,
)
from kapitza.orbits.of_models.homotopy import Homotopy
from kapitza.orbits.of_models.loop import FlowLoop, FourierSeries, PiecewiseLoop, SampledLoop, as_point, fourier_series
from kapitza.orbits.of_models.lyapunov import LyapunovSpectrum
from kapitza.orbits.of_models.phase import FixedState, IntegralPhase, OrthogonalPhase, PhaseRow
from kapitza.orbits.of_models.polishing import polished_cycle
from kapitza.orbits.of_models.problem import Compiled, Method, Problem, Solution
from kapitza.orbits.of_models.sequence import Arcs, distribute, even_mesh, find_arcs
from kapitza.orbits.of_models.shooting import (
    ChainSolver,
    LinearisedShooting,
    MultipleShooting,
    Shooting,
    ShootingEquations,
    place_nodes,
    total_winding,
)
from kapitza.orbits.of_models.solve_orbit import described, solve_orbit
from kapitza.orbits.of_models.solver import OrbitSolver
from kapitza.orbits.of_models.strobed_rates import chained_rates
from kapitza.orbits.of_models.surfaces import volume_change
from kapitza.orbits.of_models.unseen_states import folded_states, hidden_states, loop_of
