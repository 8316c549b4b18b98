"""Matching of measured orbits with orbits of the model.

The parameters are given; lost orbits are put back, orbits set aside are tried again.

While the parameters move an orbit must keep its period, its symbolic code and its winding, and Newton's iteration knows
none of them. A period-2 orbit may slide onto twice the period-1 orbit it was born from, or jump to another orbit of the
same period; both close, so closure alone does not show it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kapitza.base.angles import difference
from kapitza.base.arrays import Array, Flags
from kapitza.errors import FlowError
from kapitza.estimate.orbit_fit.block import Block
from kapitza.estimate.orbit_fit.multipliers import joint_covariance, known_multipliers
from kapitza.estimate.orbit_fit.problem import OrbitProblem, Target
from kapitza.estimate.orbit_fit.solver import OUTLYING, OrbitSolution, reduce_block
from kapitza.orbits import PeriodicOrbit
from kapitza.orbits.of_models import monodromy, spelled
from kapitza.solve import Halving, Outcome, walk_to

CLOSED = 1e-6
"""Largest gap, in units of the spread, of an orbit that counts as closed."""

FAR_OFF = 0.5
"""Root mean square residual of the median orbit, in units of the spread, above which the parameters are wrong."""

COLLAPSED = 0.05
"""An orbit has collapsed when its distance from a shorter one is below this share of that in the data."""

BORDER = 0.01
"""Points within this share of the spread (or four standard errors) of a border of the partition have no letter."""

SOLVED = 1e-10
"""Largest gap, in units of the spread, of an orbit that counts as solved."""

MISMATCH = 4.5
"""Standard errors by which a multiplier must be off to be reported; by chance one in 10^5 is."""


@dataclass(frozen=True)
class Sorted:
    """Orbits matched and not matched.

    matched: index and unknowns of every matched orbit; reasons: why others are not; returned: those put back.
    """

    matched: dict[int, Array]
    reasons: dict[int, str]
    returned: tuple[int, ...]


def sort_out(problem: OrbitProblem, weights: list[Array], before: tuple[int, ...], solution: OrbitSolution) -> Sorted:
    """Decide which orbits of the data are matched.

    The parameters are those of a solution. An orbit that does not close, lost its period, code or winding, or fits
    far worse than the others is solved again from the data at these parameters; if it still fails it is set aside
    with the reason. Orbits that were set aside before are tried again as well.
    """
    here = {index: (solution.unknowns[i], solution.blocks[i]) for i, index in enumerate(before)}
    misfits = [_misfit(problem.targets[i], block, weights[i]) for i, (_, block) in here.items()]
    # Relative to the median: while the noise is not yet estimated all residuals may be large.
    typical = max(float(np.median(misfits)), 1.0) if misfits else 1.0
    matched: dict[int, Array] = {}
    reasons: dict[int, str] = {}
    returned = []
    for index in range(len(problem.targets)):
        reason = "not tried"
        if index in here:
            z, block = here[index]
            reason = why_not(problem, index, z, block, weights[index], typical)
            if not reason:
                matched[index] = z
                continue
        # The orbit may exist although Newton's iteration has lost it.
        again = close_from_data(problem, index, solution.theta)
        if again is not None:
            other = why_not(problem, index, *again, weights[index], typical)
            if not other:
                matched[index] = again[0]
                returned.append(index)
                continue
            reason = other
        elif reason == "not tried":
            reason = "the model has no such orbit nearby"
        reasons[index] = reason
    return Sorted(matched, reasons, tuple(returned))


def far_off(problem: OrbitProblem, solution: OrbitSolution) -> bool:
    """Return whether the parameters are too wrong to sort.

    Most orbits are then far from their samples.
    """
    sizes = [float(np.sqrt(np.mean(r**2))) for r in problem.misfits(solution.blocks)]
    return float(np.median(sizes)) > FAR_OFF


def why_not(problem: OrbitProblem, index: int, z: Array, block: Block, weight: Array, typical: float) -> str:
    """Return why an orbit does not match, else "".

    The model's orbit is at z.
    """
    gap = float(problem.gaps(block).max())
    if not gap <= CLOSED:
        return f"the model has no such orbit nearby (gap {gap:.1e} of the spread)"
    lost = lost_character(problem, index, z, block)
    if lost:
        return lost
    misfit = _misfit(problem.targets[index], block, weight)
    if misfit > OUTLYING * typical:
        return f"residuals of {np.sqrt(misfit):.3g} standard deviations"
    return ""


def _misfit(target: Target, block: Block, weight: Array) -> float:
    return float((reduce_block(block, weight).residual[: target.times.size] ** 2).mean())


def lost_character(problem: OrbitProblem, index: int, z: Array, block: Block) -> str:
    """Return why an orbit is not the measured one.

    The orbit at z may have another period, winding or code; "" when it has not.
    """
    target = problem.targets[index]
    nodes = z[: target.nodes.size].reshape(target.nodes.shape)
    shorter = shorter_period(problem, target, nodes)
    if shorter:
        return f"collapsed onto an orbit of period {shorter}"
    turns = tuple(int(t) for t in block.turns)
    if len(target.winding) == len(turns) and turns != target.winding:
        return f"winds {turns} times, the measured orbit {target.winding}"
    expected, found = letters(problem, target), strobed_letters(problem, target, nodes)
    if any(a not in ("*", b) for a, b in zip(expected, found, strict=True)):
        return f"has the code {found}, the measured orbit {expected}"
    return ""


def shorter_period(problem: OrbitProblem, target: Target, nodes: Array) -> int:
    """Return the shorter period of collapsed nodes, else 0.

    The excitation periods q < p after which the nodes repeat, although those of the data do not.
    """
    if not target.repeats or target.repeats < 2 or target.count % target.repeats:
        return 0
    per = target.count // target.repeats
    for q in range(1, target.repeats):
        if target.repeats % q == 0:
            apart, shown = (_apart(problem, x, q * per) for x in (nodes, target.nodes))
            # Relative to what the data show, because orbits near a period doubling are close to each other by nature.
            if apart <= max(COLLAPSED * shown, 1e-7):
                return q
    return 0


def _apart(problem: OrbitProblem, nodes: Array, shift: int) -> float:
    gap = difference(np.roll(nodes, -shift, axis=0), nodes, problem.model.angles)
    return float(np.abs(gap / problem.scale).max())


def strobed_letters(problem: OrbitProblem, target: Target, nodes: Array) -> str:
    """Return one letter per excitation period.

    They are those of the cells of the model's partition; "" where there is none.
    """
    model = problem.model
    if not (model.partition and model.letters) or not target.repeats or target.count % target.repeats:
        return ""
    return spelled(model, nodes[:: target.count // target.repeats])


def letters(problem: OrbitProblem, target: Target) -> str:
    """Return the letters of the data.

    With "*" where a point is too near a border.
    """
    word = list(strobed_letters(problem, target, target.nodes))
    if not word:
        return ""
    reach = BORDER * problem.scale
    if target.covariance is not None:
        variance = target.covariance if target.covariance.ndim == 1 else np.diag(target.covariance)
        for channel, name in enumerate(problem.channels.names):
            mine = target.channel == channel
            if name in problem.model.states and mine.any():
                i = problem.model.states.index(name)
                # A point whose error crosses a border has no certain letter.
                reach[i] = max(reach[i], 4 * float(np.sqrt(variance[: mine.size][mine].max())))
    for i in range(reach.size):
        for sign in (-1.0, 1.0):
            moved = target.nodes.copy()
            moved[:, i] += sign * reach[i]
            for k, letter in enumerate(strobed_letters(problem, target, moved)):
                if letter != word[k]:
                    word[k] = "*"
    return "".join(word)


def close_from_data(problem: OrbitProblem, index: int, theta: Array) -> tuple[Array, Block] | None:
    """Return the model's orbit that continues the measured one.

    The parameters are fixed; None where the continuation ends. The nodes of the data are an orbit of the model with
    a kick c_j at the end of every segment, c the gaps. The kicks are reduced step by step, c(z) = (1 - s) c(z_0)
    with s from 0 to 1: each orbit on the path is the guess of the next, steps that fail are halved.
    """
    one = problem.subset([index])
    z = one.starts()[0]
    try:
        block = one.evaluate([z], theta)[0]
        kick = block.gap.copy()

        def attempt(last: tuple[Array, Block], ahead: float) -> Outcome[tuple[Array, Block]]:
            return Outcome(_correct(one, *last, theta, (1.0 - ahead) * kick))

        found, done, _ = walk_to((z, block), attempt, Halving(0.25, 1e-3, growth=2.0))
    except FlowError:
        return None
    return found if done == 1.0 else None


def _correct(one: OrbitProblem, z: Array, block: Block, theta: Array, kick: Array) -> tuple[Array, Block] | None:
    """Solve c(z) = kick by Newton's method.

    None when it does not contract at once: the step was too long.
    """
    scale, before = np.tile(one.scale, len(kick) // one.scale.size), np.inf
    for _ in range(12):
        gap = difference((block.gap - kick).reshape(-1, one.scale.size), np.zeros(1), one.model.angles).ravel()
        size = float(np.abs(gap / scale).max())
        if size <= SOLVED:
            return z, block
        # Newton's method contracts quadratically near a solution; at rounding it stops contracting.
        if size > 0.5 * before and size > 1e-8:
            return None
        move = -block.close(gap[:, None])[0][:, 0]
        # A long step may land on another orbit.
        if np.abs(move[: scale.size] / scale).max() > 0.3:
            return None
        z, before = z + move, size
        block = one.evaluate([z], theta)[0]
    return None


def multiplier_mismatch(target: Target, block: Block) -> tuple[float, str]:
    """Return the largest deviation of a multiplier.

    It is in standard errors; with a sentence where it is too large or its sign differs.
    """
    use = known_multipliers(target)
    if not use.any():
        return float("nan"), ""
    assert target.multipliers is not None
    model = monodromy(block.jacobians).multipliers
    off = (np.abs(model) - target.multipliers) / np.sqrt(np.diag(joint_covariance(target)[0]))
    worst = int(np.argmax(np.where(use, np.abs(off), -1.0)))
    size = float(abs(off[worst]))
    text = ""
    if size > MISMATCH:
        text = f"|μ| = {abs(model[worst]):.4g} in the model, {target.multipliers[worst]:.4g} in the data ({size:.3g} σ)"
    signs = _signs(target, use, model)
    return size, "; ".join(part for part in (text, signs) if part)


def _signs(target: Target, use: Flags, model: NDArray[np.complex128]) -> str:
    """Describe real multipliers of opposite sign.

    Only multipliers known well enough to have a sign count.
    """
    source = target.source
    if not isinstance(source, PeriodicOrbit) or source.multipliers is None:
        return ""
    data = np.array(source.multipliers, np.complex128)
    real = (np.abs(data.imag) < 1e-9 * np.abs(data)) & (np.abs(model.imag) < 1e-9 * np.abs(model))
    sure = use & real & (np.abs(data) > 4 * np.asarray(target.multiplier_deviation, float))
    opposite = sure & (np.sign(data.real) != np.sign(model.real))
    if not opposite.any():
        return ""
    i = int(np.argmax(opposite))
    return f"a multiplier of {model[i].real:.4g} in the model is {data[i].real:.4g} in the data: the sign differs"
