"""Census of the ORBITS pendulum: complete up to period 3, with the saturation of the counts beyond."""

from __future__ import annotations

import numpy as np
from harness import Comparison, comparison_table, markdown_table

import kapitza as kz
from kapitza.base.workers import Executor, pool_of
from kapitza.orbits import distance

REGION = {"phi'": (-15.0, 15.0)}


def closed_under_symmetry(orbits: kz.OrbitSet) -> bool:
    """(φ, φ') → (-φ, -φ') maps the set to itself."""
    images = [o.with_(points=-o.points) for o in orbits]
    return all(min(distance(image, other, (True, False)) for other in orbits) < 1e-7 for image in images)


def main() -> str:
    with pool_of(2) as pool:
        return searched(pool)


def searched(pool: Executor) -> str:
    model = kz.library.parametric_pendulum()
    timed = kz.find_orbits(model, max_period=4, region=REGION, details=False, executor=pool)
    counts = []
    for seed in range(10):
        found = kz.find_orbits(model, max_period=3, region=REGION, seed=seed, details=False, executor=pool)
        counts.append([sum(o.repeats == p for o in found) for p in (1, 2, 3)])
    level = [len({row[i] for row in counts}) == 1 for i in range(3)]
    long = kz.find_orbits(
        model, max_period=6, min_period=4, region=REGION, starts=3072, rounds=6, details=False, executor=pool
    )
    defect = max(o.certificate.determinant for o in (*timed, *long))
    report = long.source
    saturation = [
        (p, " ".join(str(int(s)) for s in np.cumsum(report.starts[p])), " ".join(map(str, report.counts[p])),
         "level" if report.level(p) else "still growing")
        for p in (4, 5, 6)
    ]  # fmt: skip
    rows = [
        Comparison(f"period {p}: orbits over ten seeds", "-", str(sorted({c[i] for c in counts})), "level", level[i])
        for i, p in enumerate((1, 2, 3))
    ]
    rows += [
        Comparison("closed under the symmetry, up to period 4", "-", closed_under_symmetry(timed), "yes",
                   closed_under_symmetry(timed)),
        Comparison("largest determinant defect", "-", defect, "1e-8", defect < 1e-8),
    ]  # fmt: skip
    table = [
        (o.repeats, o.code, o.winding[0], f"{o.multipliers[0].real:.4f}", f"{o.multipliers[1].real:.3g}",
         f"{o.points[0, 0]:.4f}", f"{o.points[0, 1]:.4f}")
        for o in timed[:40]
    ]  # fmt: skip
    return "\n\n".join(
        [
            "# Census of the parametric pendulum",
            comparison_table(rows),
            "Saturation: orbits after so many starts, in all:",
            markdown_table(["period", "starts", "orbits", "verdict"], saturation),
            "The first forty:",
            markdown_table(["period", "code", "winding", "multiplier", "multiplier", "φ", "φ'"], table),
        ]
    )
