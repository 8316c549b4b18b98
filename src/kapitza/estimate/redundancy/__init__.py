"""Which combinations of parameters the outputs of a model determine, by the structure of its equations."""

from kapitza.estimate.redundancy.structural import named_by_structure, refuse_redundant, structural
from kapitza.estimate.redundancy.verb import identifiability

__all__ = ["identifiability", "named_by_structure", "refuse_redundant", "structural"]
