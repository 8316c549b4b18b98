"""Delayed sensors by a Taylor series.

The series is h(t - delay) = h - delay h' + delay² h''/2 - …, with the rates of h from the equations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import sympy as sp

from kapitza.errors import DataError
from kapitza.estimate.estimate import Estimate
from kapitza.model import Expression, Model, compile_expressions, symbol, time

FEWEST_TERMS, MOST_TERMS = 4, 7
"""Fewest and most terms of the series. Expressions of the rates grow with every derivative, which limits the number."""

LARGEST_RATE = 1500
"""Operations in the last rate up to which another one is formed beyond the fewest terms."""

MATTERS = 1.0
"""Warn when truncation of the delay series may shift an estimate by more than this many standard errors."""


def rates_of(output: Expression, model: Model, channel: str) -> list[Expression]:
    """Return h, h', h'', … along the motion.

    There are as many derivatives as the series takes.
    """
    if model.is_map or model.structure.steps or model.signals:
        raise DataError(
            f'"{channel}": a delay is followed along the equations, which a map, a large linkage and a measured signal '
            "do not allow. Shift the times of that channel instead."
        )
    found, rates = [output], dict(zip(map(symbol, model.states), model.structure.rates, strict=True))
    while len(found) < MOST_TERMS and (len(found) < FEWEST_TERMS or sp.count_ops(found[-1]) < LARGEST_RATE):
        last = found[-1]
        slope = sp.diff(last, time) + sp.Add(*[sp.diff(last, x) * f for x, f in rates.items()])
        # A derivative of sign() is a pulse at single instants, which a Taylor series cannot represent.
        found.append(slope.replace(sp.DiracDelta, lambda *_: sp.Integer(0)))
    return found


def delayed(output: Expression, delay: Expression, model: Model, channel: str) -> Expression:
    """Return h(t - delay) by its Taylor series."""
    terms = rates_of(output, model, channel)
    return sp.Add(*[(-delay) ** order / math.factorial(order) * term for order, term in enumerate(terms)])


def long_delays(found: Estimate, sensors: Mapping[str, tuple[Expression, float | str]]) -> list[str]:
    """Return warnings about delays too long for their series.

    The truncation error follows from how the last terms decrease. sensors: by channel, those with a delay: h, and the
    delay [s] or the name of its parameter.
    """
    if found.motion is None or found.model is None or not len(found.motion.states):
        return []
    model, motion = found.model, found.motion
    warnings = []
    for channel, (output, given) in sensors.items():
        # Delays may differ between recordings: volt_delay_0, volt_delay_1, …
        values = [abs(v) for n, v in found.values.items() if isinstance(given, str) and n.startswith(given)]
        delay = max(values, default=0.0) if isinstance(given, str) else abs(given)
        noise = found.noise.get(channel, 0.0)
        terms = rates_of(output, model, channel)
        names = [p.name for p in model.parameters]
        compiled = compile_expressions(tuple(terms[-2:]), (*model.states, "t"), names)
        inputs = np.vstack([motion.states.T, motion.times[None]])
        path = compiled(inputs, np.array([model.values[n] for n in names]))
        before, last = np.sqrt((np.asarray(path, float) ** 2).mean(axis=1))
        order = len(terms) - 1
        # The next term of the series, if its rates grow by the same factor as the last ones.
        left = last * delay**order / math.factorial(order)
        left *= delay / (order + 1) * (last / before if before > 0 else 0.0)
        # An error common to N samples shifts a mean by √N of its ratio to the noise, in standard errors.
        shift = left * np.sqrt(len(motion.measured)) / noise if noise > 0 else 0.0
        if shift > MATTERS:
            warnings.append(
                f'"{channel}" is late by {delay:.3g} s, long against the motion: the series that follows it ends '
                f"{left:.2g} off, which may shift estimates by up to {shift:.2g} standard errors. Shift the times of "
                "that channel by about its delay, and fit the rest of it."
            )
    return warnings
