"""Restoring and damping forces of a fitted model as curves with bands."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kapitza.errors import KapitzaError
from kapitza.flow import Flow
from kapitza.model import Model
from kapitza.study.draws import parameter_draws
from kapitza.study.outcome import ForceCurve, Motion, Outcome

Array = NDArray[np.float64]

POINTS = 121


def force_curves(model: Model, outcome: Outcome, motion: Motion, seed: int) -> tuple[ForceCurve, ...]:
    """Force per mass against position (at rest) and against velocity (at zero), over the range of the data.

    Of each second-order coordinate x that was measured: f(x) = x''(0, 0) - x''(x, 0) and d(v) = x''(0, 0) - x''(0, v),
    all other states zero, at the start of the excitation. Bands: 95 % of parameters drawn from the errors of the fit.
    """
    curves = []
    flow = Flow(model)
    vectors = [model.vector]
    for values in parameter_draws(outcome, outcome.names, seed):
        try:
            vectors.append(model.with_values(**{n: v for n, v in values.items() if n in model.names}).vector)
        except KapitzaError:
            continue
    for coordinate in model.coordinates:
        name = coordinate.name
        if coordinate.order != 2 or name not in motion.predicted:
            continue
        position = motion.predicted[name]
        speed = np.concatenate(
            [np.gradient(position[motion.piece == p], motion.time[motion.piece == p]) for p in _long_pieces(motion)]
            or [np.zeros(1)]
        )
        if coordinate.angle:
            position = np.array([-np.pi, np.pi]) if np.ptp(position) > 2 * np.pi else position
        for kind, state, values in (("restoring", name, position), ("damping", f"{name}'", speed)):
            reach = float(np.quantile(np.abs(values), 0.999))
            if reach > 0:
                curves.append(_curve(model, flow, vectors, kind, name, state, np.linspace(-reach, reach, POINTS)))
    return tuple(curves)


def _long_pieces(motion: Motion) -> list[int]:
    number, count = np.unique(motion.piece, return_counts=True)
    return [int(n) for n, c in zip(number, count, strict=True) if c > 2]


def _curve(
    model: Model, flow: Flow, vectors: list[Array], kind: str, coordinate: str, state: str, at: Array
) -> ForceCurve:
    states = np.zeros((at.size + 1, len(model.states)))
    states[:-1, model.states.index(state)] = at
    row = model.states.index(f"{coordinate}'")
    forces = []
    for vector in vectors:
        rates = np.asarray(flow.rates(states, np.zeros(len(states)), vector))[:, row]
        forces.append(rates[-1] - rates[:-1])
    low, high = np.quantile(forces[1:], [0.025, 0.975], axis=0) if len(forces) > 10 else (forces[0], forces[0])
    return ForceCurve(kind, coordinate, state, *(tuple(np.asarray(v).tolist()) for v in (at, forces[0], low, high)))
