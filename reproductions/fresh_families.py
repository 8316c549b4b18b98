"""Families of 11 further systems, listed before any was run, against AUTO-07p, SciPy and closed forms."""

from __future__ import annotations

import kapitza as kz
from reproductions import _fresh_references as known
from reproductions._fresh_families import AUTONOMOUS, DRIVEN, MAPS
from reproductions._held_out_families import System
from reproductions.blind_families import Mapped, driven_row, map_row, table
from reproductions.held_out_families import Score, evaluated


def _autonomous_row(system: System) -> tuple[list[str], Score]:
    cells, score = evaluated(system, known.AT_REST, known.CYCLES, known.CURVES)
    if system.name in known.CROSSING:
        model = kz.Model.from_equations(list(system.equations), parameters=system.parameters, name=system.name)
        rest = kz.follow(model, system.start, system.parameter, system.bounds, equilibrium=True)
        other = kz.switch_branch(rest.of("branch point")[0], system.bounds)
        score.add(known.CROSSING[system.name], other.bifurcations, system.bounds[1] - system.bounds[0])
        curve = kz.follow(other.of("Hopf")[0], (system.parameter, system.second), system.curve)
        low, high = system.curve[system.parameter]
        points = known.CROSSING_CURVES[system.name]
        score.add([(name, value) for name, value, _ in points], curve.bifurcations, high - low)
    return _counted(cells, score), score


def _map_row(system: Mapped) -> tuple[list[str], Score]:
    cells, score = map_row(system, known)
    model = kz.Model.from_map(system.images, parameters=system.parameters, name=system.name)
    for value, side, points in known.SWITCHED.get(system.name, ()):
        branch = kz.follow(model, system.start, system.parameter, system.bounds)
        start = min(branch.of("branch point"), key=lambda b: abs(b.value - value))
        other = kz.switch_branch(start, system.bounds, side=side)
        score.add(points, other.bifurcations, system.bounds[1] - system.bounds[0])
    return _counted(cells, score), score


def _counted(cells: list[str], score: Score) -> list[str]:
    counts = [str(score.found), ", ".join(score.missed) or "0", ", ".join(score.false) or "0", str(score.unverified)]
    return [*cells[:2], *counts, *cells[6:]]


def main() -> str:
    done = [_autonomous_row(s) for s in AUTONOMOUS]
    done += [_map_row(s) for s in MAPS]
    done += [driven_row(s, known) for s in DRIVEN]
    return "\n".join([*table(done), "", NOTE])


NOTE = (
    "The systems and their ranges were listed in a commit before any was run. Known points: AUTO-07p with 120 × 4 "
    "collocation; SciPy (roots of the defining equations, DOP853 with variations at 1e-12); closed forms. The "
    "electronic circuit has the equations of AUTO's demo tor, which is in the first set, at other values. The first "
    "evaluation missed two of these points, and listed six again (by the rule of this table: false). The switch at "
    "m = 1 of the duopoly returned to the known branch, with two of its points; the doubling at 2/0.9 - 1 was missed. "
    "The Hopf curve of the circuit passed its Bogdanov-Takens point, where ω² touches 0, and had the generalised Hopf "
    "point again on its mirror image; Burgers' torus curve had three resonances again in the same way. All were cured "
    "before this table. "
    "The cycles of the laser end on its rest state at A = 6.8, where that state itself changes its stability; three "
    "unverified doublings are listed there."
)
