"""Methods and what they ask of a problem; `cases` pairs them with the problems of problems.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

import kapitza as kz
from problems import FitProblem, OrbitProblem


@dataclass(frozen=True)
class Method:
    """A method's settings, made when the test runs, and the problems it applies to.

    needs: words that a problem must offer. refuses: words that it must not offer.
    """

    name: str
    settings: Callable[[], Any]
    needs: frozenset[str] = frozenset()
    refuses: frozenset[str] = frozenset()

    def applies(self, problem: OrbitProblem | FitProblem) -> bool:
        return self.needs <= problem.offers and not self.refuses & problem.offers


def cases(problems: Iterable[OrbitProblem | FitProblem], methods: Iterable[Method]) -> list[Any]:
    """Every applicable pair as a pytest parameter named PROBLEM-METHOD."""
    methods = list(methods)
    return [pytest.param(p, m, id=f"{p.name}-{m.name}") for p in problems for m in methods if m.applies(p)]


ORBIT_METHODS: list[Method] = [
    Method("Shooting", kz.Shooting),
    Method("MultipleShooting", kz.MultipleShooting),
    Method("Collocation", kz.Collocation),
    Method("Differences", kz.Differences, frozenset({"smooth"}), frozenset({"kinked"})),
    Method("HarmonicBalance", kz.HarmonicBalance, frozenset({"smooth"}), frozenset({"kinked"})),
]
SERIES = frozenset({"series"})
LINEAR = frozenset({"series", "linear in parameters"})
UNSUITED = frozenset({"hidden", "short", "nonsmooth"})

FIT_METHODS: list[Method] = [
    Method("HarmonicFit", lambda: kz.HarmonicFit(), LINEAR, UNSUITED),
    Method("HarmonicFit robust", lambda: kz.HarmonicFit(solver="robust"), LINEAR, UNSUITED),
    Method(
        "HarmonicFit harmonics",
        lambda: kz.HarmonicFit(
            test="harmonics", derivatives="series", solver="least squares", harmonics=7, low_pass=None
        ),
        frozenset({"orbits", "profiles", "linear in parameters"}),
    ),
    Method("InvariantFit", lambda: kz.InvariantFit(), frozenset({"series", "hamiltonian"})),
    Method("InvariantFit surface", lambda: kz.InvariantFit("surface"), frozenset({"series", "hamiltonian"})),
    Method("OrbitFit", lambda: kz.OrbitFit(), frozenset({"orbits"})),
    Method("OrbitFit nested", lambda: kz.OrbitFit(formulation="nested"), frozenset({"orbits"}), frozenset({"many"})),
    Method("OrbitFit of a record", lambda: kz.OrbitFit(), frozenset({"series", "periodic"})),
    Method("ShootingFit", lambda: kz.ShootingFit(), SERIES),
    Method("ShootingFit robust", lambda: kz.ShootingFit(robust=True), SERIES, frozenset({"exact", "nonsmooth"})),
    Method("Automatic", lambda: kz.Automatic(), SERIES),
    Method("by default", lambda: None, frozenset({"plain"})),
]
