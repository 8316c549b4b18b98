"""Parameters from measured branches: responses, backbones, folds and doublings."""

from kapitza.estimate.branches.fit import BranchFit

__all__ = ["BranchFit"]
