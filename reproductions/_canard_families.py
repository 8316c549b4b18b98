"""Slow-fast systems whose cycles pass canard explosions from Hopf point to Hopf point, listed before any was run."""

from __future__ import annotations

from reproductions._held_out_families import System

SYSTEMS = (
    System(
        "van der Pol with a constant force", "Benoît, Callot, Diener, Diener, Collect. Math. 31 (1981): e = 0.05",
        ("x' = (y + x - x**3/3)/e", "y' = a - x"), {"a": 1.1, "e": 0.05}, {"x": 1.1, "y": -0.656}, "a", (-1.2, 1.2),
    ),
    System(
        "FitzHugh and Nagumo", "FitzHugh, Biophys. J. 1 (1961), with e = 0.01 for 0.08",
        ("v' = v - v**3/3 - w + I", "w' = e*(v + 0.7 - 0.8*w)"), {"I": 0.0, "e": 0.01}, {"v": -1.2, "w": -0.6}, "I",
        (0.0, 2.5),
    ),
    System(
        "Morris and Lecar", "Rinzel, Ermentrout (1989), set with two Hopf points, with f = 0.01 for 0.04",
        ("v' = (I - 2*(v + 60) - 2.2*(1 + tanh((v + 1.2)/18))*(v - 120) - 8*w*(v + 84))/20",
         "w' = f*cosh((v - 2)/60)*((1 + tanh((v - 2)/30))/2 - w)"),
        {"I": 60.0, "f": 0.01}, {"v": -40.0, "w": 0.06}, "I", (40.0, 260.0),
    ),
    System(
        "cubic autocatalator", "Peng, Gáspár, Showalter, Phil. Trans. R. Soc. A 337 (1991): e = 0.05, k = 0.01",
        ("x' = m - x*y**2 - k*x", "y' = (x*y**2 + k*x - y)/e"), {"m": 0.05, "k": 0.01, "e": 0.05},
        {"x": 4.0, "y": 0.05}, "m", (0.02, 6.0),
    ),
)  # fmt: skip

KEPT_APART = (
    System(
        "Oregonator", "Tyson, Fife, J. Chem. Phys. 73 (1980), two variables: e = 0.02, q = 0.002",
        ("x' = (x*(1 - x) - f*z*(x - q)/(x + q))/e", "z' = x - z"), {"f": 0.3, "q": 0.002, "e": 0.02},
        {"x": 0.7, "z": 0.7}, "f", (0.3, 3.0),
    ),
    System(
        "templator", "Peacock-López, Chem. Educator 6 (2001), with k = 0.01, K = 0.02",
        ("x' = r - k*x**2 - x**2*y", "y' = k*x**2 + x**2*y - y/(K + y)"), {"r": 0.3, "k": 0.01, "K": 0.02},
        {"x": 4.0, "y": 0.01}, "r", (0.2, 0.98),
    ),
)  # fmt: skip
"""Chosen before they were run, after the rule for folds where the parameter stands still was written."""
