"""Orbits of the parametric pendulum, exact and with Gaussian errors of known size."""

import numpy as np
import pytest

import kapitza as kz

# points through which unstable orbits of the pendulum pass (computed by shooting; ORBITS, table 3.1)
POINTS = {1: [(2.9668, 6.4066), (-2.9668, -6.4066), (0.1912, 11.4138)], 2: [(2.7963, 11.3027), (-2.7963, -11.3027)]}
DEVIATION = np.array([1e-3, 5e-3])


@pytest.fixture(scope="session")
def pendulum():
    return kz.library.parametric_pendulum()


@pytest.fixture(scope="session")
def exact(pendulum):
    """Five unstable orbits of period 1 and 2, with the covariance that readings of DEVIATION would have."""
    orbits = [kz.solve_orbit(pendulum, p, n, profile=False) for n, points in POINTS.items() for p in points]
    return tuple(o.with_(covariance=np.diag(np.tile(DEVIATION**2, len(o.points))), profile=None) for o in orbits)


@pytest.fixture(scope="session")
def noisy(exact):
    """A function of the seed: the same orbits with Gaussian errors."""

    def draw(seed):
        rng = np.random.default_rng(seed)
        return [o.with_(points=o.points + DEVIATION * rng.standard_normal(o.points.shape)) for o in exact]

    return draw
