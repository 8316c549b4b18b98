"""Seeds and numbers of workers from outside: a message, not a traceback."""

from __future__ import annotations

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import KapitzaError

DUFFING = kz.library.duffing()


@pytest.mark.parametrize("seed", [-1, 0.5, "1", True])
@pytest.mark.parametrize("settings", [kz.OrbitFit, kz.HarmonicFit, kz.InvariantFit])
def test_settings_with_a_wrong_seed(settings, seed):
    with pytest.raises(KapitzaError, match="seed"):
        settings(seed=seed)


def test_simulate_and_find_orbits_with_a_negative_seed():
    with pytest.raises(KapitzaError, match="seed = -1"):
        kz.simulate(DUFFING, periods=2, seed=-1)
    with pytest.raises(KapitzaError, match="seed = -1"):
        kz.find_orbits(DUFFING, max_period=1, seed=-1)


@pytest.mark.parametrize("processes", [0, -2, 1.5, True])
def test_no_workers(processes):
    with pytest.raises(KapitzaError, match="processes"):
        kz.Flow(DUFFING).propagate_many(np.zeros((2, 2)), 0.0, 1.0, processes=processes)
