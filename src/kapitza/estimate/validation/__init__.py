"""Validation of a fitted model on other data."""

from kapitza.estimate.validation.result import Exponents, Frequency, OrbitCheck, PredictionTest, SectionTest, Validation
from kapitza.estimate.validation.validate import validate
