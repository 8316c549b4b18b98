"""ORBITS: unstable orbits in a long noise-free section, and Table 3.1 from a short noisy one, with coverage."""

from __future__ import annotations

import numpy as np
from harness import Comparison, comparison_table, markdown_table

import kapitza as kz
from kapitza.orbit import circle_difference
from kapitza.orbits.returns import count_visits

ANGLES = (True, False)
READING = 15.08e-3  # s between the two readings of the angle that give the rate
LONG = 2**20
SHORT = 42754
SEEDS = 50
# code, |largest|, |smallest| of Table 3.1; "*": the hanging rest point on the border of the partition
TABLE = [
    ("*", 2.2, 0.37), ("A", 1.68, 0.39), ("D", 1.68, 0.39), ("AA", 3.8, 0.21), ("DD", 3.8, 0.21), ("AAB", 26.0, 0.067),
    ("CDD", 26.0, 0.067), ("ABCD", 30.0, 0.02), ("ADCB", 30.0, 0.02), ("AAAAB", 43.0, 0.008), ("CDDDD", 43.0, 0.008),
]  # fmt: skip


def main() -> str:
    return "\n\n".join(["# Orbits in the section of the parametric pendulum", long_record(), *short_records()])


# -- the long record --------------------------------------------------------------------------------------------------


def long_record() -> str:
    model = kz.library.parametric_pendulum()
    record = kz.simulate(model, periods=LONG)
    found = kz.find_orbits(record, max_period=5)
    section = kz.orbits.strobe_record(record, noise=np.zeros(2))
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
        float(np.linalg.norm(circle_difference(np.roll(second, k, axis=0), first, ANGLES) / scale, axis=1).max())
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
        rest = circle_difference(ends, np.roll(points, -1, axis=0), ANGLES)
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
    rate = circle_difference(later[:, :1], states[:, :1], (True,))[:, 0] / READING
    period = float(experiment_model().period)
    return kz.Record.from_arrays(
        np.arange(count) * period, {"phi": states[:, 0], "phi'": rate}, angles=["phi"], segment=label, period=period
    )


def as_read(model: kz.Model, points: np.ndarray) -> np.ndarray:
    """Periodic points in the coordinates of the experiment: angle and difference quotient."""
    later = kz.Flow(model).propagate_many(points, 0.0, READING).state
    rate = circle_difference(later[:, :1], points[:, :1], (True,))[:, 0] / READING
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


def short_records() -> list[str]:
    truth = reference_orbits()
    clean = [experiment_record(seed) for seed in range(5)]
    return [noisy_section(level, clean, truth) for level in (5e-4, 5e-3)]


def noisy_section(level: float, clean: list[kz.Record], truth: list[tuple[np.ndarray, np.ndarray]]) -> str:
    size = np.array([2 * np.pi, np.ptp(clean[0]["phi'"])])
    inside: list[np.ndarray] = []
    multipliers: list[np.ndarray] = []
    matched = total = 0
    seen: dict[str, list[tuple[kz.PeriodicOrbit, np.ndarray]]] = {code: [] for code, *_ in TABLE}
    for seed in range(SEEDS):
        record = kz.measure(
            clean[seed % len(clean)], noise={"phi": level * size[0], "phi'": level * size[1]}, seed=seed
        )
        found = kz.find_orbits(record, max_period=5)
        listed: dict[str, tuple[kz.PeriodicOrbit, np.ndarray]] = {}
        for orbit in found:
            total += 1
            near = min(truth, key=lambda t: gap(t[0], orbit.points, size), default=None)
            if near is None or gap(near[0], orbit.points, size) > 0.015 + 4 * level:
                continue
            matched += 1
            shift = min(
                range(len(orbit.points)),
                key=lambda k: np.abs(circle_difference(np.roll(near[0], k, axis=0), orbit.points, ANGLES) / size).max(),
            )
            offset = circle_difference(orbit.points, np.roll(near[0], shift, axis=0), ANGLES).ravel()
            inside.append(np.abs(offset) < 1.645 * np.sqrt(np.diag(orbit.covariance)))
            wrong = np.abs(np.abs(orbit.multipliers) - np.abs(near[1]))
            multipliers.append(wrong < 1.645 * orbit.multiplier_deviation)
            for code, large, _ in TABLE:
                if same_code(orbit.code, code) and 0.5 < abs(near[1][0]) / large < 1.5:
                    listed.setdefault(code, (orbit, near[1]))
        for code, pair in listed.items():
            seen[code].append(pair)
    positions, sizes = float(np.mean(np.concatenate(inside))), float(np.mean(np.concatenate(multipliers)))
    rows = [
        Comparison("orbits found and recognised", "-", f"{matched} of {total}"),
        Comparison(
            "90 % intervals of positions hold", "-", f"{100 * positions:.1f} %", "80-97 %", 0.8 <= positions <= 0.97
        ),
        Comparison("90 % intervals of multipliers hold", "-", f"{100 * sizes:.1f} %", "80-97 %", 0.8 <= sizes <= 0.97),
    ]
    table = []
    for code, large, small in TABLE:
        found_sizes = np.array([np.abs(orbit.multipliers) for orbit, _ in seen[code]]).reshape(-1, 2)
        true_sizes = np.abs(seen[code][0][1]) if seen[code] else np.full(2, np.nan)
        middle = np.median(found_sizes, axis=0) if len(found_sizes) else np.full(2, np.nan)
        table.append(
            (code, large, small, *map(float, middle), *map(float, true_sizes), f"{len(found_sizes)} of {SEEDS}")
        )
    header = ["code", "Table 3.1 |μ1|", "|μ2|", "Kapitza |μ1|", "|μ2|", "shooting |μ1|", "|μ2|", "found in seeds"]
    title = f"## {SHORT} points with dry friction, rate from two readings, noise {level:g} of the attractor"
    note = (
        f"{SEEDS} noise seeds over {len(clean)} records. Medians over the seeds beside Table 3.1; codes are rotated to "
        "start with the first letter, * lies on the border of the partition. Orbits that are not recognised are not "
        "among those of the reference record."
    )
    return "\n\n".join([title, comparison_table(rows, "ORBITS"), note, markdown_table(header, table)])


def same_code(code: str, wanted: str) -> bool:
    """Whether a code can be read as the wanted one in some rotation; single border points ("*") may be anything."""
    if wanted == "*" or set(code) == {"*"}:
        return code == wanted
    turned = [wanted[k:] + wanted[:k] for k in range(len(wanted))]
    return len(code) == len(wanted) and any(all(a in ("*", b) for a, b in zip(code, t, strict=True)) for t in turned)
