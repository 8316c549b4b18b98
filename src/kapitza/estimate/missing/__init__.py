"""Terms that the equations of a fit miss."""

from kapitza.estimate.missing.directed import REST, ModelTest, directed_test
from kapitza.estimate.missing.suggest import Suggestion, chance_text, suggest
