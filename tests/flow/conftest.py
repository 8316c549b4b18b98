"""Fixtures of the tests of flows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from benchmarks.event_speed import decided_in_python


@pytest.fixture
def by_event_logic() -> Iterator[None]:
    """Let the event logic in Python decide every event of a switch.

    The compiled stepper then integrates and locates only; impacts go to Python where the model has a switch.
    """
    with decided_in_python():
        yield
