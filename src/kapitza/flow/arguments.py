"""Arguments of a flow, checked before any work starts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from kapitza.base import checks
from kapitza.base.argument_checks import Anything, Reals
from kapitza.base.arrays import Array
from kapitza.base.cures import Do, Give
from kapitza.base.workers import Executor
from kapitza.errors import ArgumentError, FlowError, ModelError
from kapitza.model import Model

Parameters = Mapping[str, float] | Reals | None
"""Values by name, all values in the order of `model.names`, or None for those of the model."""

State = Mapping[str, float] | Reals
"""A state by name or in the order of `model.states`."""


def state_vector(model: Model, x: Anything) -> Array:
    """Return a state as (n,) floats.

    x: a mapping by name, or a sequence in the order of `model.states`.
    """
    if isinstance(x, Mapping):
        x = checks.table("A state", x)
        unknown = [name for name in x if name not in model.states]
        missing = [name for name in model.states if name not in x]
        if unknown or missing:
            raise ArgumentError(
                f'Model "{model.name}" has the states {_listed(model.states)}; '
                f"unknown: {_listed(unknown)}, missing: {_listed(missing)}."
            )
        x = [x[name] for name in model.states]
    state = numbers("A state", x)
    if state.shape != (len(model.states),):
        raise ArgumentError(
            f'A state of "{model.name}" has {len(model.states)} entries ({_listed(model.states)}), '
            f"not shape {state.shape}."
        )
    # A finite sum proves every entry finite; the slower test runs only where the sum is not finite.
    if not math.isfinite(float(state.sum())) and not np.isfinite(state).all():
        raise ArgumentError(f"{_first_bad(model.states, state)} in the state; give finite numbers.")
    return state


def state_rows(model: Model, states: Reals) -> Array:
    """Return states as (B, n) floats."""
    rows = numbers("States", states)
    if rows.ndim != 2 or rows.shape[1] != len(model.states):
        raise ArgumentError(
            f'States of "{model.name}" are rows of {len(model.states)} ({_listed(model.states)}), '
            f"not shape {rows.shape}."
        )
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if bad.size:
        raise ArgumentError(
            f"{_first_bad(model.states, rows[bad[0]])} in row {bad[0]} ({bad.size} such rows); give finite numbers."
        )
    return rows


def parameter_vector(model: Model, parameters: Parameters) -> Array:
    """Return the parameters (npar,) in model order.

    The order is that of `model.names`. parameters: None for the values of the model, a mapping of changes, or a full
    vector.
    """
    if parameters is None:
        return model.vector
    if isinstance(parameters, Mapping):
        parameters = checks.table("Parameters", parameters)
        for name in parameters:
            model.check(name)
        parameters = [parameters.get(name, model.values[name]) for name in model.names]
    vector = numbers("Parameters", parameters)
    if vector.shape != (len(model.names),):
        raise ArgumentError(
            f'"{model.name}" has {len(model.names)} parameters ({_listed(model.names)}), not shape {vector.shape}; '
            "pass a mapping to change only some."
        )
    # As for states: the sum is the quick test.
    if not math.isfinite(float(vector.sum())) and not np.isfinite(vector).all():
        raise ArgumentError(f"{_first_bad(model.names, vector)} among the parameters; give finite values.")
    return vector


def parameter_rows(model: Model, parameters: Parameters, count: int) -> Array:
    """Return the parameters of each member, (B, npar).

    parameters: one set for all, or one row per member.
    """
    if parameters is not None and not isinstance(parameters, Mapping):
        rows = numbers("Parameters", parameters)
        if rows.ndim == 2:
            if rows.shape != (count, len(model.names)):
                raise ArgumentError(
                    f'Parameters for {count} members of "{model.name}" have shape ({count}, {len(model.names)}), '
                    f"not {rows.shape}."
                )
            bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
            if bad.size:
                raise ArgumentError(
                    f"{_first_bad(model.names, rows[bad[0]])} among the parameters of member {bad[0]}; "
                    "give finite values."
                )
            return rows
    return np.tile(parameter_vector(model, parameters), (count, 1))


def instant(name: str, value: float) -> float:
    """Return a finite time."""
    number = checks.number(name, value, finite=False)
    if not math.isfinite(number):
        raise ArgumentError(f"{name} = {value}; give a finite time.")
    return number


def instants(name: str, values: Reals, count: int) -> Array:
    """Return finite times (count,).

    values: one time for all members, or one per member.
    """
    given = numbers(name, values)
    if given.shape not in ((), (1,), (count,)):
        raise ArgumentError(f"{name} has shape {given.shape}; give one time, or one for each of the {count} members.")
    if not np.isfinite(given).all():
        raise ArgumentError(f"{name} is not finite at member {int(np.argmin(np.isfinite(given)))}; give finite times.")
    return np.broadcast_to(given, (count,))


def numbers(what: str, values: Reals) -> Array:
    """Return a copy as an array of real numbers.

    The shape is that of `values`.
    """
    return checks.array(what, values)


def increasing_times(times: Reals) -> Array:
    """Return times (N,), finite and strictly increasing."""
    grid = numbers("times", times)
    if grid.ndim != 1 or grid.size == 0:
        raise ArgumentError(f"times has shape {grid.shape}; give one or more times in a row.")
    if not np.isfinite(grid).all():
        raise ArgumentError(f"Time number {int(np.flatnonzero(~np.isfinite(grid))[0])} is not finite; remove it.")
    steps = np.diff(grid)
    if (steps <= 0).any():
        at = int(np.flatnonzero(steps <= 0)[0])
        kind = "repeats" if steps[at] == 0 else "runs backwards"
        raise ArgumentError(
            f"times {kind} after number {at} ({grid[at]:.9g}, then {grid[at + 1]:.9g}): "
            "sort them and remove duplicates."
        )
    return grid


def whole(name: str, value: int, least: int) -> int:
    """Return a whole number that is large enough."""
    return checks.whole(name, value, least=least)


def failed_members(states: Array) -> FlowError:
    """Return the error for failed members of a batch.

    A member fails where its trajectory could not be computed; its state is then not finite.
    """
    failed = np.flatnonzero(~np.isfinite(states).all(axis=1))
    shown = ", ".join(str(i) for i in failed[:8]) + (", ..." if failed.size > 8 else "")
    return FlowError(
        f"{failed.size} of {len(states)} trajectories diverged or needed too many steps (members {shown}); check "
        f"their starts and parameters, or pass {Give(throw=False)} to get NaN for them."
    )


def refuse_both(workers: int | Executor | None, device: str) -> None:
    """Refuse workers together with a device.

    One process works with a card.
    """
    if workers is not None:
        raise ArgumentError(f"Give workers or {Give(device=device)}, not both: one process works with a card.")


def unforced(model: Model) -> ModelError:
    """Return the error of strobing an unforced model.

    Such a model has no excitation period.
    """
    return ModelError(
        f'Model "{model.name}" has no excitation period to strobe by; use '
        f"{Do('flow.section', 'a section (in Python)')} with a surface, or {Do('flow.trajectory', '--duration')} "
        "with times."
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _first_bad(names: Sequence[str], values: Array) -> str:
    at = int(np.flatnonzero(~np.isfinite(values))[0])
    return f"{names[at]} is {values[at]}"
