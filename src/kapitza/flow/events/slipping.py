"""What a joint of a linkage does where nothing else is in doubt: it comes to rest and sticks, turns round, or lets go.

A linkage with friction meets such an instant every few steps of the integrator. Here it is settled from the equations
in the speeds of the joints, with as few operations as it takes; whatever is not plain is left to `instants`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.flow.events.geometry import ROUNDING
from kapitza.flow.events.joints import JointMotion, JointPlace, Joints
from kapitza.flow.events.journey import Journey
from kapitza.flow.events.many import ROUNDS_PER_SWITCH
from kapitza.flow.events.regimes import CROSS, RELEASE, Ending
from kapitza.flow.events.settle import CLEAR, FAR, FAST, MOMENT, PLAIN, Regime

Array = NDArray[Any]


@dataclass(frozen=True)
class Settled:
    """What holds after the instant: modes, regime, the motion; rate: ds/dt of the joint before."""

    modes: Array
    regime: Regime
    motion: JointMotion
    rate: float


def settle_joint(journey: Journey, ending: Ending) -> Settled | None:
    """What holds after a joint has come to rest or let go; None where that is not plain."""
    joints, old = journey.geometry.joints, journey.regime
    if joints is None or ending.kind not in (CROSS, RELEASE) or old.contact:
        return None
    i, modes, point = ending.index, journey.modes, journey.point()
    if not _others_are_clear(journey, joints, i, point):
        return None
    place = joints.at(point)
    if not place.has_one_answer:
        return None
    before = place.motion(old.stuck, modes)
    if ending.kind == RELEASE:
        share = before.shares[i]
        if not abs(abs(share) - 1.0) < CLEAR:
            return None
        # It leaves with a rate of the size of rounding, which says nothing.
        trial = modes.copy()
        trial[i] = 1.0 if share > 0 else -1.0
        return _answer(place, tuple(k for k in old.stuck if k != i), trial, 0.0)
    rate = before.slips[i]
    if not -modes[i] * rate > 0 or _is_slow(journey, joints, i, rate, before):
        return None
    found = _answer(place, tuple(sorted((*old.stuck, i))), modes.copy(), rate)
    comes_back = found is not None and i not in found.regime.stuck and found.modes[i] == modes[i]
    return None if comes_back else found


def _is_slow(journey: Journey, joints: Joints, i: int, rate: float, motion: JointMotion) -> bool:
    """May the surface be touched and not crossed?"""
    sizes = list(map(abs, journey.state.tolist()))
    speeds = sizes[joints.size :]
    fastest = max(*speeds, *map(abs, (joints.inverse @ motion.rates).tolist()))
    moment = MOMENT * (1.0 + max(sizes)) / (1.0 + fastest)
    rounding = ROUNDING * (1.0 + sum(w * (1.0 + v) for w, v in zip(joints.sizes[i].tolist(), speeds, strict=True)))
    return abs(rate) <= FAR * journey.settings.contact_speed or abs(rate) * moment <= FAST * rounding


def _answer(place: JointPlace, resting: tuple[int, ...], modes: Array, rate: float) -> Settled | None:
    """Which of the joints at rest stick and which slip, changed one after another until none contradicts itself.

    There is one answer, so that one that is confirmed is it. None where it is not found or not clear.
    """
    stuck = resting
    for round_ in range(ROUNDS_PER_SWITCH * (1 + len(resting))):
        motion = place.motion(stuck, modes)
        shares, slips = motion.shares, motion.slips
        wrong = [k for k in resting if (abs(shares[k]) > 1.0 if k in stuck else modes[k] * slips[k] < 0.0)]
        if not wrong:
            clear = _is_clear(place.joints, motion, resting, stuck)
            return Settled(modes, Regime(stuck), motion, rate) if clear else None
        # All at once is quick; one at a time, the last one first, cannot go round in circles.
        changed = wrong if round_ < len(resting) else wrong[-1:]
        for k in changed:
            if k in stuck:
                modes[k] = 1.0 if shares[k] > 0 else -1.0
        stuck = tuple(k for k in resting if (k in stuck) != (k in changed))
    return None


def _is_clear(joints: Joints, motion: JointMotion, resting: tuple[int, ...], stuck: tuple[int, ...]) -> bool:
    """Do joints that stick need clearly less than their friction, and leave those that slip at a clear rate?"""
    if not all(abs(motion.shares[k]) < 1.0 - PLAIN for k in stuck):
        return False
    leaving = [k for k in resting if k not in stuck]
    if not leaving:
        return True
    sizes = (joints.sizes @ np.abs(joints.inverse @ motion.rates)).tolist()
    return all(abs(motion.slips[k]) > PLAIN * sizes[k] for k in leaving)


def _others_are_clear(journey: Journey, joints: Joints, joint: int, point: Array) -> bool:
    """Are all other joints that slip away from rest, and all walls away?"""
    geometry, stuck = journey.geometry, journey.regime.stuck
    speeds = zip(joints.speeds(journey.state), journey.modes.tolist(), strict=True)
    if any(m * s <= CLEAR for k, (s, m) in enumerate(speeds) if k != joint and k not in stuck):
        return False
    return not geometry.walls or bool(geometry.values(point)[geometry.switches :].min() > CLEAR)


def take(journey: Journey, settled: Settled, ending: Ending) -> None:
    """Go on as settled, without tangents: modes, regime, the state put on what holds it, events."""
    joints = journey.geometry.joints
    assert joints is not None
    before, old, n = journey.state, journey.regime, joints.size
    stuck = settled.regime.stuck
    journey.modes, journey.regime, journey.changed = settled.modes, settled.regime, True
    if stuck:
        journey.state = before.copy()
        off = [s if k in stuck else 0.0 for k, s in enumerate(joints.speeds(before))]
        journey.state[n:] -= joints.lift @ off
    journey.accelerations = joints.inverse @ settled.motion.rates
    if ending.kind == CROSS:
        journey.note("stick" if ending.index in stuck else "cross", ending.index, settled.rate, before)
    for i in old.stuck:
        if i not in stuck:
            journey.note("release", i, settled.modes[i], before)
