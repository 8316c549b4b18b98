"""Held-out systems for intervals of default fits: listed before anything was run on them, and used for no tuning.

FIRST: the set that is run first. SECOND: listed after a cure that FIRST led to, and run after it.
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

SECOND: tuple[Held, ...] = (
    # Hidden states, most of them with rates that are nearly exchangeable.
    Held("drug in two compartments", ("a' = -k*a", "c' = k*a/V - (e + p)*c + r*d", "d' = p*c - r*d"),
         {"k": 1.1, "V": 2.0, "e": 0.25, "p": 0.4, "r": 0.3}, (5.0, 0.3, 0.1), 0.06, ("c",), ("k", "e", "p", "r")),
    Held("thermal masses in series", ("T' = h*(S - T) - k*(T - 1)", "S' = g*(1 + cos(w*t)) - h*(S - T)"),
         {"h": 0.5, "k": 0.3, "g": 0.8, "w": 0.35}, (1.5, 2.5), 0.2, ("T",), ("h", "k", "g"),
         parts={"period": "2*pi/w"}),
    Held("infection in a cell culture", ("u' = -b*u*v", "i' = b*u*v - d*i", "v' = p*i - c*v"),
         {"b": 0.5, "d": 0.35, "p": 2.0, "c": 0.9}, (1.0, 0.02, 0.2), 0.06, ("v", "i"), ("b", "d", "p", "c")),
    Held("seismograph on soft ground", ("x'' + c*x' + k*x + s*(x - y) = F*cos(w*t)",
                                        "3*y'' + d*y' + 2*y + s*(y - x) = 0"),
         {"c": 0.08, "k": 1.4, "s": 0.5, "d": 0.12, "F": 0.6, "w": 0.95}, (0.4, -0.2, 0.1, 0.1), 0.1, ("x",),
         ("c", "k", "s", "d"), parts={"period": "2*pi/w"}),
    # Friction, stops and impacts.
    Held("door closer", ("p'' + f*sign(p') + d*p'*abs(p') + k*(p - 0.2) = 0",), {"f": 0.05, "d": 0.3, "k": 1.5},
         (1.4, 0.0), 0.03, ("p",), ("f", "d", "k")),
    Held("drill bit against rock", ("x'' + c*x' + k*x + s*Max(x - g, 0) = F*cos(w*t)",),
         {"c": 0.1, "k": 1.0, "s": 6.0, "g": 0.35, "F": 0.5, "w": 1.15}, (0.2, 0.1), 0.07, ("x",),
         ("c", "k", "s", "F"), parts={"period": "2*pi/w"}),
    Held("rocking hammer, two channels", ("x'' + c*x' + k*x = F*cos(w*t) + m",),
         {"c": 0.05, "k": 1.2, "F": 0.8, "m": 0.3, "w": 0.9, "e": 0.6}, (0.1, 0.3), 0.06, ("x", "x'"),
         ("c", "k", "F", "e"), parts={"period": "2*pi/w", "impacts": [
             {"name": "stop", "surface": "1.0 - x", "reset": {"x'": "-e*x'"}}]}),
    # Chaotic and autonomous.
    Held("Sprott Q, two channels", ("x' = -z", "y' = x - y", "z' = a*x + y**2 + b*z"), {"a": 3.1, "b": 0.5},
         (0.2, 0.3, 0.1), 0.05, ("x", "y"), ("a", "b"), 20.0),
    Held("Rabinovich-Fabrikant", ("x' = y*(z - 1 + x**2) + g*x", "y' = x*(3*z + 1 - x**2) + g*y",
                                  "z' = -2*z*(a + x*y)"),
         {"g": 0.1, "a": 0.14}, (0.5, -0.8, 0.4), 0.03, ("x", "y", "z"), ("g", "a"), 5.0),
    Held("tea leaves and ladybirds", ("x' = r*x*(1 - x) - a*x*y/(h + x)", "y' = s*y*(1 - y/(b*x))"),
         {"r": 1.0, "a": 1.2, "h": 0.15, "s": 0.25, "b": 1.0}, (0.4, 0.25), 0.15, ("x", "y"), ("r", "a", "h", "s")),
)  # fmt: skip
