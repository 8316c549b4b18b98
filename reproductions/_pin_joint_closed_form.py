"""The symmetric two-impact orbit of the pin joint in closed form, and the Jacobian of its impact map.

Between the walls x'' = γ sin t. Leaving the right wall at t0 with speed v > 0,

    x(t) = 1 - v τ + γ (τ cos t0 - sin t + sin t0),  τ = t - t0,

and the motion repeats with the opposite sign after half a period when x(t0 + π) = -1 and v = r u, u being the speed of
arrival: v = -2 r γ cos t0 / (1 - r) and πγ (1 + r)/(1 - r) cos t0 + 2γ sin t0 = -2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TwoImpactOrbit:
    """Leaves the right wall at `time` with `speed`; `inside` says whether it stays between the walls."""

    gamma: float
    r: float
    time: float
    speed: float

    def position(self, t):
        """x(t) for t0 ≤ t ≤ t0 + π."""
        tau = t - self.time
        return 1 - self.speed * tau + self.gamma * (tau * np.cos(self.time) - np.sin(t) + np.sin(self.time))

    def rate(self, t):
        return -self.speed + self.gamma * (np.cos(self.time) - np.cos(t))

    @property
    def inside(self) -> bool:
        times = self.time + np.linspace(0.0, np.pi, 4001)[1:-1]
        return self.speed > 1e-9 and bool((np.abs(self.position(times)) < 1).all())

    def state_at(self, t: float) -> tuple[float, float]:
        """State at any time, by x(t + π) = -x(t)."""
        turns = int(np.floor((t - self.time) / np.pi))
        local, sign = t - turns * np.pi, (-1.0) ** turns
        # The forcing has the opposite sign half a period on, as the motion has.
        return sign * float(self.position(local)), sign * float(self.rate(local))

    def half_map(self) -> np.ndarray:
        """Jacobian of (t0, v) → (t1, v1) from one wall to the other."""
        t0, v, t1 = self.time, self.speed, self.time + np.pi
        arrival = v - self.gamma * (np.cos(t0) - np.cos(t1))
        by_time = (v - self.gamma * np.pi * np.sin(t0)) / arrival
        by_speed = -np.pi / arrival
        pull = self.gamma * np.sin(t1)
        return np.array(
            [[by_time, by_speed], [self.r * (self.gamma * np.sin(t0) - pull * by_time), self.r * (1 - pull * by_speed)]]
        )

    @property
    def multipliers(self) -> np.ndarray:
        """Floquet multipliers of the whole period: squares of those of the half map."""
        return np.linalg.eigvals(self.half_map()) ** 2


def two_impact_orbits(gamma: float, r: float) -> list[TwoImpactOrbit]:
    """All symmetric two-impact orbits that stay between the walls."""
    a, b, c = np.pi * gamma * (1 + r) / (1 - r), 2 * gamma, -2.0
    size = np.hypot(a, b)
    if abs(c) > size:
        return []
    found = []
    for sign in (1.0, -1.0):
        time = float(np.mod(np.arctan2(b, a) + sign * np.arccos(c / size), 2 * np.pi))
        orbit = TwoImpactOrbit(gamma, r, time, -2 * r * gamma * float(np.cos(time)) / (1 - r))
        if orbit.inside:
            found.append(orbit)
    return found
