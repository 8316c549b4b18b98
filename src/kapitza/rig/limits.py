"""Limits of what may be sent to a rig.

The declared limits, checked in one place before anything is sent, whatever the class of the rig.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from kapitza.base import checks
from kapitza.errors import FlowError, RigError, RigLimitError, nearest_name
from kapitza.rig.demands import RESERVE, STEEPEST
from kapitza.rig.fourier import SHARP, FourierSeries, commensurate
from kapitza.rig.protocol import Guarded, PeriodicInput, Rig, RigParameter, Samples, sound_samples

Demands = dict[str, FourierSeries]

MOST_STEPS = 10_000
"""Intermediate demands between two that are set; a change that needs more is refused."""


class RigBeyondError(RigLimitError, FlowError):
    """Request outside the limits of the rig.

    By a numerical method: nothing was sent, its step is shortened.
    bound: of the parameter that is followed, where that was met.
    """

    def __init__(self, text: str, bound: float | None = None):
        super().__init__(text)
        self.bound = bound


def check_settings(rig: Rig, demands: Mapping[str, FourierSeries], parameters: Mapping[str, float]) -> None:
    """Refuse demands and parameters beyond the limits.

    The declared limits, before anything leaves the computer.
    The peak of a demand and of its rate over the whole period is a proven bound (`FourierSeries.peak`), not the largest
    of some samples.
    """
    inputs = {i.name: i for i in rig.inputs}
    for name, series in checks.table("demands", demands, error=RigError).items():
        if not isinstance(series, FourierSeries):
            raise RigError(f'The demand for "{name}" is {checks.shown(series)}; give a FourierSeries.')
    frequencies = {s.frequency for s in demands.values()}
    if len(frequencies) > 1:
        listed = ", ".join(f"{f:g}" for f in sorted(frequencies))
        raise RigError(f"Demands of several base frequencies ({listed} rad/s): give all of them one.")
    for name, series in demands.items():
        if name not in inputs:
            raise RigError(f'The rig has no input "{name}".{nearest_name(name, inputs)} It has: {", ".join(inputs)}.')
        _check_demand(inputs[name], series)
    known = {p.name: p for p in rig.parameters}
    for name, value in parameters.items():
        if name not in known:
            raise RigError(f'The rig has no parameter "{name}".{nearest_name(name, known)} It has: {", ".join(known)}.')
        _check_parameter(known[name], checks.number(name, value, finite=False, error=RigError))


def _check_demand(what: PeriodicInput, series: FourierSeries) -> None:
    for word, limit, unit, order in (
        ("value", what.limit, what.unit, 0),
        ("rate", what.rate_limit, f"{what.unit}/s", 1),
    ):
        said = f" {unit}" if what.unit else unit
        peak = series.peak(order) if math.isfinite(limit) or not order else 0.0
        if not (peak <= limit * (1 + SHARP) and math.isfinite(peak)):
            raise RigLimitError(
                f'The demand for "{what.name}" reaches a {word} of {_shown(peak, limit)}{said}, the limit is '
                f"{limit:.4g}{said}: nothing was sent to the rig. Stay inside, or raise the limit if the rig allows it."
            )


def _shown(value: float, limit: float) -> str:
    """Format a value to differ from the limit.

    As many digits are shown as that takes.
    """
    return next((t for d in range(4, 17) if (t := f"{value:.{d}g}") != f"{limit:.{d}g}"), f"{value:.17g}")


def _check_parameter(what: RigParameter, value: float) -> None:
    low, high = what.bounds
    if not (math.isfinite(value) and low <= value <= high):
        raise RigLimitError(
            f'The parameter "{what.name}" = {value:.6g} {what.unit} is outside {low:g} … {high:g}: '
            "nothing was sent to the rig."
        )


class LimitedRig(Guarded):
    """Rig of any class behind its limits.

    The limits that it declares: what would exceed them never reaches its `set`.
    `Experiment` and `RigServer` put every rig behind this. It guarantees of each demand and parameter that is sent:

    - the demand is finite, and stays within `limit` and `rate_limit` over its whole period; parameters are within their
      bounds. So is every mixture of two demands that follow each other, and every value between two parameters;
    - when the frequency changes, and neither is a whole multiple of the other, neither the old nor the new coefficients
      run faster than `rate_limit` at either frequency: the change goes in two steps where that is needed;
    - where an input declares `ramp`, the time its rig takes from one demand to the next (0: at once), the rate during
      the change keeps within `rate_limit` too: a change that is too large goes in smaller ones, or is refused. Without
      `ramp` the rig itself keeps to `rate_limit` while it changes.

    The rig must let the phase of its demands go on when their frequency changes, and the time where one is a whole
    multiple of the other: the same signal may be written with either.

    Changes are counted from what was sent last, so a rig that declares `ramp` needs one LimitedRig for all that it is
    sent: where another one has left it moving, demands are refused.
    """

    def __init__(self, rig: Rig):
        self.rig = rig
        self._last = _last_of(rig)
        self._sender = object()

    @property
    def inputs(self) -> tuple[PeriodicInput, ...]:
        return self.rig.inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.rig.outputs

    @property
    def parameters(self) -> tuple[RigParameter, ...]:
        return self.rig.parameters

    @property
    def sample_time(self) -> float:
        return self.rig.sample_time

    def set(self, demands: Mapping[str, FourierSeries], **parameters: float) -> None:
        check_settings(self, demands, parameters)
        numbers = {name: float(value) for name, value in parameters.items()}
        if not demands:
            self._send({}, numbers)
            return
        frequency = next(iter(demands.values())).frequency
        wanted = dict(demands)
        before = self._frequency(frequency)
        if before != frequency:
            wanted |= {n: self._constant(n, frequency) for n in self._last.demands if n not in demands}
        # Signals that share a period can be blended; others change by their phase.
        corner = None if commensurate(before, frequency) else self._corner(wanted, before, frequency)
        if corner is not None:
            self._change(corner, numbers if frequency < before else {})
            self._wait(frequency)
        self._change(wanted, numbers)

    def run(self, samples: int) -> Samples:
        found = self.rig.run(samples)
        self._last.since += samples
        return found

    def stop(self) -> None:
        self.rig.stop()
        self._last.demands = {}

    def __enter__(self) -> Self:
        self.rig.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self.rig.__exit__(*problem)
        self._last.demands = {}

    def forget(self) -> None:
        """Forget the last demands.

        The rig was put in its safe state by another path: the next demand starts from rest.
        """
        self._last.demands = {}

    def _frequency(self, default: float) -> float:
        """Return the frequency of the last demands."""
        return next((s.frequency for s in self._last.demands.values()), default)

    def _constant(self, name: str, frequency: float) -> FourierSeries:
        """Return the demand of an omitted input.

        An input that is left out when the frequency changes.
        """
        series = self._last.demands[name]
        if np.any(series.coefficients[1:]):
            raise RigError(f'The frequency changes, so the demand for "{name}" must be given again.')
        return FourierSeries(frequency, series.coefficients)

    def _corner(self, wanted: Demands, before: float, frequency: float) -> Demands | None:
        """Return an intermediate demand for a frequency change.

        It combines the lower frequency with the faster coefficients, so that these are never played at the higher one.
        None where both sets of coefficients are slow enough at both frequencies.
        """
        limits = {i.name: i.rate_limit for i in self.inputs}
        held = (*self._last.demands.items(), *wanted.items())
        high, low = max(before, frequency), min(before, frequency)
        if all(FourierSeries(high, s.coefficients).peak(1) <= limits[n] * (1 + SHARP) for n, s in held):
            return None
        source = self._last.demands if frequency < before else wanted
        return {n: FourierSeries(low, s.coefficients) for n, s in source.items()}

    def _change(self, wanted: Demands, parameters: Mapping[str, float]) -> None:
        """Send a demand in allowed steps.

        Its ramp may require several smaller changes; the parameters go with the last of them.
        """
        inputs = {i.name: i for i in self.inputs}
        frequency = next(iter(wanted.values())).frequency
        before = self._frequency(frequency)
        # Signals that share a period are the same at the lower base frequency; others keep their phase.
        base = min(before, frequency) if commensurate(before, frequency) else frequency
        start, end = {}, {}
        self._check_start()
        for name, series in wanted.items():
            old = self._last.demands.get(name, FourierSeries.zero(frequency))
            old = old if commensurate(before, frequency) else FourierSeries(frequency, old.coefficients)
            start[name], end[name] = old.at_base(base), series.at_base(base)
        count = max(self._steps(inputs[n], start[n], end[n]) for n in wanted)
        for k in range(1, count):
            part = {n: _mixed(start[n], end[n], k / count) for n in wanted}
            # A new frequency and the parameters that belong to it are set together.
            self._send(part, parameters if before != frequency else {})
            self._wait(base)
        self._send(wanted, parameters)

    def _check_start(self) -> None:
        """Refuse a change whose rate cannot be bounded.

        The rig may have left the demand it starts from in the meantime.
        """
        ramped = any(i.ramp is not None and math.isfinite(i.rate_limit) for i in self.inputs)
        if ramped and self._last.demands and self._last.sender is not self._sender:
            raise RigError(
                "The rig was left with demands by another LimitedRig, Experiment or settle_and_measure, and may follow "
                "them still: the rate of the change is unknown. Stop it by LimitedRig(rig).stop(), or pass one "
                "LimitedRig(rig) instead of the rig everywhere."
            )

    def _steps(self, what: PeriodicInput, start: FourierSeries, end: FourierSeries) -> int:
        """Return the number of changes in a row.

        They keep the rate within its limit while the rig goes from one demand to the next.
        A blend of two demands runs at the larger of their rates plus its own slope times their distance.
        """
        if what.ramp is None or not math.isfinite(what.rate_limit):
            return 1
        modes = max(start.modes, end.modes)
        away = end.with_modes(modes).coefficients - start.with_modes(modes).coefficients
        distance = FourierSeries(end.frequency, away).peak()
        if distance == 0.0:
            return 1
        fastest = max(start.peak(1), end.peak(1))
        # A rig that jumps changes its demand within one sample.
        slope = STEEPEST / what.ramp if what.ramp >= self.sample_time else 1.0 / self.sample_time
        spare = what.rate_limit - fastest
        steps = math.ceil(slope * distance / spare) if spare >= RESERVE * what.rate_limit else math.inf
        if steps > MOST_STEPS:
            unit = f" {what.unit}/s" if what.unit else "/s"
            raise RigLimitError(
                f'The change to the new demand for "{what.name}", {distance:.4g} {what.unit} away, reaches a rate of '
                f"{fastest:.4g}{unit} and more; the limit is {what.rate_limit:.4g}{unit}, of which "
                f"{100 * RESERVE:g} % are needed for the change itself: nothing was sent to the rig. Stay inside, or "
                "let the rig change its demands more slowly (ramp)."
            )
        return int(steps)

    def _wait(self, frequency: float) -> None:
        """Run until the last demand is reached."""
        count = self._ramp_samples()
        if any(i.ramp is None for i in self.inputs):
            # A rig that keeps its own ramp is polled every quarter period.
            count = max(count, min(math.ceil(0.25 * 2 * math.pi / (frequency * self.sample_time)), 1000))
        for _ in range(MOST_STEPS):
            if not sound_samples(self, count).changing:
                return
        raise RigError(f"The rig was still changing its demands after {MOST_STEPS * count} samples: shorten its ramp.")

    def _ramp_samples(self) -> int:
        """Return the samples of the longest ramp.

        After these a demand has been reached, as far as the inputs declare it.
        """
        return max((max(1, math.ceil(i.ramp / self.sample_time)) for i in self.inputs if i.ramp is not None), default=0)

    def _send(self, demands: Demands, parameters: Mapping[str, float]) -> None:
        """Send settings; nothing else reaches a rig."""
        check_settings(self, demands, parameters)
        early = self._ramp_samples() - self._last.since
        if demands and self._last.demands and early > 0:
            sound_samples(self, early)  # the last change has to be over
        try:
            self.rig.set(demands, **parameters)
        except RigLimitError:
            raise
        except BaseException:
            # Nobody knows which demand it follows now, whatever kind of error its driver raises.
            self.stop()
            raise
        frequency = next((s.frequency for s in demands.values()), None)
        if frequency is not None:
            self._last.demands, self._last.since = {**self._last.demands, **demands}, 0
            self._last.sender = self._sender


@dataclass
class _Last:
    """Last settings sent to a rig.

    Any LimitedRig may have sent them; since counts samples from then on. sender: kept here, as the id of a LimitedRig
    that is gone may be that of the next one.
    """

    demands: Demands = field(default_factory=dict)
    since: int = 0
    sender: object = None


_last: dict[int, _Last] = {}
"""Last settings by the id of each rig, for as long as it lives."""


def _last_of(rig: Rig) -> _Last:
    if id(rig) not in _last:
        try:
            weakref.finalize(rig, _last.pop, id(rig)).atexit = False
        except TypeError:  # an object without weak references: it is known to one guard only
            return _Last()
        _last[id(rig)] = _Last()
    return _last[id(rig)]


def limited(rig: Rig) -> LimitedRig:
    """Put a rig behind its limits.

    One that already is stays as it is.
    """
    return rig if isinstance(rig, LimitedRig) else LimitedRig(rig)


def _mixed(first: FourierSeries, second: FourierSeries, share: float) -> FourierSeries:
    """Mix two series.

    The result is (1 - share) of the first and `share` of the second.
    """
    modes = max(first.modes, second.modes)
    a, b = (s.with_modes(modes).coefficients for s in (first, second))
    return FourierSeries(first.frequency, (1 - share) * a + share * b)
