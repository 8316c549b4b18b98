"""Held-out systems for intervals of default fits: listed before anything was run on them, and used for no tuning.

FIRST: the set that is run first. Whatever is changed after it was seen is evaluated on a later set.
"""

from __future__ import annotations

from reproductions._bad_sample_systems import Held

FIRST: tuple[Held, ...] = (
    # Forced, one channel.
    Held("magnet between coils", ("x'' + c*x' + a*sinh(b*x) = F*cos(w*t)",),
         {"c": 0.12, "a": 0.8, "b": 1.3, "F": 0.6, "w": 1.1}, (0.4, 0.2), 0.08, ("x",), ("c", "a", "b", "F"),
         parts={"period": "2*pi/w"}),
    Held("tilted double well, chaotic", ("x'' + c*x' - k*x + q*x**3 - b = F*cos(w*t)",),
         {"c": 0.25, "k": 1.0, "q": 1.0, "b": 0.08, "F": 0.42, "w": 1.0}, (0.9, 0.1), 0.08, ("x",),
         ("c", "k", "q", "b", "F"), parts={"period": "2*pi/w"}),
    # Friction and impacts.
    Held("sliding block that comes to rest", ("x'' + f*sign(x') + c*x' + k*x = 0",),
         {"f": 0.12, "c": 0.05, "k": 2.0}, (1.5, 0.0), 0.04, ("x",), ("f", "c", "k")),
    Held("friction damper between two masses",
         ("x'' + c*x' + k*x + f*sign(x' - y') = F*cos(w*t)", "2*y'' + c*y' + s*y - f*sign(x' - y') = 0"),
         {"c": 0.1, "k": 1.5, "s": 3.0, "f": 0.15, "F": 0.9, "w": 1.05}, (0.3, 0.2, 0.1, 0.0), 0.06, ("x", "y"),
         ("c", "k", "s", "f", "F"), parts={"period": "2*pi/w"}),
    Held("oscillator between two walls", ("x'' + c*x' + k*x = F*cos(w*t)",),
         {"c": 0.08, "k": 0.6, "F": 0.9, "w": 1.3, "e": 0.75}, (0.2, 0.4), 0.05, ("x",), ("c", "k", "F", "e"),
         parts={"period": "2*pi/w", "impacts": [
             {"name": "right", "surface": "0.9 - x", "reset": {"x'": "-e*x'"}},
             {"name": "left", "surface": "0.7 + x", "reset": {"x'": "-e*x'"}}]}),
    Held("bouncing ball with drag", ("x'' + d*x'*abs(x') = -g",), {"d": 0.06, "g": 1.0, "e": 0.86}, (1.2, 0.0), 0.025,
         ("x",), ("d", "g", "e"),
         parts={"impacts": [{"name": "floor", "surface": "x", "reset": {"x'": "-e*x'"}}]}),
    # Hidden states.
    Held("mount of rubber", ("x'' + c*x' + k*x + q*x**3 + z = F*cos(w*t)", "z' = s*x' - z/T"),
         {"c": 0.06, "k": 1.0, "q": 0.3, "s": 0.7, "T": 1.6, "F": 0.7, "w": 1.2}, (0.5, 0.1, 0.1), 0.08, ("x",),
         ("c", "k", "s", "T", "q"), parts={"period": "2*pi/w"}),
    Held("Lü, one channel", ("x' = a*(y - x)", "y' = c*y - x*z", "z' = x*y - b*z"), {"a": 36.0, "b": 3.0, "c": 20.0},
         (2.0, 3.0, 20.0), 0.01, ("x",), ("a", "b", "c"), 4.0),
    Held("motor that turns a pendulum", ("q'' + c*q' + g*sin(q) = K*i", "L*i' = V*cos(w*t) - R*i - K*q'"),
         {"c": 0.1, "g": 2.0, "K": 0.9, "L": 0.4, "V": 1.4, "R": 1.1, "w": 1.6}, (0.4, 0.2, 0.1), 0.05, ("q",),
         ("c", "g", "K", "R"), parts={"period": "2*pi/w"}),
    Held("glucose after an injection", ("G' = -(p + X)*G + p*4.5", "X' = -q*X + s*exp(-0.25*t)"),
         {"p": 0.08, "q": 0.15, "s": 0.03}, (14.0, 0.0), 0.2, ("G",), ("p", "q", "s")),
    # Two channels, decays with several modes.
    Held("three storeys, ring-down", ("x'' + d*(2*x' - y') + k*x + l*(x - y) = 0",
                                      "y'' + d*(2*y' - x' - z') + l*(y - x) + m*(y - z) = 0",
                                      "z'' + d*(z' - y') + m*(z - y) = 0"),
         {"d": 0.04, "k": 6.0, "l": 5.0, "m": 4.0}, (0.3, -0.4, 0.8, 0.0, 0.5, 0.0), 0.06, ("x", "z"),
         ("d", "k", "l", "m")),
    Held("two modes of a plate, decay", ("u'' + a*u' + k*u + q*u*(u**2 + 2*v**2) = 0",
                                         "v'' + b*v' + h*v + q*v*(v**2 + 2*u**2) = 0"),
         {"a": 0.03, "b": 0.05, "k": 1.0, "h": 2.6, "q": 0.5}, (1.0, 0.6, 0.0, 0.2), 0.07, ("u", "v"),
         ("a", "b", "k", "h", "q")),
    # Autonomous and chaotic.
    Held("Bazykin", ("x' = x - x*y/(1 + a*x) - e*x**2", "y' = -g*y + x*y/(1 + a*x) - d*y**2"),
         {"a": 0.3, "e": 0.01, "g": 1.0, "d": 0.02}, (2.0, 1.5), 0.1, ("x", "y"), ("a", "e", "g", "d")),
    Held("hyperchaotic Rössler", ("x' = -y - z", "y' = x + a*y + w", "z' = b + x*z", "w' = -c*z + d*w"),
         {"a": 0.25, "b": 3.0, "c": 0.5, "d": 0.05}, (-10.0, -6.0, 0.3, 10.1), 0.04, ("x", "y", "z", "w"),
         ("a", "b", "c", "d"), 20.0),
    Held("Sprott S", ("x' = -x - a*y", "y' = x + z**2", "z' = b + x"), {"a": 4.0, "b": 1.0}, (0.4, 0.2, 0.7), 0.05,
         ("x", "y", "z"), ("a", "b"), 40.0),
    Held("disc dynamo", ("x' = m*(y - x)", "y' = x*z - y", "z' = R*(1 - x*y) - n*z"), {"m": 1.0, "R": 4.5, "n": 0.2},
         (0.8, 0.5, 1.5), 0.05, ("x", "y", "z"), ("m", "R", "n"), 10.0),
)  # fmt: skip
