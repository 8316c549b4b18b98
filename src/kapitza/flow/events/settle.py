"""Modes that hold at an instant.

A switch on its surface passes, sticks or stays; a wall that is touched holds or frees.

On a surface the modes cannot be read off the state. All combinations of the switches and walls that are on their
surfaces are tried, and the one that the motion itself confirms is taken: a mode ±1 must be left behind (m ds/dt > 0),
a stuck switch needs an equivalent control |λ| < 1 (Filippov), a lasting contact a force that presses. None or several
different answers are an error, not a guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from kapitza.base.arrays import Array, Numbers
from kapitza.errors import EventError
from kapitza.flow.engine import Regime
from kapitza.flow.events.geometry import Geometry, Gradients
from kapitza.flow.events.many import has_positive_minors, likely_modes

TIE = 1e-10
"""A rate this small against its terms is a tie: the motion is evaluated a moment later."""

MOMENT = 1e-6
"""Length of that moment, relative to the time scale of the state."""

FAST = 1e4
"""A function that passes so many times its rounding within a moment, with its rate at the surface, is not just touched:
the rate would have to turn round thousands of times faster."""

ROUNDING = 1e-14
"""Relative rounding of a located instant."""

CLEAR = 1e-6
"""Surfaces farther away than this need no further test."""

MOVED = 1e-6
"""A function this far from zero at an instant at which its surface was in question has jumped off it."""

MOST_AT_ONCE = 4
"""Surfaces at an instant for which all combinations of answers are tried."""

MOST_TOGETHER = 12
"""Switches on their surfaces at an instant that can be resolved at all; the proof of uniqueness takes 2^k minors."""

STICK, HOLD, FREE = "stick", "hold", "free"

Answer = float | str
"""What a surface in question may do: a mode ±1 or STICK of a switch, HOLD or FREE of a wall."""


@dataclass(frozen=True)
class Place:
    """A state at a time with the parameters.

    x (n,), t, θ (npar,).
    """

    state: Array
    t: float
    parameters: Array


MotionKey = tuple[bytes, float, bytes, bytes, Regime]
"""State, time, parameters, modes and regime of a motion that is kept."""


@dataclass(frozen=True)
class Motion:
    """The field at a place in given modes.

    It includes the forces that hold the motion on its surfaces.

    field: f (n,); controls: λ of the stuck switches; forces: of the contacts. directions: E (n, c), rows: gradients of
    s and w (c, n), gain: rows E (c, c), which must have positive principal minors for the surfaces to attract.
    """

    field: Array
    controls: Numbers
    forces: Numbers
    directions: Array
    rows: Array
    gain: Array


def motion(geometry: Geometry, place: Place, modes: Array, regime: Regime) -> Motion:
    """Return the field in the given modes.

    It is f0 + E z with E = (-half jumps, impulses) and z such that ds/dt = 0 and dw/dt = 0.
    """
    key = (place.state.tobytes(), place.t, place.parameters.tobytes(), modes.tobytes(), regime)
    found = geometry.motions.get(key)
    if found is None:
        found = _motion(geometry, place, modes, regime)
        geometry.motions.put(key, found)
    return found


def _motion(geometry: Geometry, place: Place, modes: Array, regime: Regime) -> Motion:
    base = modes.copy()
    base[list(regime.stuck)] = 1.0
    point = geometry.point(place.state, place.t, place.parameters, base)
    field = geometry.rates(point)
    if not regime.collapses:
        nothing = np.zeros(0)
        return Motion(field, nothing, nothing, np.zeros((geometry.size, 0)), np.zeros((0, geometry.size)), nothing)
    halves: list[Array] = []
    for i in regime.stuck:
        point[point.size - geometry.switches + i] = -1.0
        halves.append((field - geometry.rates(point)) / 2)
        point[point.size - geometry.switches + i] = 1.0
    directions = np.array([-h for h in halves] + [geometry.impulse(j, point) for j in regime.contact]).T
    base_field = field - sum(halves, np.zeros(geometry.size))
    switches, speeds = geometry.of_switches(point), geometry.of_speeds(point)
    rows = np.vstack((switches.by_state[list(regime.stuck)], speeds.by_state[list(regime.contact)]))
    drift = np.concatenate((switches.by_time[list(regime.stuck)], speeds.by_time[list(regime.contact)]))
    gain = rows @ directions
    if not has_positive_minors(gain):
        failed = np.full(len(gain), np.nan)
        return Motion(
            np.full(geometry.size, np.nan), failed[: len(halves)], failed[len(halves) :], directions, rows, gain
        )
    balance = np.linalg.solve(gain, -(rows @ base_field + drift))
    split = len(halves)
    return Motion(base_field + directions @ balance, -balance[:split], balance[split:], directions, rows, gain)


@dataclass(frozen=True)
class Question:
    """Open surfaces at an instant.

    They are switches and walls on their surfaces, with the answers still possible for each.
    """

    switches: tuple[tuple[int, tuple[Answer, ...]], ...]
    walls: tuple[tuple[int, tuple[Answer, ...]], ...]


def settle(geometry: Geometry, place: Place, modes: Array, question: Question) -> tuple[Array, Regime]:
    """Return the modes and regime that the motion confirms.

    Switches not in question keep their modes.
    """
    if not question.switches and not question.walls:
        return modes, Regime()
    if len(question.switches) + len(question.walls) > MOST_AT_ONCE:
        return _settle_many(geometry, place, modes, question)
    passed = _simply_passed(geometry, place, modes, question)
    if passed is not None:
        return passed, Regime()
    if geometry.is_linkage and not question.walls:
        found = _pivoted(geometry, place, modes, question, unique=True)
        if found is not None:
            return found
    confirmed: list[tuple[Array, Regime, Array]] = []
    choices = [options for _, options in (*question.switches, *question.walls)]
    asked = [i for i, _ in question.switches]
    for answer in product(*choices):
        trial, regime = _apply(modes, question, answer)
        if regime.stuck and _moves_others(geometry, place, trial, regime, asked):
            continue
        trial = complete(geometry, place, trial, asked)
        for i in asked:
            if geometry.is_flat(i, place.state, place.t, place.parameters, trial):
                trial[i] = 0.0
        if len(regime.stuck) > 1 and _modes_multiply(geometry, regime.stuck):
            continue
        now = motion(geometry, place, trial, regime)
        if _holds(geometry, place, trial, regime, question, answer, now):
            confirmed.append((trial, regime, now.field))
    if not confirmed:
        _refuse(geometry, place, question, "no combination of modes continues the motion")
    # Answers with the same field describe the same motion: only different fields are ambiguous.
    scale = 1e-8 * (1.0 + np.abs(confirmed[0][2]).max())
    if any(np.abs(field - confirmed[0][2]).max() > scale for _, _, field in confirmed[1:]):
        _refuse(geometry, place, question, f"{len(confirmed)} different motions leave this state")
    return confirmed[0][0], confirmed[0][1]


def _settle_many(geometry: Geometry, place: Place, modes: Array, question: Question) -> tuple[Array, Regime]:
    """Settle more surfaces than can be tried singly.

    The answer of a pivoting rule is taken, if confirmed.
    """
    indices = tuple(i for i, _ in question.switches)
    if question.walls or len(indices) > MOST_TOGETHER or _modes_multiply(geometry, indices):
        _refuse(geometry, place, question, "too many surfaces are reached at once")
    found = _pivoted(geometry, place, modes, question)
    if found is None:
        _refuse(geometry, place, question, "no combination of modes continues the motion")
        raise AssertionError
    return found


def _pivoted(
    geometry: Geometry, place: Place, modes: Array, question: Question, unique: bool = False
) -> tuple[Array, Regime] | None:
    """Return modes and regime by complementarity.

    None when there is no answer, or one that the motion does not confirm.

    unique: None also when there may be other answers.
    """
    decided = {i: options[0] for i, options in question.switches if len(options) == 1}
    open_ = [i for i, _ in question.switches if i not in decided]
    trial = modes.copy()
    for i, choice in decided.items():
        trial[i] = float(str(choice))
    found = (
        likely_modes(geometry, place.state, place.t, place.parameters, trial, open_, unique) if open_ else np.zeros(0)
    )
    if found is None:
        return None
    chosen = {**decided, **{i: STICK if m == 0 else float(m) for i, m in zip(open_, found, strict=True)}}
    answer = tuple(chosen[i] for i, _ in question.switches)
    if any(choice not in options for choice, (_, options) in zip(answer, question.switches, strict=True)):
        return None
    trial, regime = _apply(modes, question, answer)
    now = motion(geometry, place, trial, regime)
    return (trial, regime) if _holds(geometry, place, trial, regime, question, answer, now) else None


def _simply_passed(geometry: Geometry, place: Place, modes: Array, question: Question) -> Array | None:
    """Return the modes after a plain crossing.

    This is the usual case: both sides leave one switch in the same direction. The result is None otherwise.
    """
    if question.walls or len(question.switches) != 1 or len(question.switches[0][1]) == 1:
        return None
    i, _ = question.switches[0]
    above, below = modes.copy(), modes.copy()
    above[i], below[i] = 1.0, -1.0
    above, below = complete(geometry, place, above, [i]), complete(geometry, place, below, [i])
    points = [geometry.point(place.state, place.t, place.parameters, m) for m in (above, below)]
    fields = [geometry.rates(p) for p in points]
    tables = [geometry.of_switches(p) for p in points]
    rates = [float(table.by_state[i] @ f + table.by_time[i]) for table, f in zip(tables, fields, strict=True)]
    size = float(np.abs(tables[0].by_state[i]) @ np.maximum(*np.abs(fields)) + abs(tables[0].by_time[i]))
    doubt = TIE * size + max(_rounding_of_rate(geometry, i, field) for field in fields)
    if rates[0] * rates[1] <= 0 or min(abs(rates[0]), abs(rates[1])) <= doubt:
        return None
    return above if rates[0] > 0 else below


def is_touched(geometry: Geometry, place: Place, modes: Array, switch: int, gradients: Gradients) -> bool:
    """Return whether a switching surface is only touched.

    The function turns round before it is farther beyond zero than rounding.

    With the rate s' towards zero and the curvature s'' away from it, it gets as far as s'² / (2 s''). gradients: of the
    switches at this place.
    """
    if not modes[switch]:
        return False
    point = geometry.point(place.state, place.t, place.parameters, modes)
    field = geometry.rates(point)
    slope = gradients.by_state[switch]
    towards = -modes[switch] * float(slope @ field + gradients.by_time[switch])
    moment = MOMENT * (1.0 + np.abs(place.state).max()) / (1.0 + np.abs(field).max())
    rounding = float(geometry.closeness(gradients, point)[switch])
    if not towards > 0.0 or towards * moment > FAST * rounding:
        return False
    ahead = geometry.point(place.state + moment * field, place.t + moment, place.parameters, modes)
    later = -modes[switch] * float(geometry.of_switches(ahead).rates(geometry.rates(ahead))[switch])
    if not later < 0.0:
        return False
    depth = towards**2 * moment / (2.0 * (towards - later))
    return depth <= rounding


def complete(geometry: Geometry, place: Place, modes: Array, asked: list[int]) -> Array:
    """Return the modes with those of outer switches.

    Their functions may have moved with the switches in question.
    """
    return geometry.complete(place.state, place.t, place.parameters, modes, asked)


def _moves_others(geometry: Geometry, place: Place, modes: Array, regime: Regime, asked: list[int]) -> bool:
    """Return whether a stuck switch moves another one.

    The other one goes from side to side: no control between its modes is determined.
    """
    sides: list[Array] = []
    for side in (1.0, -1.0):
        trial = modes.copy()
        trial[list(regime.stuck)] = side
        sides.append(complete(geometry, place, trial, asked))
    others = [i for i in range(geometry.switches) if i not in regime.stuck]
    return not np.array_equal(sides[0][others], sides[1][others])


def _apply(modes: Array, question: Question, answer: tuple[Answer, ...]) -> tuple[Array, Regime]:
    trial = modes.copy()
    stuck: list[int] = []
    for (i, _), choice in zip(question.switches, answer, strict=False):
        if choice == STICK:
            stuck.append(i)
        else:
            trial[i] = float(choice)
    held = answer[len(question.switches) :]
    contact = tuple(j for (j, _), choice in zip(question.walls, held, strict=True) if choice == HOLD)
    return trial, Regime(tuple(stuck), contact)


def _holds(
    geometry: Geometry,
    place: Place,
    modes: Array,
    regime: Regime,
    question: Question,
    answer: tuple[Answer, ...],
    now: Motion,
) -> bool:
    """Return whether all surfaces in question confirm the answer.

    Where the rate is a tie, the motion a moment later decides.
    """
    margins, sizes = _margins(geometry, place, modes, regime, question, answer, now)
    # A located release or detachment leaves no choice, and its rate is zero to rounding: nothing to confirm.
    margins[[len(options) == 1 for _, options in (*question.switches, *question.walls)]] = np.inf
    asked = (*(i for i, _ in question.switches), *(None for _ in question.walls))
    doubt = TIE * sizes + [_rounding_of_rate(geometry, i, now.field) for i in asked]
    if np.isnan(margins).any() or np.isnan(now.field).any() or (margins < -doubt).any():
        return False
    tied = np.abs(margins) <= doubt
    if not tied.any():
        return True
    moment = MOMENT * (1.0 + np.abs(place.state).max()) / (1.0 + np.abs(now.field).max())
    ahead = Place(place.state + moment * now.field, place.t + moment, place.parameters)
    then = motion(geometry, ahead, modes, regime)
    later, _ = _margins(geometry, ahead, modes, regime, question, answer, then)
    return bool((later[tied] >= -1e-14 * sizes[tied]).all())


def _rounding_of_rate(geometry: Geometry, switch: int | None, field: Array) -> float:
    """Return the rounding of a switch's rate.

    It comes from the rounding of the instant; 0 for walls.

    A function that vanishes on a stretch may leave it at second order, with terms that vanish as well: the rate of
    max(cos(t), 0)**2 has the sign of the rounding at the instant at which cos(t) is located at zero.
    """
    if switch is None or not geometry.system.switches[switch].can_vanish:
        return 0.0
    return ROUNDING * (1.0 + float(np.abs(field).max()))


def _margins(
    geometry: Geometry,
    place: Place,
    modes: Array,
    regime: Regime,
    question: Question,
    answer: tuple[Answer, ...],
    now: Motion,
) -> tuple[Array, Array]:
    """Return how clearly each surface confirms the answer.

    A positive margin confirms it. Also returned are the sizes of the terms.
    """
    point = geometry.point(place.state, place.t, place.parameters, modes)
    margins: list[float] = []
    sizes: list[float] = []
    field = np.abs(now.field)
    if question.switches:
        switches = geometry.of_switches(point)
        rates = switches.rates(now.field)
        # Where friction balances the other forces the rate vanishes, not its terms: the other side shows their size.
        other = np.abs(geometry.rates(geometry.point(place.state, place.t, place.parameters, -modes)))
        terms = np.abs(switches.by_state) @ np.fmax(field, other) + np.abs(switches.by_time)
    for (i, _), choice in zip(question.switches, answer, strict=False):
        if geometry.is_flat(i, place.state, place.t, place.parameters, modes):
            margins.append(np.inf if choice == 1 else -np.inf)
            sizes.append(1.0)
        elif abs(switches.value[i]) > MOVED * (1.0 + terms[i]) * (10.0 + 10.0 * np.abs(place.state).max()):
            # The mode of a switch inside has taken this one off its surface: its side is the sign of its function.
            margins.append(np.inf if choice != STICK and modes[i] * switches.value[i] > 0 else -np.inf)
            sizes.append(1.0)
        elif choice == STICK:
            margins.append(1.0 - abs(now.controls[regime.stuck.index(i)]))
            sizes.append(1.0)
        else:
            margins.append(modes[i] * rates[i])
            sizes.append(terms[i])
    if question.walls:
        speeds = geometry.of_speeds(point)
        accelerations = speeds.rates(now.field)
        thrusts = np.abs(speeds.by_state) @ field + np.abs(speeds.by_time)
    for (j, _), choice in zip(question.walls, answer[len(question.switches) :], strict=True):
        if choice == HOLD:
            margins.append(now.forces[regime.contact.index(j)])
            sizes.append(np.abs(now.field).max() / np.abs(now.directions).max())
        else:
            margins.append(accelerations[j])
            sizes.append(thrusts[j])
    return np.array(margins), np.array(sizes)


def _modes_multiply(geometry: Geometry, stuck: tuple[int, ...]) -> bool:
    """Return whether the equations multiply two stuck modes.

    The equivalent control is then not determined.
    """
    return any(geometry.modes_multiply(i, k) for i, k in combinations(stuck, 2))


def _refuse(geometry: Geometry, place: Place, question: Question, reason: str) -> None:
    system = geometry.system
    names = [str(system.switches[i].function) for i, _ in question.switches]
    names += [str(system.walls[j].surface) for j, _ in question.walls]
    state = ", ".join(f"{s.name} = {v:.6g}" for s, v in zip(system.states, place.state, strict=True))
    raise EventError(
        f"At t = {place.t:.9g} with {state} the surfaces {'; '.join(n + ' = 0' for n in names)} are reached and "
        f"{reason}. "
        "The model does not define how the motion continues there: smooth one of the switches, or start elsewhere."
    )
