"""Models of orbits that are held by control.

The control force is a Fourier series, whose coefficients are separate settings of each orbit.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import sympy as sp

from kapitza.base import checks
from kapitza.base.argument_checks import Reals
from kapitza.base.cures import Do, Give
from kapitza.errors import ModelError, nearest_name
from kapitza.model.model import Model
from kapitza.model.parts import Parameter
from kapitza.model.symbols import symbol, time


def with_control(model: Model, coordinate: str, harmonics: int = 5, repeats: int = 1, name: str = "u") -> Model:
    """Return the model with a control force.

    The force acts on the right of the equation of a coordinate.

    u(t) = u_0 + Σ u_cj cos(j Ω t) + u_sj sin(j Ω t), j = 1 … harmonics, Ω = 2π/(repeats · period of the excitation).
    The coefficients are parameters, zero at first; `control_values` reads them off a measured force, and they go with
    the orbit that was held by it: ``(orbit, control_values(model, times, force))``.

    Parameters
    ----------
    model : Model
        A forced model.
    coordinate : str
        On whose equation the force acts.
    harmonics : int
        How many the force has.
    repeats : int
        Excitation periods after which the force repeats: 2 for an orbit of doubled period.
    name : str
        What the names of the coefficients begin with.

    Returns
    -------
    Model
        With the coefficients as parameters.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> model = kz.Model.from_equations("x'' + c*x' + x**3 = cos(t)", parameters={"c": 0.1}, period="2*pi")
    >>> held = kz.with_control(model, "x", harmonics=1)
    >>> held.names
    ('c', 'u_0', 'u_c1', 'u_s1')
    """
    count = checks.whole("harmonics", harmonics, error=ModelError)
    turns = checks.whole("repeats", repeats, error=ModelError)
    if count < 0 or turns < 1:
        raise ModelError(f"with_control: harmonics = {harmonics}, repeats = {repeats}: none negative, repeats from 1.")
    names = [c.name for c in model.coordinates]
    if coordinate not in names:
        raise ModelError(f'Model "{model.name}" has no coordinate "{coordinate}".{nearest_name(coordinate, names)}')
    if model.excitation is None or model.is_map:
        raise ModelError(
            f'Model "{model.name}" has no excitation: a control force is written over its period. Give the model one.'
        )
    model.needs_repetition("period for a control force")
    made = [f"{name}_0", *(f"{name}_{kind}{j}" for j in range(1, count + 1) for kind in "cs")]
    taken = {p.name for p in model.parameters} | set(model.states)
    for new in made:
        if new in taken:
            raise ModelError(f'Model "{model.name}" has a "{new}" already: give the control another {Give("name")}.')
    assert model.excitation.period is not None
    rate = 2 * sp.pi / (turns * model.excitation.period)
    force = symbol(made[0])
    for j in range(1, count + 1):
        force += symbol(f"{name}_c{j}") * sp.cos(j * rate * time) + symbol(f"{name}_s{j}") * sp.sin(j * rate * time)
    equations = list(model.equations)
    equations[names.index(coordinate)] -= force
    excitation = replace(model.excitation, period=turns * model.excitation.period) if turns > 1 else model.excitation
    return replace(
        model,
        equations=tuple(equations),
        excitation=excitation,
        parameters=(*model.parameters, *(Parameter(new, 0.0) for new in made)),
    )


def control_values(model: Model, times: Reals, force: Reals, name: str = "u") -> dict[str, float]:
    """Return coefficients of a measured force, by least squares.

    Parameters
    ----------
    model : Model
        As `with_control` gave it.
    times : array (N,)
        After the start of the excitation [s]; they cover the period and need not be even.
    force : array (N,)
        What the control did.
    name : str
        Of the control.

    Returns
    -------
    dict
        Value of every coefficient by name; pass it with the orbit that the force held.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> model = kz.Model.from_equations("x'' + c*x' + x**3 = cos(t)", parameters={"c": 0.1}, period="2*pi")
    >>> times = np.linspace(0, 2 * np.pi, 50, endpoint=False)
    >>> found = kz.control_values(kz.with_control(model, "x", harmonics=1), times, 0.2 * np.sin(times))
    >>> round(found["u_s1"], 6)
    0.2
    """
    t = checks.array("times", times, error=ModelError)
    values = checks.array("force", force, error=ModelError)
    count = sum(p.name.startswith(f"{name}_c") and p.name[len(name) + 2 :].isdigit() for p in model.parameters)
    if f"{name}_0" not in model.names:
        raise ModelError(
            f'Model "{model.name}" has no control "{name}": make one by '
            f"{Do('kz.with_control(model, ...)', 'with_control (in Python)')}."
        )
    if t.shape != values.shape or t.ndim != 1 or t.size < 2 * count + 1:
        raise ModelError(
            f"times {t.shape} and force {values.shape}: give one value per time, at least {2 * count + 1} of them for "
            f"{count} harmonics."
        )
    period = model.period
    assert period is not None
    phase = 2 * np.pi / period * np.multiply.outer(t, np.arange(1, count + 1))
    columns = np.column_stack([np.ones(t.size), *(f(phase[:, j]) for j in range(count) for f in (np.cos, np.sin))])
    solved = np.linalg.lstsq(columns, values, rcond=None)[0]
    labels = [f"{name}_0", *(f"{name}_{kind}{j}" for j in range(1, count + 1) for kind in "cs")]
    return dict(zip(labels, solved.tolist(), strict=True))
