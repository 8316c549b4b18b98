"""Which combinations of parameters the outputs of a model determine, by the structure of its equations."""

from kapitza.estimate.redundancy.equivalents import equivalents
from kapitza.estimate.redundancy.structural import identifiable, refuse_redundant, structural
from kapitza.estimate.redundancy.verb import identifiability

__all__ = ["equivalents", "identifiability", "identifiable", "refuse_redundant", "structural"]
