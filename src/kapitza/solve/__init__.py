"""Numerics that know no dynamics: Newton corrector, families and walks, structured linear systems, least squares."""

from kapitza.solve.by_differences import Minimum, minimise_by_differences
from kapitza.solve.chain import UNDETERMINED, ChainProgram, ChainStep
from kapitza.solve.family import (
    Bordered,
    BorderedLinearised,
    DensePoint,
    DenseSolver,
    Family,
    LinearisedFamily,
    MeasuredBordered,
    MeasuredFamily,
    Solver,
)
from kapitza.solve.gauss_newton import LeastSquaresResult, LeastSquaresSettings, gauss_newton
from kapitza.solve.newton import (
    DenseLinearised,
    DenseSystem,
    Linearised,
    Measured,
    MeasuredSystem,
    NewtonResult,
    NewtonRow,
    NewtonSettings,
    Update,
    newton,
)
from kapitza.solve.structured import BorderedBand, CyclicSystem, fold, scaled_inverse, scatter_blocks
from kapitza.solve.walk import ByEffort, Halving, Outcome, StepCollapse, StepRule, Stride, walk, walk_to

__all__ = [
    "UNDETERMINED",
    "Bordered",
    "BorderedBand",
    "BorderedLinearised",
    "ByEffort",
    "ChainProgram",
    "ChainStep",
    "CyclicSystem",
    "DenseLinearised",
    "DensePoint",
    "DenseSolver",
    "DenseSystem",
    "Family",
    "Halving",
    "LeastSquaresResult",
    "LeastSquaresSettings",
    "Linearised",
    "LinearisedFamily",
    "Measured",
    "MeasuredBordered",
    "MeasuredFamily",
    "MeasuredSystem",
    "Minimum",
    "NewtonResult",
    "NewtonRow",
    "NewtonSettings",
    "Outcome",
    "Solver",
    "StepCollapse",
    "StepRule",
    "Stride",
    "Update",
    "fold",
    "gauss_newton",
    "minimise_by_differences",
    "newton",
    "scaled_inverse",
    "scatter_blocks",
    "walk",
    "walk_to",
]
