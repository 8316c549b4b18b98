"""simulate: a record of what a model does, as a rig would have written it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kapitza.circle import wrap_states
from kapitza.flow.arguments import ArgumentError, increasing_times, state_vector, whole
from kapitza.flow.flow import Flow
from kapitza.flow.projection import projected_samples
from kapitza.model.model import Model

if TYPE_CHECKING:
    from kapitza.data import Record

Array = NDArray[np.float64]


def simulate(
    model: Model,
    x0: Any = None,
    t: Any = None,
    periods: int | None = None,
    samples_per_period: int = 1,
    noise: Any = 0.0,
    seed: int | None = None,
) -> Record:
    """A record with one channel per state: strobed (`periods`) or at given times (`t`); angles wrapped to [-π, π).

    Models with invariants are projected onto them at every sample.
    x0: start, at t[0] or at the start of the excitation; the model's own by default. For maps `periods` counts steps.
    noise: standard deviation of Gaussian noise, one number or one per channel as a mapping; `seed` makes it repeatable.
    """
    if (t is None) == (periods is None):
        raise ArgumentError("Say either t=times or periods=number (how many excitation periods), not both or neither.")
    start = start_of(model) if x0 is None else x0
    if model.is_map:
        return _simulate_map(model, start, t, periods, noise, seed)
    flow = Flow(model)
    if periods is not None:
        strobe = flow.strobe(start, whole("periods", periods, 1), samples_per_period)
        return _record(model, strobe.times, strobe.states, flow.period(), noise, seed)
    times = increasing_times(t)
    if model.invariants:
        states, _ = projected_samples(flow.core, state_vector(model, start), times, model.vector)
    else:
        states = flow.trajectory(start, times)
    states = wrap_states(states, model.angles)
    return _record(model, times, states, flow.period(), noise, seed)


def start_of(model: Model) -> Array:
    """The initial state that the model recommends."""
    missing = [name for name in model.states if name not in model.start]
    if missing:
        raise ArgumentError(
            f'Model "{model.name}" recommends no start for {", ".join(missing)}; '
            f"pass x0 with {len(model.states)} values."
        )
    return np.array([float(model.start[name]) for name in model.states])


def _simulate_map(model: Model, start: Any, t: Any, periods: int | None, noise: Any, seed: int | None) -> Record:
    from kapitza.flow.maps import Map

    if periods is None:
        raise ArgumentError(f'Model "{model.name}" is a map; say periods=number of steps instead of t.')
    states = Map(model).iterate(start, whole("periods", periods, 1))
    return _record(model, np.arange(len(states), dtype=float), states, None, noise, seed)


def _record(model: Model, times: Array, states: Array, period: float | None, noise: Any, seed: int | None) -> Record:
    # Loaded here: a flow alone should not pay the memory of labelled arrays.
    from kapitza.data import Record, measure

    units = model.units
    phase = None if period is None else float(times[0] % period)
    record = Record.from_arrays(
        times,
        {name: states[:, i] for i, name in enumerate(model.states)},
        units=units,
        angles=[name for name, angle in zip(model.states, model.angles, strict=True) if angle],
        period=period,
        phase=phase,
        name=model.name,
        source="simulated",
    )
    if np.ndim(noise) == 0 and not isinstance(noise, dict) and not noise:
        return record
    return measure(record, noise=noise, seed=seed)
