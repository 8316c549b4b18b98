"""A third set of systems for `follow`, listed before any of them was run: equations, starts, ranges."""

from __future__ import annotations

from reproductions._blind_families import Driven, Mapped
from reproductions._held_out_families import System

AUTONOMOUS = (
    System(
        "electronic circuit", "AUTO-07p, demo cir; Freire et al., Int. J. Bif. Chaos 3 (1993)",
        ("x' = (-(b + n)*x + b*y - 0.328578*x**3 + 0.933578*(y - x)**3)/0.6",
         "y' = b*x - (b + g)*y - z - 0.933578*(y - x)**3", "z' = y"),
        {"n": -0.3, "b": 0.6, "g": 0.1}, {"x": 0.0, "y": 0.0, "z": 0.0}, "n", (-1.2, 0.5),
        second="b", curve={"n": (-1.5, 0.8), "b": (0.05, 2.0)},
    ),
    System(
        "epidemic with saturated incidence", "Ruan, Wang, J. Differ. Equations 188 (2003); closed form at rest",
        ("x' = x**2/(1 + 0.5*x**2)*(A - x - y) - 2*x", "y' = q*x - y"),
        {"A": 8.0, "q": 4.0}, {"x": 1.0, "y": 4.0}, "A", (5.0, 12.0),
        second="q", curve={"A": (4.0, 12.0), "q": (1.0, 8.0)},
    ),
    System(
        "plankton", "Truscott, Brindley, Bull. Math. Biol. 56 (1994); Hopf points in closed form",
        ("p' = 0.43*p*(1 - p) - z*p**2/(0.053**2 + p**2)", "z' = 0.05*z*(p**2/(0.053**2 + p**2) - w)"),
        {"w": 0.3}, {"p": 0.0347, "z": 0.048}, "w", (0.2, 0.995),
    ),
    System(
        "Watt's governor", "Sotomayor, Mello, Braga, Comput. Appl. Math. 26 (2007); Hopf at e = 2 a b^1.5, closed form",
        ("x' = y", "y' = z**2*sin(x)*cos(x) - sin(x) - e*y", "z' = a*(cos(x) - b)"),
        {"e": 1.6, "a": 0.8, "b": 0.8}, {"x": 0.6435, "y": 0.0, "z": 1.118}, "e", (0.5, 2.0),
        second="b", curve={"e": (0.1, 3.0), "b": (0.1, 0.95)},
    ),
    System(
        "laser with a saturable absorber", "Yamada, IEEE J. Quantum Electron. 29 (1993); Dubbeldam, Krauskopf (1999)",
        ("G' = 0.04*(A - G - G*I)", "Q' = 0.04*(5.8 - Q - 1.8*Q*I)", "I' = (G - Q - 1)*I"),
        {"A": 9.0}, {"G": 3.3, "Q": 1.4, "I": 1.7}, "A", (5.0, 12.0),
    ),
)  # fmt: skip

MAPS = (
    Mapped(
        "Burgers", "Whitehead, Macdonald, Physica D 13 (1984); closed form",
        {"x": "(1 - v)*x - y**2", "y": "(1 + m + x)*y"}, {"v": 0.9, "m": 0.3}, {"x": -0.3, "y": 0.52}, "m", (-0.2, 1.2),
        second="v", curve={"m": (-0.2, 1.5), "v": (-0.5, 4.5)},
    ),
    Mapped(
        "duopoly", "Kopel, Chaos Solitons Fractals 7 (1996); closed form",
        {"x": "(1 - r)*x + r*m*y*(1 - y)", "y": "(1 - r)*y + r*m*x*(1 - x)"}, {"r": 0.9, "m": 2.0},
        {"x": 0.5, "y": 0.5}, "m", (0.5, 4.0),
    ),
    Mapped(
        "flour beetles", "Dennis, Desharnais, Cushing, Costantino, Ecol. Monogr. 65 (1995)",
        {"L": "7.48*A*exp(-0.009*L - 0.012*A)", "P": "0.733*L", "A": "P*exp(-0.004*A) + (1 - u)*A"}, {"u": 0.3},
        {"L": 180.0, "P": 130.0, "A": 110.0}, "u", (0.02, 0.98),
    ),
    Mapped(
        "Tinkerbell", "Nusse, Yorke, Dynamics: Numerical Explorations (1998); closed form at the origin",
        {"x": "x**2 - y**2 + a*x - 0.6013*y", "y": "2*x*y + c*x + 0.5*y"}, {"a": 0.0, "c": 2.0}, {"x": 0.0, "y": 0.0},
        "a", (-2.5, 4.0), second="c", curve={"a": (-3.0, 2.0), "c": (0.0, 5.0)},
    ),
)  # fmt: skip

DRIVEN = (
    Driven(
        "Toda", "Kurz, Lauterborn, Phys. Rev. A 37 (1988)",
        ("x'' + 0.05*x' + exp(x) - 1 = F*cos(w*t)",), {"F": 0.3, "w": 1.4}, "2*pi/w", {"x": 0.0, "x'": 0.0},
        "w", (0.5, 1.4),
    ),
    Driven(
        "Morse", "Knop, Lauterborn, J. Chem. Phys. 93 (1990)",
        ("x'' + 0.8*x' + 8*exp(-x)*(1 - exp(-x)) = F*cos(w*t)",), {"F": 1.0, "w": 4.0}, "2*pi/w",
        {"x": 0.0, "x'": 0.0}, "w", (1.0, 4.0),
    ),
)  # fmt: skip
