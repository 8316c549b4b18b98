"""Orbits claimed in records that hold none, the words of the inspection for them, and orbits found where there are."""

from __future__ import annotations

from collections import Counter

import numpy as np
from harness import Comparison, comparison_table, markdown_table

import kapitza as kz
from reproductions._orbitless import FAMILIES, HOLDERS

SEEDS = 50
WORDS = 20  # of them inspected as well
HELD = 3
LEVELS = (0.0, 0.005, 0.02)
UNDECIDED = ("short", "unsuitable")


def claims(record: kz.Record) -> tuple[int, int | None]:
    """Orbits that the default search claims, and those of `ReturnSearch` where it applies."""
    dense = record.period is not None and record.period > 4 * record.sampling().interval
    returns = None
    if dense:
        returns = len(kz.find_orbits(record, max_period=3, method=kz.ReturnSearch(tolerance=0.05)))
    return len(kz.find_orbits(record, max_period=4)), returns


def word(found: kz.Inspection) -> str:
    if any(note.startswith("Free decay") for note in found.notes):
        return "decay"
    return "unsuitable" if found.character is None else found.character.kind


def family_row(name: str) -> tuple[list[str], int]:
    make, right = FAMILIES[name]
    words: Counter[str] = Counter()
    claimed = by_returns = returned = chaotic = 0
    for seed in range(SEEDS):
        record = make(np.random.default_rng([31, seed]), True)
        here, returns = claims(record)
        claimed += here > 0
        if returns is not None:
            by_returns, returned = by_returns + 1, returned + (returns > 0)
        if seed < WORDS:
            found = kz.inspect(record, max_period=4)
            words[word(found)] += 1
            chaotic += "chaotic" in found.suggestion
    good = sum(words[w] for w in right)
    undecided = sum(words[w] for w in UNDECIDED)
    others = ", ".join(f"{w} {n}" for w, n in words.most_common())
    cells = [
        name, f"{claimed} of {SEEDS}", f"{returned} of {by_returns}", f"{chaotic} of {WORDS}", f"{good} of {WORDS}",
        str(undecided), others,
    ]  # fmt: skip
    print(" | ".join(cells), flush=True)
    return cells, claimed


def holder_row(name: str) -> list[str]:
    cells = [name]
    for level in LEVELS:
        counts = []
        for seed in range(HELD):
            random = np.random.default_rng([5, seed])
            record = HOLDERS[name](random)
            noise = {c: level * float(np.std(record[c])) for c in record.channels}
            counts.append(len(kz.find_orbits(kz.measure(record, noise=noise, seed=seed), max_period=4)))
        cells.append(f"{sum(c > 0 for c in counts)} of {HELD}; {', '.join(str(c) for c in counts)}")
    print(" | ".join(cells), flush=True)
    return cells


def main() -> str:
    rows, total = [], 0
    for name in FAMILIES:
        cells, claimed = family_row(name)
        rows.append(cells)
        total += claimed
    limit = int(0.02 * SEEDS)
    verdicts = [
        Comparison(
            f"{cells[0]}: records with an orbit claimed",
            "",
            cells[1],
            f"at most {limit}",
            int(cells[1].split()[0]) <= limit,
        )
        for cells in rows
    ]
    head = [
        "family", "an orbit claimed by find_orbits", "by ReturnSearch (dense forced ones)", "called chaotic",
        "inspected with the right word", "too short to say", "words",
    ]  # fmt: skip
    held = [holder_row(name) for name in HOLDERS]
    return (
        f"{SEEDS} records of each family, none of which holds an unstable periodic orbit: phase-randomised and "
        "amplitude-adjusted surrogates of Lorenz's and Ueda's oscillators; AR(2) resonances with r from 0.98 to 0.995, "
        "as a series, with their rate, beside a drive, and strobed with the sample before; two and three frequencies; "
        "free decays; rest with white and coloured noise, with and without a drive. Limits were chosen on other "
        "systems and "
        "seeds (`judged=False` of the same generators).\n\n"
        + comparison_table(verdicts)
        + f"\n\nIn all {total} of {SEEDS * len(rows)} records.\n\n"
        + markdown_table(head, rows)
        + "\n\nThe other side: records in which there are orbits, up to four steps, with noise of so much of the "
        "spread of each channel; how many of the records give orbits, and how many each.\n\n"
        + markdown_table(["record", *(f"noise {100 * level:g} %" for level in LEVELS)], held)
    )
