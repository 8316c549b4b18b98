"""The core of a flow, shared by its verbs.

It holds the engine, the clock, the wrapping, and the two loops over pieces of time.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from math import floor, pi
from typing import Generic

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kapitza.base.angles import TURN
from kapitza.base.arrays import Array
from kapitza.base.cures import Set
from kapitza.errors import FlowError
from kapitza.flow.circles import Circles
from kapitza.flow.clock import Clock, PeriodLaw, Piece, merge_signals
from kapitza.flow.compiled import cached
from kapitza.flow.engine import D, E, Engine, Event, System, join_events
from kapitza.flow.hoisting import constants_function, hoist_constants
from kapitza.flow.shots import Shots
from kapitza.flow.smooth import SmoothEngine
from kapitza.flow.system import polynomial_signals, system_of, vanishing_candidates
from kapitza.model import Evaluator, Model, compile_expressions, symbol, symbolic
from kapitza.model import time as time_symbol

PERIODS_PER_PIECE = 32
"""Periods between two wrappings; tangents are chained at every period where the engine needs it."""

RADIANS_PER_PIECE = 64.0
"""Rotation of an autonomous model between two wrappings, estimated at the start of the run."""

OFF_BEAT = 0.6180339887
"""Periods in the first piece where a jump is driven by the clock: one on the border of two pieces, as that of a square
wave at t = 0, T, 2T, would change no tangents."""

STRETCHES_PER_PIECE = 64
"""Stretches between knots in one run of a model with angles, which are wrapped after it."""

SAMPLES_PER_PIECE = 4096
"""Samples of a piece: limits of steps apply to each piece, and the monitor is called after it."""

REMEMBERED = 4096
"""Sets of masses known to be definite that are kept."""

ROUNDING = 4 * np.finfo(float).eps
"""Relative difference of times up to which a sample is on a border."""

Filled = Callable[[Array, int], None]
"""Called after every piece of a long run with the array of states and how many of its rows are filled."""


@dataclass(frozen=True)
class Propagation(Generic[D, E]):
    """State and derivatives at the end of a run.

    state: (n,), angles continuous with the start. jacobian: (n, n) ∂x(t1)/∂x(t0). sensitivity: (n, k) ∂x(t1)/∂θ for
    the names in `wrt`, at fixed t0 and t1. log_determinant: log|det jacobian|, summed over periods.
    events: located during the run. turns: whole turns per state, (x(t1) - x(t0)) / 2π rounded, 0 for other states.
    followed: members that a device handed back and the processor followed; a device lists no events.
    From `propagate_many` every array has a leading batch axis and events holds a tuple per member.
    """

    state: Array
    jacobian: Array | None
    sensitivity: Array | None
    log_determinant: D
    events: Sequence[E]
    turns: NDArray[np.int64]
    followed: int = 0


CoreSettings = tuple[Model, tuple[str, ...], float, int]
"""Arguments of a `Core`: model, names of the sensitivities, tolerance, limit of steps."""

ConstantsKey = tuple[int, tuple[tuple[int, ...], bytes]]
"""Engine, shape and values of the parameters for which hoisted constants are kept."""

_WITHOUT_VALUES = tuple(f.name for f in fields(Model) if f.name != "parameters")


def core_of(model: Model, wrt: tuple[str, ...], tolerance: float, max_steps: int) -> Core:
    """Return the core of a model.

    Models that differ only in values share one, as a sweep makes them by the hundred.
    """
    others = (getattr(model, name) for name in _WITHOUT_VALUES)
    laws = tuple((p.name, p.expression) for p in model.parameters)
    # The core holds its model: while it is kept, no other object has the address of a part of that.
    key = ("core", *map(id, (model.structure, *others)), laws, wrt, tolerance, max_steps)
    return cached(key, lambda: Core(model, wrt, tolerance, max_steps))


class Core:
    """A model with its compiled engines.

    Parameters are vectors in the order of `model.names`, already checked.
    Models that differ in values share it, so its own model has none.
    """

    def __init__(self, model: Model, wrt: tuple[str, ...], tolerance: float, max_steps: int):
        self._pattern, self.model = model, model.without_values()
        self.wrt, self.tolerance, self.max_steps = wrt, tolerance, max_steps
        self.size, self.angles = len(model.states), np.array(model.angles, bool)
        self.columns = self.size + len(wrt)
        self.unit = np.eye(self.size, self.columns)
        self.wrt_index = tuple(model.names.index(name) for name in wrt)
        self.period_law = PeriodLaw(model, wrt)
        self.system = system_of(model)
        self.circles = Circles(model, self.period_law)
        self._signals = polynomial_signals(model)
        self._turns = bool(self.angles.any())
        self._turning = tuple(np.flatnonzero(self.angles).tolist())
        self._timed_jumps = any(s.function.has(time_symbol) for s in self.system.switches if not s.continuous)
        self._zero_turns = np.zeros(self.size, int)
        candidates = () if self.system.is_smooth or self.system.walls else vanishing_candidates(self.system)
        # After the parameters of the model come coefficients of measured signals, which change from piece to piece.
        self._removable = tuple(i for i in candidates if i < len(model.names) and i not in self.wrt_index)
        self._engines: dict[tuple[int, tuple[bool, ...], tuple[sp.Expr, ...]], Engine] = {}
        self._masses: set[bytes] = set()
        self._held = [i for i in range(len(model.names)) if i not in self.wrt_index]
        self._constants: tuple[ConstantsKey | None, Array] = (None, np.empty(0))
        self._clock: tuple[float | None, Clock | None] = (None, None)
        self._evaluators: dict[int, Evaluator] = {}
        self._merged: dict[float | None, tuple[Array, Array]] = {}
        self._lasting = any(signal.period is None for signal in self._signals)
        self._reach = model.reach if self._lasting else (-np.inf, np.inf)

    @property
    def settings(self) -> CoreSettings:
        """Arguments with which another process makes the same core."""
        return self._pattern, self.wrt, self.tolerance, self.max_steps

    @property
    def has_knots(self) -> bool:
        return bool(self._signals)

    @property
    def has_timed_jumps(self) -> bool:
        return self._timed_jumps

    def engine_kinds(self, vectors: Array) -> NDArray[np.intp]:
        """Number the engines of the rows of parameters.

        Rows of (B, npar) that share an engine have equal numbers.
        """
        if not self._removable:
            return np.zeros(len(vectors), int)
        return np.unique(vectors[:, self._removable] == 0.0, axis=0, return_inverse=True)[1].reshape(-1)

    def periods(self, vectors: Array) -> Array | None:
        """Return the excitation period of each row.

        vectors: parameters (B, npar).
        """
        if self.period_law.expression is None:
            return None
        if len(vectors) and (vectors == vectors[0]).all():
            return np.full(len(vectors), self.period_law(vectors[0]))
        return self.period_law.many(vectors)

    def engine(self, vector: Array, observe: tuple[sp.Expr, ...] = ()) -> Engine:
        """Return the engine for these values.

        A friction coefficient of zero leaves a smooth system.
        """
        self.circles.check(vector)
        self._check_mass(vector)
        absent = tuple(bool(vector[i] == 0.0) for i in self._removable)
        # Integrators hold a state: each thread has separate engines.
        key = threading.get_ident(), absent, observe
        found = self._engines.get(key)
        if found is None:
            zeros = frozenset(self.model.names[i] for i, gone in zip(self._removable, absent, strict=True) if gone)
            reduced = system_of(self.model, zeros) if zeros else self.system
            system = reduced if reduced.is_smooth else self.system
            kept_apart = {symbol(name) for name in self.wrt}
            absorbed = frozenset(symbol(name) for name in self.model.names) - kept_apart
            with symbolic:
                found = self._engine_of(hoist_constants(system, absorbed), observe)
            self._engines[key] = found
        return found

    def is_smooth_at(self, vector: Array) -> bool:
        """Return whether no wall or jump can be met.

        vector: values of the parameters.
        """
        return self.engine(vector).system.is_smooth

    def _check_mass(self, vector: Array) -> None:
        """Refuse values at which a pivot may vanish.

        The named steps divide by the pivots of the mass matrix. The check is made once per set of masses.
        """
        structure = self.model.structure
        if structure.elimination is None:
            return
        used = structure.mass_parameters
        key = vector[list(used)].tobytes()
        if key in self._masses:
            return
        if not structure.suits(vector):
            shown = ", ".join(f"{self.model.names[i]} = {vector[i]:g}" for i in used)
            raise FlowError(
                f'Model "{self.model.name}": the mass matrix is not definite at {shown}, as it is at the values of the '
                f"model. Give masses and inertias their sign, or set the values by {Set('values')} first."
            )
        if len(self._masses) >= REMEMBERED:
            self._masses.clear()
        self._masses.add(key)

    def _engine_of(self, system: System, observe: tuple[sp.Expr, ...]) -> Engine:
        key = ("engine", system, self.wrt_index, self.tolerance, observe, self.max_steps)
        if system.is_smooth and not system.switches:
            return cached(key, lambda: SmoothEngine(system, self.wrt_index, self.tolerance, observe, self.max_steps))
        from kapitza.flow.events import EventEngine

        return cached(key, lambda: EventEngine(system, self.wrt_index, self.tolerance, observe, self.max_steps))

    def clock(self, vector: Array) -> Clock:
        """Return how time is cut at these values."""
        period = self.period_law(vector)
        if period is None and not self._lasting:
            return Clock(None, self.model.structure.is_autonomous)
        if not self._signals:
            assert period is not None
            known, clock = self._clock  # read at once: another thread may put its own here
            if clock is None or known != period:
                clock = Clock(period)
                self._clock = period, clock
            return clock
        merged = self._merged.get(period)
        if merged is None:
            merged = merge_signals(self._signals, *(self.model.reach if period is None else (0.0, period)))
            self._merged = {period: merged}
        return Clock(period, False, *merged, len(self.model.names))

    def check_reach(self, *times: float | Array) -> None:
        """Refuse times at which a measured drive is unknown.

        Such a drive has no period.
        """
        low, high = self._reach
        for some in times:
            # The signals, which name themselves in their refusals, are asked only where a time may be outside.
            if np.min(some, initial=high) < low or np.max(some, initial=low) > high:
                for signal in self._signals:
                    signal.inside(some)

    def _beyond_a_turn(self, state: Array) -> bool:
        """Return whether an angle is outside of (-π, π).

        The angles are compared one after another: array operations take longer for so few numbers.
        """
        return any(abs(state[i]) >= pi for i in self._turning)

    def whole_turns(self, state: Array) -> Array:
        """Return the whole turns of the angles, in rad.

        Subtracting them brings the angles into [-π, π].
        """
        return np.where(self.angles, TURN * np.round(state / TURN), 0.0)

    def runtime(self, engine: Engine, vectors: Array, coefficients: Array | None) -> Array:
        """Return the run-time parameters of the engine.

        They are those of the model, then the coefficients of measured signals, then the constants.
        vectors: (npar,) or (B, npar), and the coefficients on a piece alike.
        """
        values = vectors if coefficients is None else np.concatenate((vectors, coefficients), axis=-1)
        system = engine.system
        if not system.constants:
            return values
        # Parameters whose sensitivities are wanted are in no constant: a branch moves them and nothing else.
        key = values.shape, vectors[..., self._held].tobytes()  # one vector and a batch of one have the same bytes
        known, numbers = self._constants  # read at once: another thread may put its own here
        if known != (id(engine), key):
            evaluate = self._evaluators.get(id(engine))
            if evaluate is None:
                # Engines live as long as the core: to look the function up by its expressions costs more than it.
                evaluate = self._evaluators[id(engine)] = constants_function(system)
            found = evaluate(np.empty((0, 1 if values.ndim == 1 else len(values))), np.ascontiguousarray(values.T))
            numbers = found[:, 0] if values.ndim == 1 else found.T
            self._constants = (id(engine), key), numbers
        return np.concatenate((values, numbers), axis=-1)

    def rates(self, states: Array, times: float | Array, runtime: Array) -> Array:
        """Evaluate the right-hand side f(x, t, θ).

        states: (..., n); times: (...) local; runtime: parameters and signal coefficients.
        """
        system, function = self.system, self._rates
        inputs = np.concatenate((states, np.asarray(times)[..., None]), axis=-1)
        values = runtime[..., : len(system.parameters)]
        return function(np.ascontiguousarray(inputs.T), np.ascontiguousarray(values.T)).T

    @cached_property
    def _rates(self) -> Evaluator:
        system = self.system
        return compile_expressions(system.rates, (*system.states, "t"), system.parameters, system.steps)

    def pieces(
        self, state: Array, t0: float, t1: float, vector: Array, tangents: bool, one_by_one: bool = False
    ) -> Iterator[Piece]:
        """Return the pieces of [t0, t1] for the engine.

        The engine takes each piece in one run. one_by_one: a piece for each stretch between knots.
        """
        clock = self.clock(vector)
        self.check_reach(t0, t1)
        if clock.knots is not None:
            # The stepper that passes knots runs forwards only.
            longest = 1 if one_by_one or t1 < t0 else self.stretches_per_piece(vector, tangents)
            return (part for piece in clock.pieces(t0, t1, 1) for part in piece.cut(longest))
        if clock.period is not None:
            longest = self.periods_per_piece(vector[None], tangents)
            return clock.pieces(t0, t1, longest, OFF_BEAT if tangents and self.has_timed_jumps else 0.0)
        if not (clock.timeless and self._turns):
            return clock.pieces(t0, t1, 1)
        count = int(self.piece_counts(state[None], np.array([t0]), np.array([t1]), vector[None])[0])
        step = (t1 - t0) / count
        return (Piece(0.0, step if i < count - 1 else t1 - (t0 + i * step), t0 + i * step, 0) for i in range(count))

    def stretches_per_piece(self, vector: Array, tangents: bool) -> int:
        """Return how many stretches one run may span."""
        engine = self.engine(vector)
        # Coefficients differ between stretches: none of them decides whether the motion is smooth.
        unknown = np.ones(len(self.system.parameters) - len(self.model.names))
        if not engine.passes_knots(self.runtime(engine, vector, unknown), tangents):
            return 1
        return STRETCHES_PER_PIECE if self._turns else sys.maxsize

    def periods_per_piece(self, vectors: Array, tangents: bool) -> int:
        """Return how many periods one run may span.

        vectors: parameters (B, npar).
        """
        if not tangents or self.has_knots:
            return PERIODS_PER_PIECE
        # Zero parameters decide which engine serves a row, and what it can span.
        rows = vectors[np.unique(vectors == 0.0, axis=0, return_index=True)[1]] if len(vectors) > 1 else vectors
        engines = ((self.engine(row), row) for row in rows)
        spans = all(engine.spans_periods(self.runtime(engine, row, None)) for engine, row in engines)
        return PERIODS_PER_PIECE if spans else 1

    def piece_counts(self, states: Array, t0: Array, t1: Array, vectors: Array) -> NDArray[np.intp]:
        """Return the numbers of pieces (B,) of [t0, t1].

        For models without a period: angles that turn are wrapped between the pieces.
        """
        if not (self._turns and self.model.structure.is_autonomous):
            return np.ones(len(states), np.intp)
        rates = np.abs(self.rates(states, np.zeros(len(states)), vectors))
        # A start at rest has no speed: the root of the largest rate, of an acceleration for instance, replaces it.
        speed = np.maximum(rates[:, self.angles].max(axis=1), np.sqrt(rates.max(axis=1)))
        turns = np.nan_to_num(np.ceil(np.abs(t1 - t0) * speed / RADIANS_PER_PIECE), nan=1.0)
        return np.clip(turns, 1, 1_000_000).astype(np.intp)

    def advance(
        self,
        start: Array,
        t0: float,
        t1: float,
        vector: Array,
        tangents: bool,
        observe: tuple[sp.Expr, ...] = (),
    ) -> Propagation[float, Event]:
        """Propagate one state from t0 to t1.

        Angles are wrapped between the pieces, and tangents are chained over them.
        """
        engine, n = self.engine(vector, observe), self.size
        unit = engine.unit if tangents else None
        total, state, offset = unit, start, np.zeros(n)
        met: list[tuple[Sequence[Event], float, Array]] = []
        determinant, memory = 0.0, None
        runtime = None
        for piece in self.pieces(start, t0, t1, vector, tangents):
            if runtime is None or piece.coefficients is not None:
                runtime = self.runtime(engine, vector, piece.coefficients)
            # The error of a step is relative to the largest state: an angle that winds up would loosen the tolerance.
            if self._turns and self._beyond_a_turn(state):
                whole = self.whole_turns(state)
                state, offset = state - whole, offset + whole
            run = engine.run(state, unit, piece.start, piece.end, runtime, None, memory, piece.stretches)
            if tangents:
                change = run.tangents
                assert change is not None
                assert total is not None
                self.shift_origin(change, state, run.state, piece.start, piece.end, piece.turns, runtime, run.rates)
                total = change if total is unit else self.chain(change, total)
                # Logarithms are summed: the determinant of the product of all periods loses its digits.
                determinant += run.log_determinant
            if len(run.events):
                met.append((run.events, piece.origin, offset))
            state, memory = run.state, run.memory
        end = state + offset
        turns = self._zero_turns
        if self._turns and self._beyond_a_turn(end - start):
            turns = np.where(self.angles, np.round((end - start) / TURN), 0.0).astype(int)
        if total is None:
            return Propagation(end, None, None, float("nan"), join_events(met), turns)
        return Propagation(end, total[:, :n], total[:, n:], determinant, join_events(met), turns)

    def arrive(self, start: Array, t0: float, t1: float, vector: Array) -> Array:
        """Return the state of `advance` at t1 alone.

        Without events and tangents, chord steps along a branch take half as long.
        """
        engine, clock = self.engine(vector), self.clock(vector)
        period = clock.period
        if not isinstance(engine, SmoothEngine) or not engine.is_plain or period is None or clock.knots is not None:
            return self.advance(start, t0, t1, vector, False).state
        if abs(t1 - t0) > PERIODS_PER_PIECE * period:
            return self.advance(start, t0, t1, vector, False).state
        local = t0 - floor(t0 / period) * period
        runtime = self.runtime(engine, vector, None)
        if not (self._turns and self._beyond_a_turn(start)):
            return engine.arrive(start, local, local + (t1 - t0), runtime)
        whole = self.whole_turns(start)
        return engine.arrive(start - whole, local, local + (t1 - t0), runtime) + whole

    def shots(self, vector: Array, t0: float, t1: float) -> Shots | None:
        """Prepare one stretch of time for many runs.

        The runs go from t0 to t1 and differ in their starts and in the values of `wrt`.
        None where a run is more than the steps of an integrator, or where the stretch or a check depends on `wrt`.
        """
        engine, clock = self.engine(vector), self.clock(vector)
        if not isinstance(engine, SmoothEngine) or not engine.is_plain or clock.period is None:
            return None
        if engine.by_columns is not None:
            return None
        if clock.knots is not None or self.period_law.varies or not 0 < t1 - t0 <= PERIODS_PER_PIECE * clock.period:
            return None
        structure = self.model.structure
        masses = () if structure.elimination is None else structure.mass_parameters
        if set(masses) & set(self.wrt_index) or self.circles.depends_on(self.wrt_index):
            return None
        return Shots(self, engine, vector, clock.period, t0, t1)

    def chain(self, change: Array, total: Array) -> Array:
        """Chain the tangents of two stretches.

        The result is (J2 J1, J2 S1 + S2).
        """
        result = change[..., : self.size] @ total
        result[..., self.size :] += change[..., self.size :]
        return result

    def shift_origin(
        self,
        change: Array,
        before: Array,
        after: Array,
        start: float | Array,
        ends: float | Array,
        turns: int | NDArray[np.integer] | Array,
        runtime: Array,
        last: Array | None = None,
    ) -> None:
        """Add the effect of a parameter-dependent period, in place.

        The period T(θ) moves the origin of wrapped time.
        The origin is turns · T(θ); shifting it by δ changes the end of the piece by -(f1 - J f0) δ.
        change: (..., n, n + k) from the states `before` at local time `start` to `after` (..., n) at `ends`.
        runtime: one set of values, or one row per member. last: x' at the ends, where the engine knows better than
        the right-hand side (on a surface on which the motion sticks).
        """
        if not self.period_law.varies or not np.any(turns):
            return
        n, names = self.size, len(self.model.names)
        carried = np.einsum("...ij,...j->...i", change[..., :n], self.rates(before, start, runtime))
        shift = (self.rates(after, ends, runtime) if last is None else last) - carried
        slopes = self.period_law.slopes(runtime[..., :names])
        change[..., n:] -= (np.asarray(turns)[..., None] * shift)[..., None] * slopes[..., None, :]

    def sample(
        self, start: Array, times: Array, vector: Array, tangents: bool, after: Filled | None = None
    ) -> tuple[Array, Array | None]:
        """Return states and tangents at increasing times.

        The first time is that of the start.
        """
        engine, unit = self.engine(vector), self.unit if tangents else None
        states = np.empty((times.size, self.size))
        tensors = np.empty((times.size, self.size, self.columns)) if tangents else None
        total, state, offset, memory = self.unit, start, np.zeros(self.size), None
        states[0] = start
        if tensors is not None:
            tensors[0] = self.unit
        done = 1
        for piece in self._sampling_pieces(start, times, vector, tangents):
            runtime = self.runtime(engine, vector, piece.coefficients)
            whole = self.whole_turns(state)
            state, offset = state - whole, offset + whole
            local = times[done : done + SAMPLES_PER_PIECE] - piece.origin
            # A sample on the border, to rounding, belongs to the piece that ends there.
            here = int(np.searchsorted(local, piece.end + ROUNDING * (abs(piece.origin) + abs(piece.end)), "right"))
            grid = np.clip(local[:here], piece.start, piece.end)
            asked = grid if here else None
            run = engine.run(state, unit, piece.start, piece.end, runtime, asked, memory, piece.stretches)
            stop = done + here
            visited = np.empty((0, self.size)) if run.grid_states is None else run.grid_states
            states[done:stop] = visited + offset
            if tensors is not None:
                assert run.tangents is not None
                if run.grid_tangents is not None:
                    sampled = run.grid_tangents, state, visited, piece.start, grid, piece.turns, runtime, run.grid_rates
                    self.shift_origin(*sampled)
                    tensors[done:stop] = self.chain(run.grid_tangents, total)
                ended = run.tangents, state, run.state, piece.start, piece.end, piece.turns, runtime, run.rates
                self.shift_origin(*ended)
                total = self.chain(run.tangents, total)
            state, memory, done = run.state, run.memory, stop
            if after is not None:
                after(states, done)
        return states, tensors

    def _sampling_pieces(self, start: Array, times: Array, vector: Array, tangents: bool) -> Iterator[Piece]:
        """Yield pieces that also end between samples.

        A piece ends after every few thousand samples, so that step limits apply to each.
        """
        last = times.size - 1
        for first in range(0, last, SAMPLES_PER_PIECE):
            stop = min(first + SAMPLES_PER_PIECE, last)
            yield from self.pieces(start, float(times[first]), float(times[stop]), vector, tangents)
