"""Canard families from Hopf point to Hopf point: steps beside those of AUTO-07p on the same equations.

Set KAPITZA_KEEP to make the page in pieces.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from harness import Comparison, comparison_table, markdown_table

import kapitza as kz
from kapitza.continuation import End, Kind
from reproductions._canard_families import KEPT_APART, SYSTEMS
from reproductions._cells import cells

AUTO: dict[str, tuple[tuple[int | None, str], tuple[int | None, str]]] = {
    "van der Pol with a constant force": ((124, "NTST 100, DSMAX 1"), (127, "NTST 100, DSMAX 0.2")),
    "FitzHugh and Nagumo": ((299, "NTST 100, DSMAX 2"), (307, "NTST 100, DSMAX 2")),
    "Morris and Lecar": ((147, "NTST 200, DSMAX 10"), (127, "NTST 100, DSMAX 40")),
    "cubic autocatalator": ((147, "NTST 100, DSMAX 2"), (140, "NTST 100, DSMAX 2")),
    "Oregonator": ((None, "24 runs, none arrives"), (None, "24 runs, none arrives")),
    "templator": ((366, "NTST 200, DSMAX 0.2"), (922, "NTST 100, DSMAX 0.2")),
}
"""Points of AUTO-07p from the lower and from the upper Hopf point to the other one, the fewest of its runs.

Runs: NCOL 4, IAD 3, EPSL = EPSU = 1e-7, EPSS = 1e-5, ITMX 9, ITNW 7, DS 0.01, DSMIN 1e-8, THL of the period 0, NTST 50,
100 and 200 and three to six values of DSMAX from 0.1 to 40. A run has arrived where the parameter is within 0.5 % of
its range of the other Hopf point and the period within 5 % of 2π/ω there. None: no run arrives within 1500 points.
"""

FOLDS = {
    "van der Pol with a constant force": (),
    "FitzHugh and Nagumo": (0.29572901012, 1.4542709899),
    "Morris and Lecar": (84.733009722, 221.09628465),
    "cubic autocatalator": (),
    "Oregonator": (0.51123144978,),
    "templator": (),
}
"""Folds of these families by AUTO-07p, to which several of its labels within 1e-9 of each other count once.

Those of the van der Pol equation, of the autocatalator and of the templator are not folds: the family has the same
direction before and after them. Of the Oregonator AUTO lists a second one at 0.5112314504, from which its runs go back
along the family.
"""

TIMES = 3.0
"""Steps over those of AUTO-07p that are allowed."""


def family(name: str, which: int) -> list[Any]:
    """The family from one Hopf point: steps, end, its parameter there, processor time."""
    system = next(s for s in (*SYSTEMS, *KEPT_APART) if s.name == name)
    model = kz.Model.from_equations(list(system.equations), parameters=system.parameters, name=name)
    rest = kz.follow(model, system.start, system.parameter, system.bounds, equilibrium=True)
    points = sorted(rest.of(Kind.HOPF), key=lambda b: b.value)
    begun = time.process_time()
    cycles = kz.switch_branch(points[which], system.bounds)
    took = time.process_time() - begun
    other = points[1 - which].value
    arrived = cycles.ends[1] is End.HOPF and abs(cycles.values[-1, 0] - other) < 1e-6 * abs(other)
    folds = [b.value for b in cycles.of(Kind.FOLD)]
    return [
        [points[which].value, len(cycles), bool(arrived), cycles.ends[1].name, float(cycles.periods.max()), folds, took]
    ]


def main() -> str:
    done = cells("canards", [s.name for s in (*SYSTEMS, *KEPT_APART)], family, 2, 2)
    rows, table = [], []
    for system in (*SYSTEMS, *KEPT_APART):
        known_folds = FOLDS[system.name]
        for (value, steps, arrived, end, longest, folds, took), (known, constants) in zip(
            done[system.name], AUTO[system.name], strict=True
        ):
            rows += [
                Comparison(
                    f"{system.name}: steps from {system.parameter} = {value:.6g} to the other Hopf point",
                    "does not arrive" if known is None else str(known),
                    str(steps) if arrived else f"{end} after {steps}",
                    "arrives" if known is None else f"{TIMES:g} times",
                    bool(arrived) and (known is None or steps <= TIMES * known),
                    "" if known is None else f"{steps / known:.1f} times",
                ),
                Comparison(
                    f"{system.name}: folds from {system.parameter} = {value:.6g}", _listed(known_folds),
                    _listed(sorted(folds)), "1e-8",
                    len(folds) == len(known_folds) and np.allclose(sorted(folds), known_folds, rtol=1e-8),
                ),
            ]  # fmt: skip
            table.append((system.name, system.source, f"{value:.8g}", constants, f"{longest:.5g}", f"{took:.0f}"))
    head = ["system", "source", "Hopf point", "AUTO's constants", "longest period", "processor time [s]"]
    return "\n\n".join(["# Canard families", INTRODUCTION, comparison_table(rows), markdown_table(head, table)])


def _listed(folds: Sequence[float]) -> str:
    return ", ".join(f"{fold:.10g}" for fold in folds) or "none"


INTRODUCTION = (
    "Cycles of slow-fast systems, listed before any was run, are followed from either Hopf point to the other "
    "through the canard explosions between them, with the defaults of `switch_branch`. *Document*: points of "
    "AUTO-07p on the same equations, the fewest of its runs with 4 collocation points per interval, adaption "
    "every 3 steps, relative tolerances of 1e-7 and the constants of the last table. AUTO goes on beyond the Hopf "
    "point and traces the family again; these points are not counted. Several of its runs, mostly those with 50 "
    "intervals, end inside an explosion. The first run took 1074 and 765 steps on FitzHugh and Nagumo and listed "
    "no fold inside an explosion, where the parameter stands still to rounding; the cubic autocatalator was given up "
    "from its upper Hopf point, at a tip of the family whose tangent led back. The last two systems were kept apart: "
    "they were chosen before they were run, after the rule for folds was written (a fold is listed where the "
    "parameter leaves the values at which it stands still in the direction opposite to that in which it came). Their "
    "first run found no orbit at the upper Hopf point of the Oregonator, whose states are far below 1."
)
