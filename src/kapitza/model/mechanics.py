"""Models from `sympy.physics.mechanics`: Kane's and Lagrange's methods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import sympy as sp
from sympy.core.function import AppliedUndef

from kapitza.base import checks
from kapitza.errors import ModelError
from kapitza.model.build import Parameters, from_equations

if TYPE_CHECKING:
    from sympy.physics.mechanics import KanesMethod, LagrangesMethod

    from kapitza.model.model import Model


def from_sympy(
    method: KanesMethod | LagrangesMethod,
    parameters: Parameters = None,
    angles: Iterable[str] = (),
    **parts: Any,
) -> Model:
    """See `Model.from_sympy`."""
    coordinates, equations = _coordinates_and_residuals(method)
    if parameters is None:
        # All constants, without values: the user sets them by name.
        known = {f.func.__name__ for e in equations for f in e.atoms(AppliedUndef)}
        parameters = sorted({s.name for e in equations for s in e.free_symbols} - known - {"t"})
    return from_equations(equations, coordinates, angles, parameters, **parts)


def _coordinates_and_residuals(method: object) -> tuple[list[AppliedUndef], list[sp.Expr]]:
    from sympy.physics.mechanics import KanesMethod, LagrangesMethod

    if isinstance(method, LagrangesMethod):
        return _lagrange(method)
    if isinstance(method, KanesMethod):
        return _kane(method)
    raise ModelError(f"{checks.shown(method)} is not a KanesMethod or LagrangesMethod of sympy.physics.mechanics.")


def _lagrange(method: LagrangesMethod) -> tuple[list[AppliedUndef], list[sp.Expr]]:
    """Return coordinates and residuals; refuse multipliers."""
    constraints = list(method.coneqs)
    if constraints:
        raise ModelError(
            f"The LagrangesMethod has {len(constraints)} constraints with multipliers ({constraints[0]}, ...); "
            "choose coordinates that fulfil them."
        )
    return list(method.q), list(method.form_lagranges_equations())


def _kane(method: KanesMethod) -> tuple[list[AppliedUndef], list[sp.Expr]]:
    """Return coordinates and residuals of Kane's equations.

    Where q' = u the coordinates alone remain; otherwise the speeds are states.
    """
    try:
        mass, forcing = method.mass_matrix, method.forcing
    except ValueError as problem:
        raise ModelError("Call kanes_equations(bodies, loads) of the KanesMethod first.") from problem
    positions, speeds, kinematics = list(method.q), list(method.u), method.kindiffdict()
    if len(method._udep) or len(method._qdep):
        names = ", ".join(str(s) for s in (*method._qdep, *method._udep))
        raise ModelError(f"The KanesMethod has dependent coordinates or speeds ({names}); eliminate them first.")
    time = positions[0].args[0]
    rates = [s.diff(time) for s in speeds]
    residuals = [sp.expand(e) for e in mass * sp.Matrix(rates) - forcing]
    if all(kinematics.get(q.diff(time)) == u for q, u in zip(positions, speeds, strict=False)):
        as_rates = {u: q.diff(time) for q, u in zip(positions, speeds, strict=True)}
        return positions, [e.subs(as_rates).doit() for e in residuals]
    motions = [q.diff(time) - kinematics[q.diff(time)] for q in positions]
    return [*positions, *speeds], [*motions, *(e.subs(kinematics) for e in residuals)]
