"""Random models with known redundancies: are the combinations that can be known named exactly?"""

from __future__ import annotations

from collections import Counter

import numpy as np
import sympy as sp
from harness import Comparison, comparison_table, markdown_table

import kapitza as kz
from kapitza.model import parse_expression, symbol
from reproductions._redundant_models import Disguised, draw

SEEDS = range(100)


def verdict(problem: Disguised, seed: int) -> tuple[str, tuple[str, ...]]:
    """ "exact", "incomplete" (some combination has no name) or "wrong", and what was named.

    Formulas are equivalent to the truth where their gradients span the same space at points that neither has seen.
    """
    found = kz.identifiability(problem.model, list(problem.outputs), problem.free, problem.outputs)
    rng = np.random.default_rng([17, seed])
    truth = [parse_expression(text, problem.free) for text in problem.determined]
    named = [parse_expression(text, problem.free) for text in found.determined]
    complete = True
    for _ in range(3):
        at = {symbol(n): sp.Float(problem.model.values[n] * rng.uniform(0.7, 1.4), 17) for n in problem.free}
        right, said = _gradients(truth, problem.free, at), _gradients(named, problem.free, at)
        rank = np.linalg.matrix_rank(right, tol=1e-8)
        if len(named) and np.linalg.matrix_rank(np.vstack([right, said]), tol=1e-8) > rank:
            return "wrong", found.determined
        complete &= len(named) == rank == (np.linalg.matrix_rank(said, tol=1e-8) if len(named) else 0)
    return ("exact" if complete else "incomplete"), found.determined


def _gradients(expressions: list[sp.Expr], names: tuple[str, ...], at: dict[sp.Symbol, sp.Float]) -> np.ndarray:
    rows = [[float(sp.N(sp.diff(e, symbol(n)).xreplace(at))) for n in names] for e in expressions]
    matrix = np.array(rows).reshape(len(expressions), len(names))
    return matrix / np.linalg.norm(matrix, axis=1, keepdims=True).clip(1e-300)


def main() -> str:
    problems = [draw(seed) for seed in SEEDS]
    results = [verdict(problem, seed) for seed, problem in zip(SEEDS, problems, strict=True)]
    count = Counter(kind for kind, _ in results)
    exact, unnamed, wrong = (count[kind] for kind in ("exact", "incomplete", "wrong"))
    rows = [
        Comparison("models whose combinations are named exactly", "", exact, "at least 95 of 100", exact >= 95),
        Comparison("models with a combination that has no name", "", unnamed, "at most 5", unnamed <= 5),
        Comparison("models with a wrong combination", "", wrong, "0", wrong == 0),
    ]
    shown = []
    for i in (*range(10), *(i for i, (kind, _) in enumerate(results) if kind != "exact" and i >= 10)):
        equations = "; ".join(str(e) for e in problems[i].model.equations)
        seen = ", ".join(f"{c} = {e}" if c != e else c for c, e in problems[i].outputs.items())
        shown.append([str(i), f"`{equations}`", f"`{seen}`", f"`{', '.join(results[i][1])}`", results[i][0]])
    head = ["seed", "equations (= 0)", "measured", "named as determined", "verdict"]
    return (
        "Systems with coefficients that can be told apart, some with hidden states or sensors of unknown gain and "
        "offset; up to two coefficients are then written as products, quotients, sums, or products of sums of several "
        "parameters, with values of either sign, and a mass may stand in front of the acceleration. All parameters are "
        "free. `kz.identifiability` names what can be known; it counts as exact where the gradients of its formulas "
        "span the space of the true ones at points that neither has seen.\n\n"
        + comparison_table(rows)
        + "\n\nThe first ten, and all that are not exact:\n\n"
        + markdown_table(head, shown)
    )
