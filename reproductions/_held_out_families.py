"""Systems that `follow` was not developed on, from manuals and the literature: equations, starts, ranges.

They were chosen before the work on ends and curves. References come from AUTO-07p, run on
these equations, or from closed forms.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class System:
    """An autonomous model, an equilibrium of it and the ranges in which its families are followed.

    second, curve: a further parameter and the ranges of both, where curves of its folds and Hopf points are followed.
    """

    name: str
    source: str
    equations: tuple[str, ...]
    parameters: dict[str, float]
    start: dict[str, float]
    parameter: str
    bounds: tuple[float, float]
    cycles: bool = True
    second: str = ""
    curve: dict[str, tuple[float, float]] = field(default_factory=dict)


SYSTEMS = (
    System(
        "A → B reaction", "AUTO-07p, demo ab",
        ("u' = -u + p*(1 - u)*exp(v)", "v' = -v + p*b*(1 - u)*exp(v) - c*v"),
        {"p": 0.01, "b": 14.0, "c": 2.0}, {"u": 0.01, "v": 0.05}, "p", (0.005, 0.2),
        second="c", curve={"p": (0.02, 0.2), "c": (0.5, 5.0)},
    ),
    System(
        "A → B → C reaction", "AUTO-07p, demo abc",
        ("u' = -u + p*(1 - u)*exp(w)", "v' = -v + p*exp(w)*(1 - u - e*v)",
         "w' = -w - c*w + p*d*exp(w)*(1 - u + a*e*v)"),
        {"p": 0.05, "a": 1.0, "c": 1.55, "d": 8.0, "e": 0.04}, {"u": 0.1, "v": 0.1, "w": 0.3}, "p", (0.02, 0.4),
    ),
    System(
        "predator and prey with harvest", "AUTO-07p, demo pp2",
        ("u' = b*u*(1 - u) - u*v - p*(1 - exp(-c*u))", "v' = -v + d*u*v"),
        {"p": 0.3, "b": 3.0, "c": 5.0, "d": 3.0}, {"u": 0.333, "v": 1.3}, "p", (0.0, 1.2),
    ),
    System(
        "predator, prey and superpredator", "AUTO-07p, demo pp3",
        ("u' = u*(1 - u) - d*u*v", "v' = -b*v + d*u*v - e*v*w - p*(1 - exp(-f*v))", "w' = -c*w + e*v*w"),
        {"p": 0.05, "b": 0.25, "c": 0.5, "d": 4.0, "e": 3.0, "f": 5.0}, {"u": 0.33, "v": 0.1667, "w": 0.28}, "p",
        (0.0, 0.6),
    ),
    System(
        "enzyme in two cells", "AUTO-07p, demo enz",
        ("x' = p - x + y - x - r*x/(1 + x + k*x**2)", "y' = p + m - y + x - y - r*y/(1 + y + k*y**2)"),
        {"p": 5.0, "m": 0.0, "r": 100.0, "k": 1.0}, {"x": 0.05, "y": 0.05}, "p", (1.0, 60.0), cycles=False,
    ),
    System(
        "electronic circuit with tori", "AUTO-07p, demo tor",
        ("x' = (-(b + n)*x + b*y - a*x**3 + d*(y - x)**3)/r", "y' = b*x - (b + g)*y - z - d*(y - x)**3", "z' = y"),
        {"n": -1.2, "b": 0.5, "g": -0.6, "r": 0.6, "a": 0.328578, "d": 0.933578}, {"x": 0.0, "y": 0.0, "z": 0.0}, "n",
        (-1.3, 0.0),
    ),
    System(
        "Chua's circuit with a cubic", "Kuznetsov, Elements of Applied Bifurcation Theory",
        ("x' = a*(y - x**3/16 + x/6)", "y' = x - y + z", "z' = -b*y"),
        {"a": 4.0, "b": 14.0}, {"x": 1.633, "y": 0.0, "z": -1.633}, "a", (3.0, 9.0),
    ),
    System(
        "Lorenz-84", "Shil'nikov, Nicolis, Nicolis, Int. J. Bifurcation Chaos 5 (1995); MatCont",
        ("x' = -y**2 - z**2 - a*x + a*F", "y' = x*y - b*x*z - y + G", "z' = b*x*y + x*z - z"),
        {"a": 0.25, "b": 4.0, "F": 0.5, "G": 0.25}, {"x": 0.45, "y": 0.2, "z": 0.1}, "F", (0.2, 3.0),
        second="G", curve={"F": (0.2, 4.0), "G": (0.02, 3.0)},
    ),
    System(
        "catalytic oscillator", "MatCont manual; Khibnik, Bykov, Yablonskii",
        ("x' = 2*q*(1 - x - y - s)**2 - 2*h*x**2 - c*x*y", "y' = b*(1 - x - y - s) - g*y - c*x*y",
         "s' = d*(1 - x - y - s - K*s)"),
        {"b": 0.5, "q": 2.5, "c": 10.0, "d": 0.0675, "h": 1.0, "g": 0.1, "K": 0.4},
        {"x": 0.3, "y": 0.05, "s": 0.45}, "b", (0.4, 3.0), second="K", curve={"b": (0.4, 3.0), "K": (0.1, 3.0)},
    ),
    System(
        "adaptive control", "MatCont manual; Genesio, Tesi, Automatica 28 (1992)",
        ("x' = y", "y' = z", "z' = -a*z - b*y - x + x**2"),
        {"a": 1.6, "b": 1.1}, {"x": 0.0, "y": 0.0, "z": 0.0}, "a", (0.5, 2.0),
    ),
    System(
        "peroxidase-oxidase reaction", "MatCont manual; Steinmetz, Larter, J. Chem. Phys. 94 (1991)",
        ("A' = -k1*A*B*X - k3*A*B*Y + k7 - m7*A", "B' = -k1*A*B*X - k3*A*B*Y + k8",
         "X' = k1*A*B*X - 2*k2*X**2 + 2*k3*A*B*Y - k4*X + k6", "Y' = -k3*A*B*Y + 2*k2*X**2 - k5*Y"),
        {"k1": 0.1631021, "k2": 1250.0, "k3": 0.046875, "k4": 20.0, "k5": 1.104, "k6": 0.001, "k7": 2.0, "m7": 0.1175,
         "k8": 0.5},
        {"A": 12.0, "B": 15.0, "X": 0.02, "Y": 0.25}, "k7", (0.6, 3.0),
    ),
    System(
        "Rosenzweig and MacArthur", "Am. Nat. 97 (1963); closed form",
        ("x' = x*(1 - x/K) - a*x*y/(1 + x)", "y' = a*x*y/(1 + x) - d*y"),
        {"K": 0.8, "a": 1.0, "d": 0.3}, {"x": 0.4286, "y": 0.66}, "K", (0.5, 3.0),
    ),
    System(
        "glycolysis of Sel'kov", "Eur. J. Biochem. 4 (1968); closed form",
        ("x' = -x + a*y + x**2*y", "y' = b - a*y - x**2*y"),
        {"a": 0.08, "b": 0.2}, {"x": 0.2, "y": 1.67}, "b", (0.1, 1.2),
        second="a", curve={"b": (0.05, 1.2), "a": (0.005, 0.3)},
    ),
    System(
        "Oregonator", "Tyson, Fife, J. Chem. Phys. 73 (1980)",
        ("x' = (x*(1 - x) - f*z*(x - q)/(x + q))/e", "z' = x - z"),
        {"f": 0.4, "q": 0.0008, "e": 0.04}, {"x": 0.6, "z": 0.6}, "f", (0.3, 3.0),
    ),
    System(
        "Wilson and Cowan", "Hoppensteadt, Izhikevich, Weakly Connected Neural Networks (1997)",
        ("x' = -x + 1/(1 + exp(-(p + 10*x - 10*y)))", "y' = -y + 1/(1 + exp(-(s + 10*x + 2*y)))"),
        {"p": -6.0, "s": -6.0}, {"x": 0.003, "y": 0.003}, "p", (-6.0, 8.0),
        second="s", curve={"p": (-8.0, 8.0), "s": (-14.0, 0.0)},
    ),
    System(
        "food chain of Hastings and Powell", "Ecology 72 (1991)",
        ("x' = x*(1 - x) - 5*x*y/(1 + b*x)", "y' = 5*x*y/(1 + b*x) - 0.1*y*z/(1 + 2*y) - 0.4*y",
         "z' = 0.1*y*z/(1 + 2*y) - 0.01*z"),
        {"b": 2.0}, {"x": 0.71, "y": 0.125, "z": 13.0}, "b", (1.8, 3.2),
    ),
    System(
        "saddle loop", "Kuznetsov, Elements, 6.2: homoclinic at p = 0; AUTO-07p, demo san",
        ("x' = -x + 2*y + x**2", "y' = (2 - p)*x - y - 3*x**2 + 3*x*y/2"),
        {"p": 1.5}, {"x": 0.3, "y": 0.1}, "p", (-0.5, 1.9),
    ),
    System(
        "saddle-node on a circle", "r' = r (1 - r²), φ' = m - r sin φ: closed form",
        ("x' = x*(1 - x**2 - y**2) - y*(m - y)", "y' = y*(1 - x**2 - y**2) + x*(m - y)"),
        {"m": 0.5}, {"x": 0.866, "y": 0.5}, "m", (0.2, 2.0),
    ),
    System(
        "Bautin", "normal form r' = r (p + q r² - r⁴): closed form",
        ("x' = p*x - y + q*x*(x**2 + y**2) - x*(x**2 + y**2)**2",
         "y' = x + p*y + q*y*(x**2 + y**2) - y*(x**2 + y**2)**2"),
        {"p": -0.3, "q": 0.8}, {"x": 0.0, "y": 0.0}, "p", (-0.5, 0.5),
        second="q", curve={"p": (-0.5, 0.5), "q": (-1.0, 1.0)},
    ),
    System(
        "fold and Hopf", "normal form x' = p + x² - r², r' = r (q + x/2): closed form",
        ("x' = p + x**2 - y**2 - z**2", "y' = (q + x/2)*y - z", "z' = y + (q + x/2)*z"),
        {"p": -0.5, "q": 0.1}, {"x": -0.707, "y": 0.0, "z": 0.0}, "p", (-0.6, 0.3), cycles=False,
        second="q", curve={"p": (-0.6, 0.3), "q": (-0.5, 0.5)},
    ),
    System(
        "double Hopf", "two oscillators, amplitudes r' = r (p - r² - s²/2), s' = s (q - 2p - s² - r²/2): closed form",
        ("x' = p*x - y - x*(x**2 + y**2 + (u**2 + v**2)/2)", "y' = x + p*y - y*(x**2 + y**2 + (u**2 + v**2)/2)",
         "u' = (q - 2*p)*u - k*v - u*(u**2 + v**2 + (x**2 + y**2)/2)",
         "v' = k*u + (q - 2*p)*v - v*(u**2 + v**2 + (x**2 + y**2)/2)"),
        {"p": -0.5, "q": -0.4, "k": 1.7320508075688772}, {"x": 0.0, "y": 0.0, "u": 0.0, "v": 0.0}, "p", (-0.6, 0.6),
        second="q", curve={"p": (-0.6, 0.6), "q": (-1.0, 1.0)},
    ),
    System(
        "travelling waves of Nagumo", "AUTO-07p, demo wav family; Kuznetsov, Panfilov (1981)",
        ("u' = v", "v' = -c*v - u*(1 - u)*(u - a) + w", "w' = -(u - 4*w)*e/c"),
        {"c": 1.5, "a": 0.25, "e": 0.05}, {"u": 0.0, "v": 0.0, "w": 0.0}, "c", (0.05, 2.0), cycles=False,
    ),
    System(
        "Koper", "Physica D 80 (1995): k = -10, e1 = 0.1, e2 = 1",
        ("x' = (k*y - x**3 + 3*x - l)/e", "y' = x - 2*y + z", "z' = d*(y - z)"),
        {"l": -12.0, "k": -10.0, "e": 0.1, "d": 1.0}, {"x": -1.4, "y": -1.4, "z": -1.4}, "l", (-14.0, 14.0),
    ),
)  # fmt: skip
