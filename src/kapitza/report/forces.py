"""Compute restoring and damping forces of a fitted model.

They are curves and surfaces with bands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kapitza.base.arrays import Array
from kapitza.data import Record
from kapitza.estimate import Estimate
from kapitza.flow import Flow
from kapitza.model import Model
from kapitza.report.motions import Motion, recorded_units
from kapitza.study import parameter_draws

POINTS = 121
"""Of a curve, over the range that was measured."""

SIDE = 41
"""Points of each side of a surface."""

DRAWS = 1024
"""Parameters that a band is made of."""

AT_ONCE = 100_000
"""Rates computed in one call, to bound the memory."""


@dataclass(frozen=True)
class ForceCurve:
    """Hold force per mass against one state.

    The force is that of one coordinate; each array is (N,), with its 95 % band.
    kind: "restoring" or "damping".
    """

    kind: str
    coordinate: str
    state: str
    at: Array
    force: Array
    low: Array
    high: Array


@dataclass(frozen=True)
class ForceSurface:
    """Hold force per mass over position and rate.

    The force is that of one coordinate: force[i, j] at rates[i], positions[j].
    band: half the width of the 95 % band at the same points, all 0 where the parameters have no errors.
    """

    coordinate: str
    positions: Array
    rates: Array
    force: Array
    band: Array


@dataclass(frozen=True)
class Forces:
    """Hold force curves and surfaces of a fitted model."""

    curves: tuple[ForceCurve, ...] = ()
    surfaces: tuple[ForceSurface, ...] = ()

    def as_recorded(self, record: Record, units: Mapping[str, str]) -> tuple[Forces, dict[str, str]]:
        """Return the forces over positions and rates in the recording's units.

        The second value has the units of all axes: x, x' and x'', the force per mass, which stays in SI.
        """
        known = {c: one for c, one in recorded_units(record).items() if f"{c}'" not in record.channels}
        # A rate has no offset: 20 °C/s are 20 K/s.
        factor = {c: one.spread(1.0) for c, one in known.items()}
        curves = [
            replace(curve, at=known[name].change(curve.at) if curve.state == name else factor[name] * curve.at)
            if (name := curve.coordinate) in known
            else curve
            for curve in self.curves
        ]
        surfaces = [
            replace(one, positions=known[name].change(one.positions), rates=factor[name] * one.rates)
            if (name := one.coordinate) in known
            else one
            for one in self.surfaces
        ]
        own = {f"{c}''": f"{units[c]}/s²" for c in known if units.get(c)}
        own |= {name: one.unit for name, one in known.items()} | {f"{c}'": f"{one.unit}/s" for c, one in known.items()}
        return Forces(tuple(curves), tuple(surfaces)), {**units, **own}


def forces_of(estimate: Estimate, motions: Sequence[Motion], seed: int = 0) -> Forces:
    """Return forces over the range of the data.

    Force per mass is given against position (at rest), against rate (at zero), and over both.
    Of each second-order coordinate x that was measured: f(x, v) = x''(0, 0) - x''(x, v), all other states zero, at the
    start of the excitation. Bands: 95 % of parameters drawn from the errors of the fit.
    """
    model: Model = estimate.model
    if not motions or model is None or model.is_map:
        return Forces()
    curves, surfaces, motion = [], [], motions[0]
    flow = Flow(model)
    vectors = _vectors(estimate, seed)
    for coordinate in model.coordinates:
        name = coordinate.name
        if coordinate.order != 2 or name not in motion.predicted:
            continue
        position, speed = motion.predicted[name], motion.rate(name)
        if coordinate.angle and np.ptp(position) > 2 * np.pi:
            position = np.array([-np.pi, np.pi])
        reach = {name: _reach(position), f"{name}'": _reach(speed, about_zero=True)}
        for kind, (state, ends) in zip(("restoring", "damping"), reach.items(), strict=True):
            if ends[1] > ends[0]:
                at = np.linspace(*ends, POINTS)
                curves.append(ForceCurve(kind, name, state, at, *_forces(model, flow, vectors, name, {state: at})))
        if all(high > low for low, high in reach.values()):
            surfaces.append(_surface(model, flow, vectors, name, reach))
    return Forces(tuple(curves), tuple(surfaces))


def _vectors(estimate: Estimate, seed: int) -> Array:
    """Return parameters (1 + draws, npar) of the model.

    The first row holds those of the model, the others are drawn from the errors of the fit.
    """
    draws = parameter_draws(estimate, estimate.names, seed, DRAWS)
    vectors = np.tile(estimate.model.vector, (1 + len(draws), 1))
    for column, name in enumerate(estimate.model.names):
        if draws and name in draws[0]:
            vectors[1:, column] = [values[name] for values in draws]
    return vectors


def _reach(values: Array, about_zero: bool = False) -> tuple[float, float]:
    """Return smallest and largest value without outermost ones.

    The outermost thousandth is left out; symmetric about zero on request.
    """
    known = values[np.isfinite(values)]
    if not known.size:
        return 0.0, 0.0
    low, high = (float(v) for v in np.quantile(np.abs(known) if about_zero else known, [0.001, 0.999]))
    return (-high, high) if about_zero else (low, high)


def _surface(
    model: Model, flow: Flow, vectors: Array, name: str, reach: Mapping[str, tuple[float, float]]
) -> ForceSurface:
    positions, rates = (np.linspace(*ends, SIDE) for ends in reach.values())
    across, along = np.meshgrid(positions, rates)
    found = _forces(model, flow, vectors, name, {name: across.ravel(), f"{name}'": along.ravel()})
    force, low, high = (values.reshape(SIDE, SIDE) for values in found)
    return ForceSurface(name, positions, rates, force, 0.5 * (high - low))


def _forces(
    model: Model, flow: Flow, vectors: Array, coordinate: str, at: Mapping[str, Array]
) -> tuple[Array, Array, Array]:
    """Return force per mass with its 95 % band.

    Each is (N,), where the states named take the values `at` (N,).
    """
    count = next(iter(at.values())).size
    states = np.zeros((count + 1, len(model.states)))
    for state, values in at.items():
        states[:-1, model.states.index(state)] = values
    row = model.states.index(f"{coordinate}'")
    parts = []
    for some in np.array_split(vectors, max(1, vectors.shape[0] * len(states) // AT_ONCE)):
        every = np.tile(states, (len(some), 1))
        rates = flow.rates(every, 0.0, np.repeat(some, len(states), axis=0))[:, row].reshape(len(some), -1)
        parts.append(rates[:, -1:] - rates[:, :-1])
    forces = np.concatenate(parts)
    # A drawn mass may be singular.
    drawn = forces[1:][np.isfinite(forces[1:]).all(axis=1)]
    # A 95 % band of so few draws would be their extremes.
    if len(drawn) <= 10:
        return forces[0], forces[0], forces[0]
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0, method="median_unbiased")
    return forces[0], low, high
