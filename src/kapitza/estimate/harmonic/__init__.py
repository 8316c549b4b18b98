"""Parameters from harmonics and from the weak form of the equations."""

from kapitza.estimate.harmonic.returns import close_stretches
from kapitza.estimate.harmonic.settings import HarmonicFit

__all__ = ["HarmonicFit", "close_stretches"]
