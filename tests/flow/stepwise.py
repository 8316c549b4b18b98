"""Brute-force references for motions with friction and impacts, independent of Kapitza.

Many runs at once in small steps; inside a step the motion is the closed form of a linear system, and whatever changes
sign within a step is found by bisection of that form. No Taylor series, no event machinery.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

BISECTIONS = 60
TOGETHER = 60


def taken(system, chosen):
    """The chosen runs of a system."""
    return type(system)(*(getattr(system, f.name)[chosen] for f in fields(system)))


def bisect(function, high):
    """Zero of a function that is positive at 0 and negative at `high`, elementwise."""
    low = np.zeros_like(high)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        above = function(middle) > 0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return high


@dataclass
class Oscillators:
    """x'' + c x' + x + F sign(x' - u) = A cos ωt for many runs: arrays (N,)."""

    c: np.ndarray
    F: np.ndarray
    u: np.ndarray
    A: np.ndarray
    omega: np.ndarray

    def forced(self, t):
        """Particular solution and its rate."""
        a, b = 1 - self.omega**2, self.c * self.omega
        scale = self.A / (a**2 + b**2)
        cos, sin = np.cos(self.omega * t), np.sin(self.omega * t)
        return scale * (a * cos + b * sin), scale * self.omega * (b * cos - a * sin)

    def slide(self, x, v, side, t, tau):
        """State a time tau after (x, v) at t while the friction is -F side."""
        x0, v0 = self.forced(t)
        y, w = x - x0 + self.F * side, v - v0
        decay, nu = np.exp(-self.c * tau / 2), np.sqrt(1 - self.c**2 / 4)
        cos, sin = np.cos(nu * tau), np.sin(nu * tau) / nu
        x1, v1 = self.forced(t + tau)
        y1 = decay * (y * (cos + self.c / 2 * sin) + w * sin)
        w1 = decay * (w * (cos - self.c / 2 * sin) - y * sin)
        return y1 + x1 - self.F * side, w1 + v1

    def demand(self, x, t):
        """Friction force that keeps the mass on the belt, as a fraction of F."""
        return (self.A * np.cos(self.omega * t) - self.c * self.u - x) / self.F

    def move(self, x, v, side, t, tau):
        """State a time tau later; side 0 means stuck to the belt."""
        slid = self.slide(x, v, side, t, tau)
        return np.where(side == 0, x + self.u * tau, slid[0]), np.where(side == 0, self.u, slid[1])

    def margin(self, x, v, side, t, tau):
        """Positive as long as nothing happens."""
        later, speed = self.move(x, v, side, t, tau)
        return np.where(side == 0, 1 - np.abs(self.demand(later, t + tau)), side * (speed - self.u))

    def change(self, x, v, side, t, end):
        """New side at an event, its kind, and the state, a moment later where a released mass has no side yet."""
        demand = self.demand(x, t)
        sticks, releases = (side != 0) & (np.abs(demand) <= 1), side == 0
        new = np.where(releases, np.sign(demand), np.where(sticks, 0.0, -side))
        kinds = np.where(releases, "release", np.where(sticks, "stick", "cross"))
        moment = np.where(releases, np.minimum(1e-9, end - t), 0.0)
        return (*self.move(x, self.u, new, t, moment), new, t + moment, kinds)

    def start(self, x, v):
        return np.sign(v - self.u)

    def step(self, x, v, side, t, step):
        return np.full(x.shape, step)


@dataclass
class Bouncers:
    """x'' = p + A cos(ωt + φ) between walls at ±1, x' -> -r x' on impact: arrays (N,)."""

    p: np.ndarray
    A: np.ndarray
    omega: np.ndarray
    phase: np.ndarray
    r: np.ndarray

    REST = 1e-6
    """A rebound slower than this that is pressed to its wall stays until the force turns."""

    def force(self, t):
        return self.p + self.A * np.cos(self.omega * t + self.phase)

    def move(self, x, v, wall, t, tau):
        """State a time tau later; wall ±1 means resting there, 0 in flight."""
        a, b = self.omega * t + self.phase, self.omega * (t + tau) + self.phase
        speed = v + self.p * tau + self.A / self.omega * (np.sin(b) - np.sin(a))
        moved = tau * (v - self.A / self.omega * np.sin(a)) + self.p * tau**2 / 2
        moved -= self.A / self.omega**2 * (np.cos(b) - np.cos(a))
        return np.where(wall == 0, x + moved, x), np.where(wall == 0, speed, 0.0)

    def margin(self, x, v, wall, t, tau):
        pressing = wall * self.force(t + tau)
        return np.where(wall == 0, 1 - np.abs(self.move(x, v, wall, t, tau)[0]), pressing)

    def change(self, x, v, wall, t, end):
        """New wall and state, a moment later where a mass leaves its wall slower than rounding shows."""
        hit = np.sign(x)
        rests = (wall == 0) & (self.r * np.abs(v) < self.REST) & (hit * self.force(t) > 0)
        kinds = np.where(wall != 0, "detach", np.where(rests, "contact", "impact"))
        moment = np.where(wall != 0, np.minimum(1e-4, end - t), 0.0)
        new = np.where(rests, hit, 0.0)
        return (*self.move(hit, np.where(rests, 0.0, -self.r * v), new, t, moment), new, t + moment, kinds)

    def start(self, x, v):
        return np.zeros(x.shape)

    def step(self, x, v, wall, t, step):
        """Short flights after an impact are walked through in steps that resolve them."""
        force, gap = np.abs(self.force(t)) + 1e-9, np.maximum(1 - np.abs(x), 0.0)
        short = 0.1 * (np.abs(v) / force + np.sqrt(2 * gap / force)) + 1e-9
        return np.where((wall == 0) & (np.abs(x) > 1 - 1e-3), np.minimum(short, step), step)


def march(system, x, v, end: float, step: float):
    """March all runs to `end`: states (N, 2), events of each run [(time, kind, speed before)], largest |x| seen."""
    x, v, t = x.copy(), v.copy(), np.zeros(x.size)
    side = system.start(x, v)
    waiting = np.zeros(x.size, bool)
    tau = np.zeros(x.size)
    events: list[list[tuple[float, str, float]]] = [[] for _ in range(x.size)]
    furthest = np.abs(x)
    while (t < end).any():
        active = ~waiting & (t < end)
        if active.any():
            h = np.where(active, np.minimum(system.step(x, v, side, t, step), end - t), 0.0)
            stopped = active & (system.margin(x, v, side, t, h) < 0)
            going = active & ~stopped
            new_x, new_v = system.move(x, v, side, t, h)
            x, v = np.where(going, new_x, x), np.where(going, new_v, v)
            t = np.where(going, np.where(end - t - h < 1e-12, end, t + h), t)
            tau, waiting = np.where(stopped, h, tau), waiting | stopped
            furthest = np.maximum(furthest, np.abs(x))
        # Bisection costs as much as many steps: runs at an event wait for each other.
        if waiting.sum() >= TOGETHER or (waiting.any() and not active.any()):
            part = taken(system, waiting)
            now = [q[waiting] for q in (x, v, side, t)]
            wait = bisect(lambda s, part=part, now=now: part.margin(*now, s), tau[waiting])
            at_x, at_v = part.move(*now, wait)
            times = now[3] + wait
            x[waiting], v[waiting], side[waiting], t[waiting], kinds = part.change(at_x, at_v, now[2], times, end)
            for i, time, kind, speed in zip(np.flatnonzero(waiting), times, kinds, at_v, strict=True):
                events[i].append((float(time), str(kind), float(speed)))
            waiting[:] = False
    return np.stack((x, v), axis=1), events, furthest
