"""simulate: records of models, as a rig writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from kapitza.base import checks
from kapitza.base.angles import wrap_states
from kapitza.base.argument_checks import Reals
from kapitza.base.arrays import Array
from kapitza.base.cures import Code, Give
from kapitza.base.monitor import Monitor, watch
from kapitza.flow.arguments import ArgumentError, increasing_times, state_vector, unforced, whole
from kapitza.flow.core import Filled
from kapitza.flow.delayed import DelayFlow, Start
from kapitza.flow.flow import Flow
from kapitza.flow.maps import Map
from kapitza.flow.projection import projected_samples
from kapitza.flow.strobe import instants, strobe
from kapitza.flow.unit import Unit
from kapitza.model import Model

if TYPE_CHECKING:
    from kapitza.data import Record


Noise = float | Mapping[str, float]


def simulate(
    model: Model | Unit,
    x0: Start | None = None,
    t: Reals | None = None,
    periods: int | None = None,
    samples_per_period: int = 1,
    noise: float | Mapping[str, float] = 0.0,
    seed: int | None = None,
    monitor: Monitor | None = None,
) -> Record:
    """Simulate a record, one channel per state.

    It is strobed (`periods`) or sampled at given times (`t`); angles are wrapped to [-π, π).

    Models with invariants are projected onto them at every sample.

    Parameters
    ----------
    model : Model or Unit
        A flow or a map; or a black box of `open_unit`: then x0 has parameters and start values by name, and the record
        its outputs at evenly spaced times.
    x0 : optional
        Start, by name or as an array (n,), at t[0] or at the start of the excitation; the model's own by default. A
        model with delays takes it as its whole past (constant), or takes the past as expressions in t by name, or goes
        on from a result of `Flow(model).dense(...)`.
    t : array (N,), optional
        Times [s] of the samples, increasing.
    periods : int, optional
        Instead of times, excitation periods to run; for maps, steps.
    samples_per_period : int
        With `periods`.
    noise : float or mapping
        Standard deviation of Gaussian noise, one number or one per channel.
    seed : int, optional
        Makes the noise repeatable.
    monitor : Monitor, optional
        Shown the progress; cancelled, or after Ctrl-C, the samples that are finished come back, and `record.status` is
        Status.INTERRUPTED.

    Returns
    -------
    Record
        One channel per state, in the order of `model.states`.

    Examples
    --------
    >>> import kapitza as kz
    >>> record = kz.simulate(kz.library.duffing(), periods=10, samples_per_period=50, noise=0.01, seed=1)
    >>> record.size, record.channels
    (501, ('x', "x'"))
    """
    seed = checks.seed(seed)
    if (t is None) == (periods is None):
        raise ArgumentError(
            f"Say either {Give(t=Code('times'))} or {Give(periods=Code('number'))} (how many excitation periods), "
            "not both or neither."
        )
    if isinstance(model, Unit):
        return _unit_record(model, x0, t, noise, seed)
    start = start_of(model) if x0 is None else x0
    if model.is_map and periods is None:
        raise ArgumentError(f'Model "{model.name}" is a map; say {Give(periods=Code("number"))} of steps instead of t.')
    times, period, run = _work(model, start, t, periods, samples_per_period)
    filled = np.empty((0, len(model.states)))
    with watch(monitor, f"simulating {model.name}", len(times)) as task:

        def after(states: Array, done: int) -> None:
            nonlocal filled
            filled = states[:done]
            task.reach(done)

        filled = run(after)
    if task.interrupted and len(filled) < 2:
        raise KeyboardInterrupt
    states = wrap_states(filled, model.angles)
    record = _record(model, times[: len(states)], states, period, noise, seed)
    return record.with_attributes(status=task.status.name) if task.interrupted else record


def _unit_record(unit: Unit, x0: Start | None, t: Reals | None, noise: Noise, seed: int | None) -> Record:
    from kapitza.data import Record, measure

    if t is None:
        raise ArgumentError(f'"{unit.name}" is a unit; say {Give(t=Code("times"))}.')
    times = increasing_times(t)
    values = {} if x0 is None else checks.table("x0", x0)
    found = unit.run(times, {name: checks.number(f'"{name}"', value) for name, value in values.items()})
    units = {name: unit.units.get(name, "") for name in found}
    record = Record.from_arrays(times, found, units=units, name=unit.name, source="unit")
    if _is_quiet(noise):
        return record
    return measure(record, noise=noise, seed=seed)


def _work(
    model: Model, start: Start, t: Reals | None, periods: int | None, samples_per_period: int
) -> tuple[Array, float | None, Callable[[Filled], Array]]:
    """Return times, excitation period and run of a simulation.

    The run gives the states at the times of the samples.
    """
    if model.is_map:
        assert periods is not None
        steps = whole("periods", periods, 1)
        return np.arange(steps + 1, dtype=float), None, lambda after: Map(model).iterate(start, steps, after=after)
    flow = Flow(model)
    period = flow.period()
    if model.delays:
        return _with_delays(model, flow, start, t, periods, samples_per_period)
    core = flow.core
    if periods is not None:
        count, each = whole("periods", periods, 1), whole("samples_per_period", samples_per_period, 1)
        if period is None:
            raise unforced(model)
        times = instants(0.0, period, each, count)
        return times, period, lambda after: strobe(core, start, count, each, model.vector, 0.0, after).states
    assert t is not None
    times = increasing_times(t)
    state = state_vector(model, start)
    if model.invariants:
        return times, period, lambda after: projected_samples(core, state, times, model.vector, after)[0]
    return times, period, lambda after: core.sample(state, times, model.vector, False, after)[0]


def _with_delays(
    model: Model, flow: Flow, past: Start, t: Reals | None, periods: int | None, samples_per_period: int
) -> tuple[Array, float | None, Callable[[Filled], Array]]:
    period = flow.period()
    if periods is None:
        assert t is not None
        times = increasing_times(t)
    elif period is None:
        raise unforced(model)
    else:
        each = whole("samples_per_period", samples_per_period, 1)
        times = instants(0.0, period, each, whole("periods", periods, 1))
    return times, period, lambda after: DelayFlow(model, flow.tolerance).sample(past, times, model.vector, after)


def start_of(model: Model) -> Array:
    """Return the initial state that the model recommends."""
    missing = [name for name in model.states if name not in model.start]
    if missing:
        raise ArgumentError(
            f'Model "{model.name}" recommends no start for {", ".join(missing)}; '
            f"pass x0 with {len(model.states)} values."
        )
    return np.array([float(model.start[name]) for name in model.states])


def _is_quiet(noise: Noise) -> bool:
    return not isinstance(noise, Mapping) and np.ndim(noise) == 0 and not noise


def _record(model: Model, times: Array, states: Array, period: float | None, noise: Noise, seed: int | None) -> Record:
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
    if _is_quiet(noise):
        return record
    return measure(record, noise=noise, seed=seed)
