"""Result of a plan.

Experiments are in the order of their information, with the intervals to expect.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base.arrays import Array
from kapitza.base.display import Shown, percent
from kapitza.data import Record
from kapitza.errors import DataError, nearest_name
from kapitza.model import Expression, Model, Signal
from kapitza.planning.choice import Choice
from kapitza.planning.criteria import Wanted
from kapitza.planning.experiments import Experiments
from kapitza.planning.knowledge import Knowledge, covariance
from kapitza.planning.limits import Limits
from kapitza.planning.space import Space

if TYPE_CHECKING:
    import pandas as pd

UNCERTAIN = 1.4
"""Ratio of a band to its middle from which the table reports that the draws disagree."""

SPARE = 1.05
"""Widening of every wanted interval below which a sensor can be left out."""

IMPROVED = 1.05
"""Narrowing of an interval below which an experiment does not improve it."""


@dataclass(frozen=True)
class Outcome:
    """Motion that a run may end in.

    It has a probability, the root mean square of the first channel, and the widths (w,) there.
    """

    probability: float
    size: float
    after: Array


@dataclass(frozen=True)
class Expected:
    """Experiment with the errors to expect.

    Standard errors (w,) of what is wanted: now, and after the experiment with its 5-95 % band, low … high.

    outcomes: branches that it may land on; share: of the tightest limit that it may use; beyond: how many times larger
    than any motion so far (NaN where nothing was measured); with_laws: widths after it where the laws of `missing` are
    unknown too; score: what was minimised.

    Examples
    --------
    >>> import kapitza as kz
    >>> c = kz.Parameter("c", 0.1, prior=kz.Prior(0.1, 0.02))
    >>> model = kz.Model.from_equations("x'' + c*x' + x = F*cos(w*t)", parameters=[c, "F", "w"], period="2*pi/w")
    >>> run = kz.Choice({"F": 0.1}, duration=20.0, step=0.2, channels={"x": 0.01})
    >>> one = kz.plan(model, {"w": [0.5, 1.0]}, run=run, search=kz.Search(points=2))[0]
    >>> one.choice.settings["w"], bool(one.after[0] < one.now[0])
    (1.0, True)
    """

    choice: Choice
    now: Array
    after: Array
    low: Array
    high: Array
    outcomes: tuple[Outcome, ...]
    share: float
    beyond: float
    with_laws: Array | None
    score: float


@dataclass(frozen=True)
class Tried:
    """Experiments that the search tried.

    Points (P, a) of the unit cube with scores (P,), widths after (P, w), shares (P,) of the limits.
    information (P, k, k): at the middle draw; its mean over draws would have directions that no single run has.
    draws (P,): values of the parameters over which each was averaged; the search tries the best ones again with more.
    """

    points: Array
    scores: Array
    information: Array
    after: Array
    shares: Array
    draws: NDArray[np.int64]

    @property
    def last(self) -> NDArray[np.intp]:
        """Numbers of the experiments tried with the most draws."""
        return np.flatnonzero(self.draws == self.draws.max())


@dataclass(frozen=True)
class PlanMap:
    """Mean relative width over two choices.

    width, spread and share are (ny, nx); the other choices are those of the best experiment.
    names: of x and y; spread: ratio of the widest to the middle draw; share: of the tightest limit.
    """

    names: tuple[str, str]
    x: Array
    y: Array
    width: Array
    spread: Array
    share: Array


@dataclass(frozen=True)
class Plan(Shown):
    """Result of `kapitza.plan`, the best experiment first.

    Iterating yields at most ten different experiments.

    model, knowledge: what is known before; wanted: what should become narrow; expected: the experiments; tried: all
    that were simulated; space: what could be chosen; limits, missing, outputs, drives: as given; done: runs so far.

    Examples
    --------
    >>> import kapitza as kz
    >>> c = kz.Parameter("c", 0.1, prior=kz.Prior(0.1, 0.02))
    >>> model = kz.Model.from_equations("x'' + c*x' + x = F*cos(w*t)", parameters=[c, "F", "w"], period="2*pi/w")
    >>> run = kz.Choice({"F": 0.1}, duration=20.0, step=0.2, channels={"x": 0.01})
    >>> plan = kz.plan(model, {"w": [0.5, 1.0]}, run=run, search=kz.Search(points=2))
    >>> len(plan), plan.best.settings["w"]
    (2, 1.0)
    """

    model: Model
    knowledge: Knowledge
    wanted: Wanted
    expected: tuple[Expected, ...]
    tried: Tried = field(repr=False)
    space: Space = field(repr=False)
    limits: Mapping[str, float] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    done: tuple[Choice, ...] = field(default=(), repr=False)
    outputs: Mapping[str, str] = field(default_factory=dict, repr=False)
    drives: Mapping[str, Mapping[str, Signal | Expression]] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.expected)

    def __iter__(self) -> Any:
        return iter(self.expected)

    def __getitem__(self, number: int) -> Expected:
        return self.expected[number]

    @property
    def best(self) -> Choice:
        """Most informative experiment."""
        if not self.expected:
            raise DataError("No experiment that may be chosen stays within the limits: widen them, or what may vary.")
        return self.expected[0].choice

    @property
    def reached(self) -> bool:
        """Whether every aim is met without a further experiment."""
        return self.wanted.reached(self.knowledge.information)

    def table(self) -> pd.DataFrame:
        """Return a table with one row per experiment.

        A row holds a description, every wanted width before and after [%], probabilities of branches, limits and time.
        """
        import pandas as pd

        rows = []
        for one in self.expected:
            row: dict[str, Any] = {"experiment": self.words(one.choice)}
            for i, label in enumerate(self.wanted.labels):
                unit = 100 / self.wanted.scale[i]
                row[f"{label} now [%]"], row[f"{label} after [%]"] = unit * one.now[i], unit * one.after[i]
                row[f"{label} band [%]"] = f"{unit * one.low[i]:.2g} … {unit * one.high[i]:.2g}"
                if one.with_laws is not None:
                    row[f"{label} with {', '.join(self.missing)} [%]"] = unit * one.with_laws[i]
            row["chance"] = " / ".join(f"{o.probability:.2f}" for o in one.outcomes)
            row["peak/limit"] = one.share if self.limits else np.nan
            row["beyond measured"] = one.beyond
            row["time [s]"] = one.choice.seconds
            rows.append(row)
        return pd.DataFrame(rows, index=pd.RangeIndex(1, len(rows) + 1, name="rank"))

    def words(self, choice: Choice) -> str:
        """Describe an experiment with the model's units."""
        said = [f"drive {choice.drive}"] if choice.drive else []
        for name, value in choice.settings.items():
            unit = self.model.parameter(name).unit
            said.append(f"{name} = {value:.4g} {unit}".strip())
        if choice.approach != "state" and choice.sweep is not None:
            said.append(f"reached by a slow sweep of {choice.sweep[0]} {choice.approach}")
        begun = [f"{name} = {value:.4g}" for name, value in choice.start.items() if value]
        said.append(f"start {', '.join(begun)}" if begun else "start at rest")
        said.append(f"{choice.duration:.4g} s at {1 / choice.step:.4g} Hz")
        return f"{'; '.join(said)}; measure {', '.join(choice.channels)}"

    def __str__(self) -> str:
        if not self.expected:
            return "No experiment that may be chosen stays within the limits and is informative: widen what may vary."
        lines = ["Next experiment, the best first (standard errors, 5-95 % over what the parameters may be):"]
        for rank, one in enumerate(self.expected, 1):
            lines.append(f"  {rank}. {self.words(one.choice)}")
            for i, label in enumerate(self.wanted.labels):
                unit = 100 / self.wanted.scale[i]
                now, after, low, high = (unit * part[i] for part in (one.now, one.after, one.low, one.high))
                text = f"{label} ± {percent(now)} → ± {percent(after)} ({low:.2g} … {high:.2g})"
                if one.with_laws is not None:
                    text += f", ± {percent(unit * one.with_laws[i])} if there is {' or '.join(self.missing)}"
                lines.append(f"     {text}")
            lines += [f"     {remark}" for remark in self.remarks(one)]
        return "\n".join([*lines, *self.unimproved(), *self.doubts()])

    def doubts(self) -> list[str]:
        """Return what weakens every promise of the plan."""
        return [
            f"  {name} has no bounds and may be of either sign: plans with the wrong one count too; give it bounds"
            for name in self.knowledge.either
        ]

    def remarks(self, one: Expected) -> list[str]:
        """Return what to know before an experiment.

        The remarks concern branches, doubts of its gain, larger motions than before, and limits.
        """
        remarks = []
        if len(one.outcomes) > 1:
            ends = "; ".join(f"{o.probability:.0%} at {o.size:.3g} rms" for o in one.outcomes)
            remarks.append(f"may end on different branches: {ends}")
        elif (one.high > UNCERTAIN * one.after).any():
            remarks.append("the gain depends strongly on parameters that are not well known yet")
        if one.beyond > 2:
            remarks.append(
                f"motions {one.beyond:.1f} times larger than any measured so far: laws unseen there may matter"
            )
        if self.limits and one.share > 0.9:
            remarks.append(f"uses {one.share:.0%} of a limit, with the margin")
        return remarks

    def unimproved(self) -> list[str]:
        """Return what no tried experiment improves, with reasons."""
        finite = np.isfinite(self.tried.scores)
        if not finite.any():
            return []
        now = self.wanted.widths(self.knowledge.information)
        after = self.tried.after[finite]
        lines = []
        for i, label in enumerate(self.wanted.labels):
            if np.nanmin(after[:, i]) * IMPROVED < now[i]:
                continue
            told = self.tried.information[finite]
            own = np.einsum("i,pij,j->p", self.wanted.slopes[i], told, self.wanted.slopes[i])
            why = (
                "no allowed run depends on it"
                if not (own > 0).any()
                else "its effect is that of " + self._weakest(told[int(np.argmax(own))])
            )
            lines.append(f"  nothing allowed improves {label}: {why}")
        return lines

    def _weakest(self, information: Array) -> str:
        """Describe the parameter combination least known afterwards."""
        spread = covariance(self.knowledge.information + information)
        scale = np.where(self.knowledge.values != 0, np.abs(self.knowledge.values), 1.0)
        _, vectors = np.linalg.eigh(spread / np.outer(scale, scale))  # any sign: made positive at its largest entry
        weak = vectors[:, -1] * np.sign(vectors[np.argmax(np.abs(vectors[:, -1])), -1])
        terms = [
            f"{'+' if w > 0 else '-'} {abs(w):.2g} {n}"
            for n, w in zip(self.knowledge.names, weak, strict=True)
            # Small components would only make the combination harder to read.
            if abs(w) > 0.1
        ]
        return " ".join(terms).removeprefix("+ ") + " (relative changes)"

    def long_enough(
        self, number: int = 0, shares: tuple[float, ...] = (0.125, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)
    ) -> pd.DataFrame:
        """Return widths after shorter and longer runs.

        The experiment is the same; the table has one row per duration [s].
        """
        import pandas as pd

        choice = self.expected[number].choice
        choices = [replace(choice, duration=max(choice.step, share * choice.duration)) for share in shares]
        widths = self._widths(choices)
        return pd.DataFrame(
            widths, columns=list(self.wanted.labels), index=pd.Index([c.duration for c in choices], name="duration")
        )

    def droppable(self, number: int = 0) -> tuple[str, ...]:
        """Return channels that can be left out.

        Without all of them no wanted interval widens by more than 5 %.
        """
        choice = self.expected[number].choice
        full = self._widths([choice])[0]
        left, dropped = dict(choice.channels), []
        while len(left) > 1:
            names = list(left)
            less = [replace(choice, channels={n: s for n, s in left.items() if n != name}) for name in names]
            widening = (self._widths(less) / full).max(axis=1)
            least = int(np.argmin(widening))
            if not widening[least] < SPARE:
                break
            dropped.append(names[least])
            del left[names[least]]
        return tuple(dropped)

    def _widths(self, choices: list[Choice]) -> Array:
        """Return geometric mean widths (C, w) over draws."""
        runner = Experiments(self.model, self.knowledge.names, outputs=self.outputs, drives=self.drives)
        told = runner.run(choices, self.knowledge.some(8)).information
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.exp(np.log(self.wanted.widths(self.knowledge.information + told)).mean(axis=1))

    def take(self, record: Record, number: int = 0) -> tuple[Record, dict[str, float]]:
        """Pair a recording with its settings for `identify`."""
        return record, dict(self.expected[number].choice.settings)

    def sheet(self, path: str | os.PathLike[str]) -> None:
        """Write the run sheet.

        A .csv is for people, a .toml for a script.
        """
        from kapitza.planning.sheet import write_sheet

        write_sheet(self, path)

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write the plan as one HTML file.

        It shows the ranked table, the map, the duration and sensors; its path is returned.
        """
        from kapitza.report import write_plan_report

        return write_plan_report(self, path)

    def grid(self, x: str, y: str, size: int = 28, draws: int = 8) -> PlanMap:
        """Simulate a grid over two choices.

        Choices that have a range, at so many draws of the parameters.
        """
        names = [axis.name for axis in self.space.axes if axis.continuous]
        for name in (x, y):
            if name not in names:
                raise DataError(
                    f'"{name}" has no range in this plan.{nearest_name(name, names)} It has {", ".join(names)}.'
                )
        last = self.tried.last
        best = self.tried.points[last[int(np.argmin(self.tried.scores[last]))]]
        # The other choices stay at those of the best experiment.
        shares = np.linspace(0.0, 1.0, size)
        order = [axis.name for axis in self.space.axes]
        points = np.tile(best, (size * size, 1))
        points[:, order.index(x)], points[:, order.index(y)] = np.tile(shares, size), np.repeat(shares, size)
        limits, choices = Limits(self.limits), [self.space.choice(point) for point in points]
        runner = Experiments(self.model, self.knowledge.names, limits.simulated, self.outputs, self.drives)
        runs = runner.run(choices, self.knowledge.some(draws), limits.peaks)
        with np.errstate(divide="ignore", invalid="ignore"):
            log = np.log(self.wanted.widths(self.knowledge.information + runs.information) / self.wanted.scale).mean(
                axis=2
            )
        share = limits.share(runs, choices)
        spread = np.exp(log.max(axis=1) - np.median(log, axis=1))
        ends = [self.space.axes[order.index(name)] for name in (x, y)]
        along = [axis.low + shares * (axis.high - axis.low) for axis in ends]
        shape = (size, size)
        width = np.where(share <= 1.0, np.exp(log.mean(axis=1)), np.nan)
        return PlanMap((x, y), along[0], along[1], width.reshape(shape), spread.reshape(shape), share.reshape(shape))

    def plot(self, x: str = "", y: str = "", path: str | os.PathLike[str] | None = None) -> Any:
        """Draw the map of expected widths.

        The axes are two choices, by default the first two that have a range.
        Bright is narrow; hatched is beyond a limit; dashed encloses choices where the draws disagree; stars are the
        experiments of the table, squares the runs measured before. With one range or none: widths of the experiments.
        """
        from kapitza.report import plot_plan

        names = [axis.name for axis in self.space.axes if axis.continuous]
        if not (x and y) and len(names) > 1:
            x, y = names[:2]
        return plot_plan(self, x, y, path)
