"""kz.plan: which experiment next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kapitza.base.argument_checks import Anything
from kapitza.base.arrays import Array
from kapitza.base.cures import Code, Give
from kapitza.base.monitor import Interrupted, Monitor, watch
from kapitza.errors import DataError
from kapitza.estimate import Estimate
from kapitza.model import Model, with_laws
from kapitza.planning.choice import Choice
from kapitza.planning.criteria import Criterion, Want, Wanted, wanted
from kapitza.planning.done import Done, done_by
from kapitza.planning.experiments import Experiments, drives_of
from kapitza.planning.knowledge import Knowledge, known_from, outputs_of
from kapitza.planning.limits import Limits
from kapitza.planning.result import Expected, Outcome, Plan, Tried
from kapitza.planning.search import Search, best_points, distinct
from kapitza.planning.space import Space, space

MOST = 10
"""Experiments in a table."""

BRANCHES = 1.3
"""Ratio of neighbouring amplitudes among the draws from which on they are two branches."""


MOST_BRANCHES, FEW, MOSTLY = 3, 0.06, 0.8
"""Branches that are reported; share of draws below which one of more groups is none; share that branches must hold."""

CHANCES = 128
"""Draws from which probabilities of branches are taken: 32 leave an error of 0.1."""


def plan(
    source: Estimate | Model,
    vary: Mapping[str, Anything],
    measure: Mapping[str, float] | Sequence[str] | None = None,
    want: Sequence[Want] | Want | None = None,
    limits: Mapping[str, float] | None = None,
    run: Choice | None = None,
    missing: Sequence[str] = (),
    aim: float | None = None,
    criterion: Criterion = "mean log",
    search: Search | None = None,
    drives: Mapping[str, Anything] | None = None,
    monitor: Monitor | None = None,
) -> Plan:
    """Return the most informative experiments.

    Every experiment is simulated at draws from the known distribution of the parameters, and its Fisher information is
    added. The expected width of an interval is the geometric mean over the draws; with one value of the parameters
    alone a plan would count on a branch that may not be there.

    Parameters
    ----------
    source : Estimate or Model
        What is known: a fit, or a model whose free parameters have priors.
    vary : mapping
        What may be chosen: parameters of the model, states at the start, "duration", "step", "settle", "start",
        "channels", "approach", "drive" → a range (low, high) or a list. Approaches: "rest", "state", "from below",
        "from above".
    measure : mapping or list of str, optional
        Channels → standard deviation of their noise; names alone take the noise that the fit found.
    want : list of parameters, expressions of them, or functions of a model
        What should become narrow; by default every free parameter.
    limits : mapping, optional
        Expressions of states and parameters → largest value, such as {"abs(x)": 1.2}; "time" → seconds on the rig;
        "drift(x)" → how far the mean over one period may move.
    run : Choice, optional
        What is not varied; by default the length and sampling of the recording that was fitted.
    missing : list of str
        Laws that the equations may lack, as `with_laws` takes them: widths with them unknown are shown beside.
    aim : float, optional
        Relative width that is enough.
    criterion : str
        "mean log", "worst draw", "worst width", "A" or "D".
    search : Search, optional
        Numbers of experiments and draws.
    drives : mapping, optional
        For models with measured drives: label → `Signal`, expression in t, or a table of them by the name of the drive.
        The choice "drive" is one of the labels.
    monitor : Monitor, optional
        Progress and cancelling.

    Returns
    -------
    Plan
        At most ten different experiments, the best first, with the intervals to expect.

    Examples
    --------
    >>> import kapitza as kz
    >>> c = kz.Parameter("c", 0.1, prior=kz.Prior(0.1, 0.02))
    >>> model = kz.Model.from_equations("x'' + c*x' + x = F*cos(w*t)", parameters=[c, "F", "w"])
    >>> run = kz.Choice({"F": 0.1}, duration=60.0, step=0.2, channels={"x": 0.01})
    >>> plan = kz.plan(model, vary={"w": (0.5, 2.0)}, run=run)
    >>> round(plan.best.settings["w"], 1)
    1.0
    """
    with watch(monitor, "plan"):
        model = source.model if isinstance(source, Estimate) else source
        search = search or Search()
        knowledge, sought = known_and_wanted(source, want, aim, search.seed)
        done = done_by(source) if isinstance(source, Estimate) else ()
        template = _template(model, source, run, measure, done)
        driven = drives_of(model, drives)
        where = space(model, template, vary, knowledge.names, driven)
        bounds = Limits(dict(limits or {}))
        outputs = outputs_of(source, template.channels)
        task = _Task(
            where,
            knowledge,
            sought,
            Experiments(model, knowledge.names, bounds.simulated, outputs, driven),
            bounds,
            criterion,
        )
        tried = task.tried(search)
        beside = _Beside.of(task, done, missing) if missing else None
        last = tried.last
        shown = last[distinct(tried.points[last], tried.scores[last], tried.information[last], MOST)]
        expected = task.expected(
            [where.choice(tried.points[i]) for i in shown], knowledge.some(search.shown), done, beside
        )
        return Plan(
            model,
            knowledge,
            sought,
            tuple(expected),
            tried,
            where,
            bounds.bounds,
            tuple(missing),
            tuple(d.choice for d in done),
            outputs,
            driven,
        )
    raise Interrupted  # half a search has no ranking


def known_and_wanted(
    source: Estimate | Model, want: Sequence[Want] | Want | None, aim: float | None, seed: int
) -> tuple[Knowledge, Wanted]:
    """Return what is known, and what should become narrow."""
    model = source.model if isinstance(source, Estimate) else source
    knowledge = known_from(source, None, None, seed)
    wants = [want] if isinstance(want, str) or callable(want) else want
    return knowledge, wanted(model, knowledge.names, knowledge.values, knowledge.widths(), wants, aim)


@dataclass(frozen=True)
class _Task:
    where: Space
    knowledge: Knowledge
    sought: Wanted
    runner: Experiments
    limits: Limits
    criterion: Criterion

    def tried(self, search: Search) -> Tried:
        """Return every experiment that the search tried."""
        log: list[Tried] = []
        drawn = {count: self.knowledge.some(count) for count in (search.draws, search.shown)}

        def score(points: Array, count: int) -> Array:
            choices = [self.where.choice(point) for point in points]
            runs = self.runner.run(choices, drawn[count], self.limits.peaks)
            share = self.limits.share(runs, choices)
            after = self.knowledge.information + runs.information
            scores = np.where(share <= 1.0, self.sought.score(after, self.criterion), np.inf)
            with np.errstate(divide="ignore"):
                widths = np.exp(np.log(self.sought.widths(after)).mean(axis=1))
            # The mean over draws would have directions that no single run has.
            middle = runs.information[:, count // 2]
            log.append(Tried(points, scores, middle, widths, share, np.full(len(points), count)))
            return scores

        best_points(score, len(self.where.axes), self.where.continuous, search)
        parts = zip(*((t.points, t.scores, t.information, t.after, t.shares, t.draws) for t in log), strict=True)
        return Tried(*(np.concatenate(part) for part in parts))

    def _noise_error(self, choice: Choice) -> float:
        """Return the relative error that estimated noise gives widths.

        It is 0 where the noise is known.
        σ from ν degrees of freedom has the relative error (2ν)^(-1/2): once in the fit that the plan starts from, once
        in the fit that follows.
        """
        before = self.knowledge.dof
        return float(np.sqrt(0.5 / before + 0.5 / (before + choice.samples * len(choice.channels))))

    def expected(
        self, choices: list[Choice], draws: Array, done: Sequence[Done], beside: _Beside | None
    ) -> list[Expected]:
        """Return what the experiments of the table promise.

        More draws are used; experiments beyond a limit at these are left out.
        """
        if not choices:
            return []
        runs = self.runner.run(choices, draws, self.limits.peaks)
        share = self.limits.share(runs, choices)
        scores = self.sought.score(self.knowledge.information + runs.information, self.criterion)
        now = self.sought.widths(self.knowledge.information)
        found = []
        for i in np.argsort(scores, kind="stable").tolist():
            if share[i] > 1.0 or not np.isfinite(scores[i]):
                continue
            widths = self.sought.widths(self.knowledge.information + runs.information[i])
            after, low, high = _mean_and_band(widths, self._noise_error(choices[i]))
            # A further unknown narrows nothing; the information before may differ by the rounding of a fit.
            laws = None if beside is None else np.maximum(after, beside.widths(choices[i], draws))
            branches = _branches(runs.size[i], widths)
            # Probabilities of branches need more draws than widths.
            if len(branches) > 1 and len(draws) < CHANCES:
                more = self.runner.run([choices[i]], self.knowledge.some(CHANCES))
                told = self.knowledge.information + more.information[0]
                branches = _branches(more.size[0], self.sought.widths(told))
            found.append(
                Expected(
                    choices[i],
                    now,
                    after,
                    low,
                    high,
                    branches,
                    float(share[i]),
                    _beyond(choices[i], runs.size[i], done),
                    laws,
                    float(scores[i]),
                )
            )
        return found


@dataclass(frozen=True)
class _Beside:
    """Same experiments with missing laws as unknowns.

    Laws that the equations may lack.
    """

    runner: Experiments
    information: Array
    values: Array
    sought: Wanted

    @classmethod
    def of(cls, task: _Task, done: Sequence[Done], missing: Sequence[str]) -> _Beside:
        model, knowledge, sought = task.runner.model, task.knowledge, task.sought
        wider = with_laws(model, list(missing))
        extra = tuple(name for name in wider.names if name not in model.names)
        names = (*knowledge.names, *extra)
        runner = Experiments(wider, names, outputs=task.runner.outputs, drives=task.runner.drives)
        values = np.array([*knowledge.values, *(wider.values[name] for name in extra)])
        # Information of the runs so far on the laws, scaled to the widths that the fit reports.
        before = np.zeros((len(names), len(names)))
        if done:
            before = runner.run([d.choice for d in done], values[None]).information[:, 0].sum(axis=0)
            k = len(knowledge.names)
            alone = np.linalg.slogdet(before[:k, :k])[1] - np.linalg.slogdet(knowledge.information)[1]
            # A fit may know less than its runs allow at best (correlated residuals): never more is assumed.
            before *= min(1.0, float(np.exp(-alone / k)))
        else:
            before[: len(knowledge.names), : len(knowledge.names)] = knowledge.information
        slopes = np.pad(sought.slopes, ((0, 0), (0, len(extra))))
        return cls(runner, before, values, replace(sought, slopes=slopes))

    def widths(self, choice: Choice, draws: Array) -> Array:
        """Return geometric mean widths over draws.

        Widths (w,), draws (D, k) of the parameters; the laws keep their values.
        """
        laws = np.tile(self.values[draws.shape[1] :], (len(draws), 1))
        told = self.runner.run([choice], np.hstack([draws, laws])).information[0]
        return _mean(self.sought.widths(self.information + told))


def _mean(widths: Array) -> Array:
    """Return the geometric mean (w,) of widths (D, w)."""
    with np.errstate(divide="ignore"):
        return np.exp(np.nanmean(np.log(widths), axis=0))


def _mean_and_band(widths: Array, error: float = 0.0) -> tuple[Array, Array, Array]:
    """Return geometric mean and band of widths.

    Mean and 5-95 % band are (w,), of widths (D, w); `error` is a further relative error of all of them.
    """
    with np.errstate(divide="ignore"):
        log = np.log(widths)
    middle = np.nanmean(log, axis=0)
    # Weibull's positions p (D + 1): another draw falls into the band with 90 %. The usual ones, p (D - 1) + 1, hold
    # 84 % for 32 draws.
    low, high = np.nanquantile(log, [0.05, 0.95], axis=0, method="weibull")
    more = NINETY * error
    return np.exp(middle), np.exp(middle - np.hypot(middle - low, more)), np.exp(middle + np.hypot(high - middle, more))


NINETY = 1.645
"""Standard deviations on either side that hold 90 % of a Gaussian."""


def _branches(size: Array, widths: Array) -> tuple[Outcome, ...]:
    """Return the branches among the draws.

    Cut where neighbouring amplitudes (D,) differ by more than `BRANCHES`.
    """
    order = np.argsort(size, kind="stable")
    ordered = size[order]
    with np.errstate(divide="ignore", invalid="ignore"):
        cuts = np.flatnonzero(ordered[1:] > BRANCHES * ordered[:-1]) + 1
    groups = np.split(order, cuts)
    if len(groups) > MOST_BRANCHES:
        groups = _solid(groups, size)
    return tuple(
        Outcome(len(group) / size.size, float(np.median(size[group])), _mean(widths[group])) for group in groups
    )


def _solid(groups: list[NDArray[np.intp]], size: Array) -> list[NDArray[np.intp]]:
    """Join small groups of ordered amplitudes to large ones.

    Motions still on their way from one branch to another are no branch: they join the nearest. Amplitudes that spread
    out without steps, as those of a chaotic motion, are one group.
    """
    large = [i for i, group in enumerate(groups) if len(group) >= FEW * size.size]
    held = sum(len(groups[i]) for i in large)
    if len(large) > MOST_BRANCHES or held < MOSTLY * size.size:
        return [np.concatenate(groups)]
    ends = np.log([[size[groups[i][0]], size[groups[i][-1]]] for i in large])
    joined = [[groups[i]] for i in large]
    for i, group in enumerate(groups):
        if i not in large:
            middle = np.log(np.median(size[group]))
            joined[int(np.abs(ends - middle).min(axis=1).argmin())].append(group)
    return [np.concatenate(parts) for parts in joined]


def _beyond(choice: Choice, size: Array, done: Sequence[Done]) -> float:
    """Return how far a run exceeds earlier motions.

    It is the ratio to the largest motion so far, in the root mean square of the first channel.
    """
    channel = next(iter(choice.channels))
    seen = [d.size[channel] for d in done if channel in d.size]
    return float(np.nanmedian(size) / max(seen)) if seen and max(seen) > 0 else float("nan")


def _template(
    model: Model,
    source: Estimate | Model,
    run: Choice | None,
    measure: Mapping[str, float] | Sequence[str] | None,
    done: Sequence[Done],
) -> Choice:
    """Return the run with everything not varied."""
    noise = dict(source.noise) if isinstance(source, Estimate) else {}
    if run is not None:
        noise |= run.channels
    if measure is None:
        channels = dict(run.channels) if run is not None and run.channels else noise
    elif isinstance(measure, Mapping):
        channels = {name: float(value) for name, value in measure.items()}
    else:
        unknown = [name for name in measure if name not in noise]
        if unknown:
            raise DataError(
                f"The noise of {', '.join(unknown)} is not known: give it, {Give(measure={unknown[0]: 0.01})}."
            )
        channels = {name: noise[name] for name in measure}
    if run is not None:
        return replace(run, channels=channels)
    if not done:
        raise DataError(
            f"How long is a run, and how is it sampled? Give {Give(run=Code('Choice'))}({Give(duration=60.0)}, "
            f"{Give(step=0.1)}, ...)."
        )
    return replace(done[0].choice, channels=channels, start={}, begin=0.0)


def template_of(fit: Estimate) -> Choice:
    """Return the first run of a fit.

    It starts from rest, with the settings, length, sampling and noise of that run.
    """
    return _template(fit.model, fit, None, None, done_by(fit))
