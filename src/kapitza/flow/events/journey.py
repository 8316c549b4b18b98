"""One trajectory through its events.

It integrates to the next surface, settles the modes, carries the tangents, and continues.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import heyoka as hy
import numpy as np
import sympy as sp

from kapitza.base.arrays import Array
from kapitza.errors import EventError, FlowError
from kapitza.flow.domains import LastFinite
from kapitza.flow.engine import Event, Regime, described
from kapitza.flow.events.geometry import Geometry
from kapitza.flow.events.joints import JointMotion
from kapitza.flow.events.regimes import CompiledRegime, Ending, compiled_regime, flow_of
from kapitza.flow.events.settle import Place
from kapitza.model import compile_expressions

WRONG_SIDE = 1e-9
"""A surface this far on the wrong side, relative to the state, means that an event was lost."""

ROUNDING = 1e-15
"""A few units in the last place."""

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


def is_finite(values: Array) -> bool:
    """Return whether all numbers are finite.

    A finite sum shows it at once.
    """
    return math.isfinite(float(values.sum())) or bool(np.isfinite(values).all())


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
        # The next stretch is not longer than this: a return to a wall within a tiny part of a long step gets lost.
        self.longest = np.inf
        self.fastest = 0.0
        """Speed of the fastest impact so far."""
        self._count = self._at_once = 0
        self._last, self._stretch = -np.inf, 0.0
        self._joint_motion: tuple[Array, Array, Regime, JointMotion] | None = None
        self.speeds: list[float] = []
        """s of the joints of a linkage at the end of the last stretch."""

    @property
    def place(self) -> Place:
        return Place(self.state, self.t, self.parameters)

    def point(self) -> Array:
        return self.geometry.point(self.state, self.t, self.parameters, self.modes)

    def joint_motion(self) -> JointMotion | None:
        """Return the motion of a linkage with friction.

        It is evaluated at the current state, in its modes and regime; None for other systems.
        """
        joints = self.geometry.joints
        if joints is None or self.regime.contact:
            return None
        motion = self._known_motion()
        if motion is None:
            flags = self.geometry.flags_of(self.regime)
            motion = joints.motion(self.state, self.t, self.parameters, self.modes, flags)
            self._joint_motion = self.state, self.modes, self.regime, motion
        return motion

    def _known_motion(self) -> JointMotion | None:
        """Return the motion of a linkage, if known.

        It does not belong to a state or modes that were replaced since.
        """
        if self._joint_motion is None:
            return None
        state, modes, regime, motion = self._joint_motion
        return motion if state is self.state and modes is self.modes and regime is self.regime else None

    def go_on_as(self, state: Array, modes: Array, regime: Regime, motion: JointMotion) -> None:
        """Take a state, modes and regime with known motion."""
        self.state, self.modes, self.regime, self.changed = state, modes, regime, True
        self._joint_motion = state, modes, regime, motion

    def read_modes(self) -> Array:
        """Set the modes by the signs of the functions.

        Returns all s, then g.
        """
        self.modes = self.geometry.modes_at(self.state, self.t, self.parameters)
        return self.geometry.values(self.point())

    def rates_at(self, states: Array, times: Array) -> Array:
        """Return x' (N, n) at states (N, n).

        The states belong to the present stretch.
        """
        flow = flow_of(self.geometry, self.regime)
        inputs = (*flow.states, "t", *self.geometry.modes, *flow.flags)
        function = compile_expressions(flow.smooth_rates, inputs, flow.parameters, flow.smooth_steps)
        held = np.concatenate((self.modes, self.geometry.flags_of(self.regime) if flow.flags else ()))
        held = np.broadcast_to(held[:, None], (held.size, len(states)))
        return function(np.concatenate((states.T, times[None], held)), self.parameters).T

    def end_rates(self) -> Array | None:
        """Return x' (n,) on a surface that holds.

        The right-hand side does not determine it there; None in free motion.
        """
        return self.rates_at(self.state[None], np.array([self.t]))[0] if self.regime.collapses else None

    def follows_event(self) -> bool:
        """Return whether the last event was at this instant."""
        return bool(self.events) and self.t - self.events[-1].time <= SAME_INSTANT * (1.0 + abs(self.t))

    def note(self, kind: str, index: int, direction: float, before: Array) -> None:
        self.events.append(Event(self.t, kind, index, int(np.sign(direction)), before, self.state.copy()))

    def advance(self, t1: float, grid: Array) -> tuple[Ending | None, Array | None]:
        """Integrate to the next ending of the regime.

        The stretch also ends at the end of the grid or at t1. The surfaces that were passed are checked.
        """
        settings = self.settings
        t1, self.longest = min(t1, self.t + self.longest), np.inf
        if grid.size and grid[-1] > t1:
            grid = grid[: int(np.searchsorted(grid, t1, side="right"))]
        compiled = compiled_regime(self.geometry, self.regime, settings.wrt, settings.tolerance, settings.observe)
        integrator, now, values = compiled.integrator, compiled.state, compiled.values
        now[:], runtime = self.packed()
        values[:] = runtime[: values.size]
        integrator.time = self.t
        if self.changed and compiled.endings:
            integrator.reset_cooldowns()
        samples = None
        if grid.size:
            result = integrator.propagate_grid(np.concatenate(((self.t,), grid)), max_steps=settings.max_steps)
            samples = result[5][1:]
        else:
            result = integrator.propagate_until(t1, max_steps=settings.max_steps)
        reached, t = now.copy(), integrator.time
        if is_finite(reached[: self.geometry.size]):
            self._take_over(reached, t)
        else:
            self._go_to_the_last_finite(integrator, t1)
            self.unpack(reached, t)
        ending = self.ending_of(compiled.endings, result[0])
        self._read_notes(compiled)
        # A lost event gives wrong numbers without an error: test the modes after every stretch.
        self.guard()
        if ending is not None:
            self.limit_events()
        return ending, samples

    def _go_to_the_last_finite(self, integrator: hy.taylor_adaptive_dbl, t1: float) -> None:
        """Repeat a failed run to find its last state.

        A failure at the end of a term is named.
        """
        found = LastFinite(self.geometry.size, self.state, self.t)
        integrator.state[:], runtime = self.packed()
        integrator.pars[:] = runtime[: integrator.pars.size]
        integrator.time = self.t
        integrator.propagate_until(t1, max_steps=self.settings.max_steps, callback=found)
        self.state, self.t = found.state, found.time
        self.name_the_end()

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

    def packed(self) -> tuple[Array, Array]:
        """Return the start of an integrator of this regime.

        It is (x, V, log|det V|) and (θ, m, flags, offsets).
        """
        parts = [self.state]
        if self.tangents is not None:
            parts += [self.tangents.ravel(), np.zeros(0 if self.regime.collapses else 1)]
        flags = self.geometry.flags_of(self.regime)
        return np.concatenate(parts), np.concatenate((self.parameters, self.modes, flags, self._offsets()))

    def unpack(self, values: Array, t: float) -> None:
        """Take over the state that an integrator has reached."""
        n = self.geometry.size
        if not (math.isfinite(t) and is_finite(values[:n])):
            raise FlowError(
                f"The trajectory left the finite numbers after {self.described()}. "
                "It diverges, or the equations are singular there; check the parameters and the start."
            )
        self._take_over(values, t)

    def _take_over(self, values: Array, t: float) -> None:
        n = self.geometry.size
        self.state, self.t, self._stretch = values[:n], t, t - self.t
        if self.tangents is not None:
            self.tangents = values[n : n * (1 + self.columns)].reshape(n, self.columns)
            self.log_determinant += values[n * (1 + self.columns) :].sum()

    def _offsets(self) -> Array:
        """Return the offsets of all surfaces.

        Each is a few roundings of the largest value of its function in the time of the last stretch.
        """
        geometry, reach = self.geometry, np.abs(self.state)
        known = self._known_motion()
        if known is not None:
            return self._offsets_of_joints(known)
        if self._stretch:
            sides = (geometry.point(self.state, self.t, self.parameters, m) for m in (self.modes, -self.modes))
            # On the other side a term may have no value.
            reach = reach + self._stretch * np.fmax(*(np.abs(geometry.rates(p)) for p in sides))
        point = self.point()
        tables = (geometry.of_switches(point), *((geometry.of_walls(point),) if geometry.walls else ()))
        return np.concatenate(
            [ROUNDING * (np.abs(g.by_state) @ reach + np.abs(g.by_time) * self._stretch) + 1e-100 for g in tables]
        )

    def _offsets_of_joints(self, motion: JointMotion) -> Array:
        """Return the offsets where a linkage's motion is known.

        On the other side of a joint the motion is of the same size.
        """
        joints = self.geometry.joints
        assert joints is not None
        reach, stretch, n = np.abs(self.state), self._stretch, joints.size
        speeds = reach[n:] + 2 * stretch * np.abs(motion.accelerations)
        offsets = ROUNDING * (joints.sizes @ speeds) + 1e-100
        if not joints.walls:
            return offsets
        places = reach[:n] + stretch * reach[n:]
        reached = np.abs(motion.wall_slopes) @ np.concatenate((places, speeds, (stretch,)))
        return np.concatenate((offsets, ROUNDING * reached + 1e-100))

    def ending_of(self, endings: tuple[Ending, ...], outcome: hy.taylor_outcome) -> Ending | None:
        """Return the ending an integrator stopped at.

        None at the end of the time; any other outcome is a failure.
        """
        if outcome == hy.taylor_outcome.time_limit:
            return None
        number = -int(outcome.value) - 1
        if 0 <= number < len(endings):
            return endings[number]
        self.name_the_end()
        if outcome == hy.taylor_outcome.step_limit:
            self.refuse_more_steps()
        raise FlowError(
            f"The trajectory left the finite numbers near {self.described()}. "
            "It diverges, or the equations are singular there; check the parameters and the start."
        )

    def refuse_more_steps(self) -> None:
        raise FlowError(
            f"The trajectory needs more than {self.settings.max_steps} steps in one stretch; it is at "
            f"{self.described()}. It probably diverges; check the parameters and the start, or raise max_steps."
        )

    def _read_notes(self, compiled: CompiledRegime) -> None:
        """Read the notes of observed crossings and approaches.

        Nearest approaches to walls are grazes, or penetrations that no event showed.
        """
        for note in compiled.crossings:
            self.events.extend(note.found)
            note.found.clear()
        for note in compiled.approaches:
            for t, state in note.found if note.index not in self.regime.contact else ():
                self.judge_approach(note.index, t, state)
            note.found.clear()

    def judge_approach(self, wall: int, t: float, state: Array) -> None:
        """Classify a nearest approach to a wall.

        It is farther than rounding, a graze, or a penetration that no event showed.
        """
        if self.events and t - self.events[-1].time <= SAME_INSTANT * (1.0 + abs(t)):
            return
        point = self.geometry.point(state, t, self.parameters, self.modes)
        distance = float(self.geometry.values(point)[self.geometry.switches + wall])
        allowed = WRONG_SIDE * (1.0 + float(np.abs(state).max()))
        if distance < -allowed:
            self._refuse_penetration(wall, distance, t)
        if distance <= allowed:
            self.events.append(Event(t, "graze", wall, 0, state, state))

    def guard(self) -> None:
        """Refuse a state that contradicts the modes.

        An event was lost then.
        """
        geometry = self.geometry
        motion = self.joint_motion()
        if motion is not None and self._is_right(motion):
            return
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

    def _is_right(self, motion: JointMotion) -> bool:
        """Return whether the state agrees with the modes.

        Joints are on the sides of their modes, those that stick are at rest, and walls are not penetrated.

        Beyond rounding `guard` reports which is not.
        """
        assert self.geometry.joints is not None
        stuck, modes = self.regime.stuck, self.modes.tolist()
        self.speeds = self.geometry.joints.speeds(self.state)
        signed = [-abs(s) if k in stuck else m * s for k, (s, m) in enumerate(zip(self.speeds, modes, strict=True))]
        return min(*signed, *motion.walls) >= -WRONG_SIDE

    def _refuse_penetration(self, wall: int, distance: float, t: float) -> None:
        raise EventError(
            f"At t = {t:.9g} the wall {self.geometry.system.walls[wall].surface} >= 0 is penetrated by "
            f"{-distance:.3g}: an impact was lost. Start on the free side, or raise contact_speed "
            f"(now {self.settings.contact_speed:g})."
        )

    def limit_events(self) -> None:
        """Stop motions whose events never end."""
        self._count += 1
        # Times that differ by rounding are one instant.
        same = self.t - self._last <= 1e-13 * (1.0 + abs(self.t))
        self._at_once = self._at_once + 1 if same else 0
        self._last = self.t
        if self._at_once > self.settings.max_events_at_once:
            raise EventError(
                f"More than {self.settings.max_events_at_once} events at one instant, {self.described()}: the modes "
                "do not settle. Two surfaces probably switch each other; smooth one of them."
            )
        if self._count > self.settings.max_events:
            self.refuse_more_events()

    def refuse_more_events(self) -> None:
        raise EventError(
            f"More than {self.settings.max_events} events in one stretch, the last at {self.described()}. Events "
            "accumulate; raise contact_speed, or max_events if the motion really has so many."
        )

    def described(self) -> str:
        return f"t = {self.t:.9g} with {described(self.geometry.system, self.state)}"
