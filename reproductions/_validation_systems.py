"""Held-out systems for tests of wrong models and of steps: written down before the rules, and used for no tuning.

FITTED: models that are fitted, right ones and ones that lack a term. EVENTS: motions with jumps, stops, stick and
relaxation, whose clean records must not be flagged. WRONG: what is wrong with the model or the measurement.
"""

from __future__ import annotations

from reproductions._bad_sample_systems import Held

FITTED: tuple[Held, ...] = (
    Held("electrostatic gap", ("x'' + c*x' + k*x + q*x**3 - V/(1 - x)**2 {0} = F*cos(w*t)",),
         {"c": 0.05, "k": 1.0, "q": 0.5, "V": 0.04, "F": 0.05, "w": 0.9}, (0.2, 0.1), 0.08, ("x",),
         ("c", "k", "q", "F"), 27.925268031909273, parts={"period": "2*pi/w"}),
    Held("Froude pendulum", ("p'' - (a - b*p'**2)*p' + k*sin(p) {0} = T*cos(w*t)",),
         {"a": 0.1, "b": 0.12, "k": 1.0, "T": 0.35, "w": 0.7}, (0.5, 0.1), 0.08, ("p",), ("a", "b", "k", "T"),
         17.951958020513104, parts={"period": "2*pi/w"}),
    Held("parametric beam", ("x'' + c*x' + (k + e*cos(w*t))*x + q*x**3 {0} = 0",),
         {"c": 0.08, "k": 1.0, "e": 0.6, "q": 0.4, "w": 2.0}, (0.8, 0.0), 0.06, ("x",), ("c", "k", "e", "q"),
         parts={"period": "2*pi/w"}),
    Held("bead on a hoop", ("p'' + c*p' + (g - s*cos(p))*sin(p) {0} = 0",), {"c": 0.05, "g": 3.0, "s": 4.2},
         (1.3, 0.0), 0.05, ("p",), ("c", "g", "s")),
    Held("tuned absorber", ("x'' + c*x' + k*x + s*(x - y) + q*(x - y)**2 {0} = F*cos(w*t)",
                            "y'' + d*(y' - x') + 3*s*(y - x) - 3*q*(x - y)**2 = 0"),
         {"c": 0.1, "k": 1.0, "s": 0.35, "q": 0.04, "d": 0.1, "F": 0.25, "w": 1.1}, (0.4, -0.3, 0.0, 0.1), 0.08,
         ("x", "y"), ("c", "k", "s", "q", "d", "F"), parts={"period": "2*pi/w"}),
    Held("sagging cable", ("x'' + c*x' + k*x + a*x**2 + b*x**3 {0} = 0",),
         {"c": 0.04, "k": 4.0, "a": 1.5, "b": 1.0}, (0.9, 0.2), 0.04, ("x",), ("c", "k", "a", "b")),
    Held("whirling rotor", ("x'' + c*x' + k*x + q*(x**2 + y**2)*x {0} = e*cos(w*t)",
                            "y'' + c*y' + h*y + q*(x**2 + y**2)*y = e*sin(w*t)"),
         {"c": 0.08, "k": 1.0, "h": 1.15, "q": 0.3, "e": 0.4, "w": 1.2}, (0.3, 0.1, 0.2, 0.0), 0.08, ("x", "y"),
         ("c", "k", "h", "q", "e"), parts={"period": "2*pi/w"}),
    Held("Shimizu-Morioka", ("x' = y", "y' = (1 - z)*x - a*y {0}", "z' = -b*z + x**2"), {"a": 0.75, "b": 0.45},
         (0.5, 0.2, 0.8), 0.06, ("x", "y", "z"), ("a", "b"), 30.0),
    Held("Dadras", ("x' = y - a*x + b*y*z {0}", "y' = c*y - x*z + z", "z' = d*x*y - e*z"),
         {"a": 3.0, "b": 2.7, "c": 1.7, "d": 2.0, "e": 9.0}, (1.1, 2.1, -2.0), 0.015, ("x", "y", "z"),
         ("a", "b", "c", "d", "e"), 15.0),
    Held("Goodwin", ("x' = 1/(1 + z**12) - a*x {0}", "y' = b*x - a*y", "z' = b*y - a*z"), {"a": 0.4, "b": 1.0},
         (0.2, 0.4, 0.9), 0.1, ("x", "y", "z"), ("a", "b")),
    Held("Schnakenberg", ("x' = a - x + x**2*y {0}", "y' = b - x**2*y"), {"a": 0.1, "b": 0.6}, (0.7, 1.0), 0.05,
         ("x", "y"), ("a", "b")),
    Held("Morris-Lecar", ("v' = i - 2*(v + 0.5) - 4*(1 + tanh((v + 0.01)/0.15))*(v - 1)/2*g - 8*n*(v + 0.7) {0}",
                          "n' = r*((1 + tanh((v - 0.1)/0.145))/2 - n)*cosh((v - 0.1)/0.29)"),
         {"i": 0.6, "g": 1.1, "r": 0.35}, (-0.2, 0.1), 0.03, ("v", "n"), ("i", "g", "r")),
    Held("chemostat", ("x' = m*s*x/(K + s) - D*x {0}", "s' = D*(1 + A*cos(w*t) - s) - 2*m*s*x/(K + s)"),
         {"m": 1.2, "K": 0.3, "D": 0.4, "A": 0.6, "w": 0.5}, (0.1, 0.8), 0.1, ("x", "s"), ("m", "K", "D"),
         parts={"period": "2*pi/w"}),
    Held("repressilator", ("x' = a/(1 + z**3) - b*x {0}", "y' = a/(1 + x**3) - b*y", "z' = a/(1 + y**3) - b*z"),
         {"a": 6.0, "b": 1.0}, (0.5, 1.5, 3.0), 0.05, ("x", "y", "z"), ("a", "b")),
    Held("two tanks", ("x' = q*(1 + 0.6*cos(w*t)) - a*sqrt(x) {0}", "y' = a*sqrt(x) - b*sqrt(y)"),
         {"q": 1.0, "a": 0.9, "b": 0.7, "w": 0.8}, (1.5, 1.0), 0.06, ("x", "y"), ("q", "a", "b"),
         parts={"period": "2*pi/w"}),
)  # fmt: skip
"""`{0}` marks the place of a term that the model lacks."""

FRESH: tuple[Held, ...] = (
    Held("galloping prism", ("x'' + c*x' + k*x - a*x' + b*x'**3 {0} = 0",),
         {"c": 0.02, "k": 1.0, "a": 0.12, "b": 0.05},
         (0.6, 0.1), 0.08, ("x",), ("k", "a", "b")),
    Held("van der Pol-Mathieu", ("x'' - m*(1 - x**2)*x' + (k + e*cos(w*t))*x {0} = 0",),
         {"m": 0.3, "k": 1.0, "e": 0.4, "w": 1.3}, (1.0, 0.2), 0.08, ("x",), ("m", "k", "e"),
         parts={"period": "2*pi/w"}),
    Held("ship that rolls", ("p'' + c*p' + d*p'**3 + k*p - q*p**3 {0} = F*cos(w*t)",),
         {"c": 0.06, "d": 0.05, "k": 1.0, "q": 0.5, "F": 0.08, "w": 0.8}, (0.3, 0.0), 0.08, ("p",),
         ("c", "d", "k", "q", "F"), parts={"period": "2*pi/w"}),
    Held("Wilson-Cowan", ("x' = -x + 1/(1 + exp(-(a*x - b*y + 1.0))) {0}",
                          "y' = -y + 1/(1 + exp(-(c*x - 2.0*y - 3.0)))"),
         {"a": 11.0, "b": 12.0, "c": 10.0}, (0.2, 0.3), 0.03, ("x", "y"), ("a", "b", "c")),
    Held("Colpitts", ("x' = g*(-exp(-y) + 1 + z) {0}", "y' = h*z", "z' = -k*(x + y) - z/q"),
         {"g": 4.46, "h": 0.895, "k": 0.1117, "q": 1.38}, (0.1, 0.1, 0.1), 0.05, ("x", "y", "z"), ("g", "h", "k", "q"),
         40.0),
    Held("Newton-Leipnik", ("x' = -a*x + y + 10*y*z {0}", "y' = -x - 0.4*y + 5*x*z", "z' = b*z - 5*x*y"),
         {"a": 0.4, "b": 0.175}, (0.349, 0.0, -0.16), 0.04, ("x", "y", "z"), ("a", "b"), 20.0),
    Held("rates and prices", ("x' = z + (y - a)*x {0}", "y' = 1 - b*y - x**2", "z' = -x - c*z"),
         {"a": 0.9, "b": 0.2, "c": 1.2}, (1.0, 2.0, 0.5), 0.05, ("x", "y", "z"), ("a", "b", "c"), 30.0),
    Held("trade cycle", ("x' = a*(tanh(x) + 0.3*x - x*0.4 - y) {0}", "y' = b*x - d*y"), {"a": 2.0, "b": 0.6, "d": 0.1},
         (0.5, 0.1), 0.06, ("x", "y"), ("a", "b", "d")),
    Held("aerofoil section", ("h'' + c*h' + k*h + U*p {0} = 0", "p'' + d*p' + s*p + q*p**3 - 0.2*h = 0"),
         {"c": 0.05, "k": 1.0, "U": 0.4, "d": 0.06, "s": 1.6, "q": 2.0}, (0.5, 0.3, 0.0, 0.1), 0.07, ("h", "p"),
         ("c", "k", "U", "d", "s", "q")),
    Held("satellite that librates", ("p'' + c*p' + k*sin(2*p) {0} = e*sin(w*t)",),
         {"c": 0.03, "k": 0.75, "e": 0.3, "w": 1.0}, (0.3, 0.0), 0.08, ("p",), ("c", "k", "e"),
         parts={"period": "2*pi/w"}),
    Held("two-well beam, gyroscopic", ("x'' + c*x' - G*y' - x + q*x**3 {0} = F*cos(w*t)",
                                       "y'' + c*y' + G*x' + k*y = 0"),
         {"c": 0.15, "G": 0.3, "q": 1.0, "F": 0.1, "k": 2.0, "w": 1.1}, (1.1, 0.2, 0.0, 0.1), 0.07, ("x", "y"),
         ("c", "G", "q", "F", "k"), parts={"period": "2*pi/w"}),
    Held("Rabinovich, three waves", ("x' = h*y - a*x + y*z {0}", "y' = h*x - y - x*z", "z' = -z + x*y"),
         {"h": 6.75, "a": 4.0}, (1.0, 1.0, 4.0), 0.015, ("x", "y", "z"), ("h", "a"), 15.0),
    Held("Liu", ("x' = a*(y - x) {0}", "y' = b*x - x*z", "z' = -c*z + 4*x**2"), {"a": 10.0, "b": 40.0, "c": 2.5},
         (2.2, 2.4, 28.0), 0.01, ("x", "y", "z"), ("a", "b", "c"), 10.0),
    Held("Wang-Sun", ("x' = a*x + b*y*z {0}", "y' = d*x + e*y - x*z", "z' = -z - x*y"),
         {"a": 0.2, "b": 1.0, "d": -0.01, "e": -0.4}, (0.5, 0.3, -0.4), 0.08, ("x", "y", "z"), ("a", "b", "e"), 100.0),
    Held("levitated magnet", ("x'' + c*x' + k*x - V/(2 - x)**2 + g {0} = F*cos(w*t)",),
         {"c": 0.07, "k": 1.6, "V": 1.0, "g": 0.25, "F": 0.12, "w": 1.0}, (0.1, 0.1), 0.08, ("x",),
         ("c", "k", "g", "F"), parts={"period": "2*pi/w"}),
)  # fmt: skip
"""Listed after the rules of `validate` were settled, to count the right models it rejects once more."""

EVENTS: tuple[Held, ...] = (
    Held("ball in a shaken box", ("x'' = a*cos(t)",), {"a": 0.6, "e": 0.85}, (0.1, 0.4), 0.03, ("x", "x'"),
         parts={"period": "2*pi", "impacts": [
             {"name": "right", "surface": "1 - x", "reset": {"x'": "-e*x'"}},
             {"name": "left", "surface": "1 + x", "reset": {"x'": "-e*x'"}}]}),
    Held("pendulum against a wall", ("p'' + c*p' + 4*sin(p) = F*cos(w*t)",), {"c": 0.1, "F": 1.5, "w": 1.7, "e": 0.6},
         (0.1, 0.4), 0.03, ("p", "p'"), parts={"period": "2*pi/w", "impacts": [
             {"name": "wall", "surface": "0.3 - p", "reset": {"p'": "-e*p'"}}]}),
    Held("backlash of gears", ("x'' + c*x' + s*(Max(x - 1, 0) + Min(x + 1, 0)) = m + F*cos(w*t)",),
         {"c": 0.08, "s": 1.0, "m": 0.1, "F": 0.3, "w": 0.8}, (1.2, 0.1), 0.05, ("x", "x'"),
         parts={"period": "2*pi/w"}),
    Held("dry friction, driven", ("x'' + k*x + f*sign(x') = F*cos(w*t)",), {"k": 1.0, "f": 0.5, "F": 0.9, "w": 0.6},
         (0.5, 0.1), 0.05, ("x", "x'"), parts={"period": "2*pi/w"}),
    Held("relay feedback", ("x'' + c*x' + k*x + u*sign(x - 0.2) = 0",), {"c": -0.05, "k": 0.2, "u": 0.5}, (1.0, 0.0),
         0.05, ("x", "x'"), settle=20.0),
    Held("laser pulses", ("n' = (A*(1 + 0.5*cos(w*t)) - n - n*p)*0.05", "p' = p*(n - 1) + 1e-4"),
         {"A": 2.5, "w": 0.35}, (1.0, 0.2), 0.2,
         ("n", "p"), parts={"period": "2*pi/w"}),
    Held("van der Pol, stiff", ("x'' - m*(1 - x**2)*x' + x = 0",), {"m": 15.0}, (2.0, 0.1), 0.06, ("x", "x'")),
    Held("gate of a neuron", ("v' = 10*(v - v**3/3 - w + 0.5)", "w' = 0.8*(v + 0.7 - 0.8*w)"), {}, (0.1, 0.1), 0.02,
         ("v", "w")),
    Held("rotor past the top", ("p'' + c*p' + sin(p) = T",), {"c": 0.08, "T": 0.5}, (0.3, 2.0), 0.1, ("p", "p'"),
         parts={"angles": ["p"]}),
    Held("intermittent flow", ("x' = s*(y - x)", "y' = r*x - y - x*z", "z' = x*y - 2.6667*z"), {"s": 10.0, "r": 166.1},
         (5.0, 20.0, 160.0), 0.02, ("x", "y", "z"), settle=5.0),
)  # fmt: skip

WRONG: tuple[str, ...] = (
    "quadratic drag", "Coulomb friction", "cubic damping", "quadratic stiffness", "cubic stiffness", "constant force",
    "second harmonic of the drive", "polynomial term", "held parameter", "gain of a sensor", "offset of a sensor",
    "drift of a sensor", "lag of a sensor", "lag of the drive", "outside the dictionary",
)  # fmt: skip
"""Kinds of wrong models; each where it applies. Sizes are set by what an ideal test would see."""

IDEAL = (9.0, 25.0, 100.0)
"""Noncentralities of the ideal test, three sizes of each kind: power 0.85, 0.999 and 1 at 5 %."""
