"""Targets of an orbit fit from data.

The data are section points, sampled profiles and records of a periodic motion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kapitza.base.arrays import Array, Indices
from kapitza.base.cures import By, Code, Give, Set
from kapitza.data import Record
from kapitza.errors import DataError
from kapitza.estimate.orbit_fit.problem import Channels, Target
from kapitza.estimate.request import Request
from kapitza.model import Model
from kapitza.orbits import OrbitSet, PeriodicOrbit
from kapitza.orbits.of_models import chained_rates, folded_states, hidden_states
from kapitza.solve import symmetric_function

SMALLEST_CORRELATION = 1e-6
"""Smallest eigenvalue of a correlation matrix: no combination of the points is known that much better than a point."""


@dataclass(frozen=True)
class Item:
    """One orbit or record with its own parameter values.

    angles: which of its channels are angles.
    """

    source: PeriodicOrbit | Record
    own: Mapping[str, float]
    angles: tuple[bool, ...]
    noise: Mapping[str, float] = field(default_factory=dict)

    @property
    def channels(self) -> tuple[str, ...]:
        if isinstance(self.source, Record):
            return self.source.channels
        return self.source.crossings.channels if self.source.crossings else self.source.states


def items_of(request: Request) -> list[Item]:
    """Return every orbit and record separately."""
    found = []
    for part in request.parts:
        source, model = part.source, request.model
        if isinstance(source, Record):
            found.append(Item(source, part.values, tuple(source.angles), part.noise))
        elif isinstance(source, PeriodicOrbit):
            found.append(Item(source, part.values, _circles(source, model)))
        elif isinstance(source, OrbitSet):
            found += [Item(o, part.values, _circles(o, model, source.angles)) for o in source]
    return found


def _circles(orbit: PeriodicOrbit, model: Model, declared: tuple[bool, ...] = ()) -> tuple[bool, ...]:
    """Return which channels of an orbit are angles.

    The set of the orbit states them, else the model.
    """
    known = dict(zip(model.states, model.angles, strict=True))
    names = orbit.crossings.channels if orbit.crossings else orbit.states
    usable = len(declared) == len(names) and names == orbit.states
    return declared if usable else tuple(known.get(s, False) for s in names)


def common_channels(items: Sequence[Item]) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """Return the channels of all items.

    The second value is whether each lives on a circle.
    """
    found: dict[str, bool] = {}
    for item in items:
        found |= {name: angle for name, angle in zip(item.channels, item.angles, strict=True) if name not in found}
    return tuple(found), tuple(found.values())


@dataclass(frozen=True)
class Reader:
    """Conversion of items into targets.

    It holds the model, the channels and the settings of the fit.
    """

    model: Model
    channels: Channels
    free: tuple[str, ...]
    repeats: int | None = None
    nodes: int = 4
    profiles: bool | None = None
    noise: Mapping[str, float] = field(default_factory=dict)
    starts: Sequence[Any] = ()

    def targets(self, items: Sequence[Item]) -> tuple[Target, ...]:
        return tuple(self.target(item, i) for i, item in enumerate(items))

    def target(self, item: Item, index: int) -> Target:
        setting = self.model.with_values(**item.own) if item.own else self.model
        source = item.source
        if isinstance(source, Record):
            return self._from_record(source, f"{index}: record", setting, item.noise)
        label = f"{index}: period {len(source.points)}" + (f" {source.code}" if source.code else "")
        if self.repeats is not None:
            raise DataError(f"period = {self.repeats} is for records; orbit {label} knows its own period.")
        use_profile = self._by_profile(source)
        check_orbit(source, label, use_profile)
        if use_profile:
            return self._from_profile(source, label, setting)
        if source.crossings is not None and setting.period is None:
            # The mean of the passes of a limit cycle holds more information than its crossings.
            repeated = self.profiles is None and source.multipliers is None
            read = self._from_path if self.profiles or repeated else self._from_crossings
            return read(source, label, setting)
        return self._from_points(source, label, setting)

    def _by_profile(self, orbit: PeriodicOrbit) -> bool:
        if orbit.profile is None:
            return False
        return self.profiles if self.profiles is not None else orbit.covariance is None

    def _known(self, channel: Indices, covariance: Array | None) -> Array | None:
        """Return the covariance of samples of these channels.

        channel: (m,). It is the given covariance, or follows from the noise of the channels.
        """
        names = [self.channels.names[c] for c in channel]
        if covariance is None and all(name in self.noise for name in names):
            return np.diag([self.noise[name] ** 2 for name in names])
        return covariance

    def _from_points(self, orbit: PeriodicOrbit, label: str, setting: Model) -> Target:
        period, count = _period(setting, orbit.repeats, orbit.period, label)
        points = np.asarray(orbit.points, float)[: 1 if count is None else None]
        if count is not None and count != len(points):
            raise DataError(
                f"Orbit {label} has {len(points)} points over {count} excitation periods: one each is expected."
            )
        seen = [i for i, name in enumerate(orbit.states) if name in self.channels.names]
        channel = np.tile([self.channels.names.index(orbit.states[i]) for i in seen], len(points)).astype(np.intp)
        phase = orbit.section_phase or 0.0
        times = phase + np.arange(len(points)) * period / len(points)
        rows = (np.arange(len(points))[:, None] * len(orbit.states) + seen).ravel()
        known = None if orbit.covariance is None else np.asarray(orbit.covariance, float)[np.ix_(rows, rows)]
        known = self._known(channel, known)
        deviation = None
        if setting.period is None:
            size = max(float(np.abs(points).max()), 1e-300)
            # Without a stated error the period is as uncertain as the points, relative to their size.
            error = 1e-3 if known is None else float(np.sqrt(np.diag(known).max())) / size
            deviation = orbit.period_deviation or error * period
        # One point per excitation period does not determine the turns; dense records and models do.
        shown = bool(orbit.winding) and orbit.states == setting.states and not any("winding" in n for n in orbit.notes)
        multipliers = None if orbit.multipliers is None or count is None else np.abs(orbit.multipliers)
        return Target(
            label=label, nodes=self._start_nodes(orbit, points, setting, times), node_times=times,
            period=phase + period, repeats=count, vector=setting.vector, times=np.repeat(times, len(seen)),
            channel=channel, node=np.repeat(np.arange(len(points)), len(seen)), values=points[:, seen].ravel(),
            covariance=known, multipliers=multipliers, multiplier_deviation=orbit.multiplier_deviation,
            period_deviation=deviation, winding=tuple(orbit.winding) if shown else (), source=orbit, rows=rows,
        )  # fmt: skip

    def _start_nodes(self, orbit: PeriodicOrbit, points: Array, setting: Model, times: Array) -> Array:
        if set(setting.states) <= set(orbit.states):
            return points[:, [orbit.states.index(name) for name in setting.states]]
        start, seen = np.zeros((len(points), len(setting.states))), []
        for i, name in enumerate(setting.states):
            if name in orbit.states:
                start[:, i] = points[:, orbit.states.index(name)]
                seen.append(i)
        hidden = [i for i in range(len(setting.states)) if i not in seen]
        if setting.period is not None and hidden == [1] and setting.states[1] == setting.states[0] + "'":
            # Positions one period apart determine the hidden rates of a single oscillator.
            rates = chained_rates(setting, start[:, 0], times, setting.angles[0], float(np.abs(points).max()))
            if rates is not None:
                return np.column_stack([start[:, 0], rates])
        repeats = None if setting.period is None else len(points)
        found = hidden_states(setting, repeats, orbit.period, times, start, seen, self.free, self.starts)
        start[:, hidden] = found[:, hidden]
        return start

    def _from_crossings(self, orbit: PeriodicOrbit, label: str, setting: Model) -> Target:
        """Return the target of a free motion by crossings.

        The crossings are those of a section: the record's channels there, the times between, the period.
        """
        assert orbit.crossings is not None
        names, values = list(orbit.crossings.channels), orbit.crossings.values
        times, covariance = orbit.crossings.times, orbit.crossings.covariance
        seen = [i for i, name in enumerate(names) if name in self.channels.names]
        if not seen:
            raise DataError(f"Orbit {label} shows {', '.join(names)} at its crossings, none of which the model has.")
        rows = np.append((np.arange(len(values))[:, None] * len(names) + seen).ravel(), len(covariance) - 1)
        channel = np.tile([self.channels.names.index(names[i]) for i in seen], len(values)).astype(np.intp)
        nodes, node_times, place = self._path_nodes(orbit, names, values, times, setting)
        return Target(
            label=label, nodes=nodes, node_times=node_times, period=orbit.period, repeats=None, vector=setting.vector,
            times=np.repeat(times, len(seen)), channel=channel, node=np.repeat(place, len(seen)),
            values=values[:, seen].ravel(), covariance=covariance[np.ix_(rows, rows)],
            period_deviation=float(np.sqrt(covariance[-1, -1])), source=orbit,
        )  # fmt: skip

    def _path_nodes(
        self, orbit: PeriodicOrbit, names: list[str], values: Array, times: Array, setting: Model
    ) -> tuple[Array, Array, Indices]:
        """Return nodes along the path of a free motion.

        Nodes (J, n) and times (J,) at the crossings and between them, and which nodes are the crossings.
        """
        assert orbit.crossings is not None
        path, instants = orbit.crossings.path_values, orbit.crossings.path_times
        parts = len(instants) // len(times)
        # As many nodes between crossings as for sampled data.
        chosen = np.flatnonzero(np.arange(len(instants)) % max(1, parts // self.nodes) == 0)
        if not set(setting.states) <= set(names):
            bare = orbit.with_(states=tuple(names), points=values, repeats=None)
            return self._start_nodes(bare, values, setting, times), times, np.arange(len(times))
        nodes = path[chosen][:, [names.index(state) for state in setting.states]]
        return nodes, instants[chosen], np.flatnonzero(chosen % parts == 0)

    def _from_path(self, orbit: PeriodicOrbit, label: str, setting: Model) -> Target:
        assert orbit.crossings is not None
        names, path = list(orbit.crossings.channels), orbit.crossings.path_values
        channels = {name: path[:, i] for i, name in enumerate(names) if name in self.channels.names}
        times = orbit.crossings.path_times
        target = self._sampled(label, setting, times, channels, self.noise, orbit.period, None)
        deviation = orbit.period_deviation or 1e-4 * orbit.period
        return replace(target, period_deviation=deviation, source=orbit, clustered=True)

    def _from_profile(self, orbit: PeriodicOrbit, label: str, setting: Model) -> Target:
        assert orbit.profile is not None
        period, count = _period(setting, orbit.repeats, orbit.period, label)
        channels = {n: orbit.profile.states[:, i] for i, n in enumerate(orbit.states) if n in self.channels.names}
        times = (orbit.profile.times + (orbit.section_phase or 0.0)) % period
        target = self._sampled(label, setting, times, channels, self.noise, period, count)
        # The samples of a free motion determine its period; a measured period counts where its error is known.
        deviation = orbit.period_deviation if count is None else None
        return replace(
            target,
            period_deviation=deviation or None,
            multipliers=None if orbit.multipliers is None or count is None else np.abs(orbit.multipliers),
            multiplier_deviation=orbit.multiplier_deviation,
            winding=tuple(orbit.winding) if orbit.states == setting.states else (),
            source=orbit,
        )

    def _from_record(self, record: Record, label: str, setting: Model, noise: Mapping[str, float]) -> Target:
        """Return the target of a record of periods.

        One or more periods of a periodic motion; time is folded into one period.
        """
        if setting.period is None:
            raise DataError(
                "A record of a free motion has no period to fold it by: find its orbits first, or use "
                f"{By('shooting')}."
            )
        count = self.repeats or 1
        period = count * setting.period
        elapsed = record.time - record.excitation_start
        channels = {name: record[name] for name in record.channels if name in self.channels.names}
        noise = {name: value for name, value in noise.items() if value > 0}
        return replace(self._sampled(label, setting, elapsed % period, channels, noise, period, count), source=record)

    def _sampled(
        self, label: str, setting: Model, times: Array, channels: Mapping[str, Array], noise: Mapping[str, float],
        period: float, count: int | None,
    ) -> Target:  # fmt: skip
        total = self.nodes * (count or 1)
        grid = np.arange(total) * period / total
        # A sample at the end of the period, up to rounding, is one at its start.
        times = np.where(times > period * (1 - 1e-12), 0.0, times)
        segment = np.minimum((times / period * total + 1e-9).astype(np.intp), total - 1)
        names = list(channels)
        index = np.array([self.channels.names.index(name) for name in names], np.intp)
        known = None
        if all(name in noise for name in names):
            known = np.tile([noise[name] ** 2 for name in names], times.size)
        if set(setting.states) <= set(names):
            rows = np.abs((times[None, :] - grid[:, None] + period / 2) % period - period / 2).argmin(axis=1)
            start = np.column_stack([channels[name][rows] for name in setting.states])
        else:
            circles = dict(zip(self.channels.names, self.channels.angles.tolist(), strict=True))
            start = folded_states(setting, channels, circles, times, grid, period, count or 1, self.free, self.starts)
        return Target(
            label=label, nodes=start, node_times=grid, period=period, repeats=count, vector=setting.vector,
            times=np.repeat(times, len(names)), channel=np.tile(index, times.size),
            node=np.repeat(segment, len(names)), values=np.column_stack([channels[n] for n in names]).ravel(),
            covariance=known,
        )  # fmt: skip


def _period(setting: Model, repeats: int | None, measured: float, label: str) -> tuple[float, int | None]:
    if setting.period is None:
        return measured, None
    count = repeats or max(1, round(measured / setting.period))
    if not abs(measured / (count * setting.period) - 1) <= 1e-3:
        raise DataError(
            f"Orbit {label} has the period {measured:.6g} s, {measured / setting.period:.4g} excitation periods "
            f"of the model ({setting.period:.6g} s): give this orbit its own excitation, (orbits, {{name: value}})."
        )
    return count * setting.period, count


def whitening(covariance: Array) -> Array:
    """Return W = Σ⁻½ with Wᵀ W = Σ⁻¹.

    Σ is given as (m, m) or by its diagonal (m,); symmetric in units of the deviations.
    """
    if covariance.ndim == 1:
        return 1.0 / np.sqrt(np.maximum(covariance, 1e-300))
    deviation = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    # A coordinate that is constant on the section has no scatter.
    deviation = np.maximum(deviation, 1e-6 * deviation.max())
    correlation = covariance / np.outer(deviation, deviation)
    return symmetric_function(correlation, lambda v: 1 / np.sqrt(np.maximum(v, SMALLEST_CORRELATION))) / deviation


def check_orbit(orbit: PeriodicOrbit, label: str, profile: bool) -> None:
    """Refuse orbits with missing samples or invalid covariances."""
    if not (np.isfinite(orbit.period) and orbit.period > 0):
        raise DataError(f"Orbit {label} has the period {orbit.period} s: give a positive number.")
    values, what = orbit.points, "point"
    if profile and orbit.profile is not None:
        values, what = orbit.profile.states, "sample"
        check_profile_times(orbit.profile.times, len(values), orbit.period, label)
    bad = np.argwhere(~np.isfinite(values))
    if bad.size:
        row, column = bad[0]
        raise DataError(
            f'Orbit {label} has no number at {what} {row} of "{orbit.states[column]}": leave the orbit out, or clean '
            "the record."
        )
    if orbit.covariance is not None and not profile:
        check_covariance(np.asarray(orbit.covariance, float), orbit.points.size, label)


def check_profile_times(times: Array, count: int, period: float, label: str) -> None:
    if len(times) != count:
        raise DataError(f"The profile of orbit {label} has {len(times)} times for {count} samples: give one each.")
    if not (np.diff(times) > 0).all():
        raise DataError(f"The times in the profile of orbit {label} must increase: sort them, each with its sample.")
    if times[0] < 0 or not times[-1] < period * (1 + 1e-9):
        raise DataError(
            f"The times in the profile of orbit {label} run from {times[0]:.6g} to {times[-1]:.6g} s; they count from "
            f"0 up to the period of {period:.6g} s."
        )


def check_covariance(covariance: Array, size: int, label: str) -> None:
    if covariance.shape != (size, size):
        raise DataError(
            f"The covariance of orbit {label} has the shape {covariance.shape}; its points have {size} entries, so "
            f"({size}, {size}) is expected."
        )
    diagonal = np.diag(covariance)
    cure = (
        f"give the standard errors of its points, or {Set('orbit', covariance=None)} and "
        f"{Give(noise=Code('{channel: deviation}'))}"
    )
    if not np.isfinite(covariance).all() or (diagonal < 0).any() or not (diagonal > 0).any():
        raise DataError(
            f"The covariance of orbit {label} is not one (variances from {diagonal.min():.3g} to "
            f"{diagonal.max():.3g}): {cure}."
        )
    # |Σ_ij| ≤ √(Σ_ii Σ_jj), with a margin for rounding.
    size_ = np.sqrt(np.outer(diagonal, diagonal)) + 1e-300
    if (np.abs(covariance) > 1.001 * size_).any() or not np.allclose(covariance, covariance.T, atol=1e-6 * size_.max()):
        raise DataError(f"The covariance of orbit {label} is not symmetric with correlations within ± 1: {cure}.")
