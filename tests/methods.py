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
FIT_METHODS: list[Method] = [
    Method("HarmonicFit", lambda: kz.HarmonicFit(), frozenset({"series", "forced", "linear in parameters"})),
    Method("InvariantFit", lambda: kz.InvariantFit(), frozenset({"series", "hamiltonian"})),
    Method("OrbitFit", lambda: kz.OrbitFit(), frozenset({"orbits"})),
]
