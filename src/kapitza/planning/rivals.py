"""Experiments that distinguish two models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize

from kapitza.base.argument_checks import Anything
from kapitza.base.arrays import Array
from kapitza.base.display import Shown
from kapitza.base.monitor import Interrupted, Monitor, checkpoint, watch
from kapitza.data import Record
from kapitza.errors import DataError, KapitzaError
from kapitza.estimate import Estimate, ShootingFit, identify
from kapitza.model import Model
from kapitza.planning.choice import Choice
from kapitza.planning.experiments import Experiments
from kapitza.planning.knowledge import outputs_of
from kapitza.planning.limits import Limits
from kapitza.planning.search import REFUSED, Search, corners
from kapitza.planning.space import Space, space

if TYPE_CHECKING:
    import pandas as pd

DECISIVE = 20.0
"""Log ratio from which one run settles the question: e²⁰ to 1, also after some model error."""


@dataclass(frozen=True)
class Rival:
    """Model with the names of its free parameters.

    The model has the values that the data so far give.
    """

    model: Model
    free: tuple[str, ...]
    source: Estimate | None = None

    @property
    def draws(self) -> Array:
        return np.array([[self.model.values[name] for name in self.free]])

    def outputs(self, run: Choice) -> dict[str, str]:
        """Return what the channels of a run measure.

        A rival that is a fit states them.
        """
        return outputs_of(self.model if self.source is None else self.source, run.channels)


@dataclass(frozen=True)
class Contest:
    """Experiment with its expected log ratio.

    ratios (2,): if the first model is true, and if the second is.
    share: of the tightest limit that it uses under either model.
    """

    choice: Choice
    ratios: Array
    share: float

    @property
    def worst(self) -> float:
        """Smaller of both ratios.

        The evidence of the run whichever model is true.
        """
        return float(self.ratios.min())


@dataclass(frozen=True)
class RivalPlan(Shown):
    """Result of `kapitza.tell_apart`.

    Experiments are in the order of their worst expected log ratio.

    names: of the models; contests: the experiments; refused: those that could not be compared, with the reason.

    Examples
    --------
    >>> import kapitza as kz
    >>> light = kz.Parameter("d", 0.1, bounds=(0.0, 1.0))
    >>> linear = kz.Model.from_equations("x'' + d*x' + x = 0", parameters=[light], name="linear")
    >>> cubic = kz.Model.from_equations("x'' + d*x'**3 + x = 0", parameters=[light], name="cubic")
    >>> run = kz.Choice(duration=20.0, step=0.1, channels={"x": 0.01})
    >>> found = kz.tell_apart([(linear, ["d"]), (cubic, ["d"])], {"x": [0.1, 1.0]}, run, search=kz.Search(points=2))
    >>> found.best.start["x"]
    1.0
    """

    names: tuple[str, str]
    contests: tuple[Contest, ...]
    refused: tuple[str, ...] = field(default=(), repr=False)

    def __len__(self) -> int:
        return len(self.contests)

    def __iter__(self) -> Any:
        return iter(self.contests)

    def __getitem__(self, number: int) -> Contest:
        return self.contests[number]

    @property
    def best(self) -> Choice:
        """The experiment that distinguishes the models best."""
        if not self.contests:
            raise DataError(
                "No experiment could be compared: " + ("; ".join(self.refused[:3]) or "none stays within the limits.")
            )
        return self.contests[0].choice

    def table(self) -> pd.DataFrame:
        """Return a table with one row per experiment.

        A row holds the expected log ratio under either truth, and the smaller one.
        """
        import pandas as pd

        rows = [
            (str(c.choice), float(c.ratios[0]), float(c.ratios[1]), c.worst, c.share, c.choice.seconds)
            for c in self.contests
        ]
        columns = ["experiment", *(f"if {name} is true" for name in self.names), "worst", "peak/limit", "time [s]"]
        return pd.DataFrame(rows, columns=columns, index=pd.RangeIndex(1, len(rows) + 1, name="rank"))

    def __str__(self) -> str:
        if not self.contests:
            return "No experiment could be compared."
        lines = [
            f"{self.names[0]} or {self.names[1]}: experiments by expected log likelihood ratio, worst of both truths:"
        ]
        for rank, one in enumerate(self.contests[:10], 1):
            verdict = "decides" if one.worst > DECISIVE else "a strong hint" if one.worst > 5 else "hardly decides"
            lines.append(f"  {rank}. {one.choice}: {one.ratios[0]:.3g} / {one.ratios[1]:.3g} ({verdict})")
        return "\n".join(lines)


def tell_apart(
    rivals: Sequence[Estimate | tuple[Model, Sequence[str]]],
    vary: Mapping[str, Anything],
    run: Choice,
    limits: Mapping[str, float] | None = None,
    search: Search | None = None,
    monitor: Monitor | None = None,
) -> RivalPlan:
    """Return the experiments that distinguish two models.

    Each model in turn is taken as true and simulated without noise; the other is fitted to that motion, its parameters
    within their bounds. Half the remaining χ² is the log likelihood ratio to expect. A run counts by the smaller of
    both ratios. Bounds decide: friction that may be negative can imitate other laws, so give the parameters bounds.

    Parameters
    ----------
    rivals : two fits, or pairs (model, free parameters)
        The models at the values that the data so far give.
    vary : mapping
        What may be chosen, as `plan` takes it.
    run : Choice
        What is not varied: duration, sampling, channels with their noise.
    limits : mapping, optional
        Expressions of states and parameters → largest value.
    search : Search, optional
        `points` experiments of a Sobol sequence are compared, then at most as many again, and at most `polish`, around
        the best; each takes two fits.
    monitor : Monitor, optional
        Progress and cancelling.

    Returns
    -------
    RivalPlan
        The experiments, the best first.

    Examples
    --------
    >>> import kapitza as kz
    >>> light = kz.Parameter("d", 0.1, bounds=(0.0, 1.0))
    >>> linear = kz.Model.from_equations("x'' + d*x' + x = 0", parameters=[light], name="linear")
    >>> cubic = kz.Model.from_equations("x'' + d*x'**3 + x = 0", parameters=[light], name="cubic")
    >>> run = kz.Choice(duration=20.0, step=0.1, channels={"x": 0.01})
    >>> found = kz.tell_apart([(linear, ["d"]), (cubic, ["d"])], {"x": [0.1, 1.0]}, run, search=kz.Search(points=2))
    >>> found.best.start["x"]
    1.0
    """
    first, second = (_rival(one) for one in _two(rivals))
    search = search or Search(points=16)
    where = space(first.model, run, vary, first.free)
    space(second.model, run, vary, second.free)
    bout = _Bout((first, second), where, Limits(dict(limits or {})), run)
    with watch(monitor, "tell apart", 2 * search.points, partial=False) as task:
        best = bout.sequence(search)
        if best is not None and where.continuous and search.polish:
            # Each comparison takes two fits: at most as many again as the sequence had.
            bout.polished(best, min(search.polish, search.points))
    if task.interrupted:
        raise Interrupted  # the best of some is not the best
    contests = sorted(bout.contests.values(), key=lambda one: -one.worst)
    return RivalPlan((first.model.name, second.model.name), tuple(contests), tuple(bout.refused))


@dataclass
class _Bout:
    """Comparisons of two models that were made so far.

    contests: by the text of their choice; refused: those that failed, with the reason.
    """

    rivals: tuple[Rival, Rival]
    where: Space
    limits: Limits
    run: Choice
    contests: dict[str, Contest] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    @cached_property
    def _runners(self) -> list[Experiments]:
        return [Experiments(r.model, r.free, self.limits.simulated, r.outputs(self.run)) for r in self.rivals]

    def sequence(self, search: Search) -> Array | None:
        """Compare at quasi-random points and return the best one."""
        from scipy.stats import qmc

        power = max(1, int(np.ceil(np.log2(search.points))))
        points = qmc.Sobol(len(self.where.axes), rng=np.random.default_rng(search.seed)).random_base2(power)
        scores = self.scores(points)
        return points[int(np.argmin(scores))] if np.isfinite(scores).any() else None

    def polished(self, best: Array, most: int) -> None:
        """Compare at steps of Nelder-Mead from a point."""
        continuous = self.where.continuous

        def score(shares: Array) -> float:
            point = best.copy()
            point[continuous] = np.clip(shares, 0.0, 1.0)
            value = float(self.scores(point[None])[0])
            return value if np.isfinite(value) else REFUSED

        simplex = corners(best[continuous], 0.1)
        bounds = [(0.0, 1.0)] * len(continuous)
        options = {"initial_simplex": simplex, "maxfev": most, "xatol": 1e-3, "fatol": 1e-2}
        minimize(score, best[continuous], method="Nelder-Mead", bounds=bounds, options=options)

    def scores(self, points: Array) -> Array:
        """Return minus the log of the worst ratios.

        They are (P,) at points (P, a); infinite beyond a limit, and where a fit fails.
        """
        choices = [self.where.choice(point) for point in points]
        # Only the peaks of runs with limits are needed: their tangents are not followed.
        none = np.full(len(self.limits.simulated), -np.inf)
        shares = [
            self.limits.share(runner.run(choices, rival.draws, none), choices)
            for runner, rival in zip(self._runners, self.rivals, strict=True)
        ]
        found = []
        for choice, used in zip(choices, np.maximum(*shares).tolist(), strict=True):
            checkpoint(steps=1.0)
            one = self._compared(choice, used) if used <= 1.0 else None
            found.append(np.inf if one is None else -np.log(max(one.worst, TINY)))
        return np.array(found)

    def _compared(self, choice: Choice, used: float) -> Contest | None:
        key = repr(choice)
        if key not in self.contests:
            first, second = self.rivals
            try:
                ratios = np.array([_ratio(first, second, choice), _ratio(second, first, choice)])
            except KapitzaError as problem:
                self.refused.append(f"{choice}: {problem}")
                return None
            self.contests[key] = Contest(choice, ratios, used)
        return self.contests[key]


TINY = 1e-12
"""Log ratio that counts as none."""


def _ratio(true: Rival, other: Rival, choice: Choice) -> float:
    """Return ½ min χ² of the other model.

    It is fitted to the noise-free motion of the true one.
    """
    runner = Experiments(true.model, true.free, outputs=true.outputs(choice))
    times, states = runner.motion(choice, true.draws[0])
    record = Record.from_arrays(times, {name: states[:, i] for i, name in enumerate(runner.channels(choice))})
    # Multiple shooting: single shooting fell into false minima, with ratios of 1e6 instead of 1e2 to 1e4.
    method = ShootingFit(outputs=other.outputs(choice), noise=dict(choice.channels), hold_back=0.0)
    fit = identify(other.model.with_values(**choice.settings), record, free=list(other.free), method=method)
    return 0.5 * float(fit.chi2)


def _two(rivals: Sequence[Any]) -> Sequence[Any]:
    if len(rivals) != 2:
        raise DataError(f"{len(rivals)} models are given: two are compared at a time.")
    return rivals


def _rival(given: Any) -> Rival:
    if isinstance(given, Estimate):
        model = given.model.with_values(**{n: given.values[n] for n in given.names})
        return Rival(model, given.names, given)
    model, free = given
    return Rival(model, tuple(free))
