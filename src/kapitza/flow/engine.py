"""Interface between a flow and its integrators.

One protocol has two engines; a third, for delays, is separate.
`SmoothEngine` integrates equations without switches and impacts, `EventEngine` those with them. Both see one stretch of
time within which the right-hand side is one compiled expression: wrapping of angles and time, periods and the knots of
measured signals are handled above them, in `Flow`.
Equations with delays have no state that such a run could start from: `kapitza.flow.delayed` integrates them by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Generic, Protocol, TypeVar, overload

import numpy as np
import sympy as sp

from kapitza.base.arrays import Array, Indices
from kapitza.model import Elimination, Step, Switch


@dataclass(frozen=True)
class Wall:
    """A surface at which the state is reset.

    The motion takes place where surface >= 0. At 0, going down, state i takes the value reset[i].
    """

    surface: sp.Expr
    reset: tuple[sp.Expr, ...]
    name: str = ""


@dataclass(frozen=True)
class Edge:
    """An end of a term of the rates.

    A root, logarithm or inverse function loses its real value there, or the term has a pole.
    term: as written in the smooth rates. margin: positive where the term has a value and 0 at the end; 1 while the
    modes of the switches `guards` (indices) leave the term out. watched: changes its sign where a Taylor series would
    continue along another branch of the term; None where no series reaches that far.
    exponent: of a power whose exponent is not a number; at whole numbers it has no end.
    """

    term: sp.Expr
    margin: sp.Expr
    watched: sp.Expr | None = None
    guards: tuple[int, ...] = ()
    exponent: sp.Expr | None = None
    pole: bool = False


@dataclass(frozen=True)
class System:
    """First-order equations x' = f(x, t, θ).

    They are ready to compile; equal systems share one compiled object.
    states: (n) symbols; parameters: (npar) symbols, in the order of the run-time vector (the independent parameters of
    the model, then the coefficients of measured signals).
    rates: (n) right-hand sides as they can be evaluated anywhere (with sign, Abs, ...); smooth_rates: the same with the
    mode symbols of `switches` in place of the jumps. angles: which states live on a circle.
    constants: values of the last parameters as expressions in those before them; they occur in smooth_steps and
    smooth_rates only.
    steps, smooth_steps: named intermediate results, in order, in which the rates are written where a large mass matrix
    is eliminated; elimination describes them (None where the rates are written out or were changed since).
    edges: ends of the terms of the smooth rates; a motion that meets one ends there, unless a switch continues it.
    """

    states: tuple[sp.Symbol, ...]
    parameters: tuple[sp.Symbol, ...]
    rates: tuple[sp.Expr, ...]
    smooth_rates: tuple[sp.Expr, ...]
    angles: tuple[bool, ...]
    switches: tuple[Switch, ...] = ()
    walls: tuple[Wall, ...] = ()
    constants: tuple[sp.Expr, ...] = ()
    steps: tuple[Step, ...] = ()
    smooth_steps: tuple[Step, ...] = ()
    elimination: Elimination | None = None
    edges: tuple[Edge, ...] = ()

    @property
    def smooth_expressions(self) -> tuple[sp.Expr, ...]:
        """Return the steps and then the smooth rates.

        Together they are everything that the smooth rates are made of.
        """
        return (*(e for _, e in self.smooth_steps), *self.smooth_rates)

    @property
    def is_smooth(self) -> bool:
        """Return whether no event changes the rates.

        There are then no walls and no jumping switches; switches such as that of v|v| are continuous.
        """
        return not self.walls and all(switch.continuous for switch in self.switches) and not self.enters_by_the_clock

    @property
    def enters_by_the_clock(self) -> bool:
        """Return whether time alone enters a domain.

        An example is sqrt(max(sin(t), 0)). No state can be moved into such a domain: the time is moved.
        """
        moving = {*self.states, *(name for name, _ in self.smooth_steps)}
        return any(e.guards and moving.isdisjoint(e.margin.free_symbols) for e in self.edges)


def described(system: System, state: Array) -> str:
    """Return a state as text.

    The text reads "phi = 0.1, phi' = 2".
    """
    return ", ".join(f"{s.name} = {value:.6g}" for s, value in zip(system.states, state, strict=True))


@dataclass(frozen=True)
class Event:
    """An event located during a run.

    kind: "cross" (a switch is passed), "stick", "release", "impact", "contact" (impacts have died out), "detach",
    "graze" (a surface is touched at no speed: derivatives are not to be trusted there), or "crossing" of an observed
    surface. index: which switch, wall or observed surface. direction: sign of the surface's rate.
    state: (n,) at the event, before a jump; after: (n,) after it (None for crossings of observed surfaces).
    """

    time: float
    kind: str
    index: int
    direction: int = 0
    state: Array | None = None
    after: Array | None = None


class Events(Sequence[Event]):
    """Events of a run, created at first access."""

    def __init__(self, count: int, make: Callable[[], Iterable[Event]]):
        self._count, self._make = count, make

    @cached_property
    def _all(self) -> tuple[Event, ...]:
        return tuple(self._make())

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Event, ...]: ...
    def __getitem__(self, index: int | slice) -> Event | tuple[Event, ...]:
        return self._all[index]

    def __iter__(self) -> Iterator[Event]:
        return iter(self._all)

    def __repr__(self) -> str:
        return repr(self._all)

    def __reduce__(self) -> tuple[type[tuple[Event, ...]], tuple[tuple[Event, ...]]]:
        return tuple, (self._all,)


def join_events(parts: Sequence[tuple[Sequence[Event], float, Array | None]]) -> Sequence[Event]:
    """Join the events of consecutive pieces.

    parts: (events, origin of time, turns of the angles or None) of each piece. The result is in the time of the whole
    run.
    """
    if len(parts) == 1 and parts[0][1] == 0.0 and parts[0][2] is None:
        return parts[0][0]  # nothing to shift: batches have thousands of members
    met = [part for part in parts if len(part[0])]
    if not met:
        return ()

    def make() -> Iterator[Event]:
        for events, origin, offset in met:
            for e in events:
                before, after = (s if s is None or offset is None else s + offset for s in (e.state, e.after))
                yield replace(e, time=e.time + origin, state=before, after=after)

    return Events(sum(len(part[0]) for part in met), make)


@dataclass(frozen=True)
class Regime:
    """Switches that slide and walls in lasting contact.

    stuck: switches whose surface holds the motion; contact: walls that hold it.
    """

    stuck: tuple[int, ...] = ()
    contact: tuple[int, ...] = ()

    @property
    def collapses(self) -> bool:
        """Return whether the motion is confined to a surface.

        The tangent map is then singular.
        """
        return bool(self.stuck or self.contact)


@dataclass(frozen=True)
class Memory:
    """Where a run has ended.

    Modes and regime hold for a run that continues from there with the same parameters.
    sides: of the observed surfaces, 0 where not known.
    """

    parameters: Array
    modes: Array
    regime: Regime
    sides: Array


@dataclass(frozen=True)
class Stretches:
    """Consecutive stretches of one run.

    They are between the knots of signals.
    ends: (K,) local times at which they end; coefficients: (K, m) run-time values of the signals on each;
    first: place of the first coefficient among the run-time parameters.
    """

    ends: Array
    coefficients: Array
    first: int

    def part(self, begin: int, end: int) -> Stretches:
        """Return the stretches from number `begin` to before `end`."""
        return Stretches(self.ends[begin:end], self.coefficients[begin:end], self.first)


@dataclass(frozen=True)
class ManyStretches:
    """Stretches of many runs between the knots of the same signals.

    ends: (total,) local times at which they end, run after run; counts: (B,) stretches of each run;
    rows: (B,) place of the first stretch of each run in coefficients (K, m), which its next ones follow;
    first: as of `Stretches`.
    """

    ends: Array
    counts: Indices
    rows: Indices
    coefficients: Array
    first: int

    @property
    def starts(self) -> Indices:
        """Place (B,) of the first end of each run."""
        return np.cumsum(self.counts) - self.counts


D = TypeVar("D", float, Array)
E = TypeVar("E", Event, Sequence[Event])


@dataclass(frozen=True)
class Run(Generic[D, E]):
    """Result of one call of an engine.

    With `run_many` every array has a leading batch axis.
    state: (n,); tangents: (n, n + k) or None; grid_states: (N, n) or None; grid_tangents: (N, n, n + k) or None.
    events: in the order of time (for run_many: a tuple per member). log_determinant: log|det| of the change of the
    first n tangent columns over the run (NaN without tangents, -inf after sticking). memory: what the engine needs to
    continue from `state` (modes, contacts); callers hand it on and never look inside.
    rates: (n,) and grid_rates: (N, n) x' at the end and on the grid where the right-hand side does not determine it, as
    while sticking; None otherwise.
    """

    state: Array
    tangents: Array | None = None
    grid_states: Array | None = None
    grid_tangents: Array | None = None
    events: Sequence[E] = ()
    log_determinant: D | float = float("nan")
    memory: Memory | None = field(default=None, repr=False)
    rates: Array | None = None
    grid_rates: Array | None = None


class Engine(Protocol):
    """Integrates a `System` over one stretch of time.

    Engines are built as `SmoothEngine(system, wrt=(), tolerance=..., observe=())` and `EventEngine(...)` alike: wrt
    are indices into the run-time parameters whose sensitivities are the last k tangent columns; observe are surfaces
    (expressions) whose crossings are reported as events of kind "crossing", both directions, without influence on the
    motion.
    t1 < t0 runs backwards. Tangents are the current values: columns 0..n-1 follow V' = f_x V, columns n.. follow
    V' = f_x V + f_θ. Failures raise FlowError (EventError where the event logic is at fault) naming time and state.
    unit: (n, n + k) tangents of a start; handed on as it is, it need not be multiplied with.
    spans_periods: whether tangents at these parameters may grow over many periods in one run, because their size does
    not loosen the error of the states.
    passes_knots: whether one run may span several stretches between knots; `run` then takes `stretches`.
    """

    system: System
    wrt: tuple[int, ...]
    unit: Array

    def run(
        self,
        state: Array,
        tangents: Array | None,
        t0: float,
        t1: float,
        parameters: Array,
        grid: Array | None = None,
        memory: Memory | None = None,
        stretches: Stretches | None = None,
    ) -> Run[float, Event]:
        """Integrate from state (n,) at t0 to t1.

        grid: (N,) times from t0 on in the direction of t1, at which samples are returned.
        stretches: those of the run, only for an engine that passes knots; parameters hold the values of the first.
        """
        ...

    def spans_periods(self, parameters: Array) -> bool: ...

    def passes_knots(self, parameters: Array, tangents: bool) -> bool: ...

    def run_many(
        self,
        states: Array,
        tangents: Array | None,
        t0: Array,
        t1: Array,
        parameters: Array,
        stretches: Sequence[Stretches] | None = None,
    ) -> Run[Array, Sequence[Event]]:
        """Integrate B runs at once.

        states: (B, n), tangents: (B, n, n + k), t0 and t1: (B,), parameters: (B, npar). stretches: as of `run`.
        """
        ...
