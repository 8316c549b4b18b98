"""A number of cases over all families, and the table of how they ended."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from harness.runner import commit_name
from tests.hostile import formats
from tests.hostile.families import FAMILIES
from tests.hostile.family import draw
from tests.hostile.pool import Case, Outcome, outcomes

GOOD = ("result", "refused")
BAD = ("traceback", "memory", "hang", "crash", "touched")
TITLES = {"result": "results", "refused": "refused", "traceback": "tracebacks", "memory": "memory", "hang": "hangs"}
TITLES |= {"crash": "crashes", "touched": "files touched outside"}


@dataclass(frozen=True)
class Campaign:
    """Outcomes of cases; commits: how many of them ran on which commit; cured: failures of earlier commits."""

    seed: int
    ends: tuple[Outcome, ...]
    commits: tuple[tuple[str, int], ...] = ()
    cured: tuple[Outcome, ...] = ()

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

    def by_format(self) -> list[list[str]]:
        """Rows: format of recordings, cases in each state of its files, cases in other families, results, failures."""
        ends = [end for end in self.ends if end.case.family.startswith("recordings") and end.case.content is not None]
        rows = []
        for suffix in sorted({end.case.content[0][0] for end in ends}):
            own = [end for end in ends if end.case.content[0][0] == suffix]
            states = Counter(end.case.content[1] for end in own if end.case.family == formats.FAMILY)
            kinds = Counter(end.kind for end in own)
            counts = [len(own), *(states[state] for state in formats.STATES), len(own) - states.total()]
            counts += [kinds[kind] for kind in GOOD] + [sum(kinds[kind] for kind in BAD)]
            rows.append([suffix, *map(str, counts)])
        return rows

    @property
    def format_columns(self) -> list[str]:
        return ["format", "cases", *formats.STATES, "others", "results", "refused", "failures"]

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


@dataclass(frozen=True)
class Part:
    """Which cases of a campaign run. number: only that one of each family; minutes: stop after this time.

    kept: a file that takes the outcome of every case; cases whose outcome it has are not run again, but for failures
    on another commit. So a campaign can be interrupted and continued, and a cure is tested.
    """

    only: str = ""
    number: int | None = None
    minutes: float = float("inf")
    kept: Path | None = None


def run(
    count: int,
    seed: int,
    part: Part | None = None,
    processes: int = 2,
    tell: Callable[[int, Outcome], None] | None = None,
) -> Campaign:
    """Run the cases of a campaign, or a part of them."""
    part = part or Part()
    commit = commit_name()
    before, commits, failed = kept_outcomes(part.kept, commit)
    ends = list(before.values())
    # To draw 20,000 cases takes a minute: not where all outcomes are there.
    drawn = cases(count, seed, part.only) if len(before) < count else []
    chosen = [case for case in drawn if part.number in (None, case.number) and (case.family, case.number) not in before]
    begun = time.monotonic()
    with ExitStack() as stack:
        file = part.kept and stack.enter_context(part.kept.open("a", encoding="utf-8"))
        for end in outcomes(chosen, processes):
            ends.append(end)
            commits[commit] += 1
            if file:
                file.write(json.dumps([end.case.family, end.case.number, end.kind, end.detail, end.seconds, commit]))
                file.write("\n")
                file.flush()
            if tell is not None:
                tell(len(ends), end)
            if time.monotonic() - begun > 60 * part.minutes:
                break
    good = {(end.case.family, end.case.number) for end in ends if end.kind in GOOD}
    cured = tuple(end for key, end in failed.items() if key in good)
    return Campaign(seed, tuple(ends), tuple(commits.items()), cured)


Outcomes = dict[tuple[str, int], Outcome]


def kept_outcomes(path: Path | None, commit: str) -> tuple[Outcomes, Counter[str], Outcomes]:
    """Return the outcomes in a file by family and number, how many ran on which commit, and earlier failures.

    Failures on another commit than the present one are among the earlier failures alone.
    """
    found, failed, commits = Outcomes(), Outcomes(), dict[tuple[str, int], str]()
    for line in path.read_text(encoding="utf-8").splitlines() if path and path.exists() else ():
        family, number, kind, detail, seconds, ran = json.loads(line)
        end = Outcome(Case(family, number, None), kind, detail, seconds)
        if kind in BAD and ran != commit:
            failed[family, number] = end
            continue
        found[family, number], commits[family, number] = end, ran
    return found, Counter(commits.values()), failed
