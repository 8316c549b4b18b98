"""Changes at an instant: modes, tangents, events.

The modes are settled, the tangents carried across, and the events noted.
These functions change a `Journey` that is at a start or at a located event.
"""

from __future__ import annotations

import numpy as np

from kapitza.base.arrays import Array
from kapitza.errors import EventError
from kapitza.flow.engine import Edge, Regime
from kapitza.flow.events.geometry import Gradients
from kapitza.flow.events.journey import WRONG_SIDE, Journey
from kapitza.flow.events.regimes import CROSS, DETACH, EDGE, IMPACT, RELEASE, REPEL, Ending
from kapitza.flow.events.saltation import cross_switch, pass_impact, per_unit, project
from kapitza.flow.events.settle import (
    CLEAR,
    FREE,
    HOLD,
    MOMENT,
    STICK,
    Answer,
    Place,
    Question,
    complete,
    is_touched,
    motion,
    settle,
)

Answers = dict[int, tuple[Answer, ...]]
"""By switch or wall: the answers that an event leaves open."""

LOST_FLIGHT = 1e-6
"""A flight of this speed, relative to that of a fall over the distance of the wall from the origin, is 1e-12 of that
distance high: some thousand roundings."""

SAME_SHIFT = 1e-9
"""Shifts of instants by perturbations that differ less, relative to the largest, are the same."""


def begin(journey: Journey) -> None:
    """Set the modes of a start.

    They come from the state, and from the motion where a surface is reached.
    """
    values = journey.read_modes()
    values[: journey.geometry.switches] *= journey.modes
    if values.min(initial=np.inf) > CLEAR:
        return
    journey.guard()
    if struck_walls(journey):
        strike(journey)
    else:
        resettle(journey)
        hold(journey, Regime())


def meet(journey: Journey, ending: Ending) -> None:
    """Settle the changes of one located event."""
    i = ending.index
    if ending.kind == CROSS:
        decide(journey, {i: (STICK, 1, -1)}, {}, trigger=i)
    elif ending.kind == RELEASE:
        held = motion(journey.geometry, journey.place, journey.modes, journey.regime)
        control = held.controls[journey.regime.stuck.index(i)]
        if np.isnan(control):
            _refuse_both_sides(journey, i)
        decide(journey, {i: (int(np.sign(control)),)}, {})
    elif ending.kind == REPEL:
        if not _attracts_again(journey, i):
            _refuse_both_sides(journey, i)
    elif ending.kind == DETACH:
        decide(journey, {}, {i: (FREE,)})
    elif ending.kind == EDGE:
        _pass_edge(journey, journey.geometry.system.edges[i])
    elif ending.kind == IMPACT:
        if struck_walls(journey):
            strike(journey)
        elif not _is_approached(journey, i):
            decide(journey, {}, {i: (HOLD, FREE)})


def _attracts_again(journey: Journey, switch: int) -> bool:
    """Return whether the gain of a held surface only touches zero.

    The gain s_x E is positive where the surface attracts; it is evaluated a moment later.
    """
    geometry, place = journey.geometry, journey.place
    fields = []
    for side in (1.0, -1.0):
        modes = journey.modes.copy()
        modes[switch] = side
        fields.append(motion(geometry, place, modes, Regime()).field)
    # Where the gain vanishes with its load the field on the surface is the mean of both sides.
    field = (fields[0] + fields[1]) / 2
    moment = MOMENT * (1.0 + np.abs(place.state).max()) / (1.0 + np.abs(field).max())
    ahead = Place(place.state + moment * field, place.t + moment, place.parameters)
    later = motion(geometry, ahead, journey.modes, journey.regime)
    k = journey.regime.stuck.index(switch)
    return bool(later.gain[k, k] > 0.0)


def _refuse_both_sides(journey: Journey, switch: int) -> None:
    """Refuse a surface that repels on both sides.

    The motion was held on it until now.
    """
    function = journey.geometry.system.switches[switch].function
    raise EventError(
        f"At {journey.described()} the surface {function} = 0, on which the motion is held, does not attract it any "
        "more, and the rates on its two sides do not define to which one it is left. "
        "Smooth one of the switches, or start elsewhere."
    )


def _pass_edge(journey: Journey, edge: Edge) -> None:
    """Continue at the end of a term, or refuse.

    The motion continues where a switch defines how, or where the term has no end at these values.
    """
    geometry = journey.geometry
    runtime = np.concatenate((journey.parameters, journey.modes))
    if geometry.domain.passes(edge, journey.state, journey.t, runtime):
        return
    gradients = geometry.of_switches(journey.point())
    near = np.abs(gradients.value) <= geometry.closeness(gradients, journey.point())
    asked = [i for i in edge.guards if near[i]]
    if edge.guards and not asked:
        return
    if len(asked) != 1:
        raise geometry.domain.refusal(edge, journey.described())
    here = int(journey.modes[asked[0]])
    decide(journey, {asked[0]: (-here, here)}, {}, trigger=asked[0])


def question(journey: Journey, switches: Answers, walls: Answers) -> Question:
    """Return the reached switches and walls with their options.

    They are within rounding of their surfaces; the options are the answers to try for each.
    """
    geometry, point = journey.geometry, journey.point()
    open_switches: list[tuple[int, tuple[Answer, ...]]] = []
    open_walls: list[tuple[int, tuple[Answer, ...]]] = []
    place = journey.state, journey.t, journey.parameters
    if geometry.switches:
        gradients = geometry.of_switches(point)
        near = np.abs(gradients.value) <= geometry.closeness(gradients, point)
        for i, switch in enumerate(geometry.system.switches):
            if near[i] and i not in switches and geometry.is_flat(i, *place, journey.modes):
                # A function that vanishes altogether does so until a switch inside it changes.
                near[i] = any(near[k] or k in switches for k in geometry.inner(i))
            if near[i] or i in switches or i in journey.regime.stuck:
                options: tuple[Answer, ...] = (1, -1) if switch.continuous else (STICK, 1, -1)
                if geometry.domain.quiet_side(i, journey.modes) < 0:
                    # Of two equal answers the one without terms that have no slope here.
                    options = (-1, 1) if switch.continuous else (STICK, -1, 1)
                open_switches.append((i, switches.get(i, options)))
        if len(open_switches) == 1:
            # A surface that is touched is not crossed. With others in question the field is not known before they are.
            ((i, options),) = open_switches
            if i not in journey.regime.stuck and len(options) > 1:
                touched = is_touched(geometry, journey.place, journey.modes, i, gradients)
                open_switches = [(i, (int(journey.modes[i]),) if touched else options)]
    if geometry.walls:
        surfaces, speeds = geometry.of_walls(point), geometry.of_speeds(point)
        near = surfaces.value <= geometry.closeness(surfaces, point)
        slow = np.abs(speeds.value) <= resting_speeds(journey, surfaces, speeds)
        for j in range(geometry.walls):
            if (near[j] and slow[j]) or j in journey.regime.contact or j in walls:
                open_walls.append((j, walls.get(j, (HOLD, FREE))))
    return Question(tuple(open_switches), tuple(open_walls))


def resting_speeds(journey: Journey, surfaces: Gradients, speeds: Gradients) -> Array:
    """Return the rebound speeds that become lasting contact.

    There is one for each wall, in any units of the model.
    At most contact_speed; below that a share of the fastest impact, or the speed of a flight whose height is lost in
    the rounding of the place.
    """
    geometry, point, most = journey.geometry, journey.point(), journey.settings.contact_speed
    pull = np.abs(speeds.by_state) @ np.abs(geometry.rates(point)) + np.abs(speeds.by_time)
    reach = np.abs(surfaces.by_state) @ np.abs(journey.state) + np.abs(surfaces.by_time * journey.t)
    resting = np.fmax(LOST_FLIGHT * np.sqrt(pull * reach), most * journey.fastest)
    return np.maximum(np.minimum(most, resting), geometry.closeness(speeds, point))


def resettle(journey: Journey) -> None:
    """Settle the modes of a state that was set.

    The state was set by a start or a reset; no tangents are carried across.
    """
    journey.regime = Regime()
    journey.read_modes()
    journey.modes, journey.regime = settle(journey.geometry, journey.place, journey.modes, question(journey, {}, {}))
    journey.changed = True
    journey.enter_domains()


def decide(journey: Journey, switches: Answers, walls: Answers, trigger: int | None = None) -> None:
    """Set modes and regime after a located event."""
    asked = question(journey, switches, walls)
    modes, regime = settle(journey.geometry, journey.place, journey.modes, asked)
    _go_on(journey, [i for i, _ in asked.switches], modes, regime, trigger)


def _go_on(journey: Journey, asked: list[int], modes: Array, regime: Regime, trigger: int | None) -> None:
    """Continue in new modes and a new regime.

    The tangents are carried across every switch that is passed.
    """
    before = journey.state.copy()
    old_modes, old = journey.modes, journey.regime
    passed = [
        i
        for i in asked
        if i not in old.stuck and (i in regime.stuck or (modes[i] != old_modes[i] and modes[i] and old_modes[i]))
    ]
    # Continuous switches first, as they change no rates, and those that stick last: a release at the instant
    # goes with the last one, and a surface beside one that is held already may have no separate rate any more.
    system = journey.geometry.system
    passed.sort(key=lambda i: (not system.switches[i].continuous, i in regime.stuck, i != trigger))
    rates = _carry(journey, passed, modes, regime)
    journey.modes, journey.regime = modes, regime
    journey.changed = not np.array_equal(modes, old_modes) or regime != old
    hold(journey, old)
    journey.enter_domains()
    for i, rate in zip(passed, rates, strict=True):
        if i in regime.stuck:
            journey.note("stick", i, rate, before)
        elif not journey.geometry.system.switches[i].continuous:
            journey.note("cross", i, rate, before)
            if abs(rate) <= journey.settings.contact_speed:
                journey.note("graze", i, rate, before)
    if trigger is not None and not journey.changed and not journey.follows_event():
        journey.note("graze", trigger, 0, before)
    note_changes(journey, old, before)


def note_changes(journey: Journey, old: Regime, before: Array) -> None:
    """Note releases, contacts and detachments between two regimes."""
    for i in old.stuck:
        if i not in journey.regime.stuck:
            journey.note("release", i, journey.modes[i], before)
    for j in journey.regime.contact:
        if j not in old.contact:
            journey.note("contact", j, 0, before)
    for j in old.contact:
        if j not in journey.regime.contact:
            journey.note("detach", j, 1, before)


def _carry(journey: Journey, passed: list[int], modes: Array, regime: Regime) -> list[float]:
    """Carry the tangents across the passed switches.

    The switches are passed one after another. Returns their rates before.
    A switch or contact that is released by a passed switch goes with the last one, as it has no separate surface.
    """
    geometry, place = journey.geometry, journey.place
    if not passed:
        return []
    trial, between = journey.modes.copy(), journey.regime
    field = motion(geometry, place, trial, between).field
    gradients = geometry.of_switches(journey.point())
    if journey.tangents is not None and _are_one(journey.tangents, gradients, passed, field):
        after = motion(geometry, place, modes, regime).field
        journey.tangents, change = cross_switch(journey.tangents, gradients, passed[-1], field, after)
        journey.log_determinant += change
        return [float(rate) for rate in gradients.rates(field)[passed]]
    rates: list[float] = []
    for i in passed:
        rates.append(float(gradients.rates(field)[i]))
        if i == passed[-1] and journey.tangents is None:
            break
        if i == passed[-1]:
            after = motion(geometry, place, modes, regime).field
        else:
            trial[i] = modes[i]
            if i in regime.stuck:
                between = Regime((*between.stuck, i), between.contact)
            trial = complete(geometry, place, trial, passed)
            after = motion(geometry, place, trial, between).field
        if journey.tangents is not None:
            journey.tangents, change = cross_switch(journey.tangents, gradients, i, field, after)
            journey.log_determinant += change
        field = after
    return rates


def _are_one(tangents: Array, gradients: Gradients, passed: list[int], field: Array) -> bool:
    """Return whether the switches are passed at one instant.

    All perturbations must pass them together, as x' and y' of bodies that stick together do.
    """
    rates = gradients.rates(field)[passed]
    if len(passed) < 2 or not rates.all():
        return False
    reached = gradients.by_state[passed] @ tangents
    reached[:, len(field) :] += gradients.by_parameter[passed]
    shifts = reached / rates[:, None]
    return bool(np.ptp(shifts, axis=0).max() <= SAME_SHIFT * np.abs(shifts).max())


def hold(journey: Journey, old: Regime) -> None:
    """Project the state onto the surfaces that hold.

    The tangents are projected too.
    """
    regime, geometry = journey.regime, journey.geometry
    if not regime.collapses or regime == old:
        return
    held = motion(geometry, journey.place, journey.modes, regime)
    point = journey.point()
    stuck, contact = list(regime.stuck), list(regime.contact)
    off = np.concatenate((geometry.of_switches(point).value[stuck], geometry.of_speeds(point).value[contact]))
    journey.state = journey.state - per_unit(held.directions, held.gain) @ off
    if contact:
        point = journey.point()
        surfaces = geometry.of_walls(point)
        displacements = geometry.jacobian(point) @ held.directions[:, len(stuck) :]
        rows = surfaces.by_state[contact]
        journey.state = journey.state - per_unit(displacements, rows @ displacements) @ surfaces.value[contact]
        for j in contact:
            _require_rest(journey, j)
    if journey.tangents is not None:
        journey.tangents = project(journey.tangents, geometry, journey.place, journey.modes, regime, held)
        # The tangent map onto a surface is singular.
        journey.log_determinant = -np.inf


def _require_rest(journey: Journey, wall: int) -> None:
    """Refuse a contact that the reset moves.

    A contact can last only where the reset leaves a touching state at rest as it is.
    """
    moved = journey.geometry.of_reset(wall, journey.point()).value - journey.state
    if np.abs(moved).max() > 1e-9 * (1.0 + np.abs(journey.state).max()):
        raise EventError(
            f"At {journey.described()} the impacts at {journey.geometry.system.walls[wall].surface} = 0 die out, but "
            f"the reset moves the resting state by {np.abs(moved).max():.3g}: no lasting contact is defined by "
            "this model. Write a reset that changes nothing at zero speed."
        )


def struck_walls(journey: Journey) -> list[int]:
    """Return the walls that are struck.

    They are reached at a speed that is more than rounding.
    """
    geometry, point = journey.geometry, journey.point()
    if not geometry.walls:
        return []
    surfaces, speeds = geometry.of_walls(point), geometry.of_speeds(point)
    near = surfaces.value <= geometry.closeness(surfaces, point) + WRONG_SIDE * np.maximum(0.0, -speeds.value)
    hit = near & (speeds.value < -geometry.closeness(speeds, point))
    return [int(j) for j in np.flatnonzero(hit) if j not in journey.regime.contact]


def _is_approached(journey: Journey, wall: int) -> bool:
    """Return whether the motion goes towards a wall.

    A wall that is not reached then is not met yet: nothing holds it.
    """
    point = journey.point()
    speeds = journey.geometry.of_speeds(point)
    return bool(speeds.value[wall] < -journey.geometry.closeness(speeds, point)[wall])


def strike(journey: Journey) -> None:
    """Apply the resets of all struck walls.

    They are applied one after another, until no wall is approached.
    """
    for _ in range(journey.settings.max_events_at_once):
        walls = struck_walls(journey)
        if not walls:
            return
        # Two resets at one instant give a unique state only if they commute.
        if len(walls) > 1:
            _require_any_order(journey, walls)
        _bounce(journey, walls[0])
    raise EventError(
        f"More than {journey.settings.max_events_at_once} impacts at one instant, {journey.described()}: the resets of "
        "the walls throw the state back and forth."
    )


def _bounce(journey: Journey, wall: int) -> None:
    geometry, old = journey.geometry, journey.regime
    _put_on_wall(journey, wall)
    before, point = journey.state.copy(), journey.point()
    surfaces, reset = geometry.of_walls(point), geometry.of_reset(wall, point)
    field = motion(geometry, journey.place, journey.modes, old).field
    speed = float(surfaces.rates(field)[wall])
    journey.fastest = max(journey.fastest, abs(speed))
    slow = resting_speeds(journey, surfaces, geometry.of_speeds(point))[wall]
    journey.state = reset.value.copy()
    rebound = float(geometry.of_speeds(journey.point()).value[wall])
    if rebound < -geometry.closeness(geometry.of_speeds(journey.point()), journey.point())[wall]:
        raise EventError(
            f"At {journey.described()} the reset of the wall {geometry.system.walls[wall].surface} >= 0 leaves the "
            f"speed {rebound:.6g} towards the wall: it must not be negative after the impact."
        )
    # Modes and regime before the impact need not hold after it.
    resettle(journey)
    if journey.tangents is not None:
        kept = Regime(journey.regime.stuck, tuple(j for j in journey.regime.contact if j in old.contact))
        after = motion(geometry, journey.place, journey.modes, kept).field
        journey.tangents, change = pass_impact(journey.tangents, surfaces, wall, reset, field, after)
        journey.log_determinant += change
    journey.note("impact", wall, -1, before)
    # Derivatives are not reliable at an impact this slow, so it is noted as a graze too.
    if abs(speed) <= slow and wall not in journey.regime.contact:
        journey.note("graze", wall, -1, before)
    hold(journey, old)
    note_changes(journey, old, before)


def _put_on_wall(journey: Journey, wall: int) -> None:
    """Move the state exactly onto the wall.

    An impact happens at g = 0; this removes the rounding of the located instant.
    """
    surfaces = journey.geometry.of_walls(journey.point())
    normal = surfaces.by_state[wall]
    journey.state = journey.state - normal * (surfaces.value[wall] / (normal @ normal))


def _require_any_order(journey: Journey, walls: list[int]) -> None:
    """Refuse simultaneous impacts whose order matters.

    They are determined only when the resets give the same state in any order.
    """
    ends: list[Array] = []
    for order in (walls, walls[::-1]):
        state = journey.state
        for wall in order:
            point = journey.geometry.point(state, journey.t, journey.parameters, journey.modes)
            state = journey.geometry.of_reset(wall, point).value
        ends.append(state)
    if np.abs(ends[0] - ends[1]).max() > 1e-9 * (1.0 + np.abs(ends[0]).max()):
        names = " and ".join(str(journey.geometry.system.walls[j].surface) for j in walls)
        raise EventError(
            f"At {journey.described()} the walls {names} are struck at once and the result depends on which reset "
            f"comes first (states differ by {np.abs(ends[0] - ends[1]).max():.3g}): the model does not determine the "
            "motion."
        )
