"""Checks of an identified model that need no true values (HARMONIC 5.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from scipy.linalg import eig
from scipy.signal import find_peaks, welch

from kapitza.circle import unwrap, wrap
from kapitza.data import Record
from kapitza.errors import DataError
from kapitza.estimate.estimate import Estimate
from kapitza.model import Model, derived_in_base, rate, split_switches, symbol, time

Array = NDArray[Any]


def natural_frequencies(model: Model, rest: Mapping[str, float] | None = None) -> Array:
    """Undamped natural frequencies [cycles per unit of time] of the model linearised about a state of rest, ascending.

    M(u0) v'' + K(u0) v = 0 with K = ∂g/∂u at zero rates, without excitation (terms in t and measured signals dropped)
    and friction: HARMONIC 31-33, derived from the model. rest: the position, 0 by default.
    """
    values = {symbol(k): v for k, v in model.values.items()}
    names = [c.name for c in model.coordinates]
    signals = () if model.excitation is None else model.excitation.signals
    moving = [rate(n, k) for n in names for k in range(3)] + [time, *(symbol(s.name) for s in signals)]
    equations = tuple(e.xreplace(derived_in_base(model)) for e in model.equations)
    switches, smooth = split_switches(equations, moving)
    still: dict[sp.Basic, Any] = {rate(n, k): 0 for n in names for k in (1, 2)}
    still |= {s.mode: 0 for s in switches} | {symbol(s.name): 0 for s in signals}
    still |= {symbol(n): (rest or {}).get(n, 0.0) for n in names}

    def at_rest(expression: sp.Expr) -> float:
        mean: Any = _time_mean(expression.xreplace(values))
        return float(mean.xreplace(still))

    mass = np.array([[at_rest(sp.diff(e, rate(n, 2))) for n in names] for e in smooth])
    stiffness = np.array([[at_rest(sp.diff(e, symbol(n))) for n in names] for e in smooth])
    squares = np.real(eig(stiffness, mass, right=False))
    return np.sort(np.sqrt(np.clip(squares, 0.0, None))) / (2.0 * np.pi)


def _time_mean(expression: Any) -> Any:
    """The expression without its terms that oscillate in time."""
    terms = sp.Add.make_args(sp.expand(expression))
    return sp.Add(*(t for t in terms if not t.has(time)))


def spectral_peaks(record: Record, channel: str, count: int = 2) -> Array:
    """The strongest peaks of a channel's spectrum [cycles per unit of time], ascending."""
    longest = max(record.segments(), key=lambda s: s.stop - s.start)
    values = unwrap(record[channel][longest])
    step = float(np.median(np.diff(record.time[longest])))
    frequency, power = welch(values, 1.0 / step, nperseg=min(8192, len(values)))
    peaks, _ = find_peaks(power)
    return np.sort(frequency[peaks[np.argsort(power[peaks])[::-1][:count]]])


@dataclass(frozen=True)
class PortraitComparison:
    """Whether two motions visit the same places equally often: 0 for equal histograms, 1 for disjoint ones."""

    distance: Mapping[str, float]
    simulated: Record


def compare_portraits(fit: Estimate, record: Record, simulated: Record, cells: int = 40) -> PortraitComparison:
    """Total variation distance between the histograms of every common channel (angles on the circle)."""
    common = [n for n in record.channels if n in simulated.channels]
    if not common:
        raise DataError(
            f"The simulation of {fit.model.name} has the channels {', '.join(simulated.channels)}, the record "
            f"{', '.join(record.channels)}: give both the same names."
        )
    distance = {}
    for name in common:
        angle = bool(record.dataset[name].attrs.get("angle", False))
        columns = [r[name] for r in (record, simulated)]
        if angle:
            columns = [wrap(c) for c in columns]
        low, high = min(c.min() for c in columns), max(c.max() for c in columns)
        shares = [np.histogram(c, bins=cells, range=(low, high))[0] / len(c) for c in columns]
        distance[name] = float(0.5 * np.abs(shares[0] - shares[1]).sum())
    return PortraitComparison(distance, simulated)


def ratios(fit: Estimate, pairs: Sequence[tuple[str, str]]) -> dict[str, tuple[float, float]]:
    """Ratios of estimated parameters with their standard errors, such as p_b = B12/B15 (HARMONIC 23)."""
    result = {}
    for above, below in pairs:
        i, j = fit.names.index(above), fit.names.index(below)
        a, b = fit[above], fit[below]
        slope = np.array([1.0 / b, -a / b**2])
        spread = fit.covariance[np.ix_([i, j], [i, j])]
        result[f"{above}/{below}"] = (a / b, float(np.sqrt(slope @ spread @ slope)))
    return result
