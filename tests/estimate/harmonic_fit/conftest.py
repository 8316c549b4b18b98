"""Records of the base-excited double pendulum, shared by the tests of this folder."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.flow import chaotic_record

COUNT = 2 * np.pi / 1024


def with_encoders(record):
    """What the encoders of HARMONIC see: the first angle and the angle between the arms."""
    return kz.Record.from_arrays(
        record.time,
        {"theta1": record["phi1"], "theta2": record["phi2"] - record["phi1"]},
        angles=["theta1", "theta2"],
        segment=record.dataset["segment"].values,
        period=record.period,
    )


@pytest.fixture(scope="session")
def pendulum():
    return kz.library.base_excited_double_pendulum()


@pytest.fixture(scope="session")
def pendulum_record(pendulum):
    """300 periods (one minute at 500 Hz) without dry friction."""
    return with_encoders(chaotic_record(pendulum, 300, 100, seed=1))


@pytest.fixture(scope="session")
def long_record(pendulum):
    """1500 periods, enough for a handful of returns within 2 %."""
    return with_encoders(chaotic_record(pendulum, 1500, 100, seed=2))


@pytest.fixture(scope="session")
def rubbing_pendulum(pendulum):
    return pendulum.with_values(C11=1.02e-3)


@pytest.fixture(scope="session")
def rubbing_record(rubbing_pendulum):
    return with_encoders(chaotic_record(rubbing_pendulum, 300, 100, seed=1))
