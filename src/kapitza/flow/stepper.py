"""Short steps with parameters that change between them.

A sampled controller does this to a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import heyoka as hy
import numpy as np

from kapitza.base.arrays import Array
from kapitza.base.cures import Give
from kapitza.errors import FlowError, ModelError
from kapitza.flow.compiled import cached, compile_integrator, equations, is_short
from kapitza.flow.domains import Domain
from kapitza.flow.engine import described
from kapitza.flow.events import EventEngine
from kapitza.flow.gaps import Gaps
from kapitza.flow.hoisting import constants_function, hoist_constants
from kapitza.flow.kernel.engine import Steps
from kapitza.flow.system import polynomial_signals, system_of
from kapitza.flow.tails import watched_limit
from kapitza.model import Model, symbol

_whole = hy.taylor_outcome.time_limit

Numbers: TypeAlias = "memoryview[Any]"
"""View of an array, quicker to read and write number by number than the array."""


class Stepper:
    """A model advanced in short steps.

    `step(values, length)` advances `state`, after `begin(time)` and until `release`.

    held: names of parameters that change from step to step, neighbours at the end of `model.names`. Other parameters
    change by `load`. Within a step everything is constant but the states and the time.

    Models with switches, impacts or terms that end are advanced by the compiled stepper, which locates events, and so
    are those whose series may have gaps (`kapitza.flow.gaps`); others make plain Taylor steps.
    """

    def __init__(self, model: Model, held: Sequence[str] = (), tolerance: float = 1e-11):
        if model.delays:
            raise ModelError(
                f'Model "{model.name}" has delays ({model.delays[0].symbol.name}); a rig steps the present state '
                "alone. Leave out the delay in the equations; that of a controller is a setting of its feedback."
            )
        if polynomial_signals(model):
            raise ModelError(
                f'Model "{model.name}" has a measured excitation given by samples; a rig needs it as a Fourier series '
                f"({Give(kind='fourier')} of the signal)."
            )
        if held and tuple(held) != model.names[-len(held) :]:
            raise ModelError("Held parameters must be the last ones of the model, in their order.")
        self.model, self.tolerance = model, tolerance
        absorbed = frozenset(symbol(name) for name in model.names if name not in held)
        self.system = hoist_constants(system_of(model), absorbed)
        self.size = len(self.system.states)
        self._first, self._last = len(model.names) - len(held), len(model.names)
        self._constants = constants_function(self.system)
        self._runtime = np.zeros(len(self.system.parameters))
        self._state = np.zeros(self.size)
        self._engine: EventEngine | None = None
        self._steps: Steps | None = None
        self.load(model.vector)
        domain = Domain(self.system)
        # A root is entered at a margin that a loose tolerance would lose.
        fine = min(tolerance, 1e-15) if domain.is_entered else tolerance
        engine = cached(("stepped", self.system, fine), lambda: EventEngine(self.system, (), fine))
        located = self.system.switches or self.system.walls or domain.watched
        if located or (Gaps(self.system).filling_rate(self._unheld()) == 0.0 and engine.has_kernel(False)):
            self._engine = engine
        else:
            self._ta = cached(("stepper", self.system, tolerance), lambda: compile_integrator(self._build))

    def _build(self) -> hy.taylor_adaptive_dbl:
        written = equations(self.system)
        compact = not is_short(self.system, written)
        limit = watched_limit(self.system)
        return hy.taylor_adaptive(written, [0.0] * self.size, tol=self.tolerance, compact_mode=compact, nt_events=limit)

    def load(self, vector: Array) -> None:
        """Load all parameters, in the order of `model.names`."""
        values = np.asarray(vector, float)
        constants = self._constants(np.empty((0, 1)), values)[:, 0] if self.system.constants else np.empty(0)
        self._runtime[:] = np.concatenate((values, constants))

    def _unheld(self) -> Array:
        """Return the run-time values with 1 for held ones.

        Held values change: none of them decides whether the rates jump, or which orders a series has.
        """
        unknown = self._runtime.copy()
        unknown[self._first : self._last] = 1.0
        return unknown

    @property
    def state(self) -> Array:
        """Current state (n,).

        It is a view that the next step changes.
        """
        return self._state

    @property
    def view(self) -> Numbers:
        """Current state between `begin` and `release`.

        For a few numbers it is much quicker to read than an array.
        """
        return self._view

    def begin(self, state: Array, time: float) -> None:
        """Continue from this state at this time.

        The integrator belongs to this stepper until `release`.
        """
        self._now = time
        if self._engine is not None:
            self._steps = self._engine.serving(self._unheld()[None]).steps()
            self._state, runtime = self._steps.x, self._steps.runtime
        else:
            self._state, runtime = self._ta.state, self._ta.pars
            self._ta.time = time
            self._taylor = self._ta.step  # each look at an attribute of the integrator costs a microsecond
        self._state[:] = state
        self._view: Any = self._state.data
        used = min(runtime.size, self._runtime.size)
        runtime[:used] = self._runtime[:used]
        # Parameters that occur in no equation may be missing at the end.
        stop = min(self._last, runtime.size)
        self._window: Any = runtime.data[self._first : stop]
        self._partial = stop < self._last

    def step(self, values: Array | Numbers, length: float) -> None:
        """Advance by `length` seconds with these held values."""
        self._window[:] = values[: len(self._window)] if self._partial else values
        if self._steps is not None:
            begin, self._now = self._now, self._now + length
            self._steps.advance(begin, self._now)
            return
        outcome, done = self._taylor(length)
        if done != length and outcome != _whole:
            self._finish(outcome, length, done)

    def _finish(self, outcome: hy.taylor_outcome, length: float, done: float) -> None:
        """Make the rest of a long step.

        The step was too long for one Taylor polynomial.
        """
        ta = self._ta
        if outcome == hy.taylor_outcome.success:
            outcome = ta.propagate_for(length - done, max_steps=1000)[0]
            if outcome == _whole:
                return
        place = described(self.system, ta.state[: self.size])
        raise FlowError(
            f"The trajectory left the finite numbers near t = {ta.time:.6g} with {place}: it diverges, or the "
            "equations are singular there."
        )

    def release(self) -> None:
        """Copy the state out of the integrator.

        Other steppers of the same equations share the integrator.
        """
        self._state = np.array(self._state)
