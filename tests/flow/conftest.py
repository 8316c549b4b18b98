"""Fixtures of the tests of flows."""

from __future__ import annotations

import pytest

from kapitza.flow.kernel import tape
from kapitza.flow.kernel.engine import Kernel


@pytest.fixture
def by_event_logic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the event logic in Python decide every event of a switch.

    The compiled stepper then integrates and locates only; impacts go to Python where the model has a switch.
    """
    flags, made = tape.switch_flags, {}

    def own(engine, with_tangents):
        # Kernels that were made before know other flags.
        if (engine, with_tangents) not in made:
            made[engine, with_tangents] = Kernel(engine.geometry, engine.wrt if with_tangents else None, engine.observe)
        return made[engine, with_tangents]

    monkeypatch.setattr(tape, "switch_flags", lambda geometry: [f | tape.DELICATE for f in flags(geometry)])
    monkeypatch.setattr("kapitza.flow.events.EventEngine.kernel", own)
