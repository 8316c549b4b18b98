"""Parameters from measured branches: responses, backbones, folds and doublings."""

from kapitza.estimate.branch_fit.fit import BranchFit, term_columns
