"""Parameters from conserved quantities."""

from kapitza.estimate.invariant.fit import InvariantFit

__all__ = ["InvariantFit"]
