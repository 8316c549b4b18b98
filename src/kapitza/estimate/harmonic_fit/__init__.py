"""Fits by harmonic balance and by the weak form."""

from kapitza.estimate.harmonic_fit.settings import HarmonicFit
