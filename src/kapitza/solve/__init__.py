"""Numerics without dynamics.

The package holds a Newton corrector, families and continuation steps, structured linear systems and least squares.
"""

# pyright: reportUnusedImport=false

from kapitza.solve.anderson import AndersonMixing
from kapitza.solve.bounded import nearest_within
from kapitza.solve.by_differences import Minimum, minimise_by_differences, slopes_by_differences
from kapitza.solve.chain import UNDETERMINED, ChainProgram, ChainStep
from kapitza.solve.factors import (
    basis_of,
    eigenvalues,
    eigenvectors,
    first_largest,
    largest_first,
    ordered,
    oriented,
    orthogonal_factor,
    pivoted_columns,
    singular_vectors,
    symmetric_eigenvectors,
    symmetric_function,
    triangular_factor,
)
from kapitza.solve.family import (
    Bordered,
    BorderedLinearised,
    DensePoint,
    DenseSolver,
    LinearisedFamily,
    MeasuredBordered,
    Solver,
)
from kapitza.solve.gauss_newton import LeastSquaresResult, LeastSquaresSettings, gauss_newton
from kapitza.solve.lapack import geev, quantile
from kapitza.solve.newton import (
    DenseLinearised,
    DenseSystem,
    Linearised,
    Measured,
    MeasuredSystem,
    NewtonResult,
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
    inverse_within,
    scaled_inverse,
    scatter_blocks,
)
from kapitza.solve.walk import ByEffort, Halving, Outcome, StepCollapse, StepRule, Stride, walk, walk_to
