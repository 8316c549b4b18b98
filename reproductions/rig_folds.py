"""Coverage of folds measured on rigs that no setting was chosen on."""

from __future__ import annotations

from typing import Any

import numpy as np
from harness import markdown_table

from kapitza.errors import RigError
from kapitza.rig import measure_fold
from reproductions._held_out_rigs import NOISE, QUANTILE, RIGS, HeldOut

RUNS = 13
"""Of each rig, two folds each: 104 folds in all."""


def runs(rig: HeldOut) -> tuple[list[tuple[float, float]], list[tuple[float, float]], int, int]:
    """(error, deviation) of the folds as the walk leaves them and as measured; false folds; failures."""
    exact = rig.folds()
    walked, measured, false, failed = [], [], 0, 0
    for seed in range(RUNS):
        experiment = rig.experiment(NOISE, 500 + seed)
        branch = rig.follow(experiment)
        false += max(len(branch.folds) - len(exact), 0)
        for value in exact:
            own = [i for i, b in enumerate(branch.folds) if min(exact, key=lambda e: abs(e - b.value)) == value]
            if not own:
                failed += 1
                continue
            number = min(own, key=lambda i: abs(branch.folds[i].value - value))
            walked.append((branch.folds[number].value - value, branch.folds[number].deviation))
            try:
                found = measure_fold(experiment, branch, number)
            except RigError as problem:
                print(rig.name, seed, problem, flush=True)
                failed += 1
                continue
            measured.append((found.value - value, found.deviation))
        print(rig.name, seed, [e / d for e, d in measured[-2:]], flush=True)
    return walked, measured, false, failed


def row(name: str, how: str, found: list[tuple[float, float]], more: tuple[Any, ...] = ("", "")) -> tuple[Any, ...]:
    error, deviation = np.array(found).T
    z = np.abs(error / deviation)
    return (
        name, how, f"{int((z <= QUANTILE).sum())} of {z.size}", f"{z.max():.1f}",
        f"{np.sqrt(np.mean(error**2)):.1e}", f"{np.median(deviation):.1e}", *more,
    )  # fmt: skip


def main() -> str:
    rows, all_walked, all_measured = [], [], []
    for rig in RIGS:
        walked, measured, false, failed = runs(rig)
        rows += [row(rig.name, "walk", walked, (false, failed)), row(rig.name, "measured", measured)]
        all_walked += walked
        all_measured += measured
    rows += [row("all", "walk", all_walked), row("all", "measured", all_measured)]
    header = ("rig", "fold", "in the 90 % interval", "largest |error| / deviation", "rms error", "median deviation",
              "false folds", "not found")  # fmt: skip
    share = 100 * float(np.mean([abs(e) <= QUANTILE * d for e, d in all_measured]))
    return "\n\n".join(
        [
            f"{RUNS} runs with new noise (standard deviation {NOISE:g} on a motion of amplitude 0.3 to 4) of each of "
            f"{len(RIGS)} rigs, through both of their folds: "
            + "; ".join(f"{r.name}, {r.equation} = {r.B:g} cos ωt" for r in RIGS)
            + ". Settings were chosen on Duffing rigs. Walk: as `follow` leaves them, with an upper bound for the "
            "deviation; measured: by `measure_fold`. Exact values: folds of the models.",
            markdown_table(header, rows),
            f"Coverage of nominal 90 % over {len(all_measured)} measured folds: {share:.0f} %; target 87 to 93 %: "
            f"{'met' if 87 <= share <= 93 else '**missed**'}.",
        ]
    )
