"""What a family of hostile cases is, and the registry of all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

FAMILIES: dict[str, Family] = {}


@dataclass(frozen=True)
class Family:
    """A kind of hostile input.

    cases: a strategy of plain values (text, bytes, numbers, lists of them). act: what is done with one of them, in an
    empty folder; it returns what it found, as text, or raises. share: weight among the families. seconds: computing
    time after which a case counts as a hang. starts_processes: the case may start processes (to kill them, say).
    """

    name: str
    cases: SearchStrategy[Any]
    act: Callable[[Any, Path], object]
    share: float = 1.0
    seconds: float = 5.0
    starts_processes: bool = False


def register(
    name: str,
    cases: SearchStrategy[Any],
    act: Callable[[Any, Path], object],
    share: float = 1.0,
    *,
    seconds: float = 5.0,
    starts_processes: bool = False,
) -> None:
    """Add a family to the registry; see `Family`."""
    FAMILIES[name] = Family(name, cases, act, share, seconds, starts_processes)


def draw(family: Family, count: int, number: int) -> list[Any]:
    """`count` cases of the family, the same for the same seed number."""
    found: list[Any] = []
    if count < 1:
        return found

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        derandomize=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(family.cases)
    def collect(case: Any) -> None:
        found.append(case)

    collect()
    # Small families run out of new examples: their cases are then repeated.
    return (found * (count // max(len(found), 1) + 1))[:count]
