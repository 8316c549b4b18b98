"""Structural identifiability: combinations determined by the equations."""

from kapitza.estimate.redundancy.equivalents import equivalents
from kapitza.estimate.redundancy.structural import identifiable, refuse_redundant, structural
from kapitza.estimate.redundancy.verb import identifiability
