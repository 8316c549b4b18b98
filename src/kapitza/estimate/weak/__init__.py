"""Parameters from harmonics and from the weak form of the equations."""

from kapitza.estimate.weak.excitation import unknown_excitation
from kapitza.estimate.weak.settings import HarmonicFit
from kapitza.estimate.weak.validate import compare_portraits, natural_frequencies, ratios, spectral_peaks

__all__ = [
    "HarmonicFit",
    "compare_portraits",
    "natural_frequencies",
    "ratios",
    "spectral_peaks",
    "unknown_excitation",
]
