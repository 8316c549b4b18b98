"""Rigs of a user's own class, used at random: whatever is asked, nothing beyond their limits may be sent."""

from __future__ import annotations

from pathlib import Path

from harness.recording_rig import attack
from hypothesis import strategies as st
from tests.hostile.family import register


def used_at_random(seed: int, folder: Path) -> str:
    rig = attack(seed, 3)
    if rig.beyond:
        raise AssertionError(f"sent beyond the limits of the rig: {rig.beyond[0]} (and {len(rig.beyond) - 1} more)")
    return f"{rig.counts['set']} demands sent, {rig.counts['refused']} refused"


register("rigs with limits", st.integers(0, 2**32 - 1), used_at_random, share=0.3, seconds=60.0)
