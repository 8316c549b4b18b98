"""What is known of the third set of systems: AUTO-07p on the same equations, SciPy, closed forms."""

from __future__ import annotations

from math import sqrt

from reproductions._held_out_references import BAUTIN, BRANCH, DOUBLING, FOLD, HOPF, TAKENS, TORUS, Known

AT_REST: dict[str, tuple[Known, ...]] = {
    "electronic circuit": ((BRANCH, -0.6),),
    # 6 x² - A x + 2 = 0 with fold at A² = 48; Hopf at x² = 2/5.
    "epidemic with saturated incidence": ((FOLD, sqrt(48)), (HOPF, (6 * 0.4 + 2) / sqrt(0.4))),
    # Roots of 2 p³ - p² + 0.053² = 0, w = p²/(p² + 0.053²).
    "plankton": ((HOPF, 0.5298066941088938), (HOPF, 0.98863179188566)),
    "Watt's governor": ((HOPF, 1.6 * 0.8**1.5),),
    "laser with a saturable absorber": ((HOPF, 7.3646633791), (FOLD, 6.06007325), (BRANCH, 6.8), (HOPF, 10.472254405)),
}

CYCLES: dict[str, dict[int, tuple[tuple[Known, ...], str]]] = {
    "epidemic with saturated incidence": {1: ((), "HOMOCLINIC 6.9807991105")},
    "plankton": {0: (((HOPF, 0.98863179188566),), "HOPF"), 1: (((HOPF, 0.5298066941088938),), "HOPF")},
    "Watt's governor": {0: (((DOUBLING, 1.083745813),), "BOUND")},
    "laser with a saturable absorber": {0: ((), "HOMOCLINIC 6.8")},
}

CROSSING: dict[str, tuple[Known, ...]] = {"electronic circuit": ((HOPF, -0.67835703759),)}
"""On the equilibria that leave at the branch point."""

CURVES: dict[str, dict[str, tuple[tuple[str, float, float], ...]]] = {
    "epidemic with saturated incidence": {
        FOLD: ((TAKENS, sqrt(40), 3.0),),
        HOPF: ((TAKENS, sqrt(40), 3.0),),
    },
    "Watt's governor": {HOPF: ((BAUTIN, 1.2553943432, 0.85069416978),)},
}

CROSSING_CURVES: dict[str, tuple[tuple[str, float, float], ...]] = {
    # The equilibria shrink to the origin at n = -b, where its matrix has a double zero for b² = 0.6.
    "electronic circuit": ((TAKENS, -sqrt(0.6), sqrt(0.6)), (BAUTIN, -0.7690005954, 0.10135597745)),
}
"""On the curve of those Hopf points."""

MAPS: dict[str, tuple[Known, ...]] = {
    # y² = v m: both signs of y.
    "Burgers": ((TORUS, 0.5), (BRANCH, 0.0), (TORUS, 0.5)),
    "duopoly": ((DOUBLING, 3 - 2 / 0.9), (BRANCH, 1.0), (BRANCH, 3.0), (DOUBLING, 1 + 2 / 0.9)),
    # SciPy: all multipliers are below 0.948.
    "flour beetles": (),
    "Tinkerbell": ((DOUBLING, -(1.5 + 2 * 0.6013) / 1.5), (TORUS, (1 - 2 * 0.6013) / 0.5), (BRANCH, 1 + 4 * 0.6013)),
}

DOUBLED: dict[str, tuple[Known, ...]] = {"Tinkerbell": ((FOLD, -1.055542966), (TORUS, -1.129131336))}
"""SciPy: roots of the defining equations from 300 random starts."""

SWITCHED: dict[str, tuple[tuple[float, int, tuple[Known, ...]], ...]] = {
    "duopoly": (
        (1.0, -1, ((DOUBLING, 2 / 0.9 - 1),)),
        (3.0, 1, ((TORUS, 3.49443826),)),
    ),
}
"""Branch points, side of the switch, and what is known of the branch that leaves."""


def _c(a: float) -> float:
    return (1 - 0.5 * a) / 0.6013


MAP_CURVES: dict[str, dict[str, tuple[tuple[str, float, float], ...]]] = {
    "Burgers": {
        TORUS: (
            ("1:1 resonance", 0.5, 0.0), ("1:4 resonance", 0.5, 2.0), ("1:3 resonance", 0.5, 3.0),
            ("1:2 resonance", 0.5, 4.0),
        ),
    },
    "Tinkerbell": {
        DOUBLING: (("1:2 resonance", -2.5, _c(-2.5)), ("generalised period doubling", -1.1971497112, 0.4918086926)),
        TORUS: (
            ("1:2 resonance", -2.5, _c(-2.5)), ("1:3 resonance", -1.5, _c(-1.5)), ("1:4 resonance", -0.5, _c(-0.5)),
            ("1:1 resonance", 1.5, _c(1.5)),
        ),
    },
}  # fmt: skip

DRIVEN: dict[str, tuple[Known, ...]] = {"Toda": (), "Morse": ()}
"""SciPy, DOP853 with variations: no multiplier reaches 1 or -1 along either response."""
