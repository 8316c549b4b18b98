"""The systems of the literature, ready to use, with values and sources.

Sources by short name: ORBITS, parameters of a chaotic pendulum from its unstable periodic orbits; HARMONIC, inverse
harmonic balance for a base-excited double pendulum; INVARIANT, parameters from a conserved quantity; PERIODIC, periodic
solvers inside a Bayesian estimator; HYBRID, control-based continuation of a hybrid experiment.
"""

from kapitza.library.duffing import duffing
from kapitza.library.henon_heiles import henon_heiles
from kapitza.library.pendulum import parametric_pendulum
from kapitza.library.strange_attractors import lorenz, rossler

__all__ = ["duffing", "henon_heiles", "lorenz", "parametric_pendulum", "rossler"]
