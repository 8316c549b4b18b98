"""Uncertainty of a fit carried to a branch.

Implicit derivatives give bands around the branch and an interval for each bifurcation.

At a fixed value of the branch's parameter a point moves with the other parameters θ by x_θ = -F_x⁻¹ F_θ. A bifurcation
moves by p_θ from the extended system F = 0, g = 0: one linear system, no solving again. At a fold it reduces to
p_θ = -(wᵀF_θ)/(wᵀF_p) with the left null vector w.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Protocol, runtime_checkable

import numpy as np

from kapitza.base.arrays import Array
from kapitza.continuation.branch import Branch
from kapitza.continuation.curves import CURVES, moving_family
from kapitza.continuation.cycles import cycle_family
from kapitza.continuation.frame import FreeParameter, flow_dynamics, orbit_frame, state_sizes
from kapitza.continuation.motion import Section, ShootingFamily
from kapitza.continuation.nouns import Bifurcation
from kapitza.continuation.path import corrected_at
from kapitza.errors import ConvergenceError, FlowError, KapitzaError, Status
from kapitza.flow import Flow
from kapitza.solve import quantile

LEVEL = 0.9
"""Level of the intervals of bifurcations."""


@runtime_checkable
class Posterior(Protocol):
    """Estimate with the covariance of its values.

    The covariance is (k, k); the estimate also carries its degrees of freedom.
    """

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def values(self) -> Mapping[str, float]: ...

    @property
    def covariance(self) -> Array | None: ...

    @property
    def dof(self) -> float: ...

    @property
    def status(self) -> Status: ...


def with_bands(branch: Branch, estimate: object, level: float = LEVEL) -> Branch:
    """Return the branch with uncertainties from a fit.

    The result carries `deviations` of its points and an interval for each bifurcation, from the covariance of the fit.
    """
    if not isinstance(estimate, Posterior) or estimate.covariance is None:
        raise KapitzaError(f"posterior takes an Estimate, as identify gives it, not {type(estimate).__name__}.")
    names, covariance = _posterior(branch, estimate, estimate.covariance)
    # Student's quantile: the noise of the fit may be estimated from few samples.
    factor = quantile(0.5 + level / 2, estimate.dof)
    marked = tuple(_with_interval(b, names, covariance, factor) for b in branch.bifurcations)
    deviations = point_deviations(branch, names, covariance) if branch.subject == "orbit" else None
    note = f"bands: one standard deviation from {', '.join(names)}; intervals of bifurcations: {level:.0%}"
    return branch.with_(bifurcations=marked, deviations=deviations, notes=(*branch.notes, note))


def _posterior(branch: Branch, estimate: Posterior, covariance: Array) -> tuple[tuple[str, ...], Array]:
    """Return the estimated parameters and their covariance.

    Those that are in the model, without those that the branch moves.
    """
    if not estimate.status.ok:
        raise KapitzaError(f"The fit ended without an answer ({estimate.status.value}): it has no posterior to draw.")
    kept = [i for i, n in enumerate(estimate.names) if n in branch.model.names and n not in branch.parameters]
    if not kept:
        raise KapitzaError(
            f"The fit does not estimate the other parameters of the model, only {', '.join(estimate.names)}."
        )
    here = branch.model.values
    # Derivatives hold at the branch only, so it must have been followed at the estimate.
    wrong = [n for n in (estimate.names[i] for i in kept) if not np.isclose(here[n], estimate.values[n], rtol=1e-6)]
    if wrong:
        raise KapitzaError(
            f"The branch was not followed at the estimate: {', '.join(wrong)} differ. Follow fit.model, or "
            "model.with_values(**fit.values)."
        )
    names = tuple(estimate.names[i] for i in kept)
    return names, np.asarray(covariance)[np.ix_(kept, kept)]


def bifurcation_gradient(bifurcation: Bifurcation, names: tuple[str, ...]) -> Array:
    """Return dp/dθ (k,) of a bifurcation.

    θ are the parameters `names`; all other unknowns of the bifurcation move with them.
    """
    if bifurcation.kind not in CURVES:
        raise KapitzaError(f"The place of a {bifurcation.kind.value} is not differentiated.")
    family, z = moving_family(bifurcation, names)
    # Unknowns end with (p, θ): the rows F = 0 and g = 0 determine everything but θ.
    jacobian, count = family.linearise(z).jacobian, len(names)
    return -np.linalg.solve(jacobian[:, :-count], jacobian[:, -count:])[-1]


def moved_bifurcation(bifurcation: Bifurcation, values: Mapping[str, float]) -> float:
    """Return the bifurcation's value at other parameters.

    The other parameters do not move along its branch.
    Newton's method on F = 0, g = 0 from the known one; where that fails, in up to 16 steps on a straight line.
    """
    names = tuple(values)
    family, z = moving_family(bifurcation, names)
    held = np.eye(z.size)[-len(names) :]
    begin, end = held @ z, np.array([values[name] for name in names])
    message = ""
    # One Newton solution serves small changes; large ones are approached in steps.
    for steps in (1, 4, 16):
        at = z
        for share in np.linspace(0.0, 1.0, steps + 1)[1:]:
            outcome = corrected_at(family, at, held, begin + share * (end - begin), 1e-10)
            if outcome.point is None:
                message = outcome.message
                break
            at = outcome.point.z
        else:
            return float(at[-len(names) - 1])
    raise ConvergenceError(f"{bifurcation} was not found at {dict(values)}: {message}")


def _with_interval(bifurcation: Bifurcation, names: tuple[str, ...], covariance: Array, factor: float) -> Bifurcation:
    try:
        slopes = bifurcation_gradient(bifurcation, names)
    except (KapitzaError, FlowError, np.linalg.LinAlgError):
        return bifurcation
    deviation = float(np.sqrt(max(slopes @ covariance @ slopes, 0.0)))
    reach = factor * deviation
    return replace(bifurcation, deviation=deviation, interval=(bifurcation.value - reach, bifurcation.value + reach))


def point_deviations(branch: Branch, names: tuple[str, ...], covariance: Array) -> Array:
    """Return standard deviations (N, n) of the points.

    The parameter is fixed; deviations are large next to folds, where the branch is vertical.
    """
    result = np.full_like(branch.points, np.nan)
    count = len(names)
    families = _cycles(branch, names) if branch.model.is_map else _orbits(branch, names)
    for i, (family, z) in enumerate(families):
        # The parameters move by one each, everything else follows: columns of [F_z; 0 I] dz = [0; I].
        held, moves = np.eye(z.size)[-count:], np.eye(z.size)[:, -count:]
        try:
            moved = family.linearise(z).bordered(held).solve(moves)
        except (FlowError, np.linalg.LinAlgError):
            continue
        spread = moved[: branch.points.shape[1]]
        result[i] = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", spread, covariance, spread), 0.0))
    return result


def _orbits(branch: Branch, names: tuple[str, ...]) -> Iterator[tuple[ShootingFamily, Array]]:
    """Return a family through each orbit of a branch.

    `names` are free; the unknowns at each orbit are returned too.
    """
    flow = Flow(branch.model, wrt=names)
    dynamics = flow_dynamics(branch.model, names, branch.repeats, flow)
    free = FreeParameter(names, (1.0,) * len(names))
    rates = flow.rates(branch.points, 0.0)
    sizes = state_sizes(branch.model, branch.points, rates, float(np.median(branch.periods)))
    places = [branch.model.names.index(name) for name in names]
    for i in range(len(branch)):
        period, vector = float(branch.periods[i]), branch.vector(i)
        fractions, nodes = np.zeros(1), branch.points[i : i + 1]
        if branch.counts.size and branch.counts[i] > 1:
            fractions, nodes = branch.nodes_of(i)
        reference = np.stack([branch.points[i], rates[i]]) if branch.autonomous else None
        frame = replace(orbit_frame(branch.model, free, branch.repeats, sizes, period, dynamics), vector=vector)
        family = ShootingFamily(frame, fractions, Section(float(branch.repeats or 1), reference=reference))
        yield family, family.pack(nodes, period, vector[places])


def _cycles(branch: Branch, names: tuple[str, ...]) -> Iterator[tuple[ShootingFamily, Array]]:
    """Return a family through each cycle of a map."""
    for i in range(len(branch)):
        model = branch.model.with_values(**{branch.parameter: float(branch.values[i, 0])})
        yield cycle_family(model, branch.nodes_of(i)[1], FreeParameter(names, (1.0,) * len(names)))
