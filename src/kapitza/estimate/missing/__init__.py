"""Terms that the equations of a fit miss."""

from kapitza.estimate.missing.dictionary import Term
from kapitza.estimate.missing.directed import REST, ModelTest, directed_test
from kapitza.estimate.missing.suggest import MissingTerm, Suggestion, chance_text, suggest

__all__ = ["REST", "MissingTerm", "ModelTest", "Suggestion", "Term", "chance_text", "directed_test", "suggest"]
