"""What is known of the held-out systems: values of AUTO-07p (40 × 4 and 150 × 4 collocation) and closed forms.

Points that AUTO lists again when it retraces a family, or that move with its mesh, are left out. Doublings and a fold
that AUTO passed over and `follow` found are here where SciPy confirms them (DOP853 with variations).
"""

from __future__ import annotations

from math import sqrt

FOLD, HOPF, DOUBLING, TORUS, BRANCH = "fold", "Hopf", "period doubling", "Neimark-Sacker", "branch point"
CUSP, TAKENS, BAUTIN = "cusp", "Bogdanov-Takens", "generalised Hopf"
ZERO_HOPF, DOUBLE_HOPF = "zero-Hopf", "double Hopf"

Known = tuple[str, float]

AT_REST: dict[str, tuple[Known, ...]] = {
    "A → B reaction": ((FOLD, 0.10573897827), (FOLD, 0.088931846186), (HOPF, 0.13090004436)),
    "A → B → C reaction": (
        (HOPF, 0.2041845357), (HOPF, 0.22983903762), (HOPF, 0.25995785426), (HOPF, 0.34620852157),
    ),
    "predator and prey with harvest": ((HOPF, 0.67159384748), (BRANCH, 0.8219043452)),
    "predator, prey and superpredator": ((HOPF, 0.22935697511), (BRANCH, 0.3193402608), (HOPF, 0.50383479979)),
    "enzyme in two cells": ((FOLD, 34.356924999), (BRANCH, 34.222886544), (BRANCH, 22.181637933), (FOLD, 18.887067658)),
    "electronic circuit with tori": ((HOPF, -0.58933642522), (BRANCH, -0.5)),
    "Chua's circuit with a cubic": ((HOPF, 6.5777472106),),
    "Lorenz-84": ((HOPF, 1.0194089902),),
    "catalytic oscillator": ((HOPF, 1.0409915695), (FOLD, 1.0522002879), (FOLD, 1.0420485054), (HOPF, 1.0515574838)),
    "adaptive control": ((HOPF, 1 / 1.1),),
    "peroxidase-oxidase reaction": ((HOPF, 0.71247537233),),
    "Rosenzweig and MacArthur": ((HOPF, 13 / 7),),
    "glycolysis of Sel'kov": ((HOPF, sqrt(0.12)), (HOPF, sqrt(0.72))),
    "Oregonator": ((HOPF, 0.5226119873), (HOPF, 2.3380401774)),
    "Wilson and Cowan": (
        (FOLD, -3.1086331656), (FOLD, -3.3241388286), (FOLD, 3.3241388286), (FOLD, 3.1086331656),
    ),
    "food chain of Hastings and Powell": ((HOPF, 2.1137865208),),
    "saddle loop": ((HOPF, 0.25510204105), (BRANCH, 1.5)),
    "saddle-node on a circle": ((FOLD, 1.0),),
    "Bautin": ((HOPF, 0.0),),
    "fold and Hopf": ((HOPF, -0.04), (FOLD, 0.0)),
    "double Hopf": ((HOPF, -0.2), (HOPF, 0.0)),
    "travelling waves of Nagumo": (),
    "Koper": ((HOPF, -7.6695513844), (HOPF, 7.6695513831)),
}  # fmt: skip

CYCLES: dict[str, dict[int, tuple[tuple[Known, ...], str]]] = {
    "A → B reaction": {2: ((), "HOMOCLINIC 0.105507067")},
    "A → B → C reaction": {
        0: (((FOLD, 0.21369736922), (FOLD, 0.21190327714), (HOPF, 0.34620852157)), "HOPF"),
        1: (((FOLD, 0.22496206554), (HOPF, 0.25995785426)), "HOPF"),
        2: (((FOLD, 0.22496206554), (HOPF, 0.22983903762)), "HOPF"),
        3: (((FOLD, 0.21190327714), (FOLD, 0.21369736922), (HOPF, 0.2041845357)), "HOPF"),
    },
    "predator and prey with harvest": {0: ((), "HETEROCLINIC 0.7080728")},
    "predator, prey and superpredator": {
        0: (((BRANCH, 0.301234891), (HOPF, 0.50383479979)), "HOPF"),
        2: (((BRANCH, 0.301234891), (HOPF, 0.22935697511)), "HOPF"),
    },
    "electronic circuit with tori": {
        0: (
            (
                (FOLD, -0.58433477187), (BRANCH, -0.58702897325), (FOLD, -0.83251414536), (BRANCH, -0.83243792657),
                (BRANCH, -0.78759284656), (FOLD, -0.7875903110), (FOLD, -0.79989917416),
                (BRANCH, -0.7969090581), (FOLD, -0.7976731385), (FOLD, -0.797481073), (FOLD, -0.79752960777),
            ),
            "HETEROCLINIC -0.7975198",
        )
    },
    "Chua's circuit with a cubic": {0: (((DOUBLING, 8.1978486257),), "BOUND")},
    "Lorenz-84": {0: ((), "BOUND")},
    "catalytic oscillator": {
        0: (((FOLD, 1.0391629654), (FOLD, 1.0536102808), (HOPF, 1.0515574838)), "HOPF"),
        3: (((FOLD, 1.0536102808), (FOLD, 1.0391629654), (HOPF, 1.0409915695)), "HOPF"),
    },
    "adaptive control": {0: (((DOUBLING, 0.55301241989),), "BOUND")},
    "peroxidase-oxidase reaction": {0: (((TORUS, 0.71643356446), (TORUS, 0.81856587696)), "BOUND")},
    "Rosenzweig and MacArthur": {0: ((), "BOUND")},
    "glycolysis of Sel'kov": {0: (((HOPF, sqrt(0.72)),), "HOPF"), 1: (((HOPF, sqrt(0.12)),), "HOPF")},
    "Oregonator": {
        0: (((FOLD, 0.51254264), (HOPF, 2.3380401774)), "HOPF"), 1: (((HOPF, 0.5226119873),), "not reached"),
    },
    "food chain of Hastings and Powell": {
        0: (
            (
                (DOUBLING, 2.2908832198), (DOUBLING, 2.5235709812), (FOLD, 2.5546613094), (FOLD, 2.4466142245),
                (DOUBLING, 2.4878067769), (DOUBLING, 2.8713756227), (FOLD, 2.8957632075), (FOLD, 2.6606593624),
                (DOUBLING, 2.691423233),
            ),
            "BOUND",
        )
    },
    "saddle loop": {0: ((), "HOMOCLINIC 0")},
    "Bautin": {0: (((FOLD, -0.16),), "BOUND")},
    "double Hopf": {0: ((), "BOUND"), 1: ((), "BOUND")},
    "Koper": {
        0: (
            (
                (DOUBLING, -7.4608818097), (DOUBLING, -6.2350043208), (FOLD, -6.2350043181), (FOLD, -6.2839511572),
                (FOLD, 6.2839511572), (FOLD, 6.2350043181), (DOUBLING, 6.2350043208), (DOUBLING, 7.4608818097),
                (HOPF, 7.6695513831),
            ),
            "HOPF",
        ),
        1: (
            (
                (DOUBLING, -7.4608818097), (DOUBLING, -6.2350043208), (FOLD, -6.2350043181), (FOLD, -6.2839511572),
                (FOLD, 6.2839511572), (FOLD, 6.2350043181), (DOUBLING, 6.2350043208), (DOUBLING, 7.4608818097),
                (HOPF, -7.6695513831),
            ),
            "HOPF",
        ),
    },
}  # fmt: skip
"""By the number of the Hopf point among the known points of the equilibria: what its family passes, and its end."""

CURVES: dict[str, dict[str, tuple[tuple[str, float, float], ...]]] = {
    "A → B reaction": {FOLD: ((TAKENS, 0.10954326761, 2.0731849032), (CUSP, 0.13533528324, 2.5)), HOPF: ()},
    "Lorenz-84": {HOPF: ((ZERO_HOPF, 1.6840517246, 1.6829685534),)},
    "catalytic oscillator": {
        FOLD: (
            (TAKENS, 1.4176276376, 0.97139757352), (CUSP, 1.0064083299, 0.35599127342),
            (TAKENS, 1.1611987087, 0.72233907196),
        ),
        HOPF: (
            (TAKENS, 1.4176276375, 0.97139757328), (BAUTIN, 0.924255, 0.3058793), (BAUTIN, 0.891319, 0.2324874),
            (TAKENS, 1.1611987087, 0.72233907182),
        ),
    },
    "glycolysis of Sel'kov": {HOPF: ()},
    "Wilson and Cowan": {
        FOLD: (
            (CUSP, -3.0020066894, -5.2906680993), (TAKENS, -3.1784387077, -5.7082877960),
            (TAKENS, -5.9085952335, -10.554437071), (TAKENS, 5.9085952343, -1.4455629269),
            (TAKENS, 3.1784387076, -6.2917122043), (CUSP, 3.0020066892, -6.7093319015),
        ),
    },
    "Bautin": {HOPF: ((BAUTIN, 0.0, 0.0),)},
    "fold and Hopf": {HOPF: ((ZERO_HOPF, 0.0, 0.0),), FOLD: ((ZERO_HOPF, 0.0, 0.0),)},
    "double Hopf": {HOPF: ((DOUBLE_HOPF, 0.0, 0.0),)},
}  # fmt: skip
"""By the kind of the curves: their points of codimension two within the ranges, each once."""
