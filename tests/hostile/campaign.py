"""A number of cases over all families, and the table of how they ended."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tests.hostile.families import FAMILIES
from tests.hostile.family import draw
from tests.hostile.pool import Case, Outcome, outcomes

GOOD = ("result", "refused")
BAD = ("traceback", "memory", "hang", "crash", "touched")
TITLES = {"result": "results", "refused": "refused", "traceback": "tracebacks", "memory": "memory", "hang": "hangs"}
TITLES |= {"crash": "crashes", "touched": "files touched outside"}


@dataclass(frozen=True)
class Campaign:
    seed: int
    ends: tuple[Outcome, ...]

    @property
    def failures(self) -> tuple[Outcome, ...]:
        return tuple(end for end in self.ends if end.kind in BAD)

    def table(self) -> list[list[str]]:
        """Rows: family, cases, one column per ending, longest computing time."""
        rows = []
        for family in [*FAMILIES, "all"]:
            chosen = [end for end in self.ends if family in ("all", end.case.family)]
            counts = Counter(end.kind for end in chosen)
            longest = max((end.seconds for end in chosen), default=0.0)
            rows.append([family, str(len(chosen)), *(str(counts[kind]) for kind in (*GOOD, *BAD)), f"{longest:.2f}"])
        return rows

    @property
    def columns(self) -> list[str]:
        return ["inputs", "cases", *(TITLES[kind] for kind in (*GOOD, *BAD)), "longest [s]"]


def cases(count: int, seed: int, only: str = "") -> list[Case]:
    """`count` cases, shared among the families by their weights."""
    chosen = {name: family for name, family in FAMILIES.items() if only in name}
    whole = sum(family.share for family in chosen.values())
    made = []
    for place, (name, family) in enumerate(chosen.items()):
        last = place == len(chosen) - 1
        own = count - len(made) if last else round(count * family.share / whole)
        made += [Case(name, number, content) for number, content in enumerate(draw(family, own, seed))]
    # Mixed, so that a campaign which is stopped early has seen every family.
    random.Random(seed).shuffle(made)
    return made


def run(
    count: int,
    seed: int,
    only: str = "",
    processes: int = 2,
    tell: Callable[[int, Outcome], None] | None = None,
    number: int | None = None,
    minutes: float = float("inf"),
) -> Campaign:
    """Run the cases; number: only that one of each family, to reproduce a failure; minutes: after which to stop."""
    ends, begun = [], time.monotonic()
    chosen = [case for case in cases(count, seed, only) if number in (None, case.number)]
    for end in outcomes(chosen, processes):
        ends.append(end)
        if tell is not None:
            tell(len(ends), end)
        if time.monotonic() - begun > 60 * minutes:
            break
    return Campaign(seed, tuple(ends))
