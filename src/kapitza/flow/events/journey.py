"""A trajectory at an instant that the compiled stepper does not decide.

It holds what the event logic changes there: state, modes, regime, tangents and events.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import sympy as sp

from kapitza.base.arrays import Array
from kapitza.errors import EventError, FlowError
from kapitza.flow.engine import Event, Regime, described
from kapitza.flow.events.geometry import Geometry
from kapitza.flow.events.settle import Place

WRONG_SIDE = 1e-9
"""A surface this far on the wrong side, relative to the state, means that an event was lost."""

SAME_INSTANT = 1e-9
"""Events closer in time than this, relative to the time, count as one instant."""


@dataclass(frozen=True)
class Settings:
    """How a journey is run.

    wrt: parameters of the sensitivities, or None for a run without tangents. observe: surfaces whose crossings are
    noted. contact_speed: a rebound slower than this, pressed against its wall, becomes a lasting contact; in units of
    the surface per time. Motions that are slow by themselves have a smaller one: see `resting_speeds`.
    """

    wrt: tuple[int, ...] | None
    tolerance: float
    observe: tuple[sp.Expr, ...] = ()
    contact_speed: float = 1e-6
    max_steps: int = 100_000
    max_events: int = 100_000
    max_events_at_once: int = 64


class Journey:
    """A state on its trajectory with events.

    It holds x (n,), its tangents from the identity, modes, regime, and the events so far.
    """

    def __init__(self, geometry: Geometry, settings: Settings, state: Array, t0: float, parameters: Array):
        self.geometry, self.settings, self.parameters = geometry, settings, parameters
        self.state, self.t = np.array(state, float), float(t0)
        self.columns = geometry.size + len(settings.wrt or ())
        self.tangents = None if settings.wrt is None else np.eye(geometry.size, self.columns)
        self.modes, self.regime = np.ones(geometry.switches), Regime()
        self.log_determinant = np.nan if self.tangents is None else 0.0
        self.events: list[Event] = []
        self.changed = True
        self.fastest = 0.0
        """Speed of the fastest impact so far."""
        self._count = self._at_once = 0
        self._last = -np.inf

    @property
    def place(self) -> Place:
        return Place(self.state, self.t, self.parameters)

    def point(self) -> Array:
        return self.geometry.point(self.state, self.t, self.parameters, self.modes)

    def read_modes(self) -> Array:
        """Set the modes by the signs of the functions.

        Returns all s, then g.
        """
        self.modes = self.geometry.modes_at(self.state, self.t, self.parameters)
        return self.geometry.values(self.point())

    def follows_event(self) -> bool:
        """Return whether the last event was at this instant."""
        return bool(self.events) and self.t - self.events[-1].time <= SAME_INSTANT * (1.0 + abs(self.t))

    def note(self, kind: str, index: int, direction: float, before: Array) -> None:
        self.events.append(Event(self.t, kind, index, int(np.sign(direction)), before, self.state.copy()))

    def name_the_end(self) -> None:
        """Refuse the motion where a term ends nearby.

        The message names the term.
        """
        geometry = self.geometry
        runtime = np.concatenate((self.parameters, self.modes))
        edge = geometry.domain.nearest(self.state, self.t, runtime) if geometry.system.edges else None
        if edge is not None:
            raise geometry.domain.refusal(edge, self.described())

    def enter_domains(self) -> None:
        """Move the state into the domains of active terms.

        The modes have switched these terms on.
        """
        domain = self.geometry.domain
        if domain.is_entered:
            runtime = np.concatenate((self.parameters, self.modes))
            self.state, self.t = domain.inside(self.state, self.t, runtime)

    def refuse_to_diverge(self) -> None:
        """Refuse a motion whose series is not finite.

        A term that ends nearby is named.
        """
        self.name_the_end()
        raise FlowError(
            f"The trajectory left the finite numbers after {self.described()}. "
            "It diverges, or the equations are singular there; check the parameters and the start."
        )

    def refuse_more_steps(self) -> None:
        raise FlowError(
            f"The trajectory needs more than {self.settings.max_steps} steps in one stretch; it is at "
            f"{self.described()}. It probably diverges; check the parameters and the start, or raise max_steps."
        )

    def guard(self) -> None:
        """Refuse a state that contradicts the modes.

        An event was lost then.
        """
        geometry = self.geometry
        values = geometry.values(self.point())
        allowed = WRONG_SIDE * (1.0 + float(np.abs(self.state).max()))
        # A function with the mode 0 is zero all around.
        signed = np.where(
            self.modes == 0.0, -np.abs(values[: geometry.switches]), self.modes * values[: geometry.switches]
        )
        signed[list(self.regime.stuck)] = -np.abs(signed[list(self.regime.stuck)])
        if signed.size and signed.min() < -allowed:
            i = int(signed.argmin())
            held = "is held at zero" if i in self.regime.stuck else f"has the mode {self.modes[i]:+.0f}"
            raise EventError(
                f"At {self.described()} the switch {geometry.system.switches[i].function} = {values[i]:.3g} {held}: "
                "a crossing was lost. Tighten the tolerance, or shorten the stretch."
            )
        distances = values[geometry.switches :]
        if distances.size and distances.min() < -allowed:
            self._refuse_penetration(int(distances.argmin()), float(distances.min()), self.t)

    def _refuse_penetration(self, wall: int, distance: float, t: float) -> None:
        raise EventError(
            f"At t = {t:.9g} the wall {self.geometry.system.walls[wall].surface} >= 0 is penetrated by "
            f"{-distance:.3g}: an impact was lost. Start on the free side, or raise contact_speed "
            f"(now {self.settings.contact_speed:g})."
        )

    def limit_events(self) -> None:
        """Stop motions whose events never end."""
        self._count += 1
        if self._count > self.settings.max_events:
            self.refuse_more_events()
        self.limit_at_once()

    def limit_at_once(self) -> None:
        """Stop motions that stay at one instant."""
        # Times that differ by rounding are one instant.
        same = self.t - self._last <= 1e-13 * (1.0 + abs(self.t))
        self._at_once = self._at_once + 1 if same else 0
        self._last = self.t
        if self._at_once > self.settings.max_events_at_once:
            raise EventError(
                f"More than {self.settings.max_events_at_once} events at one instant, {self.described()}: the modes "
                "do not settle. Two surfaces probably switch each other; smooth one of them."
            )

    def refuse_more_events(self) -> None:
        raise EventError(
            f"More than {self.settings.max_events} events in one stretch, the last at {self.described()}. Events "
            "accumulate; raise contact_speed, or max_events if the motion really has so many."
        )

    def described(self) -> str:
        return f"t = {self.t:.9g} with {described(self.geometry.system, self.state)}"
