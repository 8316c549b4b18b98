"""Numerics that know no dynamics: Newton corrector, structured linear systems, least squares."""

from kapitza.solve.by_differences import Minimum, minimise_by_differences
from kapitza.solve.chain import ChainProgram, ChainStep
from kapitza.solve.gauss_newton import LeastSquaresResult, LeastSquaresSettings, gauss_newton
from kapitza.solve.newton import DenseLinearised, DenseSystem, NewtonResult, NewtonSettings, newton
from kapitza.solve.structured import BorderedBand, CyclicSystem, fold, scatter_blocks

__all__ = [
    "BorderedBand",
    "ChainProgram",
    "ChainStep",
    "CyclicSystem",
    "DenseLinearised",
    "DenseSystem",
    "LeastSquaresResult",
    "LeastSquaresSettings",
    "Minimum",
    "NewtonResult",
    "NewtonSettings",
    "fold",
    "gauss_newton",
    "minimise_by_differences",
    "newton",
    "scatter_blocks",
]
