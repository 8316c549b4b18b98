"""Laws of candidates along a motion, and those that a fit contains.

A candidate whose law is a combination of the slopes of the free parameters is a change of their values: data cannot
tell the two apart. Its column, which comes from a quadrature, would differ from theirs by the error of the quadrature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kapitza.base.arrays import Array, Flags
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.missing.dictionary import Term
from kapitza.flow import Flow
from kapitza.model import Model

STEP, SAME_LAW, ENOUGH = 1e-4, 1e-6, 8
"""Relative step of the slopes by parameters; residual share of a law below which the slopes reproduce it; fewest states
per parameter for that test."""

FAULTS = ("delay", "gain")
"""Faults of the drive; autonomous models have none."""

PHASES = 16
"""Number of phases of a period over which the drive is averaged."""


def not_in_model(fit: Estimate, free: Sequence[str], terms: Sequence[Term]) -> list[Term]:
    """Return the terms that the free parameters cannot reproduce.

    An example of one that they can is "cubic stiffness" beside k3*x**3 of the model.
    """
    motion = fit.motion
    assert motion is not None
    laws = np.zeros((*motion.states.shape, len(terms)))
    for column, term in enumerate(terms):
        laws[:, term.state, column] = term.law(motion.states, motion.times)
    return [term for term, known in zip(terms, _reproduced(fit, free, laws), strict=True) if not known]


def _reproduced(fit: Estimate, free: Sequence[str], laws: Array) -> Flags:
    """Return which laws the free parameters reproduce.

    laws: (N, n, m). They are compared with the slopes of the rates by the parameters, along the motion.
    """
    motion, model, none = fit.motion, fit.model, np.zeros(laws.shape[2], bool)
    assert motion is not None
    names = [name for name in free if name in model.names]
    if not names or not laws.shape[2] or motion.states.size < ENOUGH * len(names):
        return none
    flow, columns = Flow(model), []
    for name in names:
        step = STEP * (abs(model.values[name]) or 1.0)
        rates = [
            flow.rates(motion.states, motion.times, model.with_values(**{name: model.values[name] + side}).vector)
            for side in (step, -step)
        ]
        columns.append((rates[0] - rates[1]).ravel() / (2 * step))
    slopes = np.stack(columns, axis=1)
    if not np.isfinite(slopes).all():
        return none
    # Unit columns keep the projection well conditioned.
    slopes /= np.maximum(np.linalg.norm(slopes, axis=0), 1e-300)
    flat = laws.reshape(-1, laws.shape[2])
    left = flat - slopes @ np.linalg.lstsq(slopes, flat, rcond=None)[0]
    return np.asarray(np.linalg.norm(left, axis=0) <= SAME_LAW * np.linalg.norm(flat, axis=0))


@dataclass(frozen=True)
class DriveLaws:
    """Faults of the drive that are tested.

    names: of FAULTS; undriven: the model without its measured drives, None where the drive is a formula.
    """

    model: Model
    names: tuple[str, ...]
    undriven: Flow | None

    @classmethod
    def of(cls, fit: Estimate, free: Sequence[str]) -> DriveLaws:
        """Return the faults that the free parameters cannot reproduce."""
        model, motion = fit.model, fit.motion
        assert motion is not None
        if model.structure.is_autonomous:
            return cls(model, (), None)
        undriven = None
        if model.signals:
            assert model.excitation is not None
            still = tuple(replace(signal, values=np.zeros_like(signal.values)) for signal in model.signals)
            undriven = Flow(replace(model, excitation=replace(model.excitation, signals=still)))
        every = cls(model, FAULTS, undriven)
        known = _reproduced(fit, free, every.along(motion.states, motion.times, Flow(model), model.vector))
        return replace(every, names=tuple(name for name, made in zip(FAULTS, known, strict=True) if not made))

    def along(self, path: Array, times: Array, flow: Flow, vector: Array) -> Array:
        """Return the laws along a path.

        path: (M, n); laws: (M, n, d).
        They are on the left side: x' = f(x, t - c) gives ∂f/∂t, a drive larger by c its part of f, negative.
        """
        if not self.names:
            return np.empty((*path.shape, 0))
        laws = {"delay": self._delay, "gain": self._gain}
        return np.stack([laws[name](path, times, flow, vector) for name in self.names], axis=2)

    def _delay(self, path: Array, times: Array, flow: Flow, vector: Array) -> Array:
        step = 0.5 * float(np.median(np.diff(times)))
        # A measured drive without a period is known along the record only.
        after, before = (self.model.within_reach(times + shift) for shift in (step, -step))
        return (flow.rates(path, after, vector) - flow.rates(path, before, vector)) / (after - before)[:, None]

    def _gain(self, path: Array, times: Array, flow: Flow, vector: Array) -> Array:
        """Return the negative part of the drive.

        A measured drive is scaled with its mean. The constant part of a formula is a force, not a drive: its part is
        f less its mean over a period at the same state.
        """
        if self.undriven is not None:
            mean = self.undriven.rates(path, times, vector)
        else:
            period = self.model.period or float(times[-1] - times[0])
            mean = sum(flow.rates(path, times + period * s / PHASES, vector) for s in range(PHASES)) / PHASES
        return mean - flow.rates(path, times, vector)
