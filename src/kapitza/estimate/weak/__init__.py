"""Parameters from harmonics and from the weak form of the equations."""

from kapitza.estimate.weak.settings import HarmonicFit

__all__ = ["HarmonicFit"]
