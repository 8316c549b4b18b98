"""What is known of the second set of systems: AUTO-07p on the same equations, SciPy, closed forms.

Points that AUTO-07p lists again where it retraces a family beyond its Hopf points are left out.
"""

from __future__ import annotations

from math import exp

from reproductions._held_out_references import BAUTIN, BRANCH, DOUBLING, FOLD, HOPF, TAKENS, TORUS, Known

AT_REST: dict[str, tuple[Known, ...]] = {
    "enzyme with two substrates": ((HOPF, 3.499953824), (HOPF, 4.65045782)),
    "Bazykin": ((FOLD, 0.13324423603), (FOLD, 0.07072143272)),
    "stirred tank with one reaction": ((HOPF, 0.165917105), (HOPF, 0.186944061)),
    "cell cycle of Tyson": (),
    "calcium oscillations": ((HOPF, 0.2889531), (HOPF, 0.774267802)),
    "Shimizu and Morioka": ((HOPF, 1.20700035),),
    "Holling and Tanner": ((HOPF, 3.084738879),),
    # n z^n = 8 (1 + z^n): z^10 = 4 and p = z (1 + z^10).
    "Goodwin": ((HOPF, 5 * 4**0.1),),
    "Gray and Scott": ((FOLD, 0.130901699), (FOLD, 0.019098301), (HOPF, 0.025476272)),
    "bursting neuron with its slow variable held": (
        (HOPF, 2.926473787), (FOLD, 3.0), (FOLD, 49 / 27), (HOPF, -9.59314045),
    ),
}  # fmt: skip

CYCLES: dict[str, dict[int, tuple[tuple[Known, ...], str]]] = {
    "enzyme with two substrates": {
        0: (((FOLD, 2.75968746), (FOLD, 5.00783976), (HOPF, 4.65045782)), "HOPF"),
        1: (((FOLD, 5.00783976), (FOLD, 2.75968746), (HOPF, 3.499953824)), "HOPF"),
    },
    "stirred tank with one reaction": {
        0: (((HOPF, 0.186944061),), "HOPF"),
        1: (((HOPF, 0.165917105),), "HOPF"),
    },
    "calcium oscillations": {
        0: (((HOPF, 0.774267802),), "HOPF"),
        1: (((HOPF, 0.2889531),), "HOPF"),
    },
    "Shimizu and Morioka": {0: (((FOLD, 1.15527251),), "HOMOCLINIC 1.1606472")},
    "Holling and Tanner": {0: ((), "BOUND")},
    "Goodwin": {0: ((), "BOUND")},
    "Gray and Scott": {2: ((), "HOMOCLINIC 0.0267452272")},
    "bursting neuron with its slow variable held": {
        0: ((), "HOMOCLINIC 2.81614696"),
        3: ((), "HOMOCLINIC 2.08560087"),
    },
}

CURVES: dict[str, dict[str, tuple[tuple[str, float, float], ...]]] = {
    "Bazykin": {FOLD: ((TAKENS, 0.17512759295, 0.453624328), (TAKENS, 0.00605879439, 0.860704459))},
    "stirred tank with one reaction": {HOPF: ((TAKENS, exp(-2), 1.0), (BAUTIN, 0.09013729, 0.69950898))},
    "Gray and Scott": {FOLD: ((TAKENS, 1 / 16, 1 / 16),), HOPF: ((TAKENS, 1 / 16, 1 / 16), (BAUTIN, 3 / 256, 9 / 256))},
}

MAPS: dict[str, tuple[Known, ...]] = {
    "Hénon": ((FOLD, -0.1225), (DOUBLING, 0.3675)),
    "delayed logistic": ((BRANCH, 1.0), (TORUS, 2.0)),
    "generalised Hénon": ((FOLD, -(1.5**2) / 4.4), (DOUBLING, 1.74375)),
    "host and parasitoid": ((DOUBLING, 3.38970303834),),
    "fold and torus": ((FOLD, 0.0),),
}

DOUBLED: dict[str, tuple[Known, ...]] = {"Hénon": ((DOUBLING, 0.9125),)}
"""On the cycle of two steps that leaves at the first doubling."""

_RESONANT, _FLAT = -2 / 2.1, 2 / 2.1
"""Fixed points of the generalised Hénon map with a double multiplier 1 and -1 (R = -0.1)."""


def _a(x: float, b: float) -> float:
    return x * (1 + b) + 1.1 * x**2


MAP_CURVES: dict[str, dict[str, tuple[tuple[str, float, float], ...]]] = {
    "Hénon": {
        FOLD: (("fold-flip", 0.0, -1.0), ("1:1 resonance", -1.0, 1.0)),
        DOUBLING: (("fold-flip", 0.0, -1.0), ("1:2 resonance", 3.0, 1.0)),
    },
    "generalised Hénon": {
        FOLD: (("fold-flip", 0.0, -1.0), ("1:1 resonance", _a(_RESONANT, 1 - 0.1 * _RESONANT), 1 - 0.1 * _RESONANT)),
        DOUBLING: (("fold-flip", 0.0, -1.0), ("1:2 resonance", _a(_FLAT, 1 - 0.1 * _FLAT), 1 - 0.1 * _FLAT)),
    },
    "fold and torus": {FOLD: (("fold-Neimark-Sacker", 0.0, 0.0),)},
}

DRIVEN: dict[str, tuple[Known, ...]] = {
    "driven Brusselator": ((DOUBLING, 1.06045236745),),
    "epidemics with seasons": ((DOUBLING, 0.07069123945),),
}
