"""Fits to conserved quantities."""

from kapitza.estimate.invariant_fit.fit import InvariantFit
