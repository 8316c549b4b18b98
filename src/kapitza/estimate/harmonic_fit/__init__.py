"""Parameters from harmonics and from the weak form of the equations."""

from kapitza.estimate.harmonic_fit.settings import HarmonicFit

__all__ = ["HarmonicFit"]
