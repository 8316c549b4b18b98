"""ShootingFit: maximum likelihood from the raw series, chaotic or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import sympy as sp

from kapitza.data import Noise
from kapitza.errors import ConvergenceError, IdentifiabilityError, Status
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.redundancy import refuse_redundant
from kapitza.estimate.request import Request
from kapitza.estimate.series.bent import with_bent_errors
from kapitza.estimate.series.checks import check_motion, check_settings, check_unknowns
from kapitza.estimate.series.result import estimate_of
from kapitza.estimate.series.search import in_best_windows, search
from kapitza.estimate.series.task import prepare


@dataclass(frozen=True)
class ShootingFit:
    """Multiple shooting: states at the nodes and parameters together, continuity as constraint.

    Minimises Σ (h(x(t_i), θ) - y_i)²/σ² (and the priors of the parameters) subject to x being a motion of the model
    over each piece of the record (H. G. Bock 1981; E. Baake et al., Phys. Rev. A 45 (1992) 5524).

    Parameters
    ----------
    outputs : mapping
        What a channel measures where its name is neither a state nor an output of the model, in plain notation:
        ``{"theta2": "phi2 - phi1"}``.
    noise : float or mapping, optional
        Standard deviation for all channels or by channel; otherwise the record's own, otherwise (and where it is 0)
        estimated for each record.
    spacing : int, optional
        Samples per shooting interval at the end (default: by the growth of the tangents, at most 10).
    window, windows : int
        Samples of the first fit of a long record, from which the whole is fitted (fewer where the states are dozens);
        and instead of the whole only so many windows: those that together tell most about the parameters (0: the
        whole).
    softness : float
        How far the links may stretch at the start, in units of each state's spread.
    process_noise : bool or mapping
        Standard deviation per state and sampling step of kicks that the motion really has (their variance grows with
        the time over lost samples), or True to estimate one common relative size.
    robust : bool
        Huber's loss beyond 1.345 standard deviations, against outliers.
    initial : mapping or list of mappings
        The state at the first sample of a record, where it is known; a list holds one for each record.
    hold_back : float
        Fraction of the last samples of each record that is left out of the fit to test its prediction.
    max_gap : float
        Gaps longer than this many median steps cut the record.
    bridge : bool
        Segments parted by fewer lost samples than that are one motion; False for trials that share a clock.
    tolerance, max_iterations, throw
        Of the last relative step; of the iteration; raise where it does not converge.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> model = kz.Model.from_equations("x'' + c*x' + x = 0", parameters={"c": 0.1}, start={"x": 1.0, "x'": 0.0})
    >>> record = kz.measure(kz.simulate(model, t=np.arange(300) * 0.1).select(["x"]), noise=0.01, seed=1)
    >>> fit = kz.identify(model.with_values(c=0.3), record, free=["c"], method=kz.ShootingFit(hold_back=0.2))
    >>> bool(abs(fit["c"] - 0.1) < 4 * fit.deviations["c"])
    True
    >>> fit.motion.states.shape[1]
    2
    """

    outputs: Mapping[str, str | sp.Expr] = field(default_factory=dict)
    noise: Noise = None
    spacing: int | None = None
    window: int = 5000
    windows: int = 0
    softness: float = 0.05
    process_noise: bool | Mapping[str, float] = False
    robust: bool = False
    initial: Mapping[str, float] | Sequence[Mapping[str, float]] = field(default_factory=dict)
    hold_back: float = 0.0
    max_gap: float = 20.0
    bridge: bool = True
    tolerance: float = 1e-9
    max_iterations: int = 100
    throw: bool = True

    def __post_init__(self) -> None:
        check_settings(self)

    def fit(self, request: Request) -> Estimate:
        """The most likely parameters and motion; without free parameters the motion alone."""
        task = prepare(self, request)
        check_motion(task.problem.samples, task.sensors, task.observation.channels)
        prior = int(np.count_nonzero(task.problem.prior_weight)) + task.problem.held_count
        states = len(request.model.states)
        check_unknowns(task.problem.samples, states, len(request.names), prior, task.sensors.all_known)
        if self.throw and not self.initial:
            refuse_redundant(request, task.observation.expressions)
        task = in_best_windows(task)
        found = search(task)
        estimate = estimate_of(task, found)
        if self.throw and found.solution.status is not Status.CONVERGED:
            raise ConvergenceError(estimate.post_mortem, estimate)
        if self.throw and estimate.identifiability is not None and not estimate.identifiability.complete:
            raise IdentifiabilityError(estimate.identifiability.message())
        return with_bent_errors(estimate)
