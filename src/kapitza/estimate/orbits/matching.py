"""Which orbits of the data the model has at given parameters; lost ones are put back, set-aside ones tried again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kapitza.arrays import Array, Flags
from kapitza.estimate.orbits.block import Block
from kapitza.estimate.orbits.character import close_from_data, lost_character
from kapitza.estimate.orbits.multipliers import joint_covariance, known_multipliers
from kapitza.estimate.orbits.problem import OrbitProblem, Target
from kapitza.estimate.orbits.solver import OUTLYING, OrbitSolution, reduce_block
from kapitza.orbit import PeriodicOrbit
from kapitza.orbits_of_models import monodromy

CLOSED = 1e-6
"""Largest gap, in units of the spread, of an orbit that counts as closed."""

HOPELESS = 0.5
"""Root mean square residual of the median orbit, in units of the spread, at which the parameters are plainly wrong."""

MISMATCH = 4.5
"""Standard errors by which a multiplier must be off to be called so; one in 10^5 is by chance."""


@dataclass(frozen=True)
class Sorted:
    """matched: index and unknowns of every matched orbit; reasons: why others are not; returned: those put back."""

    matched: dict[int, Array]
    reasons: dict[int, str]
    returned: tuple[int, ...]


def sort_out(problem: OrbitProblem, weights: list[Array], before: tuple[int, ...], solution: OrbitSolution) -> Sorted:
    """Judge every orbit of the data at the parameters of a solution.

    An orbit that does not close, lost its period, code or winding, or fits far worse than the others is solved again
    from the data at these parameters; what then still fails is set aside with the reason. Orbits that were set aside
    before get the same chance.
    """
    here = {index: (solution.unknowns[i], solution.blocks[i]) for i, index in enumerate(before)}
    misfits = [_misfit(problem.targets[i], block, weights[i]) for i, (_, block) in here.items()]
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


def hopeless(problem: OrbitProblem, solution: OrbitSolution) -> bool:
    """Whether most orbits lie so far from their readings that these parameters are not worth sorting orbits at."""
    sizes = [float(np.sqrt(np.mean(r**2))) for r in problem.misfits(solution.blocks)]
    return float(np.median(sizes)) > HOPELESS


def why_not(problem: OrbitProblem, index: int, z: Array, block: Block, weight: Array, typical: float) -> str:
    """Why the model's orbit at z does not match the measured one; "" when it does."""
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


def multiplier_mismatch(target: Target, block: Block) -> tuple[float, str]:
    """Largest deviation of a multiplier in standard errors; a sentence where it is too large or its sign differs."""
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
    """Real multipliers of opposite sign, known well enough to have one."""
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
