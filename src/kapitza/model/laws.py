"""Laws of friction and stiffness, chosen by name.

They are added to the equations of a model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import sympy as sp

from kapitza.errors import ModelError, nearest_name
from kapitza.model.model import Model
from kapitza.model.parts import Parameter
from kapitza.model.symbols import Expression, rate, symbol

Force = Callable[[Expression, Expression, Sequence[Expression]], Expression]
"""f(x, x', parameters)."""


@dataclass(frozen=True)
class Law:
    """A force law that acts on a coordinate.

    parameters: names with start values and bounds. force: f(x, x', parameters).

    The force is on the left side, m*x'' + ... + f = 0: positive friction dissipates energy, positive stiffness is
    restoring.
    """

    meaning: str
    parameters: tuple[tuple[str, float, tuple[float, float]], ...]
    force: Force


POSITIVE, ANY = (0.0, math.inf), (-math.inf, math.inf)

LAWS: dict[str, Law] = {
    "viscous": Law("c x'", (("c", 0.01, POSITIVE),), lambda x, v, p: p[0] * v),
    "coulomb": Law("c sign x'", (("c", 0.01, POSITIVE),), lambda x, v, p: p[0] * sp.sign(v)),
    "quadratic": Law("c x' |x'|", (("c", 0.01, POSITIVE),), lambda x, v, p: p[0] * v * sp.Abs(v)),
    "cubic_damping": Law("c x'³", (("c", 0.01, POSITIVE),), lambda x, v, p: p[0] * v**3),
    "stribeck": Law(
        "(c + s exp(-(x'/w)²)) sign x'",
        (("c", 0.01, POSITIVE), ("s", 0.01, POSITIVE), ("w", 0.1, POSITIVE)),
        lambda x, v, p: (p[0] + p[1] * sp.exp(-((v / p[2]) ** 2))) * sp.sign(v),
    ),
    "linear": Law("k x", (("k", 0.0, ANY),), lambda x, v, p: p[0] * x),
    "cubic": Law("k x³", (("k", 0.0, ANY),), lambda x, v, p: p[0] * x**3),
    "quintic": Law("k x⁵", (("k", 0.0, ANY),), lambda x, v, p: p[0] * x**5),
    "bilinear": Law("k x where x > 0", (("k", 0.0, ANY),), lambda x, v, p: p[0] * sp.Max(x, 0)),
    "gap": Law(
        "k (x - d) beyond ±d",
        (("k", 1.0, POSITIVE), ("d", 0.1, POSITIVE)),
        lambda x, v, p: p[0] * (sp.Max(x - p[1], 0) + sp.Min(x + p[1], 0)),
    ),
}
"""Laws by name: viscous, coulomb, quadratic, cubic_damping, stribeck; linear, cubic, quintic, bilinear, gap."""


def with_laws(model: Model, laws: Sequence[str]) -> Model:
    """Return the model with further forces.

    A force is named "law coordinate": with_laws(model, ["coulomb x", "cubic x"]).

    Each brings parameters of its own, coulomb_x_c and cubic_x_k here, per the scale of the equation it is added to
    (per mass where the equation begins with x''). Friction is bounded to take energy out.

    Parameters
    ----------
    model : Model
        The equations to add to.
    laws : list of str
        Each a law and a coordinate: viscous, coulomb, quadratic, cubic_damping, stribeck; linear, cubic, quintic,
        bilinear, gap.

    Returns
    -------
    Model
        With the forces and their parameters.

    Examples
    --------
    >>> import kapitza as kz
    >>> model = kz.Model.from_equations("x'' + x = 0")
    >>> kz.with_laws(model, ["coulomb x", "cubic x"]).names
    ('coulomb_x_c', 'cubic_x_k')
    """
    equations, parameters = list(model.equations), list(model.parameters)
    coordinates = {c.name: number for number, c in enumerate(model.coordinates) if c.order == 2}
    if model.is_map or not coordinates:
        raise ModelError(f'Model "{model.name}" has no second-order coordinate that a force could act on.')
    for text in [laws] if isinstance(laws, str) else laws:
        name, _, coordinate = str(text).partition(" ")
        coordinate = coordinate.strip() or (next(iter(coordinates)) if len(coordinates) == 1 else "")
        if name not in LAWS:
            raise ModelError(f'There is no law "{name}".{nearest_name(name, LAWS)} There are {", ".join(LAWS)}.')
        if coordinate not in coordinates:
            raise ModelError(
                f'"{text}": say on which coordinate the law acts, "{name} {next(iter(coordinates))}"; there are '
                f"{', '.join(coordinates)}."
            )
        law, number = LAWS[name], coordinates[coordinate]
        own = [Parameter(f"{name}_{coordinate}_{p}", start, bounds=bounds) for p, start, bounds in law.parameters]
        taken = {p.name for p in parameters}
        for parameter in own:
            if parameter.name in taken:
                raise ModelError(f'"{text}" is named twice, or {parameter.name} is a parameter of the model already.')
        force = law.force(symbol(coordinate), rate(coordinate), [symbol(p.name) for p in own])
        equations[number] = equations[number] + _orientation(model, number) * force
        parameters += own
    return replace(model, equations=tuple(equations), parameters=tuple(parameters))


def _orientation(model: Model, number: int) -> int:
    """Return the sign of the inertia in an equation.

    It is +1, or -1 where the equation is written with its inertia negative.
    """
    name = model.coordinates[number].name
    inertia = sp.diff(model.equations[number], rate(name, 2))
    values = {symbol(n): v for n, v in model.values.items() if not math.isnan(v)}
    rest = dict.fromkeys(inertia.free_symbols - set(values), 0)
    known = inertia.subs({**values, **rest})
    return -1 if known.is_negative else 1
