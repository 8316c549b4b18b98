"""Setup of an invariant fit.

Model, data and free parameters give a form, its points, bounds and a start; impossible fits are refused here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

from kapitza.base.arrays import Array
from kapitza.base.cures import Fit, Give
from kapitza.errors import DataError, IdentifiabilityError, ModelError
from kapitza.estimate.identifiability import analyse
from kapitza.estimate.invariant_fit.conserved import (
    ENOUGH,
    Bounds,
    FeatureTable,
    Form,
    Points,
    collect,
    declared_invariant,
    make_form,
    reconstruction,
    scrambled,
    second_moments,
)
from kapitza.estimate.invariant_fit.domain import within_domain
from kapitza.estimate.priors import bounds_of
from kapitza.estimate.request import Request, Task
from kapitza.model import Model, symbol

if TYPE_CHECKING:
    from kapitza.estimate.invariant_fit.fit import InvariantFit

USUAL = 0.5
"""Assumed size of a parameter without other information."""

SINGULAR = 1e-9
"""Relative size below which a direction of the sensitivities counts as zero."""


@dataclass(frozen=True)
class Setup(Task):
    """Form, points and start of an invariant fit.

    asked: free parameters as the user meant them; form.free lacks the one that is held.
    left_out: share of the points that noise may carry out of the domain of the invariant.
    """

    settings: InvariantFit
    name: str
    form: Form
    points: Points
    bounds: Bounds
    start: Array
    asked: tuple[str, ...]
    held: str | None
    warnings: tuple[str, ...]
    left_out: float = 0.0

    @property
    def spare(self) -> int:
        """Degrees of freedom: points less parameters and levels."""
        return max(1, self.points.count - len(self.form.free) - self.points.levels)


def prepare(settings: InvariantFit, request: Request) -> Setup:
    """Build the fit described by the settings."""
    model = request.model
    name, given = declared_invariant(model, settings.invariant)
    expression, asked, points = collected(settings, request, given, "the invariant", settings.levels == "segment")
    whole = points.count
    # Before anything is evaluated: a logarithm of a negative number is NaN.
    points, outside = within_domain(points, name, expression, dict(model.values))
    held, warnings = _normalisation(model, expression, points, asked, request.free is not None, settings.scale)
    names = tuple(n for n in asked if n != held)
    if not names:
        raise IdentifiabilityError(
            f"{held} is only a factor of the invariant, which the data do not determine: there is nothing to estimate."
        )
    _refuse_too_few(points, len(names))
    form = make_form(expression, points.variables, names, model.values)
    bounds, start = start_of(model, names)
    theta = generic_point(start, _sizes(form, points, start), bounds)
    refuse_dependent(sensitivities(form, points, theta)[1], names, theta)
    warnings = (outside, *warnings) if outside else warnings
    left_out = 1 - points.count / whole
    return Setup(request, settings, name, form, points, bounds, start, asked, held, warnings, left_out)


def collected(
    settings: InvariantFit, request: Request, expression: sp.Expr, where: str, by_segment: bool
) -> tuple[sp.Expr, tuple[str, ...], Points]:
    """Return expression, free parameters and points.

    The expression is in measured quantities; the points are those of all records.
    """
    records, model = request.whole_records, request.model
    shared = [c for c in records[0][0].channels if all(c in record.channels for record, _ in records)]
    plan = reconstruction(model, expression, shared)
    asked = _free_names(model, plan.expression, request.free, where)
    return plan.expression, asked, collect(model, records, plan, settings.momenta, by_segment)


def _free_names(model: Model, expression: sp.Expr, free: Sequence[str] | None, where: str) -> tuple[str, ...]:
    """Return the free parameters.

    All that occur in the expression by default.
    """
    present = [n for n in model.names if symbol(n) in expression.free_symbols]
    if not present:
        raise ModelError(f"{where.capitalize()} holds no parameter of the model: there is nothing to estimate from it.")
    if free is None:
        return tuple(present)
    if not free:
        raise ModelError(f"No parameter is free: name some of {', '.join(present)}, or leave free out for all of them.")
    absent = [n for n in free if n not in present]
    if absent:
        raise IdentifiabilityError(
            f"{', '.join(absent)} does not occur in {where}, which holds {', '.join(present)}: leave it out, or hand "
            f"over to a fit of the motion with {Fit('invariant', then=...)}."
        )
    return tuple(free)


def start_of(model: Model, names: Sequence[str]) -> tuple[Bounds, Array]:
    """Return bounds and starting values (k,).

    Values of the model within the bounds; 1 for those that have none.
    """
    bounds = Bounds(*bounds_of(model, names))
    return bounds, bounds.clip(np.nan_to_num(np.array([model.values[n] for n in names]), nan=1.0))


def _refuse_too_few(points: Points, parameters: int) -> None:
    needed = parameters + points.levels
    if points.count <= needed:
        raise DataError(
            f"{points.count} points on {points.levels} level set(s) cannot determine {parameters} parameters: "
            f"more than {needed} are needed."
        )


def sensitivities(form: Form, points: Points, theta: Array) -> tuple[Array, Array]:
    """Return the invariant and its sensitivities.

    They are the invariant (K,) and parameter derivatives (K, k) about the level means, rotated into K rows by QR.
    """
    # Ceiling division: at most ENOUGH points, spread evenly.
    few = points.take(np.arange(0, points.count, -(-points.count // ENOUGH)))
    moment = second_moments(FeatureTable(form, 0), few, theta, np.ones(few.count))
    c, slopes = form.local(theta)
    return moment.root @ c, moment.root @ slopes


def _sizes(form: Form, points: Points, theta: Array) -> Array:
    """Return the typical change (k,) of each parameter.

    It would change the invariant by as much as it varies, whatever the units.
    USUAL where that cannot be determined, and at most that where θ itself, not zero, gives the size.
    """
    usual = np.full(theta.size, USUAL)
    if not form.separable:
        return usual
    with np.errstate(all="ignore"):
        invariant, slopes = sensitivities(form, scrambled(points), theta)
        size = np.linalg.norm(invariant) / np.linalg.norm(slopes, axis=0)
    size = np.where(np.isfinite(size) & (size > 0), size, usual)
    return np.where(theta == 0, size, np.minimum(size, usual))


def _normalisation(
    model: Model, expression: sp.Expr, points: Points, asked: tuple[str, ...], explicit: bool, scale: str | None
) -> tuple[str | None, tuple[str, ...]]:
    """Return the parameter that fixes the scale.

    It is held because the factor of the invariant cannot be found.
    """
    form = make_form(expression, points.variables, asked, model.values)
    bounds, start = start_of(model, asked)
    theta = generic_point(start, _sizes(form, points, start), bounds)
    # Tested on unrelated combinations of the states: on one level set every change looks like a scale.
    direction = scale_direction(*sensitivities(form, scrambled(points), theta))
    if direction is None:
        if scale not in (None, "norm") and scale in asked:
            return scale, ()
        return None, ()
    moving = [n for n, v in zip(asked, direction, strict=True) if abs(v) > 1e-6 * np.abs(direction).max()]
    if scale == "norm":
        return moving[0], ()
    if scale is not None:
        if scale not in moving:
            raise IdentifiabilityError(
                f"{Fit('invariant', scale=scale)} does not fix the factor of the invariant; one of "
                f"{', '.join(moving)} does."
            )
        return scale, ()
    # Parameters that the user named are not held without being requested.
    if explicit:
        raise IdentifiabilityError(
            "The data fix the invariant only up to a factor; along it the free parameters move together "
            f"({words(asked, direction, theta)}). Leave one out of free, or pass {Fit('invariant', scale=moving[0])} "
            f"to hold it, or {Give(scale='norm')}."
        )
    value = model.values[moving[0]]
    return moving[0], (f"the factor of the invariant is not identifiable: {moving[0]} is held at {value:.6g}",)


def generic_point(theta: Array, size: Array, bounds: Bounds) -> Array:
    """Return a generic parameter set near θ.

    Away from accidental zeros; size (k,): what counts as a change where θ is small.
    """
    # Multiples of the golden ratio: no two parameters change by related amounts.
    turn = 0.1 + 0.1 * np.mod(np.arange(1, theta.size + 1) * 0.6180339887, 1.0)
    change, low, high = turn * np.maximum(np.abs(theta), size), bounds.low, bounds.high
    return np.where(theta + change < high, np.maximum(theta + change, low), np.clip(theta - change, low, high))


def scale_direction(invariant: Array, sensitivities: Array) -> Array | None:
    """Return the parameter change that scales the invariant.

    δ (k,) multiplies the invariant by a factor; None if there is none.
    invariant: (M,) and sensitivities: (M, k), both without their level means (or in coefficients).
    """
    if sensitivities.shape[1] == 0:
        return None
    size = np.linalg.norm(sensitivities, axis=0)
    size = np.where(size > 0, size, 1.0)
    change = np.linalg.lstsq(sensitivities / size, invariant, rcond=SINGULAR)[0] / size
    rest = np.linalg.norm(invariant - sensitivities @ change)
    return change if rest <= 1e-7 * np.linalg.norm(invariant) else None


def words(names: Sequence[str], direction: Array, theta: Array) -> str:
    """Return a parameter change in per cent as text.

    An example is m1 -1 %, omega1 +0.5 %.
    """
    relative = direction / np.where(theta == 0, 1.0, theta)
    lead = relative / relative[np.argmax(np.abs(relative))]
    return ", ".join(f"{n} {v:+.3g} %" for n, v in zip(names, lead, strict=True) if abs(v) > 1e-6)


def refuse_dependent(sensitivities: Array, names: Sequence[str], theta: Array) -> None:
    """Refuse parameters that the invariant does not determine.

    Changes of them leave the invariant on these data unchanged; sensitivities (M, k).
    """
    size = np.where(theta == 0, 1.0, theta)
    result = analyse(sensitivities.T @ sensitivities, names, size)
    if not result.complete:
        raise IdentifiabilityError(result.message())
