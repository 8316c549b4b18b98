"""From data to targets: section points, sampled profiles and records of a periodic motion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.data import Record
from kapitza.errors import ConvergenceError, DataError
from kapitza.estimate.orbit_fit.readings import Sensors, Target
from kapitza.model import Model
from kapitza.orbit import OrbitSet, PeriodicOrbit
from kapitza.periodic import Loop, solve_orbit

Array = NDArray[np.float64]

SMALLEST_CORRELATION = 1e-6
"""Eigenvalues of a correlation matrix below this are raised to it: no orbit is known that much better in a mixture."""


@dataclass(frozen=True)
class Item:
    """One orbit or record with the parameter values that are its own, and the time of its section in the period."""

    source: PeriodicOrbit | Record
    own: Mapping[str, float]
    phase: float
    angles: tuple[bool, ...]

    @property
    def channels(self) -> tuple[str, ...]:
        return self.source.channels if isinstance(self.source, Record) else self.source.states


def items_of(data: Any, model: Model, own: Mapping[str, float] | None = None) -> list[Item]:
    """Flatten orbits, sets of them, records and (data, {parameter: value}) pairs into single items."""
    own = own or {}
    if isinstance(data, tuple) and len(data) == 2 and isinstance(data[1], Mapping):
        for name in data[1]:
            model.check(name)
        return items_of(data[0], model, data[1])
    if isinstance(data, PeriodicOrbit):
        known = dict(zip(model.states, model.angles, strict=True))
        return [Item(data, own, 0.0, tuple(known.get(s, False) for s in data.states))]
    if isinstance(data, Record):
        return [Item(data, own, 0.0, tuple(data.angles))]
    if isinstance(data, OrbitSet):
        phase = _section_phase(data.source)
        known = dict(zip(model.states, model.angles, strict=True))
        circles = [data.angles or tuple(known.get(s, False) for s in orbit.states) for orbit in data]
        return [Item(orbit, own, phase, tuple(c)) for orbit, c in zip(data, circles, strict=True)]
    if isinstance(data, Iterable):
        return [item for part in data for item in items_of(part, model, own)]
    raise DataError(
        f"OrbitFit works on orbits, sets of orbits and records of periodic motion, not {type(data).__name__}."
    )


def _section_phase(source: Any) -> float:
    """Time within the excitation period at which a strobed record was taken [s]; dense ones are cut at its start."""
    if not isinstance(source, Record) or source.period is None or source.size < 2:
        return 0.0
    dense = source.period / float(np.median(np.diff(source.time))) > 1.5
    return 0.0 if dense else source.phase


def common_channels(items: Sequence[Item]) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """Every channel of any item, with whether it lives on a circle."""
    found: dict[str, bool] = {}
    for item in items:
        found |= {name: angle for name, angle in zip(item.channels, item.angles, strict=True) if name not in found}
    return tuple(found), tuple(found.values())


def make_targets(
    items: Sequence[Item], model: Model, sensors: Sensors, *, repeats: int | None, nodes: int, profiles: bool | None,
    noise: Mapping[str, float],
) -> tuple[Target, ...]:  # fmt: skip
    return tuple(_target(item, i, model, sensors, repeats, nodes, profiles, noise) for i, item in enumerate(items))


def _target(
    item: Item, index: int, model: Model, sensors: Sensors, repeats: int | None, nodes: int, profiles: bool | None,
    noise: Mapping[str, float],
) -> Target:  # fmt: skip
    setting = model.with_values(**item.own) if item.own else model
    source = item.source
    if isinstance(source, Record):
        return _from_record(source, index, setting, sensors, repeats, nodes, noise)
    use_profile = source.profile is not None and (profiles if profiles is not None else source.covariance is None)
    label = f"{index}: period {len(source.points)}" + (f" {source.code}" if source.code else "")
    if use_profile:
        return _from_profile(source, label, setting, sensors, nodes, noise)
    return _from_points(source, label, setting, sensors, item.phase, noise)


def _period(setting: Model, repeats: int | None, measured: float, label: str) -> tuple[float, int | None]:
    if setting.period is None:
        return measured, None
    count = repeats or max(1, round(measured / setting.period))
    if abs(measured / (count * setting.period) - 1) > 1e-3:
        raise DataError(
            f"Orbit {label} has the period {measured:.6g} s, {measured / setting.period:.4g} excitation periods "
            f"of the model ({setting.period:.6g} s): give this orbit its own excitation, (orbits, {{name: value}})."
        )
    return count * setting.period, count


def _from_points(
    orbit: PeriodicOrbit, label: str, setting: Model, sensors: Sensors, phase: float, noise: Mapping[str, float]
) -> Target:
    period, count = _period(setting, orbit.repeats, orbit.period, label)
    # On a free motion the time between two crossings of the section is not known: only the first one is used.
    points = np.asarray(orbit.points, float)[: 1 if count is None else None]
    if count is not None and count != len(points):
        raise DataError(
            f"Orbit {label} has {len(points)} points over {count} excitation periods: one each is expected."
        )
    seen = [i for i, name in enumerate(orbit.states) if name in sensors.channels]
    channel = np.array([sensors.channels.index(orbit.states[i]) for i in seen], np.intp)
    times = phase + np.arange(len(points)) * period / len(points)
    rows = (np.arange(len(points))[:, None] * len(orbit.states) + seen).ravel()
    known = None if orbit.covariance is None else np.asarray(orbit.covariance)[np.ix_(rows, rows)]
    if known is None and all(sensors.channels[c] in noise for c in channel):
        known = np.diag(np.tile([noise[sensors.channels[c]] ** 2 for c in channel], len(points)))
    values = points[:, seen]
    deviation = None
    if setting.period is None:
        size = max(float(np.abs(points).max()), 1e-300)
        error = 1e-3 if known is None else float(np.sqrt(np.diag(known).max())) / size
        deviation = float(orbit.details.get("period_deviation", error * period))
    return Target(
        label=label, nodes=_start_nodes(orbit, points, setting, times), node_times=times, period=phase + period,
        repeats=count, vector=setting.vector, times=np.repeat(times, len(seen)), channel=np.tile(channel, len(points)),
        node=np.repeat(np.arange(len(points)), len(seen)), values=values.ravel(), covariance=known,
        multipliers=None if orbit.multipliers is None or count is None else np.abs(orbit.multipliers),
        multiplier_deviation=orbit.multiplier_deviation, period_deviation=deviation, source=orbit,
    )  # fmt: skip


def _start_nodes(orbit: PeriodicOrbit, points: Array, setting: Model, times: Array) -> Array:
    if set(setting.states) <= set(orbit.states):
        return points[:, [orbit.states.index(name) for name in setting.states]]
    start = _model_orbit(setting, len(points), orbit.period)(times / orbit.period)
    for i, name in enumerate(setting.states):
        if name in orbit.states:
            start[:, i] = points[:, orbit.states.index(name)]
    return start


def _model_orbit(setting: Model, repeats: int | None, period: float) -> Loop:
    """Where the data do not give every state: the model's own orbit near its start, or the one it settles on."""
    wanted = period if setting.period is None else repeats
    if setting.start:
        near = solve_orbit(setting, setting.state(), wanted, throw=False, profile=False)
        if near.status.ok:
            return near.details["loop"]
    try:
        return solve_orbit(setting, period=wanted, profile=False).details["loop"]
    except ConvergenceError as error:
        raise DataError(
            f"The data do not give every state of {setting.name}, and the model at its starting values has no orbit to "
            f"start from ({error}) Change the starting values, or measure the missing states."
        ) from None


def _from_profile(
    orbit: PeriodicOrbit, label: str, setting: Model, sensors: Sensors, nodes: int, noise: Mapping[str, float]
) -> Target:
    assert orbit.profile is not None
    period, count = _period(setting, orbit.repeats, orbit.period, label)
    channels = {name: orbit.profile.states[:, i] for i, name in enumerate(orbit.states) if name in sensors.channels}
    spread = {name: noise[name] for name in channels if name in noise}
    target = _sampled(label, setting, sensors, orbit.profile.times, channels, spread, period, count, nodes)
    return Target(
        **{
            **vars(target),
            "multipliers": None if orbit.multipliers is None else np.abs(orbit.multipliers),
            "multiplier_deviation": orbit.multiplier_deviation,
            "winding": tuple(orbit.winding),
            "source": orbit,
        }
    )


def _from_record(
    record: Record, index: int, setting: Model, sensors: Sensors, repeats: int | None, nodes: int,
    noise: Mapping[str, float],
) -> Target:  # fmt: skip
    """A record of one or more periods of a periodic motion; time is folded into one period."""
    label = f"{index}: record"
    if setting.period is None:
        raise DataError(
            "A record of a free motion has no period to fold it by: find its orbits first, or use ShootingFit."
        )
    count = repeats or 1
    period = count * setting.period
    elapsed = record.time - record.time[0] + record.phase
    channels = {name: record[name] for name in record.channels if name in sensors.channels}
    own = {
        name: float(record.dataset[name].attrs["noise"]) for name in channels if "noise" in record.dataset[name].attrs
    }
    target = _sampled(label, setting, sensors, elapsed % period, channels, {**own, **noise}, period, count, nodes)
    return Target(**{**vars(target), "source": record})


def _sampled(
    label: str, setting: Model, sensors: Sensors, times: Array, channels: Mapping[str, Array],
    noise: Mapping[str, float], period: float, count: int | None, nodes: int,
) -> Target:  # fmt: skip
    total = nodes * (count or 1)
    grid = np.arange(total) * period / total
    # A reading on the end of the period, to rounding, is one at its start.
    times = np.where(times > period * (1 - 1e-12), 0.0, times)
    segment = np.minimum((times / period * total + 1e-9).astype(np.intp), total - 1)
    names = list(channels)
    values = np.column_stack([channels[name] for name in names])
    index = np.array([sensors.channels.index(name) for name in names], np.intp)
    known = None
    if all(name in noise for name in names):
        known = np.tile([noise[name] ** 2 for name in names], times.size)
    if set(setting.states) <= set(names):
        rows = np.abs((times[None, :] - grid[:, None] + period / 2) % period - period / 2).argmin(axis=1)
        start = np.column_stack([channels[name][rows] for name in setting.states])
    else:
        start = _model_orbit(setting, count, period)(grid / period)
    return Target(
        label=label, nodes=start, node_times=grid, period=period, repeats=count, vector=setting.vector,
        times=np.repeat(times, len(names)), channel=np.tile(index, times.size), node=np.repeat(segment, len(names)),
        values=values.ravel(), covariance=known,
        period_deviation=1e-6 * period if setting.period is None else None,
    )  # fmt: skip


def whitening(covariance: Array) -> Array:
    """W with Wᵀ W = Σ⁻¹, from Σ (m, m) or its diagonal (m,)."""
    if covariance.ndim == 1:
        return 1.0 / np.sqrt(np.maximum(covariance, 1e-300))
    deviation = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    # A coordinate that the section holds fixed has no scatter of its own.
    deviation = np.maximum(deviation, 1e-6 * deviation.max())
    values, vectors = np.linalg.eigh(covariance / np.outer(deviation, deviation))
    return (vectors / np.sqrt(np.maximum(values, SMALLEST_CORRELATION))).T / deviation
