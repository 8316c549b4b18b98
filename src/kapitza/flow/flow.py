"""Flow: the motion of a model in time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kapitza.base import checks
from kapitza.base.argument_checks import Reals
from kapitza.base.arrays import Array
from kapitza.base.workers import Executor
from kapitza.errors import ModelError
from kapitza.flow import arguments
from kapitza.flow.arguments import Parameters, State
from kapitza.flow.batch import Many, advance_many
from kapitza.flow.clock import PeriodLaw
from kapitza.flow.columns import Blocks
from kapitza.flow.compiled import count_builds
from kapitza.flow.core import Core, Propagation, core_of
from kapitza.flow.delayed import DelayFlow, Past, Start
from kapitza.flow.dense import Dense
from kapitza.flow.device import propagate_on_device, strobe_on_device
from kapitza.flow.engine import Event
from kapitza.flow.lanes import sample_lanes
from kapitza.flow.projection import projected_samples
from kapitza.flow.section import Crossings, find_crossings
from kapitza.flow.smooth import STEP_LIMIT
from kapitza.flow.strobe import Strobe, strobe, strobe_many
from kapitza.model import Model, compile_expressions


class Flow:
    """Compute the flow x(t0) -> x(t1) of a model.

    It is compiled once per structure, with tangents by state and parameter.

    wrt: names of the independent parameters whose sensitivities are wanted. tolerance: of each integration step,
    relative to the largest state, or to 1 where all states are smaller. max_steps: limit in one stretch (a period, a
    few thousand samples).

    Parameters are run-time values: None (those of the model), a mapping of changes, or a vector in the order of
    `model.names`. States are sequences in the order of `model.states` or mappings by name. Angles may be any real;
    they and the time are wrapped inside, and results are continuous with the start. Running backwards (t1 < t0) is
    allowed for models without impacts and jumps, whose past is unique.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> model = kz.Model.from_equations("x'' + x = 0")
    >>> end = kz.Flow(model).propagate([1.0, 0.0], 0.0, np.pi)
    >>> end.state.round(12) + 0.0
    array([-1.,  0.])
    >>> end.jacobian.round(12) + 0.0
    array([[-1.,  0.],
           [ 0., -1.]])
    """

    def __init__(self, model: Model, wrt: tuple[str, ...] = (), tolerance: float = 1e-15, max_steps: int = STEP_LIMIT):
        if not isinstance(model, Model):
            raise ModelError(f"A flow needs a Model, not {checks.shown(model)}.")
        if model.is_map:
            raise ModelError(f'Model "{model.name}" is a map; use Map(model).iterate.')
        wrt = tuple(model.check(name).name for name in checks.texts("wrt", wrt)) if wrt != () else ()
        if len(set(wrt)) != len(wrt):
            raise arguments.ArgumentError(f"wrt = {', '.join(wrt)} names a parameter twice; name each once.")
        if not 0 < (tolerance := checks.number("tolerance", tolerance)) < 1:
            raise arguments.ArgumentError(f"tolerance = {tolerance}; choose a number such as 1e-12.")
        self.model, self.wrt, self.tolerance = model, wrt, tolerance
        steps = self._steps = arguments.whole("max_steps", max_steps, 1)
        self._blocks = Blocks()
        self._delayed = DelayFlow(model, self.tolerance) if model.delays else None
        self._core = None if model.delays else core_of(model, self.wrt, self.tolerance, steps)
        if model.delays and self.wrt:
            raise self._no_state("sensitivities by parameter")

    @property
    def core(self) -> Core:
        """Core of the flow; models with delays have none."""
        if self._core is None:
            raise self._no_state("tangents, sections, strobing and periodic orbits")
        return self._core

    def _no_state(self, what: str) -> ModelError:
        return ModelError(
            f'Model "{self.model.name}" has delays ({self.model.delays[0].symbol.name}): its state is a piece of its '
            f"past, so {what} by a state do not exist. Use trajectory(x, times), dense(x, t0, t1) or propagate without "
            "tangents."
        )

    def __reduce__(self) -> tuple[type[Flow], tuple[Model, tuple[str, ...], float, int]]:
        # Compiled code does not travel to other processes; there it is compiled again, or found compiled.
        return Flow, (self.model, self.wrt, self.tolerance, self._steps)

    @property
    def builds(self) -> int:
        """Number of integrators compiled in this process.

        Those of all flows are counted.
        """
        return count_builds()

    def period(self, parameters: Parameters = None) -> float | None:
        """Return the excitation period at these parameters.

        It is None for autonomous models.
        """
        law = PeriodLaw(self.model, ()) if self._core is None else self._core.period_law
        return law(arguments.parameter_vector(self.model, parameters))

    def propagate(
        self, x: Start, t0: float, t1: float, parameters: Parameters = None, tangents: bool = True
    ) -> Propagation[float, Event]:
        """Propagate a state from t0 to t1.

        t1 may be earlier or later than t0. tangents: compute the jacobian and the sensitivity too.
        """
        vector = arguments.parameter_vector(self.model, parameters)
        t0, t1 = arguments.instant("t0", t0), arguments.instant("t1", t1)
        if self._delayed is not None:
            if tangents:
                raise self._no_state("tangents")
            end = self._delayed.trajectory(x, t0, t1, vector)(t1)
            return Propagation(end, None, None, float("nan"), (), np.zeros(end.size, int))
        state = arguments.state_vector(self.model, x)
        return self.core.advance(state, t0, t1, vector, tangents)

    def propagate_many(
        self,
        X: Reals,
        t0: Reals,
        t1: Reals,
        parameters: Parameters = None,
        tangents: bool = False,
        processes: int | Executor | None = None,
        throw: bool = True,
        device: Literal["cuda"] | None = None,
    ) -> Many:
        """Propagate many states at once.

        X: (B, n); t0 and t1: scalars or (B,); parameters: one set or (B, npar).
        processes: how many work, this one included, or a concurrent.futures.Executor whose workers can import kapitza.
        throw=False gives NaN for members that fail instead of raising.
        device: "cuda" follows them on an NVIDIA card (extra `[cuda]`), with the tolerance of the flow but not the same
        bits, without a list of events; members that the card hands back are followed here and counted in `followed`.
        """
        states = arguments.state_rows(self.model, X)
        count = len(states)
        vectors = arguments.parameter_rows(self.model, parameters, count)
        begin, end = arguments.instants("t0", t0, count), arguments.instants("t1", t1, count)
        if device is not None and count:
            arguments.refuse_both(processes, device)

            def follow(rows: NDArray[np.intp]) -> Many:
                return advance_many(self.core, states[rows], begin[rows], end[rows], vectors[rows], tangents)

            result = propagate_on_device(self.core, self.model, states, begin, end, vectors, tangents, follow)
        else:
            result = advance_many(self.core, states, begin, end, vectors, tangents, processes)
        if throw and not np.isfinite(result.state).all():
            raise arguments.failed_members(result.state)
        return result

    def trajectories(
        self,
        X: Reals,
        times: Reals,
        parameters: Parameters = None,
        threads: int = 1,
        max_steps: int | None = None,
        refuse: bool = True,
    ) -> tuple[Array, Array, Array]:
        """Sample many short runs, each at its own times.

        X: (B, n); times: (B, m) increasing, the first that of X.
        It returns states (B, m, n), jacobians (B, m, n, n) by X, and sensitivities (B, m, n, k). max_steps: of each
        run, where fewer than the flow allows are enough. refuse: raise FlowError when a run fails; otherwise it is NaN
        after its start.
        """
        runs = self._many_times(X, times, parameters)
        reached, tangents = sample_lanes(self.core, *runs, threads, max_steps, refuse, self._blocks)
        n = self.core.size
        return reached, tangents[..., :n], tangents[..., n:]

    def paths(self, X: Reals, times: Reals, parameters: Parameters = None, refuse: bool = True) -> Array:
        """Return only the states (B, m, n) of `trajectories`.

        Without derivatives this is a fraction of the work.
        """
        return sample_lanes(self.core, *self._many_times(X, times, parameters), refuse=refuse, bare=True)[0]

    def _many_times(self, X: Reals, times: Reals, parameters: Parameters) -> tuple[Array, Array, Array]:
        states = arguments.state_rows(self.model, X)
        vectors = arguments.parameter_rows(self.model, parameters, len(states))
        instants = np.asarray(times, float)
        matching = instants.ndim == 2 and len(instants) == len(states) and instants.shape[1] > 0
        if not matching or not (np.diff(instants, axis=1) > 0).all():
            raise arguments.ArgumentError(
                f"times has the shape {instants.shape}; give {len(states)} rows of increasing times, one per state."
            )
        return states, instants, vectors

    def trajectory(self, x: Start, times: Reals, parameters: Parameters = None, project: bool = False) -> Array:
        """Return states (N, n) at increasing times (N,).

        The motion starts with x at times[0]; angles are continuous.
        For models with delays x is the past: a state (it was constant before), expressions in t by name, or a
        result of `dense`.
        project: bring every sample back onto the invariants of the model, with the values they have at x.
        """
        if self._delayed is not None:
            if project:
                raise self._no_state("invariants")
            instants = arguments.increasing_times(times)
            vector = arguments.parameter_vector(self.model, parameters)
            return self._delayed.sample(x, instants, vector)
        state, vector = arguments.state_vector(self.model, x), arguments.parameter_vector(self.model, parameters)
        if project:
            states, turns = projected_samples(self.core, state, arguments.increasing_times(times), vector)
            return states + turns
        return self.core.sample(state, arguments.increasing_times(times), vector, tangents=False)[0]

    def trajectory_tangents(self, x: State, times: Reals, parameters: Parameters = None) -> tuple[Array, Array, Array]:
        """Return states and tangents at increasing times.

        They are states (N, n), jacobians (N, n, n) by the state at times[0], and sensitivities (N, n, k).
        """
        state, vector = arguments.state_vector(self.model, x), arguments.parameter_vector(self.model, parameters)
        states, tangents = self.core.sample(state, arguments.increasing_times(times), vector, tangents=True)
        assert tangents is not None
        return states, tangents[:, :, : self.core.size], tangents[:, :, self.core.size :]

    def strobe(
        self,
        x: State,
        periods: int,
        samples_per_period: int = 1,
        parameters: Parameters = None,
        phase: float = 0.0,
    ) -> Strobe:
        """Sample the motion at phase + i·T/samples_per_period.

        The samples start with x. Angles are wrapped to [-π, π), and their turns are returned.
        """
        vector = arguments.parameter_vector(self.model, parameters)
        return strobe(self.core, x, periods, samples_per_period, vector, phase)

    def strobe_many(
        self,
        X: Reals,
        periods: int,
        parameters: Parameters = None,
        phase: float = 0.0,
        device: Literal["cuda"] | None = None,
    ) -> Strobe:
        """Strobe many states X (B, n) in SIMD batches.

        The states are (periods + 1, B, n).
        parameters: one set or (B, npar). Members that fail are NaN from there on. device: as of `propagate_many`.
        """
        starts = arguments.state_rows(self.model, X)
        vectors = arguments.parameter_rows(self.model, parameters, len(starts))
        if device is not None and len(starts) and self.core.period_law.expression is not None:
            count, begin = arguments.whole("periods", periods, 0), arguments.instant("phase", phase)
            return strobe_on_device(self.core, self.model, starts, count, vectors, begin)
        return strobe_many(self.core, starts, periods, vectors, phase)

    def section(
        self,
        x: State,
        surface: sp.Expr | str,
        crossings: int,
        direction: int = 1,
        t0: float = 0.0,
        parameters: Parameters = None,
        max_time: float | None = None,
    ) -> Crossings:
        """Locate the next crossings of a surface.

        The surface is surface(x, t, θ) = 0. direction: rising (+1), falling (-1) or both (0). The crossings are located
        to rounding.
        """
        vector = arguments.parameter_vector(self.model, parameters)
        return find_crossings(self.core, x, surface, crossings, direction, t0, vector, max_time)

    def dense(self, x: Start, t0: float, t1: float, parameters: Parameters = None) -> Dense | Past:
        """Return a function of time between t0 and t1.

        It gives the states at any time inside.
        For models with delays it also is the memory from which a later run goes on: pass it as x.
        """
        if self._delayed is not None:
            vector = arguments.parameter_vector(self.model, parameters)
            return self._delayed.trajectory(x, arguments.instant("t0", t0), arguments.instant("t1", t1), vector)
        state = arguments.state_vector(self.model, x)
        vector = arguments.parameter_vector(self.model, parameters)
        return Dense.record(self.core, state, arguments.instant("t0", t0), arguments.instant("t1", t1), vector)

    def rates(self, X: State, times: Reals = 0.0, parameters: Parameters = None) -> Array:
        """Evaluate the right-hand side (N, n) at states X.

        X: (N, n), or (n,) for one state, which gives (n,); times: scalar or (N,).
        Parameters are one set for all, or one row per state, (N, npar).
        """
        if self._delayed is not None:
            raise self._no_state("rates")
        given = arguments.state_vector(self.model, X) if isinstance(X, Mapping) else arguments.numbers("States", X)
        one = given.ndim == 1
        rows = arguments.state_vector(self.model, given)[None] if one else arguments.state_rows(self.model, given)
        if isinstance(parameters, np.ndarray) and parameters.ndim == 2:
            sets = arguments.parameter_rows(self.model, parameters, len(rows)).T
        else:
            sets = arguments.parameter_vector(self.model, parameters)
        instants = arguments.instants("times", times, len(rows))
        signals = self.model.signals
        values = np.column_stack([rows, instants, *(s(instants) for s in signals)])
        names = [*self.model.states, "t", *(s.name for s in signals)]
        structure = self.model.structure
        function = compile_expressions(structure.rates, names, self.model.names, structure.steps)
        result = function(np.ascontiguousarray(values.T), sets).T
        return result[0] if one else result
