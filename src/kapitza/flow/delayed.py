"""Equations with delays, integrated by the method of steps.

The past is kept as Taylor polynomials on a fixed grid.
Over one segment of the grid every past value is a known polynomial, so the equation is an ordinary one and a single
Taylor step solves it. Breaking points, where derivatives jump (in neutral equations for ever), fall on borders of
segments and cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

import heyoka as hy
import numpy as np

from kapitza.base.argument_checks import Reals
from kapitza.base.arrays import Array
from kapitza.errors import FlowError, ModelError
from kapitza.flow import arguments
from kapitza.flow.compiled import cached, compile_integrator
from kapitza.flow.dense import Dense
from kapitza.flow.system import system_of
from kapitza.flow.tails import watched_limit_of_delays
from kapitza.model import Expression, Model, compile_expressions, parse_expression, symbol, to_heyoka
from kapitza.model import time as time_symbol

FINEST = 64
"""Segments per common measure of the delays, at most."""

FINEST_PAST = 1024
"""The same for a past that is given by expressions."""

LARGEST = 1e100
"""Beyond this a state counts as blown up."""

MOST_SEGMENTS = 4_000_000
"""Largest number of segments of one stretch: about a minute of work."""


MOST_IN_ALL = 100_000_000
"""Largest number of segments of a whole run: about half an hour of work."""

STRETCH = 4096
"""Segments after which the part of the past that is no longer needed is dropped."""

_whole = hy.taylor_outcome.time_limit


@dataclass
class Past:
    """A trajectory as polynomials on segments of equal length.

    A delay equation continues from it.
    start: time of the first segment's begin; step: length of a segment; coefficients: (N, n, P + 1) in the time since
    the begin of each segment. begin: time at which the equation took over from the history that was given.
    values: the delays; last: (n,) state at the end; states: their names; parameters: of the last run.
    """

    start: float
    step: float
    coefficients: Array = field(repr=False)
    begin: float
    values: tuple[float, ...] = ()
    last: Array | None = field(default=None, repr=False)
    states: tuple[str, ...] = ()
    parameters: Array | None = field(default=None, repr=False)

    @property
    def end(self) -> float:
        return self.start + self.step * len(self.coefficients)

    def __call__(self, times: Reals, derivative: int = 0) -> Array:
        """Return states (N, n), or derivatives, at times inside.

        One time gives (n,). derivative: order of the time derivative.
        """
        wanted = np.atleast_1d(np.asarray(times, float))
        slack = 1e-9 * self.step
        if not ((wanted >= self.start - slack) & (wanted <= self.end + slack)).all():
            raise arguments.ArgumentError(
                f"This trajectory covers t from {self.start:g} to {self.end:g}; ask for times inside."
            )
        place = np.floor((wanted - self.start) / self.step).astype(int)
        place = np.clip(place, 0, len(self.coefficients) - 1)
        local = wanted - (self.start + self.step * place)
        # A time on a border, to rounding, belongs to the segment that begins there.
        ahead = (local > self.step * (1 - 1e-12)) & (place < len(self.coefficients) - 1)
        place, local = place + ahead, np.where(ahead, 0.0, local)
        table = self.coefficients[place]
        for _ in range(derivative):
            table = table[:, :, 1:] * np.arange(1, table.shape[2])
        result = np.zeros(table.shape[:2])
        for k in range(table.shape[2] - 1, -1, -1):
            result = result * local[:, None] + table[:, :, k]
        return result[0] if np.ndim(times) == 0 else result

    def halved(self) -> Past:
        """Return the trajectory on a grid twice as fine."""
        half = self.step / 2
        shifted = _shifted(self.coefficients, half)
        both = np.stack([self.coefficients, shifted], axis=1).reshape(-1, *self.coefficients.shape[1:])
        return replace(self, step=half, coefficients=both)

    def recent(self, length: float) -> Past:
        """Return the last `length` seconds of the past.

        The length is rounded up to whole segments. A run needs nothing else to continue.
        """
        spare = len(self.coefficients) - math.ceil(length / self.step - 1e-9)
        if spare <= 0:
            return self
        return replace(self, start=self.start + spare * self.step, coefficients=self.coefficients[spare:].copy())


Start = Mapping[str, float | str | Expression] | Reals | Dense | Past
"""A state; for models with delays also their past: expressions in t by name, or the result of `Flow.dense`."""


def _shifted(coefficients: Array, by: float) -> Array:
    """Return Taylor coefficients about a later point.

    The point is `by` further on.
    """
    order = coefficients.shape[2] - 1
    result = np.zeros_like(coefficients)
    for k in range(order + 1):
        for j in range(k, order + 1):
            result[:, :, k] += math.comb(j, k) * coefficients[:, :, j] * by ** (j - k)
    return result


class DelayFlow:
    """The flow of a model with delays.

    It gives trajectories and dense output, forwards only.
    """

    def __init__(self, model: Model, tolerance: float):
        self.model, self.tolerance = model, tolerance
        self.delays = model.delays
        if model.structure.switches or model.impacts:
            surfaces = [s.function for s in model.structure.switches] or [i.surface for i in model.impacts]
            raise ModelError(
                f'Model "{model.name}" has delays ({self.delays[0].symbol.name}) together with switches or impacts '
                f"(at {surfaces[0]} = 0): every event would echo one delay later, which is not built. Smooth the "
                "switch, tanh(s/e) for sign(s) with a small e, or leave out the delay."
            )
        signals = model.signals
        if any(s.kind == "polynomial" for s in signals):
            raise ModelError(f'Model "{model.name}" has delays and a sampled excitation: give it as a Fourier series.')
        self._index = [model.states.index(d.state) for d in self.delays]
        self._delay_values = compile_expressions([d.delay for d in self.delays], (), model.names)
        key = ("delayed", system_of(model), self.delays, tolerance)
        self._ta = cached(key, lambda: compile_integrator(self._build))
        self.order = self._ta.order

    def _build(self) -> hy.taylor_adaptive_dbl:
        system = system_of(self.model)
        # The order depends on the tolerance alone: a small integrator shows it before the equations are written.
        probe = hy.taylor_adaptive([(hy.expression("x"), hy.expression("x"))], [0.0], tol=self.tolerance)
        count = probe.order + 1
        table = {s: hy.expression(f"s{i}") for i, s in enumerate(system.states)}
        names = len(self.model.names)
        table |= {symbol(name): hy.par[i] for i, name in enumerate(self.model.names)}
        table[time_symbol] = hy.time + hy.par[names]
        for k, delayed in enumerate(self.delays):
            first = names + 1 + k * count
            factors = range(delayed.order, count)
            terms = [math.perm(j, delayed.order) * hy.par[first + j] for j in factors]
            # Horner's rule in the time since the begin of the segment; j!/(j - m)! takes the m-th derivative.
            value = terms[-1]
            for term in reversed(terms[:-1]):
                value = term + hy.time * value
            table[delayed.symbol] = value
        equations = [(hy.expression(f"s{i}"), to_heyoka(f, table)) for i, f in enumerate(system.smooth_rates)]
        limit = watched_limit_of_delays(system, [d.symbol for d in self.delays], table)
        zeros = [0.0] * len(equations)
        return hy.taylor_adaptive(equations, zeros, tol=self.tolerance, compact_mode=True, nt_events=limit)

    def trajectory(self, past: Start, t0: float, t1: float, vector: Array) -> Past:
        """Integrate from a past up to t1.

        past: a state (its past was constant), expressions of the past in t, or an earlier trajectory.
        """
        delays = self.delay_values(vector)
        if not t1 >= t0:
            raise FlowError(f"Equations with delays run forwards only; t1 = {t1:g} is before t0 = {t0:g}.")
        if isinstance(past, Past):
            known = self._continued(past, t0, t1, vector, delays)
        else:
            known = self._history(past, t0, delays)
        return self._advance(known, t1, vector, delays)

    def sample(
        self, past: Start, times: Array, vector: Array, after: Callable[[Array, int], None] | None = None
    ) -> Array:
        """Return states (N, n) at increasing times.

        Only as much of the past is kept as the equation needs.
        after: called with the states and how many of them are done.
        """
        states, done = np.empty((times.size, len(self.model.states))), 0
        delays = self.delay_values(vector)
        reach = float(delays.max())
        count = float(times[-1] - times[0]) / _common_measure(delays)
        if count > MOST_IN_ALL:
            raise FlowError(
                f"A delay of {delays.min():g} s over {times[-1] - times[0]:g} s makes {count:.2g} segments, more than "
                f"{MOST_IN_ALL:.0e}: leave so short a delay out, or run a shorter stretch."
            )
        while done < times.size:
            begin = float(times[max(done - 1, 0)])
            # As many samples as fit a stretch of a few thousand segments, one at least.
            step = past.step if isinstance(past, Past) else reach
            last = max(int(np.searchsorted(times, begin + STRETCH * step, side="right")), done + 1)
            start = past.end if done and isinstance(past, Past) else float(times[done])
            known = self.trajectory(past, start, float(times[last - 1]), vector)
            states[done:last] = known(times[done:last])
            past, done = known.recent(max(reach, known.end - float(times[last - 1]))), last
            if after is not None:
                after(states, done)
        return states

    def delay_values(self, vector: Array) -> Array:
        """Return the delays (K,) at these parameters, s."""
        delays = self._delay_values(np.empty((0, 1)), vector)[:, 0]
        for delayed, delay in zip(self.delays, delays, strict=True):
            if not (math.isfinite(delay) and delay > 0):
                raise ModelError(
                    f'The delay of "{delayed.symbol.name}" is {delay:g}; it must be positive and finite. Without delay '
                    "write the term at the present time."
                )
        return delays

    def _continued(self, past: Past, t0: float, t1: float, vector: Array, delays: Array) -> Past:
        if past.states and past.states != self.model.states:
            raise FlowError(
                f"The trajectory to continue has the states {', '.join(past.states)}, the model has "
                f"{', '.join(self.model.states)}: take one of this model."
            )
        if past.values != tuple(float(d) for d in delays):
            raise FlowError(
                f"The trajectory to continue was made with the delays {_listed(past.values)} s, not "
                f"{_listed(delays)} s: a past on another grid cannot be taken over. Start again."
            )
        if t0 > past.end + 1e-9 * past.step:
            raise FlowError(f"The trajectory to continue ends at t = {past.end:g}, before t0 = {t0:g}.")
        before = past.parameters
        changed = before is not None and not np.array_equal(before, vector)
        if changed and t0 < past.end - 1e-9 * past.step and t1 > t0:
            raise FlowError(
                f"The trajectory to continue reaches t = {past.end:.9g} (it is computed in whole segments of "
                f"{past.step:g} s) and was made with other parameters; from t0 = {t0:.9g} on it would still follow "
                f"them. Change parameters at its end: t0 = past.end = {past.end:.9g}."
            )
        return past

    def _history(self, past: Start, t0: float, delays: Array) -> Past:
        measure = _common_measure(delays)
        count = round(float(delays.max()) / measure)
        values = tuple(float(d) for d in delays)
        if isinstance(past, Mapping) and any(isinstance(v, str) for v in past.values()):
            table = self._expressions(past, t0, measure, count)
        else:
            table = np.zeros((count, len(self.model.states), self.order + 1))
            table[:, :, 0] = arguments.state_vector(self.model, past)
        step = measure * count / len(table)
        return Past(t0 - count * measure, step, table, t0, values, states=self.model.states)

    def _expressions(
        self, past: Mapping[str, float | str | Expression], t0: float, measure: float, count: int
    ) -> Array:
        """Return Taylor coefficients of a past given by expressions.

        The expressions are functions of t. The grid has `count` segments or is finer.
        """
        unknown = [name for name in past if name not in self.model.states]
        missing = [name for name in self.model.states if name not in past]
        if unknown or missing:
            raise arguments.ArgumentError(
                f"The past needs an expression in t for each of {', '.join(self.model.states)}; "
                f"unknown: {', '.join(unknown) or 'none'}, missing: {', '.join(missing) or 'none'}."
            )
        written = [parse_expression(str(past[name]), ()) for name in self.model.states]
        table = {time_symbol: hy.time}
        equations = [(hy.expression(f"z{i}"), to_heyoka(e.diff(time_symbol), table)) for i, e in enumerate(written)]
        ta = hy.taylor_adaptive(equations, [0.0] * len(written), tol=self.tolerance)
        evaluate = compile_expressions(written, ("t",))
        for finer in 2 ** np.arange(int(math.log2(FINEST_PAST)) + 1):
            step = measure / finer
            starts = t0 - step * np.arange(count * finer, 0, -1)
            values = _finite(evaluate, starts, len(written))
            result = np.empty((starts.size, len(written), self.order + 1))
            for i, start in enumerate(starts):
                ta.time, ta.state[:] = float(start), values[:, i]
                outcome, taken = ta.step(step, write_tc=True)
                if outcome != _whole and taken < step:
                    break  # one polynomial does not reach across: a finer grid
                result[i] = ta.tc[: len(written), : self.order + 1]
            else:
                wrong = _misses(result, starts, step, lambda at: _finite(evaluate, at, len(written)))
                if wrong is None:
                    return result
                start = wrong
        raise arguments.ArgumentError(
            f"The past that was given has a kink, or changes too fast, near t = {start:.4g}: polynomials over "
            f"{step:.3g} s do not follow it. Give a smooth one; breaking points belong to the equation, from t0 on."
        )

    def _advance(self, past: Past, t1: float, vector: Array, delays: Array) -> Past:
        """Integrate segment by segment up to t1.

        The grid is halved where a Taylor polynomial does not reach across a segment.
        """
        ta, names = self._ta, len(self.model.names)
        if (t1 - past.end) / past.step > MOST_SEGMENTS:
            raise FlowError(
                f"{(t1 - past.end) / past.step:.2g} segments of {past.step:g} s are too many: run in parts."
            )
        finest = _common_measure(delays) / FINEST
        past = replace(past, parameters=vector.copy())
        while past.end < t1 - 1e-12 * max(past.step, abs(t1)):
            lags = [round(float(d) / past.step) for d in delays]
            made, last, enough = self._segments(past, lags, t1, ta, vector, names)
            known = np.concatenate([past.coefficients, made]) if len(made) else past.coefficients
            past = replace(past, coefficients=known, last=last)
            if enough:
                continue
            if past.step / 2 < finest:
                raise FlowError(
                    f"The trajectory needs steps below {finest:.3g} s near t = {past.end:.6g}: it blows up, or the "
                    "equation changes much faster than its delay."
                )
            past = past.halved()
        return past

    def _segments(
        self, past: Past, lags: list[int], t1: float, ta: hy.taylor_adaptive_dbl, vector: Array, names: int
    ) -> tuple[Array, Array, bool]:
        """Compute the new segments up to t1.

        Returns the segments (K, n, P + 1), the state after them, and False when the next segment needs a shorter step.
        """
        known = len(past.coefficients)
        wanted = math.ceil((t1 - past.end) / past.step - 1e-9)
        table = np.concatenate(
            [past.coefficients[known - max(lags) :], np.empty((wanted, *past.coefficients.shape[1:]))]
        )
        offset, width = max(lags), self.order + 1
        state = table[offset - 1] @ past.step ** np.arange(width) if past.last is None else past.last
        # The integrator has no places for the last parameters where the equations do not hold them.
        pars = np.concatenate((vector[:names], np.zeros(1 + len(lags) * width)))
        for i in range(wanted):
            start = past.end + i * past.step
            pars[names] = start
            for k, (lag, row) in enumerate(zip(lags, self._index, strict=True)):
                first = names + 1 + k * width
                pars[first : first + width] = table[offset + i - lag, row]
            ta.pars[:] = pars[: ta.pars.size]
            # The polynomials of the past count time from the begin of their segment.
            ta.time, ta.state[:] = 0.0, state
            outcome, taken = ta.step(past.step, write_tc=True)
            if outcome == hy.taylor_outcome.success and taken < past.step:
                return table[offset : offset + i], state, False
            state = ta.state.copy()
            if outcome not in (_whole, hy.taylor_outcome.success) or not (np.abs(state) < LARGEST).all():
                place = ", ".join(f"{n} = {v:.4g}" for n, v in zip(self.model.states, state, strict=True))
                raise FlowError(f"The trajectory blew up near t = {start:.6g} ({place}); check parameters and past.")
            table[offset + i] = ta.tc
        return table[offset:], state, True


def _finite(evaluate: Callable[[Array], Array], times: Array, count: int) -> Array:
    """Return the values (n, N) of the given past.

    Constants are repeated for all times. A value that is not finite is refused.
    """
    values = np.broadcast_to(evaluate(times[None, :]), (count, times.size))
    bad = ~np.isfinite(values).all(axis=0)
    if bad.any():
        raise arguments.ArgumentError(f"The past that was given is not finite at t = {times[bad][0]:g}.")
    return values


def _misses(table: Array, starts: Array, step: float, exact: Callable[[Array], Array]) -> float | None:
    """Return where polynomials leave the function first, or None.

    The result is the begin of the first segment (N, n, P + 1) whose polynomial is not accurate.
    """
    # Two inner points, and the far end where a truncated series is least accurate.
    for share in (0.31, 0.62, 1.0 - 1e-9):
        wanted = exact(starts + share * step).T
        found = table @ (share * step) ** np.arange(table.shape[2])
        off = np.abs(found - wanted) > 1e-10 * np.maximum(np.abs(wanted).max(axis=0), 1e-300)
        if off.any():
            return float(starts[off.any(axis=1)][0])
    return None


def _common_measure(delays: Array) -> float:
    """Return the largest common measure of the delays.

    All delays are whole multiples of it.
    """
    smallest = float(delays.min())
    common = 1
    for delay in delays:
        ratio = Fraction(float(delay) / smallest).limit_denominator(200)
        if abs(float(ratio) * smallest - delay) > 1e-9 * delay:
            raise ModelError(
                f"The delays {_listed(delays)} s have no common measure: breaking points would fill the time axis. "
                "Round them to multiples of one step."
            )
        common = common * ratio.denominator // math.gcd(common, ratio.denominator)
    return smallest / common


def _listed(values: Iterable[float]) -> str:
    return ", ".join(f"{v:g}" for v in values)
