"""How a measured drive runs between its samples."""

from __future__ import annotations

import numpy as np
import pytest

import kapitza as kz
from kapitza.estimate import best_degree, drive_effect

TIMES = np.linspace(0.0, 30.0, 1501)
RANDOM = np.random.default_rng(4)
SWEEP = 3 * np.sin(2 * np.pi * (0.4 * TIMES + 0.03 * TIMES**2))
NOISE = RANDOM.normal(size=TIMES.size)


@pytest.mark.parametrize(
    ("values", "degree"),
    [
        (SWEEP, 3),
        (SWEEP + 0.05 * NOISE, 3),
        (NOISE, 3),
        (np.sin(3 * TIMES) ** 40, 3),  # smooth pulses
        (np.sign(np.sin(3 * TIMES)), 1),
        (np.sign(np.sin(3 * TIMES)) + 0.01 * NOISE, 1),
        (np.floor(4 * np.sin(TIMES)), 1),
        (np.where(np.mod(TIMES, 3.0) < 0.015, 1.0, 0.0), 1),
    ],
)
def test_the_degree_follows_from_the_samples(values: np.ndarray, degree: int):
    assert best_degree(TIMES, values) == degree
    # Neither the unit nor the offset decides.
    assert best_degree(TIMES, 1e3 * values - 7.0) == degree


def test_straight_lines_through_a_sine_are_reported_with_their_shift():
    """Straight lines through samples h apart act as a gain 1 - (w h)²/12: m, c, k are too small by that share."""
    t = np.linspace(0.0, 60.0, 1501)
    step, speed = float(t[1]), 2.6
    force = np.cos(speed * t) + 0.5 * np.cos(0.6 * speed * t)

    def driven(degree: int) -> kz.Model:
        return kz.Model.from_equations(
            "m*x'' + c*x' + k*x = F",
            parameters={"m": 1.0, "c": 0.2, "k": 5.0},
            signals=[kz.Signal("F", t, force, degree=degree)],
        )

    record = kz.measure(kz.simulate(driven(5), x0=[0.2, 0.0], t=t).select(["x"]), noise=2e-5, seed=2)
    fits = {d: kz.identify(driven(d), record, free=["m", "c", "k"], method=kz.ShootingFit()) for d in (1, 3)}
    effect = drive_effect(fits[1])
    assert effect is not None
    assert effect.degrees == {"F": 3}
    for name, value in fits[3].values.items():
        off = value - fits[1].values[name]
        assert abs(effect.bent[name] - off) < 0.02 * fits[1].deviations[name] + 0.01 * abs(off)
    # The gain of the faster of both sines is an upper limit, that of the slower one a lower.
    share = effect.bent["k"] / 5.0
    assert (0.6 * speed * step) ** 2 / 12 < share < (speed * step) ** 2 / 12
    wide = kz.with_drive_noise(fits[1])
    assert any("cubic spline would follow the drive F better" in str(w) for w in wide.warnings)
    right = drive_effect(fits[3])
    assert right is not None
    assert not right.degrees
