"""What the equations of a fit miss."""

from kapitza.estimate.missing.dictionary import Term
from kapitza.estimate.missing.suggest import MissingTerm, Suggestion, suggest

__all__ = ["MissingTerm", "Suggestion", "Term", "suggest"]
