"""ORBITS: unstable orbits in a long noise-free section, and Table 3.1 from a short noisy one, with coverage."""

from __future__ import annotations

import numpy as np
from harness import Comparison, comparison_table, markdown_table

import kapitza as kz
from kapitza.base.angles import difference
from kapitza.orbits.in_records.returns import count_visits

ANGLES = (True, False)
READING = 15.08e-3  # s between the two readings of the angle that give the rate
LONG = 2**20
SHORT = 42754
SEEDS = 50
# code in Table 3.1, code computed from the quadrants of the document, |largest|, |smallest|. The document reads "C,B"
# for the rotating pair and AABAB for period 5; the pendulum's orbits with those multipliers lie in D, A and AAAAB.
TABLE = [
    ("-", "*", 2.2, 0.37), ("C, B", "A", 1.68, 0.39), ("C, B", "D", 1.68, 0.39), ("AA", "AA", 3.8, 0.21),
    ("DD", "DD", 3.8, 0.21), ("ABA", "AAB", 26.0, 0.067), ("DCD", "CDD", 26.0, 0.067), ("ABCD", "ABCD", 30.0, 0.02),
    ("ADCB", "ADCB", 30.0, 0.02), ("AABAB", "AAAAB", 43.0, 0.008), ("CDCDD", "CDDDD", 43.0, 0.008),
]  # fmt: skip


def main() -> str:
    return "\n\n".join(["# Orbits in the section of the parametric pendulum", long_record(), *short_records()])


# -- the long record --------------------------------------------------------------------------------------------------


def long_record() -> str:
    model = kz.library.parametric_pendulum()
    record = kz.simulate(model, periods=LONG)
    found = kz.find_orbits(record, max_period=5)
    section = kz.orbits_in_data.strobe_record(record, noise=np.zeros(2))
    scale = section.scale
    census = [o for o in kz.find_orbits(model, max_period=5) if abs(o.multipliers[0]) <= 100]
    visited = [o for o in census if count_visits(section, section.canonical(o.points / scale), 0.005)[0] > 0]
    hits = [o for o in visited if any(gap(o.points, f.points, scale) < 0.003 for f in found)]
    solved = [(f, true_orbit(model, f.points)) for f in found]
    false = [f for f, t in solved if t is None or gap(t[0], f.points, scale) > 0.01]
    good = [(f, t) for f, t in solved if t is not None and gap(t[0], f.points, scale) <= 0.01]
    position = float(np.median([gap(t[0], f.points, scale) for f, t in good]))
    multiplier = float(np.median([abs(abs(f.multipliers[0]) / abs(t[1][0]) - 1) for f, t in good]))
    share = len(hits) / max(len(visited), 1)
    counts = ", ".join(f"{p}: {sum(f.repeats == p for f in found)}" for p in range(1, 6))
    rows = [
        Comparison("census orbits (p ≤ 5, |μ1| ≤ 100) that the record visits", "-", len(visited)),
        Comparison("of them found", "-", f"{len(hits)} ({100 * share:.1f} %)", "≥ 95 %", share >= 0.95),
        Comparison("orbits found, by period", "5, 8, 4, 10, 6 (prototype)", counts),
        Comparison("false ones", "-", f"{len(false)} of {len(found)}", "≤ 5 %", len(false) <= 0.05 * len(found)),
        Comparison("median position error [attractor]", 1e-6, position, "≤ 5e-6", position <= 5e-6),
        Comparison("median error of |μ1|", "-", f"{100 * multiplier:.4f} %", "≤ 0.5 %", multiplier <= 0.005),
    ]
    text = comparison_table(rows, "ORBITS")
    return f"## {LONG} points, no noise\n\n{text}\n\nTimes are on the page of the benchmark `orbits`."


def gap(first: np.ndarray, second: np.ndarray, scale: np.ndarray) -> float:
    """Largest distance of two cycles in attractor sizes, over shifts; infinite for different periods."""
    if first.shape != second.shape:
        return float("inf")
    return min(
        float(np.linalg.norm(difference(np.roll(second, k, axis=0), first, ANGLES) / scale, axis=1).max())
        for k in range(len(first))
    )


def true_orbit(model: kz.Model, start: np.ndarray, iterations: int = 20) -> tuple[np.ndarray, np.ndarray] | None:
    """Newton on all points of a cycle together: points and multipliers, or None when it does not close."""
    flow, period = kz.Flow(model), float(model.period)
    points = np.array(start, float)
    p, n = points.shape
    for _ in range(iterations):
        steps = [flow.propagate(x, 0.0, period) for x in points]
        ends = np.array([s.state for s in steps])
        rest = difference(ends, np.roll(points, -1, axis=0), ANGLES)
        matrix = np.zeros((p * n, p * n))
        for k, s in enumerate(steps):
            j = (k + 1) % p
            matrix[k * n : (k + 1) * n, j * n : (j + 1) * n] += np.eye(n)
            matrix[k * n : (k + 1) * n, k * n : (k + 1) * n] -= s.jacobian
        if np.abs(rest).max() < 1e-10:
            product = np.eye(n)
            for s in steps:
                product = s.jacobian @ product
            values = np.linalg.eigvals(product)
            return points, values[np.argsort(-np.abs(values))]
        points = points + np.linalg.solve(matrix, rest.ravel()).reshape(p, n)
    return None


# -- the short records, as the experiment was read --------------------------------------------------------------------


def experiment_model() -> kz.Model:
    return kz.library.parametric_pendulum().with_values(m=0.0854, l=0.318, k1=6.88e-4)


def experiment_record(seed: int, count: int = SHORT) -> kz.Record:
    """Strobed angle and its difference quotient over 15.08 ms; a new segment each time the pendulum comes to rest."""
    flow, rng = kz.Flow(experiment_model()), np.random.default_rng(seed)
    pieces, length = [], 0
    while length < count:
        start = [rng.uniform(-3, 3), rng.uniform(-8, 8)]
        states = flow.strobe(start, min(count - length, 20000) + 200).states[200:]
        rest = np.flatnonzero(np.abs(states[:, 1]) < 1e-9)
        states = states[: rest[0] if rest.size else len(states)]
        if len(states) > 20:
            pieces.append(states)
            length += len(states)
    states = np.concatenate(pieces)[:count]
    label = np.repeat(np.arange(len(pieces)), [len(p) for p in pieces])[:count]
    later = flow.propagate_many(states, 0.0, READING).state
    rate = difference(later[:, :1], states[:, :1], (True,))[:, 0] / READING
    period = float(experiment_model().period)
    return kz.Record.from_arrays(
        np.arange(count) * period, {"phi": states[:, 0], "phi'": rate}, angles=["phi"], segment=label, period=period
    )


def as_read(model: kz.Model, points: np.ndarray) -> np.ndarray:
    """Periodic points in the coordinates of the experiment: angle and difference quotient."""
    later = kz.Flow(model).propagate_many(points, 0.0, READING).state
    rate = difference(later[:, :1], points[:, :1], (True,))[:, 0] / READING
    return np.column_stack([points[:, 0], rate])


def reference_orbits() -> list[tuple[np.ndarray, np.ndarray]]:
    """Orbits of the experiment's model (read as it was) with their multipliers, from a noise-free record of its own."""
    model = experiment_model()
    flow = kz.Flow(model)
    record = kz.Record.from_arrays(
        np.arange(300000) * float(model.period),
        dict(zip(("phi", "phi'"), _long_transient(flow, 300000).T, strict=True)), angles=["phi"], period=model.period,
    )  # fmt: skip
    truth = []
    for orbit in kz.find_orbits(record, max_period=5):
        solved = true_orbit(model, orbit.points)
        if solved is not None:
            truth.append((as_read(model, solved[0]), solved[1]))
    return truth


def _long_transient(flow: kz.Flow, count: int) -> np.ndarray:
    """Chaotic points of the model with dry friction, restarted when at rest; joints between starts are few."""
    rng, parts, length = np.random.default_rng(99), [], 0
    while length < count:
        states = flow.strobe([rng.uniform(-3, 3), rng.uniform(-8, 8)], 20200).states[200:]
        rest = np.flatnonzero(np.abs(states[:, 1]) < 1e-9)
        parts.append(states[: rest[0] if rest.size else len(states)])
        length += len(parts[-1])
    return np.concatenate(parts)[:count]


Truth = tuple[np.ndarray, np.ndarray]


def short_records() -> list[str]:
    truth = reference_orbits()
    clean = [experiment_record(seed) for seed in range(5)]
    return [noisy_section(level, clean, truth) for level in (5e-4, 5e-3)] + [hanging_at_rest()]


def judge(points: np.ndarray, truth: list[Truth], size: np.ndarray, level: float) -> Truth | None:
    """The orbit of the model that was found: a reference orbit near by, or where Newton from the points ends.

    None when Newton does not close or ends elsewhere: the orbit is false. New orbits join the references.
    """
    limit = 0.015 + 4 * level
    near = min(truth, key=lambda t: gap(t[0], points, size), default=None)
    if near is not None and gap(near[0], points, size) <= limit:
        return near
    solved = true_orbit(experiment_model(), points)
    if solved is None or gap(as_read(experiment_model(), solved[0]), points, size) > limit:
        return None
    truth.append((as_read(experiment_model(), solved[0]), solved[1]))
    return truth[-1]


def at_rest(points: np.ndarray, size: np.ndarray) -> bool:
    return len(points) == 1 and bool(np.abs(points / size).max() < 0.01)


def held(orbit: kz.PeriodicOrbit, near: Truth, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which 90 % intervals of coordinates and |multipliers| hold the true values."""
    shift = min(
        range(len(orbit.points)),
        key=lambda k: np.abs(difference(np.roll(near[0], k, axis=0), orbit.points, ANGLES) / size).max(),
    )
    offset = difference(orbit.points, np.roll(near[0], shift, axis=0), ANGLES).ravel()
    wrong = np.abs(np.abs(orbit.multipliers) - np.abs(near[1]))
    return np.abs(offset) < 1.645 * np.sqrt(np.diag(orbit.covariance)), wrong < 1.645 * orbit.multiplier_deviation


def noisy_section(level: float, clean: list[kz.Record], truth: list[Truth]) -> str:
    size = np.array([2 * np.pi, np.ptp(clean[0]["phi'"])])
    positions: list[np.ndarray] = []
    multipliers: list[np.ndarray] = []
    false = total = 0
    seen: dict[str, list[tuple[kz.PeriodicOrbit, np.ndarray]]] = {code: [] for _, code, *_ in TABLE}
    for seed in range(SEEDS):
        noise = {"phi": level * size[0], "phi'": level * size[1]}
        found = kz.find_orbits(kz.measure(clean[seed % len(clean)], noise=noise, seed=seed), max_period=5)
        listed: dict[str, tuple[kz.PeriodicOrbit, np.ndarray]] = {}
        for orbit in found:
            if at_rest(orbit.points, size):
                listed["*"] = (orbit, hanging_multipliers())
                continue
            total += 1
            near = judge(orbit.points, truth, size, level)
            if near is None:
                false += 1
                continue
            inside = held(orbit, near, size)
            positions.append(inside[0])
            multipliers.append(inside[1])
            for _, code, large, _ in TABLE:
                if same_code(orbit.code, code) and 0.5 < abs(near[1][0]) / large < 1.5:
                    listed.setdefault(code, (orbit, near[1]))
        for code, pair in listed.items():
            seen[code].append(pair)
    title = f"## {SHORT} points with dry friction, rate from two readings, noise {level:g} of the attractor"
    note = (
        f"{SEEDS} noise seeds over {len(clean)} records. Every orbit found is judged: by the orbit of the model near "
        "it, or by Newton's method from its own points."
    )
    return "\n\n".join([title, coverage_table(total, false, positions, multipliers), note, beside_the_table(seen)])


def coverage_table(total: int, false: int, positions: list[np.ndarray], multipliers: list[np.ndarray]) -> str:
    place, sizes = float(np.mean(np.concatenate(positions))), float(np.mean(np.stack(multipliers)))
    first, second = (float(np.mean(np.stack(multipliers)[:, k])) for k in (0, 1))
    rows = [
        Comparison("orbits found", "-", total, note="without the hanging rest point"),
        Comparison("false ones", "-", false, note="Newton ends elsewhere"),
        Comparison("90 % intervals of positions hold", "-", f"{100 * place:.1f} %", "80-97 %", 0.8 <= place <= 0.97),
        Comparison("90 % intervals of multipliers hold", "-", f"{100 * sizes:.1f} %", "80-97 %", 0.8 <= sizes <= 0.97,
                   f"|μ1| {100 * first:.1f} %, |μ2| {100 * second:.1f} %"),
    ]  # fmt: skip
    return comparison_table(rows, "ORBITS")


def beside_the_table(seen: dict[str, list[tuple[kz.PeriodicOrbit, np.ndarray]]]) -> str:
    """Medians over the seeds beside Table 3.1 and the model's own values."""
    table = []
    for printed, code, large, small in TABLE:
        pairs = seen[code]
        if not pairs:
            table.append((printed, code, large, small, "-", "-", "-", "-", f"0 of {SEEDS}"))
            continue
        middle = np.median([np.abs(orbit.multipliers) for orbit, _ in pairs], axis=0)
        spread = np.median([orbit.multiplier_deviation for orbit, _ in pairs], axis=0)
        cells = [f"{m:.4g} ± {d:.2g}" for m, d in zip(middle, spread, strict=True)]
        true_sizes = [f"{m:.4g}" for m in np.abs(pairs[0][1])]
        table.append((printed, code, large, small, *cells, *true_sizes, f"{len(pairs)} of {SEEDS}"))
    header = [
        "code in Table 3.1", "computed code", "Table 3.1 |μ1|", "|μ2|", "Kapitza |μ1|", "|μ2|", "shooting |μ1|", "|μ2|",
        "found in seeds",
    ]  # fmt: skip
    note = (
        "Medians over the seeds, with the median standard deviation. Codes are rotated to start with the first letter; "
        "* lies on the border of the partition (the hanging rest point). The document's codes of the rotating pair "
        "(C, B) and of period 5 (AABAB, CDCDD) do not agree with its own quadrants: the model's orbits with those "
        "multipliers read A, D and AAAAB, CDDDD."
    )
    return markdown_table(header, table) + "\n\n" + note


def hanging_multipliers() -> np.ndarray:
    """Multipliers of hanging at rest without dry friction."""
    model = experiment_model().with_values(k1=0.0)
    values = np.linalg.eigvals(kz.Flow(model).propagate(np.zeros(2), 0.0, float(model.period)).jacobian)
    return values[np.argsort(-np.abs(values))]


def hanging_at_rest(periods: int = 60) -> str:
    """Why the row * has no multipliers of its own: with dry friction small swings die, larger ones grow."""
    flow = kz.Flow(experiment_model())
    low, high = 1e-3, 0.1
    for _ in range(12):
        middle = np.sqrt(low * high)
        swings = np.abs(flow.strobe([middle, 0.0], periods).states).max(axis=1)
        low, high = (low, middle) if swings.max() > 10 * middle else (middle, high)
    rows = []
    for angle in (0.5 * low, 0.02, 0.05, 0.1, 0.2):
        values = np.linalg.eigvals(
            flow.propagate(np.array([angle, 0.0]), 0.0, float(experiment_model().period)).jacobian
        )
        sizes = -np.sort(-np.abs(values))
        rows.append((f"{angle:.4g}", f"{100 * angle / (2 * np.pi):.2g} %", f"{sizes[0]:.4g}", f"{sizes[1]:.4g}"))
    without = np.abs(hanging_multipliers())
    return (
        "## Hanging at rest with dry friction\n\n"
        f"With k1 = 6.88e-4 N m a swing released below {low:.3g} rad ({100 * low / (2 * np.pi):.2g} % of the "
        "attractor; bisected by simulation) comes to rest, a larger one grows: hanging is a stable point in a small "
        "basin, and the unstable orbit of Table 3.1 exists only seen from outside. The map started inside the basin "
        "and at larger angles, against "
        f'{without[0]:.4g} and {without[1]:.4g} without dry friction (the values under "shooting" in the rows *):\n\n'
        + markdown_table(["angle [rad]", "of the attractor", "|μ1|", "|μ2|"], rows)
    )


def same_code(code: str, wanted: str) -> bool:
    """Whether a code can be read as the wanted one in some rotation; single border points ("*") may be anything."""
    if wanted == "*" or set(code) == {"*"}:
        return code == wanted
    turned = [wanted[k:] + wanted[:k] for k in range(len(wanted))]
    return len(code) == len(wanted) and any(all(a in ("*", b) for a, b in zip(code, t, strict=True)) for t in turned)
