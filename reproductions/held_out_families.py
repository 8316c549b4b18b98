"""Families of 23 systems that `follow` was not developed on, against AUTO-07p and closed forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from harness import markdown_table

import kapitza as kz
from kapitza.continuation import Bifurcation, Kind
from reproductions._held_out_families import SYSTEMS, System
from reproductions._held_out_references import AT_REST, CURVES, CYCLES

TOLERANCE = 1e-6
"""Of the range of the parameter: distance at which a point is the known one."""

GENERALISED = 1e-5
"""The same for generalised Hopf points, which AUTO's runs place within 4e-6 of each other."""


@dataclass
class Score:
    """Points of one subject: found, missed, verified ones that are not known, unverified ones."""

    found: int = 0
    missed: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)
    unverified: int = 0

    def add(self, known: Sequence[tuple[str, float]], points: Sequence[Bifurcation], width: float) -> None:
        left = list(points)
        for kind, value in known:
            near = [b for b in left if b.kind.value == kind and abs(b.value - value) < _allowed(kind) * width]
            if near:
                left.remove(near[0])
                self.found += 1
                self.unverified += not near[0].verified
            else:
                self.missed.append(f"{kind} {value:.8g}")
        self.false += [str(b) for b in left if b.verified]
        self.unverified += sum(not b.verified for b in left)


def _allowed(kind: str) -> float:
    return GENERALISED if kind == Kind.GENERALISED_HOPF.value else TOLERANCE


def _curve_points(system: System, rest: kz.Branch, score: Score, curves: Any) -> None:
    for kind, known in curves[system.name].items():
        found: list[Bifurcation] = []
        for start in rest.of(kind):
            curve = kz.follow(start, (system.parameter, system.second), system.curve)
            # Folds that one cusp joins have one curve, which each of them leads along.
            found += [b for b in curve.bifurcations if not any(same_point(b, other) for other in found)]
        low, high = system.curve[system.parameter]
        score.add([(name, value) for name, value, _ in known], found, high - low)


def same_point(first: Bifurcation, second: Bifurcation) -> bool:
    return first.kind is second.kind and np.allclose(first.values, second.values, rtol=1e-5, atol=1e-7)


def evaluated(system: System, at_rest: Any, of_cycles: Any, curves: Any) -> tuple[list[str], Score]:
    """The row of the table and the score of a system, given what is known of it."""
    model = kz.Model.from_equations(list(system.equations), parameters=system.parameters, name=system.name)
    width = system.bounds[1] - system.bounds[0]
    score, ends = Score(), []
    rest = kz.follow(model, system.start, system.parameter, system.bounds, equilibrium=True)
    score.add(at_rest[system.name], rest.bifurcations, width)
    steps = 0
    for place, (known, end) in of_cycles.get(system.name, {}).items():
        try:
            cycles = kz.switch_branch(rest.bifurcations[_index(rest, at_rest[system.name][place][1])], system.bounds)
        except kz.KapitzaError as problem:
            score.missed += [f"{kind} {value:.8g}" for kind, value in known]
            ends.append(f"{type(problem).__name__} ({end})")
            continue
        steps += len(cycles)
        score.add(known, cycles.bifurcations, width)
        ends.append(f"{cycles.ends[1].name} ({end})")
    if system.name in curves:
        _curve_points(system, rest, score, curves)
    cells = [
        system.name, system.source, str(score.found), ", ".join(score.missed) or "0", ", ".join(score.false) or "0",
        str(score.unverified), str(steps), "; ".join(ends),
    ]  # fmt: skip
    return cells, score


def _index(branch: kz.Branch, value: float) -> int:
    return int(np.argmin([abs(b.value - value) + (b.kind is not Kind.HOPF) * 1e9 for b in branch.bifurcations]))


def main() -> str:
    rows, scores = zip(*(evaluated(system, AT_REST, CYCLES, CURVES) for system in SYSTEMS), strict=True)
    found, missed = sum(s.found for s in scores), sum(len(s.missed) for s in scores)
    false = sum(len(s.false) for s in scores)
    head = ["system", "source", "found", "missed", "false verified", "unverified", "steps on cycles", "end (known)"]
    return "\n".join(
        [
            f"{len(SYSTEMS)} systems, {found + missed} known points: {found} found, {missed} missed "
            f"({100 * missed / (found + missed):.1f} %), {false} false verified.",
            "",
            markdown_table(head, rows),
            "",
            "Known points: AUTO-07p with 40 × 4 and 150 × 4 collocation, or closed forms; ends in brackets likewise. "
            "The systems and their ranges were chosen before the work. A first evaluation had 2 false verified "
            "(generalised Hopf points at poles of the Lyapunov coefficient, next to zero-Hopf points) and missed one "
            "torus bifurcation next to a Hopf point; two families took 2000 steps, and the catalytic oscillator's was "
            "reversed where its phase condition was renewed. All were cured before this table. "
            "Canards of the Oregonator (ε = 0.04, q = 8e-4) are passed from either Hopf point to the other, where "
            "AUTO's runs with 40 × 4 elements end. AUTO's fold at 2.2937975, in these tables before as missed, is "
            "none: runs with 150 × 4 and 200 × 4 label it four times and turn back there, one with 400 × 4 passes it "
            "without a label, and the parameter falls before and after it. No orbit was found before at the upper Hopf "
            "point.",
        ]
    )
