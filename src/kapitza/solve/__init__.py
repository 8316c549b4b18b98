"""Numerics that know no dynamics: Newton corrector, families and walks, structured linear systems, least squares."""

from kapitza.solve.anderson import AndersonMixing
from kapitza.solve.bounded import nearest_within
from kapitza.solve.by_differences import Minimum, minimise_by_differences, slopes_by_differences
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
from kapitza.solve.structured import (
    BorderedBand,
    CyclicSystem,
    MarchedChain,
    closed_chain,
    fold,
    scaled_inverse,
    scatter_blocks,
)
from kapitza.solve.walk import ByEffort, Halving, Outcome, StepCollapse, StepRule, Stride, walk, walk_to

__all__ = [
    "UNDETERMINED",
    "AndersonMixing",
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
    "MarchedChain",
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
    "closed_chain",
    "fold",
    "gauss_newton",
    "minimise_by_differences",
    "nearest_within",
    "newton",
    "scaled_inverse",
    "scatter_blocks",
    "slopes_by_differences",
    "walk",
    "walk_to",
]
