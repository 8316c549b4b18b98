"""INVARIANT, section 3: the Hénon-Heiles system in its class of Hamiltonians."""

from __future__ import annotations

import numpy as np
from harness import Comparison, comparison_table, markdown_table

import kapitza as kz
from reproductions._invariant import (
    FIRST_SEED,
    INDEPENDENT,
    SEEDS,
    Errors,
    below_by_chance,
    clean_row,
    first,
    judged,
    noise_table,
    only,
    percent,
    repeat,
)

TRUTH = {"m2": 1.0, "omega1": 1.0, "omega2": 1.0, "a": 0.0, "b": 1.0, "c": 0.0, "d": -1 / 3}
STIFF, CUBIC, ABSENT = ("m2", "omega1", "omega2"), ("b", "d"), ("a", "c")


def series() -> kz.Record:
    return kz.simulate(kz.library.henon_heiles(), t=np.arange(200.0))


def clean() -> list[Comparison]:
    """Noise-free points, five selections, ten random starts each."""
    rng, record = np.random.default_rng(0), series()
    choices = {
        "20 points": np.arange(20),
        "50 points": np.arange(50),
        "100 points": np.arange(100),
        "every tenth point": np.arange(0, 200, 10),
        "50 shuffled points": rng.permutation(200)[:50],
    }
    rows = []
    for what, index in choices.items():
        chosen = kz.Record.from_arrays(np.arange(index.size), {c: record[c][index] for c in record.channels})
        worst = 0.0
        for _ in range(10):
            start = {n: rng.uniform(0.1, 5) * (1 if n in STIFF else rng.choice([-1, 1])) for n in TRUTH}
            model = kz.library.henon_heiles().with_values(**start)
            fit = kz.identify(model, chosen, free=list(TRUTH), method=kz.InvariantFit())
            worst = max(worst, *(abs(fit[n] - t) for n, t in TRUTH.items()))
        rows.append(clean_row(f"noise-free, {what}, any start", 6, worst))
    return rows


def level_set_covariance(relative_noise: float, count: int) -> np.ndarray:
    """Cramér-Rao covariance (7, 7) of the parameters from the level set alone, the level being unknown too."""
    exact = first(series(), count)
    q1, q2, p1, p2 = (exact[n] for n in ("q1", "q2", "p1", "p2"))
    spread = [relative_noise * np.mean(np.abs(exact[n])) for n in ("q1", "q2", "p1", "p2")]
    slope = np.array([q1 + 2 * q1 * q2, q2 + q1**2 - q2**2, p1, p2])
    s = np.sqrt(np.sum((np.array(spread)[:, None] * slope) ** 2, axis=0))
    columns = [-(p2**2) / 2, q1**2, q2**2, q1**3, q1**2 * q2, q1 * q2**2, q2**3, -np.ones_like(q1)]
    jacobian = np.array(columns) / s
    return np.linalg.inv(jacobian @ jacobian.T)[:7, :7]


def noisy() -> str:
    model, record, cases, sparse = kz.library.henon_heiles(), series(), [], []
    for noise, count, stiff, cubic, absent in ((0.01, 50, 0.01, 0.03, 3e-3), (0.05, 100, 0.05, 0.20, 1e-2)):
        part = first(record, count)
        errors = {
            "F3": repeat(model, part, TRUTH, kz.InvariantFit(correction=0), noise),
            "F3 corrected": repeat(model, part, TRUTH, kz.InvariantFit(), noise),
            "F2": repeat(model, part, TRUTH, kz.InvariantFit("surface"), noise),
            "F1": repeat(model, part, TRUTH, kz.InvariantFit(then=kz.ShootingFit()), noise),
        }
        covariance = level_set_covariance(noise, count)
        deviation = 0.6745 * np.sqrt(np.diag(covariance))
        bounds = {n: float(v / (abs(t) or 1)) for (n, t), v in zip(TRUTH.items(), deviation, strict=True)}
        goals = dict.fromkeys(STIFF, stiff) | dict.fromkeys(CUBIC, cubic) | dict.fromkeys(ABSENT, absent)
        words = f"{100 * noise:g} %, {count} points"
        cases.append((words, goals, bounds, errors))
        where = [list(TRUTH).index(n) for n in ABSENT]
        chance = below_by_chance(covariance[np.ix_(where, where)], absent)
        sparse.append(identified(part, noise, absent, words, chance))
    c = list(TRUTH).index("c")
    least = [0.6745 * np.sqrt(level_set_covariance(noise, 200)[c, c]) for noise in (0.01, 0.05)]
    header = [
        "data",
        "document, target",
        "median |a|",
        "median |c|",
        "verdict",
        "runs without a, c",
        "chance of one run",
    ]
    return (
        noise_table(cases, TRUTH, ("F3", "F3 corrected", "F2", "F1"))
        + "\n\nMedians of the relative error (of the modulus for a and c). Best possible: 0.6745 times the "
        "Cramér-Rao deviation of an unbiased estimate from these points of one level set. For c it lies above"
        " the document's number. Another reading of the noise does not help: a fraction of each value instead"
        " of the mean modulus makes it larger. All 200 points instead of 50 (100) would bring it to "
        f"{least[0]:.2g} ({least[1]:.2g}). The document gives one run; the last column below is the chance "
        "that one run of the best estimate stays under both limits. Two ways beyond the bound: the motion "
        "itself (F1, hand-over to ShootingFit), and identification (find_invariant in the class, which drops "
        "terms within three standard errors of zero):\n\n" + markdown_table(header, sparse)
    )


def identified(part: kz.Record, noise: float, limit: float, words: str, chance: float) -> tuple[str, ...]:
    """a and c by find_invariant inside the document's class."""
    terms = ["p1**2", "p2**2", "q1**2", "q2**2", "q1**3", "q1**2*q2", "q1*q2**2", "q2**3"]
    values = []
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        search = kz.find_invariant(kz.measure(part, relative_noise=noise, seed=seed), terms)
        table = search[0].table()["coefficient"] if search else {"p1**2": np.nan}
        values.append([table.get(t, 0.0) / (2 * table["p1**2"]) for t in ("q1**3", "q1*q2**2")])
    sizes = np.abs(np.array(values))
    sizes = np.where(np.isnan(sizes), np.inf, sizes)  # nothing found counts as a miss
    a, c = np.median(sizes, axis=0)
    dropped = ", ".join(f"{100 * share:.0f} %" for share in np.mean(sizes == 0, axis=0))
    return words, f"≤ {limit:g}", f"{a:.2g}", f"{c:.2g}", judged(max(a, c), limit), dropped, f"{100 * chance:.0f} %"


def other_orbits(count: int) -> list[kz.Record]:
    """Orbits of 100 points from random states at energies like the document's (1/6 is the escape energy)."""
    model, rng, found = kz.library.henon_heiles(), np.random.default_rng(FIRST_SEED), []
    while len(found) < count:
        q1, q2, p1, p2 = rng.uniform(-0.45, 0.45, 4)
        energy = (p1**2 + p2**2 + q1**2 + q2**2) / 2 + q1**2 * q2 - q2**3 / 3
        if 0.12 < energy < 0.165:
            start = {"q1": q1, "q2": q2, "p1": p1, "p2": p2}
            found.append(kz.simulate(model, x0=[start[s] for s in model.states], t=np.arange(100.0)))
    return found


def half_way(record: kz.Record, method: kz.InvariantFit) -> Errors:
    """Second differences q[i+1] - q[i] taken half way between samples, where positions are interpolated."""
    q = np.array([record["q1"], record["q2"]])
    middle = (9 * (q[:, 1:-2] + q[:, 2:-1]) - (q[:, :-3] + q[:, 3:])) / 16
    rate = q[:, 2:-1] - q[:, 1:-2]
    channels = {"q1": middle[0], "q2": middle[1], "q1'": rate[0], "q2'": rate[1]}
    seen = kz.Record.from_arrays(np.arange(middle.shape[1]), channels)
    model = kz.Model.from_equations(
        ["q1'' = 0", "q2'' = 0"],
        coordinates=["q1", "q2"],
        parameters={"m1": 1.0, "m2": 1.3, "omega1": 1.2, "omega2": 0.8, "a": 0.1, "b": 0.8, "c": 0.1, "d": -0.2},
    )
    fit = kz.identify(model, seen, free=list(TRUTH), method=method)
    signed = np.array([[(fit[n] - t) / (abs(t) or 1.0) for n, t in TRUTH.items()]])
    return Errors(tuple(TRUTH), signed, np.zeros(len(TRUTH)))


LAGRANGIAN = (
    "m1*q1'**2/2 + m2*q2'**2/2 + omega1**2*q1**2/2 + omega2**2*q2**2/2 + a*q1**3 + b*q1**2*q2 + c*q1*q2**2 + d*q2**3"
)


def incomplete() -> str:
    model, rows = kz.library.henon_heiles(), []
    documents, others = [first(series(), 100)], other_orbits(10)
    cases = [
        (0.0, "second", 0.15, 0.30, 2.5e-2),
        (0.0, "fourth", 0.05, 0.15, 2e-2),
        (0.0, "auto", 0.05, 0.15, 2e-2),
        (0.01, "fourth", 0.04, 0.18, 3e-2),
        (0.01, "auto", 0.04, 0.18, 3e-2),
    ]
    for noise, momenta, *goals in cases:
        fits = {
            "F3 unweighted": kz.InvariantFit(momenta=momenta, weights="equal", loss="linear", correction=0),
            "F3": kz.InvariantFit(momenta=momenta),
            "F2": kz.InvariantFit("surface", momenta=momenta),
        }
        for orbits, records in (("the document's", documents), ("10 others", others)):
            seeds = (SEEDS if len(records) == 1 else 5) if noise else 1
            for label, fit in fits.items():
                parts = [repeat(model, r, TRUTH, fit, noise, seeds, only("q1", "q2")) for r in records]
                rows.append(_positions(f"{100 * noise:g} %", momenta, orbits, label, parts, goals))
    middle = {"F3": kz.InvariantFit(invariant=LAGRANGIAN), "F2": kz.InvariantFit("surface", invariant=LAGRANGIAN)}
    for orbits, records in (("the document's", documents), ("10 others", others)):
        for label, fit in middle.items():
            parts = [half_way(r, fit) for r in records]
            rows.append(_positions("0 %", "second, half way", orbits, label, parts, cases[0][2:]))
    groups = ("m2, omega", "b, d", "a, c")
    heads = [part for group in groups for part in (f"{group}: target", "worst median", "verdict")]
    return markdown_table(["noise", "differences", "orbit", "objective", *heads], rows)


def _positions(noise: str, momenta: str, orbits: str, label: str, parts: list[Errors], goals) -> tuple[str, ...]:
    every = Errors(parts[0].names, np.vstack([p.signed for p in parts]), parts[0].coverage)
    cells = []
    for names, goal in zip((STIFF, CUBIC, ABSENT), goals, strict=True):
        show = (lambda v: f"{v:.2g}") if names is ABSENT else percent
        worst = every.worst(names)
        cells += [f"≤ {show(goal)}", show(worst), judged(worst, goal, own=len(parts) == 1)]
    return (noise, momenta, orbits, label, *cells)


def bias() -> str:
    """Bias of F3 and of F3 corrected at 5 % noise on 1000 points, where it stands clear of the scatter."""
    model, record = kz.library.henon_heiles(), kz.simulate(kz.library.henon_heiles(), t=np.arange(1000.0))
    plain = repeat(model, record, TRUTH, kz.InvariantFit(correction=0), 0.05)
    corrected = repeat(model, record, TRUTH, kz.InvariantFit(), 0.05)
    rows = []
    for name in ("m2", "omega1", "omega2", "b", "d"):
        before, after = plain.bias(name), corrected.bias(name)
        verdict = "met" if abs(after) < abs(before) / 3 else "**missed**"
        cover = f"{100 * corrected.coverage[corrected.names.index(name)]:.0f} %"
        rows.append((name, percent(before), percent(after), "< 1/3", verdict, cover))
    header = [
        "parameter",
        "bias of F3",
        "bias of F3 corrected",
        "target",
        "verdict",
        "90 % intervals that hold the truth",
    ]
    return markdown_table(header, rows)


def main() -> str:
    return (
        "# INVARIANT, section 3: Hénon-Heiles\n\n"
        f"{SEEDS} noise seeds. The document reports one run each.\n\n## Noise-free\n\n"
        + comparison_table(clean())
        + "\n\n## Noise\n\n"
        + noisy()
        + "\n\n## Positions only, 100 points\n\n"
        + incomplete()
        + "\n\nThe central second difference is by itself too small, by sin(ωΔt)/(ωΔt) = 0.84 at ω = 1 and Δt = "
        "1: 16 % in ω and 29 % in b and d, about what the document found. Half way: the same differences "
        "q[i+1] - q[i] belong to the middle of their interval, with positions interpolated there from four "
        "samples. " + INDEPENDENT + "\n\n"
        "## Bias at 5 % noise\n\n" + bias()
    )
