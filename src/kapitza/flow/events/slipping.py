"""Plain events of one joint of a linkage.

The joint comes to rest and sticks, turns round, or lets go, and nothing else is in doubt.
A linkage with friction meets such an instant every few steps of the integrator. Here it is settled from the equations
in the speeds of the joints, with as few operations as possible; cases that are not plain are left to `instants`.
"""

from __future__ import annotations

from dataclasses import dataclass

from kapitza.base.arrays import Array
from kapitza.flow.engine import Regime
from kapitza.flow.events.geometry import ROUNDING
from kapitza.flow.events.joints import JointMotion, Joints
from kapitza.flow.events.journey import Journey
from kapitza.flow.events.many import ROUNDS_PER_SWITCH
from kapitza.flow.events.regimes import CROSS, RELEASE, Ending
from kapitza.flow.events.settle import CLEAR, FAR, FAST, MOMENT, PLAIN


@dataclass(frozen=True)
class Settled:
    """Modes, regime and motion after the instant.

    rate: ds/dt of the joint before.
    """

    modes: Array
    regime: Regime
    motion: JointMotion
    rate: float


def settle_joint(journey: Journey, ending: Ending) -> Settled | None:
    """Settle a joint that stops or lets go.

    None where the result is not plain.
    """
    if ending.kind not in (CROSS, RELEASE):
        return None
    before, old, i = journey.joint_motion(), journey.regime, ending.index
    if before is None or not before.has_one_answer or not _others_are_clear(journey, before, i):
        return None
    modes = journey.modes.copy()
    if ending.kind == RELEASE:
        share = before.shares[i]
        kept = tuple(k for k in old.stuck if k != i)
        if not abs(abs(share) - 1.0) < CLEAR or not all(abs(before.shares[k]) < 1.0 - PLAIN for k in kept):
            return None
        # At this instant it makes no difference to the motion whether the joint sticks or slips.
        modes[i] = 1.0 if share > 0 else -1.0
        return Settled(modes, Regime(kept), before, 0.0)
    rate = before.slips[i]
    if not -modes[i] * rate > 0 or _is_slow(journey, i, rate, before):
        return None
    found = _answer(journey, tuple(sorted((*old.stuck, i))), modes, rate)
    comes_back = found is not None and i not in found.regime.stuck and found.modes[i] == journey.modes[i]
    return None if comes_back else found


def _others_are_clear(journey: Journey, motion: JointMotion, joint: int) -> bool:
    """Return whether all other surfaces are away.

    Joints that slip are away from rest, and walls are not near.
    """
    stuck = journey.regime.stuck
    speeds = zip(journey.speeds, journey.modes.tolist(), strict=True)
    if any(m * s <= CLEAR for k, (s, m) in enumerate(speeds) if k != joint and k not in stuck):
        return False
    return not motion.walls or min(motion.walls) > CLEAR


def _is_slow(journey: Journey, i: int, rate: float, motion: JointMotion) -> bool:
    """Return whether the surface may be only touched.

    It is not crossed then.
    """
    joints = journey.geometry.joints
    assert joints is not None
    sizes = list(map(abs, journey.state.tolist()))
    speeds = sizes[joints.size :]
    moment = MOMENT * (1.0 + max(sizes)) / (1.0 + max(*speeds, *map(abs, motion.accelerations.tolist())))
    rounding = ROUNDING * (1.0 + joints.size_of(i, [1.0 + v for v in speeds]))
    return abs(rate) <= FAR * journey.settings.contact_speed or abs(rate) * moment <= FAST * rounding


def _answer(journey: Journey, resting: tuple[int, ...], modes: Array, rate: float) -> Settled | None:
    """Find which joints at rest stick or slip.

    Joints are changed one after another until none contradicts itself.

    There is one answer, so that one that is confirmed is it. None where it is not found or not clear.
    """
    geometry, stuck = journey.geometry, resting
    assert geometry.joints is not None
    for round_ in range(ROUNDS_PER_SWITCH * (1 + len(resting))):
        flags = geometry.flags_of(Regime(stuck))
        motion = geometry.joints.motion(journey.state, journey.t, journey.parameters, modes, flags)
        shares, slips = motion.shares, motion.slips
        wrong = [k for k in resting if (abs(shares[k]) > 1.0 if k in stuck else modes[k] * slips[k] < 0.0)]
        if not wrong:
            clear = _is_clear(geometry.joints, motion, resting, stuck)
            return Settled(modes, Regime(stuck), motion, rate) if clear else None
        # All at once is quick; one at a time, the last one first, cannot go round in circles.
        changed = wrong if round_ < len(resting) else wrong[-1:]
        for k in changed:
            if k in stuck:
                modes[k] = 1.0 if shares[k] > 0 else -1.0
        stuck = tuple(k for k in resting if (k in stuck) != (k in changed))
    return None


def _is_clear(joints: Joints, motion: JointMotion, resting: tuple[int, ...], stuck: tuple[int, ...]) -> bool:
    """Return whether the answer is beyond doubt.

    Joints that stick need clearly less than their friction, and those that slip leave at a clear rate.
    """
    if not all(abs(motion.shares[k]) < 1.0 - PLAIN for k in stuck):
        return False
    terms = list(map(abs, motion.accelerations.tolist()))
    return all(abs(motion.slips[k]) > PLAIN * joints.size_of(k, terms) for k in resting if k not in stuck)


def take(journey: Journey, settled: Settled, ending: Ending) -> None:
    """Continue as settled, without tangents.

    Modes, regime and events are set, and the state is put on the surfaces that hold it.
    """
    joints = journey.geometry.joints
    assert joints is not None
    before, old, stuck = journey.state, journey.regime, settled.regime.stuck
    state = before.copy()
    if stuck:
        off = [s if k in stuck else 0.0 for k, s in enumerate(journey.speeds)]
        state[joints.size :] -= joints.lift @ off
    journey.go_on_as(state, settled.modes, settled.regime, settled.motion)
    if ending.kind == CROSS:
        journey.note("stick" if ending.index in stuck else "cross", ending.index, settled.rate, before)
    for i in old.stuck:
        if i not in stuck:
            journey.note("release", i, settled.modes[i], before)
