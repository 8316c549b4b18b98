"""Step-by-step continuation from a known point.

It has a predictor, a corrector and a rule for the step size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from kapitza.base import checks
from kapitza.errors import KapitzaError

Point = TypeVar("Point")
Guess = TypeVar("Guess")


@dataclass(frozen=True)
class Outcome(Generic[Point]):
    """Result of a corrector.

    point: the solution, or None with the reason in `message`; effort: iterations it took.
    """

    point: Point | None
    effort: int = 0
    message: str = ""


@runtime_checkable
class StepRule(Protocol):
    """Rule for the size of the next step.

    It depends on the last step and the effort of its correction (None: it failed).
    """

    @property
    def first(self) -> float: ...

    @property
    def smallest(self) -> float: ...

    def following(self, step: float, effort: int | None) -> float:
        """Return the length of the next step.

        step: length of the last one; effort: iterations of its correction, None where it failed and is repeated.
        """
        ...


@dataclass(frozen=True)
class Halving:
    """Halve a failed step, lengthen the next otherwise."""

    first: float = 0.25
    smallest: float = 1e-3
    growth: float = 1.5
    largest: float = float("inf")

    def following(self, step: float, effort: int | None) -> float:
        return step / 2 if effort is None else min(self.largest, step * self.growth)


MOST_WANTED = 1000
"""Largest number of iterations that a step may be chosen for."""


@dataclass(frozen=True)
class ByEffort:
    """Choose steps by the iterations of the corrector.

    Steps grow after fewer than `wanted` iterations and shrink after more.

    The factor is (wanted + 1) / (effort + 1), between `shrink` and `growth`; a failure divides by `retreat`. first,
    smallest, largest: step sizes along the branch, relative to the scales of its unknowns.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.ByEffort(wanted=4).following(0.1, 9)
    0.06
    """

    first: float = 0.05
    smallest: float = 1e-7
    largest: float = 0.5
    wanted: int = 4
    growth: float = 1.5
    shrink: float = 0.6
    retreat: float = 3.0

    def __post_init__(self):
        for name in ("first", "smallest", "largest", "growth", "shrink", "retreat"):
            checks.number(name, getattr(self, name), above=0, finite=name != "largest", error=KapitzaError)
        checks.whole("wanted", self.wanted, least=1, most=MOST_WANTED, error=KapitzaError)
        if not self.smallest <= self.first <= self.largest:
            raise KapitzaError(
                f"first = {self.first:g} is outside of smallest = {self.smallest:g} … largest = {self.largest:g}."
            )

    def following(self, step: float, effort: int | None) -> float:
        if effort is None:
            return step / self.retreat
        factor = (self.wanted + 1.0) / (effort + 1.0)
        return min(self.largest, step * min(self.growth, max(self.shrink, factor)))


@dataclass(frozen=True)
class Stride(Generic[Point]):
    """One step that succeeded.

    point: reached; length: of the step; effort: of its correction; following: length of the next step.
    """

    point: Point
    length: float
    effort: int
    following: float


class StepCollapse(Exception):
    """The step fell below the smallest one.

    `outcome` is the last failure and `step` the last length tried.
    """

    def __init__(self, step: float, outcome: Outcome[Any]):
        super().__init__(f"The step fell below {step:.3g}. {outcome.message}".strip())
        self.step = step
        self.outcome: Outcome[Any] = outcome


def walk(
    start: Sequence[Point],
    predict: Callable[[Sequence[Point], float], Guess],
    correct: Callable[[Guess], Outcome[Point]],
    rule: StepRule,
    step: float | None = None,
) -> Iterator[Stride[Point]]:
    """Yield strides from `start`, without end.

    start: the points known so far, the last being where the continuation begins.

    predict(points, step) makes a guess from the last points (at least one, at most three); correct(guess) makes a point
    of it, or reports why not; rule decides the steps. step: the first one, if not that of the rule.
    Raises StepCollapse when a step below the rule's smallest would be needed.
    """
    known, length = list(start), rule.first if step is None else step
    while True:
        outcome = correct(predict(known, length))
        if outcome.point is None:
            length = rule.following(length, None)
            if length < rule.smallest:
                raise StepCollapse(length, outcome)
            continue
        following = rule.following(length, outcome.effort)
        # A predictor uses at most three points.
        known = [*known[-2:], outcome.point]
        yield Stride(outcome.point, length, outcome.effort, following)
        length = following


def walk_to(
    start: Point,
    attempt: Callable[[Point, float], Outcome[Point]],
    rule: StepRule,
    begin: float = 0.0,
) -> tuple[Point, float, str]:
    """Continue a fraction from `begin` to 1.

    attempt(last point, fraction) gives the point there.

    Returns the last point reached, its fraction (1.0 when the continuation arrived) and the reason where it did not: a
    homotopy whose predictor is the point before.
    """
    last, reached = start, begin

    def predict(known: Sequence[tuple[float, Point]], step: float) -> tuple[float, Point]:
        fraction, point = known[-1]
        return min(1.0, fraction + step), point

    def correct(guess: tuple[float, Point]) -> Outcome[tuple[float, Point]]:
        fraction, point = guess
        outcome = attempt(point, fraction)
        found = None if outcome.point is None else (fraction, outcome.point)
        return Outcome(found, outcome.effort, outcome.message)

    if reached >= 1.0:
        return last, 1.0, ""
    try:
        for stride in walk([(begin, start)], predict, correct, rule):
            reached, last = stride.point
            if reached >= 1.0:
                return last, 1.0, ""
    except StepCollapse as collapse:
        return last, reached, collapse.outcome.message
    raise AssertionError("the continuation does not end by itself")
