"""Models from `sympy.physics.mechanics`: Kane's and Lagrange's methods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import sympy as sp

from kapitza.base import checks
from kapitza.errors import ModelError
from kapitza.model.build import from_equations
from kapitza.model.parts import Parameter

if TYPE_CHECKING:
    from sympy.physics.mechanics import KanesMethod, LagrangesMethod

    from kapitza.model.model import Model


def from_sympy(
    method: KanesMethod | LagrangesMethod,
    parameters: Mapping[str, Any] | Iterable[Parameter | str | sp.Basic] | None = None,
    angles: Iterable[str] = (),
    **parts: Any,
) -> Model:
    """See `Model.from_sympy`."""
    from sympy.physics.mechanics import KanesMethod, LagrangesMethod

    if isinstance(method, LagrangesMethod):
        coordinates, equations = _lagrange(method)
    elif isinstance(method, KanesMethod):
        coordinates, equations = _kane(method)
    else:
        raise ModelError(f"{checks.shown(method)} is not a KanesMethod or LagrangesMethod of sympy.physics.mechanics.")
    if parameters is None:
        # All constants, without values: the user sets them by name.
        known = {f.func.__name__ for e in equations for f in e.atoms(sp.core.function.AppliedUndef)}
        parameters = sorted({s.name for e in equations for s in e.free_symbols} - known - {"t"})
    return from_equations(equations, coordinates, angles, parameters, **parts)


def _lagrange(method: Any) -> tuple[list[Any], list[Any]]:
    """Coordinates and residuals; multipliers are refused."""
    constraints = list(method.coneqs)
    if constraints:
        raise ModelError(
            f"The LagrangesMethod has {len(constraints)} constraints with multipliers ({constraints[0]}, ...); "
            "choose coordinates that fulfil them."
        )
    return list(method.q), list(method.form_lagranges_equations())


def _kane(method: Any) -> tuple[list[Any], list[Any]]:
    """Coordinates and residuals: with q' = u in the coordinates alone, otherwise with the speeds as states."""
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
