"""Limits of experiments.

Expressions along the motion, the drift and the time on the rig can be limited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kapitza.base.arrays import Array
from kapitza.errors import DataError
from kapitza.model import Model
from kapitza.planning.choice import Choice
from kapitza.planning.runs import Runs, drift_of, limited

MARGIN = 1.05
"""Largest peak of the draws times this must stay within a limit: then none of 103 planned runs broke one."""

TIME = "time"
"""Name of the limit on the seconds that an experiment takes, settling included."""


@dataclass(frozen=True)
class Limits:
    """Bounds on a run.

    An expression maps to its largest value, "time" to seconds, "drift(expression)" to the largest change of the mean.
    """

    bounds: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for text, bound in self.bounds.items():
            if not (np.isfinite(bound) and bound > 0):
                raise DataError(f'The limit of "{text}" is {bound}: give a number above 0, such as {{"abs(x)": 1.2}}.')

    @property
    def simulated(self) -> tuple[str, ...]:
        """Limits that a simulation must test."""
        return tuple(text for text in self.bounds if text != TIME)

    @property
    def watched(self) -> dict[str, float]:
        """Return limits that a rig can test sample by sample."""
        return {text: bound for text, bound in self.bounds.items() if text != TIME and not drift_of(text)[1]}

    @property
    def peaks(self) -> Array:
        """Return the largest allowed peaks (l,) of planned runs."""
        return np.array([self.bounds[text] for text in self.simulated]) / MARGIN

    def share(self, runs: Runs, choices: Sequence[Choice]) -> Array:
        """Return the used share (C,) of the tightest limit.

        It is the largest of all draws; infinite where a motion diverges.
        """
        if self.peaks.size:
            share = (runs.peaks / self.peaks).max(axis=2)
            # A draw whose motion diverges has no peak and breaks every limit.
            share = np.where(np.isfinite(share), share, np.inf).max(axis=1)
        else:
            share = np.where(runs.failed.any(axis=1), np.inf, 0.0)
        if TIME not in self.bounds:
            return share
        # Known without a simulation, so without a margin.
        return np.maximum(share, np.array([choice.seconds for choice in choices]) / self.bounds[TIME])


def check_limits(model: Model, bounds: Mapping[str, float]) -> None:
    """Refuse limits that are not valid.

    A limit must be an expression of the model with a bound above 0.
    """
    limited(model, Limits(dict(bounds)).simulated)
